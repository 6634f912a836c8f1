"""The whole client, in both forms: its watchdog, its replicas, its ledger, and its lookup of holders."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from pyredisson._core import events
from pyredisson._core.acquiring.late import report_held
from pyredisson._core.background.watchdog import Watchdog
from pyredisson._core.backoff import RETRY
from pyredisson._core.client_base import CLEANUP_BUDGET, ClientBase
from pyredisson._core.diagnosis.holder_lookup import Finder
from pyredisson._core.diagnosis.wrong_type import explain_type
from pyredisson._core.failures import Connecting, Failure, NotNow, Unanswered, Unusable
from pyredisson._core.requests.connect_wait import unreached
from pyredisson._core.requests.ledger import Ledger
from pyredisson._core.requests.replicas import Replicas
from pyredisson._core.requests.server import KnownRestarts, ServerChange
from pyredisson._core.requests.settle import settle
from pyredisson._core.runtime import Runtime
from pyredisson.errors import ClientClosedError, OutcomeUnknownError

if TYPE_CHECKING:
    from pyredisson._core.diagnosis.presence import Presence
    from pyredisson._core.ownership.ownership import Ownership
    from pyredisson._core.runtime import Reply
    from pyredisson.config import Config


class ClientRuntime(Runtime, Protocol):
    """The world as one client sees it, with the other clients in it."""

    def clients(self) -> Iterable[ClientCore]:
        """The clients of this process."""
        ...


class ClientCore(ClientBase):
    """One client: the ``<uuid>`` of ``<uuid>:<thread id>`` and all that goes with it."""

    def __init__(self, runtime: ClientRuntime, config: Config) -> None:
        super().__init__(runtime, config)
        self._clients = runtime.clients
        #: The pool of connections, where the fast path may use it.
        self.direct: Any = None
        self.replicas: Replicas = Replicas(self)
        self.starts: KnownRestarts = KnownRestarts(self.server)
        self.begin()

    def begin(self) -> None:
        """See :meth:`ClientBase.begin`."""
        super().begin()
        self.lock_cores: dict[str, Any] = {}  # By name; see lock_core().
        #: Called when it is closed.
        self.when_closed: dict[Callable[[], None], None] = {}
        self.watchdog: Watchdog = Watchdog(self)
        self.unwatch: Callable[[Ownership], None] = self.watchdog.unwatch
        self.settle_in_background: Callable[[Ownership], None] = self.watchdog.settle
        self.do_later: Callable[[Callable[[], Coroutine[Any, Any, object]], float], None] = self.watchdog.do_later
        self.presence: Presence = self.watchdog.presence
        self.finder: Finder = Finder(self, self._clients)
        self.plain_timeout: float = self.attempt_timeout(self.watchdog.lease_ms)
        self.ledger: Ledger = Ledger(self)
        self.replicas.begin()
        self.starts.begin()
        for begin in self.on_begin:
            begin()
        self.server.on_change = self.watchdog.check_holds

    def note_acquire(self, ownership: Ownership) -> None:
        """Note what a thread is about to acquire; emit what it holds for another call chain, since it has gone on."""
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
        over = runtime.now() + self.config.timeout
        most, telling = (False, 0.0), None  # The last attempt may have had too little time to find out what is wrong.
        while True:
            given = min(patience, over - runtime.now())
            try:
                return await runtime.ask(command, given)
            except (Unanswered, NotNow) as failure:
                tells = not isinstance(failure, Connecting), given  # Any answer says more than a slow connection.
                if telling is None or tells >= most:
                    most, telling = tells, failure
                if isinstance(failure, Unusable) or runtime.now() + RETRY.maximum >= over:
                    raise telling from None
            await runtime.sleep(RETRY.pause(0, runtime.jitter))

    def explain(self, failure: Failure, ownership: Ownership, what: str, lease_ms: int) -> Exception:
        """Return the error to show to the user for a request without a usable reply.

        One that may have taken effect is settled in the background from here on. Only if this call has sent it is its
        outcome the caller's business; see :attr:`Failure.earlier`.
        """
        unanswered = isinstance(failure, Unanswered)
        if unanswered:
            self.settle_later(ownership, lease_ms)
        if failure.earlier or not unanswered:
            return unreached(self, failure, f"lock {ownership.name!r}")
        self.emit(
            events.OutcomeUnknown(ownership.name, ownership.owner, what, failure.cause, who=ownership.who.describe())
        )
        error = OutcomeUnknownError(
            f"{what} of lock {ownership.name!r} was sent, and its outcome could not be determined "
            f"({type(failure.cause).__name__}: {failure.cause}); it is being settled in the background until "
            "the lease expires",
            name=ownership.name,
        )
        error.__cause__ = failure.cause
        return error

    def settle_later(self, ownership: Ownership, lease_ms: int) -> None:
        """Let the watchdog settle the pending request, until a lease that it may have begun has ended."""
        ownership.settle_until(self.runtime.now() + lease_ms / 1000)
        self.watchdog.settle(ownership)

    # ---- the end -------------------------------------------------------------------------------------------------

    def close(self, *, collected: bool = False) -> None:
        """Refuse everything from now on, and wake those who wait. Holds are left to their blocks and their leases.

        ``collected``: by the garbage collector, which may run in the middle of one of our own methods.
        """
        closed_before = self.closed
        self.closed: bool = True
        self.direct = None
        if not (closed_before or collected):
            report_held(self)
            for callback in list(self.when_closed):
                callback()
            if self.watchdog.watching():
                self.watchdog.report_when_closed()
        if not self.watchdog.watching():
            self.ownerships.end()
        self.subscriptions.close(ClientClosedError("this client was closed while waiting"))

    def give_up_all(self, reason: str) -> None:
        """Lose all that is held, and wake those who wait: the client becomes another one."""
        held = dict.fromkeys((*self.ownerships.held(), *self.watchdog.ownerships(), *list(self.presence.blocks)))
        for ownership in held:
            self.report_lost(ownership, ownership.lose(reason))
        self.subscriptions.close(ClientClosedError("the client was given a new identity while waiting: call again"))

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
                while each.queued_ms and (now := self.runtime.now()) < until:  # Its last attempt may be under way.
                    each.stop_waiting(now)
                    await settle(self, each, until - now, behind=True)
