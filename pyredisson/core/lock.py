"""The reentrant lock: Redisson's ``RLock``, with holds that are counted exactly once and losses that are told.

Source: ``org.redisson.RedissonLock``. What differs on purpose: a TTL is never lowered; a request carries the number of
holds that its client counts, so that repeating it is safe; a lost hold is an error, not a silence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

from pyredisson.core import events, scripts
from pyredisson.core.deadline import Deadline, certain_for, lease_ms, wait_seconds
from pyredisson.core.holds import GONE, Claim, Level, Pending, Unlock, lost_error
from pyredisson.core.names import LockNames, owner_field
from pyredisson.core.replicas import NotAcknowledged, unasked
from pyredisson.core.runtime import Failure, Refused, Unanswered, Unusable, is_interruption
from pyredisson.core.waiting import until_taken
from pyredisson.core.wakeups import CROWD, lock_message
from pyredisson.core.wrong_type import explain_type
from pyredisson.errors import LockError, LockLostError, LockNotOwnedError, LockTimeoutError, RedissonError
from pyredisson.lease import Lease

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson.core.client import ClientCore
    from pyredisson.core.deadline import Seconds
    from pyredisson.core.runtime import Caller, Holding, MadeCaller, Reply, Request
    from pyredisson.core.wakeups import Party

__all__ = ["Attempt", "LockCore", "is_callers", "not_held", "timed_out"]

#: For so many seconds an owner may take and release a lock as often as it can, before it lets the others have it: to
#: hand over each time costs more than many a short hold.
SLICE = 0.02

#: For how long an owner that released a lock gives way to those who wait for it, in seconds: this long and two round
#: trips, so that they can hear of it and ask.
WAY_MIN = 0.001
WAY_MAX = 0.02


class LockCore:
    """One handle on a reentrant lock. Cheap, without state of its own, and shared by threads and tasks at will.

    Other kinds of lock are subclasses: they say other things to the server, and count, wait, renew and settle as here.
    """

    __slots__ = ("_caller", "_covers", "_last", "_plain", "home", "names")

    #: Those who wait on one channel for the same kind share the server's answers.
    kind = "lock"
    #: What it looks like in Redis. Kinds of one layout exclude each other, and share their holds.
    layout = "lock"
    #: How many waiters a message wakes.
    message = staticmethod(lock_message)
    #: What the watchdog asks for many claims at once; see ``scripts.renew_locks``.
    renew = staticmethod(scripts.renew_locks)
    #: Whether an acquire that is answered by nil has taken it.
    nil_takes = True
    #: Whether a newcomer may have to give way although it has not just released; see :meth:`_give_way`.
    polite = False
    #: Whether it is but one side of a lock, so that forcing it open says nothing about who holds the other.
    one_sided = False

    def __init__(self, home: ClientCore, name: str) -> None:
        self.home = home
        self.names = LockNames(name)
        home.check_names(self.names)
        self._plain = home.watchdog.plain_level
        self._covers = frozenset((name,))
        self._caller: MadeCaller | None = None
        self._last: Claim | None = None  # The claim used last, so that its bytes need not be made anew.

    def acting_for(self, caller: MadeCaller | None) -> Self:
        """Ask in the name of an owner that the user made, whoever calls."""
        self._caller = caller
        return self

    def describe(self) -> str:
        """Its state as this client knows it, for ``repr``; asks no server."""
        held = [claim for claim in self.home.claims.of(self.names.raw) if claim.levels]
        text = repr(self.names.raw)
        for claim in held:
            text += f" {'lost' if claim.loss else 'held'} by {claim.owner[:4]}…:{claim.who.number} ×{len(claim.levels)}"
        waiting = self.waiting()
        return f"{text}, {waiting} waiting here" if waiting else text

    def waiting(self) -> int:
        """How many wait for it in this client."""
        return self.home.wakeups.waiting(self.names.channel)

    def owner(self) -> Caller:
        """Who asks: the calling thread or task, if this handle does not act for an owner of its own."""
        asking = self.home.runtime.owner()  # In any case: it looks whether this is the right event loop.
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
        claim = self.home.claims.find((self.names.raw, self.field(who.number)))
        return claim is not None and claim.in_use()

    # ---- what a kind of lock says to the server ------------------------------------------------------------------

    def field(self, number: int) -> str:
        """What stands for an owner in Redis."""
        return owner_field(self.home.id, number)

    def channel(self, claim: Claim) -> str:
        """Where this owner hears that the lock may be free."""
        return self.names.channel

    def party(self) -> Party | None:
        """With whom those who wait for it sit, if each has a channel of its own."""
        return None

    def acquire_request(self, claim: Claim, level: Level, holds: int, epoch: int, repeat: bool) -> Request:
        """The request to take the lock for an owner who holds it ``holds`` times as yet."""
        return scripts.acquire_lock(
            self.home.runtime,
            self.names,
            claim.owner,
            lease_ms=level.lease_ms,
            holds=holds,
            epoch=epoch,
            repeat=repeat,
        )

    def release_request(self, claim: Claim, lease_ms: int, holds: int, epoch: int, repeat: bool) -> Request:
        """The request to take one of ``holds`` away; ``0``: to give up whatever stands there."""
        return scripts.release_lock(
            self.home.runtime, self.names, claim.owner, lease_ms=lease_ms, holds=holds, epoch=epoch, repeat=repeat
        )

    def force_request(self, claim: Claim, epoch: int) -> Request:
        """The request to free the lock, whoever holds it."""
        return scripts.force_unlock(self.home.runtime, self.names, claim.owner, epoch=epoch)

    def read_acquire(self, claim: Claim, level: Level, reply: Reply) -> scripts.Acquire:
        """What the reply to an acquire means; not asked about the usual one, nil for taken."""
        return scripts.read_acquire(reply)

    # ---- acquiring -----------------------------------------------------------------------------------------------

    # lock() and try_lock() check their arguments and hand over to take(): one coroutine less on the hot path.

    def lock(self, lease_time: Seconds | None = None) -> Coroutine[Any, Any, bool]:
        """Acquire the lock, however long it takes."""
        return self.take(None, self._plain if lease_time is None else self._level(lease_time))

    def try_lock(self, wait_time: Seconds | None = 0, lease_time: Seconds | None = None) -> Coroutine[Any, Any, bool]:
        """Take the lock if it is to be had within ``wait_time``."""
        level = self._plain if lease_time is None else self._level(lease_time)
        return self.take(wait_seconds(wait_time), level)

    async def acquire(self, wait: float | None) -> bool:
        """Take the lock if it is to be had within ``wait`` seconds; ``None``: however long it takes."""
        return await self.take(wait, self._plain)

    async def hold(self, wait_time: Seconds | None, lease_time: Seconds | None, *, skip: bool = False) -> Lease | None:
        """Acquire the lock for a block, whose body is told of a loss. ``skip``: return ``None`` if it is not free."""
        wait = wait_seconds(wait_time)
        level = self._level(lease_time, block=True)
        claim = self.mine()
        lease = Lease(claim, level, self.home.runtime)  # Made before: once it is taken, nothing is left to interrupt.
        if await self.take(wait, level, claim):
            return lease
        if skip:
            return None
        raise LockTimeoutError(timed_out("lock", self.names.raw, wait, self._held_here(claim)), name=self.names.raw)

    def _held_here(self, claim: Claim) -> str | None:
        """Who of this client holds the lock, for messages to somebody else."""
        return next((each.who.describe() for each in self._holders() if each.who is not claim.who), None)

    def _holders(self) -> list[Claim]:
        """The claims of this client that hold the lock, so that nobody else can."""
        return [each for each in self.home.claims.of(self.names.raw) if each.levels and each.loss is None]

    def _level(self, lease_time: Seconds | None, *, block: bool = False) -> Level:
        if lease_time is None:
            return Level(self._plain.lease_ms, watchdog=True, block=block)
        return Level(lease_ms(lease_time), watchdog=False, block=block)

    def take(self, wait: float | None, level: Level, claim: Claim | None = None) -> Coroutine[Any, Any, bool]:
        """Acquire the lock for a level, waiting at most ``wait`` seconds; ``None``: as long as it takes."""
        if self._caller is None:
            return self._acquire(wait, level, claim)
        return self._caller.alone(self._acquire(wait, level, claim))

    async def _acquire(self, wait: float | None, level: Level, claim: Claim | None) -> bool:
        home = self.home
        runtime = home.runtime
        if home.closed:
            home.check_open()
        if claim is None:
            claim = self.mine()
        claim.patience = wait
        asked = claim.began = runtime.now()
        holds = -1  # not known yet
        try:
            if claim.levels or claim.pending:
                if claim.who.pooled:
                    claim.who.look_behind(claim, self.tell_left_behind)
                await self._make_ready(claim)
            elif self._covers:
                claim.who.mark(claim, self._covers, self.tell_left_behind)
            holds = len(claim.levels)
            refused: int | None = None
            seen = home.wakeups.glance(self.channel(claim)) if wait != 0 else None
            if (self.polite or claim.way > asked) and wait != 0 and not holds:
                refused = self._give_way(claim, wait, asked)
            if refused is None:
                try:
                    refused = await self.attempt(claim, level)
                except Failure as failure:
                    if not home.waits_through(failure, wait):
                        raise
                    refused = 0  # As if it were to be asked for again at once.
            taken = refused is None
            if refused is not None and wait != 0:
                if not runtime.suspends:
                    self.check_not_stuck(claim)
                taken = await self._wait(claim, level, refused, seen, Deadline.after(wait, asked))
                claim.came = runtime.now()
                if claim.queued_ms:
                    await self._leave_queue(claim)
            if taken and not holds and self._covers and claim.who.shared and not is_callers(claim):
                # A signal handler has left a mark of another lock before this one was asked for.
                claim.who.mark(claim, self._covers, self.tell_left_behind)
            if home.talkative():
                waited = runtime.now() - asked
                if taken:
                    home.emit(events.Acquired(claim.name, claim.owner, waited, len(claim.levels)))
                else:
                    home.emit(events.TimedOut(claim.name, claim.owner, waited))
            return taken
        except Failure as failure:
            error = home.explain(failure, claim, "an acquire", level.lease_ms)
            if claim.queued_ms:
                await self._leave_queue(claim, at_once=isinstance(failure, Refused))
            error = await explain_type(home, error, claim.name, self.layout)
            raise error from failure.cause
        except RedissonError:
            if claim.queued_ms:
                await self._leave_queue(claim)
            raise
        except GeneratorExit:  # A coroutine that is being closed can wait for nothing any more.
            if claim.undo_acquire(holds):
                claim.pending_until = max(claim.deadline, runtime.now() + level.lease_ms / 1000)
                home.watchdog.settle(claim)
            self._resume(claim)
            raise
        except BaseException:
            await self._go_away(claim, holds, level)
            raise

    def tell_left_behind(self, left: Holding) -> None:
        """Tell of what a thread holds for another call chain, now that it has gone on."""
        self.home.emit(events.LeftBehind(left.name, left.owner, left.who.describe()))

    def check_not_stuck(self, claim: Claim) -> None:
        """Raise ``LockError`` if a holder can only release the lock when this call is over."""
        for each in self._holders():
            if each.who is not claim.who and (each.bound() or not each.who.shared) and each.holder_alive():
                why = self.home.runtime.stuck_behind(each.who)
                if why is not None:
                    raise LockError(f"waiting for lock {claim.name!r} would never end: {why}", name=claim.name)

    def _wait(
        self, claim: Claim, level: Level, refused: int, seen: int | None, deadline: Deadline
    ) -> Coroutine[Any, Any, bool]:
        """After a first attempt was refused. See :func:`until_taken`."""
        wakeups = self.home.wakeups
        if wakeups.waiting(self.names.channel) > CROWD:
            claim.acquire_request = None  # Made anew when its turn comes.
            claim.acquire_request_lease = 0
        return until_taken(
            Attempt(self, claim, level),
            refused,
            runtime=self.home.runtime,
            wakeups=wakeups,
            channel=self.channel(claim),
            kind=self.kind,
            message=self.message,
            seen=seen,
            deadline=deadline,
            free_after=level.lease_ms / 1000,
            party=self.party(),
        )

    async def _leave_queue(self, claim: Claim, *, at_once: bool = True) -> None:
        """The owner waits no longer: its place is given up, and what an unanswered request may have taken."""
        if claim.stop_waiting(self.home.runtime.now()) or claim.pending is not None:
            if at_once:
                await self.home.settle_on_leaving(claim, leaving=False)
            else:
                self.home.watchdog.settle(claim)

    def _give_way(self, claim: Claim, wait: float | None, now: float) -> int | None:
        """For how many ms to act as if refused: those who wait for what its owner has just released come first.

        They need the way of a message and of a request; an owner that asks again at once would overtake them each time.
        """
        left = claim.way - now
        return int(left * 1000) if wait is None or wait > 2 * left else None

    def note_waiters(self, claim: Claim, heard: int, sent: float) -> None:
        """A release that was ``sent`` then was heard by so many connections."""
        wakeups = self.home.wakeups
        channel = self.channel(claim)
        if wakeups.glance(channel) is not None and not wakeups.waiting(channel):
            heard -= 1  # Our own subscriber's, which stays a little longer than those who wait.
        now = self.home.runtime.now()
        if heard > 0 and now - claim.came > SLICE:
            claim.way = now + min(WAY_MIN + 2 * (now - sent), WAY_MAX)

    async def ask_once(self, claim: Claim, level: Level) -> int | None:
        """Ask for the lock once, for somebody who does not wait for it alone. Returns and raises as :meth:`attempt`."""
        claim.patience = 0.0
        if claim.levels or claim.pending:
            await self._make_ready(claim)
        return await self.attempt(claim, level)

    async def give_back(self, claim: Claim) -> None:
        """Give back one hold for which nobody will come and ask; whoever is interrupted sees to it that it is done.

        Raises as :meth:`unlock`, but for a ``Failure`` of an earlier request: then it is given back behind that.
        """
        if claim.pending is not None:
            owes = claim.owe(block=True)
            await self.home.settle(claim, behind=True)
            if owes:
                return
        await self._release_one(claim, block=True)

    # For a node among many, whose requests go out together: the usual attempt and release of :meth:`attempt` and
    # :meth:`_release_one`, cut in two where the request is under way, and without a coroutine each. They begin with
    # :meth:`take_on`, and with ``begin_first`` or ``begin_last`` of the claim.

    def first_request(self, claim: Claim, level: Level) -> Request:
        """What an owner asks who holds nothing and has nothing open."""
        if claim.acquire_request_lease == level.lease_ms and claim.request_epoch == claim.epoch:
            return claim.acquire_request
        return self._acquire_request(claim, level, 0, claim.epoch, repeat=False)

    async def end_first(
        self, claim: Claim, level: Level, turn: int, sent: float, answer: Reply | Failure
    ) -> int | None:
        """Take what came of it, if that is not nil. Returns and raises as :meth:`attempt`; nobody watches the level."""
        setback = answer if isinstance(answer, Failure) else _setback(answer, scripts.read_stale)
        if setback is not None:
            answer, sent = await self._persist(claim, level, turn, 0, False, sent, setback)
        assert not isinstance(answer, Failure)
        said = None if answer is None and self.nil_takes else self.read_acquire(claim, level, answer)
        if said is None:
            return None if claim.granted(turn, level, sent + level.certain) else 0
        return self._refused(claim, turn, said)

    def last_request(self, claim: Claim) -> Request:
        """What gives back the only hold of an owner who has nothing open."""
        if claim.request_epoch == claim.epoch and claim.release_request is not None:
            return claim.release_request
        return self._release_request(claim, claim.levels[0].lease_ms, 1, claim.epoch, repeat=False)

    async def end_last(self, claim: Claim, turn: int, lease: int, sent: float, answer: Reply | Failure) -> None:
        """Take what came of it. Raises as :meth:`unlock`."""
        setback: Failure | scripts.Stale | None
        if isinstance(answer, Failure):
            answer, setback = None, answer
        else:
            setback = _setback(answer, scripts.read_release)
        if setback is not None or answer is None:
            answer, sent = await self._finish_release(
                claim, turn, 1, lease, Unlock.RELEASE, GONE, sent, answer, setback
            )
        self.released(claim, turn, 1, lease, sent, answer)

    async def attempt(self, claim: Claim, level: Level) -> int | None:
        """Ask for the lock once. ``None``: taken. Else for how many ms it is another's (-1: without end)."""
        home = self.home
        if claim.by is not self:
            self.take_on(claim)
        turn, epoch, holds, repeat = claim.begin_acquire(level)
        if claim.acquire_request_lease == level.lease_ms and claim.request_epoch == epoch and not (holds or repeat):
            request = claim.acquire_request
        else:
            request = self._acquire_request(claim, level, holds, epoch, repeat)
        if not claim.listed:  # Another thread has swept the table in this very moment, and took the claim for idle.
            home.claims.enter(claim)
        # Here and in _release_one() the exchange is spelt out: this is the path of everything that users do.
        lease = level.lease_ms
        sync = home.sync
        sent = home.runtime.now()
        reply: Reply = None
        setback: Failure | scripts.Stale | None
        try:
            if sync is None:
                reply = await home.runtime.eval(request, home.attempt_timeout(lease))
                if home.sync is not sync and self._took(claim, level, reply):
                    raise unasked()
            else:
                reply = await sync.take(request, home.attempt_timeout(lease), partial(self._took, claim, level))
            setback = None if reply is None else scripts.read_stale(reply)
        except Failure as failure:
            setback = failure
        except NotAcknowledged as short:
            raise await self._give_back(claim, level, short) from short.cause
        if setback is not None:
            reply, sent = await self._persist(claim, level, turn, holds, repeat, sent, setback)
        answer = None if reply is None and self.nil_takes else self.read_acquire(claim, level, reply)
        if answer is None:
            deadline = sent + level.certain
            over = home.runtime.now() >= (max(deadline, claim.deadline) if holds else deadline)
            if over and (level.watched or level.certain > 0):  # Else the lease is so short that it never is certain.
                await home.settle(claim)  # It came when its lease was over: that is no hold, so give it back,
                return 0  # and look again at once.
            if not claim.granted(turn, level, deadline):
                return 0
            if level.watched:
                home.watchdog.watch(claim)
            return None
        return self._refused(claim, turn, answer)

    async def _persist(
        self,
        claim: Claim,
        level: Level,
        turn: int,
        holds: int,
        repeat: bool,
        sent: float,
        setback: Failure | scripts.Stale,
    ) -> tuple[Reply, float]:
        """Go on with an attempt whose first copy brought no answer. Returns one, and when what it answers was sent."""
        make = partial(self._acquire_request, claim, level, holds)
        try:
            reply, sent, _ = await self.home.persist(
                claim, turn, make, level.lease_ms, repeat, sent, setback, took=partial(self._took, claim, level)
            )
        except NotAcknowledged as short:
            raise await self._give_back(claim, level, short) from short.cause
        except Unanswered:
            raise  # It stays pending: whoever comes next repeats it or gives it back.
        except Failure:
            claim.refused(turn)
            raise
        return reply, sent

    def _refused(self, claim: Claim, turn: int, answer: scripts.Acquire) -> int:
        claim.refused(turn)
        if isinstance(answer, int):
            return answer
        if claim.lose(GONE):
            self.home.watchdog.unwatch(claim)
            self.home.tell_lost(claim)
        raise lost_error(claim)

    def _took(self, claim: Claim, level: Level, reply: Reply) -> bool:
        """Whether the reply to an acquire says that it was taken."""
        if reply is None and self.nil_takes:
            return True
        return scripts.read_stale(reply) is None and self.read_acquire(claim, level, reply) is None

    async def _give_back(self, claim: Claim, level: Level, short: NotAcknowledged) -> Exception:
        """The hold was taken, and too few replicas know of it: give it back. Returns what to say of it."""
        home = self.home
        claim.pending_until = max(claim.deadline, home.runtime.now() + level.lease_ms / 1000)
        given_back = True
        try:
            await home.settle(claim)
        except Failure:
            home.watchdog.settle(claim)
            given_back = False
        return home.replicas.error(claim.name, short, given_back=given_back)

    def take_on(self, claim: Claim) -> None:
        """The claim is this handle's from now on. What was prepared by one of another kind is of no use."""
        if claim.levels and claim.by is not None and claim.by.layout != self.layout:
            raise LockError(
                f"{claim.name!r} is held by {claim.owner} as a {claim.by.layout}; a {self.layout} needs another name",
                name=claim.name,
            )
        if type(claim.by) is not type(self):
            claim.acquire_request = claim.release_request = None
            claim.acquire_request_lease = 0
        claim.by = self

    def _acquire_request(self, claim: Claim, level: Level, holds: int, epoch: int, repeat: bool) -> Request:
        request = self.acquire_request(claim, level, holds, epoch, repeat)
        if not (holds or repeat):
            self._under(claim, epoch)
            claim.acquire_request, claim.acquire_request_lease = request, level.lease_ms
        return request

    @staticmethod
    def _under(claim: Claim, epoch: int) -> None:
        """Bytes that are kept from now on are those of this epoch."""
        if claim.request_epoch != epoch:
            claim.request_epoch = epoch
            claim.acquire_request = claim.release_request = None
            claim.acquire_request_lease = 0

    async def _make_ready(self, claim: Claim) -> None:
        """Bring a claim that has a past into a state from which it can acquire."""
        home = self.home
        self._expire(claim)
        if claim.loss is not None:
            raise lost_error(claim, claim.loss)
        # What a lock of another kind left open is settled as that kind does it.
        if claim.pending is Pending.RELEASE or claim.owed or (claim.pending and type(claim.by) is not type(self)):
            await home.settle(claim)

    def _expire(self, claim: Claim) -> None:
        if claim.expire(self.home.runtime.now()):
            self.home.watchdog.unwatch(claim)
            self.home.tell_lost(claim)

    async def _go_away(self, claim: Claim, holds: int, level: Level) -> None:
        """The caller leaves in the middle of an acquire (Ctrl-C, cancellation): give back what it may have got."""
        home = self.home
        if claim.undo_acquire(holds):
            claim.pending_until = max(claim.deadline, home.runtime.now() + level.lease_ms / 1000)
            await home.settle_on_leaving(claim)
            self._resume(claim)

    # ---- releasing -----------------------------------------------------------------------------------------------

    def unlock(self, begun: list[None] | None = None) -> Coroutine[Any, Any, None]:
        """Give back one hold of the calling thread or task, or continue to, if the last time could not be settled.

        ``begun`` gets an entry before anything is done: whoever is interrupted after that finds it done.
        """
        if self._caller is None:
            return self._unlock(begun)
        return self._caller.alone(self._unlock(begun))

    async def _unlock(self, begun: list[None] | None) -> None:
        home = self.home
        if home.closed:
            home.check_open()
        claim = self.mine()
        if claim.pending is not None:
            # Should an acquire not be settled now, this unlock is done behind it. Called again, it is this one still.
            owes = claim.pending is Pending.ACQUIRE and claim.owe(block=False)
            if await self._settle(claim) is Pending.RELEASE or owes:
                claim.take_released_behind()
                self._resume(claim)
                return
        # Not before what is pending: what the background settles in between is seen here.
        if claim.released_behind and claim.take_released_behind():
            self._resume(claim)
            return
        await self._release(claim, begun)

    async def leave(
        self, error: BaseException | None = None, begun: list[None] | None = None, lease: Lease | None = None
    ) -> None:
        """Give back the hold of a block that ended with ``error``, which goes before any error of ours.

        Unlike :meth:`unlock` this never stands for an earlier one that failed. ``begun`` is as there.

        Args:
            error: What ended the block.
            begun: As for :meth:`unlock`.
            lease: What the block has from :meth:`hold`. It says whose hold that is, whoever leaves the block.
        """
        if isinstance(error, GeneratorExit) and self.home.runtime.suspends:
            self._hand_over(lease)
            return
        try:
            await self._leave(begun, lease)
        except Exception as ours:
            if error is None or is_interruption(ours):
                raise

    def _hand_over(self, lease: Lease | None) -> None:
        """The block's coroutine is being closed, and can wait for nothing: leave the release to the watchdog."""
        claim = self._claim_of_block(lease) if lease is not None else self._claim_of_closed_block()
        if claim is None or not claim.levels or (lease is not None and not lease._brought_up()):
            return
        if claim.hand_over():
            self.home.watchdog.settle(claim)
        if not claim.watched():
            self.home.watchdog.unwatch(claim)

    def _claim_of_block(self, lease: Lease) -> Claim | None:
        """The claim of a ``hold()``, unless the client has begun anew since (after a fork, or on a new event loop)."""
        claim = lease._held
        return claim if isinstance(claim, Claim) and claim.client == self.home.id else None

    def _claim_of_closed_block(self) -> Claim | None:
        """The claim of the calling task. It may be closing an asynchronous generator of another one."""
        try:
            who = self.owner()
        except RuntimeError:
            return None  # It is closed where no task runs.
        claim = self.claim_of(who)
        if claim.levels:
            return claim
        for mark in who.marks():
            held = mark.held
            if isinstance(held, Claim) and held.key[0] == claim.key[0] and held.client == claim.client:
                return held if held.loss is None else None
        return None

    async def _leave(self, begun: list[None] | None, lease: Lease | None) -> None:
        home = self.home
        home.check_open()
        claim = self._claim_of_block(lease) if lease is not None else self.mine()
        if claim is None or (lease is not None and not lease._brought_up()):
            raise LockNotOwnedError(
                f"lock {self.names.raw!r} is no longer held by this block: it was released, or forced open, within it",
                name=self.names.raw,
            )
        if claim.pending is not None:
            if begun is not None:
                begun.append(None)
            # Nobody comes back for a block's hold: if it cannot be given back now, it is behind what is pending.
            owes = claim.owe(block=True)
            try:
                await self._settle(claim)
            except LockLostError:
                if owes:
                    raise
                # Else that of an inner block, which has said so itself; ours comes now.
            if owes:
                self._resume(claim)
                return
        await self._release(claim, begun, block=True)

    async def _settle(self, claim: Claim) -> Pending | None:
        try:
            return await self.home.settle(claim)
        except Failure as failure:
            raise self.home.explain(failure, claim, "an earlier request", self._plain.lease_ms) from failure.cause

    def _resume(self, claim: Claim) -> None:
        if claim.watched():
            self.home.watchdog.watch(claim)
        else:
            self.home.watchdog.unwatch(claim)

    async def _release(self, claim: Claim, begun: list[None] | None = None, *, block: bool = False) -> None:
        before = len(claim.levels)
        try:
            if begun is not None:
                begun.append(None)
            await self._release_one(claim, block)
        except BaseException as error:
            if is_interruption(error):  # The caller has no use for the hold in any case.
                if claim.redo_release(before):
                    claim.pending_until = claim.deadline
                    if isinstance(error, GeneratorExit) and self.home.runtime.suspends:
                        self.home.watchdog.settle(claim)
                    else:
                        await self.home.settle_on_leaving(claim)
                self._resume(claim)  # In any case: it may have been released, and be watched still.
            raise

    async def _release_one(self, claim: Claim, block: bool) -> None:
        home = self.home
        if claim.levels and home.runtime.now() >= claim.deadline:
            self._expire(claim)
        reason = claim.loss or "its lease ran out"
        if claim.by is not self:
            self.take_on(claim)
        turn, epoch, holds, lease, todo = claim.begin_release(block=block)
        lease = lease or self._plain.lease_ms
        if todo is Unlock.NOT_OWNED:
            raise LockNotOwnedError(
                not_held("lock", claim.name, claim.who, self._held_here(claim)),
                name=claim.name,
            )

        request = claim.release_request if holds == 1 and claim.request_epoch == epoch else None
        if request is None:
            request = self._release_request(claim, lease, holds, epoch, repeat=False)
        sent = home.runtime.now()
        reply: Reply = None
        setback: Failure | scripts.Stale | None
        try:
            reply = await home.runtime.eval(request, home.attempt_timeout(lease))
            setback = None if type(reply) is int else scripts.read_release(reply)
        except Failure as failure:
            setback = failure
        if setback is not None or reply is None or todo is Unlock.LOST:
            reply, sent = await self._finish_release(claim, turn, holds, lease, todo, reason, sent, reply, setback)
        self.released(claim, turn, holds, lease, sent, reply)

    async def _finish_release(
        self,
        claim: Claim,
        turn: int,
        holds: int,
        lease: int,
        todo: Unlock,
        reason: str,
        sent: float,
        reply: Reply,
        setback: Failure | scripts.Stale | None,
    ) -> tuple[Reply, float]:
        """Go on with a release whose first copy did not simply succeed. Returns the answer, and to what sent when."""
        home = self.home
        repeated = False
        try:
            if setback is not None:
                make = partial(self._release_request, claim, lease, holds)
                reply, sent, repeated = await home.persist(claim, turn, make, lease, False, sent, setback)
        except Failure as failure:
            if todo is Unlock.LOST:
                raise lost_error(claim, reason) from failure.cause
            claim.pending_until = claim.deadline
            if not isinstance(failure, Refused):  # The server would refuse it again; the next unlock() asks.
                home.watchdog.settle(claim)
            error = home.explain(failure, claim, "an unlock", lease)
            raise await explain_type(home, error, claim.name, self.layout) from failure.cause
        if todo is Unlock.LOST:
            raise lost_error(claim, reason)
        if reply is None and not (repeated and holds == 1 and home.runtime.now() < claim.deadline):
            home.watchdog.unwatch(claim)
            if claim.lose_one(turn, GONE, home.runtime.now()):
                home.tell_lost(claim)
            raise lost_error(claim)
        return reply, sent

    def released(self, claim: Claim, turn: int, holds: int, lease: int, sent: float, reply: Reply) -> None:
        """The server took one hold away."""
        home = self.home
        claim.released(turn, sent + certain_for(lease) if holds > 1 else 0.0)
        if type(reply) is int and reply > 1:
            self.note_waiters(claim, reply - 1, sent)
        if holds == 1 or not claim.watched():
            home.watchdog.unwatch(claim)
            if claim.levels and claim.watched():  # Left by another thread, the block's owner may hold it anew by now.
                home.watchdog.watch(claim)
        if home.talkative():
            held = home.runtime.now() - claim.since[holds - 1]
            home.emit(events.Released(claim.name, claim.owner, holds - 1, held))

    def _release_request(self, claim: Claim, lease: int, holds: int, epoch: int, repeat: bool) -> Request:
        request = self.release_request(claim, lease, holds, epoch, repeat)
        if holds == 1 and not repeat:
            self._under(claim, epoch)
            claim.release_request = request
        return request

    async def force_unlock(self) -> bool:
        """Free the lock, whoever holds it."""
        home = self.home
        home.check_open()
        claim = self.mine()
        if claim.pending is not None:
            try:
                await self._settle(claim)
            except LockLostError:
                pass
        held = dict.fromkeys((claim, *self._forced()))
        home.refuse_interrupter(*held)
        for each in held:
            self._expire(each)  # What simply ran out before is not taken from anybody now.
        victims = [(each, each.generation) for each in held]
        turn, epoch = claim.begin_force()

        def make(epoch: int, repeat: bool) -> Request:
            return self.force_request(claim, epoch)

        try:
            reply, _, _ = await home.exchange(claim, turn, make(epoch, False), make, self._plain.lease_ms)
        except Failure as failure:
            error = home.explain(failure, claim, "a force_unlock", self._plain.lease_ms)
            raise await explain_type(home, error, claim.name, self.layout) from failure.cause
        if type(reply) is bytes:
            raise home.explain(scripts.unusable(reply), claim, "a force_unlock", self._plain.lease_ms)
        if reply is None and self.one_sided:
            return False  # Whoever holds the other side keeps it.
        for each, generation in victims:
            if each.who is claim.who:
                each.clear()
                home.watchdog.unwatch(each)
            elif each.lose("it was forced open by this client", generation):
                home.watchdog.unwatch(each)
                home.tell_lost(each)
        return reply is not None

    def _forced(self) -> list[Claim]:
        """This client's claims that end when the lock is forced open."""
        return self.home.claims.of(self.names.raw)

    # ---- asking --------------------------------------------------------------------------------------------------

    async def is_locked(self) -> bool:
        """Whether anybody holds it."""
        return await self.home.query("EXISTS", self.names.raw) == 1

    async def is_held_by_current_thread(self) -> bool:
        """Whether the calling thread or task holds it."""
        return await self.is_held_by_thread(self.caller().number)

    async def is_held_by_thread(self, thread_id: int) -> bool:
        """Whether that thread or task of this client holds it."""
        self.check_thread_id(thread_id)
        return await self.home.query("HEXISTS", self.names.raw, self.field(thread_id)) == 1

    @staticmethod
    def check_thread_id(thread_id: object) -> None:
        """Raise ``TypeError`` if it is no number of a thread or task."""
        if isinstance(thread_id, bool) or not isinstance(thread_id, int):
            raise TypeError(f"thread_id must be an int, not {type(thread_id).__name__}")

    async def get_hold_count(self) -> int:
        """How often the calling thread or task holds it."""
        count = await self.home.query("HGET", self.names.raw, self.field(self.caller().number))
        return scripts.read_count(count)

    async def remain_time_to_live(self) -> float | None:
        """For how long it is locked, in seconds; infinite without a TTL; ``None`` if it is free."""
        left = await self.home.query("PTTL", self.names.raw)
        if type(left) is not int:
            raise scripts.unusable(left).cause
        if left == -2:
            return None
        return math.inf if left == -1 else left / 1000

    # ---- the caller's claim --------------------------------------------------------------------------------------

    def mine(self) -> Claim:
        """The claim of who calls."""
        # As claim_of(self.caller()), spelt out for who comes again: this is the hot path.
        home = self.home
        asking = home.runtime.owner()
        who = self._caller or asking
        claim = self._last
        if (
            claim is not None
            and claim.who is who
            and claim.listed
            and claim.client == home.id
            and (not who.shared or is_callers(claim))
        ):
            if claim.pending is not None or claim.queued_ms or home.runtime.inside(claim.mutex):
                home.refuse_interrupter(claim)
            return claim
        return self.claim_of(self.caller())

    def claim_of(self, who: Caller) -> Claim:
        """The claim of this owner: the one in the table, the one used last, or a new one."""
        home = self.home
        claim = self._last
        if claim is None or claim.who is not who or not claim.listed or claim.client != home.id:
            key = (self.names.raw, self.field(who.number))
            claim = home.claims.find(key)
            if claim is None:
                claim = home.claims.enter(Claim(key, who, home.id, home.runtime))
            self._last = claim
        if claim.pending is not None or claim.queued_ms or home.runtime.inside(claim.mutex):
            home.refuse_interrupter(claim)
        return claim


def _setback(reply: Reply, read: Callable[[Reply], scripts.Stale | None]) -> Failure | scripts.Stale | None:
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


def timed_out(what: str, name: str, wait: float | None, holder: str | None) -> str:
    """The message for who did not get a lock in time. ``holder``: who of this client has it."""
    held = f"; {holder} of this client holds it" if holder else ""
    return f"timed out after {wait} s waiting for {what} {name!r}{held}"


def not_held(what: str, name: str, who: Caller, holder: str | None) -> str:
    """The message for who releases a lock that it does not hold. ``holder``: who of this client has it."""
    there = f" {holder} of this client holds it, and" if holder else ""
    return (
        f"{what} {name!r} is not held by {who.describe()} (number {who.number}):{there} only the thread or task that "
        "acquired it can release it. To release it elsewhere use hold(), whose block may be left in any thread or "
        "task, or get_lock(name, owner=client.new_owner())"
    )


class Attempt:
    """An attempt of one owner to take one lock, to be made as often as it takes."""

    __slots__ = ("claim", "level", "lock")

    def __init__(self, lock: LockCore, claim: Claim, level: Level) -> None:
        self.lock = lock
        self.claim = claim
        self.level = level

    def __call__(self) -> Coroutine[Any, Any, int | None]:
        return self.lock.attempt(self.claim, self.level)
