"""The fast path of threads: the first acquire and the last release of a plain lock by a thread that comes again.

It does what the general path does (``core/acquire.py``, ``core/release.py``), in the same order and with the calls
spelt out: it leaves a mark, notes the request, sends bytes that are ready, and notes the hold if the reply is the usual
one. All else goes to the general path: at once, or with the noted request and what came of it. A property test drives
both paths, and compares all state.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, TypeAlias

from pyredisson.core.acquire import leave, make_attempts
from pyredisson.core.attempt import Attempt, FirstRequest
from pyredisson.core.calls import AcquireCall, ReleaseCall
from pyredisson.core.failures import Failure
from pyredisson.core.in_flight import Pending
from pyredisson.core.release import finish_release, leave_release
from pyredisson.core.running import run
from pyredisson.kinds.lock import LockCore
from pyredisson.net.pool import FRESH, KEEP_IDLE
from pyredisson.shared import process
from pyredisson.shared.clock import monotonic
from pyredisson.shared.marks import has_mark, leave_mark
from pyredisson.shared.thread_owners import local
from pyredisson.threads.interruption import inside

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from pyredisson.core.deadline import Seconds
    from pyredisson.core.running import Progress
    from pyredisson.threads.sockets import Connection

__all__ = ["acquire", "release"]

Rest: TypeAlias = "Coroutine[Any, Any, None] | None"

_running_loop = asyncio._get_running_loop


def acquire(core: Any, wait: float | None, lease_time: Seconds | None = None) -> bool:
    """Acquire a lock for the calling thread, waiting at most ``wait`` seconds. Returns whether it did."""
    wire = _connection(core, holds=0) if type(core) is LockCore and lease_time is None else None
    if wire is None:
        return run(core.try_lock(wait, lease_time))  # type: ignore[no-any-return]
    client, ownership, hold, pool = core.client, core.last, core.client.watchdog.plain_hold, core.client.direct
    ready, in_flight, before, sent = ownership.ready, ownership.in_flight, -1, monotonic()
    try:
        if ownership.who.latest is not ownership:
            ownership.who.look_behind(ownership, client.tell_left_behind)
        leave_mark(ownership, core.covers, ownership.who.number)
        with ownership.mutex:
            if not (ownership.holds or in_flight.pending or in_flight.releases_due or ownership.expired):
                in_flight.doubtful = in_flight.settling = in_flight.released_behind = in_flight.without_end = False
                in_flight.lease_ms = hold.lease_ms
                in_flight.request_id = request_id = in_flight.request_id + 1
                before, in_flight.pending = 0, Pending.ACQUIRE
        if before == 0:
            if ownership.table is None:  # Another thread has just swept the table, and took the ownership for idle.
                client.ownerships.enter(ownership)
            try:
                reply = wire.exchange(ready.acquire, client.plain_timeout)
            except Failure as failure:
                reply = failure
            else:
                wire.used = monotonic()
                pool.idle.append(wire)
                if len(pool.idle) > KEEP_IDLE or client.closed:
                    pool.tidy()
            deadline = sent + hold.certain
            with ownership.mutex:
                if (
                    reply is None
                    and client.sync is None
                    and in_flight.request_id == request_id
                    and wire.used < deadline
                ):
                    ownership.generation += 1
                    ownership.deadline = deadline
                    ownership.since[:1] = (sent,)
                    ownership.holds.append(hold)
                    in_flight.pending, before = None, 1
            if before == 1:
                client.watchdog.watch(ownership)
                return True
            call = AcquireCall(core.kind, ownership, request_id, hold, 0, False)
            attempt = Attempt(client, core.kind, ownership, hold)
            return run(make_attempts(attempt, wait, sent, FirstRequest(call, ready.epoch, (reply, sent))))
    except BaseException as error:
        run(leave(client, core.kind, ownership, min(before, 0), hold, sent, error))
        raise
    pool.put_back(wire)
    return run(core.try_lock(wait))  # type: ignore[no-any-return]


def release(core: Any, of_block: bool, error: BaseException | None, progress: Progress) -> Rest:
    """Release one hold of the calling thread; at the end of a block, which may have ended with an error.

    Returns what is left to run; see ``run_to_the_end``.
    """
    wire = None
    if type(core) is LockCore and error is None and core.last is not None and has_mark(core.last):
        wire = _connection(core, holds=1)
    if wire is None:
        return core.leave(error, progress) if of_block else core.unlock(progress)  # type: ignore[no-any-return]
    client, ownership, hold, pool = core.client, core.last, core.client.watchdog.plain_hold, core.client.direct
    ready, in_flight, holds, sent = ownership.ready, ownership.in_flight, ownership.holds, monotonic()
    try:
        with ownership.mutex:
            open_ = in_flight.pending or in_flight.releases_due or in_flight.released_behind or ownership.loss
            if not open_ and len(holds) == 1 and holds[0] is hold and sent < ownership.deadline:
                progress.begun = True
                in_flight.doubtful = in_flight.settling = False
                in_flight.of_block = of_block
                in_flight.request_id = request_id = in_flight.request_id + 1
                in_flight.pending = Pending.RELEASE
        if progress.begun:
            try:
                reply = wire.exchange(ready.release, client.plain_timeout)
            except Failure as failure:
                reply = failure
            else:
                wire.used = monotonic()
                pool.idle.append(wire)
                if len(pool.idle) > KEEP_IDLE or client.closed:
                    pool.tidy()
            released = False
            with ownership.mutex:
                if type(reply) is int and reply == 1 and in_flight.request_id == request_id:
                    ownership.generation += 1
                    in_flight.pending, released = None, True
                    holds.pop()
            if released:
                client.watchdog.unwatch(ownership)
            else:
                call = ReleaseCall(core.kind, ownership, request_id, hold.lease_ms, 1)
                run(finish_release(client, call, ready.epoch, (reply, sent)))
            return None
    except BaseException as interruption:
        if progress.begun:
            run(leave_release(client, ownership, 1, interruption))
        raise
    pool.put_back(wire)
    return core.leave(error, progress) if of_block else core.unlock(progress)  # type: ignore[no-any-return]


def _connection(core: LockCore, holds: int) -> Connection | None:
    """Return an idle connection; ``None`` if anything is out of the ordinary, as far as that can be seen before."""
    client, ownership = core.client, core.last
    if (
        (pool := client.direct) is None
        or ownership is None
        or len(ownership.holds) != holds
        or inside(ownership.mutex)
        or ownership.who is not getattr(local, "owner", None)
        or ownership.who.divided
        or ownership.who.pooled
        or ownership.table is not client.ownerships
        or ownership.kind is not core.kind
        or client.sync is not None
        or client.talkative()
        or not client.wakeups.may_list
        or _running_loop() is not None
        or os.getpid() != process.pid
    ):
        return None
    ready, now = ownership.ready, monotonic()
    if ready is None or ready.epoch != ownership.epoch:
        if holds:
            return None
        core.make_ready(ownership)
    if ownership.kind_state.until > now or not pool.idle:
        return None
    try:
        wire: Any = pool.idle.pop()
    except IndexError:
        return None
    if now - wire.used > FRESH:
        pool.idle.append(wire)
        return None
    return wire  # type: ignore[no-any-return]
