"""What ``threading``, ``asyncio``, Redisson and the contract say each call returns or raises. No I/O, no clock.

The rules:

1. An ownership (:class:`Own`) is what one owner (:class:`Who`) holds of one lock of one client: a number and a stack of
   holds. Each hold is itself: that one is released, extended, lost or counted.
2. The number is the thread's (task's, made owner's) as long as no other context of this thread is in the lock.
3. A hold is visible in the context in which it was acquired, and in copies that are made of that later.
4. A call acts as the ownership of that lock and thread of which it sees a hold; if there is none, as the thread's own
   number if that lock is not in use by this thread, else as a new one. Each member of a multi-lock decides by itself.
5. A hold of a multi-lock is one ordinary hold of each member. It is lost when one of them is.

Where they leave a choice, both answers are accepted, and the model goes on with the one that was given:

* what has ended by itself is not in use, but its number may be either one until it is unlocked,
* ``unlock()`` and ``extend()`` of a hold that ran out, called where it cannot be seen, find it or do not,
* a member of which only lost holds of a multi-lock are left may be acquired anew, or not before that is unlocked,
* a member's part of a multi-lock that has ended is given back at once, or when the multi-lock is unlocked,
* a hold with a fixed lease that was forced away is lost, or over once that lease has ended, too,
* a condition's wait that finds that its lock is gone ends one hold by that, all, or none,
* a multi-lock with a fixed lease is told to be lost, or not, if a member was lost otherwise when that lease ended,
* a multi-lock that two of its members refuse fails for the one reason or the other,

A step that could end in either way for another reason (two waiters of one lock, a release that might mean one of two
holds) raises :class:`Unclear`, and is not made.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyredisson import ClientClosedError, LockError, LockLostError, LockNotOwnedError
from tests.programs.steps import NOT_REENTRANT, SHORT, Step, Target, multi_name, targets_of

HELD, LOST, OVER, EITHER, RELEASED = "held", "lost", "over", "lost or over", "released"
#: A condition's wait has found that its lock was gone: one of the holds may have ended by that.
UNSURE = "lost or released"

Effect = Callable[[], object]


class Unclear(Exception):
    """The step can end in more than one way, or there is nothing to do it with."""


@dataclass
class Way:
    """One way in which a step may end.

    Attributes:
        match: A class of errors, a value, or a function that says whether it is this way.
        effect: What has changed then.
    """

    match: Any
    effect: Effect = lambda: None

    def fits(self, outcome: object) -> bool:
        """Whether that was the outcome: a value, or the error that was raised."""
        if isinstance(self.match, type):
            return type(outcome) is self.match
        if callable(self.match):
            return bool(self.match(outcome))
        return type(outcome) is type(self.match) and outcome == self.match

    def __repr__(self) -> str:
        return getattr(self.match, "__name__", repr(self.match))


def naming(name: str) -> Callable[[object], bool]:
    """A match for the error of a member that is held through a multi-lock."""

    def refused_since_held_through_a_multi_lock(outcome: object) -> bool:
        return type(outcome) is LockNotOwnedError and name in str(outcome)

    return refused_since_held_through_a_multi_lock


def one_of(values: Iterable[Any]) -> Any:
    """A match for any of these values."""
    allowed = set(values)
    if len(allowed) == 1:
        return allowed.pop()

    def among(outcome: object) -> bool:
        return outcome in allowed

    among.__name__ = f"one of {sorted(allowed)}"
    return among


@dataclass(eq=False)
class Hold:
    """One hold of a lock, of a block or a part of a multi-lock's."""

    own: Own
    lease: float | None
    block: int = 0
    multi: MultiHold | None = None
    state: str = HELD

    @property
    def watched(self) -> bool:
        return self.lease is None or bool(self.block)


@dataclass(eq=False)
class MultiHold:
    """One hold of a multi-lock."""

    targets: tuple[Target, ...]
    thread: int
    lease: float | None
    block: int
    parts: list[Hold] = field(default_factory=list)
    state: str = HELD

    @property
    def watched(self) -> bool:
        return self.lease is None or bool(self.block)

    @property
    def name(self) -> str:
        return multi_name(self.targets)


@dataclass(eq=False)
class Own:
    """What one owner holds of one lock, or of one side of a read-write lock.

    Attributes:
        gone: It is no longer in Redis, and its client does not know yet.
        short: It ends when the program lets leases end.
        least: When it ends at the earliest, if it was not lost.
        most: When it ends at the latest, unless it is renewed.
        token: The token of a fenced lock's holds, once that was seen.
    """

    who: Who
    side: str
    holds: list[Hold] = field(default_factory=list)
    gone: bool = False
    short: bool = False
    least: float = 0.0
    most: float = 0.0
    token: int | None = None

    def counts(self) -> set[int]:
        """How often Redis may say that it is held."""
        if self.gone:
            return {0}
        limbo = sum(1 for hold in self.holds if hold.multi is not None and hold.multi.state is not HELD)
        return {len(self.holds) - count for count in range(limbo + 1)}

    def bound(self) -> bool:
        """Whether any of it can only be released by its owner."""
        return any(not (hold.multi or hold).block for hold in self.holds)


@dataclass(eq=False)
class Who:
    """An owner, for one lock.

    Attributes:
        thread: The thread or task; negative: an owner that was made.
        usual: Whether it has the thread's own number; ``None``: that is not said.
        number: The number, once that was seen.
    """

    lock: Lock
    client: int
    thread: int
    usual: bool | None
    number: int | None = None
    owns: dict[str, Own] = field(default_factory=dict)

    def on(self, side: str) -> Own:
        """What it holds on one side."""
        return self.owns.setdefault(side, Own(self, side))

    def holds(self) -> list[Hold]:
        return [hold for own in self.owns.values() for hold in own.holds]

    def in_use(self) -> bool:
        return bool(self.holds()) or any(hold.own.who is self and hold.state is LOST for hold in self.lock.ended)


@dataclass(eq=False)
class Lock:
    """A lock as all clients of one place share it.

    Attributes:
        ended: Holds that were lost or have ended, and were not unlocked since.
        token: The last token that was seen.
        most: When a read-write lock ends at the latest: its sides share what was written last.
        waiter: Who waits for it, or is about to have it.
        conditions: Who waits for its condition, those first who have waited longest.
    """

    target: Target
    whos: list[Who] = field(default_factory=list)
    ended: list[Hold] = field(default_factory=list)
    token: int = 0
    most: float = 0.0
    waiter: Waiter | None = None
    conditions: list[Waiter] = field(default_factory=list)

    def owns(self, side: str | None = None) -> Iterator[Own]:
        """What is held of it."""
        for who in self.whos:
            for own in who.owns.values():
                if own.holds and side in (None, own.side):
                    yield own

    def mode(self) -> str:
        """Which side of a read-write lock is held, as it is stored: a writer may read, too."""
        sides = {own.side for own in self.owns()}
        return "write" if "write" in sides else next(iter(sides), "")

    def conflicts(self, own: Own) -> list[Own]:
        """Whose holds exclude this owner."""
        return [
            each
            for each in self.owns()
            if each.who is not own.who and max(each.counts()) and not (each.side == own.side == "read")
        ]


@dataclass(eq=False)
class Waiter:
    """An actor that waits.

    Attributes:
        step: The step.
        ready: Whether it has to go on.
        ways: How its step may end then.
        clients: The clients of what it waits for.
        joined: Called when it has begun to wait.
        gone: Called when it waits no longer.
        left: The lock that it has given up, for a condition, and what its owner had of it.
        notified: Whether its condition was notified.
        cancelled: Whether it was cancelled.
        began: When it began to wait.
    """

    step: Step
    ready: Callable[[], bool]
    ways: Callable[[], list[Way]]
    clients: tuple[int, ...] = ()
    joined: Effect = lambda: None
    gone: Effect = lambda: None
    left: Own | None = None
    holds: list[Hold] = field(default_factory=list)
    notified: bool = False
    cancelled: bool = False
    began: float = 0.0


@dataclass
class Plan:
    """How a step may end; or who begins to wait."""

    ways: list[Way] = field(default_factory=list)
    waiter: Waiter | None = None


@dataclass
class Tell:
    """A call of ``on_lock_lost`` that must come, or may."""

    client: int
    name: str
    who: Who | None
    must: bool
    logged: bool = False
    called: bool = False


@dataclass
class Block:
    """A block that was entered."""

    on: str
    hold: Any
    clients: tuple[int, ...]
    owner: int
    left: bool = False


class Locks:
    """The locks, and who holds them. ``tasks``: the owner is the task, whatever its context."""

    def __init__(self, *, tasks: bool, timeout: float) -> None:
        self.tasks = tasks
        self.timeout = timeout
        self.began = self.ended = 0.0
        self.locks: dict[tuple[int, str], Lock] = {}
        self.multis: list[MultiHold] = []
        self.seen: dict[tuple[int, int], set[object]] = {}
        self.closed: set[int] = set()
        self.closed_owners: set[int] = set()
        self.blocks: dict[int, Block] = {}
        self.tells: list[Tell] = []
        self.waiters: dict[int, Waiter] = {}
        self.ended_threads: set[int] = set()

    # ---- who acts ------------------------------------------------------------------------------------------------

    def sees(self, step: Step) -> set[object]:
        """What the context of a step sees."""
        return self.seen.setdefault((0, step.context) if step.context else (step.thread, 0), set())

    def visible(self, hold: Hold | MultiHold, step: Step) -> bool:
        return self.tasks or bool(step.owner) or hold in self.sees(step)

    @staticmethod
    def thread_of(step: Step) -> int:
        return -step.owner if step.owner else step.thread

    def lock(self, target: Target) -> Lock:
        return self.locks.setdefault(target.place, Lock(target))

    def act(self, step: Step, target: Target) -> Own:
        """What the owner holds as whom a call acts."""
        lock, thread = self.lock(target), self.thread_of(step)
        mine = [who for who in lock.whos if (who.client, who.thread) == (target.client, thread) and who.in_use()]
        for who in mine:
            seen = [*who.holds(), *(hold for hold in lock.ended if hold.own.who is who and hold.state is LOST)]
            if any(self.visible(hold, step) for hold in seen):
                return who.on(target.side)
        usual: bool | None = not mine
        if any((hold.own.who.client, hold.own.who.thread) == (target.client, thread) for hold in lock.ended):
            usual = None
        return Who(lock, target.client, thread, usual).on(target.side)

    @staticmethod
    def may_act_otherwise(own: Own) -> bool:
        """Whether a call may act as another owner of its thread, which has a hold that may be over, or not."""
        who, lock = own.who, own.who.lock
        key = (who.client, who.thread)
        unsure = [hold.own.who for hold in lock.ended if hold.state in (EITHER, UNSURE)]
        in_use = [each for each in lock.whos if each.in_use()]
        return who not in lock.whos and all(
            key in [(each.client, each.thread) for each in of] for of in (unsure, in_use)
        )

    def left_over(self, step: Step, target: Target, *, seen: bool = True) -> list[Hold]:
        """The caller's own holds that have ended and wait for their unlock; ``seen``: here, or by others only."""
        key = (target.client, self.thread_of(step), target.side)
        return [
            hold
            for hold in self.lock(target).ended
            if (hold.own.who.client, hold.own.who.thread, hold.own.side) == key and self.visible(hold, step) is seen
        ]

    def is_closed(self, targets: Iterable[Target]) -> bool:
        return any(target.client in self.closed for target in targets)

    # ---- changes -------------------------------------------------------------------------------------------------

    def grant(self, own: Own, step: Step, block: int = 0, multi: MultiHold | None = None) -> Hold:
        """One more hold."""
        hold, lock = Hold(own, step.lease, block, multi), own.who.lock
        if own.who not in lock.whos:
            lock.whos.append(own.who)
        for each in lock.ended:
            if (each.own is own or (each.own.who is own.who and own.side == "write")) and each.state is EITHER:
                each.state = OVER
        if not own.holds:
            own.gone, own.short, own.least, own.most, own.token = False, True, 0.0, 0.0, None
        adds = own.side == "write" and bool(own.holds)
        own.holds.append(hold)
        self.lasts(own, step.lease, adds=adds)
        own.short = own.short and step.lease == SHORT
        self.sees(step).add(hold)
        if multi is not None:
            multi.parts.append(hold)
        return hold

    def lasts(self, own: Own, lease: float | None, *, adds: bool = False) -> None:
        """It lasts for this lease from now on, at least."""
        seconds = self.timeout if lease is None else lease
        own.least = max(own.least, self.began + seconds)
        lock = own.who.lock
        own.most = max(own.most, self.ended + seconds, (lock.most + seconds) * adds)
        lock.most = max(lock.most, own.most)
        own.short = own.short and lease == SHORT

    def drop(self, hold: Hold) -> None:
        """A hold has been released, wherever it is."""
        own, lock = hold.own, hold.own.who.lock
        hold.state = RELEASED
        if hold in own.holds:
            own.holds.remove(hold)
            left = [self.timeout if each.lease is None else each.lease for each in own.holds]
            own.most = max(own.most, self.ended + max(left, default=0.0))
            lock.most = max(lock.most, own.most)
        if hold in lock.ended:
            lock.ended.remove(hold)
        self.tidy(lock)

    @staticmethod
    def tidy(lock: Lock) -> None:
        lock.whos = [who for who in lock.whos if who.in_use()]
        if not any(lock.owns()):
            lock.most = 0.0

    def give_back(self, multi: MultiHold) -> None:
        """A multi-lock has been unlocked: its parts are released."""
        multi.state = RELEASED
        self.multis.remove(multi)
        for part in multi.parts:
            if part.own.gone and part in part.own.holds:
                self.find_gone(part.own)
            self.drop(part)

    def end(self, own: Own, state: Callable[[Hold], str]) -> None:
        """All holds have ended."""
        lock = own.who.lock
        for hold in own.holds:
            hold.state = state(hold)
        lock.ended += own.holds
        own.holds, own.gone = [], False
        self.tidy(lock)

    def lose(self, own: Own, *, must: bool) -> None:
        """All holds were taken away. ``must``: their holder is told."""
        holds = own.holds
        single = any(hold.multi is None for hold in holds)
        self.tells.append(Tell(own.who.client, own.who.lock.target.name, own.who, must and single))
        multis = dict.fromkeys(hold.multi for hold in holds if hold.multi is not None)
        self.end(own, lambda hold: EITHER if hold.multi or (hold.lease == SHORT and not hold.block) else LOST)
        for multi in multis:
            self.lose_multi(multi, LOST, must=must)

    def lose_multi(self, multi: MultiHold, state: str, *, must: bool) -> None:
        """A part was taken away, or has ended."""
        told = any(each.state is LOST and set(each.targets) == set(multi.targets) for each in self.multis)
        if multi.state is OVER:
            must = False
        elif multi.state is not HELD:
            return
        else:
            # Its lease may have ended by itself when that is looked at.
            ends = state is LOST and multi.lease == SHORT and not multi.block
            multi.state = EITHER if ends else state
        if state is not OVER:
            for client in dict.fromkeys(target.client for target in multi.targets):
                self.tells.append(Tell(client, multi.name, None, must and multi.watched and not told))

    def find_gone(self, own: Own) -> None:
        """A call has found out that a key is gone."""
        if own.gone:
            self.lose(own, must=False)

    def spans(self) -> list[tuple[float, float]]:
        """When each of the short leases ends, at the earliest and at the latest."""
        return [(own.least, own.most) for lock in self.locks.values() if lock.whos for own in lock.owns() if own.short]

    def ended_by_time(self) -> None:
        """The short leases have ended."""
        over = [own for lock in self.locks.values() for own in lock.owns() if own.short]
        open_ = [own for own in over if own.who.client not in self.closed]
        multis = dict.fromkeys(hold.multi for own in open_ for hold in own.holds if hold.multi is not None)
        for own in over:
            if own.who.client in self.closed:
                blocks = [hold for hold in own.holds if (hold.multi or hold).block]
                for name in dict.fromkeys(
                    hold.multi.name if hold.multi else own.who.lock.target.name for hold in blocks
                ):
                    self.tells.append(Tell(own.who.client, name, None, must=False))
                own.holds.clear()
                self.tidy(own.who.lock)
            elif own.gone:
                self.find_gone(own)
            else:
                self._end_by_time(own)
        for multi in multis:
            unsure = any(part.state is EITHER for part in multi.parts)
            self.lose_multi(multi, LOST if multi.watched else EITHER if unsure else OVER, must=True)

    def _end_by_time(self, own: Own) -> None:
        blocks = any(hold.block for hold in own.holds)
        parts_watched = any(hold.multi is not None and hold.multi.watched for hold in own.holds)
        self.tells += [Tell(own.who.client, own.who.lock.target.name, own.who, must=blocks)] * (blocks or parts_watched)

        def state(hold: Hold) -> str:
            if hold.block:
                return LOST
            return EITHER if blocks or parts_watched else OVER

        self.end(own, state)

    # ---- who waits -----------------------------------------------------------------------------------------------

    def is_busy(self, step: Step) -> bool:
        """Whether the actor of a step, its context or its owner waits, or has ended."""
        waiting = self.waiters.values()
        return (
            step.thread in self.waiters
            or step.thread in self.ended_threads
            or any(step.context and step.context == waiter.step.context for waiter in waiting)
            or any(step.owner and step.owner == waiter.step.owner for waiter in waiting)
        )

    def wait(self, waiter: Waiter) -> None:
        """An actor has begun to wait."""
        self.waiters[waiter.step.thread] = waiter
        waiter.began = self.began
        waiter.joined()

    def next_ready(self) -> Waiter | None:
        """One who has to go on now."""
        return next((waiter for waiter in self.waiters.values() if self._is_over(waiter) or waiter.ready()), None)

    def _is_over(self, waiter: Waiter) -> bool:
        closed = any(client in self.closed for client in waiter.clients)
        return closed or (waiter.cancelled and waiter.left is None)

    def go_on(self, waiter: Waiter) -> list[Way]:
        """How the step of a waiter that is ready may end. It waits no longer."""
        if any(client in self.closed for client in waiter.clients):
            ways = [Way(ClientClosedError)]
        elif self._is_over(waiter):
            ways = [Way(CancelledError)]
        else:
            ways = waiter.ways()
        del self.waiters[waiter.step.thread]
        waiter.gone()
        if "+" in waiter.step.on:  # It had some of the members before.
            self.began = waiter.began
            for lock in map(self.lock, targets_of(waiter.step.on)):  # Perhaps beside a hold that has ended meanwhile.
                lock.most = max(lock.most, self.ended) + self.timeout
        return ways

    # ---- what one attempt does -----------------------------------------------------------------------------------

    def attempt(self, own: Own, step: Step, target: Target, before: tuple[Target, ...] = ()) -> list[Any]:
        """What an acquire of one lock may end with. ``before``: members that the same multi-lock has by then."""
        who, lock = own.who, own.who.lock
        if self.may_act_otherwise(own):
            raise Unclear
        if lock.waiter is not None and lock.waiter.step is not step and not lock.conflicts(own):
            raise Unclear
        held, reentrant = bool(own.holds), target.kind not in NOT_REENTRANT
        if own.gone:
            return [LockLostError] if reentrant else [LockLostError, LockError]
        left = self.left_over(step, target)
        results: list[Any] = []
        if any(hold.state is LOST and hold.multi is None for hold in left):
            return [LockLostError]
        unseen = [hold for hold in lock.ended if hold.own is own]  # It may see the other side of the lock alone.
        if any(hold.state in (LOST, EITHER, UNSURE) for hold in left + unseen):
            results.append(LockLostError)
        if held and not reentrant:
            return [*results, LockError]
        if target.side == "write" and not held:
            if any(each.side == "read" and each.place == target.place for each in before):
                return [*results, LockError, *[False] * bool(lock.conflicts(own))]
            if who.on("read").holds:
                return [*results, LockError]
            read = self.left_over(step, Target(target.client, target.name, "read"))
            if any(hold.state is LOST for hold in read):
                return [LockLostError]
            results += [LockLostError] * any(hold.state is not OVER for hold in read)
        conflicts = lock.conflicts(own)
        if any(0 in each.counts() for each in conflicts):
            raise Unclear
        return [*results, not conflicts]

    def stuck(self, step: Step, own: Own) -> bool | None:
        """Whether the wait for a lock could never end, since this very thread holds it for another call.

        ``None``: it may seem so to the client, which does not know yet that the thread has lost it.
        """
        if self.tasks:
            return False
        lock = own.who.lock
        mine = [
            each
            for each in lock.owns()
            if each.who is not own.who
            and each.bound()
            and (each.who.thread, each.who.client) == (step.thread, own.who.client)
        ]
        return any(each in lock.conflicts(own) for each in mine) or (None if mine else False)
