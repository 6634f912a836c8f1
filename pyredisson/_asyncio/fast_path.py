"""The fast path of asyncio: the first acquire and the last release of a lock by a task that comes again.

See ``_threads/fast_path.py``. Only where it awaits can anything else happen; the mutex keeps the watchdog's state whole
for those who look from other threads, and is not needed here.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from pyredisson._core import events
from pyredisson._core.acquiring import Attempt, FirstRequest, leave, make_attempts
from pyredisson._core.deadline import lease_ms
from pyredisson._core.failures import Failure
from pyredisson._core.hold import HoldState, SingleHold
from pyredisson._core.releasing import finish_release, leave_release
from pyredisson._core.requests import SENT, AcquireCall, Pending, ReleaseCall
from pyredisson._shared import process
from pyredisson._shared.process import monotonic

if TYPE_CHECKING:
    from pyredisson._asyncio.pipe import Pipe
    from pyredisson._core.deadline import Seconds
    from pyredisson.lease import AnyLease


async def acquire(
    core: Any, wait: float | None, lease_time: Seconds | None = None, hold: SingleHold | None = None, held: Any = None
) -> bool:
    """Acquire a lock for the running task, waiting at most ``wait`` seconds. Returns whether it did.

    ``hold``: that of a block, and ``held``, as whom that acts; else one with ``lease_time``.
    """
    ownership: Any = core.last
    sent, watchdog, pipe = monotonic(), core.client.watchdog, None
    lease = hold.lease_ms if hold is not None else watchdog.lease_ms if lease_time is None else lease_ms(lease_time)
    if ownership and (wait is not None or core.kind.waiting.tries is None):
        pipe = _prepare_pipe(core, 0, sent, lease, wait)
    if pipe is None:
        general = core.try_lock(wait, lease_time) if hold is None else core.acquire_hold(wait, hold, held)
        return await general  # type: ignore[no-any-return]
    new = hold or (SingleHold(lease, watchdog.certain, watchdog=True) if lease_time is None else core.new_hold(lease))
    client, kind, in_flight, ready = core.client, core.kind, ownership.in_flight, ownership.ready
    try:
        in_flight.state, in_flight.without_end = SENT, False
        in_flight.lease_ms, in_flight.queued_ms = new.lease_ms, ready.queued_ms
        in_flight.request_id = request_id = in_flight.request_id + 1
        in_flight.holds, in_flight.pending = (new,), Pending.ACQUIRE
        seen = client.subscriptions.messages_of(kind.waiting.channel(kind, ownership)) if ready.queued_ms else None
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        pipe.post(ready.acquire.data, client.plain_timeout, future)
        try:
            reply = await future
        except Failure as failure:
            reply = failure
        new.token = None if kind.token_in is None else kind.token_in(reply)
        usual = reply is None if kind.token_in is None else new.token is not None
        now, deadline = monotonic(), sent + new.certain
        late = client.replica_wait is not None or now >= deadline
        if usual and not late and in_flight.request_id == request_id:
            ownership.generation += 1
            ownership.deadline, new.since, new.state = deadline, sent, HoldState.HELD
            ownership.holds.append(new)
            ownership.chains.enter(new, ownership.who)
            in_flight.holds, in_flight.pending, in_flight.queued_ms = (), None, 0
            if new.watched:
                watchdog.watch(ownership)
            elif new.certain > client.presence.first:
                client.presence.expect(sent)
            if client.has_listeners():
                key, seconds = (ownership.name, ownership.owner), None if new.watchdog else new.lease_ms / 1000
                client.emit(events.Acquired(*key, now - sent, 1, seconds, kind.word), ordinary=True)
            return True
        call = AcquireCall(kind, ownership, request_id, new, 0, False)
        first = FirstRequest(call, ready.epoch, (reply, sent), seen)
        return await make_attempts(Attempt(client, kind, ownership, new), wait, sent, first)
    except BaseException as error:
        await leave(client, kind, ownership, new, sent, error)
        raise


async def release(core: Any, block: AnyLease[Any] | bool, error: BaseException | None = None) -> None:
    """Release one hold of the running task; at the end of a block, which may have ended with an error.

    ``block``: whether it is the end of one; of a ``hold()``, its lease.
    """
    lease = None if isinstance(block, bool) else block
    if lease is not None:
        lease._end()
    ownership: Any = core.last
    sent = monotonic()
    hold: Any = ownership.holds[0] if error is None and ownership and ownership.holds else None
    usual = hold and hold.whole is None and (lease is None or lease._hold is hold)
    pipe = _prepare_pipe(core, 1, sent, hold.lease_ms) if usual else None
    if pipe is None:
        await (core.unlock() if block is False else core.leave(error, lease=lease))
        return
    client, in_flight, ready = core.client, ownership.in_flight, ownership.ready
    try:
        in_flight.state, in_flight.of_block = SENT, block is not False
        in_flight.holds, in_flight.becoming = (hold,), HoldState.OVER
        in_flight.request_id = request_id = in_flight.request_id + 1
        in_flight.pending = Pending.RELEASE
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        pipe.post(ready.release.data, client.plain_timeout, future)
        try:
            reply = await future
        except Failure as failure:
            reply = failure
        done = type(reply) is int and (reply in (0, 1) or (reply > 1 and ready.queued_ms > 0))
        if done and in_flight.request_id == request_id:
            ownership.generation += 1
            in_flight.pending = None
            ownership.holds.pop()
            hold.state = HoldState.OVER
            if (known := hold.trace()) is not None:
                known.state = HoldState.OVER
            client.watchdog.unwatch(ownership)
            if client.has_listeners():
                held = monotonic() - hold.since
                client.emit(events.Released(ownership.name, ownership.owner, 0, held), ordinary=True)
        else:
            call = ReleaseCall(core.kind, ownership, request_id, hold.lease_ms, 1)
            await finish_release(client, call, ready.epoch, begun=(reply, sent))
    except BaseException as interruption:
        await leave_release(client, ownership, (hold,), interruption)
        raise


def _prepare_pipe(core: Any, holds: int, now: float, lease: int, wait: float | None = None) -> Pipe | None:
    """Prepare the fast path, and return its connection; ``None`` if anything is out of the ordinary."""
    loop = asyncio._get_running_loop()
    if core.made_for is not None or loop is None or os.getpid() != process.pid:
        return None
    who: Any = core.last.who
    if who.task() is not asyncio.current_task(loop):
        return None
    if not core.prepare_fast_path(core.last, who, holds, now, lease, wait):
        return None
    pool: Any = core.client.fast_pool
    pipe = pool.idle[-1] if pool.idle else None
    return pipe if pipe is not None and pipe.broken is None and not pipe.retired else None
