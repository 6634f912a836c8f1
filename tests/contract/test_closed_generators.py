"""A generator that is closed inside its block gives the lock back, as any block does that is left."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tests.worlds.asyncio import AsyncioWorld
from tests.worlds.base import Remote, World
from tests.worlds.environments import asyncio_only, each_runtime, threads_only
from tests.worlds.threads import ThreadsWorld

KINDS = {
    "lock": lambda client: client.get_lock("orders"),
    "fair": lambda client: client.get_fair_lock("orders"),
    "non_reentrant": lambda client: client.get_non_reentrant_lock("orders"),
    "spin": lambda client: client.get_spin_lock("orders"),
    "fenced": lambda client: client.get_fenced_lock("orders"),
    "token": lambda client: client.get_token_lock("orders"),
    "read": lambda client: client.get_read_write_lock("orders").read_lock(),
    "write": lambda client: client.get_read_write_lock("orders").write_lock(),
    "multi": lambda client: client.get_multi_lock(client.get_lock("orders"), client.get_lock("stock")),
}
each_kind = pytest.mark.parametrize("kind", KINDS)
each_block = pytest.mark.parametrize("block", ["with", "hold"])


def block_of(lock: Any, block: str) -> Any:
    return lock if block == "with" else lock.hold()


def rows(lock: Any, block: str) -> Iterator[int]:
    with block_of(lock, block):
        yield from range(1000)


async def arows(lock: Any, block: str) -> AsyncIterator[int]:
    async with block_of(lock, block):
        for number in range(1000):
            yield number


def lock_on_quorum(world: World, kind: str) -> Any:
    """The lock of that kind; ``red`` is over three nodes."""
    if kind == "red":
        return world.api.RedLock(*(node.real.get_lock("orders") for node in world.nodes(3, quorum_node_timeout=2.0)))
    return KINDS[kind](world.client().real)


def free(world: World, kind: str) -> Callable[[], bool]:
    """Whether nothing of the lock is left in Redis."""
    if kind == "red":
        return lambda: not any(world.node(index).command("EXISTS", "orders") for index in range(3))
    keys = ("orders", "stock")
    return lambda: not world.redis.command("EXISTS", *keys)


@threads_only
@each_block
@pytest.mark.parametrize("kind", [*KINDS, "red"])
def test_a_thread_that_breaks_out_of_a_generator_holds_nothing(world: ThreadsWorld, kind: str, block: str) -> None:
    lock = lock_on_quorum(world, kind)
    actor = world.actor()

    def first() -> int:
        for number in rows(lock, block):
            if number == 1:
                break
        return number

    assert actor.do(first) == 1
    assert free(world, kind)()
    assert actor.do(lambda: list(itertools.islice(rows(lock, block), 3))) == [0, 1, 2]
    gc.collect()
    assert free(world, kind)(), "islice() leaves the generator to the garbage collector"


@asyncio_only
@each_block
@pytest.mark.parametrize("kind", [*KINDS, "red"])
def test_a_task_that_closes_an_asynchronous_generator_holds_nothing(world: AsyncioWorld, kind: str, block: str) -> None:
    lock = lock_on_quorum(world, kind)
    actor = world.actor()

    async def first() -> None:
        async with contextlib.aclosing(arows(lock, block)) as numbers:
            async for number in numbers:
                if number == 1:
                    break

    actor.do(first)
    world.until(free(world, kind), within=3.0, what="free within much less than a lease")


@asyncio_only
@each_block
@pytest.mark.parametrize("kind", ["lock", "fair", "read", "multi", "red"])
def test_a_generator_that_is_dropped_is_closed_by_a_task_of_its_own(world: AsyncioWorld, kind: str, block: str) -> None:
    """The event loop closes it in another task, where nothing says whose the lock is but the context."""
    lock = lock_on_quorum(world, kind)
    actor = world.actor()

    async def first() -> None:
        async for number in arows(lock, block):
            if number == 1:
                break

    actor.do(first)
    world.until(free(world, kind), within=3.0, what="free within much less than a lease")


@asyncio_only
@each_block
def test_a_coroutine_that_is_closed_in_its_block_leaves_the_release_to_the_watchdog(
    world: AsyncioWorld, block: str
) -> None:
    """It may await nothing any more: one that does is a ``RuntimeError``."""
    lock = world.client(lock_watchdog_timeout=30).real.get_lock("orders")
    entered = asyncio.Event()

    async def body() -> None:
        async with block_of(lock, block):
            entered.set()
            await asyncio.Event().wait()

    async def close() -> bool:
        coroutine = body()
        # Stepped by hand within this task, so that it can be closed like a generator.
        while (step := coroutine.send(None)) is None or not entered.is_set():
            if step is None:
                await asyncio.sleep(0)
            else:
                step._asyncio_future_blocking = False
                await asyncio.wait([step])
        coroutine.close()
        return True

    actor = world.actor()
    assert actor.do(close)
    world.until(free(world, "lock"), within=5.0, what="free within much less than a lease")


@asyncio_only
def test_a_closed_generator_does_not_give_back_what_others_hold(world: AsyncioWorld) -> None:
    client = world.client()
    lock = client.real.get_lock("orders")
    alice, bob = world.actors(2)
    theirs = bob.lock(client)

    async def begin() -> AsyncIterator[int]:
        numbers = arows(lock, "with")
        await numbers.__anext__()
        return numbers

    numbers = alice.do(begin)
    assert alice.lock(client).force_unlock()
    theirs.lock()
    alice.do(numbers.aclose)
    assert theirs.is_held_by_current_thread()
    assert world.redis.ttl("orders") is not None


@threads_only
def test_an_inner_generator_that_is_closed_leaves_the_outer_hold(world: ThreadsWorld) -> None:
    actor = world.actor()
    lock = world.client().real.get_lock("orders")

    def work() -> list[int]:
        with lock:
            for _ in rows(lock, "with"):
                break
            for _ in rows(lock, "hold"):
                break
            return [lock.get_hold_count()]

    assert actor.do(work) == [1]
    assert free(world, "lock")()


@each_runtime
@pytest.mark.parametrize("block", ["with", "hold"])
def test_a_block_that_ends_with_generator_exit_is_left_at_once(world: World, block: str) -> None:
    mine = world.actor().lock(world.client(lock_watchdog_timeout=30))
    body: Remote = mine if block == "with" else mine.hold()
    body.enter()
    error = GeneratorExit()
    body.__exit__(GeneratorExit, error, None)
    world.until(lambda: world.redis.ttl("orders") is None, within=3.0)
