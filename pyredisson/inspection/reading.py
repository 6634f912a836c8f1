"""Reading the keys of locks that were found: all that a view needs, in few requests and with bounded replies."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple, TypeAlias, final

import redis.exceptions as rx

from pyredisson._core.holder_lookup import read_count, read_owner
from pyredisson._core.kind import StoredKind
from pyredisson._core.names import (
    OBSERVERS,
    LockNames,
    NumberedNames,
    QueueNames,
    ReadWriteNames,
    SemaphoreNames,
    watched_channel,
)
from pyredisson.inspection.libraries import FOREIGN_SEMAPHORE, MAX_TOKEN, MAX_VALUE, may_be_known, read_token
from pyredisson.inspection.model import numbered_kinds, usual_kind
from pyredisson.inspection.servers import (
    Command,
    Server,
    encode_name,
    in_batches,
    is_of_another_type,
    read_clock,
    read_numsub,
    read_scan,
    refusal_of,
)

MAX_QUEUE = 100  # waiters of one fair lock that are read
MAX_READERS = 20  # whose time left is asked
MAX_HOLDS = 4  # and of how many of their holds
MAX_CHANNELS = 500  # in one question
MAX_NUMBER = 32  # digits


@final
@dataclass
class Stored:
    """What is stored of one lock.

    Attributes:
        key: Its key.
        kind: As what it is stored.
        left_ms: Its time to live: -1 if it has none, -2 if there is no such key.
        fields: Those of its hash, and their values.
        queue: Who waits for a fair lock, in order, and until when each is considered alive, in ms since 1970.
        queued: How many do.
        listed: How many clients are on the list of those that wait for it.
        subscribers: How many clients are on that list, or subscribed to its channel or to those of its waiters.
        reads: Until when the holds of a reader last, in ms from now.
        token: The fencing token.
        value: The string of a token lock, the permits or the count.
        taken: How many permits are taken.
        ended: How many of those that were taken have expired, and are not available yet.
        recorded: How many permits there are in all, if that is recorded.
        now_ms: The server's clock, in ms since 1970.
        waiters_known: Whether the server let us see who waits.
    """

    key: bytes
    kind: StoredKind
    left_ms: int = -2
    fields: dict[bytes, bytes] = field(default_factory=dict)
    queue: dict[bytes, int] = field(default_factory=dict)
    queued: int = 0
    listed: int = 0
    subscribers: int = 0
    reads: dict[bytes, int] = field(default_factory=dict)
    token: int | None = None
    value: bytes | None = None
    taken: int | None = None
    ended: int = 0
    recorded: int | None = None
    now_ms: float = 0.0
    waiters_known: bool = True

    @property
    def exists(self) -> bool:
        """Whether the key is there, and holds what a lock of this kind does."""
        return self.left_ms != -2 and (self.value is not None or bool(self.owners))

    @cached_property
    def owners(self) -> list[tuple[bytes, bytes]]:
        """The fields of its hash that name owners, and their values."""
        return [(field, value) for field, value in self.fields.items() if read_owner(field) is not None]

    @property
    def ran(self) -> bool:
        """Whether who held it has run, and its name stays taken."""
        return any(owner.ran for field, _ in self.owners if (owner := read_owner(field)))

    @property
    def mode(self) -> bytes | None:
        """The mode of a read-write lock."""
        return self.fields.get(b"mode")

    @cached_property
    def names(self) -> LockNames | NumberedNames:
        """Its names. One that is no UTF-8 survives in them."""
        return self.kind.names(self.key.decode("utf-8", "surrogateescape"))


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
MAX_OWNERS = 1000  # of one read-write lock that are read
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

#: The patterns of the keys of queues, and of the permits that are taken.
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
