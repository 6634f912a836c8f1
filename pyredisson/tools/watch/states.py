"""What one look sees of a lock, and what must have happened between two looks. Pure: it asks no server.

A look is one small request. Between two looks a release is known by its message, an expiry by its time or by the
server's notification. Fair locks without waiters, spin locks and token locks send no message, and look like any other:
if their kind is not known, what left no message has ended, by a release or by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, final

from pyredisson.core.diagnosis.replies import read_count, token_id
from pyredisson.core.names import WAITING, LockNames, SemaphoreNames
from pyredisson.core.waiting.protocol import OBSERVERS
from pyredisson.inspection.foreign import foreign_text
from pyredisson.inspection.kinds import stored_kinds
from pyredisson.inspection.replies import MAX_TOKEN, read_token

EventName: TypeAlias = Literal[
    "held", "free", "acquired", "released", "expired", "ended", "forced", "changed", "reentered", "no_lock"
]

MOST = 50  # holders of one lock that are looked at
_OWNER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+")
_WRITE = ":write"


@final
@dataclass(frozen=True)
class State:
    """A lock, semaphore or latch at one moment.

    Attributes:
        holders: The holds of each owner; an owner is a hash field, a permit's id or, for a string,
            the first digits of its SHA-256 behind ``"token"`` or ``"string"``.
        mode: ``"read"`` or ``"write"``, of a read-write lock.
        ends: Seconds until it expires; ``None`` if it is free, or never does.
        number: The value of a plain semaphore or a latch.
        token: The fencing token issued last.
        queued: How many waiters its queue has.
        subscribed: How many clients are subscribed to its channel.
        silent: Whether its releases may send no message: a token lock.
        foreign: What the key is, in words, if it is no lock.
    """

    holders: Mapping[str, int] = field(default_factory=dict)
    mode: str | None = None
    ends: float | None = None
    number: int | None = None
    token: int | None = None
    queued: int = 0
    subscribed: int = 0
    silent: bool = False
    foreign: str | None = None

    @property
    def waiting(self) -> int:
        """How many wait, as far as this sample shows."""
        return max(self.queued, self.subscribed)


@final
@dataclass(frozen=True)
class Evidence:
    """What was received between two looks.

    Attributes:
        messages: How many messages of a release arrived.
        forced: Whether a tool reported that it had freed the lock.
        expired: Whether the server reported that the key has expired.
        overdue: Whether the time to live of the earlier look has passed.
    """

    messages: int = 0
    forced: bool = False
    expired: bool = False
    overdue: bool = False


@final
@dataclass(frozen=True)
class Change:
    """Something that happened to a lock.

    Attributes:
        event: What.
        owner: Who acquired it or held it; ``None`` if that was not seen.
        count: How often: holds that ended between two looks are counted only.
        handed_over: Whether another owner held it in the same interval before.
        holds: The holds of the owner now.
        number: The value of a semaphore or latch now.
        held: For how many seconds the owner has held it, as far as that is known.
    """

    event: EventName
    owner: str | None = None
    count: int = 1
    handed_over: bool = False
    holds: int = 0
    number: int | None = None
    held: float | None = None


def channels_of(name: str) -> list[str]:
    """Return the channels on which the release of what has this name may be announced."""
    return list(dict.fromkeys(kind.names(name).channel for kind in stored_kinds().values()))


def look_at(name: str, *, sharded: bool = False) -> list[tuple[Any, ...]]:
    """Return the commands of one look; they belong together in one request."""
    lock = LockNames(name)
    return [
        ("PTTL", name),
        ("HSCAN", name, 0, "COUNT", MOST),
        ("GETRANGE", name, 0, MAX_TOKEN),
        ("ZRANGE", SemaphoreNames(name).taken, 0, MOST - 1),
        ("GET", lock.token),
        ("LLEN", lock.queue),
        ("PUBSUB", "SHARDNUMSUB" if sharded else "NUMSUB", *channels_of(name), lock.waiting),
        ("ZCOUNT", lock.waiting, "-inf", f"({OBSERVERS}"),
        ("TYPE", name),
    ]


def read_look(replies: Sequence[Any]) -> State:
    """Read the replies of a look. Whatever is of another type than expected counts as missing.

    Raises:
        redis.exceptions.ResponseError: The server does not answer such questions now, or not to this user.
    """
    time_to_live, found, value, permits, token, queued, subscribed, *listed = replies
    if isinstance(time_to_live, Exception):
        raise time_to_live
    holders: dict[str, int] = {}
    mode = number = None
    silent = False
    match found:
        case [_, [*parts]]:
            pairs = dict(zip(map(_text, parts[::2]), map(_text, parts[1::2]), strict=False))
            mode = pairs.get("mode")
            holders = {
                owner.removesuffix(_WRITE): _number(holds) or 1
                for owner, holds in list(pairs.items())[:MOST]
                if _OWNER.fullmatch(owner.removesuffix(_WRITE))
            }
    if isinstance(value, bytes) and value:
        number = read_count(value)
        seen = read_token(value, 0.0)
        if seen is not None:
            what = "token" if seen.has_form else "string"  # Only a program that uses it knows whether that is a lock.
            holders, silent = {f"{what} {token_id(value)}": 1}, True
    if isinstance(permits, list):
        holders.update((f"permit {permit.hex()}", 1) for permit in permits if isinstance(permit, bytes))
    counts = [each for each in listed if isinstance(each, int)]
    key_type = next((_text(each) for each in listed if isinstance(each, bytes)), "none")
    if isinstance(subscribed, list):
        for channel, count in zip(subscribed[::2], subscribed[1::2], strict=False):
            if isinstance(count, int):  # Of those in the wait queue some listen to the channel, too: the observers.
                counts.append(-count if _text(channel).startswith(f"{WAITING}:") else count)
    return State(
        holders=holders,
        mode=mode if mode in ("read", "write") else None,
        ends=time_to_live / 1000 if isinstance(time_to_live, int) and time_to_live >= 0 else None,
        number=number,
        token=_number(_text(token)) if isinstance(token, bytes) else None,
        queued=queued if isinstance(queued, int) else 0,
        subscribed=max(0, sum(counts)),
        silent=silent,
        foreign=None if holders or key_type in ("none", "string") else foreign_text(key_type),
    )


def changes(before: State, after: State, evidence: Evidence) -> Iterator[Change]:
    """Yield what happened between two looks, in a possible order: what ended comes before what began."""
    ended = [owner for owner in before.holders if owner not in after.holders]
    begun = [owner for owner in after.holders if owner not in before.holders]
    unexplained = evidence.messages - len(ended)
    for index, owner in enumerate(ended):
        yield Change(_end_of(before, after, evidence, has_message=index < evidence.messages), owner)
    if unexplained > 0 and not (before.number is not None or after.number is not None) and not before.mode:
        yield Change("released", count=unexplained)
    for owner in begun:
        yield Change("acquired", owner, handed_over=bool(ended), holds=after.holders[owner])
    for owner, holds in after.holders.items():
        if before.holders.get(owner, holds) != holds:
            yield Change("reentered", owner, holds=holds)
    if before.foreign != after.foreign and not begun:
        yield Change("free" if after.foreign is None else "no_lock")
    if before.number != after.number and not (ended or begun):
        yield Change("changed", number=after.number)


def _end_of(before: State, after: State, evidence: Evidence, *, has_message: bool) -> EventName:
    if evidence.forced:
        return "forced"
    if has_message:
        return "released"
    if evidence.expired or evidence.overdue:
        return "expired"
    one_of_several = before.mode is not None and after.mode is not None  # Only the last reader sends a message.
    return "released" if before.silent or one_of_several else "ended"


def _text(value: Any) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else ""


def _number(text: str) -> int | None:
    digits = text.removeprefix("-")
    return int(text) if digits.isdecimal() and digits.isascii() and len(digits) < 20 else None
