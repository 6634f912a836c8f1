"""Sync locks in `async def`: the running task is the owner, and an acquire that could only deadlock raises."""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

import pyredisson
from pyredisson import LockError, LockNotOwnedError, LockTimeoutError
from tests.promises.kinds import lock_of, make, not_owned
from tests.worlds.base import PATIENCE
from tests.worlds.environments import threads_only
from tests.worlds.threads import ThreadsWorld

pytestmark = threads_only

KINDS = ["lock", "fair_lock", "spin_lock", "fenced_lock", "token_lock", "non_reentrant_lock", "non_reentrant_fair_lock"]
KINDS += ["write_lock", "multi_lock", "red_lock"]
#: An acquire that raises at once has not waited. Generous: the machine may be busy.
AT_ONCE = 3.0


@pytest.fixture
def lock(world: ThreadsWorld) -> Any:
    return lock_of(world, "lock")


def while_held(lock: Any, other: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a task while another one, named "holder", holds the lock. Returns what it returned."""

    async def main() -> Any:
        held, enough = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            with lock:
                held.set()
                await enough.wait()

        holder = asyncio.create_task(hold(), name="holder")
        await asyncio.wait_for(held.wait(), PATIENCE)
        try:
            return await asyncio.create_task(other(), name="other")
        finally:
            enough.set()
            await holder

    return asyncio.run(main())


@pytest.mark.parametrize("kind", KINDS)
def test_a_task_neither_joins_another_one_nor_waits_for_it(world, kind):
    lock = lock_of(world, kind)

    async def other():
        assert lock.try_lock(0) is False
        assert lock.acquire(blocking=False) is False
        assert lock.get_hold_count() == 0
        with pytest.raises(LockError, match=r"(?s)task 'holder' holds it.*pyredisson\.asyncio") as refusal:
            lock.lock(20)
        return refusal.value

    began = time.monotonic()
    refusal = while_held(lock, other)
    assert time.monotonic() - began < AT_ONCE
    assert not isinstance(refusal, (LockTimeoutError, LockNotOwnedError))
    assert lock.try_lock(0) is True, "the holder could not release it"
    lock.unlock()


@pytest.mark.parametrize("holding", ["with", "hold"])
def test_every_method_that_would_wait_for_another_task_raises(lock, holding):
    async def other():
        for acquire in (
            lock.lock,
            partial(lock.try_lock, 10),
            partial(lock.try_lock, None),
            lock.acquire,
            partial(lock.acquire, timeout=10),
            lock.__enter__,
            lock.hold().__enter__,
            lock.hold(wait_time=10).__enter__,
        ):
            with pytest.raises(LockError, match=r"pyredisson\.asyncio") as refusal:
                acquire()
            assert not isinstance(refusal.value, LockTimeoutError)

    began = time.monotonic()
    while_held(lock.hold() if holding == "hold" else lock, other)
    assert time.monotonic() - began < AT_ONCE
    assert not lock.is_locked()


@pytest.mark.parametrize(("held", "wanted"), [("write_lock", "read_lock"), ("read_lock", "write_lock")])
def test_neither_side_of_a_read_write_lock_waits_for_the_other_side_of_another_task(client, held, wanted):
    lock = make(client, wanted)

    async def other():
        assert lock.try_lock(0) is False
        with pytest.raises(LockError, match=r"pyredisson\.asyncio"):
            lock.lock()

    while_held(make(client, held), other)


async def test_a_task_re_enters_its_own_lock(lock):
    with lock:
        await asyncio.sleep(0)
        with lock, lock.hold(wait_time=0) as lease:
            await asyncio.sleep(0)
            assert lock.get_hold_count() == 3
            lease.ensure_held()
        assert lock.is_held_by_thread(pyredisson.current_thread_id())
    assert not lock.is_locked()


def test_the_wrong_task_learns_which_one_holds_the_lock(lock):
    async def other():
        with pytest.raises(LockNotOwnedError) as refusal:
            lock.unlock()
        return str(refusal.value)

    said = while_held(lock, other)
    assert "'holder'" in said
    assert "hold()" in said
    assert "owner=" in said


def test_a_lock_acquired_by_a_task_does_not_belong_to_its_thread(lock):
    """Nor the other way round: the thread that runs the loop cannot release while the loop runs."""

    async def take():
        assert lock.try_lock(0)

    async def try_it():
        assert lock.try_lock(0) is False
        with pytest.raises(LockError, match=r"pyredisson\.asyncio"):
            lock.lock(20)

    with lock:
        asyncio.run(try_it())
    asyncio.run(take())
    not_owned(lock.unlock)
    assert lock.force_unlock() is True


def test_a_callback_of_the_loop_does_not_join_what_a_task_holds(lock):
    async def other():
        said = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: said.set_result(lock.try_lock(0)))
        return await asyncio.wait_for(said, PATIENCE)

    assert while_held(lock, other) is False


def test_a_task_that_ends_while_it_holds_keeps_the_lock_no_longer_than_its_lease(world, caplog):
    lock = lock_of(world, "lock", lock_watchdog_timeout=1.5)

    async def main():
        await asyncio.create_task(take(), name="careless")
        while lock.is_locked():  # noqa: ASYNC110 - the server is what is asked
            await asyncio.sleep(0.01)

    async def take():
        lock.lock()

    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert "'careless'" in caplog.text


# ---- waiting for others ------------------------------------------------------------------------------------------


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if "blocks the event loop" in record.getMessage()]


@pytest.mark.parametrize(
    ("kind", "elsewhere"),
    [("lock", False), ("token_lock", False), ("multi_lock", False), ("red_lock", False), ("lock", True)],
)
async def test_blocking_an_event_loop_is_logged_after_a_second(world, kind, elsewhere, caplog):
    lock, other = lock_of(world, kind), world.actor()
    theirs = lock_of(world, kind) if elsewhere else lock
    other.do(theirs.lock)

    def release():
        world.until(lambda: warnings_of(caplog))
        theirs.unlock()

    releasing = other.start(release)
    assert lock.try_lock(30)
    releasing.result()
    lock.unlock()
    (warning,) = warnings_of(caplog)
    assert warning.levelno == logging.WARNING
    assert "test_sync_locks_in_tasks" in (warning.stack_info or ""), "it says where"
    assert "'orders'" in warning.getMessage(), "it says for which lock"


@pytest.mark.parametrize("kind", ["semaphore", "permit_expirable_semaphore", "count_down_latch"])
def test_the_log_of_a_blocked_event_loop_names_the_semaphore_or_latch(world, kind, caplog):
    waits = make(world.client(), kind, "seats")
    latch = kind == "count_down_latch"
    assert waits.try_set_count(1) if latch else waits.try_set_permits(0)

    def release():
        world.until(lambda: warnings_of(caplog))
        waits.count_down() if latch else waits.add_permits(1)

    async def main():
        return waits.wait(30) if latch else waits.try_acquire(wait_time=30)

    releasing = world.actor().start(release)
    assert asyncio.run(main())
    releasing.result()
    (warning,) = warnings_of(caplog)
    assert "'seats'" in warning.getMessage()


def test_a_short_wait_and_that_of_a_thread_without_a_loop_are_not_logged(world, lock, caplog):
    holder = world.actor()

    async def main():
        for _ in range(5):
            holder.do(lock.lock)
            leaving = holder.start(lock.unlock)
            with lock_of(world, "lock"):
                leaving.result()

    asyncio.run(main())
    holder.do(lock.lock)
    assert lock.try_lock(1.3) is False, "blocking is what threads do"
    holder.do(lock.unlock)
    assert warnings_of(caplog) == []


def test_a_thread_waits_for_a_task_of_another_threads_loop(world, lock):
    waiter = world.actor()

    async def other():
        waiting = waiter.start(lock.try_lock, PATIENCE)
        while world.waiting(lock) == 0:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
        return waiting

    waiting = while_held(lock, other)
    assert waiting.result() is True
    waiter.do(lock.unlock)
