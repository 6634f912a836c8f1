"""The ways to give up a generator in the middle of its block: each releases what it holds."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest

from tests.worlds.asyncio import AsyncioWorld
from tests.worlds.base import PATIENCE, World
from tests.worlds.environments import asyncio_only, threads_only
from tests.worlds.threads import ThreadsWorld

#: Well under the lease of 30 s: it was released, and did not just run out.
SOON = 5.0


def held(world: World) -> bool:
    return bool(world.redis.command("EXISTS", "orders"))


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
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("form", ["with", "hold"])
def test_a_generator_that_is_given_up_releases_its_lock_at_once(
    world: ThreadsWorld, end: Callable[[Iterator[int]], None], form: str
) -> None:
    lock = world.client().real.get_lock("orders")
    for _ in range(3):
        end(rows(lock if form == "with" else lock.hold(wait_time=0)))
        gc.collect()
        assert not held(world)
        assert lock.get_hold_count() == 0


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
@pytest.mark.parametrize("end", AENDS)
@pytest.mark.parametrize("form", ["with", "hold"])
def test_an_async_generator_that_is_given_up_releases_its_lock(
    world: AsyncioWorld, end: Callable[[Any], Any], form: str
) -> None:
    # The task that the lock belonged to has ended when its generator is closed: then the lease ends it.
    lease = 1.5 if end is by_a_cancelled_reader else 30
    lock = world.client(lock_watchdog_timeout=lease).real.get_lock("orders")
    actor, other = world.actors(2)

    async def give_up() -> None:
        await end(arows(lock if form == "with" else lock.hold(wait_time=1)))
        gc.collect()

    for _ in range(3):
        actor.do(give_up)
        world.until(lambda: not held(world), SOON, what="the lock is released")
    assert actor.do(lock.get_hold_count) == 0
    assert other.do(lock.try_lock, PATIENCE) is True
    other.do(lock.unlock)
