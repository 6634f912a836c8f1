"""The reentrant lock, and its variants: fenced, spin and non-reentrant locks.

The reentrant lock is Redisson's ``RLock``. Holds are counted exactly once, and losses are reported.

Source: ``org.redisson.RedissonLock``. What differs on purpose: a TTL is never lowered; a request carries the number of
holds that its client counts, so that repeating it is safe; the loss of a hold is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyredisson._core.acquiring import acquire
from pyredisson._core.deadline import Seconds, lease_ms, optional_lease_ms, wait_seconds
from pyredisson._core.failures import Failure, ended_inside, never_expires, timed_out
from pyredisson._core.hold import CLOSED_IN_WAIT, HolderCore, HoldState, SingleHold, lost_error
from pyredisson._core.kind import FREES_ALL_OWNERS, LockKind, StoredKind
from pyredisson._core.names import LockNames
from pyredisson._core.ownership import Ownership
from pyredisson._core.releasing import (
    ensure_held,
    extend,
    force_unlock,
    hand_over,
    leave_behind_call,
    leave_block,
    other_holder,
    other_local_holder,
    to_release,
    unlock,
)
from pyredisson._core.requests import (
    MAX_DIGITS,
    AcquireCall,
    LockAcquired,
    Outcome,
    ReadyRequests,
    ReleaseCall,
    read_count,
    unusable,
)
from pyredisson._core.runtime import PUBLISH, Progress, Reply, Request, Runtime
from pyredisson._core.waiting import NEVER_YIELDS, ByMessage, Delays, Fairness, Polling, Waiting
from pyredisson.errors import LockError, LockTimeoutError

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson._core.client import ClientCore
    from pyredisson._core.owners import Caller, HandleOwner
    from pyredisson.lease import Lease

#: The message of an unlock on the lock's channel. It wakes one waiter of each client that listens; ``1`` wakes all.
UNLOCKED: Final = "0"


def renew_locks(runtime: Runtime, held: Sequence[tuple[str, str]], *, lease_ms: int) -> Request:
    """Make the request that renews many locks, given as (key, owner)."""
    keys, owners = zip(*held, strict=True)
    return runtime.prepare("lock_renew", keys, (lease_ms, *owners))


class PlainKind(LockKind):
    """The reentrant lock."""

    __slots__ = ()

    renew: Callable[..., Request] = staticmethod(renew_locks)
    waiting: Waiting = ByMessage()
    #: The word by which scripts publish; empty: they do not.
    publish: ClassVar[str] = PUBLISH
    has_wait_queue = True

    def acquire(self, call: AcquireCall, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.acquire`."""
        args = call.lease_ms, call.count
        return self.request("lock_acquire", call.ownership, args, epoch=epoch, repeat=repeat, update=call.update)

    def release(self, call: ReleaseCall, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.release`."""
        args = call.lease_ms, call.count, self.publish, UNLOCKED
        keys = self.names.channel, *self.wait_queue_keys()
        return self.request("lock_release", call.ownership, args, keys, epoch=epoch, repeat=repeat)

    def force(self, ownership: Ownership, epoch: int) -> Request:
        """See :meth:`LockKind.force`."""
        args, keys = (self.publish, UNLOCKED), (self.names.channel, *self.wait_queue_keys())
        return self.request("lock_force_unlock", ownership, args, keys, epoch=epoch)

    def leave_queue(self, member: str) -> Request:
        """See :meth:`LockKind.leave_queue`."""
        names = self.names
        return self.client.runtime.prepare("lock_stop_waiting", (names.raw, names.waiting), (member, PUBLISH))


def _is_alone(ownership: Ownership) -> bool:
    """Whether nothing else of its thread and lock is in use: neither another side, nor by another call chain."""
    others = [] if ownership.chains is None else [each for each in ownership.chains.members if each is not ownership]
    return all(each.who is ownership.who and not (each.in_use() or each.loss or each.ended) for each in others)


class LockCore(HolderCore[Ownership]):
    """One handle on a lock. Cheap, without state of its own, and shared by threads and tasks at will.

    Args:
        client: The client.
        name: The lock's name, or its names.
        kind: The kind of lock; ``None``: a new one of ``kind_type``.

    Attributes:
        covers: What its owner's mark is about.
        last: The ownership used last, so that it need not be looked up.
        made_for: The owner that the user made, if it acts for one.
    """

    __slots__ = ("client", "covers", "kind", "last", "made_for", "names")

    #: How it is stored, for inspections.
    stored: ClassVar[StoredKind] = StoredKind("lock", "lock", "owners", LockNames, force_unlock=FREES_ALL_OWNERS)
    kind_type: ClassVar[type[LockKind]] = PlainKind

    def __init__(self, client: ClientCore, name: str | LockNames, kind: LockKind | None = None) -> None:
        self.client: ClientCore = client
        self.names: LockNames = LockNames(name, client.config.prefix) if isinstance(name, str) else name
        client.check_names(self.names)
        self.kind: LockKind = kind or self.kind_type(client, self.names)
        self.made_for: HandleOwner | None = None
        self.last: Ownership | None = None

    def acting_for(self, caller: HandleOwner | None) -> Self:
        """Acquire and release for an owner that the user made, whichever thread or task calls."""
        self.made_for = caller
        return self

    def describe(self) -> str:
        """Return its state as this client knows it, for ``repr``; asks no server."""
        return f"{self.names.name!r}{self.state()}"

    def state(self, what: str = "") -> str:
        """Return the owners of this client that hold it, and the number of its waiters; ``what`` they hold."""
        text, now = "", self.client.runtime.now()
        for own in self.kind.listed():
            held = own.remaining(now) > 0
            if own.holds and (held or own.loss is not None or own.watched()):  # Else it has simply run out.
                state = "held" if held else "lost"
                text += f" {state}{what} by {own.owner[:4]}…:{own.who.number} ×{len(own.holds)}"
        waiting = self.waiting()
        return f"{text}, {waiting} waiting here{what}" if waiting else text

    def waiting(self) -> int:
        """Return how many waiters this client has."""
        return self.client.subscriptions.waiting(self.names.channel)

    # ---- the owner -----------------------------------------------------------------------------------------------

    def caller(self) -> Caller:
        """Return the owner; of several call chains that share a thread, the one that calls."""
        return self._acting(self.owner())

    def _acting(self, who: Caller) -> Caller:
        client = self.client
        if not who.is_shared:
            return who
        return client.ownerships.acting(self.names.name, who, client.runtime.thread(), client.watchdog.in_backlog)

    def mine(self, who: Caller | None = None) -> Ownership:
        """Return the ownership of the caller. ``who``: the calling thread, task or made owner, if that is known."""
        if who is None:
            who = self.owner()
        last, client = self.last, self.client
        if client.lost_before:
            lost = next((own for own in client.find_lost(self.kind, who) if own.held_here() is not None), None)
            if lost is not None:
                return lost
        if last is not None and last.who is who and last.table is client.ownerships and not last.call.thread:
            in_flight, chains = last.in_flight, last.chains
            busy = last.holds or in_flight.pending or in_flight.due or in_flight.released_behind
            if not who.is_shared:
                return last
            if chains is not None and len(chains.members) <= 1 and (not busy or chains.owner_here() is who):
                return last
        return self.ownership_of(self._acting(who))

    def ownership_of(self, who: Caller) -> Ownership:
        """Return the ownership of this owner: the one used last, the one in the table, or a new one."""
        client = self.client
        ownership = self.last
        if ownership is None or ownership.who is not who or ownership.table is not client.ownerships:
            key = (self.names.name, self.kind.field(who.number))
            ownership = client.ownerships.find(key)
            if ownership is None:
                ownership = client.ownerships.enter(Ownership(key, who, client.runtime))
            self.last = ownership
        if ownership.call.thread:
            client.refuse_interrupter(ownership)
        return ownership

    def ownerships_of(self, who: Caller) -> list[Ownership]:
        """Return what a task or made owner holds of it, or what each call chain of a thread does."""
        field = "" if who.is_shared else self.kind.field(who.number)
        owns = self.client.ownerships.of_thread(self.names.name, who, field)
        return [*owns, *self.client.find_lost(self.kind, who)] if self.client.lost_before else owns

    def prepare_fast_path(
        self, ownership: Ownership, who: object, holds: int, now: float, lease: int, wait: float | None = None
    ) -> bool:
        """Return whether the fast path may serve this owner with this number of holds. If so, make its requests ready.

        Handles are shared by threads: ``last`` may be another one's at any moment, so it is not looked at here.
        ``lease``: that of the hold, in ms; ``wait``: for how long an acquire may wait.
        """
        client, kind, in_flight = self.client, self.kind, ownership.in_flight
        if (
            ownership.who is not who
            or ownership.chains is None
            or (len(ownership.chains.members) != 1 and not _is_alone(ownership))
            or len(ownership.holds) != holds
            or (holds and now >= ownership.deadline)
            or in_flight.pending is not None
            or in_flight.due
            or in_flight.released_behind
            or in_flight.queued_ms
            or ownership.loss is not None
            or ownership.ended
            or ownership.table is not client.ownerships
            or ownership.name in client.lost_before
            or ownership.kind is not kind
            or not kind.has_ready_requests
            or ownership.kind_state.until > now
            or client.fast_pool is None
            or client.replica_wait is not None
            or not client.subscriptions.may_queue
        ):
            return False
        ready = ownership.ready
        made = ready is not None and ready.epoch == ownership.epoch and ready.lease_ms == lease
        if holds:
            return made  # Else it may never be acquired again.
        if kind.may_hinder and kind.hinders(ownership):
            return False
        if not made or kind.ready_once or (kind.has_fair_queue and ready is not None and ready.wait != wait):
            self.make_ready(ownership, lease, wait, now)
        return True

    def make_ready(self, ownership: Ownership, lease: int, wait: float | None, now: float) -> None:
        """Make the usual requests, with a lease in ms and a wait from ``now`` on, of an owner that comes again."""
        kind, epoch = self.kind, ownership.epoch
        kind.waiting.begin(ownership, wait, now)
        hold = SingleHold(lease, self.client.watchdog.certain, watchdog=True)
        acquire = kind.acquire(AcquireCall(kind, ownership, 0, hold, 0, False), epoch, repeat=False)
        release = kind.release(ReleaseCall(kind, ownership, 0, lease, 1), epoch, repeat=False)
        once, queued_ms = kind.ready_once or kind.has_fair_queue, kind.wait_ms(ownership)
        ownership.make_ready(ReadyRequests(epoch, lease, acquire, release, wait, queued_ms, once))

    # ---- acquiring -----------------------------------------------------------------------------------------------

    def held_with(self, hold: SingleHold) -> tuple[Ownership, Callable[[int], Coroutine[Any, Any, bool]]]:
        """See :meth:`HolderCore.held_with`."""
        ownership = self.mine()
        return ownership, partial(extend, self.client, ownership, hold=hold)

    async def timeout_error(self, wait: float | None, held: Ownership | None = None) -> LockTimeoutError:
        """See :meth:`HolderCore.timeout_error`."""
        ownership = held or self.mine()
        name, without_end = self.names.name, ownership.in_flight.without_end
        why, holder = await other_holder(self.client, self.kind, ownership)
        if without_end and other_local_holder(self.kind, ownership) is None:
            why = never_expires(name, self.kind.others)
        text = timed_out("lock", name, wait, why, self.kind.waiting.tries)
        return LockTimeoutError(text, name=name, holder=holder)

    def new_hold(self, lease: int | None, *, block: bool = False) -> SingleHold:
        """See :meth:`HolderCore.new_hold`."""
        client = self.client
        if lease is None:
            return SingleHold(client.watchdog.lease_ms, client.watchdog.certain, watchdog=True, block=block)
        client.check_lease(lease)
        return SingleHold(lease, client.certain_for(lease), watchdog=False, block=block)

    async def acquire_again(self, hold: SingleHold, ownership: Ownership) -> None:
        """Acquire it for what a condition has given up, in the middle of its owner's wait."""
        await self.acquire_as_owner(None, hold, ownership)

    async def acquire_as_owner(self, wait: float | None, hold: SingleHold, held: Ownership | None) -> bool:
        """See :meth:`HolderCore.acquire_as_owner`."""
        client = self.client
        if client.closed:
            client.check_open()
        if self.made_for is not None:
            self.made_for.check_open()
        own = held or self.mine()
        return await own.called(client.runtime.thread(), acquire, client, self.kind, own, hold, wait)

    async def extend(self, lease_time: Seconds) -> bool:
        """Let what the caller holds last for ``lease_time`` from now on. Returns whether that was confirmed."""
        lease = lease_ms(lease_time)
        self.client.check_open()
        own = self.mine()
        client = self.client
        extending = own.called(client.runtime.thread(), extend, client, own, lease, None, self.kind)
        return await (extending if self.made_for is None else self.made_for.alone(extending))

    def ensure_held(self) -> None:
        """Raise an error unless the caller holds it for certain at this moment. Asks no server."""
        ensure_held(self.client, self.kind, self.mine())

    # ---- releasing -----------------------------------------------------------------------------------------------

    async def unlock_as_owner(self, progress: Progress | None) -> None:
        """See :meth:`HolderCore.unlock_as_owner`."""
        client = self.client
        if client.closed:
            client.check_open()
        own = self.mine()
        await own.called(client.runtime.thread(), unlock, client, self.kind, own, progress)

    def clients(self) -> tuple[str, Sequence[ClientCore]]:
        """See :meth:`HolderCore.clients`."""
        return self.names.name, (self.client,)

    async def leave_block(self, progress: Progress | None, lease: Lease | None) -> bool:
        """See :meth:`HolderCore.leave_block`."""
        client = self.client
        thread = client.runtime.thread()
        try:
            ownership = self.held_by_block(lease) if lease is not None else self.mine()
        except LockError:
            ownership = self._interrupted(thread)
            if ownership is None:
                raise
        if lease is not None and lease._hold.loss is not None:
            if lease._hold.loss == CLOSED_IN_WAIT:
                return False
            raise lost_error(lease._held, lease._hold.loss)
        releasable = HoldState.HELD, HoldState.GIVEN_UP
        if ownership is None or (lease is not None and lease._hold.state not in releasable):
            raise ended_inside("lock", self.names.name)
        if ownership.call.thread and ownership.call.thread == thread:
            ended = ownership.holds and client.runtime.now() >= ownership.deadline
            lost = ownership.loss or (ownership.why_ended() if ended else None)
            leave_behind_call(ownership, [(client, ownership, lease and lease._hold)], lost)
            return True
        if lease is None:
            ownership = to_release(self.kind, ownership)
        hold = None if lease is None else lease._hold
        return await ownership.called(thread, leave_block, client, self.kind, ownership, hold, progress)

    def _interrupted(self, thread: int) -> Ownership | None:
        """Return that of the caller on which this thread is in the middle of a call: then a signal handler asks."""
        mine = (each for each in self.ownerships_of(self.owner()) if thread and each.call.thread == thread)
        return next((each for each in mine if each.owner == self.kind.field(each.who.number)), None)

    async def hand_over(self, held: Ownership, lease: Lease | None, error: GeneratorExit) -> None:
        """See :meth:`HolderCore.hand_over`."""
        await hand_over([(self.client, held, lease._hold if lease is not None else held.to_unlock())], error)

    def held_here(self) -> Sequence[Ownership]:
        """See :meth:`HolderCore.held_here`."""
        ownership = self.ownership_of(self.owner())
        if ownership.holds:
            return [ownership]
        mine = (each for each in self.kind.listed() if each.owner == self.kind.field(each.who.number))
        return [each for each in mine if each.chains and any(map(each.chains.sees, each.holds))]

    async def force_unlock(self) -> bool:
        """Free the lock, for any holder."""
        self.client.check_open()
        own = self.ownership_of(self.caller())
        return await own.called(self.client.runtime.thread(), force_unlock, self.client, self.kind, own)

    # ---- queries -------------------------------------------------------------------------------------------------

    async def is_locked(self) -> bool:
        """Return whether it is held."""
        reply = await self.client.query(*self.locked_command())
        try:
            return self.read_locked(reply)
        except Failure as failure:
            raise failure.cause from None

    def locked_command(self) -> tuple[str, ...]:
        """Return the command whose reply says whether it is held."""
        return "EXISTS", self.names.raw

    def read_locked(self, reply: Reply) -> bool:
        """Return whether that reply says that it is held. Raises ``Unusable``."""
        return reply == 1

    async def is_held_by_current_thread(self) -> bool:
        """Return whether the calling thread or task holds it."""
        return await self.is_held_by_thread(self.caller().number)

    async def is_held_by_thread(self, thread_id: int) -> bool:
        """Return whether that thread or task of this client holds it."""
        self.check_thread_id(thread_id)
        return await self.client.query("HEXISTS", self.names.raw, self.kind.field(thread_id)) == 1

    @staticmethod
    def check_thread_id(thread_id: object) -> None:
        """Raise ``TypeError`` if it is not the number of a thread or task."""
        if isinstance(thread_id, bool) or not isinstance(thread_id, int):
            raise TypeError(f"thread_id must be an int, not {type(thread_id).__name__}")

    async def get_hold_count(self) -> int:
        """Return the number of holds of the calling thread or task."""
        return read_count(await self.client.query("HGET", self.names.raw, self.kind.field(self.caller().number)))

    async def remain_time_to_live(self) -> float | None:
        """Return for how many seconds it is locked; infinite without a time to live; ``None`` if it is free."""
        left = await self.client.query("PTTL", self.names.raw)
        if type(left) is not int:
            raise unusable(left).cause
        return None if left == -2 else math.inf if left == -1 else left / 1000


# ---- fenced lock -----------------------------------------------------------------------------------------------------
# The fenced lock: each hold has a token, a number that is greater than those of all holds before it.
#
# Source: ``org.redisson.RedissonFencedLock``. What differs on purpose: a re-entry returns the token of the hold that it
# joins; every method honours its lease; a lock without a time to live does not count as acquired.


def token_in(reply: Reply) -> int | None:
    """Return the token in a reply that says that the lock was acquired; ``None`` for any other reply."""
    match reply:
        case [bytes() as word, bytes() as token] if word == b"token" and token.isdigit() and len(token) <= MAX_DIGITS:
            return int(token)
    return None


class FencedKind(PlainKind):
    """The fenced lock. An acquire that joins a hold carries its token."""

    __slots__ = ()

    word = "fenced_lock"
    token_in: Callable[[Reply], int | None] | None = staticmethod(token_in)

    def acquire(self, call: AcquireCall, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.acquire`."""
        return self.with_tokens("fenced_acquire", call, epoch, repeat)

    def with_tokens(
        self,
        script: str,
        call: AcquireCall,
        epoch: int,
        repeat: bool,
        keys: tuple[str, ...] = (),
        more: tuple[str, ...] = (),
    ) -> Request:
        """Make the call of a script that acquires with a token; it takes ``keys`` and ``more`` arguments besides."""
        joins = next((each.token for each in call.ownership.holds if each.token is not None), None)
        token = "" if joins is None else joins
        args = call.lease_ms, call.count, token, int(self.client.config.fence_from_clock), *more
        own, update = call.ownership, call.update
        return self.request(script, own, args, (self.names.token, *keys), epoch=epoch, repeat=repeat, update=update)

    def reads(self, reply: Reply) -> Outcome:
        """See :meth:`LockKind.reads`; with the token of the hold."""
        token = token_in(reply)
        if token is not None:
            return LockAcquired(token)
        if reply is None:
            raise unusable(reply)  # A fenced lock is never acquired without a token.
        return super().reads(reply)


class FencedLockCore(LockCore):
    """One handle on a fenced lock."""

    __slots__ = ()

    stored = StoredKind("fenced_lock", "fenced", "owners", LockNames, "token", force_unlock=FREES_ALL_OWNERS)
    kind_type = FencedKind

    async def try_lock_and_get_token(self, wait_time: Seconds | None, lease_time: Seconds | None) -> int | None:
        """Acquire the lock, waiting at most ``wait_time``, and return the token of the hold."""
        hold = self.new_hold(optional_lease_ms(lease_time))
        return hold.token if await self.acquire_hold(wait_seconds(wait_time), hold) else None

    async def lock_and_get_token(self, lease_time: Seconds | None) -> int:
        """Acquire the lock, waiting without end, and return the token of the hold."""
        hold = self.new_hold(optional_lease_ms(lease_time))
        await self.acquire_hold(None, hold)
        assert hold.token is not None
        return hold.token

    async def get_token(self) -> int | None:
        """Return the token of the last hold; ``None`` if there was none."""
        token = await self.client.query("GET", self.names.token)
        return None if token is None else read_count(token)


# ---- spin lock -------------------------------------------------------------------------------------------------------
# The spin lock: the reentrant lock without messages. Waiters make attempts with pauses in between.
#
# Source: ``org.redisson.RedissonSpinLock``. For locks with short holds and few waiters, where a subscription costs more
# than it saves. What differs on purpose: a pause never outlasts the caller's wait.


class SpinKind(PlainKind):
    """The spin lock, whose releases are not announced."""

    __slots__ = ("waiting",)

    word = "spin_lock"
    label = "spin"
    publish = ""
    has_wait_queue = False

    def __init__(self, client: ClientCore, names: LockNames, delays: Delays, tries: int | None) -> None:
        super().__init__(client, names)
        self.waiting: Waiting = Polling(delays, until_free=False, tries=tries)

    def new_state(self) -> Fairness:
        """See :meth:`LockKind.new_state`; the kind keeps nothing."""
        return NEVER_YIELDS


class SpinLockCore(LockCore):
    """One handle on a spin lock.

    Args:
        client: The client.
        name: The lock's name.
        delays: The pauses between attempts.
        tries: How many attempts a waiter makes at most.
    """

    __slots__ = ()

    stored = StoredKind(
        "spin_lock", "spin", "owners", LockNames, announces=False, subscribes=False, force_unlock=FREES_ALL_OWNERS
    )

    def __init__(self, client: ClientCore, name: str, delays: Delays, tries: int | None = None) -> None:
        names = LockNames(name, client.config.prefix)
        super().__init__(client, names, SpinKind(client, names, delays, tries))


# ---- non-reentrant lock ----------------------------------------------------------------------------------------------
# The lock that its holder cannot acquire again: an error, where a reentrant lock would count.
#
# Source: ``org.redisson.RedissonNonReentrantLock``. It is stored like the reentrant lock.


class NonReentrantKind(PlainKind):
    """The lock that is not reentrant."""

    __slots__ = ()

    word = "non_reentrant_lock"
    reentrant = False


class NonReentrantLockCore(LockCore):
    """One handle on a lock that is not reentrant."""

    __slots__ = ()

    stored = StoredKind(
        "non_reentrant_lock", "lock", "owners", LockNames, reentrant=False, force_unlock=FREES_ALL_OWNERS
    )
    kind_type = NonReentrantKind
