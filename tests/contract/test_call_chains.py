"""Frameworks run many requests in one thread: what tells them apart is the context, and in a coroutine the task."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import pyredisson
from pyredisson import LockError, LockNotOwnedError
from pyredisson.core.driver import run
from pyredisson.core.runtime import Ticket
from tests.proxy import Proxy
from tests.worlds.base import Actor
from tests.worlds.environments import threads_only
from tests.worlds.threads import ThreadsWorld

pytestmark = threads_only

KINDS = ["lock", "fair_lock", "spin_lock", "fenced_lock", "token_lock", "write", "multi", "red"]
each_kind = pytest.mark.parametrize("kind", KINDS)


def lock_of(world: ThreadsWorld, kind: str, **config: Any) -> Any:
    client = world.client(**config).real
    if kind == "write":
        return client.get_read_write_lock("orders").write_lock()
    if kind == "multi":
        return client.get_multi_lock(client.get_lock("orders"), client.get_lock("stock"))
    if kind == "red":
        nodes = world.nodes(3, quorum_node_timeout=2.0, **config)
        return pyredisson.RedLock(*(node.real.get_lock("orders") for node in nodes))
    return getattr(client, f"get_{kind}")("orders")


class Request:
    """What a framework runs piece by piece, on whatever thread is free, each time in a copy of its context.

    Like ``sync_to_async`` it takes over what the copy has changed, unless it ``forgets`` that, as a thread pool does.
    """

    def __init__(self, *, forgets: bool = False) -> None:
        self._context = contextvars.copy_context()
        self._forgets = forgets

    def run(self, actor: Actor, call: Callable[..., Any], *args: Any) -> Any:
        copy = self._context.run(contextvars.copy_context)
        if not self._forgets:
            self._context = copy
        return actor.do(copy.run, call, *args)


@each_kind
def test_requests_that_share_a_thread_are_never_inside_at_once(world: ThreadsWorld, kind: str) -> None:
    lock = lock_of(world, kind)
    thread = world.actor()
    one, other = Request(), Request()
    one.run(thread, lock.lock)
    assert other.run(thread, lock.try_lock) is False
    assert one.run(thread, lock.get_hold_count) == 1
    assert other.run(thread, lock.get_hold_count) == 0
    if kind != "token_lock":
        one.run(thread, lock.lock)
        one.run(thread, lock.unlock)
    one.run(thread, lock.unlock)
    assert other.run(thread, lock.try_lock) is True
    assert one.run(thread, lock.try_lock) is False
    other.run(thread, lock.unlock)


@each_kind
def test_a_use_before_the_requests_began_makes_them_no_less_different(world: ThreadsWorld, kind: str) -> None:
    """They inherit the context of that use."""
    lock = lock_of(world, kind)
    thread = world.actor()
    parent = Request()
    parent.run(thread, lock.lock)
    parent.run(thread, lock.unlock)
    one, other = parent._context.run(Request), parent._context.run(Request)
    one.run(thread, lock.lock)
    assert other.run(thread, lock.try_lock) is False
    one.run(thread, lock.unlock)


@each_kind
def test_waiting_for_an_earlier_call_of_the_same_thread_raises_at_once(world: ThreadsWorld, kind: str) -> None:
    lock = lock_of(world, kind)
    thread = world.actor()
    one, other = Request(), Request()
    one.run(thread, lock.lock)
    with pytest.raises(LockError, match=r"would never end.*hold\(\)"):
        other.run(thread, lock.lock)
    one.run(thread, lock.unlock)
    other.run(thread, lock.lock)
    other.run(thread, lock.unlock)


def test_the_two_sides_of_a_read_write_lock_distinguish_requests_too(world: ThreadsWorld) -> None:
    pair = world.client().real.get_read_write_lock("prices")
    thread = world.actor()
    one, other = Request(), Request()
    one.run(thread, pair.write_lock().lock)
    one.run(thread, pair.read_lock().lock)
    assert other.run(thread, pair.read_lock().try_lock) is False
    one.run(thread, pair.write_lock().unlock)
    assert other.run(thread, pair.read_lock().try_lock) is True
    assert other.run(thread, pair.read_lock().get_hold_count) == 1
    one.run(thread, pair.read_lock().unlock)
    other.run(thread, pair.read_lock().unlock)


@each_kind
def test_a_block_of_hold_is_left_in_any_thread(world: ThreadsWorld, kind: str) -> None:
    lock = lock_of(world, kind)
    alice, bob, carol = world.actors(3)
    request = Request(forgets=True)
    hold = lock.hold()
    lease = request.run(alice, hold.__enter__)
    assert Request().run(alice, lock.try_lock) is False, "another request on the same thread"
    assert request.run(carol, lock.try_lock) is False, "another thread"
    assert lease.remaining() > 0
    request.run(bob, hold.__exit__, None, None, None)
    assert carol.do(lock.try_lock)


def test_a_release_under_way_in_another_thread_is_not_disturbed(world: ThreadsWorld) -> None:
    """The thread that acquired the lock runs another request meanwhile."""
    alice, bob = world.actors(2)
    request = Request(forgets=True)
    with Proxy(world.port) as proxy:
        lock = world.through(proxy.port).real.get_lock("orders")
        hold = lock.hold()
        request.run(alice, hold.__enter__)
        held = proxy.hold_request("EVALSHA")
        leaving = bob.start(hold.__exit__, None, None, None)
        held.wait()
        assert Request().run(alice, lock.try_lock) is False
        held.release()
        assert leaving.result() is None
        assert Request().run(alice, lock.try_lock) is True


def test_a_hold_is_renewed_after_its_thread_has_ended(world: ThreadsWorld) -> None:
    lock = lock_of(world, "lock", lock_watchdog_timeout=3.0)
    alice, bob = world.actors(2)
    hold = lock.hold()
    alice.do(hold.__enter__)
    alice.end()
    world.renewed("orders")
    bob.do(hold.__exit__, None, None, None)
    assert world.redis.ttl("orders") is None


def test_a_block_of_hold_that_is_dropped_is_renewed_no_longer(
    world: ThreadsWorld, caplog: pytest.LogCaptureFixture
) -> None:
    lock = lock_of(world, "lock", lock_watchdog_timeout=4.0)
    world.actor().do(lambda: lock.hold().__enter__() and None)
    gc.collect()
    world.until(lambda: world.redis.ttl("orders") is None)
    assert "dropped without leaving its block" in caplog.text


def test_nested_blocks_of_one_call_chain_re_enter(world: ThreadsWorld) -> None:
    lock = lock_of(world, "lock")

    def nested() -> list[int]:
        with lock.hold(), lock, lock.hold():
            # A copy that is made within the block is of the same call chain.
            return [lock.get_hold_count(), contextvars.copy_context().run(within)]

    def within() -> int:
        with lock.hold():
            return int(lock.get_hold_count())

    assert world.actor().do(nested) == [3, 4]
    assert world.redis.ttl("orders") is None


def test_blocks_may_be_left_in_another_order(world: ThreadsWorld) -> None:
    """Each lease is of its own block, whichever is left first."""
    lock = lock_of(world, "lock")
    actor = world.actor()
    outer, inner = lock.hold(), lock.hold()
    first, second = actor.do(outer.__enter__), actor.do(inner.__enter__)
    actor.do(outer.__exit__, None, None, None)
    assert first.remaining() == 0
    second.ensure_held()
    actor.do(inner.__exit__, None, None, None)
    assert world.redis.ttl("orders") is None


def test_a_release_for_another_owner_raises_naming_the_holder_and_hold(world: ThreadsWorld) -> None:
    lock = lock_of(world, "lock")
    thread, other = world.actors(2)
    request = Request(forgets=True)
    name = thread.do(lambda: threading.current_thread().name)
    held = contextvars.copy_context()
    thread.do(held.run, lock.lock)
    for who in (thread, other):
        with pytest.raises(LockNotOwnedError) as caught:
            request.run(who, lock.unlock)
        said = str(caught.value)
        assert f"held by thread {name!r} of this client" in said
        assert "hold()" in said
        assert "new_owner()" in said
    thread.do(held.run, lock.unlock)


def test_a_lock_left_held_by_a_call_is_renewed_no_longer_and_logged(
    world: ThreadsWorld, caplog: pytest.LogCaptureFixture
) -> None:
    """As by ``asyncio.to_thread(lock.lock)``, whose context nobody has afterwards."""
    lock = lock_of(world, "lock", lock_watchdog_timeout=4.0)
    thread = world.actor()
    Request(forgets=True).run(thread, lock.lock)
    gc.collect()
    world.until(lambda: world.redis.ttl("orders") is None)
    assert "its holder is gone" in caplog.text
    assert "hold()" in caplog.text
    assert thread.do(lock.try_lock), "the thread itself goes on"


def test_a_thread_that_continues_with_a_held_lock_is_logged_once(
    world: ThreadsWorld, caplog: pytest.LogCaptureFixture
) -> None:
    client = world.client().real
    thread = world.actor()
    one, other = Request(), Request()
    one.run(thread, client.get_lock("orders").lock)
    for _ in range(3):
        other.run(thread, client.get_lock("stock").lock)
        other.run(thread, client.get_lock("stock").unlock)
    told = [record for record in caplog.records if "still holds it from an earlier call" in record.getMessage()]
    assert len(told) == 1
    assert told[0].levelno == logging.WARNING
    assert "'orders'" in told[0].getMessage()
    one.run(thread, client.get_lock("orders").unlock)


def test_a_block_of_hold_is_not_logged_as_left_held(world: ThreadsWorld, caplog: pytest.LogCaptureFixture) -> None:
    client = world.client().real
    thread, other = world.actors(2)
    hold = client.get_lock("orders").hold()
    Request(forgets=True).run(thread, hold.__enter__)
    with contextvars_of_another_call(thread, client.get_lock("stock")):
        pass
    other.do(hold.__exit__, None, None, None)
    assert "from an earlier call" not in caplog.text


class contextvars_of_another_call:  # A block, to be read as a phrase.
    """A block that holds a lock in a request of its own."""

    def __init__(self, thread: Actor, lock: Any) -> None:
        self._thread = thread
        self._lock = lock
        self._request = Request()

    def __enter__(self) -> None:
        self._request.run(self._thread, self._lock.lock)

    def __exit__(self, *_: object) -> None:
        self._request.run(self._thread, self._lock.unlock)


def test_jobs_of_a_pool_exclude_each_other(world: ThreadsWorld) -> None:
    """What one job has taken, the next one on the same thread does not re-enter."""
    lock = lock_of(world, "lock")

    def take() -> bool:
        return bool(lock.try_lock())

    with ThreadPoolExecutor(1) as pool:

        async def main() -> list[bool]:
            loop = asyncio.get_running_loop()
            jobs = [loop.run_in_executor(pool, contextvars.copy_context().run, take) for _ in range(5)]
            return list(await asyncio.gather(*jobs))

        assert asyncio.run(main()).count(True) == 1


def test_jobs_without_a_context_of_their_own_are_calls_of_one_thread(world: ThreadsWorld) -> None:
    """As with ``threading.RLock``: docs/explanation/safety.md says so."""
    lock = lock_of(world, "lock")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lock.lock).result()
        assert pool.submit(lock.try_lock).result() is True
        assert pool.submit(lock.get_hold_count).result() == 2
        pool.submit(lock.unlock).result()
        pool.submit(lock.unlock).result()
    assert not lock.is_locked()


# ---- the locks of threads in coroutines ------------------------------------------------------------------------------


@pytest.fixture
def lock(world: ThreadsWorld) -> Iterator[Any]:
    return world.client().real.get_lock("orders")


def test_in_a_coroutine_the_task_is_the_owner(lock: Any) -> None:
    inside: list[int] = []
    most = 0

    async def job() -> None:
        nonlocal most
        while not lock.try_lock():  # noqa: ASYNC110  # Nobody tells a task that waits by turns.
            await asyncio.sleep(0.005)
        inside.append(1)
        most = max(most, len(inside))
        await asyncio.sleep(0.002)
        with lock:
            assert lock.get_hold_count() == 2
        inside.pop()
        lock.unlock()

    async def main() -> None:
        await asyncio.gather(*(job() for _ in range(5)))

    asyncio.run(main())
    assert most == 1


@pytest.mark.parametrize("wait", ["lock", "try_lock", "with", "hold", "acquire"])
def test_waiting_for_another_task_of_the_loop_raises_at_once(lock: Any, wait: str) -> None:
    async def holder(held: asyncio.Event, done: asyncio.Event) -> None:
        with lock.hold():
            held.set()
            await done.wait()

    async def main() -> None:
        held, done = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(holder(held, done), name="the holder")
        await held.wait()
        assert lock.try_lock() is False
        assert lock.acquire(blocking=False) is False
        with pytest.raises(LockError, match=r"(?s)task 'the holder' holds it.*pyredisson\.asyncio"):
            match wait:
                case "lock":
                    lock.lock()
                case "try_lock":
                    lock.try_lock(5)
                case "acquire":
                    lock.acquire(timeout=5)
                case "with":
                    with lock:
                        pass
                case _:
                    with lock.hold(5):
                        pass
        done.set()
        await task
        assert lock.try_lock() is True
        lock.unlock()

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "spin_lock", "token_lock", "write", "multi", "red"])
def test_blocking_an_event_loop_is_logged_after_a_second(
    world: ThreadsWorld, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    lock = lock_of(world, kind)
    other = world.actor()
    other.do(lock.lock)

    def told() -> list[logging.LogRecord]:
        return [record for record in caplog.records if "blocks the event loop" in record.getMessage()]

    def release() -> None:
        world.until(told)
        other.do(lock.unlock)

    async def main() -> bool:
        releasing = threading.Thread(target=release)
        releasing.start()
        got = bool(lock.try_lock(30))
        releasing.join()
        lock.unlock()
        return got

    assert asyncio.run(main())
    assert len(told()) == 1
    assert told()[0].levelno == logging.WARNING
    assert "test_call_chains" in (told()[0].stack_info or ""), "it says where"
    assert "'orders'" in told()[0].getMessage(), "it says for which lock"


@pytest.mark.parametrize("kind", ["semaphore", "permit_expirable_semaphore", "count_down_latch"])
def test_the_log_of_a_blocked_event_loop_names_the_semaphore_or_latch(
    world: ThreadsWorld, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = world.client().real
    waits = getattr(client, f"get_{kind}")("seats")

    async def main() -> object:
        if kind == "count_down_latch":
            waits.try_set_count(1)
            return waits.wait(1.3)
        waits.try_set_permits(0)
        return waits.try_acquire(wait_time=1.3)

    assert not asyncio.run(main())
    (warning,) = [record for record in caplog.records if "blocks the event loop" in record.getMessage()]
    assert "'seats'" in warning.getMessage()


def test_a_subscriber_made_in_an_event_loop_is_not_logged_as_blocking_it(
    world: ThreadsWorld, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> Ticket:
        ticket: Ticket = world.client().real._core.runtime.ticket()
        return ticket  # As its subscriber makes one, in whose own thread it then waits.

    run(asyncio.run(main()).wait(1.3))
    assert "blocks the event loop" not in caplog.text


def test_a_thread_without_an_event_loop_is_not_logged_as_blocking_one(
    world: ThreadsWorld, lock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    alice, bob = world.actors(2)
    alice.do(lock.lock)
    assert bob.do(lock.try_lock, 1.5) is False
    assert "blocks the event loop" not in caplog.text


def test_current_thread_id_is_the_tasks_in_a_coroutine(lock: Any) -> None:
    async def main() -> None:
        with lock:
            assert lock.is_held_by_thread(pyredisson.current_thread_id())

    asyncio.run(main())
