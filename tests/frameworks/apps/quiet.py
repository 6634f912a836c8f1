"""Run by tests: holders under anyio that are cancelled while the server is stopped, and the CPU time it costs."""

from __future__ import annotations

import os
import time

import anyio

import pyredisson.asyncio as pyredisson
from tests.frameworks.apps.shared import NAME, SECTION, URL, note

HOLDERS = 20


async def main() -> None:
    client = pyredisson.Redisson.from_url(URL, config=pyredisson.Config(timeout=1.5))
    inside = 0

    async def hold(number: int) -> None:
        nonlocal inside
        async with client.get_lock(f"{NAME}-{number}"):
            inside += 1
            await anyio.sleep_forever()

    async with anyio.create_task_group() as group:
        for number in range(HOLDERS):
            group.start_soon(hold, number)
        while inside < HOLDERS:  # noqa: ASYNC110 - nobody tells
            await anyio.sleep(0.005)
        note("holding")
        while not os.path.exists(f"{SECTION}-paused"):  # noqa: ASYNC110, ASYNC240 - it is the test that says so
            await anyio.sleep(0.005)
        before = time.process_time()
        group.cancel_scope.cancel()
    note(f"cpu {time.process_time() - before:.3f}")


if __name__ == "__main__":
    anyio.run(main)
