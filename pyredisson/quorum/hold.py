"""What the owners of this client hold of multi-locks, and the renewal of that.

A multi-lock has nothing of its own in Redis: it is held as long as enough of its members are. So a
:class:`MultiHold` is a view on the ownerships of its members, and ends when too few of them are certain. Its members
are in no watchdog: the :class:`Keeper` of the first member's client renews them all at once, a request a node and a
hundred names.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyredisson import events
from pyredisson.core.backoff import DoublingBackoff
from pyredisson.core.holder import BESIDE, GONE, gone_hint, holder_alive
from pyredisson.core.owner_table import OwnerTable
from pyredisson.core.ownership import Hold, Ownership
from pyredisson.core.replies import read_renewed
from pyredisson.core.runtime import Ask, Failure
from pyredisson.quorum.decisions import certain_until, node_timeout

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.runtime import Caller, Runtime
    from pyredisson.kinds.lock import LockCore

__all__ = ["Asks", "Keeper", "MultiHold", "MultiLevel"]

RETRY = DoublingBackoff(first=0.05, maximum=1.0)

#: How many fixed leases that ran out an owner is reminded of.
REMEMBERED = 1000

#: With so many holds in the table it is looked through for those that nobody will come for, or that are idle.
SWEEP_AT = 1000


class MultiLevel:
    """One hold among the nested ones of an owner of a multi-lock.

    Attributes:
        lease_ms: The lease that its members were taken with.
        watchdog: Renewed until it is released.
        watched: Its holder is told when it is lost.
        block: As for :class:`pyredisson.core.ownership.Hold`.
        since: When it was taken; while nobody listens, when it was asked for.
        parts: The member's own level, for each member; ``None`` where it is not held.
        votes: Which members count.
    """

    __slots__ = ("block", "lease_ms", "parts", "since", "votes", "watchdog", "watched")

    token: int | None = None  # Those of the members grow apart: there is none for all.

    def __init__(self, lease_ms: int, members: int, *, watchdog: bool, block: bool) -> None:
        self.block: Callable[[], object | None] | None = None
        self.lease_ms = lease_ms
        self.watchdog = watchdog
        self.watched = watchdog or block
        self.since = 0.0
        self.parts: list[Hold | None] = [None] * members
        self.votes = [True] * members

    def part(self) -> Hold:
        """A level for one member: quiet, since this one is watched as a whole."""
        return Hold(self.lease_ms, watchdog=False, block=False)


class Asks:
    """What an owner asks each node for when nothing is held yet, and when all is given back, as it was the last time.

    Attributes:
        lease_ms: The lease that it was for.
        ways: The runtime of each node, and how many seconds it is given.
        first: The acquire of each node, as it was last.
        last: The release.
    """

    __slots__ = ("first", "last", "lease_ms", "ways")

    def __init__(self, lease_ms: int, ways: list[tuple[Runtime, float]]) -> None:
        self.lease_ms = lease_ms
        self.ways = ways
        self.first = [Ask(runtime, None, timeout) for runtime, timeout in ways]
        self.last = list(self.first)


class MultiHold:
    """What one owner holds of one multi-lock. Plain state, to which a :class:`pyredisson.Lease` can be."""

    what = "lock"
    beside = BESIDE

    __slots__ = (
        "asks",
        "cores",
        "extensions",
        "failed_renewals",
        "holds",
        "key",
        "listed_in",
        "loss",
        "mark",
        "mutex",
        "name",
        "on_loss",
        "open",
        "over",
        "owner",
        "ownerships",
        "quick",
        "quorum",
        "renew_at",
        "taking",
        "who",
    )

    def __init__(
        self, key: object, name: str, who: Caller, cores: tuple[LockCore, ...], quorum: int, *, quick: bool
    ) -> None:
        self.key = (key, who.number)
        self.name = name
        self.who = who
        self.owner = f"{cores[0].client.id}:{who.number}"
        self.cores = cores
        self.quorum = quorum
        self.quick = quick  # Its members are nodes, which get but a small timeout.
        self.mutex = cores[0].client.runtime.mutex()
        self.listed_in: Keeper | None = None  # In whose table it is.
        self.mark: Callable[[], Any] | None = None  # What it has left in the context of its owner; see Mark.
        self.ownerships: tuple[Ownership, ...] = ()
        self.asks = Asks(0, [])
        self.holds: list[MultiLevel] = []
        self.taking: MultiLevel | None = None  # Some of its members are taken, the others waited for.
        self.loss: str | None = None
        self.on_loss: tuple[Callable[[], None], ...] = ()
        self.over = 0  # Plain holds that simply ran out, and whose unlock is to come.
        self.open: MultiLevel | None = None  # Given back, and too few nodes have said so.
        self.extensions = 0
        self.renew_at = math.inf
        self.failed_renewals = 0

    def deadline_of(self, level: MultiLevel) -> float:
        """Until when this level is certain."""
        deadlines = [
            ownership.deadline
            for ownership, part, vote in zip(self.ownerships, level.parts, level.votes, strict=True)
            if vote and part in ownership.holds and ownership.loss is None
        ]
        return certain_until(deadlines, self.quorum)

    def deadline(self) -> float:
        """Until when all that is held is certain."""
        return min([self.deadline_of(level) for level in self.holds], default=-math.inf)

    def only_parts(self, now: float) -> list[int] | None:
        """The members of the one level that is held, if each is certain, nothing is open beside, and they are enough.

        That is how nearly every hold ends; ``None`` if anything is otherwise.
        """
        levels = self.holds.copy()  # The watchdog may clear it.
        if len(levels) != 1 or self.loss is not None:
            return None
        level = levels[0]
        held: list[int] = []
        counted = 0
        for index, ownership in enumerate(self.ownerships):
            part = level.parts[index]
            if part is not None:
                if not ownership.has_only(part, now):
                    return None
                held.append(index)
                counted += level.votes[index]
        return held if counted >= self.quorum else None

    def has(self, level: MultiLevel) -> bool:
        """Whether that very level is among those that are held (or lost, and not yet unlocked)."""
        return level in self.holds

    def in_use(self) -> bool:
        """Whether its owner holds anything, has anything under way, or has yet to hear of an end."""
        return not self.idle()

    def bound(self) -> bool:
        """Whether any of it can only be released by its owner."""
        return any(level.block is None for level in self.holds)

    def bring_up(self, level: MultiLevel) -> None:
        """Make this level the one that is released next."""
        with self.mutex:
            if self.holds and self.holds[-1] is not level:
                self.holds.remove(level)
                self.holds.append(level)

    def marked(self, mark: Callable[[], Any]) -> None:
        """It has left this in the context of its owner."""
        self.mark = mark

    def call_when_lost(self, told: Callable[[], None]) -> None:
        """Call this, too, when it is lost."""
        self.on_loss = (*self.on_loss, told)

    def call_no_more(self, told: Callable[[], None]) -> None:
        """Its block was left."""
        self.on_loss = tuple(each for each in self.on_loss if each != told)

    def remaining(self, now: float) -> float:
        """Seconds for which the hold is certain."""
        return max(0.0, self.deadline() - now) if self.holds and self.loss is None else 0.0

    def renewable(self) -> bool:
        """Whether its members have to be renewed."""
        if self.taking is not None:
            return True
        if self.loss is None:
            for level in self.holds:  # any() costs a generator, on the hot path.
                if level.watchdog:
                    return True
        return False

    def watched(self) -> bool:
        """Whether somebody wants to be told when it is lost."""
        return self.loss is None and any(level.watched for level in self.holds)

    def lease_ms(self) -> int:
        """The lease to renew with."""
        wanted = [level.lease_ms for level in self.holds if level.watchdog]
        if self.taking is not None:
            wanted.append(self.taking.lease_ms)
        return max(wanted)

    def in_the_middle(self) -> bool:
        """Whether a call may be at work on it."""
        return self.taking is not None

    def idle(self) -> bool:
        """Whether it can be forgotten."""
        return not (self.holds or self.over or self.taking or self.open)

    def begin(self) -> None:
        """It is idle, and stays for its owner's next time: that is a hold of its own."""
        self.loss = None
        self.on_loss = ()
        self.extensions = 0
        self.renew_at = math.inf
        self.failed_renewals = 0

    def expire(self, now: float) -> bool:
        """Draw the consequences if too little is certain. Returns whether somebody must be told of a loss."""
        with self.mutex:
            if not self.holds or self.loss is not None or now < self.deadline():
                return False
            if any(level.watched for level in self.holds):
                self.loss = "too few of its members are certain to be held"
                return True
            self.over = min(self.over + len(self.holds), REMEMBERED)
            self.holds.clear()
            return False

    def renewable_parts(self) -> list[tuple[LockCore, Ownership]]:
        """The members that are held, each with the ownership to renew."""
        levels = self.holds if self.taking is None else [*self.holds, self.taking]
        return [
            (core, ownership)
            for index, (core, ownership) in enumerate(zip(self.cores, self.ownerships, strict=True))
            if ownership.loss is None and any(level.parts[index] in ownership.holds for level in levels)
        ]


class Keeper:
    """Renews the multi-locks of which a client has the first member, and tells of their losses.

    Plain methods note what to do; :meth:`step`, called by the client's watchdog, does it.
    """

    def __init__(self, client: ClientCore) -> None:
        self._client = client
        self._runtime = client.runtime
        self._table = OwnerTable[MultiHold](client.runtime)
        self._kept: dict[MultiHold, None] = {}
        self._sweep_at = SWEEP_AT

    # ---- the table of holds --------------------------------------------------------------------------------------

    def find(self, key: object, who: Caller) -> MultiHold | None:
        """What this owner holds, if anything."""
        return self._table.find((key, who.number))

    def enter(self, hold: MultiHold) -> MultiHold:
        """Put a hold into the table, unless there is one: then return that."""
        if len(self._table) >= self._sweep_at:
            self._sweep()
        return self._list(hold)

    def _list(self, hold: MultiHold) -> MultiHold:
        listed = self._table.enter(hold)
        listed.listed_in = self
        return listed

    def _sweep(self) -> None:
        """Forget what is idle, and what owners that are gone left behind with a fixed lease: nobody comes for that."""
        now = self._runtime.now()
        for hold in self.holds():
            if hold.idle() or (not hold.who.alive() and hold not in self._kept and not hold.remaining(now)):
                self._drop(hold)
                if not hold.idle() and hold.who.alive():
                    self._list(hold)  # Its owner has taken it in this very moment.
        self._sweep_at = max(SWEEP_AT, 2 * len(self._table))

    def _drop(self, hold: MultiHold) -> None:
        hold.listed_in = None
        self._table.drop(hold)

    def tidy(self, hold: MultiHold) -> None:
        """Its owner has done with it for now. An idle hold stays for the next time, until there are too many."""
        if hold.idle():
            self._kept.pop(hold, None)
            hold.begin()
        elif hold.listed_in is None:
            self.enter(hold)

    def of(self, key: object) -> list[MultiHold]:
        """All holds of one multi-lock."""
        return self._table.of(key)

    # ---- what to do ----------------------------------------------------------------------------------------------

    def keep(self, hold: MultiHold) -> None:
        """Renew this hold if it wants that, and tell its holder when it is lost."""
        if hold.renew_at == math.inf and hold.renewable():
            hold.renew_at = self._runtime.now() + hold.lease_ms() / 3000
        self._kept[hold] = None
        # Without a renewal, that is at its deadline; and there is none to come after it.
        at = hold.renew_at
        if at == math.inf and hold.holds:
            at = hold.deadline()
        self._client.watchdog.look(at)

    def leave_alone(self, hold: MultiHold) -> None:
        """Neither renew it nor tell of it, unless an outer level wants that."""
        if hold.taking is None and not (hold.holds and (hold.watched() or hold.renewable())):
            self._kept.pop(hold, None)
            hold.renew_at = math.inf

    def holds(self) -> list[MultiHold]:
        """Everything in the table."""
        return list(self._table)

    def keeping(self) -> int:
        """How many holds are renewed or watched."""
        return len(self._kept)

    def kept(self) -> list[MultiHold]:
        """The holds that are renewed or watched."""
        return list(self._kept)

    def drop(self, hold: MultiHold) -> None:
        """Nobody will come for it any more."""
        self._kept.pop(hold, None)
        self._drop(hold)

    def due(self) -> float:
        """When :meth:`step` has something to do next."""
        if not self._kept:
            return math.inf
        # A hold is told of at its deadline, and renewed before; both are looked up, since renewals move them.
        return min(
            [min(hold.renew_at, hold.deadline() if hold.holds else math.inf) for hold in list(self._kept)],
            default=math.inf,
        )

    async def step(self) -> None:
        """Do what is due."""
        if not self._kept:
            return
        self._tell_of_lost()
        now = self._runtime.now()
        due = [hold for hold in list(self._kept) if hold.renew_at <= now and self._to_renew(hold)]
        if due:
            await self.renew(due + [hold for hold in list(self._kept) if self._may_come_along(hold, now)])

    def _may_come_along(self, hold: MultiHold, now: float) -> bool:
        """Whether a hold that is not due yet is renewed with those that are, so that all of them come together."""
        if self._client.config.quorum_max_extensions is not None or not now < hold.renew_at < math.inf:
            return False
        return hold.renewable() and hold.renew_at <= now + hold.lease_ms() / 6000 and self._to_renew(hold)

    def _to_renew(self, hold: MultiHold) -> bool:
        if not holder_alive(hold):
            self._kept.pop(hold, None)
            self._drop(hold)
            self._client.emit(events.HolderGone(hold.name, hold.owner, gone_hint(hold)))
            return False
        bound = self._client.config.quorum_max_extensions
        if not hold.renewable() or (bound is not None and hold.taking is None and hold.extensions >= bound):
            hold.renew_at = math.inf  # It ends by itself, and its holder is told then.
            return False
        return True

    async def renew(self, holds: list[MultiHold]) -> None:
        """Renew these, all nodes at once: what moves their deadlines is a quorum, inside of what was certain."""
        batches: dict[tuple[ClientCore, object, int, bool, object], list[list[tuple[LockCore, Ownership, int]]]] = {}
        for hold in holds:
            lease = hold.lease_ms()
            for core, ownership in hold.renewable_parts():
                key = (core.client, core.kind.renew, lease, hold.quick, core.client.runtime.place(ownership.name))
                full = batches.setdefault(key, [[]])
                if len(full[-1]) >= core.client.config.lock_watchdog_batch_size:
                    full.append([])
                full[-1].append((core, ownership, ownership.generation))
        asks: list[Ask] = []
        asked: list[tuple[int, list[tuple[LockCore, Ownership, int]]]] = []
        for (client, _, lease, quick, _), parts in batches.items():
            for part in parts:
                request = part[0][0].kind.renew(
                    client.runtime,
                    [(ownership.name, core.kind.stored_as(ownership)) for core, ownership, _ in part],
                    lease_ms=lease,
                )
                patience = (
                    node_timeout(lease, client.config.quorum_node_timeout) if quick else client.attempt_timeout(lease)
                )
                asks.append(Ask(client.runtime, request, patience))
                asked.append((lease, part))
        sent = self._runtime.now()
        answers = await self._runtime.fan_out(asks) if asks else []
        self._tell_of_lost()  # An extension that comes too late is none.
        failed: Failure | None = None
        for (lease, part), answer in zip(asked, answers, strict=True):
            try:
                if isinstance(answer, Failure):
                    raise answer
                renewed = read_renewed(answer, len(part))
            except Failure as failure:
                failed = failure
                continue
            for (core, ownership, generation), kept in zip(part, renewed, strict=True):
                if kept:
                    ownership.renewed(generation, sent, lease)
                elif ownership.lose(GONE, generation):
                    self._tell_others(core.client, ownership)
        for hold in holds:
            self._renewed(hold, sent, failed)
        self._tell_of_lost()

    def _renewed(self, hold: MultiHold, sent: float, failed: Failure | None) -> None:
        """Settle when to renew it next: in a third of its lease if it was extended, else soon."""
        if not hold.renewable():
            hold.renew_at = math.inf
            return
        lease = hold.lease_ms() / 1000
        level = hold.taking or hold.holds[0]
        certain = (
            hold.deadline()
            if hold.taking is None
            else min(
                (
                    ownership.deadline
                    for ownership, part in zip(hold.ownerships, level.parts, strict=True)
                    if part is not None
                ),
                default=math.inf,
            )
        )
        if certain >= sent + lease / 2:
            hold.extensions += hold.taking is None
            hold.renew_at = sent + lease / 3
            hold.failed_renewals = 0
            return
        if failed is not None:
            self._client.emit(events.RenewalFailed(1, failed.cause, 1))
        retry = DoublingBackoff(RETRY.first, min(RETRY.maximum, lease / 10))
        hold.renew_at = self._runtime.now() + retry.pause(hold.failed_renewals, self._runtime.jitter)
        hold.failed_renewals += 1

    @staticmethod
    def _tell_others(client: ClientCore, ownership: Ownership) -> None:
        """A member was lost that its owner may hold in its own right, too."""
        client.watchdog.unwatch(ownership)
        if any(level.watched for level in ownership.holds):
            client.tell_lost(ownership)

    def _tell_of_lost(self) -> None:
        now = self._runtime.now()
        for hold in list(self._kept):
            if hold.holds and hold.expire(now):
                self.tell_lost(hold)
            if hold.taking is None and not hold.watched():
                self._kept.pop(hold, None)
                hold.renew_at = math.inf

    def tell_lost(self, hold: MultiHold) -> None:
        """A holder lost its multi-lock: say so to every client involved."""
        for told in hold.on_loss:
            told()
        for client in dict.fromkeys(core.client for core in hold.cores):
            client.emit(events.Lost(hold.name, f"{client.id}:{hold.who.number}", hold.loss or GONE))
            if client.config.on_lock_lost is not None:
                client.runtime.call_back(client.config.on_lock_lost, hold.name, hold.who.number)
