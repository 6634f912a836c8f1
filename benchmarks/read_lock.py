"""Many threads that read under one read lock, compared with as many that have a lock each."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from .contestants import PYREDISSON, Contestant, LockCalls, Session, prove_exclusion
from .report import Claim, Figure, at_least, show
from .rounds import Tournament, median_of, median_ratio
from .separate_locks import side_by_side
from .server import Server
from .throughput import rates
from .wire import lock_name

__all__ = ["readers"]


class _ReadersSession:
    """All threads read one lock; the stranger wants to write."""

    def __init__(self, url: str, closing: ExitStack) -> None:
        from pyredisson import Redisson

        self._both = closing.enter_context(Redisson.from_url(url)).get_read_write_lock(lock_name(0))

    def lock(self, number: int) -> LockCalls:
        lock = self._both.read_lock()
        return LockCalls(lock.acquire, lock.release)

    def stranger_gets(self, number: int) -> bool:
        acquired: list[bool] = []
        lock = self._both.write_lock()
        thread = threading.Thread(target=lambda: acquired.append(lock.try_lock()))
        thread.start()
        thread.join()
        return acquired[0]


@contextmanager
def _open_readers(server: Server) -> Iterator[Session]:
    with ExitStack() as closing:
        yield _ReadersSession(server.url, closing)


SEPARATE = Contestant("a lock each", PYREDISSON.open)
READERS = Contestant("one read lock", _open_readers)
#: What the server does once for each pair: it deletes the lock, or sets a reader's hold.
PROOF = {SEPARATE.name: "del", READERS.name: "set"}

COLUMNS = ("contestant", "pairs/s", "us/pair", "CPU us/pair", "commands/pair", "bytes/pair")


def measure(server: Server, contestant: Contestant, threads: int, seconds: float) -> dict[str, float]:
    """One contestant's turn, with the proof that the work was done."""
    server.reset()
    with contestant.open(server) as session:
        prove_exclusion(server, session)
        locks = [session.lock(number) for number in range(threads)]
        server.reset()
        counted = side_by_side(locks, seconds)
        commands = sum(server.calls().values()) / counted.in_all
        return {**rates(server, contestant.name, counted, PROOF[contestant.name]), "commands/pair": commands}


def readers(server: Server, *, rounds: int, seconds: float, tournament: Tournament, threads: int = 64) -> Figure:
    """Acquire and release by many threads, all of them on one read lock."""
    title = f"{threads} threads on one read lock"
    contestants = {one.name: one for one in (SEPARATE, READERS)}
    samples = tournament.play(
        title, list(contestants), rounds, lambda name: measure(server, contestants[name], threads, seconds)
    )
    numbers = ("pairs/s", "us/pair", "CPU us/pair", "commands/pair", "bytes/pair")
    rows = [(name, *(show(median_of(samples, name, number)) for number in numbers)) for name in samples]
    claims: list[Claim] = [
        at_least("pairs of a lock each", median_ratio(samples, READERS.name, SEPARATE.name, "pairs/s"), 0.8, "x")
    ]
    how = (
        f"{threads} threads of one process over one shared client, all reading under one lock, against as many with a "
        f"plain lock each. {rounds} rounds of {seconds:g} s each. Commands are those inside scripts, too."
    )
    return Figure("readers", title, how, COLUMNS, rows, claims, samples=samples)
