"""One look at all servers: who is connected, which locks there are, who holds them and who waits."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, islice
from typing import Any, NamedTuple, TypeAlias

import redis.exceptions as rx

from pyredisson._core.holder_lookup import (
    CLIENT_ID,
    MAX_PRESENCE_BYTES,
    Connection,
    read_client_list,
    read_count,
    read_owner,
    read_presence,
)
from pyredisson._core.kind import StoredKind
from pyredisson._core.names import (
    OBSERVERS,
    PRESENCE_KEYS,
    LockNames,
    QueueNames,
    ReadWriteNames,
    SemaphoreNames,
    presence_key,
    watched_channel,
)
from pyredisson.inspection.libraries import (
    FOREIGN_SEMAPHORE,
    MAX_TOKEN,
    MAX_VALUE,
    TOKEN_SIZES,
    keys_of_lock,
    may_be_known,
    read_token,
)
from pyredisson.inspection.model import MAX_OWNERS, LockView, People, Stored, numbered_kinds, usual_kind, view_of
from pyredisson.inspection.servers import (
    MAX_DOUBTFUL,
    Command,
    Server,
    Servers,
    answered,
    describe,
    encode_name,
    glob_to_pattern,
    in_batches,
    is_of_another_type,
    read_clock,
    read_numsub,
    read_scan,
    refusal_of,
)

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many keys were searched, and how many there are to search, both about."""

BATCH = 500  # locks that are read at a time
MAX_ID = 64  # characters of a client's id
MAX_RECORDS = 100_000  # of requests to semaphores within the last minute, of which the keys are noted
MAX_USERS = 1000  # of one semaphore within the last minute, of which the records are read
PASSES = 5  # each key is looked at by type: strings, hashes, lists, sorted sets of two forms

_GLOB = frozenset("*?[\\")
_GLOB_BYTES = re.compile(rb"[*?\[\]\\]")


class Look:
    """One look. It is used once.

    Args:
        servers: The servers.
        prefix: What stands before all names.
        pattern: As for ``SCAN MATCH``; ``None``: all names.
        progress: Called as the search goes on.
        deadline: When to stop searching, by ``time.monotonic()``.

    Attributes:
        people: Who is who.
        errors: Why not all locks are known: servers that do not answer, and what they refuse.
        doubts: What is not known of the locks, since it was refused: ``"connections"``, ``"waiters"``.
        answered: How many servers answered.
        unread: How many keys could not be read.
        progress: Called as the search goes on.
        keys: How many keys they have.
        complete: Whether all keys were searched.
        strings_left_out: Whether strings that may be locks or data were not listed: there are too many.
    """

    def __init__(
        self,
        servers: Servers,
        prefix: str = "",
        pattern: str | None = None,
        progress: Progress | None = None,
        deadline: float | None = None,
    ) -> None:
        self.people: People = People()
        self.errors: list[Exception] = []
        self.doubts: dict[str, Exception] = {}
        self.answered: int = 0
        self.unread: int = 0
        self.keys: int = 0
        self.complete: bool = True
        self.strings_left_out: bool = False
        self._servers = servers
        self._prefix = prefix
        self.progress: Progress | None = progress
        self._deadline = deadline
        self._asked = pattern is not None
        self._pattern = None
        self._name = None  # The key, if the pattern is a name.
        if pattern is not None and not _GLOB.intersection(pattern):
            self._name = encode_name(prefix + pattern)
        elif pattern is not None or prefix:
            self._pattern = _GLOB_BYTES.sub(rb"\\\g<0>", encode_name(prefix)) + encode_name(pattern or "*")
        self._wanted = None if self._pattern is None else glob_to_pattern(self._pattern)
        self._masters: list[Server] = []
        self._lost: list[Server] = []
        self._searched = 0
        self._seen: set[bytes] = set()
        self._with_total: set[bytes] = set()
        self._records: dict[bytes, set[bytes]] = defaultdict(set)
        self._records_noted = 0
        self._recorded: dict[bytes, Stored] = {}

    @property
    def keys_seen(self) -> int:
        """About how many keys were searched."""
        return self.keys if self.complete else min(self.keys, self._searched // PASSES)

    @property
    def is_blind(self) -> bool:
        """Whether nothing could be searched at all."""
        return bool(self.errors) and not self._searched

    def raise_errors(self, *, doubts: bool = False) -> None:
        """Raise the first error, if there was one; also why something is not known, if it matters."""
        for error in (*self.errors, *(self.doubts.values() if doubts else ())):
            raise error

    # ---- clients ---------------------------------------------------------------------------------------------------

    def meet(self) -> None:
        """Find the servers, and who is connected to them. Raises if there are none."""
        self._masters = masters = self._servers.masters()
        listed: list[Connection] = []
        for server in masters:
            try:
                listed += read_client_list(server.ask("CLIENT", "LIST"))
                self.answered += 1
            except (rx.ResponseError, rx.InvalidResponse) as error:
                self.answered += 1
                self._doubt("connections", error)  # This user may not list clients, or there are far too many.
            except (rx.RedisError, OSError) as error:
                self._lose(server, error)
        self.people = People(listed, not self.doubts and not self.errors)
        self._read_presence(self.people.connections)

    def _lose(self, server: Server, error: Exception) -> None:
        """Go on without a server that does not answer: what others have is shown, and that its locks are missing."""
        if server not in self._masters:
            return
        self._masters = [each for each in self._masters if each is not server]
        self._lost.append(server)
        self.complete = False
        if not self._servers.clustered:
            self.errors.append(error)
            return
        number = len(self._masters) + len(self._lost)
        self.errors.append(
            rx.ConnectionError(
                f"1 of {number} masters does not answer, its locks are missing: {server.node} ({describe(error)})"
            )
        )

    def _doubt(self, what: str, error: Exception) -> None:
        self.doubts.setdefault(what, error)

    def _refuse(self, error: Exception) -> None:
        """Note that a key could not be read: it is not known whether it is a lock."""
        self.unread += 1
        self.complete = False
        said = str(error).partition(" (")[0]
        if not any(str(each).startswith(said) for each in self.errors):
            self.errors.append(error)

    def find_presence(self) -> None:
        """Find the presence entries of all clients, also of those whose connections have no name."""
        match = _GLOB_BYTES.sub(rb"\\\g<0>", encode_name(self._prefix)) + PRESENCE_KEYS.encode()
        for server in self._masters:
            for keys in self._scan(server, b"string", match):
                self._read_presence(self._clients_among(keys))

    def _clients_among(self, keys: Iterable[bytes]) -> Iterator[str]:
        start = encode_name(self._prefix + PRESENCE_KEYS.removesuffix("*"))
        for key in keys:
            if key.startswith(start) and len(key) - len(start) <= MAX_ID:
                yield key.removeprefix(start).decode("utf-8", "replace")

    def _read_presence(self, client_ids: Iterable[str]) -> None:
        new = self.people.unknown_among(client_ids)
        keys = {encode_name(presence_key(each, self._prefix)): each for each in new}
        for server, some in self._by_server(keys, optional=True).items():
            for batch in in_batches(some, BATCH):
                with self._noted(server):
                    ask = [q for key in batch for q in (("GETRANGE", key, "0", str(MAX_PRESENCE_BYTES)), ("PTTL", key))]
                    answers, now = server.ask_many(ask, refused=partial(self._doubt, "owners")), time.time()
                    for key, value, left in zip(batch, answers[::2], answers[1::2], strict=True):
                        self.people.add(keys[key], read_presence(keys[key], value, left, now))

    def _by_server(self, keys: Iterable[bytes], *, optional: bool) -> Mapping[Server, list[bytes]]:
        """Return which of the keys each server has. One that no server has is an error, unless it is optional."""
        found: dict[Server, list[bytes]] = defaultdict(list)
        for each in keys:
            with suppress(rx.RedisError) if optional else self._noted():
                found[self._servers.of(each)].append(each)
        return {server: some for server, some in found.items() if server not in self._lost}

    @contextmanager
    def _noted(self, server: Server | None = None) -> Iterator[None]:
        """Note the error of a server, and go on: without it, if it does not answer."""
        try:
            yield
        except (rx.RedisError, OSError) as error:
            self.complete = False
            if server is not None and answered(error) == "not":
                self._lose(server, error)
            elif str(error) not in map(str, self.errors):
                self.errors.append(error)

    # ---- locks -----------------------------------------------------------------------------------------------------

    def views(self) -> Iterator[LockView]:
        """Yield all locks. What cannot be read is in ``errors``. Raises if no server can be found."""
        self.meet()
        if self._name is not None:
            with self._noted():
                yield from self._named(self._name)
            return
        for server in self._masters:
            with suppress(rx.RedisError, OSError):
                self.keys += read_count(server.ask("DBSIZE")) or 0
        for server in self._masters:
            yield from self._read_all(server, self._hashes(server))
        for server, found in self._tokens():
            yield from self._read_all(server, found)
        yield from self._known_by_others()

    def _named(self, key: bytes) -> list[LockView]:
        """Return the lock of a key, if there is one; of a semaphore with what clients report that are gone."""
        stored = self.stored(key)
        self._searched += 1
        if stored is None or stored.kind.number != "permits":
            return [] if stored is None else [self.view(stored)]
        self._find_uses()
        found = self._read_all(self._servers.of(stored.key), [Candidate(stored.key, stored.kind)])
        return self._look_again(list(found))

    def one(self, key: bytes) -> LockView | None:
        """Return the lock of a key; ``None`` if there is none. Raises if the server does not answer."""
        stored = self.stored(key)
        return None if stored is None else self.view(stored)

    def stored(self, key: bytes) -> Stored | None:
        """Return what is stored of a lock. Raises if the server does not answer."""
        key = self._main_key(key)
        server = self._servers.of(key)
        found = candidates_named(server, key, time.time(), lambda: self._numbered(server, key))
        [*read] = read_stored(server, found, self._sharded, doubt=partial(self._doubt, "waiters"))
        self._read_presence(_clients_in(read))
        return read[0] if read else None

    def _main_key(self, key: bytes) -> bytes:
        """Return which of the keys of a lock says who holds it: the first with the token that most of them have."""
        keys = keys_of_lock(key)
        if len(keys) == 1:
            return key
        values = [self._servers.of(each).ask_many([("GETRANGE", each, "0", str(MAX_VALUE))])[0] for each in keys]
        tokens = Counter(each for each in values if isinstance(each, bytes) and each)
        return next((keys[values.index(token)] for token, _ in tokens.most_common(1)), key)

    def _numbered(self, server: Server, key: bytes) -> StoredKind | None:
        """Return of which kind a number is, as far as clients use it."""
        reported = numbered_kinds().get(self.people.kind_of(key.decode("utf-8", "backslashreplace")) or "")
        return reported or next((each.kind for each in self._subscribed(server) if each.key == key), None)

    def view(self, stored: Stored) -> LockView:
        """Return the view of what is stored."""
        return view_of(stored, self.people, self._servers.of(stored.key).node, self._prefix, time.time())

    @property
    def _sharded(self) -> bool:
        try:
            return self._servers.publishes_by(*self._masters) == "SPUBLISH"
        except rx.ResponseError as error:
            self._doubt("waiters", error)
            return False

    def _scan(self, server: Server, kind: bytes, match: bytes | None) -> Iterator[list[bytes]]:
        with self._noted(server):
            for keys in scan(server, kind, match, self._is_late):
                self._searched += COUNT
                if self.progress is not None:
                    self.progress(min(self._searched, PASSES * self.keys), PASSES * self.keys)
                yield keys
        if self._is_late():
            self.complete = False

    def _is_late(self) -> bool:
        return self._deadline is not None and time.monotonic() > self._deadline

    def _tokens(self) -> list[tuple[Server, list[Candidate]]]:
        """Return what may be token locks, and read the presence entries among the strings."""
        likely, doubtful = ({server: list[Candidate]() for server in self._masters} for _ in range(2))
        for server in self._masters:
            with self._noted(server):
                for keys in self._scan(server, b"string", _OURS) if self._pattern is not None else ():
                    self._note_semaphores(keys)
                for keys in self._scan(server, b"string", self._pattern):
                    self._read_presence(self._clients_among(keys))
                    self._note_semaphores(keys)
                    sizes = TOKEN_SIZES if self.strings_left_out else range(1, MAX_TOKEN + 1)
                    for each, is_likely in find_strings(
                        server, keys, time.time(), asked=self._asked, sizes=sizes, refused=self._refuse
                    ):
                        (likely if is_likely or self._asked else doubtful)[server].append(each)
                    self._leave_out(doubtful)
        found = {server: likely[server] + doubtful[server] for server in self._masters if server in likely}
        there = {each.key for some in found.values() for each in some}
        return [(server, [each for each in some if _is_first(each.key, there)]) for server, some in found.items()]

    def _leave_out(self, doubtful: Mapping[Server, list[Candidate]]) -> None:
        """Forget strings that may be locks or data if there are as many as only a program's data are."""
        self.strings_left_out = self.strings_left_out or sum(map(len, doubtful.values())) > MAX_DOUBTFUL
        if self.strings_left_out:
            for each in doubtful.values():
                each.clear()

    def _hashes(self, server: Server) -> Iterator[Candidate]:
        """Yield all others: hashes, queues without a lock, semaphores of which permits are taken."""
        with self._noted(server):
            for keys in self._scan(server, b"hash", self._pattern):
                yield from find_hashes(server, keys, refused=self._refuse)
            for keys in self._scan(server, b"list", QUEUE_KEYS):
                yield from find_queues(keys)
            for keys in self._scan(server, b"zset", PERMIT_KEYS):
                yield from find_permits(keys)
            for keys in self._scan(server, b"zset", FOREIGN_SEMAPHORE + b"*"):
                yield from find_foreign_semaphores(keys)

    def _known_by_others(self) -> Iterator[LockView]:
        """Yield the numbers for which clients wait, or which they report to use."""
        kinds: dict[bytes, StoredKind] = {}
        for each in chain.from_iterable(map(self._subscribed, self._masters)):
            kinds.setdefault(each.key, each.kind)
        for name in self.people.names_in_use():
            if (kind := numbered_kinds().get(self.people.kind_of(name) or "")) is not None:
                kinds.setdefault(encode_name(name), kind)
        others = self._with_total.difference(kinds)
        kinds.update(dict.fromkeys(others, usual_kind("number")))
        views: list[LockView] = []
        for server, keys in self._by_server(kinds, optional=False).items():
            for view in self._read_all(server, [Candidate(key, kinds[key]) for key in keys]):
                if view.held or encode_name(self._prefix + view.name) not in others:
                    views.append(view)
        yield from self._look_again(views)

    def _look_again(self, views: list[LockView]) -> list[LockView]:
        """Return these views, with the permits that are missing still.

        Who reports them, and who used them of late, was read before their number. What was acquired until that was
        read is reported by now, or its record is there.
        """
        if not any(view.missing for view in views):
            return views
        again, known, seen = Look(self._servers, self._prefix), False, list[LockView]()
        with self._noted():
            again.meet()
            again._find_uses()
            known = not again.doubts
        for view in views:
            if view.missing:
                stored = self._recorded[encode_name(self._prefix + view.name)]
                server, stored.in_use = self._servers.of(stored.key), None
                with self._noted(server):
                    again._find_use(server, [stored] if known else [])
                view = view_of(stored, again.people, server.node, self._prefix, time.time())
            seen.append(view)
        return seen

    def _find_uses(self) -> None:
        """Read the presence entries of all clients, and note the use of semaphores."""
        for server in self._masters:
            for keys in self._scan(server, b"string", _OURS):
                self._read_presence(self._clients_among(keys))
                self._note_semaphores(keys)

    def _note_semaphores(self, keys: Iterable[bytes]) -> None:
        """Note which semaphores have a recorded number of permits, and which were used within the last minute."""
        reports = encode_name(self._prefix + PRESENCE_KEYS.removesuffix("*"))
        for key in keys:
            if key.startswith(_TOTAL):
                self._with_total.add(_unwrapped(key.removeprefix(_TOTAL)))
            elif (record := _RECORD.fullmatch(key)) and self._records_noted < MAX_RECORDS:
                self._records_noted += 1
                self._records[_unwrapped(record[1])].add(key)
            elif _REPORTS in key and not key.startswith(reports):
                self.people.others_report = True

    def _find_use(self, server: Server, them: Iterable[Stored]) -> None:
        """Find out which semaphores, of those with a recorded number of permits, are in use.

        Their scripts keep for a minute what the last request of each owner did. What was only refused permits has none.
        """
        if not self.complete or self._records_noted >= MAX_RECORDS:
            return
        for each in them:
            records = [key for key in self._records[each.key] if self.people.connected(_user(key)) is not False]
            each.in_use = len(records) > MAX_USERS
            if records and not each.in_use:
                outcomes = server.ask_many([("GET", key) for key in records], refused=partial(self._doubt, "waiters"))
                each.in_use = any(said is not None and not _is_refusal(said) for said in outcomes)

    def _subscribed(self, server: Server) -> list[Candidate]:
        with self._noted(server):
            try:
                return subscribed_names(server, self._sharded)
            except rx.ResponseError as error:
                self._doubt("waiters", error)
        return []

    def _read_all(self, server: Server, candidates: Iterable[Candidate]) -> Iterator[LockView]:
        for batch in in_batches(filter(self._is_new, candidates), BATCH):
            read: list[Stored] = []
            with self._noted(server):
                doubt = partial(self._doubt, "waiters")
                read = read_stored(server, batch, self._sharded, refused=self._refuse, doubt=doubt)
            self._read_presence(_clients_in(read))
            with self._noted(server):
                self._find_use(server, [each for each in read if each.recorded is not None])
            now = time.time()
            for each in read:
                if each.recorded is not None:
                    self._recorded[each.key] = each
                yield view_of(each, self.people, server.node, self._prefix, now)

    def _is_new(self, candidate: Candidate) -> bool:
        """Whether a key was not read yet, and is one of those that were asked for."""
        if candidate.key in self._seen or (self._wanted is not None and not self._wanted.fullmatch(candidate.key)):
            return False
        self._seen.add(candidate.key)
        return True


def _is_first(key: bytes, there: Container[bytes]) -> bool:
    """Whether no other key of its lock that is there goes before a key."""
    return next(each for each in keys_of_lock(key) if each in there) == key


def _clients_in(read: Iterable[Stored]) -> Iterator[str]:
    for stored in read:
        yield from (owner.client_id for each in (*stored.fields, *stored.queue) if (owner := read_owner(each)))


# ---- reading ---------------------------------------------------------------------------------------------------------
# Reading the keys of locks that were found: all that a view needs, in few requests and with bounded replies.


MAX_QUEUE = 100  # waiters of one fair lock that are read
MAX_READERS = 20  # whose time left is asked
MAX_HOLDS = 4  # and of how many of their holds
MAX_CHANNELS = 500  # in one question
MAX_NUMBER = 32  # digits


def read_stored(
    server: Server,
    candidates: Sequence[Candidate],
    sharded: bool,
    *,
    refused: Refused | None = None,
    doubt: Refused = lambda _: None,
) -> list[Stored]:
    """Read what is stored of these locks. One that has gone is left out.

    Args:
        server: The server.
        candidates: The locks.
        sharded: Whether clients publish by ``SPUBLISH``.
        refused: Called for each that cannot be read and is left out; ``None``: raise why.
        doubt: Called with why it is not known who waits.

    Raises:
        redis.exceptions.RedisError: The server does not answer.
        OSError: It does not answer.
    """
    now_ms = 1000 * read_clock(server.ask("TIME"))
    found = [Stored(each.key, each.kind, now_ms=now_ms) for each in candidates]
    found = _read_keys(server, found, refused, doubt)
    _read_queues(server, [each for each in found if each.queued], doubt)
    _read_readers(server, [each for each in found if each.mode == b"read"], doubt)
    _read_subscribers(server, found, sharded, doubt)
    return [each for each in found if each.exists or each.queued or each.subscribers or each.taken]


def _questions(stored: Stored) -> Iterator[tuple[Command, str, Callable[[Any], object]]]:
    """Yield what to ask, which attribute the answer is, and how it is read."""
    key, names, form = stored.key, stored.names, stored.kind.form
    yield ("PTTL", key), "left_ms", lambda left: left if isinstance(left, int) else -2
    if form in ("owners", "sides"):
        yield ("HSCAN", key, "0", "COUNT", str(MAX_OWNERS)), "fields", _read_fields
    else:
        yield ("GETRANGE", key, "0", str(MAX_VALUE)), "value", lambda value: value if isinstance(value, bytes) else None
    if form == "owners" and isinstance(names, LockNames):
        yield ("LLEN", encode_name(names.queue)), "queued", lambda queued: queued if isinstance(queued, int) else 0
        yield ("GETRANGE", encode_name(names.token), "0", str(MAX_NUMBER)), "token", read_count
    if form == "permits" and isinstance(names, SemaphoreNames):
        yield ("ZCOUNT", encode_name(names.taken), str(stored.now_ms), "+inf"), "taken", read_count
        ended = ("ZCOUNT", encode_name(names.taken), "-inf", f"({stored.now_ms}")
        yield ended, "ended", lambda count: read_count(count) or 0
    elif form == "number" and isinstance(names, SemaphoreNames):
        if key.startswith(FOREIGN_SEMAPHORE):
            yield ("ZCARD", key), "taken", read_count
        yield ("GETRANGE", encode_name(names.total), "0", str(MAX_NUMBER)), "recorded", read_count
    if form != "token" and isinstance(names, QueueNames):
        listed = ("ZCOUNT", encode_name(names.waiting), "-inf", f"({OBSERVERS}")
        yield listed, "listed", lambda count: read_count(count) or 0
    elif form == "number" and not stored.kind.subscribes:  # Who waits is in a sorted set that is named as the channel.
        yield ("ZCARD", encode_name(names.channel)), "listed", lambda count: read_count(count) or 0


#: Without these it is not known whether something is held.
_ESSENTIAL = frozenset({"left_ms", "fields", "value", "taken"})
#: Without these it is not known who waits.
_OF_WAITERS = frozenset({"queued", "listed"})


def _read_keys(server: Server, them: list[Stored], refused: Refused | None, doubt: Refused) -> list[Stored]:
    """Read the keys of locks. Returns those that could be read."""
    asked = [(each, *question) for each in them for question in _questions(each)]
    answers = server.ask_many([command for _, command, _, _ in asked], refused=lambda _: None)
    unread: set[bytes] = set()
    for (each, command, attribute, read), answer in zip(asked, answers, strict=True):
        if not isinstance(answer, Exception) or is_of_another_type(answer):
            setattr(each, attribute, read(answer))
        elif attribute not in _ESSENTIAL:
            each.waiters_known = each.waiters_known and attribute not in _OF_WAITERS
            doubt(refusal_of(answer, command))
        elif refused is None:
            raise refusal_of(answer, command)
        elif each.key not in unread:
            unread.add(each.key)
            refused(refusal_of(answer, command))
    return [each for each in them if each.key not in unread] if unread else them


def _read_fields(answer: Any) -> dict[bytes, bytes]:
    if isinstance(answer, Exception):
        return {}
    _, parts = read_scan("HSCAN", answer)
    return dict(islice(zip(parts[::2], parts[1::2], strict=False), MAX_OWNERS + 1))


def _read_queues(server: Server, them: list[Stored], doubt: Refused) -> None:
    queued = [(each, LockNames(each.names.name)) for each in them]
    questions = [("LRANGE", encode_name(names.queue), "0", str(MAX_QUEUE - 1)) for _, names in queued]
    queues = server.ask_many(questions, refused=doubt)
    for (stored, _), queue in zip(queued, queues, strict=True):
        members = queue if isinstance(queue, list) else []
        stored.waiters_known = stored.waiters_known and isinstance(queue, list)
        stored.queue = {each: 0 for each in members if isinstance(each, bytes) and read_owner(each) is not None}
    asked = [(stored, names, waiter) for stored, names in queued for waiter in stored.queue]
    answers = server.ask_many(
        [
            question
            for _, names, waiter in asked
            for question in (
                ("ZSCORE", encode_name(names.timeouts), waiter),
                ("HGET", encode_name(names.alive), waiter),
            )
        ],
        refused=doubt,
    )
    for (stored, _, waiter), *ends in zip(asked, answers[::2], answers[1::2], strict=True):
        until, ours = map(_milliseconds, ends)
        stored.queue[waiter] = 0 if until is None else until if ours is None else min(until, ours)


def _milliseconds(value: object) -> int | None:
    """Read a score: RESP2 has it as text, RESP3 as a number."""
    try:
        return int(float(value)) if isinstance(value, (bytes, int, float)) else None
    except (ValueError, OverflowError):
        return None


def _read_readers(server: Server, them: list[Stored], doubt: Refused) -> None:
    asked: list[tuple[Stored, bytes]] = []
    questions: list[Command] = []
    for stored in them:
        names = ReadWriteNames(stored.names.name)
        for owner, count in stored.owners[:MAX_READERS]:
            for number in range(1, 1 + min(MAX_HOLDS, read_count(count) or 0)):
                asked.append((stored, owner))
                questions.append(("PTTL", encode_name(names.read_hold(owner.decode(), number))))
    for (stored, owner), left in zip(asked, server.ask_many(questions, refused=doubt), strict=True):
        if isinstance(left, int) and left >= 0:
            stored.reads[owner] = max(left, stored.reads.get(owner, 0))


def _read_subscribers(server: Server, them: list[Stored], sharded: bool, doubt: Refused) -> None:
    counts: Counter[bytes] = Counter()
    known = True
    channels = [_channels(each) for each in them]
    batches = list(in_batches(dict.fromkeys(name for each in channels for name in each.values()), MAX_CHANNELS))
    for word in ("NUMSUB", "SHARDNUMSUB")[: 1 + sharded]:
        for reply in server.ask_many([("PUBSUB", word, *batch) for batch in batches], refused=doubt):
            counts.update(read_numsub(reply))
            known = known and not isinstance(reply, Exception)
    for stored, each in zip(them, channels, strict=True):
        stored.waiters_known = stored.waiters_known and (known or not each)
        count = {of: counts[name] for of, name in each.items()}
        # Of the clients in the wait queue some listen to the channel as well: the observers. A watch is no client.
        others = count.pop(b"waiting", 0) + count.pop(b"watching", 0)
        shared = max(0, count.pop(b"all", 0) - others) + stored.listed
        stored.subscribers = shared + len({waiter.split(b":")[0] for waiter in count if count[waiter]})


def _channels(stored: Stored) -> Mapping[bytes, bytes]:
    """Return the channels by who is subscribed to them: all, those in the wait queue, or one waiter for a fair lock."""
    names = stored.names
    if stored.kind.form == "token":
        return {}
    channels = {b"all": names.channel, b"watching": watched_channel(names.raw)}
    if isinstance(names, QueueNames):
        channels[b"waiting"] = names.waiting
    if isinstance(names, LockNames):
        channels |= {each: names.channel_of(each.decode()) for each in stored.queue}
    return {of: encode_name(channel) for of, channel in channels.items()}


# ---- scan ------------------------------------------------------------------------------------------------------------
# Finding what may be a lock among all keys of a server: by ``SCAN``, and with replies that stay small.
#
# A key's type and size are asked before what is in it, so that neither a huge value nor a huge hash is ever fetched.


COUNT = 4000  # keys that a server looks at for one reply: about a millisecond
MAX_OWNER_BYTES = 1024  # a field with all that Redis needs for it, on average

#: How keys of ours and of Redisson's begin that are no lock's own.
_INTERNAL = (b"pyredisson_", b"redisson_")

_SCORE_KEY = re.compile(rb"(.+):timeout", re.DOTALL)


Refused: TypeAlias = Callable[[Exception], object]
"""Called with the error of each question about a key that the server refuses: what the key is, is not known then."""


class Candidate(NamedTuple):
    """A key that may be a lock's.

    Attributes:
        key: The lock's own key. It may be missing, if only its queue or its waiters were found.
        kind: As what it is stored: of kinds that look the same, the first.
    """

    key: bytes
    kind: StoredKind


def scan(server: Server, kind: bytes, match: bytes | None, stop: Callable[[], bool]) -> Iterator[list[bytes]]:
    """Yield the keys of one type, as many at a time as the server hands out; none, for progress.

    Args:
        server: The server.
        kind: The type.
        match: A pattern.
        stop: Whether to end early.

    Raises:
        redis.exceptions.RedisError: The server does not answer, refuses, or hands out what is too large.
        OSError: It does not answer.
    """
    cursor, count = b"0", COUNT
    pattern: tuple[Any, ...] = () if match is None else ("MATCH", match)
    while not stop():
        typed = () if server.filters_types is False else ("TYPE", kind)
        try:
            reply = server.ask("SCAN", cursor, *pattern, "COUNT", count, *typed)
        except rx.InvalidResponse:
            if count == 1:
                raise
            count = max(1, count // 10)  # The names are huge: fewer at a time.
            continue
        except rx.ResponseError as error:
            if server.filters_types is not None or "syntax" not in str(error).lower():
                raise
            server.filters_types = False  # Before Redis 6.0.
            continue
        cursor, names = read_scan("SCAN", reply)
        if typed:
            server.filters_types = True
        else:
            types = server.ask_many([("TYPE", name) for name in names])
            names = [name for name, found in zip(names, types, strict=True) if found == kind]
        yield names
        if not int(cursor):
            return


def find_hashes(server: Server, keys: Sequence[bytes], *, refused: Refused | None = None) -> list[Candidate]:
    """Return those hashes that are stored as locks are: one field, or a mode and the owners.

    Args:
        server: The server.
        keys: The keys.
        refused: Called for each whose size the server does not tell; ``None``: raise that.
    """
    keys = [key for key in keys if not key.startswith(_ALIVE)]
    sizes = dict(zip(keys, server.ask_many([("HLEN", key) for key in keys], refused=refused), strict=True))
    several = [key for key, fields in sizes.items() if isinstance(fields, int) and fields > 1]
    modes = dict(
        zip(several, server.ask_many([("HSTRLEN", key, "mode") for key in several], refused=refused), strict=True)
    )
    likely = [
        (key, usual_kind("sides" if modes.get(key) in (4, 5) else "owners"), fields)
        for key, fields in sizes.items()
        if fields == 1 or modes.get(key) in (4, 5)
    ]
    # Only a hash whose fields and values are short is one of ours.
    samples = [str(MAX_OWNERS if fields > MAX_OWNERS else 0) for _, _, fields in likely]
    memory = server.ask_many(
        [("MEMORY", "USAGE", key, "SAMPLES", sampled) for (key, *_), sampled in zip(likely, samples, strict=True)],
        refused=lambda _: None,  # Some services do not know it. What is read is bounded in any case.
    )
    return [
        Candidate(key, kind)
        for (key, kind, fields), used in zip(likely, memory, strict=True)
        if not isinstance(used, int) or used - 4 * len(key) <= MAX_OWNER_BYTES * (fields + 1)
    ]


def find_strings(
    server: Server,
    keys: Iterable[bytes],
    now: float,
    *,
    asked: bool,
    sizes: Container[int] = range(1, MAX_TOKEN + 1),
    refused: Refused | None = None,
) -> list[tuple[Candidate, bool]]:
    """Return those strings that may be token locks, and whether each is one rather than data.

    Args:
        server: The server.
        keys: The keys.
        now: The time, in Unix seconds.
        asked: Whether the user asks for them, by a name or a pattern.
        sizes: Values of other sizes are not looked at, unless only a known library uses such keys.
        refused: Called for each that the server does not let us read; ``None``: raise that.
    """
    keys = [key for key in keys if not key.startswith(_INTERNAL)]
    lengths = server.ask_many([("STRLEN", key) for key in keys], refused=refused)
    short = [
        key
        for key, length in zip(keys, lengths, strict=True)
        if isinstance(length, int) and (length in sizes or may_be_known(key, length))
    ]
    questions = [each for key in short for each in (("GETRANGE", key, "0", str(MAX_VALUE)), ("PTTL", key))]
    read = server.ask_many(questions, refused=refused)
    found = []
    for key, value, left in zip(short, read[::2], read[1::2], strict=True):
        seen = read_token(key, value, now) if isinstance(value, bytes) else None
        expires = isinstance(left, int) and left > 0
        if seen is not None and (asked or seen.is_listed(expires=expires)):
            found.append((Candidate(key, usual_kind("token")), seen.is_likely(expires=expires)))
    return found


def _constant_part(key: str) -> bytes:
    """Return what all keys of a kind begin with, from the key of a lock without a name."""
    return key.removesuffix("{}").encode()


_QUEUE = _constant_part(LockNames("").queue)
_ALIVE = _constant_part(LockNames("").alive)

_TOTAL = _constant_part(SemaphoreNames("").total)
_RECORD = re.compile(
    re.escape(_constant_part(SemaphoreNames("").done("").removesuffix(":")))
    + rb"(.+):"
    + CLIENT_ID.encode()
    + rb":(?:-?\d{1,20}|left)",
    re.DOTALL,
)


def _user(record: bytes) -> str:
    """Return the id of the client whose request a record is of."""
    return record.rsplit(b":", 2)[1].decode()


def _is_refusal(said: object) -> bool:
    """Whether the last request of an owner was an acquire that was refused."""
    return isinstance(said, bytes) and said.endswith(b" 0")


#: The patterns of the keys that are ours alone, of those of queues, and of the permits that are taken.
_OURS = b"*pyredisson_*"
_REPORTS = PRESENCE_KEYS.removesuffix("*").encode()
QUEUE_KEYS = _QUEUE + b"*"
PERMIT_KEYS = b"*:timeout"


def find_queues(keys: Iterable[bytes]) -> list[Candidate]:
    """Return the locks that have these queues."""
    kind = usual_kind("owners")
    return [Candidate(_unwrapped(key.removeprefix(_QUEUE)), kind) for key in keys if key.startswith(_QUEUE)]


def find_permits(keys: Iterable[bytes]) -> list[Candidate]:
    """Return the semaphores that have these sorted sets of permits."""
    found = [_SCORE_KEY.fullmatch(key) for key in keys]
    return [Candidate(_unwrapped(each[1]), usual_kind("permits")) for each in found if each is not None]


def find_foreign_semaphores(keys: Iterable[bytes]) -> list[Candidate]:
    """Return those sorted sets that are named as semaphores of redis-semaphore are."""
    return [Candidate(key, usual_kind("number")) for key in keys if key.startswith(FOREIGN_SEMAPHORE)]


def _unwrapped(name: bytes) -> bytes:
    """Return a name as it was before Redisson's rules put it in braces."""
    inner = name[1:-1]
    return inner if name[:1] == b"{" and name[-1:] == b"}" and inner and b"{" not in inner else name


def subscribed_names(server: Server, sharded: bool) -> list[Candidate]:
    """Return the numbers for which clients wait: in Redis they look like any other number."""
    found = []
    for word in ("CHANNELS", "SHARDCHANNELS")[: 1 + sharded]:
        for kind in numbered_kinds().values():
            if kind.form == "number" and kind.subscribes:
                start = _constant_part(kind.names("").channel)
                reply = server.ask("PUBSUB", word, start + b"*")
                channels = reply if isinstance(reply, list) else ()
                found += [Candidate(name, kind) for each in channels if (name := _announced(kind, start, each))]
    return found


def _announced(kind: StoredKind, start: bytes, channel: object) -> bytes | None:
    """Return whose changes are announced on a channel; ``None`` if it is none of this kind's."""
    if not isinstance(channel, bytes) or not channel.startswith(start):
        return None
    rest = channel.removeprefix(start)
    for name in (rest[1:-1], rest):
        if name and encode_name(kind.names(name.decode("utf-8", "surrogateescape")).channel) == channel:
            return name
    return None


def candidates_named(
    server: Server, key: bytes, now: float, used_as: Callable[[], StoredKind | None]
) -> list[Candidate]:
    """Return what a key is stored as, if it may be a lock's. A missing key may have a queue, or waiters.

    Args:
        server: The server.
        key: The key.
        now: The time, in Unix seconds.
        used_as: As what clients use a number.
    """
    kind = server.ask("TYPE", key)
    text = key.decode("utf-8", "surrogateescape")
    if kind == b"hash":
        return find_hashes(server, [key])
    if kind == b"zset":
        return find_foreign_semaphores([key])
    if kind not in (b"string", b"none"):
        return []
    names = SemaphoreNames(text)
    permits, queue = server.ask_many([("EXISTS", encode_name(each)) for each in (names.taken, LockNames(text).queue)])
    if permits == 1:
        return [Candidate(key, usual_kind("permits"))]
    if kind == b"none":
        if queue == 1:
            return [Candidate(key, usual_kind("owners"))]
        used = used_as()
        return [] if used is None else [Candidate(key, used)]
    [value] = server.ask_many([("GETRANGE", key, "0", str(MAX_VALUE))])
    if read_count(value) is not None:
        return [Candidate(key, used_as() or usual_kind("number"))]
    return [candidate for candidate, _ in find_strings(server, [key], now, asked=True, sizes=range(MAX_VALUE + 1))]
