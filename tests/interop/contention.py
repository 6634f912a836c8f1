"""Some owners, of either language, who count up together under a lock, and what can be said of it afterwards.

Each reads a number and writes the next one, twice: before and after it has been inside for a while. Whoever finds two
different ones, or comes in while another is inside, has found a lock that does not exclude. They begin when all are
connected (:func:`let_begin`), so that nobody counts alone; and whoever was not yet inside when it is over goes on for
one more. The same is done in Java by ``java/src/main/java/pyredisson/Contention.java``, with the same keys and on the
same clock (that of ``nanoTime()``).
"""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeAlias

import redis
import redis.asyncio

from pyredisson._core.runtime import run
from tests.forms import ended
from tests.waiting import until

Times: TypeAlias = list[tuple[int, int]]
"""When one came in and when it began to go out, in nanoseconds, for each time it was inside."""

_LEASE = 60.0  # of a permit


def counters(url: str, library: Any = redis) -> Any:
    """A client of redis-py for what is counted, of a server or of a cluster."""
    scheme, _, addresses = url.partition("://")
    if scheme != "redis+cluster":
        return library.Redis.from_url(url)
    host, _, port = addresses.split(",")[0].partition(":")
    return library.RedisCluster(host=host, port=int(port))


def let_begin(client: Any, counter: str, counting: Sequence[Future[Times]]) -> None:
    """Wait until all who are to count are connected, and let them begin."""

    def all_are_here() -> bool:
        for each in counting:
            if each.done():
                each.result()  # It raises: nobody has begun yet.
        return int(client.get(f"{counter}:here") or 0) == len(counting)

    until(all_are_here, within=60, what="all are connected")
    client.set(f"{counter}:begin", 1)


def contend(shared: Any, url: str, *how: Any) -> Times:
    """Count until the number is reached, as a thread; see ``_count()``."""
    with counters(url) as client:
        return run(_count(shared, client, time.sleep, *how))


async def contend_as_task(shared: Any, url: str, *how: Any) -> Times:
    """Count until the number is reached, as a task; see ``_count()``."""
    async with counters(url, redis.asyncio) as client:
        return await _count(shared, client, asyncio.sleep, *how)


async def _count(
    shared: Any,
    client: Any,
    sleep: Callable[[float], Any],
    kind: str,
    counter: str,
    wanted: int,
    hold: float,
    rest: float,
) -> Times:
    times: Times = []
    await ended(client.incr(f"{counter}:here"))
    while not await ended(client.exists(f"{counter}:begin")):
        await ended(sleep(0.001))
    while True:
        permit = await ended(shared.acquire(*([_LEASE] if kind == "permit_expirable_semaphore" else [])))
        came = time.monotonic_ns()
        value, twin = [int(await ended(client.get(key)) or 0) for key in (counter, f"{counter}:twin")]
        assert value == twin, f"somebody else is inside: {value}, then {twin}"
        over = value >= wanted and bool(times)
        writes = not over and kind != "read_lock"
        if writes:
            await ended(client.set(counter, value + 1))
        if hold:
            await ended(sleep(hold))
        if writes:
            await ended(client.set(f"{counter}:twin", value + 1))
        if not over:
            times.append((came, time.monotonic_ns()))
        await ended(shared.release(*([permit] if kind == "permit_expirable_semaphore" else [])))
        if over:
            return times
        if rest:
            await ended(sleep(random.uniform(0, 2 * rest)))


def check_exclusion(everybody: Sequence[Times]) -> int:
    """No two were inside at once. Returns how often it went from one of them to another."""
    stays = sorted((came, left, who) for who, times in enumerate(everybody) for came, left in times)
    handed_over = 0
    for before, after in itertools.pairwise(stays):
        assert after[0] > before[1], f"{before} and {after} were inside together"
        handed_over += before[2] != after[2]
    return handed_over


def waits_between(everybody: Sequence[Times], languages: Sequence[str]) -> dict[tuple[str, str], list[float]]:
    """How long each hand-over took, in seconds, by the languages of who left and who came."""
    stays = sorted((came, left, who) for who, times in enumerate(everybody) for came, left in times)
    waits: dict[tuple[str, str], list[float]] = {}
    for before, after in itertools.pairwise(stays):
        if before[2] != after[2]:
            pair = languages[before[2]], languages[after[2]]
            waits.setdefault(pair, []).append((after[0] - before[1]) / 1e9)
    return waits
