"""The fast path of threads: the first acquire and the last release of a lock by an earlier owner, of whatever kind.

It does what the general path does (``_core/acquiring.py``), with the calls spelt out: it notes the request, sends bytes
that are ready, and notes the hold if the reply is the usual one. All else goes to the general path: at
once, or with the noted request and its outcome. A property test drives both paths, and compares all state.

The acquire of a lock with a queue says for how long its owner waits, so its bytes are ready for that wait. How many
waiters its release has notified does not matter.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, TypeAlias

from pyredisson._core import events
from pyredisson._core.acquiring import Attempt, FirstRequest, leave, make_attempts
from pyredisson._core.deadline import lease_ms
from pyredisson._core.hold import NO_CALL, HoldState, SingleHold
from pyredisson._core.releasing import finish_release, leave_release
from pyredisson._core.requests import SENT, AcquireCall, Pending, ReleaseCall
from pyredisson._core.runtime import run
from pyredisson._shared import process
from pyredisson._shared.owners import local
from pyredisson._shared.process import monotonic
from pyredisson._threads.sockets import exchange_idle

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from pyredisson._core.deadline import Seconds
    from pyredisson._core.runtime import Progress
    from pyredisson.lease import AnyLease

Rest: TypeAlias = "Coroutine[Any, Any, None] | None"

_running_loop = asyncio._get_running_loop


def acquire(
    core: Any, wait: float | None, lease_time: Seconds | None = None, hold: SingleHold | None = None, held: Any = None
) -> bool:
    """Acquire a lock for the calling thread, waiting at most ``wait`` seconds. Returns whether it did.

    ``hold``: that of a block, and ``held``, as whom that acts; else one with ``lease_time``.
    """
    ownership: Any = core.last
    who: Any = getattr(local, "owner", None)
    usual = ownership and ownership.who is who and not ownership.call.thread  # Else it may be a signal handler's call.
    usual = usual and (wait is not None or core.kind.waiting.tries is None)  # Else it may end with an error.
    if not usual or _running_loop() is not None or os.getpid() != process.pid:
        general = core.try_lock(wait, lease_time) if hold is None else core.acquire_hold(wait, hold, held)
        return run(general)  # type: ignore[no-any-return]
    if hold is not None:
        return _acquire(core, ownership, wait, hold, held)
    if lease_time is not None:
        return _acquire(core, ownership, wait, core.new_hold(lease_ms(lease_time)))
    watchdog = core.client.watchdog
    return _acquire(core, ownership, wait, SingleHold(watchdog.lease_ms, watchdog.certain, watchdog=True))


def _acquire(core: Any, ownership: Any, wait: float | None, new: SingleHold, held: Any = None) -> bool:
    """Acquire a lock for a new hold of an owner that has used it before."""
    client, in_flight, kind, who = core.client, ownership.in_flight, core.kind, ownership.who
    begun, sent, request_id = False, monotonic(), 0
    try:
        ownership.call = who.call
        with ownership.mutex:
            if core.prepare_fast_path(ownership, who, 0, sent, new.lease_ms, wait):
                in_flight.state, in_flight.without_end = SENT, False
                in_flight.lease_ms, in_flight.queued_ms = new.lease_ms, ownership.ready.queued_ms
                in_flight.request_id = request_id = in_flight.request_id + 1
                in_flight.holds = (new,)
                begun, in_flight.pending = True, Pending.ACQUIRE
        if begun:
            if who.latest is not ownership or ownership.table is None:
                client.note_acquire(ownership)
            ready, deadline = ownership.ready, sent + new.certain
            seen = client.subscriptions.messages_of(kind.waiting.channel(kind, ownership)) if ready.queued_ms else None
            reply = exchange_idle(client, ready.acquire.data, client.plain_timeout)
            new.token = None if kind.token_in is None else kind.token_in(reply)
            usual = reply is None if kind.token_in is None else new.token is not None
            now = monotonic()
            with ownership.mutex:
                late = client.replica_wait is not None or now >= deadline
                if usual and not late and in_flight.request_id == request_id:
                    ownership.generation += 1
                    ownership.deadline, new.since, new.state = deadline, sent, HoldState.HELD
                    ownership.holds.append(new)
                    ownership.chains.enter(new, who)
                    in_flight.holds, in_flight.pending, in_flight.queued_ms = (), None, 0
            if new.state is HoldState.HELD:
                if new.watched:
                    client.watchdog.watch(ownership)
                elif new.certain > client.presence.first:
                    client.presence.expect(sent)
                if client.has_listeners():
                    lease = None if new.watchdog else new.lease_ms / 1000
                    key = ownership.name, ownership.owner
                    client.emit(events.Acquired(*key, now - sent, 1, lease, kind.word), ordinary=True)
                return True
            call = AcquireCall(kind, ownership, request_id, new, 0, False)
            first = FirstRequest(call, ready.epoch, (reply, sent), seen)
            return run(make_attempts(Attempt(client, kind, ownership, new), wait, sent, first))
    except BaseException as error:
        run(leave(client, kind, ownership, new, sent, error))
        raise
    finally:
        ownership.call = NO_CALL
    return run(core.acquire_hold(wait, new, held))  # type: ignore[no-any-return]


def release(core: Any, block: AnyLease[Any] | bool, error: BaseException | None, progress: Progress) -> Rest:
    """Release a hold, that of a ``block`` (of a ``hold()``: a lease) or none. Return the rest to ``run_to_the_end``."""
    lease = None if isinstance(block, bool) else block
    if lease is not None:
        lease._end()
    ownership: Any = core.last if error is None and _running_loop() is None else None
    who: Any = getattr(local, "owner", None)
    usual = ownership and ownership.who is who and not ownership.call.thread
    hold: Any = next(iter(ownership.holds), None) if usual and os.getpid() == process.pid else None
    known = None if hold is None or hold.whole is not None else hold.trace()
    if lease is None and known is not None and ownership.chains.variable.get() is not known:
        # It is not the innermost that is visible, as it mostly is.
        known = ownership.chains.trace_of(hold) if len(ownership.holds) == 1 else None
    if hold is not None and (known is not None if lease is None else lease._hold is hold):
        client, in_flight = core.client, ownership.in_flight
        sent, released, request_id = monotonic(), False, 0
        try:
            ownership.call = who.call
            with ownership.mutex:
                if core.prepare_fast_path(ownership, who, 1, sent, hold.lease_ms) and ownership.holds[0] is hold:
                    progress.begun = True
                    in_flight.state, in_flight.holds, in_flight.becoming = SENT, (hold,), HoldState.OVER
                    in_flight.request_id = request_id = in_flight.request_id + 1
                    in_flight.of_block, in_flight.pending = block is not False, Pending.RELEASE
            if progress.begun:
                ready = ownership.ready
                reply = exchange_idle(client, ready.release.data, client.plain_timeout)
                with ownership.mutex:
                    done = type(reply) is int and (reply in (0, 1) or (reply > 1 and ready.queued_ms > 0))
                    if done and in_flight.request_id == request_id:
                        ownership.generation += 1
                        in_flight.pending, released, hold.state = None, True, HoldState.OVER
                        ownership.holds.pop()
                        if known is not None:
                            known.state = HoldState.OVER
                if released:
                    client.watchdog.unwatch(ownership)
                    if client.has_listeners():
                        held = monotonic() - hold.since
                        client.emit(events.Released(ownership.name, ownership.owner, 0, held), ordinary=True)
                else:
                    call = ReleaseCall(core.kind, ownership, request_id, hold.lease_ms, 1)
                    run(finish_release(client, call, ready.epoch, begun=(reply, sent)))
                return None
        except BaseException as interruption:
            if progress.begun:
                run(leave_release(client, ownership, (hold,), interruption))
            raise
        finally:
            ownership.call = NO_CALL
    return core.unlock(progress) if block is False else core.leave(error, progress, lease)  # type: ignore[no-any-return]
