"""Generators that are closed inside a block: what they hold is released, as when the block is left in any other way."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tests.contract.on_the_clock import AsyncioWorld, ThreadsWorld
from tests.contract.places import asyncio_only, threads_only
from tests.contract.worlds import PATIENCE

KINDS = [
    "lock",
    "fair_lock",
    "spin_lock",
    "fenced_lock",
    "token_lock",
    "non_reentrant_lock",
    "non_reentrant_fair_lock",
    "read_lock",
    "write_lock",
    "multi_lock",
    "red_lock",
]
#: Well under the lease of 30 s: it was released, and did not just run out.
SOON = 5.0


def lock_of(world: ThreadsWorld | AsyncioWorld, kind: str) -> Any:
    if kind == "red_lock":
        clients = [node.real for node in world.nodes(3)]
        return clients[0].get_red_lock(*(each.get_lock("orders") for each in clients))
    client = world.client().real
    if kind == "multi_lock":
        return client.get_multi_lock(client.get_lock("orders"), client.get_lock("parcels"))
    if kind in ("read_lock", "write_lock"):
        return getattr(client.get_read_write_lock("orders"), kind)()
    return getattr(client, f"get_{kind}")("orders")


def held(world: ThreadsWorld | AsyncioWorld, kind: str) -> bool:
    stores = [world.node(index) for index in range(3)] if kind == "red_lock" else [world.redis]
    return any(store.command("EXISTS", "orders", "parcels") for store in stores)


def released(world: ThreadsWorld | AsyncioWorld, kind: str) -> None:
    world.until(lambda: not held(world, kind), SOON, what="the lock is released")


# ---- threads -----------------------------------------------------------------------------------------------------


def rows(block: Any) -> Iterator[int]:
    with block:
        yield from range(5)


def by_break(rows: Iterator[int]) -> None:
    for _ in rows:
        break


def by_islice(rows: Iterator[int]) -> None:
    assert list(itertools.islice(rows, 2)) == [0, 1]


def by_close(rows: Any) -> None:
    next(rows)
    rows.close()


def by_a_dropped_context(rows: Iterator[int]) -> None:
    contextlib.contextmanager(lambda: rows)().__enter__()


def by_a_cycle(rows: Any) -> None:
    """Only the garbage collector finds it."""
    next(rows)
    cycle: list[Any] = [rows]
    cycle.append(cycle)


ENDS = [by_break, by_islice, by_close, by_a_dropped_context, by_a_cycle]


@threads_only
@pytest.mark.parametrize("form", ["with", "hold"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_generator_releases_its_lock_at_once(world: ThreadsWorld, kind: str, form: str) -> None:
    lock = lock_of(world, kind)
    by_close(rows(lock if form == "with" else lock.hold(wait_time=1)))
    assert not held(world, kind)


@threads_only
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("form", ["with", "hold"])
def test_a_generator_that_is_given_up_releases_its_lock_at_once(
    world: ThreadsWorld, end: Callable[[Iterator[int]], None], form: str
) -> None:
    lock = lock_of(world, "lock")
    for _ in range(3):
        end(rows(lock if form == "with" else lock.hold(wait_time=0)))
        gc.collect()
        assert not held(world, "lock")
        assert lock.get_hold_count() == 0


@threads_only
def test_only_the_levels_of_the_closed_generator_are_released(world: ThreadsWorld) -> None:
    lock = lock_of(world, "lock")
    with lock:
        by_break(rows(lock))
        assert lock.get_hold_count() == 1
        assert held(world, "lock")
    assert not held(world, "lock")


@threads_only
def test_a_closed_generator_is_renewed_no_longer(world: ThreadsWorld) -> None:
    client = world.client().real
    by_break(rows(client.get_lock("orders")))
    world.until(lambda: client._core.watchdog.watching() == 0, SOON, what="nothing is renewed")


# ---- asyncio -----------------------------------------------------------------------------------------------------


async def arows(block: Any) -> AsyncIterator[int]:
    async with block:
        for row in range(5):
            yield row


async def by_aclosing(rows: Any) -> None:
    async with contextlib.aclosing(rows):
        async for _ in rows:
            break


async def by_aclose_elsewhere(rows: Any) -> None:
    """As frameworks do that close a response in a task of its own."""
    await anext(rows)
    await asyncio.create_task(rows.aclose())


async def by_abreak(rows: Any) -> None:
    """Nobody closes it: the event loop does, in a task of its own, when it is collected."""
    async for _ in rows:
        break


async def by_an_async_cycle(rows: Any) -> None:
    await anext(rows)
    cycle: list[Any] = [rows]
    cycle.append(cycle)


async def by_a_cancelled_reader(rows: Any) -> None:
    """As a streamed response ends whose browser went away."""
    reading = asyncio.Event()

    async def read() -> None:
        async for _ in rows:
            reading.set()
            await asyncio.sleep(60)

    reader = asyncio.create_task(read())
    await asyncio.wait_for(reading.wait(), PATIENCE)
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)


AENDS = [by_aclosing, by_aclose_elsewhere, by_abreak, by_an_async_cycle, by_a_cancelled_reader]


@asyncio_only
@pytest.mark.parametrize("form", ["with", "hold"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_closed_async_generator_releases_its_lock(world: AsyncioWorld, kind: str, form: str) -> None:
    lock = lock_of(world, kind)
    world.actor().do(by_aclosing, arows(lock if form == "with" else lock.hold(wait_time=1)))
    released(world, kind)


@asyncio_only
@pytest.mark.parametrize("end", AENDS)
@pytest.mark.parametrize("form", ["with", "hold"])
def test_an_async_generator_that_is_given_up_releases_its_lock(
    world: AsyncioWorld, end: Callable[[Any], Any], form: str
) -> None:
    lock = lock_of(world, "lock")
    actor, other = world.actors(2)

    async def give_up() -> None:
        await end(arows(lock if form == "with" else lock.hold(wait_time=1)))
        gc.collect()

    for _ in range(3):
        actor.do(give_up)
        released(world, "lock")
    assert actor.do(lock.get_hold_count) == 0
    assert other.do(lock.try_lock, PATIENCE) is True
    other.do(lock.unlock)


@asyncio_only
def test_only_the_levels_of_the_closed_async_generator_are_released(world: AsyncioWorld) -> None:
    lock = lock_of(world, "lock")

    async def main() -> int:
        async with lock:
            await by_aclosing(arows(lock))
            for _ in range(1000):
                if await lock.get_hold_count() == 1:
                    break
                await asyncio.sleep(0.005)
            assert await lock.is_locked()
            return int(await lock.get_hold_count())

    assert world.actor().do(main) == 1
    released(world, "lock")


@asyncio_only
def test_a_closed_coroutine_releases_its_lock(world: AsyncioWorld) -> None:
    """It may not await: what it held is given back in the background."""
    client = world.client().real
    lock = client.get_lock("orders")

    async def hold() -> None:
        async with lock:
            await Pause()

    async def main() -> None:
        coroutine = hold()  # Driven by hand, in this task, to be closed where it pauses.
        while isinstance(waiting := coroutine.send(None), asyncio.Future):
            waiting._asyncio_future_blocking = False
            await asyncio.wait([waiting], timeout=PATIENCE)
        assert await lock.is_locked()
        coroutine.close()

    world.actor().do(main)
    released(world, "lock")
    world.until(lambda: client._core.watchdog.watching() == 0, SOON, what="nothing is renewed")


class Pause:
    """Suspends once, and yields itself, which is no future."""

    def __await__(self) -> Any:
        yield self
