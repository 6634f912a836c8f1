"""Sync locks in `async def`: the running task is the owner, and an acquire that could only deadlock raises."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pyredisson import LockError, LockNotOwnedError, LockTimeoutError
from tests.worlds.base import PATIENCE
from tests.worlds.environments import threads_only
from tests.worlds.threads import ThreadsWorld

pytestmark = threads_only

KINDS = [
    "lock",
    "fair_lock",
    "spin_lock",
    "fenced_lock",
    "token_lock",
    "non_reentrant_lock",
    "non_reentrant_fair_lock",
    "write_lock",
    "multi_lock",
    "red_lock",
]
#: An acquire that raises at once has not waited. Generous: the machine may be busy.
AT_ONCE = 3.0


def lock_of(world: ThreadsWorld, kind: str = "lock", client: Any = None) -> Any:
    """A sync lock of a kind, called "orders"."""
    if kind == "red_lock":
        clients = [node.real for node in world.nodes(3)]
        return clients[0].get_red_lock(*(each.get_lock("orders") for each in clients))
    client = client or world.client().real
    if kind == "multi_lock":
        return client.get_multi_lock(client.get_lock("orders"), client.get_lock("parcels"))
    if kind in ("read_lock", "write_lock"):
        return getattr(client.get_read_write_lock("orders"), kind)()
    return getattr(client, f"get_{kind}")("orders")


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
def test_a_task_does_not_join_what_another_task_holds(world: ThreadsWorld, kind: str) -> None:
    lock = lock_of(world, kind)

    async def other() -> bool:
        return bool(lock.try_lock(0)) or bool(lock.acquire(blocking=False))

    assert while_held(lock, other) is False
    assert lock.try_lock(0) is True
    lock.unlock()


@pytest.mark.parametrize("kind", KINDS)
def test_waiting_for_another_task_of_the_thread_raises_at_once(world: ThreadsWorld, kind: str) -> None:
    lock = lock_of(world, kind)

    async def other() -> BaseException:
        with pytest.raises(LockError, match=r"pyredisson\.asyncio") as refusal:
            lock.lock(20)  # A lease, so that today's deadlock ends.
        return refusal.value

    began = time.monotonic()
    refusal = while_held(lock, other)
    assert time.monotonic() - began < AT_ONCE
    assert not isinstance(refusal, (LockTimeoutError, LockNotOwnedError))
    assert lock.try_lock(0) is True, "the holder could not release it"
    lock.unlock()


def _enter(context: Any) -> None:
    with context:
        pass


@pytest.mark.parametrize(
    "acquire",
    [
        pytest.param(lambda lock: lock.lock(), id="lock"),
        pytest.param(lambda lock: lock.try_lock(10), id="try_lock"),
        pytest.param(lambda lock: lock.try_lock(None), id="try_lock without end"),
        pytest.param(lambda lock: lock.acquire(), id="acquire"),
        pytest.param(lambda lock: lock.acquire(timeout=10), id="acquire for a time"),
        pytest.param(_enter, id="with"),
        pytest.param(lambda lock: _enter(lock.hold()), id="hold"),
        pytest.param(lambda lock: _enter(lock.hold(wait_time=10)), id="hold for a time"),
    ],
)
@pytest.mark.parametrize("holding", ["with", "hold"])
def test_every_method_that_would_wait_for_another_task_raises(
    world: ThreadsWorld, acquire: Callable[[Any], object], holding: str
) -> None:
    lock = lock_of(world)

    async def other() -> None:
        with pytest.raises(LockError, match=r"pyredisson\.asyncio") as refusal:
            acquire(lock)
        assert not isinstance(refusal.value, LockTimeoutError)

    class Held:
        """Enter the block that is asked for, as ``with lock:`` does."""

        def __enter__(self) -> None:
            self.block = lock.hold() if holding == "hold" else lock
            self.block.__enter__()

        def __exit__(self, *error: Any) -> None:
            self.block.__exit__(*error)

    began = time.monotonic()
    while_held(Held(), other)
    assert time.monotonic() - began < AT_ONCE
    assert not lock.is_locked()


def test_a_hold_that_is_not_waited_for_times_out(world: ThreadsWorld) -> None:
    lock = lock_of(world)

    async def other() -> None:
        with pytest.raises(LockTimeoutError), lock.hold(wait_time=0):
            pytest.fail("two tasks are inside")

    while_held(lock, other)


def test_a_read_lock_waits_for_no_writer_of_another_task(world: ThreadsWorld) -> None:
    sides = world.client().real.get_read_write_lock("orders")

    async def other() -> None:
        assert sides.read_lock().try_lock(0) is False
        with pytest.raises(LockError, match=r"pyredisson\.asyncio"):
            sides.read_lock().lock()

    while_held(sides.write_lock(), other)


def test_a_write_lock_waits_for_no_reader_of_another_task(world: ThreadsWorld) -> None:
    sides = world.client().real.get_read_write_lock("orders")

    async def other() -> None:
        assert sides.read_lock().try_lock(0) is True, "readers do not exclude each other"
        sides.read_lock().unlock()
        assert sides.write_lock().try_lock(0) is False
        with pytest.raises(LockError, match=r"pyredisson\.asyncio"):
            sides.write_lock().lock()

    while_held(sides.read_lock(), other)


def test_a_task_re_enters_its_own_lock(world: ThreadsWorld) -> None:
    lock = lock_of(world)

    async def main() -> None:
        with lock:
            await asyncio.sleep(0)
            with lock, lock.hold(wait_time=0) as lease:
                await asyncio.sleep(0)
                assert lock.get_hold_count() == 3
                lease.ensure_held()
            assert lock.is_held_by_current_thread()
        assert not lock.is_locked()

    asyncio.run(main())


def test_each_task_counts_its_own_holds(world: ThreadsWorld) -> None:
    lock = lock_of(world)

    async def other() -> None:
        assert lock.is_locked()
        assert lock.get_hold_count() == 0
        assert not lock.is_held_by_current_thread()

    while_held(lock, other)


def test_forty_buyers_sell_no_more_than_there_is(world: ThreadsWorld) -> None:
    """The tasks of a web server that take a sync lock around an ``await``."""
    lock = lock_of(world)
    stock, sold, inside, most = 10, 0, 0, 0

    async def buy() -> None:
        nonlocal stock, sold, inside, most
        while not lock.try_lock(0):  # noqa: ASYNC110 - as its users would
            await asyncio.sleep(0.001)
        try:
            inside += 1
            most = max(most, inside)
            left = stock
            await asyncio.sleep(0.001)
            if left > 0:
                stock = left - 1
                sold += 1
            inside -= 1
        finally:
            lock.unlock()

    async def main() -> None:
        await asyncio.gather(*(buy() for _ in range(40)))

    asyncio.run(main())
    assert (most, sold, stock) == (1, 10, 0)
    assert not lock.is_locked()


def test_the_wrong_task_learns_which_one_holds_the_lock(world: ThreadsWorld) -> None:
    lock = lock_of(world)

    async def other() -> str:
        with pytest.raises(LockNotOwnedError) as refusal:
            lock.unlock()
        return str(refusal.value)

    said = while_held(lock, other)
    assert "'holder'" in said
    assert "hold()" in said
    assert "owner=" in said


def test_a_lock_acquired_by_a_task_does_not_belong_to_its_thread(world: ThreadsWorld) -> None:
    """Nor the other way round: the thread that runs the loop cannot release while the loop runs."""
    lock = lock_of(world)

    async def take() -> None:
        assert lock.try_lock(0)

    async def try_it() -> None:
        assert lock.try_lock(0) is False
        with pytest.raises(LockError, match=r"pyredisson\.asyncio"):
            lock.lock(20)

    with lock:
        asyncio.run(try_it())
    asyncio.run(take())
    with pytest.raises(LockNotOwnedError):
        lock.unlock()
    assert lock.force_unlock() is True


def test_a_callback_of_the_loop_does_not_join_what_a_task_holds(world: ThreadsWorld) -> None:
    lock = lock_of(world)

    async def other() -> bool:
        said: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: said.set_result(lock.try_lock(0)))
        return await asyncio.wait_for(said, PATIENCE)

    assert while_held(lock, other) is False


def test_a_task_that_ends_while_it_holds_keeps_the_lock_no_longer_than_its_lease(
    world: ThreadsWorld, caplog: pytest.LogCaptureFixture
) -> None:
    lock = lock_of(world, client=world.client(lock_watchdog_timeout=1.5).real)

    async def main() -> None:
        await asyncio.create_task(take(), name="careless")
        while lock.is_locked():  # noqa: ASYNC110 - the server is what is asked
            await asyncio.sleep(0.01)

    async def take() -> None:
        lock.lock()

    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(main(), PATIENCE))
    assert "'careless'" in caplog.text


# ---- waiting for others ------------------------------------------------------------------------------------------


class Noticed(logging.Handler):
    """Set when a warning is logged: then the holder may go."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []
        self.came = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())
        self.came.set()


@pytest.fixture
def noticed() -> Any:
    handler = Noticed()
    logging.getLogger("pyredisson").addHandler(handler)
    yield handler
    logging.getLogger("pyredisson").removeHandler(handler)


@pytest.mark.parametrize("elsewhere", [True, False], ids=["of another client", "of another thread"])
def test_waiting_for_others_blocks_the_loop_and_is_logged_once(
    world: ThreadsWorld, noticed: Noticed, elsewhere: bool
) -> None:
    client = world.client().real
    lock = client.get_lock("orders")
    holder = world.actor()
    theirs = world.client().real.get_lock("orders") if elsewhere else client.get_lock("orders")
    holder.do(theirs.lock)

    def leave() -> bool:
        told = noticed.came.wait(PATIENCE / 2)
        theirs.unlock()
        return told

    async def main() -> float:
        leaving = holder.start(leave)
        began = time.monotonic()
        assert lock.try_lock(PATIENCE) is True
        waited = time.monotonic() - began
        lock.unlock()
        assert leaving.result() is True, "nothing was logged"
        return waited

    assert asyncio.run(main()) > 0.9
    warnings = [each for each in noticed.messages if "event loop" in each]
    assert len(warnings) == 1, noticed.messages


def test_a_short_wait_for_others_is_not_logged(world: ThreadsWorld, noticed: Noticed) -> None:
    lock, holder = lock_of(world), world.actor()
    theirs = world.client().real.get_lock("orders")

    async def main() -> None:
        for _ in range(5):
            holder.do(theirs.lock)
            leaving = holder.start(theirs.unlock)
            with lock:
                leaving.result()

    asyncio.run(main())
    assert [each for each in noticed.messages if "event loop" in each] == []


def test_a_thread_without_a_loop_waits_for_another_thread_unwarned(world: ThreadsWorld, noticed: Noticed) -> None:
    """Blocking is what threads do."""
    client = world.client().real
    lock, holder = client.get_lock("orders"), world.actor()
    holder.do(lock.lock)
    assert lock.try_lock(1.3) is False
    holder.do(lock.unlock)
    assert noticed.messages == []


def test_a_thread_waits_for_a_task_of_another_threads_loop(world: ThreadsWorld) -> None:
    lock, waiter = lock_of(world), world.actor()

    async def other() -> Any:
        waiting = waiter.start(lock.try_lock, PATIENCE)
        while world.waiting(lock) == 0:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.005)
        return waiting

    waiting = while_held(lock, other)
    assert waiting.result() is True
    waiter.do(lock.unlock)
