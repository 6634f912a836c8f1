"""Processes of both forms that contend for one thing, whatever goes wrong."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from typing import TYPE_CHECKING, Any

import redis

import pyredisson
import pyredisson.asyncio
from pyredisson import Config, LockLostError, NoSyncedSlavesError, OutcomeUnknownError
from pyredisson._core.runtime import run as step
from tests.forms import ended, enter_of, exit_of
from tests.real_servers.handles import handle
from tests.waiting import soon, until

if TYPE_CHECKING:
    from tests.servers import Server

#: What the connections of those who keep the counter are called.
COUNTER = "counter"


class Contenders:
    """Some processes of both forms that contend for one thing."""

    def __init__(self, url: str, server: Server, name: str, count: int, *arguments: object) -> None:
        self.processes = [
            _start(url, server.url, name, runtime, *arguments)
            for runtime, _ in zip(cycle(("threads", "asyncio")), range(count), strict=False)
        ]

    def under_way(self) -> bool:
        """Whether they are at it still, and none of them has failed: the others might wait for it for ever."""
        ends = [process.poll() for process in self.processes]
        return None in ends and not any(ends)

    def went_through(self) -> Counter[str]:
        """Wait for their ends, and count the outcomes that were unknown, the failures to connect, and the losses."""
        found: Counter[str] = Counter()
        for process in sorted(self.processes, key=lambda process: process.poll() is None):
            out, err = process.communicate(timeout=60)
            assert process.returncode == 0, err
            assert not err
            found.update(dict(zip(("unknown", "away", "lost"), map(int, out.split()), strict=True)))
        return found

    def __enter__(self) -> Contenders:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


def _start(*arguments: object) -> subprocess.Popen[str]:
    """Start one of them."""
    # Interrupted between being made and being run, a coroutine of ours complains that it never was.
    command = [sys.executable, "-X", "faulthandler", "-W", "ignore:coroutine:RuntimeWarning", "-m", __name__]
    return subprocess.Popen([*command, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


# ---- in their processes ----------------------------------------------------------------------------------------------

#: Seconds that have to be left for a write to be begun.
CERTAIN = 0.5


class Blocks:
    """Blocks of one guard, which one worker enters and leaves whatever goes wrong.

    Attributes:
        went_through: How often the outcome was unknown, the server was away, and a hold was lost.
    """

    def __init__(self, guard: Any) -> None:
        self._guard = guard
        self._lease: Any = None
        self.went_through = {"unknown": 0, "away": 0, "lost": 0}

    async def enter(self) -> None:
        """Enter a new block, however many attempts that takes."""
        self._lease = None
        while self._lease is None:
            self._block = self._guard.hold()
            self._lease = await self._tried(enter_of(self._block))

    async def leave(self) -> None:
        """Leave the block, once: what this does not release is released in the background."""
        await self._tried(exit_of(self._block), None, None, None)

    def certain(self) -> bool:
        """Whether what it guards may be written now."""
        return bool(self._lease.remaining() > CERTAIN)

    async def _tried(self, call: Callable[..., Any], *args: object) -> Any:
        try:
            return await ended(call(*args))
        except LockLostError:
            self.went_through["lost"] += 1
        except OutcomeUnknownError:
            self.went_through["unknown"] += 1
        except NoSyncedSlavesError:
            pass  # A master that has just changed has no replica yet: nothing was acquired.
        except (redis.exceptions.RedisError, OSError):
            self.went_through["away"] += 1


def contend(
    url: str,
    direct_url: str,
    name: str,
    runtime: str,
    workers: str,
    rounds: str,
    kind: str,
    lease: str = "6",
    timeout: str = "1",
) -> None:
    """Read, think, write: exact only if the guard keeps everybody else out. Prints what it went through.

    What each process has written is counted with the same stroke, so that it is known of one that is killed, too.
    """
    config = Config(
        timeout=float(timeout),
        lock_watchdog_timeout=float(lease),
        fair_lock_wait_timeout=float(lease),
        ping_interval=0.5,
        ping_timeout=1.0,
    )
    counter, written = f"{name}-counter", f"{name}-written"

    async def worker(client: Any, direct: Any, sleep: Callable[[float], Any]) -> dict[str, int]:
        mine = Blocks(handle(client, kind, name))
        reading = Blocks(handle(client, "read_lock", name)) if kind == "write_lock" else None
        left = int(rounds)
        # Once they all are there it is known whose connections these are: nothing shall happen to them.
        while not await ended(direct.exists(f"{name}-go")):
            await ended(sleep(0.01))
        while left and not await ended(direct.exists(f"{name}-stop")):
            await mine.enter()
            value = int(await ended(direct.get(counter)) or 0)
            await ended(sleep(random.uniform(0, 0.002)))
            if mine.certain():
                stroke = direct.pipeline(transaction=True)
                stroke.set(counter, value + 1)
                stroke.hincrby(written, str(os.getpid()))
                await ended(stroke.execute())
                left -= 1
            await mine.leave()
            if reading is not None:
                await reading.enter()
                before = await ended(direct.get(counter))
                await ended(sleep(random.uniform(0, 0.002)))
                after = await ended(direct.get(counter))
                assert before == after or not reading.certain(), "another owner wrote while this one read"
                await reading.leave()
        if reading is not None:
            mine.went_through = {each: count + reading.went_through[each] for each, count in mine.went_through.items()}
        return mine.went_through

    def all_settled(client: Any) -> bool:
        """Whether no request is open: what a closed client leaves so is left to its lease, and a permit has none."""
        return not client._core.watchdog._unsettled and not client._core.ledger.count()

    def by_threads() -> list[dict[str, int]]:
        client = pyredisson.Redisson.from_url(url, config=config)

        def work(_: int) -> dict[str, int]:
            with redis.Redis.from_url(direct_url, lib_name=COUNTER) as direct:
                return step(worker(client, direct, time.sleep))

        with ThreadPoolExecutor(int(workers)) as pool:
            results = list(pool.map(work, range(int(workers))))
        until(lambda: all_settled(client), within=10)
        client.close()
        return results

    async def by_tasks() -> list[dict[str, int]]:
        import redis.asyncio

        client = pyredisson.asyncio.Redisson.from_url(url, config=config)

        async def work() -> dict[str, int]:
            async with redis.asyncio.Redis.from_url(direct_url, lib_name=COUNTER) as direct:
                return await worker(client, direct, asyncio.sleep)

        results = await asyncio.gather(*(work() for _ in range(int(workers))))
        await soon(lambda: all_settled(client))
        await client.close()
        return list(results)

    results = by_threads() if runtime == "threads" else asyncio.run(by_tasks())
    print(*(sum(each[what] for each in results) for what in ("unknown", "away", "lost")))


if __name__ == "__main__":
    import logging

    logging.getLogger("pyredisson").addHandler(logging.NullHandler())
    logging.getLogger("pyredisson").propagate = False
    # What a shell starts in the background ignores it, and so does all that is started from there.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    contend(*sys.argv[1:])
