"""Finding what may be a lock among all keys of a server: by ``SCAN``, and with replies that stay small.

A key's type and size are asked before what is in it, so that neither a huge value nor a huge hash is ever fetched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import redis.exceptions as rx

from pyredisson.core.diagnosis.replies import read_count
from pyredisson.core.names import LockNames, SemaphoreNames
from pyredisson.core.stored import StoredKind
from pyredisson.inspection.foreign import FOREIGN_SEMAPHORE
from pyredisson.inspection.kinds import numbered_kinds, usual_kind
from pyredisson.inspection.libraries import MAX_TOKEN, MAX_VALUE, may_be_known, read_token
from pyredisson.inspection.replies import encode_name
from pyredisson.inspection.server_replies import read_scan
from pyredisson.inspection.servers import Server

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
