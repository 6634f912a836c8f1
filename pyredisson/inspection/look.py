"""One look at all servers: who is connected, which locks there are, who holds them and who waits."""

from __future__ import annotations

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain
from typing import TypeAlias, final

import redis.exceptions as rx

from pyredisson._core.holder_lookup import (
    MAX_PRESENCE_BYTES,
    Connection,
    read_client_list,
    read_count,
    read_owner,
    read_presence,
)
from pyredisson._core.kind import StoredKind
from pyredisson._core.names import PRESENCE_KEYS, presence_key
from pyredisson.inspection.libraries import FOREIGN_SEMAPHORE, MAX_TOKEN, MAX_VALUE, TOKEN_SIZES, keys_of_lock
from pyredisson.inspection.model import LockView, numbered_kinds
from pyredisson.inspection.reading import (
    COUNT,
    PERMIT_KEYS,
    QUEUE_KEYS,
    Candidate,
    Stored,
    candidates_named,
    find_foreign_semaphores,
    find_hashes,
    find_permits,
    find_queues,
    find_strings,
    read_stored,
    scan,
    subscribed_names,
)
from pyredisson.inspection.servers import (
    MAX_DOUBTFUL,
    Server,
    Servers,
    answered,
    describe,
    encode_name,
    glob_to_pattern,
    in_batches,
)
from pyredisson.inspection.views import People, view_of

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how many keys were searched, and how many there are to search, both about."""

BATCH = 500  # locks that are read at a time
MAX_ID = 64  # characters of a client's id
PASSES = 5  # each key is looked at by type: strings, hashes, lists, sorted sets of two forms

_GLOB = frozenset("*?[\\")
_GLOB_BYTES = re.compile(rb"[*?\[\]\\]")


@final
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
                view = self.one(self._name)
                self._searched += 1
                if view is not None:
                    yield view
            return
        for server in self._masters:
            with suppress(rx.RedisError, OSError):
                self.keys += read_count(server.ask("DBSIZE")) or 0
        for server in self._masters:
            yield from self._read_all(server, self._hashes(server))
        for server, found in self._tokens():
            yield from self._read_all(server, found)
        yield from self._known_by_others()

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
                for keys in self._scan(server, b"string", self._pattern):
                    self._read_presence(self._clients_among(keys))
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
        for server, keys in self._by_server(kinds, optional=False).items():
            yield from self._read_all(server, [Candidate(key, kinds[key]) for key in keys])

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
            now = time.time()
            for each in read:
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
