"""Many tasks of one process that wait for one lock: what a hand-over sends, and what a waiter takes of the memory."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Sequence

import redis.asyncio

from .report import Figure, at_most, show
from .rounds import Samples, Tournament, median_of
from .server import Server
from .waiters import monitored
from .wire import lock_name

__all__ = ["hand_over"]

SETTLE_SECONDS = 1.5
SERVE_SECONDS = 120.0

PLAIN, FAIR = "pyredisson Lock", "pyredisson FairLock"


async def _wait_and_serve(server: Server, contestant: str, count: int) -> dict[str, float]:
    from pyredisson.asyncio import Redisson

    async with redis.asyncio.Redis.from_url(server.url) as theirs, redis.asyncio.Redis.from_url(server.url) as others:
        elsewhere, client = Redisson(others), Redisson(theirs)
        get, get_elsewhere = (
            (each.get_fair_lock if contestant == FAIR else each.get_lock) for each in (client, elsewhere)
        )
        lock, held = get(lock_name(0)), get_elsewhere(lock_name(0))
        async with lock:  # What is made once, for the first of all waiters.
            pass
        await held.lock()
        first = asyncio.create_task(lock.try_lock(0.2))
        await first
        inside = served = 0

        async def wait_and_pass() -> None:
            nonlocal inside, served
            async with lock:
                inside += 1
                if inside != 1:
                    raise RuntimeError(f"{contestant} let two in")
                await asyncio.sleep(0)
                inside -= 1
                served += 1

        gc.collect()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        tasks = [asyncio.create_task(wait_and_pass()) for _ in range(count)]
        await asyncio.sleep(SETTLE_SECONDS)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        if served:
            raise RuntimeError(f"{contestant} let a waiter in while the lock was held")
        with monitored(server) as seen:
            begin = time.perf_counter()
            await held.unlock()
            await asyncio.wait_for(asyncio.gather(*tasks), SERVE_SECONDS)
            elapsed = time.perf_counter() - begin
            await asyncio.sleep(0.3)  # What follows at leisure counts too.
        await client.close()
        await elsewhere.close()
    if server.keys():
        raise RuntimeError(f"{contestant} left {server.keys()} keys behind")
    return {
        "commands a hand-over": seen.total() / count,
        "KB a waiter": (after - before) / count / 1024,
        "ms a hand-over": elapsed / count * 1e3,
        **{f"{command} a hand-over": number / count for command, number in sorted(seen.items())},
    }


def _turn(server: Server, contestant: str, count: int) -> dict[str, float]:
    server.reset()
    return asyncio.run(_wait_and_serve(server, contestant, count))


def _rows(samples: Samples) -> Sequence[Sequence[str]]:
    columns = ("commands a hand-over", "KB a waiter", "ms a hand-over")
    return [(name, *(show(median_of(samples, name, column)) for column in columns)) for name in samples]


def hand_over(server: Server, *, rounds: int, tournament: Tournament, count: int = 1000) -> Figure:
    """Tasks of one process that wait for a lock, and take it once each."""
    title = f"{count} tasks of one process on one lock"
    samples = tournament.play(title, (PLAIN, FAIR), rounds, lambda name: _turn(server, name, count))
    claims = [
        claim
        for name in samples
        for claim in (
            at_most(f"commands a hand-over, {name}", median_of(samples, name, "commands a hand-over"), 4, ""),
            at_most(f"memory a waiter, {name}", median_of(samples, name, "KB a waiter"), 4, " KB"),
        )
    ]
    how = (
        f"{count} tasks wait while another client holds the lock; then it is freed, and each takes and frees it once. "
        "The commands are counted in the server from there on. The memory is what Python allocated for them, their "
        f"tasks included. {rounds} rounds."
    )
    notes = [
        f"{name}: "
        + ", ".join(
            f"{key.removesuffix(' a hand-over')} {median_of(samples, name, key):.2f}"
            for key in turns[0]
            if key[0].isupper() and key.endswith("a hand-over")
        )
        for name, turns in samples.items()
    ]
    columns = ("contestant", "commands a hand-over", "KB a waiter", "ms a hand-over")
    return Figure("hand_over", title, how, columns, _rows(samples), claims, notes, samples)
