"""Log the events of a client, by the loggers ``pyredisson.lock``, ``.renewal``, ``.pubsub`` and ``.server``.

Each line begins with ``pyredisson:``: if logging is not configured, Python prints warnings without the logger's name.
For structured logs, ``extra`` contains the lock and its owner as ``lock`` and ``owner``.
"""

from __future__ import annotations

import logging
import math
import shlex
from collections.abc import Callable
from functools import partial

from pyredisson.core import events
from pyredisson.core.names import PRESENCE_KEYS

_lock = logging.getLogger("pyredisson.lock")
_renewal = logging.getLogger("pyredisson.renewal")
_pubsub = logging.getLogger("pyredisson.pubsub")
_server = logging.getLogger("pyredisson.server")


#: Whether acquires and releases are logged, too.
wants_all: Callable[[], bool] = partial(_lock.isEnabledFor, logging.DEBUG)


def log_event(event: events.Event) -> None:
    """Log one event: losses and unknown outcomes as ``WARNING``, normal operation as ``DEBUG``."""
    if isinstance(event, events.LockEvent):
        _log_lock_event(event)
    else:
        _log_client_event(event)


def _log_lock_event(event: events.LockEvent) -> None:
    match event:
        case events.Acquired(waited=waited, holds=0):
            _of(event, logging.DEBUG, "permits of %r: %s acquired them after %.3f s", waited)
        case events.Acquired(waited=waited, holds=holds):
            _of(event, logging.DEBUG, "lock %r of %s: acquired after %.3f s, hold %d", waited, holds)
        case events.Released(holds=holds, held=held):
            _of(event, logging.DEBUG, "lock %r of %s: released after %.3f s, %d holds left", held, holds)
        case events.TimedOut(waited=waited):
            _of(event, logging.DEBUG, "lock %r of %s: not acquired within %.3f s", waited)
        case events.AcquireFailed(waited=waited, error=error):
            _of(event, logging.DEBUG, "lock %r of %s: the acquire failed after %.3f s: %r", waited, error)
        case events.Lost(reason=reason):
            _of(event, logging.WARNING, "lock %r of %s was lost: %s", reason)
        case events.HolderGone(hint=hint):
            _of(event, logging.WARNING, "lock %r of %s: its holder is gone, so it is no longer renewed: %s", hint)
        case events.LeftBehind(holder=holder):
            text = (
                "lock %r of %s: %s still holds it from an earlier call and now runs another one. Only the call that "
                "acquired it can release it: use hold(), whose block may be left in any thread, or get_lock(name, "
                "owner=client.new_owner())"
            )
            _of(event, logging.WARNING, text, holder)
        case events.OutcomeUnknown(request=request, error=error):
            _of(
                event,
                logging.WARNING,
                "lock %r of %s: the outcome of %s is unknown (%s); settling it in the background",
                request,
                error,
            )
        case events.GivenBack():
            text = "lock %r of %s: an unanswered request was settled, and what it may have acquired was released"
            _of(event, logging.INFO, text)
        case events.PermitsNeverSet() | events.PermitsDiffer():
            _log_permits(event)
        case events.HeldTooLong(held=seconds, stack=stack):
            _of(event, logging.WARNING, "lock %r of %s has been held for %.1f s%s", seconds, _doing(stack))
        case events.WaitingTooLong(waited=seconds, stack=stack):
            _of(event, logging.WARNING, "lock %r: %s has been waiting for %.1f s%s", seconds, _doing(stack))
        case _:
            pass


def _log_permits(event: events.PermitsNeverSet | events.PermitsDiffer) -> None:
    match event:
        case events.PermitsNeverSet():
            text = (
                "semaphore %r: %s waits for permits, but their number was never set: call try_set_permits(n), or make "
                "the handle with permits=n"
            )
            _of(event, logging.WARNING, text)
        case events.PermitsDiffer(wanted=wanted, permits=permits):
            text = (
                "semaphore %r: %s asked for permits=%d, but it has %d: permits= sets them only where there are none. "
                "Pass resize=True as well, or run: pyredisson permits %s --set %d"
            )
            _of(event, logging.WARNING, text, wanted, permits, shlex.quote(event.name), wanted)


def _log_client_event(event: events.Event) -> None:
    match event:
        case events.Renewed(locks=locks, requests=requests):
            _renewal.debug("pyredisson: renewed %d locks with %d requests", locks, requests)
        case events.RenewalFailed(locks=locks, error=error, attempt=attempt):
            level = _once_an_outage(attempt)
            _renewal.log(level, "pyredisson: the renewal of %d locks was not answered (%s); retrying", locks, error)
        case events.WatchdogLate(seconds=seconds):
            text = (
                "pyredisson: the watchdog is %.1f s late, so locks may have expired while they were held. With uWSGI "
                "set --enable-threads; otherwise the process was stopped, overloaded, or its event loop was blocked"
            )
            _renewal.warning(text, seconds)
        case events.PresenceRefused(error=error):
            text = (
                "pyredisson: the server refused what this client wrote about its locks (%s): others cannot see what it "
                "holds. Allow SET and DEL on the keys %r, or set Config(presence=False)"
            )
            _server.warning(text, error, PRESENCE_KEYS)
        case events.ConnectionDown(error=error, attempt=attempt):
            _pubsub.log(_once_an_outage(attempt), "pyredisson: subscriber: %s; reconnecting", error)
        case events.ConnectionUp(channels=channels):
            _pubsub.debug("pyredisson: subscribed to %d channels", channels)
        case events.ServerUnsafe(text=text):
            _server.warning("pyredisson: %s", text)
        case events.NodeBarred(name=name, node=node, uptime=uptime, seconds=seconds):
            text = "pyredisson: quorum %r: node %s was started %d s ago and has no vote for another %.1f s"
            _server.warning(text, name, node, uptime, seconds)
        case events.QuorumIsYoung(name=name, nodes=nodes, uptime=uptime):
            text = (
                "pyredisson: quorum %r: all %d nodes were started within the last %d s; treated as a first start, so "
                "they vote"
            )
            _server.info(text, name, nodes, uptime)
        case events.ClientCollected():
            pass  # It was logged where it was detected; see log_collected().
        case events.ClosedWhileHolding(names=names, held=held, remaining=seconds):
            more = f" and {held - len(names)} more" if held > len(names) else ""
            until = "" if seconds == math.inf else f" and which is certain for {seconds:.1f} s more"
            text = (
                "pyredisson: a client was closed while it held %s%s, which it no longer renews%s. A block that is left "
                "in time still releases its lock; end what holds locks before close()"
            )
            _lock.warning(text, ", ".join(map(repr, names)), more, until)
        case events.CallbackFailed(callback=callback, error=error):
            _lock.error("pyredisson: the callback %s failed: %r", callback, error)
        case events.BackgroundFailed(what=what, error=error):
            _lock.error("pyredisson: settling %s failed and will be retried: %r", what, error, exc_info=error)
        case _:
            pass


def log_collected(event: events.ClientCollected) -> None:
    """Log that a client was garbage-collected; immediately, since the process may be about to end."""
    names = ", ".join(map(repr, event.names))
    more = "" if event.held <= len(event.names) else f" and {event.held - len(event.names)} more"
    _lock.warning(
        "pyredisson: client %s was garbage-collected while it held %s%s, which can no longer be released: each expires "
        "with its lease. Keep a reference to the client, and release its locks or close() it",
        event.client_id,
        names,
        more,
    )


def _of(event: events.LockEvent, level: int, text: str, *args: object) -> None:
    if _lock.isEnabledFor(level):
        extra = {"lock": event.name, "owner": event.owner}
        _lock.log(level, "pyredisson: " + text, event.name, event.owner, *args, extra=extra)


def _doing(stack: tuple[str, ...]) -> str:
    return "; it is at:\n" + "\n".join(stack) if stack else ""


def _once_an_outage(attempt: int) -> int:
    return logging.WARNING if attempt == 1 else logging.DEBUG
