"""Threads on separate locks: one, and sixty-four."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from .contestants import PYREDISSON, RAW, REDIS_PY, Contestant, LockCalls, prove_exclusion
from .report import Claim, Figure, at_least, at_most
from .rounds import Samples, Tournament, median_ratio
from .server import Server
from .throughput import WARM_UP_PAIRS, WARM_UP_SECONDS, Counted, Window, rates, throughput_table

__all__ = ["many_threads", "measure", "one_thread", "side_by_side"]


def pairs_until(deadline: float, calls: LockCalls) -> int:
    """Acquire and release until the time has ended; the measured loop of every contestant."""
    acquire, release, now = calls.acquire, calls.release, time.perf_counter
    pairs = 0
    while now() < deadline:
        if not acquire():
            raise RuntimeError("a lock that no other owner uses was refused")
        release()
        pairs += 1
    return pairs


def side_by_side(locks: Sequence[LockCalls], seconds: float) -> Counted:
    """Let one thread for each lock acquire and release, and count in a window in which all of them are at it.

    The pools of the contestants open connections as they need them; the time before the window is for that.
    """
    window: Window | None = None
    before: list[int] = []
    within: list[int] = []

    def open_the_window() -> None:
        nonlocal window
        window = Window.after(WARM_UP_SECONDS, seconds)

    barrier = threading.Barrier(len(locks) + 1, action=open_the_window)

    def work(calls: LockCalls) -> None:
        try:
            for _ in range(WARM_UP_PAIRS):
                calls.acquire()
                calls.release()
            barrier.wait()
        except BaseException:
            barrier.abort()
            raise
        assert window is not None
        before.append(WARM_UP_PAIRS + pairs_until(window.begin, calls))
        within.append(pairs_until(window.end, calls))

    threads = [threading.Thread(target=work, args=(calls,)) for calls in locks]
    for thread in threads:
        thread.start()
    barrier.wait()
    assert window is not None
    spent = window.watch()
    for thread in threads:
        thread.join()
    if len(within) != len(locks):
        raise RuntimeError(f"{len(locks) - len(within)} of {len(locks)} threads failed")
    return Counted(sum(before) + sum(within), sum(within), spent)


def measure(server: Server, contestant: Contestant, threads: int, seconds: float) -> dict[str, float]:
    """One contestant's turn, with the proof that the work was done."""
    server.reset()
    with contestant.open(server) as session:
        prove_exclusion(server, session)
        locks = [session.lock(number) for number in range(threads)]
        server.reset()
        return rates(server, contestant.name, side_by_side(locks, seconds))


def _samples(server: Server, title: str, threads: int, rounds: int, seconds: float, tournament: Tournament) -> Samples:
    contestants = {one.name: one for one in (RAW, REDIS_PY, PYREDISSON)}
    return tournament.play(
        title, list(contestants), rounds, lambda name: measure(server, contestants[name], threads, seconds)
    )


def one_thread(server: Server, *, rounds: int, seconds: float, tournament: Tournament) -> Figure:
    """Acquire and release by a single thread."""
    title = "One thread, acquire and release"
    samples = _samples(server, title, 1, rounds, seconds, tournament)
    columns, rows = throughput_table(samples, RAW.name)
    claims: list[Claim] = [
        at_most("time of redis-py's Lock", median_ratio(samples, PYREDISSON.name, REDIS_PY.name, "us/pair"), 1.0, "x"),
        at_most("time of a raw socket", median_ratio(samples, PYREDISSON.name, RAW.name, "us/pair"), 1.35, "x"),
    ]
    how = (
        f"A lock without contention, one thread, {rounds} rounds of {seconds:g} s each. "
        "The raw socket sends the same two scripts as ready-made bytes."
    )
    return Figure("one_thread", title, how, columns, rows, claims, samples=samples)


def many_threads(server: Server, *, rounds: int, seconds: float, tournament: Tournament, threads: int = 64) -> Figure:
    """Acquire and release by many threads, each on a lock of its own."""
    title = f"{threads} threads on separate locks"
    samples = _samples(server, title, threads, rounds, seconds, tournament)
    columns, rows = throughput_table(samples, RAW.name)
    claims: list[Claim] = [
        at_least("pairs of redis-py's Lock", median_ratio(samples, PYREDISSON.name, REDIS_PY.name, "pairs/s"), 4, "x"),
        at_least(
            "pairs of raw blocking sockets",
            median_ratio(samples, PYREDISSON.name, RAW.name, "pairs/s"),
            0.5,
            "x",
            aim=0.8,
        ),
    ]
    how = (
        f"{threads} threads of one process, each on its own lock, over one shared client; raw: one blocking socket a "
        f"thread. {rounds} rounds of {seconds:g} s each."
    )
    return Figure("many_threads", title, how, columns, rows, claims, samples=samples)
