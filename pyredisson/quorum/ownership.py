"""What one owner holds of a multi-lock.

A multi-lock has nothing of its own in Redis: it is held as long as enough of its members are. So a
:class:`MultiOwnership` is a view on the ownerships of its members, and ends when too few of them are certain.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pyredisson.core.ownership.hold import Hold
from pyredisson.core.ownership.liveness import OVERLAPS
from pyredisson.core.ownership.owned import NO_CALL, CallNote, Owned
from pyredisson.core.ownership.ownership import Ownership
from pyredisson.quorum.decisions import certain_until

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.ownership.owner_protocols import Caller
    from pyredisson.quorum.member import Member

#: The kind of all multi-locks, quorums included, as inspection shows it.
KIND = "multi_lock"

#: How many expired fixed leases are remembered for the unlocks to come.
REMEMBERED = 1000


class MultiHold(Hold):
    """One hold among the nested ones of an owner of a multi-lock. It has no token, since each member has its own.

    Attributes:
        since: When it was acquired; without listeners, when it was requested.
        parts: The hold of each member; ``None`` where it is not held.
        votes: Which members count.
    """

    __slots__ = ("parts", "since", "votes")

    def __init__(self, lease_ms: int, members: int, *, watchdog: bool, block: bool) -> None:
        super().__init__(lease_ms, watchdog=watchdog, block=block)
        self.since: float = 0.0
        self.parts: list[Hold | None] = [None] * members
        self.votes: list[bool] = [True] * members

    def new_part(self) -> Hold:
        """A hold of one member, which is watched as a part of this one."""
        return Hold(self.lease_ms, watchdog=False, block=False, part=True, renewed=self.watchdog)


class MultiOwnership(Owned):
    """What one owner holds of one multi-lock. Plain state; a :class:`pyredisson.Lease` can refer to it."""

    what = "lock"
    overlaps = OVERLAPS

    def __init__(self, key: object, name: str, who: Caller, members: tuple[Member, ...], quorum: int) -> None:
        self.key: tuple[object, int] = (key, who.number)
        self.name: str = name
        self.who: Caller = who
        self.members: tuple[Member, ...] = members
        self.client: ClientCore = members[0].client
        self.owner: str = f"{self.client.id}:{who.number}"
        self.quorum: int = quorum
        self.mutex: AbstractContextManager[Any] = self.client.runtime.mutex()
        self.listed_in: object | None = None  # The table that it is in.
        self.mark: Callable[[], Any] | None = None  # What it has left in the context of its owner; see Mark.
        self.ownerships: tuple[Ownership, ...] = ()
        self.holds: list[MultiHold] = []
        self.acquiring: MultiHold | None = None  # Some of its members are acquired, the others waited for.
        self.loss: str | None = None
        self.on_loss: tuple[Callable[[], None], ...] = ()
        self.call: CallNote = NO_CALL
        self.expired: int = 0  # Unwatched holds that have expired, and whose unlock is to come.
        self.unconfirmed: MultiHold | None = None  # Released, and too few nodes have confirmed it.
        self.extensions: int = 0
        self.renew_at: float = math.inf
        self.failed_renewals: int = 0

    def deadline_of(self, hold: MultiHold) -> float:
        """Until when this hold is certain."""
        deadlines = [
            ownership.deadline
            for ownership, part, vote in zip(self.ownerships, hold.parts, hold.votes, strict=True)
            if vote and part in ownership.holds and ownership.loss is None
        ]
        return certain_until(deadlines, self.quorum)

    def deadline(self) -> float:
        """Until when all that is held is certain."""
        return min([self.deadline_of(hold) for hold in self.holds], default=-math.inf)

    def certain_until(self) -> float:
        """Until when all that is held is certain; while members are waited for, that of the acquired ones."""
        acquiring = self.acquiring  # Read once: another thread may end it.
        if acquiring is None:
            return self.deadline()
        parts = zip(self.ownerships, acquiring.parts, strict=True)
        return min((ownership.deadline for ownership, part in parts if part is not None), default=math.inf)

    def parts(self) -> list[tuple[Member, Ownership]]:
        """Its members, each with what its owner holds of it."""
        return list(zip(self.members, self.ownerships, strict=True)) if self.ownerships else []

    def clients(self) -> list[ClientCore]:
        """The clients of its members, each once."""
        return list(dict.fromkeys(member.client for member in self.members))

    def in_use(self) -> bool:
        """Whether its owner holds it, has a request in flight, or has yet to unlock an expired hold."""
        return bool(self.holds or self.expired or self.acquiring or self.unconfirmed)

    def remaining(self, now: float) -> float:
        """Seconds for which the hold is certain."""
        return max(0.0, self.deadline() - now) if self.holds and self.loss is None else 0.0

    def renewable(self) -> bool:
        """Whether its members have to be renewed."""
        return self.acquiring is not None or (self.loss is None and True in [hold.watchdog for hold in self.holds])

    def watched(self) -> bool:
        """Whether its holder is to be notified when it is lost."""
        return self.loss is None and any(hold.watched for hold in self.holds)

    def lease_ms(self) -> int:
        """The lease to renew with; also right after its owner has released it, in another thread."""
        wanted = [hold.lease_ms for hold in self.holds if hold.watchdog]
        acquiring = self.acquiring  # Read once, as above.
        if acquiring is not None:
            wanted.append(acquiring.lease_ms)
        return max(wanted, default=self.client.watchdog.lease_ms)

    def extended_enough(self) -> bool:
        """Whether it is a quorum's, and was extended as often as it may be."""
        bound = self.client.config.quorum_max_extensions
        return bound is not None and self.members[0].node != "" and self.extensions >= bound

    def note_call(self, note: CallNote) -> None:
        """Note a call on it and its members."""
        for each in (self, *self.ownerships):
            each.call = note

    def begin(self) -> None:
        """Reset it: it is idle, and stays in the table for its owner's next hold."""
        self.loss = None
        self.on_loss = ()
        self.extensions = 0
        self.renew_at = math.inf
        self.failed_renewals = 0

    def expire(self, now: float) -> bool:
        """End the holds if too few members are certain. Returns whether a loss must be reported."""
        with self.mutex:
            if not self.holds or self.loss is not None or now < self.deadline():
                return False
            if any(hold.watched for hold in self.holds):
                bound = f"it was extended {self.extensions} times, as often as Config.quorum_max_extensions allows"
                enough = self.extended_enough() and self.renewable()
                self.loss = bound if enough else "too few of its members are certain to be held"
                return True
            self.expired = min(self.expired + len(self.holds), REMEMBERED)
            self.holds.clear()
            return False

    # ---- changes -------------------------------------------------------------------------------------------------

    def refresh(self) -> list[int]:
        """Look the members' ownerships up again if they are outdated. Returns how often each of them is held."""
        outdated = not self.ownerships
        for member, ownership in self.parts():
            outdated = outdated or ownership.table is not member.client.ownerships
        if outdated:
            self.ownerships = tuple([member.lock.ownership_of(self.who) for member in self.members])
        return [len(ownership.holds) for ownership in self.ownerships]

    def set_acquiring(self, hold: MultiHold | None) -> None:
        """Some members are acquired, and renewed while others are waited for; ``None``: no member is waited for."""
        self.acquiring = hold

    def granted(self, hold: MultiHold) -> None:
        """Enough members are held."""
        self.acquiring = self.unconfirmed = None
        self.holds.append(hold)

    def forget(self, hold: MultiHold) -> None:
        """Its owner has no use for a hold any more, whatever becomes of its parts."""
        self.acquiring = None
        if hold in self.holds:
            self.holds.remove(hold)
        if not self.holds:
            self.loss = None
            self.extensions = 0

    def set_unconfirmed(self, hold: MultiHold | None) -> None:
        """It was released, and too few servers have confirmed it; ``None``: enough have."""
        self.unconfirmed = hold

    def next_to_release(self) -> MultiHold | None:
        """The hold to release next, or whose release is unconfirmed."""
        return self.holds[-1] if self.holds else self.unconfirmed

    def unlock_expired(self) -> bool:
        """Whether this unlock is that of a hold that has expired."""
        ended = self.expired > 0
        self.expired -= ended
        return ended

    def clear(self) -> None:
        """Its owner has released all of it by force."""
        self.holds.clear()
        self.loss = self.unconfirmed = None
        self.expired = 0

    def renewable_parts(self) -> list[tuple[Member, Ownership]]:
        """The members that are held, each with the ownership to renew."""
        acquiring = self.acquiring  # Read once, as above.
        holds = self.holds if acquiring is None else [*self.holds, acquiring]
        return [
            (member, ownership)
            for index, (member, ownership) in enumerate(self.parts())
            if ownership.loss is None and any(hold.parts[index] in ownership.holds for hold in holds)
        ]
