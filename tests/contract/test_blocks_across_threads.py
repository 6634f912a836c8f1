"""Locks in the worker threads of others: blocks entered on one thread and left on another, and who is who there.

Frameworks run each call of a request in any free worker thread, in a copy of the request's context (Starlette, anyio,
asyncio.to_thread). ``Request`` does so here.
"""

from __future__ import annotations

import contextvars
import gc
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, contextmanager
from typing import Any

import pytest

import pyredisson
from pyredisson import LockError, LockLostError, LockNotOwnedError, LockTimeoutError
from tests.worlds.asyncio import AsyncioWorld
from tests.worlds.base import PATIENCE, Actor, World
from tests.worlds.environments import asyncio_only, sync_and_async, threads_only
from tests.worlds.threads import ThreadsWorld

SHORT = 1.5  # a watchdog's timeout, where the end of a lease is waited for
LONG = 2.4  # the same, where nothing may be lost

KINDS = ["lock", "fair_lock", "spin_lock", "fenced_lock", "token_lock", "read_lock", "write_lock"]


class Request:
    """Calls that belong together, each in a copy of one context, on whatever thread."""

    def __init__(self) -> None:
        self._context = contextvars.Context()

    def run(self, worker: Actor, call: Callable[..., Any], *args: Any) -> Any:
        """Make a call on a worker thread."""
        return worker.do(self._context.copy().run, call, *args)


def get(client: Any, kind: str, name: str = "orders", **arguments: Any) -> Any:
    if kind in ("read_lock", "write_lock"):
        return getattr(client.get_read_write_lock(name, **arguments), kind)()
    return getattr(client, f"get_{kind}")(name, **arguments)


def opponent(client: Any, kind: str) -> Any:
    """What is kept out by a lock of that kind."""
    return get(client, "write_lock" if kind == "read_lock" else kind)


def leave(block: Any) -> None:
    block.__exit__(None, None, None)


def free(world: World, name: str = "orders") -> bool:
    return not world.redis.command("EXISTS", name)


# ---- hold() ------------------------------------------------------------------------------------------------------


@threads_only
@pytest.mark.parametrize("kind", [*KINDS, "multi_lock"])
def test_a_block_may_be_left_on_another_thread(world: ThreadsWorld, kind: str) -> None:
    client = world.client().real
    lock = client.get_multi_lock(get(client, "lock")) if kind == "multi_lock" else get(client, kind)
    first, second = world.actors(2)
    request = Request()
    block = lock.hold(wait_time=0)
    lease = request.run(first, block.__enter__)
    request.run(second, lease.ensure_held)
    request.run(second, leave, block)
    assert free(world)
    assert lease.remaining() == 0
    with lock.hold(wait_time=0):
        pass
    assert free(world)


@threads_only
@pytest.mark.parametrize("kind", KINDS)
def test_another_call_on_that_thread_does_not_join_a_block(world: ThreadsWorld, kind: str) -> None:
    client = world.client().real
    worker, other = world.actors(2)
    block, request = get(client, kind).hold(wait_time=0), Request()
    request.run(worker, block.__enter__)
    theirs = opponent(client, kind)

    def try_it() -> None:
        with pytest.raises(LockTimeoutError), theirs.hold(wait_time=0.05):
            pytest.fail("two requests are inside")

    Request().run(worker, try_it)
    Request().run(other, try_it)
    request.run(worker, leave, block)
    assert free(world)


@threads_only
def test_another_call_on_that_thread_waits_for_the_block_to_be_left(world: ThreadsWorld) -> None:
    lock = world.client().real.get_lock("orders")
    worker, other = world.actors(2)
    block, request = lock.hold(wait_time=0), Request()
    request.run(worker, block.__enter__)

    def hold() -> int:
        with lock.hold(wait_time=PATIENCE):
            return int(lock.get_hold_count())

    waiting = worker.start(Request()._context.run, hold)
    world.until(lambda: world.waiting(lock) == 1, what="it waits")
    request.run(other, leave, block)
    assert waiting.result() == 1
    assert free(world)


@threads_only
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "token_lock"])
def test_nested_blocks_of_one_call_re_enter(world: ThreadsWorld, kind: str) -> None:
    lock = get(world.client().real, kind)

    def nested() -> None:
        with lock.hold(wait_time=0):
            with lock.hold(wait_time=0) as inner:
                assert lock.get_hold_count() == 2
                # As a library may that runs its callbacks in a context of their own.
                contextvars.copy_context().run(deeper)
                inner.ensure_held()
            assert lock.get_hold_count() == 1

    def deeper() -> None:
        with lock.hold(wait_time=0), lock:
            assert lock.get_hold_count() == 4

    Request().run(world.actor(), nested)
    assert free(world)


@threads_only
def test_blocks_nested_in_one_generator_are_left_on_other_threads(world: ThreadsWorld) -> None:
    """The ``def`` dependency of FastAPI."""
    lock = world.client().real.get_lock("orders")
    first, second = world.actors(2)

    @contextmanager
    def dependency() -> Iterator[Any]:
        with lock.hold(wait_time=0) as outer, lock.hold(wait_time=0):
            yield outer

    request, block = Request(), dependency()
    lease = request.run(first, block.__enter__)
    assert list(world.redis.hash("orders").values()) == ["2"]
    assert Request().run(first, lock.try_lock, 0) is False
    request.run(second, leave, block)
    assert lease.lost is False
    assert free(world)


@threads_only
def test_blocks_of_one_thread_may_be_left_in_any_order(world: ThreadsWorld) -> None:
    client = world.client().real
    workers = world.actors(3)
    entered = []
    for number in range(4):
        block, request = client.get_lock(f"orders-{number}").hold(wait_time=0), Request()
        request.run(workers[0], block.__enter__)
        entered.append((request, block))
    for number, (request, block) in enumerate(entered):
        request.run(workers[number % 3], leave, block)
        assert free(world, f"orders-{number}")


@threads_only
def test_a_block_outlives_the_thread_that_entered_it(world: ThreadsWorld) -> None:
    """Idle worker threads end: anyio's after ten seconds."""
    lock = world.client(lock_watchdog_timeout=LONG).real.get_lock("orders")
    first, second = world.actors(2)
    block, request = lock.hold(wait_time=0), Request()
    lease = request.run(first, block.__enter__)
    first.end()
    world.renewed("orders", times=2)
    assert lease.lost is False
    request.run(second, leave, block)
    assert free(world)


@threads_only
def test_a_block_that_was_left_elsewhere_is_renewed_no_longer(world: ThreadsWorld) -> None:
    client = world.client(lock_watchdog_timeout=SHORT)
    lock = client.real.get_lock("orders")
    first, second = world.actors(2)
    for _ in range(3):
        block, request = lock.hold(wait_time=0), Request()
        request.run(first, block.__enter__)
        request.run(second, leave, block)
    world.until(lambda: client.real._core.watchdog.watching() == 0, what="nothing is watched")
    assert free(world)


@threads_only
def test_a_block_that_lost_its_lock_says_so_where_it_is_left(world: ThreadsWorld) -> None:
    lock = world.client().real.get_lock("orders")
    first, second = world.actors(2)
    block, request = lock.hold(wait_time=0), Request()
    request.run(first, block.__enter__)
    world.redis.command("DEL", "orders")
    with pytest.raises(LockLostError):
        request.run(second, leave, block)
    assert Request().run(first, lock.try_lock, 0) is True
    Request().run(first, lock.force_unlock)


@threads_only
def test_a_stack_of_blocks_may_be_closed_on_another_thread(world: ThreadsWorld) -> None:
    client = world.client().real
    first, second = world.actors(2)
    stack = ExitStack()

    def enter() -> None:
        for name in ("orders", "parcels"):
            stack.enter_context(client.get_lock(name).hold(wait_time=0))

    Request().run(first, enter)
    assert not free(world, "orders")
    assert not free(world, "parcels")
    second.do(stack.close)
    assert free(world, "orders")
    assert free(world, "parcels")


@asyncio_only
@pytest.mark.parametrize("kind", KINDS)
def test_a_block_may_be_left_in_another_task(world: AsyncioWorld, kind: str) -> None:
    """A fixture of pytest-asyncio; two cells of a notebook."""
    lock = get(world.client().real, kind)
    first, second = world.actors(2)
    stack = AsyncExitStack()
    lease = first.do(stack.enter_async_context, lock.hold(wait_time=0))
    second.do(lease.ensure_held)
    second.do(stack.aclose)
    assert free(world)


@asyncio_only
def test_a_block_outlives_the_task_that_entered_it(world: AsyncioWorld) -> None:
    lock = world.client(lock_watchdog_timeout=LONG).real.get_lock("orders")
    first, second = world.actors(2)
    stack = AsyncExitStack()
    first.do(stack.enter_async_context, lock.hold(wait_time=0))
    first.end()
    world.renewed("orders", times=2)
    second.do(stack.aclose)
    assert free(world)


@asyncio_only
def test_another_task_does_not_join_a_block(world: AsyncioWorld) -> None:
    lock = world.client().real.get_lock("orders")
    first, second = world.actors(2)
    stack = AsyncExitStack()
    first.do(stack.enter_async_context, lock.hold(wait_time=0))
    assert second.do(lock.try_lock, 0) is False
    first.do(stack.aclose)
    assert free(world)


# ---- with lock: --------------------------------------------------------------------------------------------------


@threads_only
def test_a_plain_block_left_on_another_thread_raises_naming_the_holder_and_hold(world: ThreadsWorld) -> None:
    lock = world.client().real.get_lock("orders")
    with ThreadPoolExecutor(1, "holder") as first, ThreadPoolExecutor(1, "other") as second:
        first.submit(lock.__enter__).result(PATIENCE)
        with pytest.raises(LockNotOwnedError) as refusal:
            second.submit(lock.__exit__, None, None, None).result(PATIENCE)
        said = str(refusal.value)
        assert "'holder_0'" in said
        assert "hold()" in said
        assert "owner=" in said
        first.submit(lock.__exit__, None, None, None).result(PATIENCE)
    assert free(world)


@threads_only
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "read_lock"])
def test_another_call_on_that_thread_does_not_join_a_plain_hold(world: ThreadsWorld, kind: str) -> None:
    lock, worker = get(world.client().real, kind), world.actor()
    request = Request()
    # In a context that lives on, as one does whose changes are kept: the call is not over yet.
    worker.do(request._context.run, lock.lock)

    def try_it() -> bool:
        try:
            return bool(lock.try_lock(0))
        except LockError:
            return False

    assert Request().run(worker, try_it) is False, "two requests are inside"
    worker.do(request._context.run, lock.unlock)
    assert free(world)


@threads_only
def test_a_pool_thread_that_holds_a_lock_while_it_runs_another_call_is_logged(
    world: ThreadsWorld, caplog: pytest.LogCaptureFixture
) -> None:
    client = world.client().real
    worker, request = world.actor(), Request()
    worker.do(request._context.run, client.get_lock("orders").lock)
    assert caplog.messages == []
    with caplog.at_level(logging.WARNING):
        assert Request().run(worker, client.get_lock("parcels").try_lock) is True
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1, warnings
    assert "orders" in warnings[0]
    assert "hold()" in warnings[0]
    worker.do(request._context.run, client.get_lock("orders").unlock)


@threads_only
def test_a_lock_left_held_by_a_call_is_renewed_no_longer_after_it(world: ThreadsWorld) -> None:
    """The thread lives on, the call does not."""
    client = world.client(lock_watchdog_timeout=SHORT).real
    worker = world.actor()
    Request().run(worker, client.get_lock("orders").lock)
    world.until(lambda: free(world), what="the lock is free again")
    assert Request().run(worker, client.get_lock("orders").try_lock, 0) is True
    world.redis.command("DEL", "orders")


@threads_only
def test_a_thread_of_an_executor_may_lock_in_one_job_and_unlock_in_the_next(world: ThreadsWorld) -> None:
    """A thread that somebody keeps for that: its jobs share one context."""
    lock = world.client(lock_watchdog_timeout=LONG).real.get_lock("orders")
    with ThreadPoolExecutor(1) as executor:
        executor.submit(lock.lock).result(PATIENCE)
        world.renewed("orders", times=2)
        executor.submit(lock.unlock).result(PATIENCE)
    assert free(world)


@threads_only
def test_a_call_in_a_copied_context_re_enters_what_its_caller_holds(world: ThreadsWorld) -> None:
    lock = world.client().real.get_lock("orders")

    def called() -> int:
        with lock:
            return int(lock.get_hold_count())

    def call() -> int:
        with lock:
            return int(contextvars.copy_context().run(called))

    assert Request().run(world.actor(), call) == 2
    assert call() == 2
    assert free(world)


# ---- owners that are no thread -----------------------------------------------------------------------------------


@sync_and_async
@pytest.mark.parametrize("kind", [*KINDS, "non_reentrant_lock", "non_reentrant_fair_lock"])
def test_an_owner_locks_here_and_unlocks_there(world: World, kind: str) -> None:
    client = world.client().real
    first, second = world.actors(2)
    lock = get(client, kind, owner=client.new_owner())
    first.do(lock.lock)
    assert second.do(opponent(client, kind).try_lock, 0) is False
    assert first.do(opponent(client, kind).try_lock, 0) is False, "the thread joined what its owner holds"
    second.do(lock.unlock)
    assert free(world)


@sync_and_async
def test_an_owner_re_enters_from_anywhere(world: World) -> None:
    client = world.client().real
    first, second = world.actors(2)
    owner = client.new_owner()
    mine, too = get(client, "lock", owner=owner), get(client, "lock", owner=owner)
    first.do(mine.lock)
    assert second.do(too.try_lock, 0) is True
    assert first.do(too.get_hold_count) == 2
    assert first.do(get(client, "lock").get_hold_count) == 0
    first.do(too.unlock)
    second.do(mine.unlock)
    assert free(world)


@sync_and_async
def test_two_owners_exclude_each_other_on_one_thread(world: World) -> None:
    client = world.client().real
    actor = world.actor()
    one, other = (get(client, "lock", owner=client.new_owner()) for _ in range(2))
    actor.do(one.lock)
    assert actor.do(other.try_lock, 0) is False
    with pytest.raises(LockNotOwnedError):
        actor.do(other.unlock)
    actor.do(one.unlock)
    assert actor.do(other.try_lock, 0) is True
    actor.do(other.unlock)


@threads_only
def test_a_plain_block_of_an_owner_may_be_left_on_another_thread(world: ThreadsWorld) -> None:
    client = world.client().real
    first, second = world.actors(2)
    lock = get(client, "lock", owner=client.new_owner())
    first.do(lock.__enter__)
    second.do(lock.__exit__, None, None, None)
    assert free(world)


@sync_and_async
def test_the_lock_of_an_owner_is_renewed_after_the_acquiring_thread_ended(world: World) -> None:
    client = world.client(lock_watchdog_timeout=LONG).real
    first, second = world.actors(2)
    lock = get(client, "lock", owner=client.new_owner())
    first.do(lock.lock)
    first.end()
    world.renewed("orders", times=2)
    second.do(lock.unlock)
    assert free(world)


@sync_and_async
def test_the_lock_of_a_closed_owner_is_renewed_no_longer(world: World) -> None:
    client = world.client(lock_watchdog_timeout=SHORT).real
    actor = world.actor()
    owner = client.new_owner()
    lock = get(client, "lock", owner=owner)
    actor.do(lock.lock)
    actor.do(owner.close)
    world.until(lambda: free(world), what="the lock is free again")


@sync_and_async
def test_the_lock_of_a_collected_owner_is_renewed_no_longer_and_logged(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    client = world.client(lock_watchdog_timeout=SHORT).real
    actor = world.actor()
    lock = get(client, "lock", owner=client.new_owner())
    with caplog.at_level(logging.WARNING):
        actor.do(lock.lock)
        del lock
        gc.collect()
        world.until(lambda: free(world), what="the lock is free again")
        world.until(lambda: "orders" in caplog.text, what="it is logged")


@threads_only
def test_an_owner_has_a_number_like_any_other(world: ThreadsWorld) -> None:
    client = world.client().real
    lock = get(client, "lock", owner=client.new_owner())
    lock.lock()
    (field,) = world.redis.hash("orders")
    assert field.startswith(f"{client.id}:")
    assert int(field.rpartition(":")[2]) != pyredisson.current_thread_id()
    lock.unlock()
