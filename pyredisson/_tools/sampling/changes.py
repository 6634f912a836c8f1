"""What must have happened to a lock between two views of it. Pure: it asks no server.

A release is known by its message, an expiry by its time or by the server's notification. Fair locks without waiters,
spin locks and token locks send no message, and look like any other: if their kind is not known, a hold that left no
message has ended, by a release or by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from pyredisson.inspection import LockView, Who
from pyredisson.inspection.model import stored_kinds

EventName: TypeAlias = Literal[
    "held", "free", "acquired", "released", "expired", "ended", "forced", "changed", "reentered", "no_lock"
]


@final
@dataclass(frozen=True)
class Evidence:
    """What was received between two views.

    Attributes:
        messages: How many messages of a release arrived.
        forced: Whether a tool reported that it had freed the lock.
        expired: Whether the server reported that the key has expired.
        overdue: Whether the time to live of the earlier view has passed.
        silent: Whether a client has reported that it is of a kind whose releases may send no message.
    """

    messages: int = 0
    forced: bool = False
    expired: bool = False
    overdue: bool = False
    silent: bool = False


NOTHING = Evidence()


@final
@dataclass(frozen=True)
class Change:
    """Something that happened to a lock.

    Attributes:
        event: What.
        who: Who acquired it or held it; ``None`` if that was not seen.
        count: How often: holds that ended between two views are counted only.
        handed_over: Whether another owner held it in the same interval before.
        holds: The holds of the owner now.
        number: The value of a semaphore or latch now.
        held: For how many seconds the owner has held it, as far as that is known.
        cause: Why the server no longer has it, if it was not released and that is known.
    """

    event: EventName
    who: Who | None = None
    count: int = 1
    handed_over: bool = False
    holds: int = 0
    number: int | None = None
    held: float | None = None
    cause: str | None = None


def owner_of(who: Who) -> str:
    """Return what an owner is called, on either side of a read-write lock."""
    return who.owner.removesuffix(":write") or who.label


def number_of(lock: LockView) -> int | None:
    """Return the value of a semaphore or latch."""
    return lock.permits if lock.count is None else lock.count


def changes(before: LockView | None, after: LockView | None, evidence: Evidence = NOTHING) -> Iterator[Change]:
    """Yield what happened between two views, in a possible order: what ended comes before what began.

    Args:
        before: The earlier view; ``None``: it was free.
        after: The later view.
        evidence: What was received meanwhile.
    """
    held, holds = _owners(before), _owners(after)
    ended = [who for owner, who in held.items() if owner not in holds]
    for index, who in enumerate(ended):
        yield Change(_end_of(before, after, evidence, has_message=index < evidence.messages), who)
    was, now = (None if each is None else number_of(each) for each in (before, after))
    unexplained = evidence.messages - len(ended)
    if unexplained > 0 and was is None and now is None and not (before and before.mode):
        yield Change("released", count=unexplained)
    begun = [who for owner, who in holds.items() if owner not in held]
    for who in begun:
        yield Change("acquired", who, handed_over=bool(ended), holds=who.holds)
    for owner, who in holds.items():
        if owner in held and held[owner].holds != who.holds:
            yield Change("reentered", who, holds=who.holds)
    if was != now and not (ended or begun):
        yield Change("changed", number=now)


def _owners(lock: LockView | None) -> Mapping[str, Who]:
    return {} if lock is None else {owner_of(who): who for who in lock.holders}


def _end_of(before: LockView | None, after: LockView | None, evidence: Evidence, *, has_message: bool) -> EventName:
    if evidence.forced:
        return "forced"
    if has_message:
        return "released"
    if evidence.expired or evidence.overdue:
        return "expired"
    kind = stored_kinds().get(before.kind) if before else None
    is_silent = evidence.silent or (kind is not None and not kind.announces)
    one_of_several = before and before.mode and after and after.mode  # Only the last reader sends a message.
    return "released" if is_silent or one_of_several else "ended"
