"""Log the events of a client, by the loggers ``pyredisson.lock``, ``.renewal``, ``.pubsub`` and ``.server``.

Each line begins with ``pyredisson:``: if logging is not configured, Python prints warnings without the logger's name.
For structured logs, ``extra`` contains the lock and its owner as ``lock`` and ``owner``.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from pyredisson._core import events
from pyredisson._core.hold import InMargin
from pyredisson._core.names import PRESENCE_KEYS

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.runtime import Work

_lock = logging.getLogger("pyredisson.lock")
_renewal = logging.getLogger("pyredisson.renewal")
_pubsub = logging.getLogger("pyredisson.pubsub")
_server = logging.getLogger("pyredisson.server")


#: Requests without an answer that nothing settles: their callers call them again, or their client is closed.
NOT_SETTLED = {"a force_unlock", "an extension", "the release of a block"}

#: Whether acquires and releases are logged, too.
wants_all: Callable[[], bool] = partial(_lock.isEnabledFor, logging.DEBUG)

#: The line of each event, by the name of its class: with the attributes of the event, and what ``Log._words()`` adds.
#: An event that is not here has no line.
LINES = {
    (_lock, logging.DEBUG): {
        "Acquired": "lock %(name)r of %(who)s: acquired after %(waited).3f s, hold %(holds)d",
        "Released": "lock %(name)r of %(who)s: released after %(held).3f s, %(holds)d holds left",
        "TimedOut": "lock %(name)r of %(who)s: not acquired within %(waited).3f s",
        "AcquireFailed": "lock %(name)r of %(who)s: the acquire failed after %(waited).3f s: %(error)r",
    },
    (_lock, logging.INFO): {
        "GivenBack": "lock %(name)r of %(who)s: a request that was not answered, or too late, was settled: what it may "
        "have acquired was released",
    },
    (_lock, logging.WARNING): {
        "Lost": "lock %(name)r of %(who)s was lost: %(reason)s",
        "OutcomeUnknown": "lock %(name)r of %(who)s: the outcome of %(request)s is unknown (%(server)s: %(error)s)"
        "%(then)s",
        "HolderGone": "lock %(name)r of %(who)s: its holder is gone, so it is no longer renewed: %(hint)s",
        "LeftBehind": "lock %(name)r of %(who)s: %(holder)s still holds it from an earlier call and now runs another "
        "one. Only the call that acquired it can release it: use hold(), whose block may be left in any thread, or "
        "get_lock(name, owner=client.new_owner())",
        "HeldTooLong": "lock %(name)r of %(who)s has been held for %(held).1f s%(doing)s",
        "WaitingTooLong": "lock %(name)r: %(who)s has been waiting for %(waited).1f s%(doing)s",
        "PermitsNeverSet": "semaphore %(name)r: %(who)s waits for permits, but their number was never set: call "
        "try_set_permits(n), or make the handle with permits=n",
        "PermitsDiffer": "semaphore %(name)r: %(who)s asked for %(wanted)d permits, but it has %(permits)d: a handle "
        "sets them only where there are none. To change their number, run: pyredisson permits %(quoted)s --set "
        "%(wanted)d; get_semaphore() and get_permit_expirable_semaphore() also take resize=True",
        "CampaignFailed": "%(server)s: the election %(name)r: %(failure)s; trying again",
        "ClosedWhileHolding": "a client was closed while it held %(names)s%(more)s, which it no longer renews"
        "%(until)s. A block that is left in time still releases its lock; end what holds locks before close()",
        "ClientCollected": "client %(client_id)s was garbage-collected while it held %(names)s%(more)s, which can no "
        "longer be released: each expires with its lease. Keep a reference to the client, and release its locks or "
        "close() it",
    },
    (_lock, logging.ERROR): {
        "CallbackFailed": "the callback %(callback)s failed: %(error)r",
        "BackgroundFailed": "settling %(what)s failed and will be retried: %(error)r",
    },
    (_renewal, logging.DEBUG): {"Renewed": "renewed %(locks)d locks with %(requests)d requests"},
    (_renewal, logging.WARNING): {
        "RenewalFailed": "%(server)s: %(locks)d locks, %(name)r among them, could not be renewed (%(error)s); retrying",
        "WatchdogLate": "the watchdog is %(seconds).1f s late, so locks may have expired while they were held. With "
        "uWSGI set --enable-threads; otherwise the process was stopped, overloaded, or its event loop was blocked",
    },
    (_pubsub, logging.DEBUG): {"ConnectionUp": "%(server)s: subscribed to %(channels)d channels"},
    (_pubsub, logging.WARNING): {
        "ConnectionDown": "%(server)s: the subscriber has no connection (%(error)s); reconnecting",
    },
    (_server, logging.INFO): {
        "QuorumIsYoung": "quorum %(name)r: all %(nodes)d nodes were started within the last %(uptime)d s; treated as a "
        "first start, so they vote",
    },
    (_server, logging.WARNING): {
        "PresenceRefused": "the server refused what this client wrote about its locks (%(error)s): others cannot see "
        f"what it holds. Allow SET and DEL on the keys {PRESENCE_KEYS!r}, or set Config(presence=False)",
        "ServerUnsafe": "%(text)s",
        "MasterChanged": "the master of %(what)s is now %(server)s (was %(former)s); %(held)d locks are held across "
        "the change, and are checked: what was not replicated is lost",
        "QuorumNodeLost": "quorum %(name)r: %(node)s cannot be used (%(error)s): %(left)d nodes are left, and "
        "%(quorum)d are needed",
        "QuorumNodeBack": "quorum %(name)r: %(node)s can be used again after %(seconds).1f s",
        "NodeBarred": "quorum %(name)r: %(node)s was started %(uptime)d s ago and has no vote for another "
        "%(seconds).1f s",
    },
}
_LINE_OF = {event: (*to, f"pyredisson: {text}") for to, texts in LINES.items() for event, text in texts.items()}

#: What may be one of many failures of an outage: what has failed. Only the first has the level above.
FAILURES = {
    "OutcomeUnknown": "a request",
    "RenewalFailed": "a renewal",
    "ConnectionDown": "the subscriber's connection",
    "CampaignFailed": "a campaign",
}


class Log:
    """Logs the events of one client: losses and failures as ``WARNING``, normal operation as ``DEBUG``.

    Args:
        core: The client.
    """

    def __init__(self, core: ClientCore) -> None:
        self._core = core
        self._outages = Outages(core, self._log_end, self._log_losses)
        core.server.on_answer.append(self._note_answer)

    def __call__(self, event: events.Event) -> None:
        """Log one event."""
        kind = type(event).__name__
        if kind not in _LINE_OF or kind == "ClientCollected":
            return  # The latter was logged where it was detected: by log_collected().
        logger, level, text = _LINE_OF[kind]
        server = getattr(event, "server", "")
        if kind in FAILURES:
            server = self._server(server, getattr(event, "name", None))
            level = level if self._outages.begins(server, FAILURES[kind]) else logging.DEBUG
        elif isinstance(event, events.Lost) and not self._outages.is_first_loss(event.name, self._who(event)):
            level = logging.INFO
        elif isinstance(event, events.ConnectionUp):
            self._note_answer(event.server)
        elif isinstance(event, events.Acquired) and not event.holds:
            text = "pyredisson: permits of %(name)r: %(who)s acquired them after %(waited).3f s"
        if logger.isEnabledFor(level):
            words, extra = {**_words(event), "server": server or self._address()}, None
            if isinstance(event, events.LockEvent):
                words["who"], extra = self._who(event), {"lock": event.name, "owner": event.owner}
            failed = event.error if isinstance(event, events.BackgroundFailed) else None
            logger.log(level, text, words, exc_info=failed, extra=extra)

    def _note_answer(self, server: str = "", name: str | None = None) -> None:
        """Note that a server has answered, of which the address is known, or a lock that it has."""
        if self._outages.any():
            self._outages.answered(self._server(server, name))

    def _server(self, server: str, name: str | None) -> str:
        core = self._core
        return server or (core.runtime.node_of(core.key_of(name)) if name else "") or self._address()

    def _address(self) -> str:
        return self._core.address or "the server"

    def _log_end(self, server: str, seconds: float, summary: str) -> None:
        _server.warning("pyredisson: %s answers again after %.1f s, in which %s failed", server, seconds, summary)

    def _log_losses(self, losses: list[tuple[str, str]], seconds: float) -> None:
        names = ", ".join(f"{name!r} of {who}" for name, who in losses[:NAMED])
        more = f" and {len(losses) - NAMED} others" if len(losses) > NAMED else ""
        lost = "one more lock was" if len(losses) == 1 else f"{len(losses)} more locks were"
        _lock.warning("pyredisson: %s lost within %.0f s: %s%s", lost, seconds, names, more)

    def _who(self, event: events.LockEvent) -> str:
        """Name the owner of a lock: its thread or task, and the application."""
        core, called = self._core, event.who
        if not called:
            own, number = core.ownerships.find((event.name, event.owner)), event.owner.rpartition(":")[2]
            try:
                who = core.runtime.owner() if own is None else own.who
            except RuntimeError:  # No task runs: a closed client's loss is reported.
                return event.owner
            if own is None and str(who.number) != number:
                return event.owner
            called = who.describe()
        app = core.runtime.identity().app
        return f"{called} of {app}" if app else called


def _words(event: events.Event) -> dict[str, Any]:
    """Return the attributes of an event, some of them in words."""
    words = dict(vars(event))
    match event:
        case events.Lost(reason=InMargin() as reason) if (left := reason.left()) is not None:
            left = max(0.0, left)
            words["reason"] = f"{reason}; unless it was taken away, no one else can acquire it for another {left:.1f} s"
        case events.OutcomeUnknown(request=request):
            words["then"] = "" if request in NOT_SETTLED else "; settling it in the background"
        case events.HeldTooLong(stack=stack) | events.WaitingTooLong(stack=stack):
            words["doing"] = "; it is at:\n" + "\n".join(stack) if stack else ""
        case events.PermitsDiffer(name=name):
            import shlex  # Slow to import.

            words["quoted"] = shlex.quote(name)
        case events.CampaignFailed(error=error):
            words["failure"] = str(error) or repr(error)
        case events.ClosedWhileHolding(names=names, held=held) | events.ClientCollected(names=names, held=held):
            words["names"] = ", ".join(map(repr, names))
            words["more"] = f" and {held - len(names)} more" if held > len(names) else ""
    if isinstance(event, events.ClosedWhileHolding):
        seconds = event.remaining
        words["until"] = "" if seconds == math.inf else f" and which is certain for {seconds:.1f} s more"
    return words


def log_collected(event: events.ClientCollected) -> None:
    """Log that a client was garbage-collected; immediately, since the process may be about to end."""
    logger, level, text = _LINE_OF["ClientCollected"]
    logger.log(level, text, _words(event))


# ---- outages ---------------------------------------------------------------------------------------------------------
# Which failures and losses are worth a line at ``WARNING``: one for each outage, not one for each call.
#
# Rules kept here, for each client, and each server that it uses:
# 1. The first failure begins an outage, and is logged. Those that follow are counted, and logged at ``DEBUG``.
# 2. It ends when the server has answered since the last failure, and none has followed for a while: for longer than
#    the time of a call, which fails that long after it has begun. One line says then how long it took, and how often
#    what failed. Nothing is asked of the server to find that out: a new connection, the subscriber's messages, renewals
#    and settled requests tell.
# 3. A server that fails again soon is believed later each time: the while doubles. So there are at most five lines
#    in ten seconds, whatever happens and however many threads call.
# 4. Losses are reported at once, and to each holder, by events and callbacks. Of many, one after the other, the first
#    is logged, and then lines that come more and more rarely name the others.


#: Seconds without a failure, beyond the time of a call, after which an outage has ended, or after which other losses
#: are logged: at first, and at most.
QUIET_AT_FIRST = 2.0
QUIET_AT_MOST = 60.0

#: How many locks one line names.
NAMED = 20


class DoublingPause:
    """A time to wait that doubles each time, until it was not needed for :data:`QUIET_AT_MOST`."""

    def __init__(self) -> None:
        self._seconds = QUIET_AT_FIRST / 2
        self._used = 0.0

    def next(self, now: float) -> float:
        """Return the seconds to wait this time."""
        again = now - self._used < self._seconds + QUIET_AT_MOST and self._used > 0
        self._seconds = min(self._seconds * 2, QUIET_AT_MOST) if again else QUIET_AT_FIRST
        self._used = now
        return self._seconds


class Outage:
    """What one server has failed to do, from the first failure on.

    Attributes:
        counts: How often what failed.
    """

    def __init__(self, now: float, quiet: float) -> None:
        self.counts: Counter[str] = Counter()
        self._began = self._failed = now
        self._answered = -1.0
        self._quiet = quiet

    def failed(self, what: str, now: float) -> None:
        """Count a failure."""
        self.counts[what] += 1
        self._failed = now

    def answered(self, now: float) -> None:
        """Note that the server has answered."""
        if self._answered <= self._failed:
            self._answered = now

    def over(self, now: float) -> float | None:
        """Return how long it took, if it has ended; ``None`` if it goes on."""
        if self._answered <= self._failed or now < self._failed + self._quiet:
            return None
        return self._answered - self._began

    def summary(self) -> str:
        """Say how often what failed."""
        return ", ".join(f"{what} {count} time{'s' * (count > 1)}" for what, count in self.counts.items())


class Outages:
    """The outages of the servers of one client, and the losses that are to be logged together.

    Args:
        core: The client.
        ended: Logs that the outage of a server has ended: which, after how many seconds, and what failed.
        lost: Logs losses, each a lock and its owner, in one line, and within how many seconds.
    """

    def __init__(
        self,
        core: ClientCore,
        ended: Callable[[str, float, str], None],
        lost: Callable[[list[tuple[str, str]], float], None],
    ) -> None:
        self._core = core
        self._now = core.runtime.now
        self._ended = ended
        self._lost = lost
        self._begin()
        core.on_begin.append(self._begin)

    def _begin(self) -> None:
        self._mutex = self._core.runtime.mutex()
        self._open: dict[str, Outage] = {}
        self._paces: dict[str, DoublingPause] = {}
        self._losses: list[tuple[str, str]] | None = None
        self._loss_pace = DoublingPause()
        self._core.when_closed[self._tell_losses] = None

    def begins(self, server: str, what: str) -> bool:
        """Count a failure of a server. Returns whether an outage begins with it."""
        now = self._now()
        with self._mutex:
            outage = self._open.get(server)
            if new := outage is None:
                pace = self._paces.setdefault(server, DoublingPause())
                outage = self._open[server] = Outage(now, self._core.config.timeout + pace.next(now))
            outage.failed(what, now)
        if new:
            self._do_later(self._check, QUIET_AT_FIRST / 2)
        return new

    def any(self) -> bool:
        """Whether a server is in an outage."""
        return bool(self._open)

    def answered(self, server: str) -> None:
        """Note that a server has answered."""
        with self._mutex:
            if (outage := self._open.get(server)) is not None:
                outage.answered(self._now())

    def is_first_loss(self, lock: str, owner: str) -> bool:
        """Note a loss. Returns whether it is to be logged now; else it is logged with others, soon."""
        with self._mutex:
            if self._losses is not None:
                self._losses.append((lock, owner))
                return False
            self._losses = []
        self._tell_losses_later()
        return True

    def _tell_losses_later(self) -> None:
        self._loss_seconds = self._loss_pace.next(self._now())

        async def tell(_timeout: float) -> None:
            self._tell_losses()

        try:
            if self._core.closed:  # It has no background any more.
                self._core.runtime.call_later(self._loss_seconds, self._tell_losses)
            else:
                self._do_later(tell, self._loss_seconds)
        except RuntimeError:
            pass  # As in _do_later().

    def _tell_losses(self) -> None:
        with self._mutex:
            losses, self._losses = self._losses, None
            if losses:
                self._losses = []
        if losses:
            self._lost(losses, self._loss_seconds)
            self._tell_losses_later()

    async def _check(self, _timeout: float) -> None:
        now = self._now()
        over = []
        with self._mutex:
            for name, outage in list(self._open.items()):
                if (seconds := outage.over(now)) is not None:
                    over.append((name, seconds, self._open.pop(name)))
        for name, seconds, outage in over:
            self._ended(name, seconds, outage.summary())
        if self._open and not self._core.closed:
            self._do_later(self._check, QUIET_AT_FIRST / 2)

    def _do_later(self, work: Work, seconds: float) -> None:
        try:
            now = self._now()
            self._core.watchdog.do_later(work, now + 10 * QUIET_AT_MOST, now + seconds)
        except RuntimeError:
            pass  # The event loop is gone, or no thread can be started: then no line tells the end.
