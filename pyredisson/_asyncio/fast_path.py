"""The fast path of asyncio: the first acquire and the last release of a plain lock by a task that comes again.

See ``_threads/fast_path.py``. Only where it awaits can anything else happen; the mutex keeps the watchdog's state whole
for those who look from other threads, and is not needed here.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from pyredisson._core.acquiring import Attempt, FirstRequest, leave, make_attempts
from pyredisson._core.failures import Failure
from pyredisson._core.hold import HoldState, SingleHold
from pyredisson._core.ownership import SENT, Pending
from pyredisson._core.releasing import finish_release, leave_release
from pyredisson._core.requests import AcquireCall, ReleaseCall
from pyredisson._kinds.lock import LockCore
from pyredisson._owners import forks
from pyredisson._shared.clock import monotonic

if TYPE_CHECKING:
    from pyredisson._asyncio.pipe import Pipe
    from pyredisson._core.deadline import Seconds


async def acquire(core: Any, wait: float | None, lease_time: Seconds | None = None) -> bool:
    """Acquire a lock for the running task, waiting at most ``wait`` seconds. Returns whether it did."""
    sent = monotonic()
    pipe = _prepare_pipe(core, 0, sent) if type(core) is LockCore and lease_time is None else None
    if pipe is None:
        return await core.try_lock(wait, lease_time)  # type: ignore[no-any-return]
    ownership: Any = core.last
    client, watchdog = core.client, core.client.watchdog
    hold = SingleHold(watchdog.lease_ms, watchdog.certain, watchdog=True)
    ready, in_flight, deadline = ownership.ready, ownership.in_flight, sent + hold.certain
    try:
        in_flight.state, in_flight.without_end = SENT, False
        in_flight.lease_ms = hold.lease_ms
        in_flight.request_id = request_id = in_flight.request_id + 1
        in_flight.holds, in_flight.pending = (hold,), Pending.ACQUIRE
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        pipe.post(ready.acquire.data, client.plain_timeout, future)
        try:
            reply = await future
        except Failure as failure:
            reply = failure
        late = client.replica_wait is not None or monotonic() >= deadline
        if reply is None and not late and in_flight.request_id == request_id:
            ownership.generation += 1
            ownership.deadline, hold.since = deadline, sent
            hold.state = HoldState.HELD
            ownership.holds.append(hold)
            ownership.chains.enter(hold, ownership.who)
            in_flight.holds, in_flight.pending = (), None
            watchdog.watch(ownership)
            return True
        call = AcquireCall(core.kind, ownership, request_id, hold, 0, False)
        first = FirstRequest(call, ready.epoch, (reply, sent))
        return await make_attempts(Attempt(client, core.kind, ownership, hold), wait, sent, first)
    except BaseException as error:
        await leave(client, core.kind, ownership, hold, sent, error)
        raise


async def release(core: Any, of_block: bool, error: BaseException | None = None) -> None:
    """Release one hold of the running task; at the end of a block, which may have ended with an error."""
    sent = monotonic()
    pipe = _prepare_pipe(core, 1, sent) if type(core) is LockCore and error is None else None
    if pipe is None:
        await (core.leave(error) if of_block else core.unlock())
        return
    ownership: Any = core.last
    client, in_flight, ready, hold = core.client, ownership.in_flight, ownership.ready, ownership.holds[0]
    try:
        in_flight.state, in_flight.of_block = SENT, of_block
        in_flight.holds, in_flight.becoming = (hold,), HoldState.OVER
        in_flight.request_id = request_id = in_flight.request_id + 1
        in_flight.pending = Pending.RELEASE
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        pipe.post(ready.release.data, client.plain_timeout, future)
        try:
            reply = await future
        except Failure as failure:
            reply = failure
        if type(reply) is int and reply == 1 and in_flight.request_id == request_id:
            ownership.generation += 1
            in_flight.pending = None
            ownership.holds.pop()
            hold.state = HoldState.OVER
            if (known := hold.trace()) is not None:
                known.state = HoldState.OVER
            client.watchdog.unwatch(ownership)
        else:
            call = ReleaseCall(core.kind, ownership, request_id, client.watchdog.lease_ms, 1)
            await finish_release(client, call, ready.epoch, begun=(reply, sent))
    except BaseException as interruption:
        await leave_release(client, ownership, (hold,), interruption)
        raise


def _prepare_pipe(core: LockCore, holds: int, now: float) -> Pipe | None:
    """Prepare the fast path, and return its connection; ``None`` if anything is out of the ordinary."""
    loop = asyncio._get_running_loop()
    if core.last is None or core.made_for is not None or loop is None or os.getpid() != forks.pid:
        return None
    who: Any = core.last.who
    if who.task() is not asyncio.current_task(loop) or not core.prepare_fast_path(core.last, who, holds, now):
        return None
    pool: Any = core.client.fast_pool
    pipe = pool.idle[-1] if pool.idle else None
    return pipe if pipe is not None and pipe.broken is None and not pipe.retired else None
