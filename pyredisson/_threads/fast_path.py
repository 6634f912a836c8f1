"""The fast path of threads: the first acquire and the last release of a plain or fair lock by an earlier owner.

It does what the general path does (``_core/acquiring.py``), with the calls spelt out: it notes the request, sends bytes
that are ready, and notes the hold if the reply is the usual one. All else goes to the general path: at
once, or with the noted request and its outcome. A property test drives both paths, and compares all state.

The acquire of a fair lock says for how long its owner waits, so its bytes are ready for a wait without a time limit.
How many waiters its release has notified does not matter.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyredisson._core.acquiring import Attempt, FirstRequest, leave, make_attempts
from pyredisson._core.hold import NO_CALL, HoldState, SingleHold
from pyredisson._core.ownership import SENT, Pending
from pyredisson._core.releasing import finish_release, leave_release
from pyredisson._core.requests import AcquireCall, ReleaseCall
from pyredisson._core.runtime import run
from pyredisson._kinds.lock import LockCore
from pyredisson._owners import forks
from pyredisson._owners.owners import local
from pyredisson._shared.clock import monotonic
from pyredisson._threads.transport import exchange_idle

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from pyredisson._core.deadline import Seconds
    from pyredisson._core.runtime import Progress

Rest: TypeAlias = "Coroutine[Any, Any, None] | None"

#: The core of a fair lock, by name: programs without one do not load it.
FAIR: Final = "FairLockCore"

_running_loop = asyncio._get_running_loop


def acquire(core: Any, wait: float | None, lease_time: Seconds | None = None) -> bool:
    """Acquire a lock for the calling thread, waiting at most ``wait`` seconds. Returns whether it did."""
    served = type(core) is LockCore or (wait is None and type(core).__name__ == FAIR)
    ownership: Any = core.last if served and lease_time is None else None
    who: Any = getattr(local, "owner", None)
    usual = ownership and ownership.who is who and not ownership.call.thread  # Else it may be a signal handler's call.
    if not usual or _running_loop() is not None or os.getpid() != forks.pid:
        return run(core.try_lock(wait, lease_time))  # type: ignore[no-any-return]
    client, in_flight, watchdog = core.client, ownership.in_flight, core.client.watchdog
    hold = SingleHold(watchdog.lease_ms, watchdog.certain, watchdog=True)
    begun, sent, request_id = False, monotonic(), 0
    try:
        ownership.call = who.call
        with ownership.mutex:
            if core.prepare_fast_path(ownership, who, 0, sent):
                in_flight.state, in_flight.without_end = SENT, False
                in_flight.lease_ms = hold.lease_ms
                in_flight.request_id = request_id = in_flight.request_id + 1
                in_flight.queued_ms = ownership.ready.queued_ms
                in_flight.holds = (hold,)
                begun, in_flight.pending = True, Pending.ACQUIRE
        if begun:
            if who.latest is not ownership:
                client.note_acquire(ownership)
            if ownership.table is None:  # Another thread has just swept the table, and took the ownership for idle.
                client.ownerships.enter(ownership)
            ready, deadline = ownership.ready, sent + hold.certain
            channel = core.kind.waiting.channel(core.kind, ownership) if ready.queued_ms else None
            seen = client.subscriptions.messages_of(channel) if channel else None
            reply = exchange_idle(client, ready.acquire.data)
            late = client.replica_wait is not None or monotonic() >= deadline
            with ownership.mutex:
                if reply is None and not late and in_flight.request_id == request_id:
                    ownership.generation += 1
                    ownership.deadline, hold.since, hold.state = deadline, sent, HoldState.HELD
                    ownership.holds.append(hold)
                    ownership.chains.enter(hold, who)
                    in_flight.queued_ms = 0
                    in_flight.holds, in_flight.pending = (), None
            if hold.state is HoldState.HELD:
                watchdog.watch(ownership)
                return True
            call = AcquireCall(core.kind, ownership, request_id, hold, 0, False)
            first = FirstRequest(call, ready.epoch, (reply, sent), seen)
            return run(make_attempts(Attempt(client, core.kind, ownership, hold), wait, sent, first))
    except BaseException as error:
        run(leave(client, core.kind, ownership, hold, sent, error))
        raise
    finally:
        ownership.call = NO_CALL
    return run(core.acquire_hold(wait, hold))  # type: ignore[no-any-return]


def release(core: Any, of_block: bool, error: BaseException | None, progress: Progress) -> Rest:
    """Release one hold of the calling thread; at the end of a block, which may have ended with an error.

    Returns the rest to run; see ``run_to_the_end``.
    """
    served = (type(core) is LockCore or type(core).__name__ == FAIR) and error is None and _running_loop() is None
    ownership: Any = core.last if served else None
    who: Any = getattr(local, "owner", None)
    usual = ownership and ownership.who is who and not ownership.call.thread
    holds: list[SingleHold] = ownership.holds[:2] if usual and os.getpid() == forks.pid else []
    known = ownership.chains.trace_of(holds[0]) if len(holds) == 1 and holds[0].plain else None
    if known is not None:
        client, in_flight, hold = core.client, ownership.in_flight, holds[0]
        sent, released, request_id = monotonic(), False, 0
        try:
            ownership.call = who.call
            with ownership.mutex:
                if core.prepare_fast_path(ownership, who, 1, sent) and ownership.holds[0] is hold:
                    progress.begun = True
                    in_flight.state, in_flight.of_block = SENT, of_block
                    in_flight.holds, in_flight.becoming = (hold,), HoldState.OVER
                    in_flight.request_id = request_id = in_flight.request_id + 1
                    in_flight.pending = Pending.RELEASE
            if progress.begun:
                ready = ownership.ready
                reply = exchange_idle(client, ready.release.data)
                with ownership.mutex:
                    done = type(reply) is int and (reply == 1 or (reply > 1 and ready.queued_ms > 0))
                    if done and in_flight.request_id == request_id:
                        ownership.generation += 1
                        in_flight.pending, released = None, True
                        ownership.holds.pop()
                        hold.state = known.state = HoldState.OVER
                if released:
                    client.watchdog.unwatch(ownership)
                else:
                    call = ReleaseCall(core.kind, ownership, request_id, client.watchdog.lease_ms, 1)
                    run(finish_release(client, call, ready.epoch, begun=(reply, sent)))
                return None
        except BaseException as interruption:
            if progress.begun:
                run(leave_release(client, ownership, (hold,), interruption))
            raise
        finally:
            ownership.call = NO_CALL
    return core.leave(error, progress) if of_block else core.unlock(progress)  # type: ignore[no-any-return]
