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

#: The kind of all multi-locks, quorums included, for those who look.
KIND = "multi_lock"

#: How many fixed leases that ran out an owner is reminded of.
REMEMBERED = 1000


class MultiHold:
    """One hold among the nested ones of an owner of a multi-lock.

    Attributes:
        lease_ms: The lease that its members were taken with.
        watchdog: Renewed until it is released.
        watched: Its holder is notified when it is lost.
        block: As for :class:`pyredisson.core.ownership.ownership.Hold`.
        since: When it was acquired; without listeners, when it was requested.
        parts: The hold of each member; ``None`` where it is not held.
        votes: Which members count.
    """

    __slots__ = ("block", "lease_ms", "parts", "since", "votes", "watchdog", "watched")

    token: int | None = None  # Those of the members grow apart: there is none for all.

    def __init__(self, lease_ms: int, members: int, *, watchdog: bool, block: bool) -> None:
        self.block: Callable[[], object | None] | None = None
        self.lease_ms: int = lease_ms
        self.watchdog: bool = watchdog
        self.watched: bool = watchdog or block
        self.since: float = 0.0
        self.parts: list[Hold | None] = [None] * members
        self.votes: list[bool] = [True] * members

    @property
    def fixed_lease(self) -> float | None:
        """Seconds until it ends if it is not released; ``None`` if the watchdog renews it."""
        return None if self.watchdog else self.lease_ms / 1000

    def part(self) -> Hold:
        """A hold of one member, which is watched as a part of this one."""
        return Hold(self.lease_ms, watchdog=False, block=False, part=True, renewed=self.watchdog)


class MultiOwnership(Owned):
    """What one owner holds of one multi-lock. Plain state, to which a :class:`pyredisson.Lease` can be."""

    what = "lock"
    overlaps = OVERLAPS

    __slots__ = (
        "client",
        "extensions",
        "failed_renewals",
        "key",
        "listed_in",
        "loss",
        "members",
        "name",
        "open",
        "over",
        "owner",
        "ownerships",
        "quorum",
        "renew_at",
        "taking",
        "who",
    )

    def __init__(self, key: object, name: str, who: Caller, members: tuple[Member, ...], quorum: int) -> None:
        self.key: tuple[object, int] = (key, who.number)
        self.name: str = name
        self.who: Caller = who
        self.members: tuple[Member, ...] = members
        self.client: ClientCore = members[0].client
        self.owner: str = f"{self.client.id}:{who.number}"
        self.quorum: int = quorum
        self.mutex: AbstractContextManager[Any] = self.client.runtime.mutex()
        self.listed_in: object | None = None  # The keeper in whose table it is.
        self.mark: Callable[[], Any] | None = None  # What it has left in the context of its owner; see Mark.
        self.ownerships: tuple[Ownership, ...] = ()
        self.holds: list[MultiHold] = []
        self.taking: MultiHold | None = None  # Some of its members are taken, the others waited for.
        self.loss: str | None = None
        self.on_loss: tuple[Callable[[], None], ...] = ()
        self.call: CallNote = NO_CALL
        self.over: int = 0  # Plain holds that simply ran out, and whose unlock is to come.
        self.open: MultiHold | None = None  # Given back, and too few nodes have confirmed it.
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
        """Until when all that is held is certain; while members are waited for, each of those that are taken."""
        if self.taking is None:
            return self.deadline()
        parts = zip(self.ownerships, self.taking.parts, strict=True)
        return min((ownership.deadline for ownership, part in parts if part is not None), default=math.inf)

    def parts(self) -> list[tuple[Member, Ownership]]:
        """Its members, each with what its owner holds of it."""
        return list(zip(self.members, self.ownerships, strict=True)) if self.ownerships else []

    def clients(self) -> list[ClientCore]:
        """The clients of its members, each once."""
        return list(dict.fromkeys(member.client for member in self.members))

    def in_use(self) -> bool:
        """Whether its owner holds anything, has anything under way, or has yet to hear of an end."""
        return bool(self.holds or self.over or self.taking or self.open)

    def remaining(self, now: float) -> float:
        """Seconds for which the hold is certain."""
        return max(0.0, self.deadline() - now) if self.holds and self.loss is None else 0.0

    def renewable(self) -> bool:
        """Whether its members have to be renewed."""
        if self.taking is not None:
            return True
        if self.loss is None:
            for hold in self.holds:  # any() costs a generator, on the hot path.
                if hold.watchdog:
                    return True
        return False

    def watched(self) -> bool:
        """Whether its holder is to be notified when it is lost."""
        return self.loss is None and any(hold.watched for hold in self.holds)

    def lease_ms(self) -> int:
        """The lease to renew with."""
        wanted = [hold.lease_ms for hold in self.holds if hold.watchdog]
        if self.taking is not None:
            wanted.append(self.taking.lease_ms)
        return max(wanted)

    def extended_enough(self) -> bool:
        """Whether it is a quorum's, and was extended as often as it may be."""
        bound = self.client.config.quorum_max_extensions
        return bound is not None and self.members[0].quick and self.extensions >= bound

    def note_call(self, note: CallNote) -> None:
        """Note a call on it and its members."""
        for each in (self, *self.ownerships):
            each.call = note

    def idle(self) -> bool:
        """Whether it can be forgotten."""
        return not self.in_use()

    def begin(self) -> None:
        """It is idle, and stays for its owner's next time: that is a hold of its own."""
        self.loss = None
        self.on_loss = ()
        self.extensions = 0
        self.renew_at = math.inf
        self.failed_renewals = 0

    def expire(self, now: float) -> bool:
        """Draw the consequences if too little is certain. Returns whether a loss must be reported."""
        with self.mutex:
            if not self.holds or self.loss is not None or now < self.deadline():
                return False
            if any(hold.watched for hold in self.holds):
                bound = f"it was extended {self.extensions} times, as often as Config.quorum_max_extensions allows"
                enough = self.extended_enough() and self.renewable()
                self.loss = bound if enough else "too few of its members are certain to be held"
                return True
            self.over = min(self.over + len(self.holds), REMEMBERED)
            self.holds.clear()
            return False

    # ---- changes -------------------------------------------------------------------------------------------------

    def refresh(self) -> list[int]:
        """Make sure that these are its owner's ownerships of now. Returns how often each of them is held."""
        for ownership, member in zip(self.ownerships, self.members, strict=False):  # There are none at first.
            if ownership.table is not member.client.ownerships:
                break
        else:
            if self.ownerships:
                return [len(ownership.holds) for ownership in self.ownerships]
        self.ownerships = tuple([member.lock.ownership_of(self.who) for member in self.members])
        return [len(ownership.holds) for ownership in self.ownerships]

    def begin_to_take(self, hold: MultiHold) -> None:
        """Some members are taken and kept alive while others are waited for."""
        self.taking = hold

    def take_no_more(self) -> None:
        """No member is waited for any more."""
        self.taking = None

    def granted(self, hold: MultiHold) -> None:
        """Enough members are held."""
        self.taking = self.open = None
        self.holds.append(hold)

    def forget(self, hold: MultiHold) -> None:
        """Its owner wants no more of a hold, whatever becomes of its parts."""
        self.taking = None
        if hold in self.holds:
            self.holds.remove(hold)
        if not self.holds:
            self.loss = None
            self.extensions = 0

    def left_open(self, hold: MultiHold | None) -> None:
        """It was given back, and too few servers have confirmed it; ``None``: enough have."""
        self.open = hold

    def take_over(self) -> MultiHold | None:
        """The hold to give back next, or to go on with giving back."""
        return self.holds[-1] if self.holds else self.open

    def take_ended(self) -> bool:
        """Whether a hold has simply run out whose unlock was still to come: this is it."""
        ended = self.over > 0
        self.over -= ended
        return ended

    def clear(self) -> None:
        """Its owner has ended all of it."""
        self.holds.clear()
        self.loss = self.open = None
        self.over = 0

    def renewable_parts(self) -> list[tuple[Member, Ownership]]:
        """The members that are held, each with the ownership to renew."""
        holds = self.holds if self.taking is None else [*self.holds, self.taking]
        return [
            (member, ownership)
            for index, (member, ownership) in enumerate(zip(self.members, self.ownerships, strict=True))
            if ownership.loss is None and any(hold.parts[index] in ownership.holds for hold in holds)
        ]
