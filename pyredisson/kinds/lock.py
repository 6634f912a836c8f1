"""The reentrant lock: Redisson's ``RLock``, with holds that are counted exactly once and losses that are told.

Source: ``org.redisson.RedissonLock``. What differs on purpose: a TTL is never lowered; a request carries the number of
holds that its client counts, so that repeating it is safe; a lost hold is an error, not a silence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from pyredisson import events
from pyredisson.core import first_contact, scripts
from pyredisson.core.deadline import Deadline, certain_for, lease_ms, wait_seconds
from pyredisson.core.holder import GONE, lost_error
from pyredisson.core.in_flight import Pending, Unlock
from pyredisson.core.names import LockNames, owner_field, writer_field
from pyredisson.core.outcomes import AT_ONCE, Acquired, Refused, SelfBlocked, Stale
from pyredisson.core.ownership import Hold, Ownership
from pyredisson.core.replicas import NotAcknowledged, unasked
from pyredisson.core.runtime import Failure, Rejected, Unanswered, Unusable, is_interruption
from pyredisson.core.waiting import until_taken
from pyredisson.core.wakeups import lock_message
from pyredisson.core.wrong_type import explain_type
from pyredisson.core.yielding import Yielding
from pyredisson.errors import LockError, LockLostError, LockNotOwnedError, LockTimeoutError, RedissonError
from pyredisson.kinds.attempt import Attempt
from pyredisson.kinds.messages import held_here, never_expires, not_held, timed_out
from pyredisson.lease import Lease

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson.core.client import ClientCore
    from pyredisson.core.deadline import Seconds
    from pyredisson.core.outcomes import Answer, Outcome
    from pyredisson.core.runtime import Caller, Holding, MadeCaller, Progress, Reply, Request
    from pyredisson.core.wakeups import Party

__all__ = ["LockCore", "is_callers"]


class LockCore:
    """One handle on a reentrant lock. Cheap, without state of its own, and shared by threads and tasks at will.

    Other kinds of lock are subclasses: they say other things to the server, and count, wait, renew and settle as here.
    """

    __slots__ = ("_caller", "_covers", "_endless", "_last", "_plain", "client", "names")

    #: Those who wait on one channel for the same kind share the server's answers.
    kind = "lock"
    #: What may stand at its key without a time to live, for messages.
    others = "something else"
    #: What it looks like in Redis. Kinds of one layout exclude each other, and share their holds.
    layout = "lock"
    #: How many waiters a message wakes.
    message = staticmethod(lock_message)
    #: What the watchdog asks for many ownerships at once; see ``scripts.renew_locks``.
    renew = staticmethod(scripts.renew_locks)
    #: Whether it is but one side of a lock, so that forcing it open says nothing about who holds the other.
    one_sided = False

    def __init__(self, client: ClientCore, name: str) -> None:
        self.client = client
        self.names = LockNames(name)
        client.check_names(self.names)
        self._plain = client.watchdog.plain_hold
        self._covers = frozenset((name,))
        self._caller: MadeCaller | None = None
        self._last: Ownership | None = None  # The ownership used last, so that its bytes need not be made anew.
        self._endless = False  # The key had no time to live when it was last looked at.

    def acting_for(self, caller: MadeCaller | None) -> Self:
        """Ask in the name of an owner that the user made, whoever calls."""
        self._caller = caller
        return self

    def describe(self) -> str:
        """Its state as this client knows it, for ``repr``; asks no server."""
        held = [ownership for ownership in self.client.ownerships.of(self.names.raw) if ownership.holds]
        text = repr(self.names.raw)
        for ownership in held:
            state = "lost" if ownership.loss else "held"
            text += f" {state} by {ownership.owner[:4]}…:{ownership.who.number} ×{len(ownership.holds)}"
        waiting = self.waiting()
        return f"{text}, {waiting} waiting here" if waiting else text

    def waiting(self) -> int:
        """How many wait for it in this client."""
        return self.client.wakeups.waiting(self.names.channel)

    def owner(self) -> Caller:
        """Who asks: the calling thread or task, if this handle does not act for an owner of its own."""
        asking = self.client.runtime.owner()  # In any case: it looks whether this is the right event loop.
        return self._caller or asking

    def caller(self) -> Caller:
        """As :meth:`owner`; of several call chains that share a thread, the one that calls."""
        who = self.owner()
        return who.acting(self._covers, self.taken) if who.shared else who

    def act_for_multi_lock(self) -> None:
        """Be a member of a multi-lock, which sees to it whose call it is, and marks its own holds."""
        self._caller = None
        self._covers = frozenset()

    def made_caller(self) -> MadeCaller | None:
        """The owner for which this handle was made, if there is one."""
        return self._caller

    def taken(self, who: Caller) -> bool:
        """Whether this owner has anything open here."""
        ownership = self.client.ownerships.find((self.names.raw, self.field(who.number)))
        return ownership is not None and ownership.in_use()

    # ---- what a kind of lock says to the server ------------------------------------------------------------------

    def field(self, number: int) -> str:
        """What stands for an owner in Redis."""
        return owner_field(self.client.id, number)

    def new_state(self) -> object:
        """What it keeps for an owner from one call to the next."""
        return Yielding()

    def note_wait(self, ownership: Ownership, wait: float | None, now: float) -> None:
        """An owner begins to ask, and means to wait for so many seconds."""

    def stored_as(self, ownership: Ownership) -> str:
        """What stands for an owner's hold in Redis."""
        return ownership.owner

    def channel(self, ownership: Ownership) -> str:
        """Where this owner hears that the lock may be free."""
        return self.names.channel

    def party(self) -> Party | None:
        """With whom those who wait for it sit, if each has a channel of its own."""
        return None

    def acquire_request(self, ownership: Ownership, hold: Hold, holds: int, epoch: int, repeat: bool) -> Request:
        """The request to take the lock for an owner who holds it ``holds`` times as yet."""
        return scripts.acquire_lock(
            self.client.runtime,
            self.names,
            ownership.owner,
            lease_ms=hold.lease_ms,
            holds=holds,
            epoch=epoch,
            repeat=repeat,
        )

    def release_request(self, ownership: Ownership, lease_ms: int, holds: int, epoch: int, repeat: bool) -> Request:
        """The request to take one of ``holds`` away; ``0``: to give up whatever stands there."""
        return scripts.release_lock(
            self.client.runtime, self.names, ownership.owner, lease_ms=lease_ms, holds=holds, epoch=epoch, repeat=repeat
        )

    def force_request(self, ownership: Ownership, epoch: int) -> Request:
        """The request to free the lock, whoever holds it."""
        return scripts.force_unlock(self.client.runtime, self.names, ownership.owner, epoch=epoch)

    def read_acquire(self, reply: Reply) -> Outcome:
        """What the reply to an acquire means."""
        return scripts.read_acquire(reply)

    # ---- acquiring -----------------------------------------------------------------------------------------------

    # lock() and try_lock() check their arguments and hand over to take(): one coroutine less on the hot path.

    def lock(self, lease_time: Seconds | None = None) -> Coroutine[Any, Any, bool]:
        """Acquire the lock, however long it takes."""
        return self.take(None, self._plain if lease_time is None else self._new_hold(lease_time))

    def try_lock(self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None) -> Coroutine[Any, Any, bool]:
        """Take the lock if it is to be had within ``wait_time``."""
        hold = self._plain if lease_time is None else self._new_hold(lease_time)
        return self.take(wait_seconds(wait_time), hold)

    async def acquire(self, wait: float | None) -> bool:
        """Take the lock if it is to be had within ``wait`` seconds; ``None``: however long it takes."""
        return await self.take(wait, self._plain)

    async def hold(self, wait_time: Seconds | None, lease_time: Seconds | None, *, skip: bool = False) -> Lease | None:
        """Acquire the lock for a block, whose body is told of a loss. ``skip``: return ``None`` if it is not free."""
        wait = wait_seconds(wait_time)
        hold = self._new_hold(lease_time, block=True)
        ownership = self.mine()
        lease = Lease(
            ownership, hold, self.client.runtime
        )  # Made before: once it is taken, nothing is left to interrupt.
        if await self.take(wait, hold, ownership):
            return lease
        if skip:
            return None
        name = self.names.raw
        why = self._held_here(ownership) or (never_expires(name, self.others) if self._endless else None)
        raise LockTimeoutError(timed_out("lock", name, wait, why), name=name)

    def _held_here(self, ownership: Ownership) -> str | None:
        """Who of this client holds the lock, for messages to somebody else."""
        others = ((each.who, each.kind or self) for each in self._holders() if each.who is not ownership.who)
        return next((held_here(who, by.layout, self.layout) for who, by in others), None)

    def _holders(self) -> list[Ownership]:
        """The ownerships of this client that hold the lock, so that nobody else can."""
        return [each for each in self.client.ownerships.of(self.names.raw) if each.holds and each.loss is None]

    def _new_hold(self, lease_time: Seconds | None, *, block: bool = False) -> Hold:
        if lease_time is None:
            return Hold(self._plain.lease_ms, watchdog=True, block=block)
        return Hold(lease_ms(lease_time), watchdog=False, block=block)

    def take(self, wait: float | None, hold: Hold, ownership: Ownership | None = None) -> Coroutine[Any, Any, bool]:
        """Acquire the lock for a hold, waiting at most ``wait`` seconds; ``None``: as long as it takes."""
        if self._caller is None:
            return self._acquire(wait, hold, ownership)
        return self._caller.alone(self._acquire(wait, hold, ownership))

    async def _acquire(self, wait: float | None, hold: Hold, ownership: Ownership | None) -> bool:
        client = self.client
        runtime = client.runtime
        if client.closed:
            client.check_open()
        if ownership is None:
            ownership = self.mine()
        asked = runtime.now()
        holds = -1  # not known yet
        try:
            if ownership.holds or ownership.pending:
                if ownership.who.pooled:
                    ownership.who.look_behind(ownership, self.tell_left_behind)
                await self._make_ready(ownership)
            elif self._covers:
                ownership.who.mark(ownership, self._covers, self.tell_left_behind)
            if ownership.kind is not self:
                self.take_on(ownership)
            self.note_wait(ownership, wait, asked)
            holds = len(ownership.holds)
            answer: Answer | None = None
            seen = client.wakeups.glance(self.channel(ownership)) if wait != 0 else None
            if wait != 0 and not holds:
                self._endless = False
                answer = self._give_way(ownership, wait, asked)
            if answer is None:
                try:
                    answer = await self.attempt(ownership, hold)
                except Failure as failure:
                    if not await first_contact.waits_through(client, failure, wait, asked):
                        raise
                    answer = AT_ONCE
                    self._endless = False
            taken = type(answer) is Acquired
            if type(answer) is Refused and wait != 0:
                self._check_own_holds(ownership)
                if not runtime.suspends:
                    self.check_not_stuck(ownership)
                taken = await self._wait(ownership, hold, answer, seen, Deadline.after(wait, asked))
                self.waited(ownership, runtime.now())
                if ownership.queued_ms:
                    await self._leave_queue(ownership)
            if taken and not holds and self._covers and ownership.who.shared and not is_callers(ownership):
                # A signal handler has left a mark of another lock before this one was asked for.
                ownership.who.mark(ownership, self._covers, self.tell_left_behind)
            if client.talkative():
                waited = runtime.now() - asked
                if taken:
                    client.emit(events.Acquired(ownership.name, ownership.owner, waited, len(ownership.holds)))
                else:
                    client.emit(events.TimedOut(ownership.name, ownership.owner, waited))
            return taken
        except Failure as failure:
            error = client.explain(failure, ownership, "an acquire", hold.lease_ms)
            if ownership.queued_ms:
                await self._leave_queue(ownership, at_once=isinstance(failure, Rejected))
            error = await explain_type(client, error, ownership.name, self.layout)
            raise error from failure.cause
        except RedissonError:
            if ownership.queued_ms:
                await self._leave_queue(ownership)
            raise
        except GeneratorExit:  # A coroutine that is being closed can wait for nothing any more.
            if ownership.undo_acquire(holds):
                ownership.settle_until(runtime.now() + hold.lease_ms / 1000)
                client.watchdog.settle(ownership)
            self._resume(ownership)
            raise
        except BaseException:
            await self._go_away(ownership, holds, hold)
            raise

    def tell_left_behind(self, left: Holding) -> None:
        """Tell of what a thread holds for another call chain, now that it has gone on."""
        self.client.emit(events.LeftBehind(left.name, left.owner, left.who.describe()))

    def check_not_stuck(self, ownership: Ownership) -> None:
        """Raise ``LockError`` if a holder can only release the lock when this call is over."""
        for each in self._holders():
            if each.who is not ownership.who and (each.bound() or not each.who.shared) and each.holder_alive():
                why = self.client.runtime.stuck_behind(each.who)
                if why is not None:
                    raise LockError(f"waiting for lock {ownership.name!r} would never end: {why}", name=ownership.name)

    def _wait(
        self, ownership: Ownership, hold: Hold, refused: Refused, seen: int | None, deadline: Deadline
    ) -> Coroutine[Any, Any, bool]:
        """After a first attempt was refused. See :func:`until_taken`."""
        wakeups = self.client.wakeups
        return until_taken(
            Attempt(self, ownership, hold),
            refused,
            runtime=self.client.runtime,
            wakeups=wakeups,
            lock=ownership.name,
            channel=self.channel(ownership),
            kind=self.kind,
            message=self.message,
            seen=seen,
            deadline=deadline,
            free_after=hold.lease_ms / 1000,
            party=self.party(),
        )

    async def _leave_queue(self, ownership: Ownership, *, at_once: bool = True) -> None:
        """The owner waits no longer: its place is given up, and what an unanswered request may have taken."""
        if ownership.stop_waiting(self.client.runtime.now()) or ownership.pending is not None:
            if at_once:
                await self.client.settle_on_leaving(ownership, leaving=False)
            else:
                self.client.watchdog.settle(ownership)

    def _give_way(self, ownership: Ownership, wait: float | None, now: float) -> Refused | None:
        """How to act as if refused: those who wait for what its owner has just released come first.

        They need the way of a message and of a request; an owner that asks again at once would overtake them each time.
        """
        yielding: Yielding = ownership.kind_state
        return yielding.refuse(wait, now)

    def waited(self, ownership: Ownership, now: float) -> None:
        """Its wait is over."""
        ownership.kind_state.waited(now)

    def note_waiters(self, ownership: Ownership, heard: int, sent: float) -> None:
        """A release that was ``sent`` then was heard by so many connections."""
        wakeups = self.client.wakeups
        channel = self.channel(ownership)
        if wakeups.glance(channel) is not None and not wakeups.waiting(channel):
            heard -= 1  # Our own subscriber's, which stays a little longer than those who wait.
        ownership.kind_state.released(heard, sent, self.client.runtime.now())

    async def ask_once(self, ownership: Ownership, hold: Hold) -> Answer:
        """Ask for the lock once, for somebody who does not wait for it alone. Returns and raises as :meth:`attempt`."""
        if ownership.holds or ownership.pending:
            await self._make_ready(ownership)
        if ownership.kind is not self:
            self.take_on(ownership)
        self.note_wait(ownership, 0.0, self.client.runtime.now())
        return await self.attempt(ownership, hold)

    async def give_back(self, ownership: Ownership) -> None:
        """Give back one hold for which nobody will come and ask; whoever is interrupted sees to it that it is done.

        Raises as :meth:`unlock`, but for a ``Failure`` of an earlier request: then it is given back behind that.
        """
        if ownership.pending is not None:
            owes = ownership.release_later(block=True)
            await self.client.settle(ownership, behind=True)
            if owes:
                return
        await self._release_one(ownership, block=True)

    # For a node among many, whose requests go out together: the usual attempt and release of :meth:`attempt` and
    # :meth:`_release_one`, cut in two where the request is under way, and without a coroutine each. They begin with
    # :meth:`take_on`, and with ``begin_first`` or ``begin_last`` of the ownership.

    def first_request(self, ownership: Ownership, hold: Hold) -> Request:
        """What an owner asks who holds nothing and has nothing open."""
        if ownership.prepared.acquire_lease_ms == hold.lease_ms and ownership.prepared.epoch == ownership.epoch:
            return ownership.prepared.acquire
        return self._acquire_request(ownership, hold, 0, ownership.epoch, repeat=False)

    async def end_first(
        self, ownership: Ownership, hold: Hold, request_id: int, sent: float, answer: Reply | Failure
    ) -> Answer:
        """Take what came of it. Returns and raises as :meth:`attempt`; nobody watches the hold."""
        setback = answer if isinstance(answer, Failure) else _setback(answer, scripts.read_stale)
        if setback is not None:
            answer, sent = await self._persist(ownership, hold, request_id, 0, False, sent, setback)
        assert not isinstance(answer, Failure)
        said = self.read_acquire(answer)
        if type(said) is Acquired:
            hold.token = said.token
            return said if ownership.granted(request_id, hold, sent + hold.certain) else AT_ONCE
        ownership.refused(request_id)
        return self._refused(ownership, said)

    def last_request(self, ownership: Ownership) -> Request:
        """What gives back the only hold of an owner who has nothing open."""
        if ownership.prepared.epoch == ownership.epoch and ownership.prepared.release is not None:
            return ownership.prepared.release
        return self._release_request(ownership, ownership.holds[0].lease_ms, 1, ownership.epoch, repeat=False)

    async def end_last(
        self, ownership: Ownership, request_id: int, lease: int, sent: float, answer: Reply | Failure
    ) -> None:
        """Take what came of it. Raises as :meth:`unlock`."""
        setback: Failure | Stale | None
        if isinstance(answer, Failure):
            answer, setback = None, answer
        else:
            setback = _setback(answer, scripts.read_release)
        if setback is not None or answer is None:
            answer, sent = await self._finish_release(
                ownership, request_id, 1, lease, Unlock.RELEASE, GONE, sent, answer, setback
            )
        self.released(ownership, request_id, 1, lease, sent, answer)

    async def attempt(self, ownership: Ownership, hold: Hold) -> Answer:
        """Ask for the lock once."""
        answer = await self._attempt(ownership, hold)
        if type(answer) is SelfBlocked:
            await self.self_blocked(ownership)
            answer = await self._attempt(ownership, hold)
            if type(answer) is SelfBlocked:
                return AT_ONCE
        return answer

    async def self_blocked(self, ownership: Ownership) -> None:
        """The owner is refused for something else that it holds itself."""

    async def _attempt(self, ownership: Ownership, hold: Hold) -> Answer | SelfBlocked:
        client = self.client
        if ownership.kind is not self:
            self.take_on(ownership)
        request_id, epoch, holds, repeat = ownership.begin_acquire(hold)
        if (
            ownership.prepared.acquire_lease_ms == hold.lease_ms
            and ownership.prepared.epoch == epoch
            and not (holds or repeat)
        ):
            request = ownership.prepared.acquire
        else:
            request = self._acquire_request(ownership, hold, holds, epoch, repeat)
        if ownership.table is None:  # Another thread has just swept the table, and took the ownership for idle.
            client.ownerships.enter(ownership)
        # Here and in _release_one() the exchange is spelt out: this is the path of everything that users do.
        lease = hold.lease_ms
        sync = client.sync
        sent = client.runtime.now()
        reply: Reply = None
        setback: Failure | Stale | None
        try:
            if sync is None:
                reply = await client.runtime.eval(request, client.attempt_timeout(lease))
                if client.sync is not sync and self._took(reply):
                    raise unasked()
            else:
                reply = await sync.take(request, client.attempt_timeout(lease), self._took)
            answer = self.read_acquire(reply)
            setback = answer if type(answer) is Stale else None
        except Failure as failure:
            setback = failure
        except NotAcknowledged as short:
            raise await self._give_back(ownership, hold, short) from short.cause
        if setback is not None:
            reply, sent = await self._persist(ownership, hold, request_id, holds, repeat, sent, setback)
            answer = self.read_acquire(reply)
        if type(answer) is Acquired:
            if answer.token is not None:
                hold.token = answer.token
            deadline = sent + hold.certain
            over = client.runtime.now() >= (max(deadline, ownership.deadline) if holds else deadline)
            if over and (hold.watched or hold.certain > 0):  # Else the lease is so short that it never is certain.
                await client.settle(ownership)  # It came when its lease was over: that is no hold, so give it back,
                return AT_ONCE
            if not ownership.granted(request_id, hold, deadline):
                return AT_ONCE
            if hold.watched:
                client.watchdog.watch(ownership)
            return answer
        ownership.refused(request_id)
        return answer if type(answer) is SelfBlocked else self._refused(ownership, answer)

    async def _persist(
        self,
        ownership: Ownership,
        hold: Hold,
        request_id: int,
        holds: int,
        repeat: bool,
        sent: float,
        setback: Failure | Stale,
    ) -> tuple[Reply, float]:
        """Go on with an attempt whose first copy brought no answer. Returns one, and when what it answers was sent."""
        make = partial(self._acquire_request, ownership, hold, holds)
        try:
            reply, sent, _ = await self.client.persist(
                ownership, request_id, make, hold.lease_ms, repeat, sent, setback, took=self._took
            )
        except NotAcknowledged as short:
            raise await self._give_back(ownership, hold, short) from short.cause
        except Unanswered:
            raise  # It stays pending: whoever comes next repeats it or gives it back.
        except Failure:
            ownership.refused(request_id)
            raise
        return reply, sent

    def _refused(self, ownership: Ownership, answer: Outcome) -> Refused:
        if isinstance(answer, Refused):
            self._endless = answer.retry_in_ms is None
            return answer
        if ownership.lose(GONE):
            self.client.watchdog.unwatch(ownership)
            self.client.tell_lost(ownership)
        raise lost_error(ownership)

    def _took(self, reply: Reply) -> bool:
        """Whether the reply to an acquire says that it was taken."""
        return isinstance(self.read_acquire(reply), Acquired)

    async def _give_back(self, ownership: Ownership, hold: Hold, short: NotAcknowledged) -> Exception:
        """The hold was taken, and too few replicas know of it: give it back. Returns what to say of it."""
        client = self.client
        ownership.settle_until(client.runtime.now() + hold.lease_ms / 1000)
        given_back = True
        try:
            await client.settle(ownership)
        except Failure:
            client.watchdog.settle(ownership)
            given_back = False
        return client.replicas.error(ownership.name, short, given_back=given_back)

    def take_on(self, ownership: Ownership) -> None:
        """The ownership is this handle's from now on. What was prepared by one of another kind is of no use."""
        if ownership.holds:
            self._check_layout(ownership)
        ownership.adopt(self)

    def _check_layout(self, own: Ownership) -> None:
        """Raise ``LockError`` if what its owner holds here is of another layout."""
        if own.kind is not None and own.kind.layout != self.layout:
            raise LockError(
                f"{own.name!r} is held by {own.owner} as a {own.kind.layout}; a {self.layout} needs another name",
                name=own.name,
            )

    def _check_own_holds(self, ownership: Ownership) -> None:
        """Raise ``LockError`` if an owner would wait for what it holds itself, as another kind."""
        client = self.client
        for field in (owner_field, writer_field):
            own = client.ownerships.find((ownership.name, field(client.id, ownership.who.number)))
            if own is not None and own.holds and own.loss is None and client.runtime.now() < own.deadline:
                self._check_layout(own)

    def _acquire_request(self, ownership: Ownership, hold: Hold, holds: int, epoch: int, repeat: bool) -> Request:
        request = self.acquire_request(ownership, hold, holds, epoch, repeat)
        if not (holds or repeat):
            ownership.prepared.keep_acquire(request, hold.lease_ms, epoch)
        return request

    async def _make_ready(self, ownership: Ownership) -> None:
        """Bring an ownership that has a past into a state from which it can acquire."""
        client = self.client
        self._expire(ownership)
        if ownership.loss is not None:
            raise lost_error(ownership, ownership.loss)
        # What a lock of another kind left open is settled as that kind does it.
        if (
            ownership.pending is Pending.RELEASE
            or ownership.in_flight.releases_due
            or (ownership.pending and type(ownership.kind) is not type(self))
        ):
            await client.settle(ownership)

    def _expire(self, ownership: Ownership) -> None:
        if ownership.expire(self.client.runtime.now()):
            self.client.watchdog.unwatch(ownership)
            self.client.tell_lost(ownership)

    async def _go_away(self, ownership: Ownership, holds: int, hold: Hold) -> None:
        """The caller leaves in the middle of an acquire (Ctrl-C, cancellation): give back what it may have got."""
        client = self.client
        if ownership.undo_acquire(holds):
            ownership.settle_until(client.runtime.now() + hold.lease_ms / 1000)
            await client.settle_on_leaving(ownership)
            self._resume(ownership)

    # ---- releasing -----------------------------------------------------------------------------------------------

    def unlock(self, progress: Progress | None = None) -> Coroutine[Any, Any, None]:
        """Give back one hold of the calling thread or task, or continue to, if the last time could not be settled.

        ``progress``: see ``run_to_the_end``.
        """
        if self._caller is None:
            return self._unlock(progress)
        return self._caller.alone(self._unlock(progress))

    async def _unlock(self, progress: Progress | None) -> None:
        client = self.client
        if client.closed:
            client.check_open()
        ownership = self.mine()
        if ownership.pending is not None:
            # Should an acquire not be settled now, this unlock is done behind it. Called again, it is this one still.
            owes = ownership.pending is Pending.ACQUIRE and ownership.release_later(block=False)
            if await self._settle(ownership) is Pending.RELEASE or owes:
                ownership.take_released_behind()
                self._resume(ownership)
                return
        # Not before what is pending: what the background settles in between is seen here.
        if ownership.in_flight.released_behind and ownership.take_released_behind():
            self._resume(ownership)
            return
        await self._release(ownership, progress)

    async def leave(
        self, error: BaseException | None = None, progress: Progress | None = None, lease: Lease | None = None
    ) -> None:
        """Give back the hold of a block that ended with ``error``, which goes before any error of ours.

        Unlike :meth:`unlock` this never stands for an earlier one that failed. ``progress`` is as there.

        Args:
            error: What ended the block.
            progress: As for :meth:`unlock`.
            lease: What the block has from :meth:`hold`. It says whose hold that is, whoever leaves the block.
        """
        if isinstance(error, GeneratorExit) and self.client.runtime.suspends:
            self._hand_over(lease)
            return
        try:
            await self._leave(progress, lease)
        except Exception as ours:
            if error is None or is_interruption(ours):
                raise

    def _hand_over(self, lease: Lease | None) -> None:
        """The block's coroutine is being closed, and can wait for nothing: leave the release to the watchdog."""
        ownership = self._ownership_of_block(lease) if lease is not None else self._ownership_of_closed_block()
        if ownership is None or not ownership.holds or (lease is not None and not lease._brought_up()):
            return
        if ownership.hand_over():
            self.client.watchdog.settle(ownership)
        if not ownership.watched():
            self.client.watchdog.unwatch(ownership)

    def _ownership_of_block(self, lease: Lease) -> Ownership | None:
        """The ownership of a ``hold()``; ``None`` if the client has begun anew since (fork, new event loop)."""
        ownership = lease._held
        return ownership if isinstance(ownership, Ownership) and ownership.owner.startswith(self.client.id) else None

    def _ownership_of_closed_block(self) -> Ownership | None:
        """The ownership of the calling task. It may be closing an asynchronous generator of another one."""
        try:
            who = self.owner()
        except RuntimeError:
            return None  # It is closed where no task runs.
        ownership = self.ownership_of(who)
        if ownership.holds:
            return ownership
        for mark in who.marks():
            held = mark.held
            if isinstance(held, Ownership) and held.name == ownership.name and held.owner.startswith(self.client.id):
                return held if held.loss is None else None
        return None

    async def _leave(self, progress: Progress | None, lease: Lease | None) -> None:
        client = self.client
        client.check_open()
        ownership = self._ownership_of_block(lease) if lease is not None else self.mine()
        if ownership is None or (lease is not None and not lease._brought_up()):
            raise LockNotOwnedError(
                f"lock {self.names.raw!r} is no longer held by this block: it was released, or forced open, within it",
                name=self.names.raw,
            )
        if ownership.pending is not None:
            if progress is not None:
                progress.begun = True
            # Nobody comes back for a block's hold: if it cannot be given back now, it is behind what is pending.
            owes = ownership.release_later(block=True)
            try:
                await self._settle(ownership)
            except LockLostError:
                if owes:
                    raise
                # Else that of an inner block, which has said so itself; ours comes now.
            if owes:
                self._resume(ownership)
                return
        await self._release(ownership, progress, block=True)

    async def _settle(self, ownership: Ownership) -> Pending | None:
        try:
            return await self.client.settle(ownership)
        except Failure as failure:
            raise self.client.explain(failure, ownership, "an earlier request", self._plain.lease_ms) from failure.cause

    def _resume(self, ownership: Ownership) -> None:
        if ownership.watched():
            self.client.watchdog.watch(ownership)
        else:
            self.client.watchdog.unwatch(ownership)

    async def _release(self, ownership: Ownership, progress: Progress | None = None, *, block: bool = False) -> None:
        before = len(ownership.holds)
        try:
            if progress is not None:
                progress.begun = True
            await self._release_one(ownership, block)
        except BaseException as error:
            if is_interruption(error):  # The caller has no use for the hold in any case.
                if ownership.redo_release(before):
                    ownership.settle_until()
                    if isinstance(error, GeneratorExit) and self.client.runtime.suspends:
                        self.client.watchdog.settle(ownership)
                    else:
                        await self.client.settle_on_leaving(ownership)
                self._resume(ownership)  # In any case: it may have been released, and be watched still.
            raise

    async def _release_one(self, ownership: Ownership, block: bool) -> None:
        client = self.client
        if ownership.holds and client.runtime.now() >= ownership.deadline:
            self._expire(ownership)
        reason = ownership.loss or "its lease ran out"
        if ownership.kind is not self:
            self.take_on(ownership)
        request_id, epoch, holds, lease, todo = ownership.begin_release(block=block)
        lease = lease or self._plain.lease_ms
        if todo is Unlock.NOT_OWNED:
            raise LockNotOwnedError(
                not_held("lock", ownership.name, ownership.who, self._held_here(ownership)),
                name=ownership.name,
            )

        request = ownership.prepared.release if holds == 1 and ownership.prepared.epoch == epoch else None
        if request is None:
            request = self._release_request(ownership, lease, holds, epoch, repeat=False)
        sent = client.runtime.now()
        reply: Reply = None
        setback: Failure | Stale | None
        try:
            reply = await client.runtime.eval(request, client.attempt_timeout(lease))
            setback = None if type(reply) is int else scripts.read_release(reply)
        except Failure as failure:
            setback = failure
        if setback is not None or reply is None or todo is Unlock.LOST:
            reply, sent = await self._finish_release(
                ownership, request_id, holds, lease, todo, reason, sent, reply, setback
            )
        self.released(ownership, request_id, holds, lease, sent, reply)

    async def _finish_release(
        self,
        ownership: Ownership,
        request_id: int,
        holds: int,
        lease: int,
        todo: Unlock,
        reason: str,
        sent: float,
        reply: Reply,
        setback: Failure | Stale | None,
    ) -> tuple[Reply, float]:
        """Go on with a release whose first copy did not simply succeed. Returns the answer, and to what sent when."""
        client = self.client
        repeated = False
        try:
            if setback is not None:
                make = partial(self._release_request, ownership, lease, holds)
                reply, sent, repeated = await client.persist(ownership, request_id, make, lease, False, sent, setback)
        except Failure as failure:
            if todo is Unlock.LOST:
                raise lost_error(ownership, reason) from failure.cause
            ownership.settle_until()
            if not isinstance(failure, Rejected):  # The server would refuse it again; the next unlock() asks.
                client.watchdog.settle(ownership)
            error = client.explain(failure, ownership, "an unlock", lease)
            raise await explain_type(client, error, ownership.name, self.layout) from failure.cause
        if todo is Unlock.LOST:
            raise lost_error(ownership, reason)
        if reply is None and not (repeated and holds == 1 and client.runtime.now() < ownership.deadline):
            client.watchdog.unwatch(ownership)
            if ownership.lose_one(request_id, GONE, client.runtime.now()):
                client.tell_lost(ownership)
            raise lost_error(ownership)
        return reply, sent

    def released(
        self, ownership: Ownership, request_id: int, holds: int, lease: int, sent: float, reply: Reply
    ) -> None:
        """The server took one hold away."""
        client = self.client
        ownership.released(request_id, sent + certain_for(lease) if holds > 1 else 0.0)
        if type(reply) is int and reply > 1:
            self.note_waiters(ownership, reply - 1, sent)
        if holds == 1 or not ownership.watched():
            client.watchdog.unwatch(ownership)
            if (
                ownership.holds and ownership.watched()
            ):  # Left by another thread, the block's owner may hold it anew by now.
                client.watchdog.watch(ownership)
        if client.talkative():
            held = client.runtime.now() - ownership.since[holds - 1]
            client.emit(events.Released(ownership.name, ownership.owner, holds - 1, held))

    def _release_request(self, ownership: Ownership, lease: int, holds: int, epoch: int, repeat: bool) -> Request:
        request = self.release_request(ownership, lease, holds, epoch, repeat)
        if holds == 1 and not repeat:
            ownership.prepared.keep_release(request, epoch)
        return request

    async def force_unlock(self) -> bool:
        """Free the lock, whoever holds it."""
        client = self.client
        client.check_open()
        ownership = self.mine()
        if ownership.pending is not None:
            try:
                await self._settle(ownership)
            except LockLostError:
                pass
        held = dict.fromkeys((ownership, *self._forced()))
        client.refuse_interrupter(*held)
        for each in held:
            self._expire(each)  # What simply ran out before is not taken from anybody now.
        victims = [(each, each.generation) for each in held]
        request_id, epoch = ownership.begin_force()

        def make(epoch: int, repeat: bool) -> Request:
            return self.force_request(ownership, epoch)

        try:
            reply, _, _ = await client.exchange(ownership, request_id, make(epoch, False), make, self._plain.lease_ms)
        except Failure as failure:
            error = client.explain(failure, ownership, "a force_unlock", self._plain.lease_ms)
            raise await explain_type(client, error, ownership.name, self.layout) from failure.cause
        if type(reply) is bytes:
            raise client.explain(scripts.unusable(reply), ownership, "a force_unlock", self._plain.lease_ms)
        if reply is None and self.one_sided:
            return False  # Whoever holds the other side keeps it.
        for each, generation in victims:
            if each.who is ownership.who:
                each.clear()
                client.watchdog.unwatch(each)
            elif each.lose("it was forced open by this client", generation):
                client.watchdog.unwatch(each)
                client.tell_lost(each)
        return reply is not None

    def _forced(self) -> list[Ownership]:
        """This client's ownerships that end when the lock is forced open."""
        return self.client.ownerships.of(self.names.raw)

    # ---- asking --------------------------------------------------------------------------------------------------

    async def is_locked(self) -> bool:
        """Whether anybody holds it."""
        return await self.client.query("EXISTS", self.names.raw) == 1

    async def is_held_by_current_thread(self) -> bool:
        """Whether the calling thread or task holds it."""
        return await self.is_held_by_thread(self.caller().number)

    async def is_held_by_thread(self, thread_id: int) -> bool:
        """Whether that thread or task of this client holds it."""
        self.check_thread_id(thread_id)
        return await self.client.query("HEXISTS", self.names.raw, self.field(thread_id)) == 1

    @staticmethod
    def check_thread_id(thread_id: object) -> None:
        """Raise ``TypeError`` if it is no number of a thread or task."""
        if isinstance(thread_id, bool) or not isinstance(thread_id, int):
            raise TypeError(f"thread_id must be an int, not {type(thread_id).__name__}")

    async def get_hold_count(self) -> int:
        """How often the calling thread or task holds it."""
        count = await self.client.query("HGET", self.names.raw, self.field(self.caller().number))
        return scripts.read_count(count)

    async def remain_time_to_live(self) -> float | None:
        """For how long it is locked, in seconds; infinite without a TTL; ``None`` if it is free."""
        left = await self.client.query("PTTL", self.names.raw)
        if type(left) is not int:
            raise scripts.unusable(left).cause
        if left == -2:
            return None
        return math.inf if left == -1 else left / 1000

    # ---- the caller's ownership --------------------------------------------------------------------------------------

    def mine(self) -> Ownership:
        """The ownership of who calls."""
        # As ownership_of(self.caller()), spelt out for who comes again: this is the hot path.
        client = self.client
        asking = client.runtime.owner()
        who = self._caller or asking
        ownership = self._last
        if (
            ownership is not None
            and ownership.who is who
            and ownership.table is client.ownerships
            and (not who.shared or is_callers(ownership))
        ):
            if ownership.pending is not None or ownership.queued_ms or client.runtime.inside(ownership.mutex):
                client.refuse_interrupter(ownership)
            return ownership
        return self.ownership_of(self.caller())

    def ownership_of(self, who: Caller) -> Ownership:
        """The ownership of this owner: the one in the table, the one used last, or a new one."""
        client = self.client
        ownership = self._last
        if ownership is None or ownership.who is not who or ownership.table is not client.ownerships:
            key = (self.names.raw, self.field(who.number))
            ownership = client.ownerships.find(key)
            if ownership is None:
                ownership = client.ownerships.enter(Ownership(key, who, client.runtime))
            self._last = ownership
        if ownership.pending is not None or ownership.queued_ms or client.runtime.inside(ownership.mutex):
            client.refuse_interrupter(ownership)
        return ownership


def _setback(reply: Reply, read: Callable[[Reply], Stale | None]) -> Failure | Stale | None:
    try:
        return read(reply)
    except Unusable as failure:
        return failure


def is_callers(held: Holding) -> bool:
    """Whether what a thread held last is the calling context's to use, as far as a glance tells."""
    if held.mark is None or held.who.divided:
        return False
    innermost = held.who.innermost()
    if innermost is None or held.mark() is not innermost:  # Else the context holds this, or did so last.
        return False
    return not held.who.pooled or held.bound() or not held.in_use()  # A block may be of another job of the pool.
