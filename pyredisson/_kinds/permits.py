"""What both kinds of semaphore have in common: their first permits, and how a caller waits for permits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, final

from pyredisson._core import events
from pyredisson._core.acquiring import announce_wait, late_again, report_failed, report_outcome
from pyredisson._core.deadline import CLEANUP_BUDGET, DAY, Deadline, lease_ms
from pyredisson._core.failures import (
    OUR_ERRORS,
    Failure,
    Rejected,
    cannot_wait,
    explain_type,
    gives_way,
    is_interruption,
)
from pyredisson._core.hold import LossCallback, check_skip, given_up, leave_closed, lost_error
from pyredisson._core.holder_lookup import token_id
from pyredisson._core.kind import HeldKind
from pyredisson._core.names import SemaphoreNames, owner_field
from pyredisson._core.numbered import NumberedCall, Operation, ScriptCall
from pyredisson._core.ownership import Ownership
from pyredisson._core.releasing import extend, release_later
from pyredisson._core.requests import (
    ACQUIRED,
    AT_ONCE,
    Granted,
    LockAcquired,
    NeverSet,
    OtherKind,
    Refused,
    read_int,
    unreached,
    waits_through,
)
from pyredisson._core.runtime import PUBLISH
from pyredisson._core.waiting import QueuedGroup, WaitingCall, released_as, wait_in_queue
from pyredisson._kinds.numbered import NumberedCore, count_of
from pyredisson.errors import LockError, LockTimeoutError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pyredisson._core.client import ClientCore
    from pyredisson._core.deadline import Seconds
    from pyredisson._core.hold import SingleHold
    from pyredisson._core.requests import Answer, PermitOutcome
    from pyredisson._core.runtime import Progress, Reply, Request, Runtime
    from pyredisson._core.waiting import QueueUpdate
    from pyredisson.lease import Lease


def permits_message(payload: bytes, each: int, *, some: bool) -> int:
    """Return how many waiters, each of whom wants ``each`` permits, a message about permits notifies.

    ``some``: whether it may be the number of some permits that were made available, and there are more.
    """
    try:
        number = int(payload)
    except ValueError:
        return 0
    return max(number // each, 1 if some and number > 0 else 0)


class PermitAttempt:
    """An attempt of one caller to acquire permits; each call makes it once.

    Args:
        core: The handle.
        call: The acquire.
        each: The permits that it acquires. Waiters for the same number share answers.
        wait: Seconds for which the caller waits; ``None``: without end.
        hold: What is to be held, if it has a lease: permits that arrive when it has ended are of no use.
    """

    __slots__ = ("_call", "_core", "_heard_on", "_hold", "_wait", "client", "label", "late")

    def __init__(
        self,
        core: PermitsCore,
        call: NumberedCall[PermitOutcome],
        each: int,
        wait: float | None,
        hold: SingleHold | None,
    ) -> None:
        self.client: ClientCore = core.client
        self._core = core
        self._heard_on = core.names.channel
        self._call = call
        self.label: str = f"{core.kind}:{each}"
        self._wait = wait
        self._hold = hold
        self.late: tuple[float, ...] = ()

    def __call__(self, update: QueueUpdate | None = None) -> Awaitable[Answer]:
        if update is None:
            return self._send(None)
        self._heard_on = self._core.names.own_channel(self.client.id)
        return self._send(self._core.queued(self._call.script, update))

    async def _send(self, script: ScriptCall | None) -> Answer:
        await self._core.set_up()
        return await self.judge(await self._call.send(script), script)

    async def judge(self, answer: PermitOutcome, script: ScriptCall | None = None) -> Answer:
        """Say what an outcome means for who waits."""
        client, call, core = self.client, self._call, self._core
        if type(answer) is NeverSet and core.forgotten():
            await core.set_up()
            answer = await call.send(script)
        if type(answer) is Refused:
            return answer
        if type(answer) is OtherKind:
            raise core.other_kind_error()
        if type(answer) is NeverSet:
            if self._wait != 0:
                core.report_never_set()
            return Refused(answer.retry_in_ms)
        hold, took = self._hold, client.runtime.now() - call.begun
        if hold is not None and took >= hold.certain:
            await call.discard()
            margin = client.config.loss_margin if hold.watched else 0.0
            self.late = late_again(self.late, "the permits of", core.names.name, hold.lease_ms, took, margin)
            return AT_ONCE
        self.late = ()
        assert type(answer) is Granted
        if answer.next_in_ms is not None:
            client.subscriptions.hint(self._heard_on, self.label, answer.next_in_ms / 1000)
        return ACQUIRED


class PermitsCore(NumberedCore, ABC):
    """One handle on a semaphore of either kind.

    Args:
        client: The client.
        name: The semaphore's name.
        permits: The permits to set when this handle is first used, unless the semaphore has some; ``None``: none.
        resize: Whether to set their number if the semaphore has another one.
    """

    __slots__ = ("_first", "_kind_known", "_permits", "_resizes")

    check = "compare the available permits with those in use"
    #: Whether a message may be the number of some permits that were made available, not of all.
    announces_some: ClassVar[bool] = False

    names: SemaphoreNames  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, client: ClientCore, name: str, permits: int | None = None, resize: bool = False) -> None:
        super().__init__(client, SemaphoreNames(name, client.config.prefix))
        self._permits = self._first = None if permits is None else count_of(permits, "permits")
        self._resizes = resize
        self._kind_known = False
        if not isinstance(resize, bool):
            raise TypeError(f"resize must be True or False, not {type(resize).__name__}")
        if resize and permits is None:
            raise ValueError("resize=True needs a number of permits: pass permits as well")

    def queued(self, acquire: ScriptCall, update: QueueUpdate) -> ScriptCall:
        """Return the script of an acquire, as a client in the wait queue calls it."""
        args = update.args(self.client.config.max_wait_without_check)
        return ScriptCall(f"{acquire.name}_waiting", (*acquire.args, *args), (*acquire.keys, self.names.waiting))

    def wait_queue_keys(self) -> tuple[str, ...]:
        """Return the key of the wait queue, for a script that can do without it; see :class:`Subscriptions`."""
        return self.client.subscriptions.wait_queue_keys(self.names)

    def leave_keys(self) -> tuple[str, ...]:
        """Return the keys that a client needs to leave the wait queue."""
        return (self.names.waiting,)

    def leave_queue(self, member: str) -> Request:
        """Make the request that takes a client out of the wait queue."""
        keys = self.names.raw, *self.leave_keys()
        return self.client.runtime.prepare("semaphore_stop_waiting", keys, (member, PUBLISH))

    async def try_set_permits(self, permits: int, ttl: Seconds | None = None) -> bool:
        """Set the number of permits, unless the semaphore has some; with a ``ttl``, it ends after that time."""
        value = count_of(permits, "permits")
        ttl_ms = None if ttl is None else lease_ms(ttl, "ttl", DAY)
        done = await self.begin(self._setting(value, ttl_ms)).once() == 1
        if done:
            self.client.presence.forget(self.names.name)
        else:
            await self._check_kind()
        return done

    def _setting(self, permits: int, ttl_ms: int | None = None) -> Operation[int]:
        what, waiting = "a try_set_permits", self.wait_queue_keys()
        return self.setting(what, permits, str(permits), *waiting, ttl_ms=ttl_ms, total=self.total_key())

    async def first_use(self, *, again: bool = False) -> None:
        """Set the permits that the handle was made with, unless that was done; ``again``: unless there are some."""
        if again:
            self.forgotten()
        try:
            await self.set_up()
        except Failure as failure:
            # Whatever became of it: what its caller asks for was not sent, and can be repeated.
            error = unreached(self.client, failure)
            raise await explain_type(self.client.finder, error, self.names.name, self.kind) from failure.cause

    async def set_up(self) -> None:
        """Do as :meth:`first_use`, as a part of an attempt. Raises ``Failure``."""
        first = self._first
        if first is None:
            return
        call = self.begin(self._resizing(first) if self._resizes else self._setting(first))
        if self._resizes:
            await self._check_kind()
        try:
            done = await call.attempt()
        except Failure:
            call.give_up()
            raise
        if self._resizes:
            self._check_resized(first, done)
        elif done:
            self.client.presence.forget(self.names.name)
        else:
            await self._check_kind()
            if self._reports_first("total", first):
                await self._compare(first)
        self._first, self._resizes = None, False

    def forgotten(self) -> bool:
        """Note that the server has no permits. Returns whether :meth:`set_up` sets them again."""
        self._first = self._permits
        return self._first is not None

    def total_key(self) -> str | None:
        """Return the key in which the number of permits in all is recorded; ``None`` if they can be counted."""

    #: What permits of the other kind do.
    other_kind: ClassVar[str]

    @property
    @abstractmethod
    def key_of_other_kind(self) -> str:
        """The key that only the other kind of semaphore has."""

    @abstractmethod
    def resizing(self, permits: int) -> ScriptCall:
        """Return the script that sets the number of permits in all; its reply is 0 if that is not possible."""

    async def resize(self, permits: int, progress: Progress | None = None) -> None:
        """Set the number of permits in all, those acquired included. ``progress``: see ``run_to_the_end``."""
        value = count_of(permits, "permits")
        call = self.begin(self._resizing(value))
        await self._check_kind()
        self._check_resized(value, await call.once(progress))
        self.note_total(value)

    def note_total(self, permits: int) -> None:
        """Note what :meth:`set_up` sets if the server forgets it, unless the handle was made without permits."""
        self._permits = None if self._permits is None else permits
        self._first, self._resizes = None, False

    def _resizing(self, permits: int) -> Operation[int]:
        return Operation("a resize", self.resizing(permits), read_int)

    def _check_resized(self, value: int, done: int) -> None:
        name = self.names.name
        if not done:
            raise LockError(
                f"semaphore {name!r} cannot be resized: its number of permits is not recorded, since Redisson or an "
                "earlier version of pyredisson set it. If there are n permits, acquired ones included, call "
                f"get_semaphore({name!r}, permits=n).resize({value})",
                name=name,
            )

    @abstractmethod
    async def known_total(self) -> tuple[int, bool]:
        """Return the number of permits in all; or, as the second value says, a number that it is not below."""

    async def _check_kind(self) -> None:
        """Raise ``LockError`` if the permits are those of the other kind, as far as the server says it. Looks once."""
        client, looked = self.client, ("kind", self.stored.label)
        self._kind_known = self._kind_known or not (client.ledger.may_look and self._reports_first(*looked))
        if self._kind_known:
            return
        exists: Reply = None
        try:
            exists = await client.runtime.execute(("EXISTS", self.key_of_other_kind), client.config.timeout / 3)
        except Rejected:
            exists, client.ledger.may_look = 0, False
        except Failure:
            pass  # Whatever the call itself meets, it raises.
        if exists != 0:
            client.ledger.report_again((self.names.name, *looked))
        if exists:
            raise self.other_kind_error()

    async def _look(self, call: NumberedCall[PermitOutcome]) -> PermitOutcome:
        """Send an acquire; the first one of a client also looks whether the semaphore is of the other kind."""
        ledger, looked, script, known = self.client.ledger, ("kind", self.stored.label), call.script, False
        self._kind_known = not (ledger.may_look and self._reports_first(*looked))
        if self._kind_known:
            return await call.send()
        try:
            try:
                answer = await call.send(script._replace(keys=(*script.keys, self.key_of_other_kind)))
            except Rejected as rejected:
                if "NOPERM" not in str(rejected.cause):
                    raise
                ledger.may_look = False
                answer = await call.send()
            known = type(answer) is not OtherKind
            return answer
        finally:
            self._kind_known = known
            if not known:
                ledger.report_again((self.names.name, *looked))

    def other_kind_error(self) -> LockError:
        """Return the error for a semaphore whose permits are those of the other kind."""
        name = self.names.name
        return LockError(
            f"semaphore {name!r} is of the other kind, whose permits {self.other_kind}, as the key "
            f"{self.key_of_other_kind!r} shows: use one kind of semaphore for one name, or another name",
            name=name,
        )

    async def _compare(self, wanted: int) -> None:
        """Report a number of permits that differs from the one that this handle was made with."""
        client, name = self.client, self.names.name
        try:
            total, exact = await self.known_total()
        except tuple(OUR_ERRORS):
            return  # It was only to be compared.
        differs = total > wanted or (exact and total < wanted)
        if differs and self._reports_first("permits differ"):
            client.emit(
                events.PermitsDiffer(name, owner_field(client.id, client.runtime.owner().number), wanted, total)
            )

    # ---- acquiring -----------------------------------------------------------------------------------------------

    async def timeout_error(self, wanted: int, wait: float | None, *, never_set: bool) -> LockTimeoutError:
        """Return the error for a block that did not acquire ``wanted`` permits within ``wait`` seconds.

        ``never_set``: whether the server said last that there never were any.
        """
        name = self.names.name
        what = f"{wanted} permits of" if wanted > 1 else "permits of"
        timed_out = f"timed out after {wait} s waiting for {what} {name!r}"
        text = timed_out if wait != 0 else f"not enough {what} {name!r} are available"
        if never_set:
            text += "; their number was never set: call try_set_permits(n), or make the handle with permits=n"
            return LockTimeoutError(text, name=name)
        available, holders = await self.client.finder.find_permits(name)
        if available is not None and wanted > 1:
            text += f"; {available} of {wanted} are available"
        if holders:
            more = f" and {len(holders) - 3} more" if len(holders) > 3 else ""
            text += f"; held by {', '.join(map(str, holders[:3]))}{more}"
        return LockTimeoutError(text, name=name, holder=holders[0] if holders else None)

    async def acquire_for(
        self, call: NumberedCall[PermitOutcome], wait: float | None, *, each: int = 1, hold: SingleHold | None = None
    ) -> bool:
        """Make attempts until permits are granted, or until ``wait`` seconds (``None``: without end) have passed.

        Args:
            call: The acquire.
            each: The permits that it acquires. Waiters for the same number share answers.
            hold: What is to be held, if it has a lease.
        """
        client, subscriptions = self.client, self.client.subscriptions
        began, seen, attempt = client.runtime.now(), None, None
        try:
            if wait != 0 and subscriptions.channels:  # Else no message can arrive.
                seen = subscriptions.messages_of(self.names.channel)
            try:
                first = await (call.send() if self._kind_known else self._look(call)) if self._first is None else None
                in_time = hold is None or client.runtime.now() - call.begun < hold.certain
                if call.granted and in_time and not subscriptions.groups:
                    answer: Answer = ACQUIRED
                else:
                    attempt = PermitAttempt(self, call, each, wait, hold)
                    answer = await (attempt() if first is None else attempt.judge(first))
                    while attempt.late and wait == 0 and hold is not None and hold.watched:
                        answer = await attempt()
            except Failure as failure:
                if not await waits_through(client, failure, wait, began):
                    raise
                answer = AT_ONCE
            acquired = type(answer) is LockAcquired
            if type(answer) is Refused and wait != 0:
                attempt = attempt or PermitAttempt(self, call, each, wait, hold)
                wait_on = partial(self._until_acquired, attempt, answer, seen, Deadline.after(wait, began), each)
                acquired = await self._keep_trying(call.key, wait_on)
            if not acquired:
                call.give_up()
            if client.has_listeners():
                report_outcome(client, self.stored.kind, call.key, began, acquired, 0, None)
            return acquired
        except Failure as failure:
            error = await call.explain(failure)
            report_failed(client, self.stored.kind, call.key, began, error)
            raise error from failure.cause
        except GeneratorExit:
            call.leave_later()  # A coroutine that is being closed can wait for nothing any more.
            raise
        except BaseException as error:
            if is_interruption(error):
                await call.leave()
            else:
                call.give_up()
                report_failed(client, self.stored.kind, call.key, began, error)
            raise

    async def _keep_trying(self, key: tuple[str, str], wait_on: Callable[[], Awaitable[bool]]) -> bool:
        """Wait after a first attempt was refused, as others can see. ``key``: the name and the owner."""
        waits = self.begin_wait()
        try:
            return await (announce_wait(self.client, key, wait_on) if self.client.has_listeners() else wait_on())
        finally:
            self.client.presence.end_wait(waits)

    def _until_acquired(
        self, attempt: PermitAttempt, refused: Refused, seen: int | None, deadline: Deadline, each: int
    ) -> Coroutine[Any, Any, bool]:
        client, names = self.client, self.names
        notifies = partial(permits_message, each=each, some=self.announces_some)
        group = QueuedGroup(client.subscriptions, names, client.id, attempt.label, notifies, permits=f":{each}")
        call = WaitingCall(client, names.name, attempt, refused, deadline, leave_queue=self.leave_queue)
        return wait_in_queue(call, call.waiter(group), seen)

    def report_never_set(self) -> None:
        """Report, once for each name, that a caller waits for permits that were never set."""
        client = self.client
        if self._reports_first("never set"):
            owner = owner_field(client.id, client.runtime.owner().number)
            client.emit(events.PermitsNeverSet(self.names.name, owner))

    def _reports_first(self, *what: object) -> bool:
        return self.client.ledger.is_first_of((self.names.name, *what))

    # ---- releasing -----------------------------------------------------------------------------------------------

    def read_released(self, reply: Reply) -> int:
        """Read the reply to a release: how many permits it released. Raises ``Unusable``."""
        return reply if type(reply) is int and reply >= 0 else released_as(self.client, read_int(reply))

    async def leave_block(
        self, release: Operation[int], error: BaseException | None, progress: Progress | None, permit: bytes = b""
    ) -> bool:
        """Release permits at the end of a block that ended with ``error``.

        The caller does not come back, so what cannot be done now is done in the background. ``progress`` is given where
        a block that is being closed (``GeneratorExit``) can wait; elsewhere that is left to the background, too.

        Returns:
            Whether they were released, as far as is known.
        """
        client, closed = self.client, progress is None and cannot_wait(error)
        client.runtime.check_process()
        call = NumberedCall(client, self.names, self.kind, release, permit, check=self.check, left=closed)
        thread = client.runtime.thread()
        if thread and client.ledger.callers.get(call.key) == thread:  # A signal handler leaves it.
            closed = True
            call = NumberedCall(client, self.names, self.kind, release, permit, check=self.check, left=True)
        if closed:
            call.leave_later()
            release_later(client, partial(call.to_settle(), CLEANUP_BUDGET))
            return True
        releasing = call.once(progress, insist=True)
        if client.closed:
            return await leave_closed((client,), call.key, releasing) in (1, None)
        return await releasing == 1


# ---- permit block ----------------------------------------------------------------------------------------------------
# ``with semaphore.hold() as lease:``, for both kinds of semaphore.
#
# A semaphore has no owners: permits belong to the block, which releases them in whatever thread or task it is left. The
# permit of an expirable semaphore that was acquired without a lease is renewed by the client's watchdog, together with
# those of other blocks; to the watchdog it is an ownership like that of a lock.


#: The reason for a loss that the server reported.
PERMIT_GONE = "it no longer exists in Redis: released by its id, or expired"


@final
class Block:
    """One ``hold()``: it acquires permits when it is entered, and releases them when it is left.

    Args:
        core: The semaphore.
        count: The number of permits.
        hold: Their lease, and whether they are renewed; watched unless they do not expire.
        acquire: The operation that acquires them.
        release: The operation that releases them.
        wait: Seconds to wait for them; ``None``: without end.
        skip: Whether the block runs without them if they are not available in time.
        permit: The id of a permit that has one.

    Attributes:
        entered: Whether it was entered.
        lease: The lease of the block; ``None`` before it is entered, and without permits.
        name: The semaphore's name.
        on_loss: Called once if they are lost.
    """

    def __init__(
        self,
        core: PermitsCore,
        count: int,
        hold: SingleHold,
        acquire: Operation[PermitOutcome],
        release: Operation[int],
        wait: float | None,
        *,
        skip: bool,
        on_loss: Callable[[], object] | None = None,
        permit: bytes = b"",
    ) -> None:
        check_skip(skip)
        self.name: str = core.names.name
        self.on_loss: Callable[[], object] | None = on_loss
        self.entered: bool = False
        self.lease: Lease[None] | None = None
        self._core = core
        self._count = count
        self._hold = hold
        self._permit = permit
        self._ownership: Ownership | None = None
        self._acquire = acquire
        self._release = release
        self._wait = wait
        self._skip = skip
        self._call: NumberedCall[PermitOutcome] | None = None
        self._client_id = ""
        self._loss: str | None = None

    async def enter(self) -> Lease[None] | None:
        """Acquire the permits.

        Returns:
            The lease; ``None`` if they were not available in time, and the block runs without them (``skip``).

        Raises:
            LockTimeoutError: They were not available in time.
            LockError: The block was entered before.
        """
        if self.entered:
            raise LockError(f"a hold() of {self.name!r} can be entered only once: call hold() again", name=self.name)
        self.entered = True
        core, client, hold = self._core, self._core.client, self._hold
        call = self._call = core.begin(self._acquire, self._permit)
        self._client_id = client.id
        # Made before: once the permits are granted, nothing is left to interrupt.
        ownership = self._ownership = owned_by_block(client, self.name, core.stored.kind, self._count, self._permit)
        extending = partial(extend, client, ownership, hold=hold) if hold.watched else _never_ends
        self.lease = client.runtime.lease(ownership, hold, client.runtime, extending)
        if not self._count or await core.acquire_for(
            call, self._wait, each=self._count, hold=hold if hold.watched else None
        ):
            ownership.granted(ownership.request_id, hold, call.begun)
            if hold.watched:
                client.watchdog.watch(ownership)
            elif self._count:
                client.presence.begin_block(ownership)
            if self.on_loss is not None:
                LossCallback(self.on_loss, ownership, hold, client.runtime)
            return self.lease
        self.lease = None
        if self._skip:
            return None
        raise await core.timeout_error(self._count, self._wait, never_set=call.never_set)

    async def leave(self, error: BaseException | None, progress: Progress | None = None) -> None:
        """Release the permits. The ``error`` of the block's body goes before any error of ours.

        ``progress``: see ``run_to_the_end``.
        """
        if self.lease is not None:
            self.lease._end()
            if error is None:
                self.lease._check_process()
        core, call, ownership = self._core, self._call, self._ownership
        if error is None and core.client.id != self._client_id and ownership is not None and ownership.loss is not None:
            raise lost_error(ownership, ownership.loss)  # The client is another one since.
        # Unless they were given up meanwhile, or this is the child of a fork.
        if ownership is None or call is None or not call.granted or call.given_up or core.client.id != self._client_id:
            return
        self._end(ownership)
        try:
            try:
                existed = await core.leave_block(self._release, error, progress, self._permit)
            except tuple(OUR_ERRORS) as failed:
                if self._loss is None:
                    raise
                raise lost_error(ownership, self._loss, confirmed=False) from failed
            if self._hold.watched:
                self._check_lost(ownership, existed=existed)
        except Exception as ours:
            if not gives_way(ours, error):
                raise
        call.granted = False

    def _end(self, ownership: Ownership) -> None:
        """The block is being left: a later loss is not reported."""
        client = self._core.client
        client.report_lost(ownership, ownership.expire(client.runtime.now()))
        self._loss = None if ownership.loss is None else given_up(ownership.loss)
        ownership.clear()
        client.presence.end_block(ownership)
        client.watchdog.unwatch(ownership)

    def _check_lost(self, ownership: Ownership, *, existed: bool) -> None:
        """Raise ``LockLostError`` if the permit had been lost. ``existed``: what its release found."""
        if not existed and self._loss is None:
            self._loss = PERMIT_GONE
            self._core.client.report_lost(ownership, (self._hold,))
        if self._loss is not None:
            raise lost_error(ownership, self._loss if existed else str(self._loss))

    def forget(self) -> None:
        """Note that the block was dropped without leaving it; called by the garbage collector.

        The watchdog reports a permit that it renews, and stops that: the lease is gone with the block.
        """
        if self._ownership is not None:
            self._core.client.presence.end_block(self._ownership)


async def _never_ends(lease_ms: int) -> bool:
    """Extend permits that do not expire."""
    return True


# ---- what a block holds ----------------------------------------------------------------------------------------------


def renew_permits(runtime: Runtime, held: Sequence[tuple[str, str]], *, lease_ms: int) -> Request:
    """Make the request that renews many permits, given as (key of the semaphore, id in hex digits)."""
    keys = tuple(SemaphoreNames(key).taken for key, _ in held)
    return runtime.prepare("permit_renew", keys, (lease_ms, *(bytes.fromhex(permit) for _, permit in held)))


class PermitKind(HeldKind):
    """What the watchdog and the presence of a client ask of the kind of an ownership, for permits."""

    __slots__ = ("_permit", "permits", "word")

    layout = "permit"
    what = "a permit of"
    overlaps = "more holders than there are permits"
    gone = PERMIT_GONE
    renew: Callable[..., Request] = staticmethod(renew_permits)

    def __init__(self, client: ClientCore, word: str, count: int, permit: bytes) -> None:
        super().__init__(client)
        self.word: str = word
        self.permits: int = count
        self._permit = permit

    def new_state(self) -> str:
        """Return the id of the permit."""
        return self._permit.hex()

    def token_id(self, ownership: Ownership) -> str | None:
        """See :meth:`HeldKind.token_id`; who knows it cannot release the permit."""
        return token_id(self._permit) if self._permit else None

    def stored_as(self, ownership: Ownership) -> str:
        """Return the id of a permit: one kind is asked for the permits of all blocks that are renewed at once."""
        permit: str = ownership.kind_state
        return permit


def owned_by_block(client: ClientCore, name: str, word: str, count: int, permit: bytes) -> Ownership:
    """Return the permits of a block, as its lease, the watchdog and the presence see them. They are in no table."""
    who = client.runtime.owner()
    ownership = Ownership((name, owner_field(client.id, who.number)), who, client.runtime)
    ownership.adopt(PermitKind(client, word, count, permit))
    return ownership
