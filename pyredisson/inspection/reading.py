"""Reading the keys of locks that were found: all that a view needs, in few requests and with bounded replies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from pyredisson.core.diagnosis.replies import read_count, read_owner
from pyredisson.core.names import LockNames, NumberedNames, QueueNames, ReadWriteNames, SemaphoreNames
from pyredisson.core.waiting.protocol import OBSERVERS
from pyredisson.inspection.replies import MAX_TOKEN, read_numsub
from pyredisson.inspection.scan import MAX_OWNERS, Candidate
from pyredisson.inspection.server_replies import read_clock, read_scan
from pyredisson.inspection.servers import Command, Server, in_batches
from pyredisson.kinds.stored import StoredKind

MAX_QUEUE = 100  # waiters of one fair lock that are read
MAX_QUEUE_MEMORY = 8 * 1024 * 1024
MAX_READERS = 20  # whose time left is asked
MAX_HOLDS = 4  # and of how many of their holds
MAX_CHANNELS = 500  # in one question
MAX_CHANNEL = 1024  # bytes of their names; a longer one is asked for by itself
MAX_NUMBER = 32  # digits


@final
@dataclass
class Stored:
    """What is stored of one lock.

    Attributes:
        key: Its key.
        kind: As what it is stored.
        exists: Whether the key is there.
        left_ms: Its time to live: -1 if it has none.
        owners: The fields of its hash and their values.
        mode: The mode of a read-write lock.
        queue: Who waits for a fair lock, in order.
        queued: How many do.
        listed: How many clients are on the list of those that wait for it.
        scores: Until when each of them is considered alive, in ms since 1970.
        subscribers: How many clients are on that list, or subscribed to its channel.
        listening: How many to the channel of each waiter for a fair lock.
        reads: Until when the holds of a reader last, in ms from now.
        token: The fencing token.
        value: The string of a token lock, the permits or the count.
        taken: How many permits are taken.
        now_ms: The server's clock, in ms since 1970.
    """

    key: bytes
    kind: StoredKind
    exists: bool = False
    left_ms: int = -2
    owners: list[tuple[bytes, bytes]] = field(default_factory=list)
    mode: bytes | None = None
    queue: list[bytes] = field(default_factory=list)
    queued: int = 0
    listed: int = 0
    scores: dict[bytes, int] = field(default_factory=dict)
    subscribers: int = 0
    listening: dict[bytes, int] = field(default_factory=dict)
    reads: dict[bytes, int] = field(default_factory=dict)
    token: int | None = None
    value: bytes | None = None
    taken: int | None = None
    now_ms: float = 0.0


def names_of(stored: Stored) -> LockNames | NumberedNames:
    """Return the names of a lock. A name that is no UTF-8 survives in them."""
    return stored.kind.names(stored.key.decode("utf-8", "surrogateescape"))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def read_stored(server: Server, candidates: Sequence[Candidate], sharded: bool) -> list[Stored]:
    """Read what is stored of these locks. One that has gone is left out.

    Raises:
        redis.exceptions.RedisError: The server does not answer.
        OSError: It does not answer.
    """
    now_ms = 1000 * read_clock(server.ask("TIME"))
    found = [Stored(each.key, each.kind, now_ms=now_ms) for each in candidates]
    _read_keys(server, found)
    _read_queues(server, [each for each in found if each.queued])
    _read_readers(server, [each for each in found if each.mode == b"read"])
    _read_subscribers(server, found, sharded)
    return [each for each in found if each.exists or each.queued or each.subscribers or each.taken]


def _questions(stored: Stored) -> Iterator[Command]:
    """Yield as many questions for each lock as :func:`_answer` takes."""
    key, names = stored.key, names_of(stored)
    yield "PTTL", key
    match stored.kind.form:
        case "owners" | "sides":
            yield "HSCAN", key, "0", "COUNT", str(MAX_OWNERS)
        case "token":
            yield "GETRANGE", key, "0", str(MAX_TOKEN)
        case _:
            yield "GETRANGE", key, "0", str(2 * MAX_NUMBER)
    if stored.kind.form == "owners" and isinstance(names, LockNames):
        yield "LLEN", _bytes(names.queue)
        yield "GETRANGE", _bytes(names.token), "0", str(MAX_NUMBER)
    if stored.kind.form == "permits" and isinstance(names, SemaphoreNames):
        yield "ZCOUNT", _bytes(names.taken), str(stored.now_ms), "+inf"
    if isinstance(names, QueueNames) and stored.kind.form != "token":
        yield "ZCOUNT", _bytes(names.waiting), "-inf", f"({OBSERVERS}"


def _read_keys(server: Server, them: list[Stored]) -> None:
    questions = [list(_questions(each)) for each in them]
    answers = iter(server.ask_many([question for each in questions for question in each]))
    for each, asked in zip(them, questions, strict=True):
        _answer(each, [next(answers) for _ in asked])


def _answer(stored: Stored, answers: list[Any]) -> None:
    left, first, *others = answers
    stored.left_ms = left if isinstance(left, int) else -2
    stored.exists = stored.left_ms != -2
    if stored.kind.form in ("owners", "sides"):
        _, parts = read_scan("HSCAN", first) if not isinstance(first, Exception) else (b"", [])
        pairs = list(zip(parts[::2], parts[1::2], strict=False))[: MAX_OWNERS + 1]
        stored.mode = next((value for name, value in pairs if name == b"mode"), None)
        stored.owners = [pair for pair in pairs if read_owner(pair[0]) is not None]
        stored.exists = stored.exists and bool(stored.owners)
    else:
        stored.value = first if isinstance(first, bytes) else None
        stored.exists = stored.exists and stored.value is not None
    match stored.kind.form, others:
        case "owners", [queued, token, *_]:
            stored.queued = queued if isinstance(queued, int) else 0
            stored.token = read_count(token)
        case "permits", [taken, *_]:
            stored.taken = read_count(taken)
    if others:  # The clients in the wait queue are counted last.
        stored.listed = read_count(others[-1]) or 0


def _read_queues(server: Server, them: list[Stored]) -> None:
    names = [LockNames(each.key.decode("utf-8", "surrogateescape")) for each in them]
    memory = server.ask_many([("MEMORY", "USAGE", _bytes(each.queue)) for each in names])
    small = [
        (stored, name)
        for stored, name, used in zip(them, names, memory, strict=True)
        if not isinstance(used, int) or used <= MAX_QUEUE_MEMORY
    ]
    queues = server.ask_many([("LRANGE", _bytes(name.queue), "0", str(MAX_QUEUE - 1)) for _, name in small])
    asked: list[tuple[Stored, bytes]] = []
    questions: list[Command] = []
    for (stored, name), queue in zip(small, queues, strict=True):
        if not isinstance(queue, list):
            continue
        stored.queue = [each for each in queue if isinstance(each, bytes) and read_owner(each) is not None]
        for each in stored.queue:
            asked.append((stored, each))
            questions += [("ZSCORE", _bytes(name.timeouts), each), ("HGET", _bytes(name.alive), each)]
    answers = server.ask_many(questions)
    for (stored, waiter), score, alive in zip(asked, answers[::2], answers[1::2], strict=True):
        until = _milliseconds(score)
        ours = _milliseconds(alive)
        stored.scores[waiter] = until if ours is None or until is None else min(until, ours)  # type: ignore[assignment]
        if until is None:
            stored.scores[waiter] = 0


def _milliseconds(value: object) -> int | None:
    """Read a score: RESP2 has it as text, RESP3 as a number."""
    try:
        return int(float(value)) if isinstance(value, (bytes, int, float)) else None
    except (ValueError, OverflowError):
        return None


def _read_readers(server: Server, them: list[Stored]) -> None:
    asked: list[tuple[Stored, bytes]] = []
    questions: list[Command] = []
    for stored in them:
        names = ReadWriteNames(stored.key.decode("utf-8", "surrogateescape"))
        for owner, count in stored.owners[:MAX_READERS]:
            for number in range(1, 1 + min(MAX_HOLDS, read_count(count) or 0)):
                asked.append((stored, owner))
                questions.append(("PTTL", _bytes(names.read_hold(owner.decode(), number))))
    for (stored, owner), left in zip(asked, server.ask_many(questions), strict=True):
        if isinstance(left, int) and left >= 0:
            stored.reads[owner] = max(left, stored.reads.get(owner, 0))


def _read_subscribers(server: Server, them: list[Stored], sharded: bool) -> None:
    channels = {channel: 0 for stored in them for channel in _channels(stored)}
    for word in ("NUMSUB", "SHARDNUMSUB")[: 1 + sharded]:
        short = [channel for channel in channels if len(channel) <= MAX_CHANNEL]
        batches = [*in_batches(short, MAX_CHANNELS), *([each] for each in channels if len(each) > MAX_CHANNEL)]
        for reply in server.ask_many([("PUBSUB", word, *batch) for batch in batches]):
            for channel, count in read_numsub(reply).items():
                if channel in channels:
                    channels[channel] += count
    for stored in them:
        if stored.kind.form == "token":
            continue
        names = names_of(stored)
        stored.subscribers = channels.get(_bytes(names.channel), 0)
        if isinstance(names, QueueNames):
            # Of the clients in the wait queue some listen to the channel as well: the observers.
            ears = channels.get(_bytes(names.waiting), 0)
            stored.subscribers = max(0, stored.subscribers - ears) + stored.listed
        if isinstance(names, LockNames):
            for waiter in stored.queue:
                stored.listening[waiter] = channels.get(_bytes(names.channel_of(waiter.decode())), 0)


def _channels(stored: Stored) -> Iterable[bytes]:
    if stored.kind.form == "token":
        return
    names = names_of(stored)
    yield _bytes(names.channel)
    if isinstance(names, QueueNames):
        yield _bytes(names.waiting)
    if isinstance(names, LockNames):
        yield from (_bytes(names.channel_of(waiter.decode())) for waiter in stored.queue)
