"""Acquiring: attempts until the lock is acquired or the time has elapsed; cleaning up after an interrupted caller."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from pyredisson._core import events
from pyredisson._core.acquiring.attempt import Attempt, FirstRequest, adopt, check_layout, make_ready, resume
from pyredisson._core.deadline import Deadline
from pyredisson._core.diagnosis.wrong_type import explain_type
from pyredisson._core.failures import Failure, Rejected, Unanswered, reason_of
from pyredisson._core.names import owner_field, writer_field
from pyredisson._core.outcomes import AT_ONCE, LockAcquired, Refused
from pyredisson._core.ownership.hold import HoldState
from pyredisson._core.ownership.liveness import holder_alive
from pyredisson._core.requests.connect_wait import waits_through
from pyredisson._core.requests.settle import settle_on_leaving
from pyredisson.errors import LockError, RedissonError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pyredisson._core.client import ClientCore
    from pyredisson._core.kind import LockKind
    from pyredisson._core.outcomes import Answer
    from pyredisson._core.ownership.hold import Hold
    from pyredisson._core.ownership.ownership import Ownership


async def acquire(
    client: ClientCore,
    kind: LockKind,
    ownership: Ownership,
    hold: Hold,
    wait: float | None,
    *,
    for_multi_lock: bool = False,
) -> bool:
    """Acquire a lock for a hold.

    Args:
        client: The client.
        kind: The kind of lock.
        ownership: What its owner holds of it.
        hold: What is to be held.
        wait: Seconds; ``None``: as long as it takes.
        for_multi_lock: Whether a multi-lock acquires it, which emits events, and explains a ``Failure``.
    """
    asked = client.runtime.now()
    if kind.own_rival is not None and not ownership.holds:
        await kind.own_rival.refuse(kind, ownership)
    try:
        await _begin(client, kind, ownership)
        acquired = await make_attempts(Attempt(client, kind, ownership, hold), wait, asked)
        if not for_multi_lock and client.has_listeners():
            key, holds = (ownership.name, ownership.owner), len(ownership.holds)
            report_outcome(client, kind.word, key, asked, acquired, holds, hold.fixed_lease)
        return acquired
    except BaseException as error:
        await leave(client, kind, ownership, hold, asked, error, for_multi_lock=for_multi_lock)
        raise


async def make_attempts(attempt: Attempt, wait: float | None, asked: float, first: FirstRequest | None = None) -> bool:
    """Attempt until the lock is acquired or the time has elapsed. ``first``: the fast path has begun with that."""
    client, kind, ownership = attempt.client, attempt.kind, attempt.ownership
    waiting = kind.waiting
    answer: Answer | None = None
    seen = None if first is None else first.seen
    if wait != 0 and first is None:
        seen = client.subscriptions.messages_of(waiting.channel(kind, ownership))
        if not ownership.holds:
            answer = waiting.yields(kind, ownership, wait, asked)
    if kind.queues:
        waiting.begin(ownership, wait, asked)
    if answer is None:
        try:
            answer = await attempt(first=first)
        except Failure as failure:
            # What a condition has given up is waited for in any case.
            patience = math.inf if attempt.hold.state is HoldState.GIVEN_UP else wait
            if not await waits_through(client, failure, patience, asked):
                raise
            answer = AT_ONCE
    acquired = type(answer) is LockAcquired
    if type(answer) is Refused and wait != 0:
        acquired = await _keep_trying(attempt, answer, seen, Deadline.after(wait, asked))
        if ownership.queued_ms:
            await leave_queue(client, ownership)
    return acquired


async def _begin(client: ClientCore, kind: LockKind, ownership: Ownership) -> None:
    """Settle what the owner has in flight, and check what it holds already."""
    if ownership.holds or ownership.pending is not None:
        await make_ready(client, kind, ownership)
    else:
        client.note_acquire(ownership)
    if ownership.kind is not kind:
        adopt(kind, ownership)


async def leave(
    client: ClientCore,
    kind: LockKind,
    ownership: Ownership,
    hold: Hold,
    asked: float,
    error: BaseException,
    *,
    for_multi_lock: bool = False,
) -> None:
    """Leave with an error, or since the caller leaves in the middle; then nothing may remain acquired.

    Raises:
        Exception: The error to show instead.
    """
    if isinstance(error, Failure):
        try:
            raise await _failed(client, kind, ownership, hold, asked, error, for_multi_lock) from error.cause
        finally:
            ownership.claim(hold)
    if isinstance(error, RedissonError):
        if ownership.queued_ms:
            await leave_queue(client, ownership)
        if not for_multi_lock:
            report_failed(client, kind.word, (ownership.name, ownership.owner), asked, error)
    elif isinstance(error, GeneratorExit):  # A coroutine that is being closed can wait for nothing any more.
        if ownership.undo_acquire(hold):
            client.settle_later(ownership, hold.lease_ms)
        resume(client, ownership)
    else:
        await undo_interrupted(client, ownership, hold)


async def _failed(
    client: ClientCore,
    kind: LockKind,
    ownership: Ownership,
    hold: Hold,
    asked: float,
    failure: Failure,
    for_multi_lock: bool,
) -> Exception:
    """Leave after a request without an answer of use. Returns the error to raise; for a multi-lock the failure."""
    error: Exception = failure
    if not for_multi_lock:
        error = client.explain(failure, ownership, "an acquire", hold.lease_ms)
    elif isinstance(failure, Unanswered):
        client.settle_later(ownership, hold.lease_ms)
    if ownership.queued_ms:
        await leave_queue(client, ownership, at_once=isinstance(failure, Rejected))
    error = await explain_type(client.finder, error, ownership.name, kind.layout)
    if not for_multi_lock:
        report_failed(client, kind.word, (ownership.name, ownership.owner), asked, error)
    return error


async def _keep_trying(attempt: Attempt, refused: Refused, seen: int | None, deadline: Deadline) -> bool:
    """Wait for a lock after a first attempt was refused. Raises ``LockError`` if that would never end."""
    client, kind, ownership = attempt.client, attempt.kind, attempt.ownership
    check_own_holds(client, kind, ownership)
    if not client.runtime.suspends:
        check_not_stuck(client, kind, ownership)
    wait = client.presence.begin_wait(kind.word, ownership.name, ownership.owner, ownership.who)
    try:
        if attempt.hold.whole is not None or not client.has_listeners():
            return await kind.waiting.wait(attempt, refused, seen, deadline)
        wait_on = partial(kind.waiting.wait, attempt, refused, seen, deadline)
        return await announce_wait(client, (ownership.name, ownership.owner), wait_on)
    finally:
        client.presence.end_wait(wait)


async def announce_wait(client: ClientCore, key: tuple[str, str], wait_on: Callable[[], Awaitable[bool]]) -> bool:
    """Wait, and emit when that begins and when it ends, however it does. ``key``: the name and the owner."""
    began = client.runtime.now()
    acquired = False
    try:
        client.emit(events.WaitBegan(*key))
        acquired = await wait_on()
        return acquired
    finally:
        client.emit(events.WaitEnded(*key, client.runtime.now() - began, acquired))


def report_outcome(
    client: ClientCore, kind: str, key: tuple[str, str], asked: float, acquired: bool, holds: int, lease: float | None
) -> None:
    """Emit that an acquire, which was ``asked`` for then, has succeeded, or has not in time."""
    waited = client.runtime.now() - asked
    if acquired:
        client.emit_ordinary(events.Acquired(*key, waited, holds, lease, kind))
    else:
        client.emit_ordinary(events.TimedOut(*key, waited, kind))


def report_failed(client: ClientCore, kind: str, key: tuple[str, str], asked: float, error: BaseException) -> None:
    """Emit that an acquire, which was ``asked`` for then, has ended with an error."""
    if client.has_listeners():
        waited = client.runtime.now() - asked
        client.emit_ordinary(events.AcquireFailed(*key, waited, reason_of(error), error, kind))


async def undo_interrupted(client: ClientCore, ownership: Ownership, hold: Hold) -> None:
    """The caller is interrupted during an acquire (Ctrl-C, cancellation): release what it may have acquired."""
    if ownership.undo_acquire(hold):
        ownership.settle_until(client.runtime.now() + hold.lease_ms / 1000)
        await settle_on_leaving(client, ownership)
        ownership.claim(hold)
        resume(client, ownership)


async def leave_queue(client: ClientCore, ownership: Ownership, *, at_once: bool = True) -> None:
    """The owner waits no longer: its place is given up, and what an unanswered request may have acquired."""
    if ownership.stop_waiting(client.runtime.now()) or ownership.pending is not None:
        if at_once:
            await settle_on_leaving(client, ownership, leaving=False)
        else:
            client.watchdog.settle(ownership)


def check_own_holds(client: ClientCore, kind: LockKind, ownership: Ownership) -> None:
    """Raise ``LockError`` if an owner would wait for what it holds itself, as another kind."""
    for field in (owner_field, writer_field):
        own = client.ownerships.find((ownership.name, field(client.id, ownership.who.number)))
        if own is not None and own.holds and own.loss is None and client.runtime.now() < own.deadline:
            check_layout(kind, own)


def check_not_stuck(client: ClientCore, kind: LockKind, ownership: Ownership) -> None:
    """Raise ``LockError`` if a holder can only release the lock once this call has returned."""
    for each in kind.holders():
        if each.who is not ownership.who and (each.bound() or not each.who.shared) and holder_alive(each):
            why = client.runtime.stuck_behind(each.who)
            if why is not None:
                raise LockError(f"waiting for lock {ownership.name!r} would never end: {why}", name=ownership.name)
