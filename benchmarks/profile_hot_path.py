"""``python -m benchmarks.profile_hot_path``: what an acquire and release costs, layer by layer, in microseconds.

There is no tracing profiler, which would cost more than what it measures. Each layer is measured with a stub in place
of the layers below it; the difference of the processor times is what the layer costs:

=========================  ===========================================================================
the loop                   the measuring loop with two empty functions
façade                     the methods of ``Lock`` and ``run()``, over a core that does nothing
core                       ownerships, deadlines, watchdog, events; the runtime answers immediately
link                       the pool of connections and one connection; the socket answers immediately
socket and server          the real ones
=========================  ===========================================================================

It also prints the times of a raw socket with the same bytes and of redis-py's lock, parts that are timed alone, the
Python calls of one pair, and where a sampling timer finds the program. The stubs replace private attributes of the
library, which no other benchmark does: ``Lock._core``, ``Redisson._runtime`` and the pool of its link.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from . import coroutines
from .contestants import RAW, REDIS_PY, LockCalls
from .server import Server
from .wire import ACQUIRED, RELEASED, lock_name, sha

__all__ = ["main"]

PACKAGE = str(Path(__file__).parent.parent / "pyredisson") + os.sep
SAMPLE_SECONDS = 0.001


# ---- stubs ---------------------------------------------------------------------------------------------------------


class IdleCore:
    """A core whose coroutines do nothing, so that only the façade is left."""

    last = None

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, bool]]:
        if name.startswith("__"):
            raise AttributeError(name)

        async def nothing(*arguments: object) -> bool:
            return True

        setattr(self, name, nothing)
        return nothing


class EchoSocket:
    """A socket that answers immediately, as the server would."""

    def __init__(self) -> None:
        self._release = sha("release").encode()
        self._reply = b""

    def sendall(self, data: bytes) -> None:
        """Note the answer."""
        self._reply = RELEASED if self._release in data else ACQUIRED

    send = sendall

    def fileno(self) -> int:
        """It has none, so that everything is sent by :meth:`sendall`."""
        return -1

    def recv(self, size: int, flags: int = 0) -> bytes:
        """Answer; when peeking, that nothing has arrived."""
        if flags:
            raise BlockingIOError
        return self._reply

    def setsockopt(self, *option: object) -> None:
        """Set nothing."""

    def close(self) -> None:
        """Close nothing."""


def answer_at_once(runtime: Any) -> None:
    """Let a runtime answer the lock's two requests itself."""
    send = runtime.eval

    async def answer(request: Any, timeout: float) -> object:
        name = request.script.name
        if name == "lock_acquire":
            return None
        return 1 if name == "lock_release" else await send(request, timeout)

    runtime.eval = answer


def do_nothing() -> bool:
    """Do nothing, for the empty loop."""
    return True


# ---- measuring -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Took:
    """A pair's mean time in microseconds: by the clock, and on the processor in the calling thread."""

    wall: float
    cpu: float


def time_pairs(calls: LockCalls, pairs: int) -> Took:
    """The mean time of a pair."""
    acquire, release = calls.acquire, calls.release
    wall, cpu = time.perf_counter(), time.thread_time()
    for _ in range(pairs):
        acquire()
        release()
    wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
    return Took(wall / pairs * 1e6, cpu / pairs * 1e6)


def best_of_each(layers: Mapping[str, LockCalls], rounds: int, pairs: int, order: random.Random) -> dict[str, Took]:
    """Each layer's best round, the layers in random order within each.

    The best, because what disturbs only ever adds: this tells what the work costs, not how a busy machine feels.
    """
    times: dict[str, list[Took]] = {name: [] for name in layers}
    for _ in range(rounds):
        for name in order.sample(list(layers), len(layers)):
            gc.collect()
            time_pairs(layers[name], max(1, pairs // 10))
            times[name].append(time_pairs(layers[name], pairs))
    return {name: Took(min(one.wall for one in each), min(one.cpu for one in each)) for name, each in times.items()}


def nanoseconds(action: Callable[[], object], count: int = 10_000) -> float:
    """The best mean time of one call, less the loop."""
    best, empty = float("inf"), float("inf")
    for _ in range(9):
        begin = time.thread_time_ns()
        for _ in range(count):
            do_nothing()
        middle = time.thread_time_ns()
        for _ in range(count):
            action()
        end = time.thread_time_ns()
        empty, best = min(empty, middle - begin), min(best, end - middle)
    return max(0.0, (best - empty) / count)


def calls_of(pair: Callable[[], object]) -> Counter[str]:
    """The Python functions that one pair calls, by name."""
    seen: Counter[str] = Counter()

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            seen[name_of(frame.f_code)] += 1

    sys.setprofile(note)
    try:
        pair()
    finally:
        sys.setprofile(None)
    return seen


@contextmanager
def timer() -> Iterator[Counter[str]]:
    """Count in which function of the library a timer of processor time finds the program at work.

    Python delivers signals between certain bytecodes, so a function that calls nothing is partly found in its caller.
    """
    found: Counter[str] = Counter()

    def look(number: int, frame: FrameType | None) -> None:
        while frame is not None and not frame.f_code.co_filename.startswith(PACKAGE):
            frame = frame.f_back
        found["(outside the library)" if frame is None else name_of(frame.f_code)] += 1

    before = signal.signal(signal.SIGPROF, look)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)
    try:
        yield found
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def name_of(code: CodeType) -> str:
    """File and function."""
    name = getattr(code, "co_qualname", code.co_name)  # Python 3.11 knows the class as well.
    file = code.co_filename
    return f"{file.removeprefix(PACKAGE) if file.startswith(PACKAGE) else Path(file).name}:{name}"


def show_samples(title: str, found: Counter[str], us_per_pair: float) -> None:
    """Print what the timer found, as parts of the time of a pair."""
    show(
        f"Where a timer finds it, {title} ({found.total()} samples of {us_per_pair:.1f} us a pair), us a pair",
        [(name, f"{count / found.total() * us_per_pair:.2f}") for name, count in found.most_common(25)],
    )


# ---- coroutines ------------------------------------------------------------------------------------------------------


async def time_tasks(locks: Sequence[coroutines.LockCalls], pairs: int) -> Took:
    """The mean time of a pair when one task for each lock makes that many."""

    async def work(calls: coroutines.LockCalls) -> None:
        acquire, release = calls.acquire, calls.release
        for _ in range(pairs):
            await acquire()
            await release()

    wall, cpu = time.perf_counter(), time.thread_time()
    await asyncio.gather(*map(work, locks))
    wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
    made = pairs * len(locks) / 1e6
    return Took(wall / made, cpu / made)


async def profile_coroutines(server: Server, tasks: int, rounds: int, pairs: int) -> None:
    """Print what a pair costs under asyncio, with many tasks at it, and where a timer finds the event loop."""
    async with (
        coroutines.RAW.open(server) as raw,
        coroutines.REDIS_PY.open(server) as redis_py,
        coroutines.PYREDISSON.open(server) as whole,
        coroutines.PYREDISSON.open(server) as core_only,
    ):
        sessions = {"raw": raw, "redis-py": redis_py, "whole": whole, "core": core_only}
        locks = {name: [session.lock(number) for number in range(tasks)] for name, session in sessions.items()}
        for each in locks.values():
            await time_tasks(each, 1)
        answer_at_once(core_only.client._runtime)  # type: ignore[attr-defined]
        times: dict[str, list[Took]] = {name: [] for name in locks}
        for _ in range(rounds):
            for name in random.sample(list(locks), len(locks)):
                gc.collect()
                times[name].append(await time_tasks(locks[name], pairs))
        wall = {name: min(one.wall for one in each) for name, each in times.items()}
        cpu = {name: min(one.cpu for one in each) for name, each in times.items()}
        show(
            f"{tasks} coroutines, us a pair: by the clock / on the processor",
            [
                ("pyredisson.asyncio", f"{wall['whole']:.1f} / {cpu['whole']:.1f}"),
                ("  of which façade and core (the runtime answers immediately)", f"{cpu['core']:.1f}"),
                ("one pipelined raw connection", f"{wall['raw']:.1f} / {cpu['raw']:.1f}"),
                ("redis.asyncio.Lock", f"{wall['redis-py']:.1f} / {cpu['redis-py']:.1f}"),
                ("rate of pyredisson.asyncio, of raw", f"{wall['raw'] / wall['whole']:.2f}"),
                ("rate of pyredisson.asyncio, of redis.asyncio", f"{wall['redis-py'] / wall['whole']:.2f}"),
            ],
        )
        with timer() as found:
            await time_tasks(locks["whole"], pairs * rounds)
        show_samples("100 coroutines", found, cpu["whole"])


# ---- the library, with and without its lower half ------------------------------------------------------------------


class Opened:
    """A client of the library whose lower layers can be replaced by stubs."""

    def __init__(self, client: Any, name: str) -> None:
        self.client = client
        self.lock = client.get_lock(name)
        self.runtime = client._runtime
        self.calls = LockCalls(self.lock.acquire, self.lock.release)
        self.calls.acquire()
        self.calls.release()

    def with_idle_core(self) -> LockCalls:
        """The façade alone."""
        lock = self.client.get_lock(self.lock.name)
        lock._core = IdleCore()
        return LockCalls(lock.acquire, lock.release)

    def with_idle_socket(self) -> None:
        """Let the socket of every connection answer immediately."""
        for connection in self.runtime.link._pool.idle:
            connection.sock.close()
            connection.sock = EchoSocket()


@contextmanager
def opened(server: Server, number: int, *, stubbed: bool = False) -> Iterator[Opened]:
    """A client for each layer, because the stubs stay."""
    from pyredisson import Config, Redisson

    # A stub has no answer for the watchdog.
    config = Config(lock_watchdog_timeout=3600) if stubbed else Config()
    with Redisson.from_url(server.url, config=config) as client:
        yield Opened(client, lock_name(number))


def parts_of(runtime: Any) -> dict[str, float]:
    """Pieces of the path, timed alone, in nanoseconds."""
    import threading

    from pyredisson._core.runtime import run

    async def one() -> None:
        return None

    async def nested() -> None:
        return await one()

    mutex = runtime.mutex()

    def with_mutex() -> None:
        with mutex:
            pass

    pieces: dict[str, Callable[[], object]] = {
        "run() of an empty coroutine": lambda: run(one()),
        "run() of two nested ones": lambda: run(nested()),
        "the argument rules of threading.Lock": lambda: threading.Lock().acquire(True, -1),
        "runtime.now()": runtime.now,
        "runtime.owner()": runtime.owner,
        "an empty `with mutex`": with_mutex,
    }
    return {name: nanoseconds(piece) for name, piece in pieces.items()}


def show(title: str, rows: Sequence[tuple[str, str]]) -> None:
    """Print a table of two columns."""
    print(title)
    if rows:
        left, right = (max(len(row[column]) for row in rows) for column in (0, 1))
        for name, value in rows:
            print(f"  {name.ljust(left)}  {value.rjust(right)}")
    print()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile_hot_path", description="Where the time goes.")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--pairs", type=int, default=1000, help="in each layer's turn")
    parser.add_argument("--server", metavar="PATH", help="server binary to start; by default the embedded extra's")
    options = parser.parse_args(arguments)

    with (
        Server(options.server) as server,
        RAW.open(server) as raw,
        REDIS_PY.open(server) as redis_py,
        opened(server, 1) as whole,
        opened(server, 2, stubbed=True) as core_only,
        opened(server, 3, stubbed=True) as with_link,
    ):
        answer_at_once(core_only.runtime)
        with_link.with_idle_socket()
        layers = {
            "loop": LockCalls(do_nothing, do_nothing),
            "facade": whole.with_idle_core(),
            "core": core_only.calls,
            "link": with_link.calls,
            "whole": whole.calls,
            "raw": raw.lock(4),
            "redis-py": redis_py.lock(5),
        }
        took = best_of_each(layers, options.rounds, options.pairs, random.Random())
        server.reset()
        time_pairs(layers["raw"], options.pairs)
        in_server = 2 * server.usec()["evalsha"]
        cpu = {name: one.cpu - took["loop"].cpu for name, one in took.items()}
        wall = {name: one.wall - took["loop"].wall for name, one in took.items()}
        show(
            "The library's own Python, us on the processor a pair (an acquire and a release)",
            [
                ("façade: Lock's methods, run()", f"{cpu['facade']:.2f}"),
                ("core: ownerships, deadlines, watchdog, events", f"{cpu['core'] - cpu['facade']:.2f}"),
                ("link: pool, connection, reply", f"{cpu['link'] - cpu['core']:.2f}"),
                ("in all", f"{cpu['link']:.2f}"),
            ],
        )
        show(
            "With socket and server, us a pair: by the clock / on the processor",
            [
                (name, f"{wall[layer]:.1f} / {cpu[layer]:.1f}")
                for name, layer in (
                    ("pyredisson", "whole"),
                    ("raw socket, the same bytes", "raw"),
                    ("redis-py Lock", "redis-py"),
                )
            ]
            + [
                (
                    "pyredisson over the raw socket",
                    f"{wall['whole'] - wall['raw']:.1f} / {cpu['whole'] - cpu['raw']:.1f}",
                ),
                (
                    "pyredisson, times the raw socket",
                    f"{wall['whole'] / wall['raw']:.2f} / {cpu['whole'] / cpu['raw']:.2f}",
                ),
                ("the two scripts inside the server", f"{in_server:.1f}"),
            ],
        )
        show("Pieces timed alone, ns", [(name, f"{value:.0f}") for name, value in parts_of(core_only.runtime).items()])

        def pair() -> None:
            with_link.calls.acquire()
            with_link.calls.release()

        called = calls_of(pair)
        show(
            f"Python calls of one pair: {called.total()}", [(name, str(count)) for name, count in called.most_common()]
        )
        with timer() as found:
            time_pairs(with_link.calls, options.pairs * options.rounds * 10)
        show_samples("sockets stubbed", found, cpu["link"])
        asyncio.run(profile_coroutines(server, tasks=100, rounds=options.rounds, pairs=options.pairs // 20))
    return 0


if __name__ == "__main__":
    sys.exit(main())
