"""One client, in both forms: its requests, its events, its tables and its background, put together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyredisson._core import events
from pyredisson._core.acquiring import settle
from pyredisson._core.deadline import CLEANUP_BUDGET, REPEAT, certain_for, least_lease_ms
from pyredisson._core.failures import (
    ANOTHER,
    Connecting,
    Failure,
    NotNow,
    Rejected,
    Unanswered,
    Unusable,
    explain_type,
    is_contained,
    replicas_appeared,
    superseded,
    without_effect,
)
from pyredisson._core.holder_lookup import Finder
from pyredisson._core.names import check_one_slot
from pyredisson._core.numbered import Ledger
from pyredisson._core.owners import OwnershipTable
from pyredisson._core.releasing import report_held
from pyredisson._core.replicas import Replicas
from pyredisson._core.requests import Stale, read_stale, unreached, unusable
from pyredisson._core.server import Complaint, ServerChange, ServerState
from pyredisson._core.subscriptions import Subscriptions
from pyredisson._core.watchdog import Watchdog
from pyredisson.errors import ClientClosedError, LockError, OutcomeUnknownError

if TYPE_CHECKING:
    from pyredisson._core.hold import Owned, SingleHold
    from pyredisson._core.kind import LockKind
    from pyredisson._core.names import Names
    from pyredisson._core.owners import Caller
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.presence import Presence
    from pyredisson._core.requests import Call, Reader
    from pyredisson._core.runtime import Reply, Request, Runtime, Work
    from pyredisson.config import Config
    from pyredisson.events import Event

#: With a smaller share of an attempt's time left no request is sent that could only bring a first doubt about.
LEAST_SHARE = 0.25

#: How long, in seconds, the report of a loss waits at most for the server to say what became of it.
CAUSE_TIMEOUT = 0.25

#: Seconds that a reply is waited for at least, however short the lease: as long as nearly all round trips take.
LEAST_PATIENCE = 0.1


class ClientCore:
    """One client: the ``<uuid>`` of ``<uuid>:<thread id>`` and all that goes with it."""

    def __init__(self, runtime: Runtime, config: Config) -> None:
        events.load()
        self.runtime: Runtime = runtime
        self.config = config
        self.closed: bool = False
        #: Since when its server, a node of a quorum, does not answer; ``None``: it does, or was never asked.
        self.away_since: float | None = None
        #: Whether that was reported.
        self.away_reported: bool = False
        self.address: str | None = None  # Where it connects, for messages; without a password.
        self.place: str | None = None  # The same without a user, who may be another one elsewhere.
        self._scattered = runtime.place("") is not None
        self._patience = config.timeout / 3
        self._lease_of_patience = 6000 * self._patience
        self._listeners = self._own_listeners = tuple(config.listeners)
        self._wants_all: Callable[[], bool] = False.__bool__
        #: Called when it begins afresh; see :meth:`begin`.
        self.on_begin: list[Callable[[], None]] = []
        #: Whether a listener wants each acquire and release; asked before such an event is made.
        self.has_listeners: Callable[[], bool] = True.__bool__  # Costs no call of Python.
        self.server: ServerState = ServerState(
            runtime.mutex(), runtime.now, complain=self._complain, strict=config.strict_server
        )
        #: Whether this process is a restored copy of another one; the client is then a new one.
        self.copied: Callable[[], bool] = lambda: False
        #: Asked when something is taken, if replicas have to acknowledge it; ``None`` where there are none.
        self.replica_wait: Replicas | None = None
        #: The pool of connections, where the fast path may use it.
        self.fast_pool: Any = None
        self.replicas: Replicas = Replicas(self)
        #: What was lost when it became another client in the same process, by lock, until it has been unlocked.
        self.lost_before: dict[str, list[Ownership]] = {}
        self.begin()

    def begin(self) -> None:
        """Start afresh: a new id that holds nothing. Also what the child of a fork does."""
        self.id: str = self.runtime.new_id()
        self.ownerships: OwnershipTable = OwnershipTable(self.runtime)
        self.subscriptions: Subscriptions = Subscriptions(self.runtime, self.config.max_wait_without_check)
        self.server.forget(self.runtime.mutex())
        self.lock_cores: dict[str, Any] = {}  # By name; see lock_core().
        #: Called when it is closed.
        self.when_closed: dict[Callable[[], None], None] = {}
        self.watchdog: Watchdog = Watchdog(self)
        self.presence: Presence = self.watchdog.presence
        self.finder: Finder = Finder(self, self.runtime.clients)
        self.plain_timeout: float = self.attempt_timeout(self.watchdog.lease_ms)
        self.ledger: Ledger = Ledger(self)
        self.replicas.begin()
        for begin in self.on_begin:
            begin()
        self.server.on_change = self.watchdog.check_holds

    # ---- events --------------------------------------------------------------------------------------------------

    def listen(self, listener: Callable[[Event], None], wants_all: Callable[[], bool]) -> None:
        """Add a listener: for all events while ``wants_all`` says so, else of what is out of the ordinary."""
        self._listeners = (*self._listeners, listener)
        self._wants_all = wants_all
        if not self.config.listeners:
            self.has_listeners = wants_all

    def emit(self, event: Event, *, ordinary: bool = False) -> None:
        """Pass an event to the listeners. What they raise is reported, and concerns no one else.

        ``ordinary``: whether it is an acquire or a release, which a log does not want as a rule.
        """
        for listener in self._own_listeners if ordinary and not self._wants_all() else self._listeners:
            try:
                listener(event)
            except BaseException as error:
                if not self._contains(error):
                    raise
                if not isinstance(event, events.CallbackFailed):
                    self.emit(events.CallbackFailed(repr(listener), error))

    def _contains(self, error: BaseException) -> bool:
        """Whether an error of the user's code is reported. A call of the program's own may be interrupted anywhere."""
        return isinstance(error, Exception) or (is_contained(error) and self.runtime.in_background())

    def report_lost(
        self, ownership: Ownership, lost: Sequence[SingleHold], reason: str | None = None, *, quietly: bool = False
    ) -> None:
        """Report to the holders of these holds, and to all who want to know, that they are lost.

        To that of a multi-lock only if it is no longer held as a whole. ``reason``: why, if they are no longer noted
        there. ``quietly``: without an event.
        """
        if not lost:
            return
        self.watchdog.unwatch(ownership)
        if any(hold.whole is None for hold in lost):
            self.announce_loss(ownership, reason or ownership.loss or ownership.gone(), quietly=quietly)
            self.notify(ownership, lost)
        for whole in {id(hold.whole): hold.whole for hold in lost if hold.whole is not None}.values():
            whole.lost_part(quietly=quietly)

    def notify(self, held: Owned, lost: Sequence[object]) -> None:
        """Call what is to be called when these holds are lost. What that raises is reported, and concerns no one else.

        A block whose hold its owner has released itself is not notified of the loss of another one.
        """
        for callback, hold in list(held.on_loss.items()):
            try:
                if hold in lost:
                    callback()
            except BaseException as error:
                if not self._contains(error):
                    raise
                self.emit(events.CallbackFailed(repr(callback), error))

    def cause_of(self, ownership: Ownership) -> str:
        """Say why the server no longer has what an owner holds, as far as is known."""
        holds = ownership.holds
        certain = min([self.certain_for(hold.lease_ms) for hold in holds], default=0.0)
        confirmed = max([ownership.deadline - certain, *(hold.since for hold in holds)])
        node = self.runtime.node_of(self.key_of(ownership.name))
        return self.server.cause(node, confirmed) or ownership.gone()

    async def learn_cause(self, name: str) -> None:
        """Ask a server that no longer has a lock whether it was restarted or flushed; unless that was just asked."""
        key, now = self.key_of(name), self.runtime.now()
        node = self.runtime.node_of(key)
        if self.closed or not self.server.may_inspect(node, now):
            return
        with suppress(Failure):
            reply = await self.runtime.execute_at(key, ("INFO", "everything"), min(CAUSE_TIMEOUT, self._patience))
            self.server.inspect(reply, node=node)

    def announce_loss(self, held: Owned, reason: str, *, quietly: bool = False) -> None:
        """Say to all who want to know that something is lost. ``quietly``: without an event."""
        if not quietly:
            self.emit(events.Lost(held.name, held.owner, reason, who=held.who.describe()))
        if self.config.on_lock_lost is not None:
            self.runtime.call_back(self.config.on_lock_lost, held.name, held.who.number)

    def _complain(self, complaint: Complaint) -> None:
        text = f"{self.address}: {complaint.text}" if self.address else complaint.text
        self.emit(events.ServerUnsafe(complaint.setting, text))

    def note_acquire(self, ownership: Ownership) -> None:
        """Note what a thread is about to acquire; emit what it holds for another call chain, since it has gone on."""
        if ownership.table is None:  # Another thread has just swept the table, and took the ownership for idle.
            self.ownerships.enter(ownership)
        left = ownership.who.left_behind(ownership, self.runtime.now())
        client = left.kind.client if left is not None and left.kind is not None else self
        if left is not None and not client.closed and left.table is client.ownerships:  # Else it is another one since.
            whole = left.holds[-1].whole if left.holds else None
            self.emit(events.LeftBehind(whole.name if whole else left.name, left.owner, left.who.describe()))

    def note_move(self, what: str, server: str, former: str, slots: Collection[int] | None) -> None:
        """Note that another server is the master; ``slots``: those of a cluster that it has, ``None``: it has all."""
        place = self.runtime.place
        held = [own for own in self.ownerships.held() if own.holds]
        if slots is not None:
            held = [own for own in held if place(self.key_of(own.name)) in slots]
        now = self.runtime.now()
        text = f"the master of {what} is {server} since {{}} s (was {former}), which does not have it"
        self.server.note_change("" if slots is None else server, ServerChange(now, text))
        self.emit(events.MasterChanged(what, server, former, len(held)))

    # ---- requests ------------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise ``ClientClosedError`` if the client was closed. In the child of a fork it is another client first."""
        self.runtime.check_process()
        if self.closed:
            raise ClientClosedError("this client was closed; make a new Redisson() to continue")

    def former(self, ownership: Ownership) -> ClientClosedError:
        """Return the error for a call of an owner of the client that this was before: it acquires nothing any more."""
        ownership.disown()
        if ownership.table is self.ownerships:  # It was entered at that very moment, and must not be found again.
            self.ownerships.drop(ownership)
        return ClientClosedError(ANOTHER)

    def refuse_interrupter(self, *held: Ownership) -> None:
        """Raise ``LockError`` for a signal handler (or a finalizer) that runs in the middle of a call on one of these.

        What it finds may be half changed, and the interrupted call cannot go on before the handler is done.
        """
        thread = self.runtime.thread()
        for each in held:
            if thread and each.call.thread == thread:
                raise LockError(
                    f"lock {each.name!r} is used by a signal handler (or a finalizer) in the middle of a call of the "
                    "same thread on it. The handler should set a flag or an event; use the lock after it",
                    name=each.name,
                )

    def key_of(self, name: str) -> str:
        """Return the key of a lock, semaphore or latch: its name behind the prefix of all names."""
        return self.config.prefix + name

    def check_names(self, names: Names) -> None:
        """Raise ``ValueError`` for a name that cannot be used on a cluster, if this is a client of one."""
        if self._scattered:
            check_one_slot(names)

    def attempt_timeout(self, lease_ms: int) -> float:
        """How long to wait for one reply: a stopped server must not cost the lease, nor the whole budget.

        If the lease is shorter than a round trip, the reply is to arrive all the same: it says that it is too short.
        """
        return self._patience if lease_ms >= self._lease_of_patience else max(lease_ms / 6000, LEAST_PATIENCE)

    def certain_for(self, lease_ms: int) -> float:
        """Return for how many seconds after *sending* a lease is certain. Each deadline of a hold is counted by it."""
        return certain_for(lease_ms, self.config.loss_margin)

    def check_lease(self, lease_ms: int, what: str = "lease_time") -> None:
        """Note a fixed lease that is to be requested. Raises ``ValueError`` if it is lost at once, by the margin."""
        # Not of quorums alone: the owner of a hold of a quorum may extend its members by themselves.
        self.server.longest_lease = max(self.server.longest_lease, lease_ms / 1000)
        margin = self.config.loss_margin
        if margin and self.certain_for(lease_ms) <= 0:
            raise ValueError(
                f"{what}={lease_ms / 1000:g} must be longer than Config.loss_margin ({margin:g} s) and the drift of "
                f"clocks: at least {least_lease_ms(margin) / 1000} s"
            )

    async def exchange(
        self,
        call: Call,
        epoch: int,
        repeat: bool = False,
        budget: float | None = None,
        *,
        begun: tuple[Any, float] | None = None,
    ) -> tuple[Reply, float, bool]:
        """Send a request until it is answered: one that may have been executed is repeated under the next epoch.

        Args:
            call: The request.
            epoch: The epoch of its first copy.
            repeat: Whether an earlier copy may have run already.
            budget: Seconds; ``Config.timeout`` if ``None``.
            begun: The reply to its first copy, or the error instead of it, and when that was sent, if it was.

        Returns:
            The reply, when the answered copy was sent, and whether an earlier copy may have run before it.

        Raises:
            NotSent, Rejected: This request surely had no effect, and no earlier copy is in doubt.
            Unanswered: It is not known what became of it.
            NotAcknowledged: Something was acquired, and too few replicas know of it.
        """
        if begun is not None and isinstance(begun[0], Exception) and not isinstance(begun[0], Unanswered):
            begun = None  # It surely had no effect.
        if begun is None and not call.ownership.owner.startswith(self.id):
            raise Rejected(ClientClosedError(ANOTHER))
        sent = self.runtime.now() if begun is None else begun[1]
        patience = self.attempt_timeout(call.lease_ms)
        if budget is not None and budget < patience:
            patience = budget
        setback: Failure | Stale | None
        try:
            if begun is None:
                reply = await self.send(call.request(epoch, repeat), patience, call.reader)
            elif isinstance(reply := begun[0], Failure):
                raise reply
            elif self.replica_wait is not None and call.reader is not None and call.reader.acquired(reply):
                raise replicas_appeared()
            setback = read_stale(reply)
            if setback is None:
                return reply, sent, repeat
        except Failure as failure:
            setback = failure
        return await self.repeat_until_answered(call, repeat, sent, setback, budget)

    async def repeat_until_answered(
        self, call: Call, repeat: bool, sent: float, setback: Failure | Stale, budget: float | None = None
    ) -> tuple[Reply, float, bool]:
        """Go on with an exchange whose first copy, ``sent`` then, brought no answer or had too low an epoch.

        The other arguments, and all that it returns and raises, are those of :meth:`exchange`.
        """
        ownership, request_id = call.ownership, call.request_id
        budget = self.config.timeout if budget is None else budget
        over = sent + budget
        patience = min(self.attempt_timeout(call.lease_ms), budget)
        runtime = self.runtime
        failures, stale_before, in_doubt = 0, False, None  # In doubt: the last copy that this call has sent.
        while True:
            at_once = False
            if not ownership.owner.startswith(self.id):
                raise Rejected(ClientClosedError(ANOTHER))
            match setback:
                case Stale():
                    # Another call has taken this request over; or it is a forgotten epoch of this very owner.
                    ownership.raise_epoch(request_id, above=setback.epoch)
                    if not stale_before:
                        at_once, stale_before, failures = True, True, 0
                    if runtime.now() >= over:
                        raise unusable([b"stale", setback.epoch])
                case Unanswered():
                    ownership.doubt(request_id)
                    if isinstance(setback, Unusable):
                        raise setback
                    repeat, in_doubt = True, setback
                    patience = min(2 * patience, self._patience)  # Else no reply is in time if they all take longer.
                case NotNow() if in_doubt is not None:
                    setback = in_doubt  # That is what the caller wants to know.
                case _:
                    setback = without_effect(setback, repeat, in_doubt is not None)
            sent = runtime.now()
            if self.closed and isinstance(setback, Failure):
                raise setback
            if not at_once:
                spare = 0.0 if repeat else patience * LEAST_SHARE
                if sent + REPEAT.longest(failures) + spare >= over and isinstance(setback, Failure):
                    raise setback
                await runtime.sleep(REPEAT.pause(failures, runtime.jitter))
                failures += 1
                sent = runtime.now()
            request = call.request(self._epoch_now(ownership, request_id), repeat)
            try:
                reply = await self.send(request, max(min(patience, over - sent), 0.001), call.reader)
                if (stale := read_stale(reply)) is None:
                    return reply, sent, repeat
                setback = stale
            except Failure as failure:
                setback = failure

    def _epoch_now(self, ownership: Ownership, request_id: int) -> int:
        """Return under which epoch a request is repeated. Raises a ``Failure`` if it is no longer this client's."""
        if not ownership.owner.startswith(self.id):
            raise Rejected(ClientClosedError(ANOTHER))
        epoch = ownership.epoch_of(request_id)
        if epoch is None:
            raise superseded(ownership.name)
        return epoch

    async def send(self, request: Request, timeout: float, reader: Reader | None) -> Reply:
        """Run a script once. What ``reader`` says was acquired is for replicas to acknowledge.

        Raises:
            NotAcknowledged: As for :meth:`exchange`.
        """
        if reader is None:
            return await self.runtime.eval(request, timeout)
        replica_wait = self.replica_wait
        if replica_wait is not None:
            return await replica_wait.acknowledge(request, timeout, reader)
        reply = await self.runtime.eval(request, timeout)
        if self.replica_wait is not replica_wait and reader.acquired(reply):
            raise replicas_appeared()
        return reply

    async def perform(self, request: Request, budget: float | None = None, reader: Reader | None = None) -> Reply:
        """Send a request until it is answered; it may be repeated as it is, since its script knows a repeat.

        Args:
            request: The request.
            budget: Seconds; ``Config.timeout`` if ``None``.
            reader: As for :meth:`send`.

        Raises:
            NotSent, Rejected: It surely had no effect.
            Unanswered: It is not known what became of it.
            NotAcknowledged: As for :meth:`exchange`.
        """
        runtime, sent_as = self.runtime, self.id
        sent = runtime.now()
        over = sent + (self.config.timeout if budget is None else budget)
        failures = 0
        in_doubt: Unanswered | None = None
        while True:
            try:
                left = max(min(self._patience, over - sent), 0.001)
                acknowledged = reader is not None and self.replica_wait is not None
                reply = await (self.send(request, left, reader) if acknowledged else runtime.eval(request, left))
                if reader is not None and self.id != sent_as:
                    raise Rejected(ClientClosedError(ANOTHER))  # What was granted is lost, as what was held before.
                if acknowledged:
                    return reply
                if reader is not None and self.replica_wait is not None and reader.acquired(reply):
                    raise replicas_appeared()
                return reply
            except Failure as failure:
                if self.id != sent_as:  # The request is that of the parent, or of the original, which goes on with it.
                    raise Rejected(ClientClosedError(ANOTHER)) from failure.cause
                if isinstance(failure, Unanswered):
                    in_doubt = failure
                elif in_doubt is None and not isinstance(failure, NotNow):
                    raise  # It had no effect, and no earlier copy is in doubt.
                spare = 0.0 if in_doubt else self._patience * LEAST_SHARE
                if in_doubt is not None:
                    if failure.passes and not isinstance(failure, NotNow):
                        in_doubt = Unanswered(failure.cause)
                    in_doubt.passes = failure.passes
                over_soon = runtime.now() + REPEAT.longest(failures) + spare >= over
                if self.closed or isinstance(failure, (Rejected, Unusable)) or over_soon:
                    raise in_doubt or failure from failure.cause
            await runtime.sleep(REPEAT.pause(failures, runtime.jitter))
            failures += 1
            sent = runtime.now()

    async def finish(self, work: Work, until: float, *, leaving: bool = True) -> None:
        """Do something although the caller is leaving; what cannot be done at once is done in the background.

        Args:
            work: What to do, as often as it takes; raises ``Failure`` when the server did not answer.
            until: When it is no longer worth doing.
            leaving: As for :func:`settle_on_leaving`.
        """
        done = False

        async def attempt() -> None:
            nonlocal done
            try:
                await work(CLEANUP_BUDGET)
            except Failure:
                return
            done = True

        try:
            await self.runtime.guard(attempt(), CLEANUP_BUDGET, leaving=leaving)
        finally:
            if not done:
                self.watchdog.do_later(work, until)

    async def query(self, *command: str) -> Reply:
        """Run a read-only command; it may be repeated at will."""
        try:
            return await self.read(*command)
        except Failure as failure:
            error = await self.explain_read(failure, command[1])
            raise error from error.__cause__

    async def explain_read(self, failure: Failure, key: str) -> Exception:
        """Return the error to show for a command that only reads ``key``."""
        name = key.removeprefix(self.config.prefix)
        return await explain_type(self.finder, unreached(self, failure, repr(name)), name, key=key)

    async def read(self, *command: str) -> Reply:
        """Do as :meth:`query`. Raises ``Failure``."""
        self.check_open()
        runtime, patience = self.runtime, self.config.timeout / 3
        over, pauses = runtime.now() + self.config.timeout, REPEAT.delays(runtime.jitter)
        most, telling = (False, 0.0), None  # The last attempt may have had too little time to find out what is wrong.
        while True:
            given = min(patience, over - runtime.now())
            try:
                return await runtime.execute(command, given)
            except (Unanswered, NotNow) as failure:
                tells = not isinstance(failure, Connecting), given  # Any answer says more than a slow connection.
                if telling is None or tells >= most:
                    most, telling = tells, failure
                if isinstance(failure, Unusable) or runtime.now() + REPEAT.maximum >= over:
                    raise telling from None
            await runtime.sleep(next(pauses))

    def explain(self, failure: Failure, ownership: Ownership, what: str, lease_ms: int | None) -> Exception:
        """Return the error to show to the user for a request without a usable reply.

        One that may have taken effect is settled in the background from here on. Only if this call has sent it is its
        outcome the caller's business; see :attr:`Failure.earlier`.

        ``lease_ms``: the lease of that request; ``None``: it is not settled, but called again.
        """
        unanswered = isinstance(failure, Unanswered)
        if unanswered and lease_ms is not None:
            self.settle_later(ownership, lease_ms)
        if failure.earlier or not unanswered:
            return unreached(self, failure, f"lock {ownership.name!r}")
        self.emit(
            events.OutcomeUnknown(ownership.name, ownership.owner, what, failure.cause, who=ownership.who.describe())
        )
        then = "it is being settled in the background until the lease expires"
        if lease_ms is None:
            then = "it may have been executed, and is not repeated: call it again"
        error = OutcomeUnknownError(
            f"{what} of lock {ownership.name!r} was sent, and its outcome could not be determined "
            f"({type(failure.cause).__name__}: {failure.cause}); {then}",
            name=ownership.name,
        )
        error.__cause__ = failure.cause
        return error

    def settle_later(self, ownership: Ownership, lease_ms: int) -> None:
        """Let the watchdog settle the pending request, until a lease that it may have begun has ended."""
        ownership.keep_pending_until(self.runtime.now() + lease_ms / 1000)
        self.watchdog.settle_later(ownership)

    # ---- the end -------------------------------------------------------------------------------------------------

    def close(self, *, collected: bool = False) -> None:
        """Refuse everything from now on, and wake those who wait. Holds are left to their blocks and their leases.

        ``collected``: by the garbage collector, which may run in the middle of one of our own methods.
        """
        closed_before = self.closed
        self.closed = True
        self.fast_pool = None
        if not (closed_before or collected):
            report_held(self)
            for callback in list(self.when_closed):
                callback()
            if self.watchdog.watching():
                self.watchdog.report_when_closed()
        if not self.watchdog.watching():
            self.ownerships.end_unless_needed()
        self.subscriptions.close(ClientClosedError("this client was closed while waiting"))

    def all_held(self) -> list[Ownership]:
        """Return the ownerships that hold something, or may: also those of permits, which are in no table."""
        held = (*self.ownerships.held(), *self.watchdog.ownerships(), *list(self.presence.blocks))
        return list(dict.fromkeys(held))

    def give_up_all(self, reason: str) -> None:
        """Lose all that is held: the client becomes another one."""
        lost = [(each, each.lose(reason)) for each in self.all_held()]
        self.id = self.runtime.new_id()  # Before: a request whose connection is closed now is not the new client's.
        for ownership, holds in lost:
            self.report_lost(ownership, holds)
        self.presence.forget()

    def end_former(self, ownerships: OwnershipTable, subscriptions: Subscriptions, reason: str) -> None:
        """Wake those who wait in the name of the client that this was, whose these are; let them acquire nothing."""
        subscriptions.close(ClientClosedError("the client was given a new identity while waiting: call again"))
        for ownership in ownerships:
            ownership.disown()  # First: what is granted from here on is not held.
            self.report_lost(ownership, ownership.lose(reason))
            if ownership.holds or ownership.ended:
                self.lost_before.setdefault(ownership.name, []).append(ownership)
        ownerships.end(keep_lost=True)

    def find_lost(self, kind: LockKind, who: Caller) -> list[Ownership]:
        """Return what a thread, task or made owner lost of a lock when this became another client."""
        name, found = kind.names.name, []
        for own in self.lost_before.get(name, ()):
            number = own.who.number
            alike = own.owner.partition(":")[2] == kind.field(number).partition(":")[2]  # But for the client's id.
            if alike and own.who.thread_number == who.thread_number and (own.holds or own.ended):
                found.append(own)
        if not any(own.holds or own.ended for own in self.lost_before.get(name, ())):
            self.lost_before.pop(name, None)
        return found

    async def end(self) -> None:
        """Remove from the server what a client that was closed does not need there, within a short time."""

        async def remove() -> None:
            await self._leave_queues()
            await self.watchdog.end()
            await self.presence.end()

        await self.runtime.guard(remove(), CLEANUP_BUDGET, leaving=False)

    async def _leave_queues(self) -> None:
        """Give up the places of waiters, whose own calls may get to that only when the connections are closed."""
        until = self.runtime.now() + CLEANUP_BUDGET
        with suppress(Failure):  # What was not given up ends by itself.
            for each in self.ownerships:
                # Its last attempt may be under way.
                while each.in_flight.queued_ms and (now := self.runtime.now()) < until:
                    each.stop_waiting(now)
                    await settle(self, each, until - now, behind=True)
