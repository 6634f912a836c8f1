"""The fast path of asyncio: the first acquire and the last release of a plain lock by a task that comes again.

See ``threads/fast_path.py``. Only where it awaits can anything else happen; the mutex keeps the watchdog's state whole
for those who look from other threads, and is not needed here.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from pyredisson.core.acquire import leave, make_attempts
from pyredisson.core.attempt import Attempt, FirstRequest
from pyredisson.core.calls import AcquireCall, ReleaseCall
from pyredisson.core.failures import Failure
from pyredisson.core.in_flight import Pending
from pyredisson.core.release import finish_release, leave_release
from pyredisson.kinds.lock import LockCore
from pyredisson.shared import process
from pyredisson.shared.clock import monotonic
from pyredisson.shared.marks import leave_mark

if TYPE_CHECKING:
    from pyredisson.asyncio.pipe import Pipe
    from pyredisson.core.deadline import Seconds

__all__ = ["acquire", "release"]


async def acquire(core: Any, wait: float | None, lease_time: Seconds | None = None) -> bool:
    """Acquire a lock for the running task, waiting at most ``wait`` seconds. Returns whether it did."""
    pipe = _connection(core, holds=0) if type(core) is LockCore and lease_time is None else None
    if pipe is None:
        return await core.try_lock(wait, lease_time)  # type: ignore[no-any-return]
    client, ownership, hold, sent = core.client, core.last, core.client.watchdog.plain_hold, monotonic()
    ready, in_flight = ownership.ready, ownership.in_flight
    leave_mark(ownership, core.covers, ownership.who.number)
    in_flight.doubtful = in_flight.settling = in_flight.released_behind = in_flight.without_end = False
    in_flight.lease_ms = hold.lease_ms
    in_flight.request_id = request_id = in_flight.request_id + 1
    in_flight.pending = Pending.ACQUIRE
    try:
        try:
            future = asyncio.get_running_loop().create_future()
            pipe.post(ready.acquire, client.plain_timeout, future)
            reply = await future
        except Failure as failure:
            reply = failure
        deadline = sent + hold.certain
        if (
            reply is None
            and client.sync is None
            and in_flight.request_id == request_id
            and ownership.loss is None
            and monotonic() < deadline
        ):
            ownership.generation += 1
            ownership.deadline = deadline
            ownership.since[:1] = (sent,)
            ownership.holds.append(hold)
            in_flight.pending = None
            client.watchdog.watch(ownership)
            return True
        call = AcquireCall(core.kind, ownership, request_id, hold, 0, False)
        attempt = Attempt(client, core.kind, ownership, hold)
        return await make_attempts(attempt, wait, sent, FirstRequest(call, ready.epoch, (reply, sent)))
    except BaseException as error:
        await leave(client, core.kind, ownership, 0, hold, sent, error)
        raise


async def release(core: Any, of_block: bool, error: BaseException | None = None) -> None:
    """Release one hold of the running task; at the end of a block, which may have ended with an error."""
    pipe = _connection(core, holds=1) if type(core) is LockCore and error is None else None
    hold = core.client.watchdog.plain_hold
    if pipe is None or core.last.holds[0] is not hold or monotonic() >= core.last.deadline:
        await (core.leave(error) if of_block else core.unlock())
        return
    client, ownership, sent = core.client, core.last, monotonic()
    ready, in_flight = ownership.ready, ownership.in_flight
    in_flight.doubtful = in_flight.settling = False
    in_flight.of_block = of_block
    in_flight.request_id = request_id = in_flight.request_id + 1
    in_flight.pending = Pending.RELEASE
    try:
        try:
            future = asyncio.get_running_loop().create_future()
            pipe.post(ready.release, client.plain_timeout, future)
            reply = await future
        except Failure as failure:
            reply = failure
        if type(reply) is int and reply == 1 and in_flight.request_id == request_id:
            ownership.generation += 1
            in_flight.pending = None
            ownership.holds.pop()
            client.watchdog.unwatch(ownership)
        else:
            call = ReleaseCall(core.kind, ownership, request_id, hold.lease_ms, 1)
            await finish_release(client, call, ready.epoch, (reply, sent))
    except BaseException as interruption:
        await leave_release(client, ownership, 1, interruption)
        raise


def _connection(core: LockCore, holds: int) -> Pipe | None:
    """Return the connection; ``None`` if anything is out of the ordinary."""
    client, ownership = core.client, core.last
    if (
        (pool := client.direct) is None
        or ownership is None
        or core.made_for is not None
        or asyncio._get_running_loop() is None
        or len(ownership.holds) != holds
        or ownership.who.task() is not asyncio.current_task()  # type: ignore[attr-defined]
        or ownership.table is not client.ownerships
        or ownership.kind is not core.kind
        or ownership.in_flight.pending is not None
        or ownership.in_flight.releases_due
        or ownership.in_flight.released_behind
        or ownership.loss is not None
        or ownership.expired
        or client.sync is not None
        or client.talkative()
        or not client.wakeups.may_list
        or os.getpid() != process.pid
    ):
        return None
    if ownership.ready is None or ownership.ready.epoch != ownership.epoch:
        if holds:
            return None
        core.make_ready(ownership)
    if ownership.kind_state.until > monotonic() or not pool.idle:
        return None
    pipe: Any = pool.idle[-1]
    return pipe if pipe.broken is None and not pipe.retired else None
