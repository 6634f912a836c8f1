"""Programs that fork, are interrupted, or end in the middle: each runs in a process of its own, in either form.

``python -m tests.real_servers.programs NAME URL LOCK [ARGUMENTS]`` runs one; it fails by an exception,
and says nothing else on stderr.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

import redis

import pyredisson
import pyredisson.asyncio
from pyredisson import Config, LockLostError, LockNotOwnedError, OutcomeUnknownError, QuorumUnreachableError
from pyredisson.core.driver import run as step
from pyredisson.core.names import LockNames
from tests.real_servers.handles import handle
from tests.waiting import soon, until

PROGRAMS: dict[str, Callable[..., object]] = {}


def run(name: str, *args: object, timeout: float = 60.0) -> str:
    """Run a program, and return what it printed."""
    done = start(name, *args)
    try:
        out, err = done.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        done.send_signal(signal.SIGABRT)
        out, err = done.communicate()
        raise AssertionError(f"{name} hangs:\n{out}\n{err}") from None
    assert done.returncode == 0, f"{name} ended with {done.returncode}:\n{out}\n{err}"
    assert not err, err
    return out


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


def counts(url: str, name: str) -> list[int]:
    """The hold counts that stand in Redis."""
    with redis.Redis.from_url(url) as direct:
        return [int(count) for count in direct.hvals(name)]


def raises(kind: type[Exception], call: Callable[[], object]) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"no {kind.__name__}")


def in_child(work: Callable[[], object]) -> int:
    """Fork, and let the child do it. Returns its pid."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def fine(pid: int) -> bool:
    """Wait for a child, and say whether all went well there."""
    done, status = until(lambda: ended(pid), within=20.0, what=f"child {pid} ends")
    assert done == pid
    return status == 0


def ended(pid: int) -> tuple[int, int] | None:
    done = os.waitpid(pid, os.WNOHANG)
    return done if done[0] else None


# --- forks ---


@program
def fork_among_threads(url: str, name: str, forks: str) -> None:
    """Others hold, wait, acquire and release all the time while the main thread forks."""
    client = pyredisson.Redisson.from_url(url)
    held, shared = client.get_lock(name), client.get_lock(f"{name}-2")
    got: list[float] = []
    over, let_go = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def holder() -> None:
        with held:
            let_go.wait()

    def waiter() -> None:
        with held:
            got.append(time.monotonic())

    def busy() -> None:
        while not over.is_set():
            with shared:
                pass

    def guarded(work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(work,)) for work in (holder, waiter, busy, busy, busy)]
    threads[0].start()
    until(lambda: counts(url, name), what="held")
    for thread in threads[1:]:
        thread.start()

    def child() -> None:
        for _ in range(5):
            with shared:
                pass
        assert not held.try_lock()
        assert not held.try_lock(0.05)
        raises(LockNotOwnedError, held.unlock)

    for _ in range(int(forks) // 4):
        pids = [in_child(child) for _ in range(4)]
        outcomes = [fine(pid) for pid in pids]
        assert all(outcomes)
    assert not got
    over.set()
    let_go.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert not errors, errors
    assert len(got) == 1
    client.close()
    until(lambda: not counts(url, name) and not counts(url, f"{name}-2"), what="nothing is held")


# --- the end of the process ---


def _say_and(end: Callable[[], object]) -> None:
    print("ending", flush=True)
    end()


@program
def end_threads(url: str, name: str, how: str) -> None:
    client = pyredisson.Redisson.from_url(url, config=Config(lock_watchdog_timeout=0.8))
    lock = client.get_lock(name)
    if how == "daemon thread holds":
        threading.Thread(target=lambda: (lock.lock(), threading.Event().wait()), daemon=True).start()
        until(lambda: counts(url, name), what="held")
        return _say_and(lambda: None)
    lock.lock()
    if how == "daemon thread waits":
        threading.Thread(target=lock.lock, daemon=True).start()
        until(lambda: client._core.subscriptions.waiting(LockNames(name).channel), what="waits")
        return _say_and(lambda: None)
    if how == "unlock at exit":
        atexit.register(lock.unlock)
        return _say_and(lambda: None)
    if how == "close at exit":
        atexit.register(client.close)
        return _say_and(lambda: None)
    if how == "exception":
        _say_and(lambda: None)
        sys.excepthook = lambda *args: None
        raise RuntimeError("unhandled")
    ends: dict[str, Callable[[], object]] = {
        "return": lambda: None,
        "sys.exit": lambda: sys.exit(0),
        "os._exit": lambda: os._exit(0),
        "SIGTERM": lambda: os.kill(os.getpid(), signal.SIGTERM),
    }
    return _say_and(ends[how])


@program
def end_asyncio(url: str, name: str, how: str) -> None:
    async def main() -> None:
        client = pyredisson.asyncio.Redisson.from_url(url, config=Config(lock_watchdog_timeout=0.8))
        lock = client.get_lock(name)
        await lock.lock()
        if how == "task waits":
            keep = asyncio.create_task(lock.lock())
            await soon(lambda: client._core.subscriptions.waiting(LockNames(name).channel))
            assert not keep.done()
        print("ending", flush=True)
        if how == "exception":
            sys.excepthook = lambda *args: None
            raise RuntimeError("unhandled")
        if how == "sys.exit":
            sys.exit(0)
        if how == "os._exit":
            os._exit(0)
        if how == "SIGINT":
            os.kill(os.getpid(), signal.SIGINT)
            await asyncio.sleep(10)

    if how == "SIGINT":
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(main())
    else:
        asyncio.run(main())


# --- interrupts ---


@program
def interrupted_asyncio(url: str, name: str, rounds: str) -> None:
    """Ctrl-C as asyncio has it: the main task is cancelled, and ``asyncio.run`` raises ``KeyboardInterrupt``."""
    interrupts = 0

    async def main() -> None:
        client = pyredisson.asyncio.Redisson.from_url(url, config=Config(timeout=2.0))
        print("interrupt me", flush=True)  # Once: a second Ctrl-C ends an event loop wherever it is.
        try:
            while True:
                async with client.get_lock(name):
                    await asyncio.sleep(0)
        finally:
            await client.close()

    while interrupts < int(rounds):
        try:
            asyncio.run(main())
        except KeyboardInterrupt:
            interrupts += 1
    until(lambda: not counts(url, name), what="nothing is held")


# --- contention ---

#: What a worker does to have a call done: at once under threads, awaited under asyncio.
Do: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]


async def at_once(call: Callable[..., Any], *args: Any) -> Any:
    return call(*args)


async def awaited(call: Callable[..., Any], *args: Any) -> Any:
    return await call(*args)


class Turns:
    """Turns at what only one may have, taken and given back whatever goes wrong, by one worker.

    Attributes:
        went_through: How often nobody knew, the server was away, and a hold was lost.
    """

    def __init__(self, guard: Any, do: Do) -> None:
        self._guard = guard
        self._do = do
        self.went_through = {"unknown": 0, "away": 0, "lost": 0}

    async def take(self) -> None:
        """Have the turn."""
        while not await self._tried(self._take):
            pass

    async def give(self) -> None:
        """Give it back."""
        while not await self._tried(self._give):
            pass

    def certain(self) -> bool:
        """Whether what it guards may be written now."""
        return True

    async def _take(self) -> None:
        await self._do(self._guard.lock)

    async def _give(self) -> None:
        await self._do(self._guard.unlock)  # If nobody knows, calling it again continues it.

    async def _tried(self, step: Callable[[], Coroutine[Any, Any, None]]) -> bool:
        try:
            await step()
        except LockLostError:
            self.went_through["lost"] += 1
            return step == self._give
        except OutcomeUnknownError:
            self.went_through["unknown"] += 1
            return self._seen_to_behind(step)
        except (redis.exceptions.RedisError, OSError, QuorumUnreachableError):
            self.went_through["away"] += 1
            return False
        return True

    def _seen_to_behind(self, step: object) -> bool:
        return False


class Majorities(Turns):
    """Turns by a Redlock. What an unlock leaves open is released in the background."""

    async def _give(self) -> None:
        try:
            await super()._give()
        except (OutcomeUnknownError, QuorumUnreachableError):
            self.went_through["away"] += 1


class Blocks(Turns):
    """Turns by blocks, which say for how long they are certain. What cannot be left at once is left behind."""

    async def _take(self) -> None:
        block = self._guard.hold()
        enter = block.__aenter__ if hasattr(block, "__aenter__") else block.__enter__
        self._lease = await self._do(enter)
        self._leave = block.__aexit__ if hasattr(block, "__aexit__") else block.__exit__

    async def _give(self) -> None:
        try:
            await self._do(self._leave, None, None, None)
        except (redis.exceptions.RedisError, OSError):
            self.went_through["away"] += 1

    def certain(self) -> bool:
        return bool(self._lease.remaining() > CERTAIN)

    def _seen_to_behind(self, step: object) -> bool:
        return step == self._give


class Permits(Turns):
    """Turns by the only permit there is. A release of which nobody knows is repeated behind."""

    async def _take(self) -> None:
        await self._do(self._guard.acquire)

    async def _give(self) -> None:
        await self._do(self._guard.release)

    def _seen_to_behind(self, step: object) -> bool:
        return step == self._give


class Leases(Permits):
    """Turns by the only permit there is, which expires."""

    def __init__(self, guard: Any, do: Do, sleep: Callable[[float], Any], lease: float) -> None:
        super().__init__(guard, do)
        self._sleep = sleep
        self._seconds = lease
        self._permit = ""
        self._until = 0.0

    async def take(self) -> None:
        while True:
            began = time.monotonic()
            # No wait: what it waited would have to be taken off the lease.
            if await self._tried(self._take) and self._permit:
                self._until = began + self._seconds
                return
            await self._do(self._sleep, 0.005)

    async def _take(self) -> None:
        self._permit = ""
        self._permit = await self._do(self._guard.try_acquire, 0, self._seconds) or ""

    async def _give(self) -> None:
        if not await self._do(self._guard.try_release, self._permit):
            self.went_through["lost"] += 1

    def certain(self) -> bool:
        return time.monotonic() < self._until - CERTAIN


#: Seconds that have to be left for a write to be begun.
CERTAIN = 0.5


@program
def contend(
    urls: str, direct_url: str, name: str, runtime: str, workers: str, rounds: str, kind: str = "lock", lease: str = "6"
) -> None:
    """Read, think, write: exact only if the guard keeps everybody else out. Prints what it went through.

    With several URLs the guard is a Redlock. What each process has written is counted with the same stroke, so that it
    is known of one that is killed, too.
    """
    seconds = float(lease)
    config = Config(
        timeout=1.0,
        lock_watchdog_timeout=seconds,
        fair_lock_wait_timeout=seconds,
        ping_interval=0.5,
        ping_timeout=1.0,
        quorum_node_timeout=0.1,
    )
    counter, written = f"{name}-counter", f"{name}-written"

    def turns(clients: list[Any], do: Do, sleep: Callable[[float], Any]) -> Turns:
        client = clients[0]
        if len(clients) > 1:
            return Majorities(client.get_red_lock(*[handle(each, kind, name) for each in clients]), do)
        if kind == "semaphore":
            return Permits(client.get_semaphore(name), do)
        if kind == "permit_expirable_semaphore":
            return Leases(client.get_permit_expirable_semaphore(name), do, sleep, seconds)
        return Turns(client.get_lock(name), do) if kind == "lock" else Blocks(handle(client, kind, name), do)

    async def worker(clients: list[Any], direct: Any, do: Do, sleep: Callable[[float], Any]) -> dict[str, int]:
        mine = turns(clients, do, sleep)
        reading = Blocks(handle(clients[0], "read_lock", name), do) if kind == "write_lock" else None
        left = int(rounds)
        # Once they all are there it is known whose connections these are: nothing shall happen to them.
        while not await do(direct.exists, f"{name}-go"):
            await do(sleep, 0.01)
        while left:
            await mine.take()
            value = int(await do(direct.get, counter) or 0)
            await do(sleep, random.uniform(0, 0.002))
            if mine.certain():
                stroke = direct.pipeline(transaction=True)
                stroke.set(counter, value + 1)
                stroke.hincrby(written, str(os.getpid()))
                await do(stroke.execute)
                left -= 1
            await mine.give()
            if reading is not None:
                await reading.take()
                before = await do(direct.get, counter)
                await do(sleep, random.uniform(0, 0.002))
                after = await do(direct.get, counter)
                assert before == after or not reading.certain(), "somebody wrote beside a reader"
                await reading.give()
        if reading is not None:
            mine.went_through = {each: count + reading.went_through[each] for each, count in mine.went_through.items()}
        return mine.went_through

    def all_settled(clients: list[Any]) -> bool:
        """Whether no request is in doubt: what closed clients leave so is left to its lease."""
        return not any(client._core.watchdog._unsettled for client in clients)

    def by_threads() -> list[dict[str, int]]:
        clients = [pyredisson.Redisson.from_url(url, config=config) for url in urls.split()]

        def work(_: int) -> dict[str, int]:
            with redis.Redis.from_url(direct_url, lib_name="counter") as direct:
                return step(worker(clients, direct, at_once, time.sleep))

        with ThreadPoolExecutor(int(workers)) as pool:
            results = list(pool.map(work, range(int(workers))))
        until(lambda: all_settled(clients), within=10)
        for client in clients:
            client.close()
        return results

    async def by_tasks() -> list[dict[str, int]]:
        import redis.asyncio

        clients = [pyredisson.asyncio.Redisson.from_url(url, config=config) for url in urls.split()]

        async def work() -> dict[str, int]:
            async with redis.asyncio.Redis.from_url(direct_url, lib_name="counter") as direct:
                return await worker(clients, direct, awaited, asyncio.sleep)

        results = await asyncio.gather(*(work() for _ in range(int(workers))))
        await soon(lambda: all_settled(clients))
        for client in clients:
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
