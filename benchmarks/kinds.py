"""What each kind of lock, and each way to acquire it, costs in proportion to the plain lock.

As in ``listeners.py``, all are connected at the same time, and take turns of a fraction of a second.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .report import Figure, at_least, show
from .rounds import Tournament, median_of, median_ratio
from .server import Server

if TYPE_CHECKING:
    from pyredisson import Redisson
    from pyredisson.asyncio import Redisson as AsyncRedisson

__all__ = ["kinds"]

PLAIN = "lock"

#: How a handle is made, and how it is used: as a lock, by blocks of ``hold()``, as permits, or as permits with an id.
KINDS: dict[str, tuple[Callable[[Any, str], Any], str]] = {
    PLAIN: (lambda client, name: client.get_lock(name), "lock"),
    "hold()": (lambda client, name: client.get_lock(name), "hold"),
    "fixed lease": (lambda client, name: client.get_lock(name), "lease"),
    "try_lock": (lambda client, name: client.get_lock(name), "try"),
    "fenced": (lambda client, name: client.get_fenced_lock(name), "lock"),
    "read": (lambda client, name: client.get_read_write_lock(name).read_lock(), "lock"),
    "write": (lambda client, name: client.get_read_write_lock(name).write_lock(), "lock"),
    "spin": (lambda client, name: client.get_spin_lock(name), "lock"),
    "non-reentrant": (lambda client, name: client.get_non_reentrant_lock(name), "lock"),
    "token": (lambda client, name: client.get_token_lock(name), "lock"),
    "fair": (lambda client, name: client.get_fair_lock(name), "lock"),
    "semaphore": (lambda client, name: client.get_semaphore(name, permits=1), "permits"),
    "expiring permit": (lambda client, name: client.get_permit_expirable_semaphore(name, permits=1), "permit"),
    "multi-lock of two": (
        lambda client, name: client.get_multi_lock(client.get_lock(name), client.get_lock(f"{name}-2")),
        "lock",
    ),
}

ONE, THREADS, TASKS = "1 thread", "64 threads", "100 tasks"

#: Of the plain lock's pairs: ``hold()``, every other kind. Under asyncio the server limits the plain lock.
BOUNDS = {ONE: (0.9, 0.8), THREADS: (0.85, 0.7), TASKS: (0.8, None)}
WORKERS = {ONE: 1, THREADS: 64, TASKS: 100}

#: Seconds of one slice: many workers need longer to get going.
SLICES = {ONE: 0.02, THREADS: 0.1, TASKS: 0.1}


def _pairs(handle: Any, use: str, until: float) -> int:
    """Acquire and release until then, in a thread. Returns how often."""
    pairs, now = 0, time.perf_counter
    while now() < until:
        match use:
            case "lock":
                handle.lock()
                handle.unlock()
            case "lease":
                handle.lock(lease_time=30)
                handle.unlock()
            case "try":
                assert handle.try_lock(5)
                handle.unlock()
            case "hold":
                with handle.hold():
                    pass
            case "permits":
                handle.acquire()
                handle.release()
            case _:
                handle.release(handle.acquire())
        pairs += 1
    return pairs


async def _async_pairs(handle: Any, use: str, until: float) -> int:
    """Acquire and release until then, in a task. Returns how often."""
    pairs, now = 0, time.perf_counter
    while now() < until:
        match use:
            case "lock":
                await handle.lock()
                await handle.unlock()
            case "lease":
                await handle.lock(lease_time=30)
                await handle.unlock()
            case "try":
                assert await handle.try_lock(5)
                await handle.unlock()
            case "hold":
                async with handle.hold():
                    pass
            case "permits":
                await handle.acquire()
                await handle.release()
            case _:
                await handle.release(await handle.acquire())
        pairs += 1
    return pairs


def _in_threads(handles: Sequence[Any], use: str, seconds: float) -> float:
    """Let a thread for each handle acquire and release. Returns the pairs of all in a second."""
    until, done = time.perf_counter() + seconds, []
    if len(handles) == 1:
        return _pairs(handles[0], use, until) / seconds
    threads = [
        threading.Thread(target=lambda handle=handle: done.append(_pairs(handle, use, until))) for handle in handles
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(done) != len(handles):
        raise RuntimeError(f"{len(handles) - len(done)} of {len(handles)} threads failed")
    return sum(done) / seconds


def _names(kind: str, workers: str) -> list[str]:
    return [f"{kind}:{workers}:{number}" for number in range(WORKERS[workers])]


def _slices(workers: str, seconds: float) -> list[str]:
    """The kinds that are measured, one after the other, in random order each time."""
    times = max(1, round(seconds / SLICES[workers]))
    return [kind for _ in range(times) for kind in random.sample(list(KINDS), len(KINDS))]


def _under_threads(client: Redisson, workers: str, seconds: float) -> dict[str, list[float]]:
    handles = {kind: [make(client, name) for name in _names(kind, workers)] for kind, (make, _) in KINDS.items()}
    for kind, (_, use) in KINDS.items():
        _in_threads(handles[kind], use, SLICES[workers])
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for kind in _slices(workers, seconds):
        rates[kind].append(_in_threads(handles[kind], KINDS[kind][1], SLICES[workers]))
    return rates


async def _under_asyncio(url: str, workers: str, seconds: float) -> dict[str, list[float]]:
    from pyredisson.asyncio import Redisson

    client: AsyncRedisson
    async with Redisson.from_url(url) as client:
        handles = {kind: [make(client, name) for name in _names(kind, workers)] for kind, (make, _) in KINDS.items()}

        async def turn(kind: str) -> float:
            until = time.perf_counter() + SLICES[workers]
            pairs = await asyncio.gather(*[_async_pairs(each, KINDS[kind][1], until) for each in handles[kind]])
            return sum(pairs) / SLICES[workers]

        for kind in KINDS:
            await turn(kind)
        rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
        for kind in _slices(workers, seconds):
            rates[kind].append(await turn(kind))
        return rates


def _measure(server: Server, workers: str, seconds: float) -> dict[str, float]:
    """One round. Returns what each kind did in a second.

    Raises:
        RuntimeError: Something is held afterwards.
    """
    from pyredisson import Redisson

    server.reset()
    with Redisson.from_url(server.url) as client:
        if workers == TASKS:
            rates = asyncio.run(_under_asyncio(server.url, workers, seconds))
        else:
            rates = _under_threads(client, workers, seconds)
        held = [lock.name for lock in client.find_locks() if lock.holders]
    if held:
        raise RuntimeError(f"held after the last release: {held}")
    return {f"{kind}|pairs/s": sum(each) / len(each) for kind, each in rates.items()}


def kinds(server: Server, *, rounds: int, seconds: float, tournament: Tournament) -> Figure:
    """Acquire and release each kind of lock, by one thread, by 64, and by 100 tasks."""
    title = "Each kind of lock"
    turns = tournament.play(title, list(BOUNDS), rounds, lambda workers: _measure(server, workers, seconds))
    samples: dict[str, Sequence[Mapping[str, float]]] = {
        f"{kind}, {workers}": [
            {what.partition("|")[2] or what: value for what, value in turn.items() if what.startswith(f"{kind}|")}
            for turn in turns[workers]
        ]
        for workers in BOUNDS
        for kind in KINDS
    }
    rows, claims = [], []
    for contestant in samples:
        kind, _, workers = contestant.partition(", ")
        ratio = median_ratio(samples, contestant, f"{PLAIN}, {workers}", "pairs/s")
        rows.append((contestant, show(median_of(samples, contestant, "pairs/s")), show(ratio)))
        bound = BOUNDS[workers][kind != "hold()"]
        if kind not in (PLAIN, "multi-lock of two") and bound is not None:
            claims.append(at_least(f"rate of {contestant}", ratio, bound, "x"))
    how = (
        f"A lock without contention for each thread or task, one client, {rounds} rounds, in which each kind has "
        f"{seconds:g} s in slices, in turn with the others."
    )
    return Figure("kinds", title, how, ("kind, callers", "pairs/s", "of the plain lock"), rows, claims, samples=samples)
