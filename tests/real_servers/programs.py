"""Programs that contend, are interrupted, or end in the middle: each runs in a process of its own, in either form.

``python -m tests.real_servers.programs NAME URL LOCK [ARGUMENTS]`` runs one; it fails by an exception,
and says nothing else on stderr.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import redis

import pyredisson
import pyredisson.asyncio
from pyredisson import Config, LockLostError, NoSyncedSlavesError, OutcomeUnknownError
from pyredisson.core.driver import run as step
from tests.real_servers.handles import handle
from tests.waiting import soon, until

PROGRAMS: dict[str, Callable[..., object]] = {}


def start(name: str, *args: object) -> subprocess.Popen[str]:
    """Start a program."""
    return subprocess.Popen(
        # Interrupted between being made and being run, a coroutine of ours complains that it never was.
        [
            *(sys.executable, "-X", "faulthandler", "-W", "ignore:coroutine:RuntimeWarning"),
            *("-m", "tests.real_servers.programs", name, *map(str, args)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def program(function: Callable[..., object]) -> Callable[..., object]:
    PROGRAMS[function.__name__] = function
    return function


@program
def end(url: str, name: str, how: str) -> None:
    """End while a lock is held."""
    client = pyredisson.Redisson.from_url(url, config=Config(lock_watchdog_timeout=0.8))
    lock = client.get_lock(name)
    lock.lock()
    if how == "unlock at exit":
        atexit.register(lock.unlock)
    if how == "close at exit":
        atexit.register(client.close)
    print("ending", flush=True)
    if how == "exception":
        sys.excepthook = lambda *args: None
        raise RuntimeError("unhandled")
    sys.exit(0)


# --- contention ---

#: What a worker does to have a call done: at once under threads, awaited under asyncio.
Do: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]

#: Seconds that have to be left for a write to be begun.
CERTAIN = 0.5


async def at_once(call: Callable[..., Any], *args: Any) -> Any:
    return call(*args)


async def awaited(call: Callable[..., Any], *args: Any) -> Any:
    return await call(*args)


class Blocks:
    """Blocks of one guard, which one worker enters and leaves whatever goes wrong.

    Attributes:
        went_through: How often the outcome was unknown, the server was away, and a hold was lost.
    """

    def __init__(self, guard: Any, do: Do) -> None:
        self._guard = guard
        self._do = do
        self.went_through = {"unknown": 0, "away": 0, "lost": 0}

    async def enter(self) -> None:
        """Enter a new block, however many attempts that takes."""
        entered = False
        while not entered:
            self._block = self._guard.hold()
            entered = await self._tried("enter")

    async def leave(self) -> None:
        """Leave the block, once: what this does not release is released in the background."""
        await self._tried("exit", None, None, None)

    def certain(self) -> bool:
        """Whether what it guards may be written now."""
        return bool(self._lease.remaining() > CERTAIN)

    async def _tried(self, step: str, *args: object) -> bool:
        method = getattr(self._block, f"__a{step}__", None) or getattr(self._block, f"__{step}__")
        try:
            result = await self._do(method, *args)
        except LockLostError:
            self.went_through["lost"] += 1
        except OutcomeUnknownError:
            self.went_through["unknown"] += 1
        except NoSyncedSlavesError:
            pass  # A master that has just changed has no replica yet: nothing was acquired.
        except (redis.exceptions.RedisError, OSError):
            self.went_through["away"] += 1
        else:
            if step == "enter":
                self._lease = result
            return True
        return False


@program
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

    async def worker(client: Any, direct: Any, do: Do, sleep: Callable[[float], Any]) -> dict[str, int]:
        mine = Blocks(handle(client, kind, name), do)
        reading = Blocks(handle(client, "read_lock", name), do) if kind == "write_lock" else None
        left = int(rounds)
        # Once they all are there it is known whose connections these are: nothing shall happen to them.
        while not await do(direct.exists, f"{name}-go"):
            await do(sleep, 0.01)
        while left and not await do(direct.exists, f"{name}-stop"):
            await mine.enter()
            value = int(await do(direct.get, counter) or 0)
            await do(sleep, random.uniform(0, 0.002))
            if mine.certain():
                stroke = direct.pipeline(transaction=True)
                stroke.set(counter, value + 1)
                stroke.hincrby(written, str(os.getpid()))
                await do(stroke.execute)
                left -= 1
            await mine.leave()
            if reading is not None:
                await reading.enter()
                before = await do(direct.get, counter)
                await do(sleep, random.uniform(0, 0.002))
                after = await do(direct.get, counter)
                assert before == after or not reading.certain(), "another owner wrote while this one read"
                await reading.leave()
        if reading is not None:
            mine.went_through = {each: count + reading.went_through[each] for each, count in mine.went_through.items()}
        return mine.went_through

    def all_settled(client: Any) -> bool:
        """Whether no request is in doubt: what a closed client leaves so is left to its lease."""
        return not client._core.watchdog._unsettled

    def by_threads() -> list[dict[str, int]]:
        client = pyredisson.Redisson.from_url(url, config=config)

        def work(_: int) -> dict[str, int]:
            with redis.Redis.from_url(direct_url, lib_name="counter") as direct:
                return step(worker(client, direct, at_once, time.sleep))

        with ThreadPoolExecutor(int(workers)) as pool:
            results = list(pool.map(work, range(int(workers))))
        until(lambda: all_settled(client), within=10)
        client.close()
        return results

    async def by_tasks() -> list[dict[str, int]]:
        import redis.asyncio

        client = pyredisson.asyncio.Redisson.from_url(url, config=config)

        async def work() -> dict[str, int]:
            async with redis.asyncio.Redis.from_url(direct_url, lib_name="counter") as direct:
                return await worker(client, direct, awaited, asyncio.sleep)

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
    assert Path(__file__).name == "programs.py"
    # What a shell starts in the background ignores it, and so does all that is started from there.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
