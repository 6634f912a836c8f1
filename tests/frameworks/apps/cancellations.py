"""Run by tests: tasks under anyio whose acquire, body and release are cancelled at random, over asyncio or uvloop.

anyio cancels a level: whatever is awaited in a cancelled scope is cancelled, again and again, until the scope is left.
"""

from __future__ import annotations

import asyncio
import random
import sys
from typing import Any

import anyio

import pyredisson.asyncio as pyredisson
from tests.frameworks.apps.shared import NAME, URL, CriticalSection, note

CROWD = 8


async def use(client: pyredisson.Redisson, chance: random.Random) -> None:
    """Take a lock in one of the ways there are, in a scope whose time is up at a random moment."""
    kind = chance.choice(["lock", "lock", "fair_lock", "spin_lock"])
    lock = getattr(client, f"get_{kind}")(f"{NAME}-{kind}")
    form = chance.choice(["with", "hold", "nested", "try", "itself", "group"])
    with anyio.move_on_after(chance.choice([0.0, 0.001, 0.003, 0.01, 0.03]) * chance.random()) as scope:
        if form == "try":
            if await lock.try_lock(5):
                try:
                    await inside(kind, chance)
                finally:
                    await lock.unlock()
        elif form == "nested":
            async with lock, lock.hold(wait_time=5):
                await inside(kind, chance)
        elif form == "itself":
            async with lock:
                scope.cancel()
                await inside(kind, chance)
        elif form == "group":
            async with lock.hold(wait_time=5), anyio.create_task_group() as group:
                group.start_soon(anyio.sleep, 5)
                await inside(kind, chance)
                group.cancel_scope.cancel()
        else:
            async with lock.hold(wait_time=5) if form == "hold" else lock:
                await inside(kind, chance)
    if scope.cancelled_caught:
        note("cancelled")


async def inside(kind: str, chance: random.Random) -> None:
    with CriticalSection(kind):
        await anyio.sleep(chance.choice([0.0, 0.002, 0.01]))


async def main(wanted: int, seed: int) -> None:
    chance = random.Random(seed)
    client = pyredisson.Redisson.from_url(URL)
    await client.get_lock(f"{NAME}-warm-up").locked()
    done = 0

    async def work() -> None:
        nonlocal done
        while done < wanted:
            done += 1
            await use(client, chance)

    async with anyio.create_task_group() as group:
        for _ in range(CROWD):
            group.start_soon(work)
    task: Any = asyncio.current_task()
    assert sys.version_info < (3, 11) or task.cancelling() == 0
    # What was given back in the background is so within moments, far from the end of any lease.
    with anyio.fail_after(10):
        for kind in ("lock", "fair_lock", "spin_lock"):
            lock = getattr(client, f"get_{kind}")(f"{NAME}-{kind}")
            assert await lock.try_lock(8), f"{kind} is not free"
            await lock.unlock()
        while client._core.watchdog.watching():  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(0.01)
    await client.close()
    assert len(asyncio.all_tasks()) == 1, asyncio.all_tasks()


if __name__ == "__main__":
    anyio.run(
        main,
        int(sys.argv[2]),
        int(sys.argv[3]),
        backend="asyncio",
        backend_options={"use_uvloop": sys.argv[1] == "uvloop"},
    )
