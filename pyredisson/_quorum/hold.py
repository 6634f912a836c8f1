"""One hold of a multi-lock: one ordinary hold of each member, and what makes them one.

A multi-lock has nothing of its own in Redis, and no owner, deadline or renewal of its own here: each part is a hold in
its member's ownership, acquired, renewed, extended, lost and released as any other. What is kept here says which parts
there are, how many are needed, and until when that many are certain.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from pyredisson._core import events
from pyredisson._core.deadline import lease_ms
from pyredisson._core.hold import CallNote, Hold, HoldState, Owned, lost_error
from pyredisson._quorum.decisions import certain_until

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyredisson._core.client import ClientCore
    from pyredisson._core.deadline import Seconds
    from pyredisson._core.failures import Failure
    from pyredisson._core.owners import Caller
    from pyredisson._core.ownership import Ownership
    from pyredisson._quorum.member import Member

#: Seconds after which a node that did not answer is lost, and for which a lost one is not believed to be back.
LOST_AFTER = 0.5
BACK_AFTER = 3.0

#: The kind of all multi-locks, quorums included, as inspection shows it.
KIND: Final = "multi_lock"

_lease_of: Callable[[Member], int] = attrgetter("client.watchdog.lease_ms")
_numbers = itertools.count(1)


class MultiHold(Owned):
    """One hold of a multi-lock by one owner; a :class:`pyredisson.Lease` can be of it.

    Attributes:
        block: As for :class:`Hold`; for all parts.
        client: The first member's client.
        key: Which multi-lock this is.
        members: Its members.
        number: The greater, the later it was begun.
        ownerships: What the owner holds of each member.
        parts: The hold of each member; ``None`` where none was acquired.
        quorum: How many are needed.
        released: Whether its unlock was sent, which too few servers have confirmed.
        since: When it was acquired; without listeners, when it was requested.
        state: What has become of it: NEW, HELD or OVER.
        votes: Which members count.
        watchdog: Whether it is renewed until it is released.
        watched: Whether its holder is notified when it is lost.
    """

    __slots__ = (
        "_ends",
        "_gone",
        "_lease",
        "_mutex",
        "block",
        "client",
        "key",
        "members",
        "number",
        "ownerships",
        "parts",
        "quorum",
        "released",
        "since",
        "state",
        "votes",
        "watchdog",
        "watched",
    )

    loss: str | None
    #: A multi-lock has no fencing token: each member has its own.
    token = None

    def __init__(
        self,
        members: tuple[Member, ...],
        quorum: int,
        key: object,
        name: str,
        who: Caller,
        lease_time: Seconds | None,
        *,
        block: bool = False,
    ) -> None:
        self.client: ClientCore = members[0].client
        super().__init__(name, f"{self.client.id}:{who.number}", who)
        self.members: tuple[Member, ...] = members
        self.quorum: int = quorum
        self.key: object = key
        self.number: int = next(_numbers)
        self.watchdog: bool = lease_time is None
        self.watched: bool = block or self.watchdog
        self.block: Callable[[], object | None] | None = None
        self.ownerships: tuple[Ownership, ...] = ()
        self.parts: list[Hold | None] = [None] * len(members)
        self.votes: list[bool] = [True] * len(members)
        self.since: float = 0.0
        self.state: HoldState = HoldState.NEW
        self.released: bool = False
        self._lease = None if lease_time is None else lease_ms(lease_time)
        self._ends = 0.0  # By its lease, if no member is lost.
        self._gone = False
        self._mutex = self.client.runtime.mutex()

    # ---- what it is ----------------------------------------------------------------------------------------------

    @property
    def fixed_lease(self) -> float | None:
        """Seconds until it ends if it is not released; ``None`` if the watchdogs renew it."""
        return None if self._lease is None else self._lease / 1000

    def lease_ms(self, member: Member | None = None) -> int:
        """Return the lease of the part of a member; of all parts the longest."""
        if self._lease is not None:
            return self._lease
        if member is not None:
            return member.client.watchdog.lease_ms
        return max(map(_lease_of, self.members))

    def each(self) -> list[tuple[int, Member, Ownership, Hold]]:
        """Return the parts that were acquired, each with its index, its member, and what the owner holds of that."""
        found = []
        for index, part in enumerate(self.parts):
            if part is not None:
                found.append((index, self.members[index], self.ownerships[index], part))
        return found

    def depth(self) -> int:
        """Return how often its owner holds this multi-lock, as far as these members tell."""
        now, parts = self.client.runtime.now(), (part for own in self.ownerships for part in own.holds)
        wholes = {id(part.whole): part.whole for part in parts if part.whole is not None}
        return sum(each.key == self.key and each.remaining(now) > 0 for each in wholes.values())

    def held(self) -> list[tuple[int, Member, Ownership, Hold]]:
        """Return the parts that are held, in the same form."""
        return [each for each in self.each() if each[3].state is HoldState.HELD]

    def note_node(self, index: int, failure: Failure | None) -> None:
        """Note whether a node of a quorum answers. Emits that it does not, or does again, once each.

        One late answer is no outage: it counts as lost if it has not answered for a while.
        """
        member, now = self.members[index], self.client.runtime.now()
        client = member.client
        since = client.away_since
        if failure is None:
            if since is None or (client.away_reported and now - since < BACK_AFTER):
                return
            reported, client.away_since, client.away_reported = client.away_reported, None, False
            if reported:
                self.client.emit(events.QuorumNodeBack(self.name, member.node, now - since))
        elif since is None:
            client.away_since = now
        elif not client.away_reported and now - since >= LOST_AFTER and member.node:
            client.away_reported = True
            left = sum(not each.client.away_reported for each in self.members)
            self.client.emit(events.QuorumNodeLost(self.name, member.node, failure.cause, left, self.quorum))

    def note_client(self, client: ClientCore, failure: Failure | None) -> None:
        """See :meth:`note_node`; by the client of a node."""
        index = next((at for at, member in enumerate(self.members) if member.client is client), None)
        if index is not None:
            self.note_node(index, failure)

    def clients(self) -> list[ClientCore]:
        """Return the clients of its members, each once."""
        return list(dict.fromkeys(member.client for member in self.members))

    def certain_until(self) -> float:
        """Until when enough members are certain; minus infinity if they are too few. Given up ones are not lost."""
        deadlines = []
        for own, part, vote in zip(self.ownerships, self.parts, self.votes, strict=True):
            if part is None or not vote:
                continue
            if part.state is HoldState.GIVEN_UP:
                deadlines.append(math.inf)
            elif part.state is HoldState.HELD and own.loss is None:
                deadlines.append(own.deadline)
        return certain_until(deadlines, self.quorum)

    def remaining_of(self, hold: Any, now: float) -> float:
        """See :meth:`Owned.remaining_of`; it is the hold itself."""
        return self.remaining(now)

    def remaining(self, now: float) -> float:
        """Seconds for which enough members are certain."""
        if self.state is not HoldState.HELD or self.released or self.loss is not None:
            return 0.0
        until = self.certain_until()
        return max(0.0, until - now) if until < math.inf else 0.0

    # ---- changes -------------------------------------------------------------------------------------------------

    def new_part(self, index: int, *, renewed: bool = False) -> Hold:
        """Return the hold of a member, which is yet to be acquired. ``renewed``: in any case, until all are there."""
        watchdog, lease = self.members[index].client.watchdog, self._lease
        if lease is None:
            part = Hold(watchdog.lease_ms, watchdog.certain, watchdog=True, whole=self)
        else:
            part = Hold(lease, watchdog=renewed, whole=self)
        part.watched = self.watched or renewed
        part.block = self.block
        bound = self.client.config.quorum_max_extensions
        if bound is not None and self.members[index].node:
            part.renewals_left = bound
        return part

    def note_call(self, note: CallNote) -> None:
        """Note a call on its members."""
        for each in self.ownerships:
            each.call = note

    def acquired(self) -> None:
        """Enough members are held."""
        self.state = HoldState.HELD
        if self._lease is not None:
            self._ends = self.certain_until()

    def extended(self) -> None:
        """Its members were renewed by its owner."""
        self._ends = max(self._ends, self.certain_until())

    def over(self) -> None:
        """Its owner has no use for it any more, whatever becomes of its parts."""
        self.state = HoldState.OVER
        self.forget_ended()

    def forget_ended(self) -> None:
        """No one asks any more what became of the parts that have ended."""
        for _, _, own, part in self.each():
            if part.state is not HoldState.OVER:
                own.forget(part)

    # ---- losses --------------------------------------------------------------------------------------------------

    def lost_part(self, *, quietly: bool = False) -> None:
        """A part was lost: if too few members are left, this is lost as well, and reported to all clients involved.

        A fixed lease of no block that simply ran out is no loss.
        """
        now = self.client.runtime.now()
        with self._mutex:
            standing = self.certain_until() > now or self._ran_out(now)
            if standing or self.loss is not None or self.state is not HoldState.HELD or self.released:
                return
            losses = (own.loss for _, _, own, _ in self.each())
            lost = next((each for each in losses if each is not None), "too few of its members are certain to be held")
            self.loss = self._why() or lost
        self.client.notify(self)
        for client in self.clients():
            client.announce_loss(self, self.loss, quietly=quietly)

    def _why(self) -> str | None:
        """Say that it was extended as often as it may be, if that is why it is lost."""
        bound = self.client.config.quorum_max_extensions
        if bound is None or not any(part.renewals_left == 0 for _, _, _, part in self.each()):
            return None
        return f"it was extended {bound} times, as often as Config.quorum_max_extensions allows"

    def find_loss(self) -> str | None:
        """Return why it is lost, if it is; a loss that was not noticed before is reported."""
        now = self.client.runtime.now()
        for _, member, own, _ in self.each():
            if now >= own.deadline:
                member.client.report_lost(own, own.expire(now))
        if self.state is HoldState.HELD and self.watched and self.certain_until() <= now:
            self.lost_part()
        return self.loss

    def raise_if_lost(self) -> None:
        """Raise ``LockLostError`` if it is lost, so that its owner cannot acquire once more.

        A fixed lease of no block would have ended by now in any case: then those around it matter.
        """
        now, found = self.client.runtime.now(), {self}
        if self.find_loss() is None and self.certain_until() > now:
            return
        for own in self.ownerships:
            found.update(part.whole for part in (*own.holds, *own.ended) if part.whole is not None and own.sees(part))
        for whole in found:
            if whole.key != self.key or whole.state is not HoldState.HELD or whole.released or whole._ran_out(now):
                continue
            if (lost := whole.find_loss()) is not None:
                raise lost_error(whole, lost)

    def _ran_out(self, now: float) -> bool:
        return not self.watched and now >= self._ends

    def holder_gone(self, hint: str) -> None:
        """No one can release it any more: emit that once, not for each member."""
        if not self._gone:
            self._gone = True
            self.client.emit(events.HolderGone(self.name, self.owner, hint, who=self.who.describe()))


def innermost(ownerships: Iterable[Ownership], key: object, found: MultiHold | None = None) -> MultiHold | None:
    """Return the innermost hold of a multi-lock, of ``found`` and among these, as far as it is visible here."""
    for own in ownerships:
        for part in (*reversed(own.holds), *reversed(own.ended)) if own.holds or own.ended else ():
            whole: MultiHold | None = part.whole
            if whole is None:
                continue
            if found is not None and whole.number <= found.number:
                break
            if whole.key == key and whole.state is HoldState.HELD and own.sees(part):
                found = whole
                break
    return found
