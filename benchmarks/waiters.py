"""Many waiters of one process on one held lock: what they cost while they wait, and how fast they are served."""

from __future__ import annotations

import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from statistics import median

from .contestants import PYREDISSON, REDIS_PY, Contestant, Session, prove_exclusion
from .report import Figure, at_most, show
from .rounds import Samples, Tournament, median_ratio, say
from .server import Server
from .wire import lock_name, pack

__all__ = ["waiters"]

SETTLE_SECONDS = 1.0
SERVE_SECONDS = 60.0
HELD_LOCK = 0
SERVED = "ms to serve all"


@contextmanager
def monitored(server: Server) -> Iterator[Counter[str]]:
    """Count what clients send, by command; what scripts call inside the server is not counted.

    ``INFO`` alone would mix the two: its ``get`` may be a client's or a script's.
    """
    seen: Counter[str] = Counter()
    with socket.create_connection((server.host, server.port)) as connection:
        connection.sendall(pack("MONITOR"))
        lines = connection.makefile("rb")
        if lines.readline() != b"+OK\r\n":
            raise RuntimeError("the server does not let us watch it")

        def count() -> None:
            for line in lines:
                # +1339518083.107412 [0 127.0.0.1:60866] "keys" "*", or [0 lua] for what a script calls
                if b" lua]" not in line and b'"' in line:
                    seen[line.split(b'"')[1].decode().upper()] += 1

        watching = threading.Thread(target=count)
        watching.start()
        try:
            yield seen
        finally:
            connection.shutdown(socket.SHUT_RDWR)
            watching.join()


class OneAtATime:
    """A critical section that notices when two are inside, and counts in a way that only a lock makes right."""

    def __init__(self) -> None:
        self.served = 0
        self.overlaps = 0
        self._inside = 0

    def pass_through(self) -> None:
        """Enter and leave."""
        self._inside += 1
        if self._inside != 1:
            self.overlaps += 1
        served = self.served
        time.sleep(0)
        self.served = served + 1
        self._inside -= 1


def hold(server: Server, contestant: Contestant, session: Session) -> Callable[[], object]:
    """Acquire the lock as another client, and return the function that releases it."""
    calls = session.lock(HELD_LOCK)
    if not calls.acquire() or server.admin.exists(lock_name(HELD_LOCK)) != 1:
        raise RuntimeError(f"{contestant.name} could not take the lock")
    return calls.release


def turn(server: Server, contestant: Contestant, count: int, watch_seconds: float) -> dict[str, float]:
    """Let them wait, watch the server, free the lock, and time until the last one is through.

    Args:
        server: Where.
        contestant: Who.
        count: How many threads wait.
        watch_seconds: How long the server is watched before the lock is freed; 0: not at all.
    """
    server.reset()
    section = OneAtATime()
    result: dict[str, float] = {}
    # The holder is another client, so that nothing but the server can tell the waiters.
    with contestant.open(server) as elsewhere, contestant.open(server) as session:
        prove_exclusion(server, session)
        free = hold(server, contestant, elsewhere)
        begun = threading.Semaphore(0)

        def wait_and_pass() -> None:
            calls = session.lock(HELD_LOCK)
            begun.release()
            calls.acquire()
            section.pass_through()
            calls.release()

        threads = [threading.Thread(target=wait_and_pass, daemon=True) for _ in range(count)]
        for thread in threads:
            thread.start()
        for _ in threads:
            begun.acquire()
        time.sleep(SETTLE_SECONDS)
        if watch_seconds:
            with monitored(server) as seen:
                before = server.calls()
                begin = time.perf_counter()
                time.sleep(watch_seconds)
                elapsed = time.perf_counter() - begin
                after = server.calls()
            del seen["INFO"]
            in_all = sum(after.values()) - sum(before.values()) - 1  # less one INFO
            result |= {"commands/s": seen.total() / elapsed, "with scripts' own/s": in_all / elapsed}
            result |= {f"{command}/s": number / elapsed for command, number in sorted(seen.items())}
        if section.served:
            raise RuntimeError(f"{contestant.name} let a waiter in while the lock was held")
        begin = time.perf_counter()
        free()
        give_up = begin + SERVE_SECONDS
        for thread in threads:
            thread.join(max(0.0, give_up - time.perf_counter()))
        result[SERVED] = (time.perf_counter() - begin) * 1e3
        left = server.keys()
    if section.served != count or section.overlaps:
        raise RuntimeError(f"{contestant.name} served {section.served} of {count}, {section.overlaps} at the same time")
    if left:
        raise RuntimeError(f"{contestant.name} left {left} keys behind")
    return result


def _rows(watched: Samples, served: Samples) -> Sequence[Sequence[str]]:
    rows = []
    for name, turns in served.items():
        times = [one[SERVED] for one in turns]
        quiet = watched[name][0]
        rows.append(
            (
                name,
                show(quiet["commands/s"]),
                show(quiet["with scripts' own/s"]),
                show(median(times)),
                f"{show(min(times))} - {show(max(times))}",
            )
        )
    return rows


def waiters(server: Server, *, rounds: int, watch_seconds: float, tournament: Tournament, count: int = 20) -> Figure:
    """Threads of one process that wait for a lock that another client holds."""
    title = f"{count} waiters of one process on a held lock"
    contestants = {one.name: one for one in (REDIS_PY, PYREDISSON)}
    names = list(contestants)
    say(f"{title}: watching the server")
    watched = tournament.play(title, names, 1, lambda name: turn(server, contestants[name], count, watch_seconds))
    served = tournament.play(title, names, rounds, lambda name: turn(server, contestants[name], count, 0))
    quiet = watched[PYREDISSON.name][0]
    claims = [
        at_most("commands while waiting, pings included", quiet["commands/s"], 1.0, "/s"),
        at_most(
            "time to serve all, of redis-py's Lock",
            median_ratio(served, PYREDISSON.name, REDIS_PY.name, SERVED),
            0.25,
            "x",
        ),
    ]
    sent = {
        name: ", ".join(
            f"{key.removesuffix('/s')} {value * watch_seconds:.0f}"
            for key, value in watched[name][0].items()
            if key[0].isupper()
        )
        or "nothing"
        for name in names
    }
    columns = ("contestant", "commands/s", "with scripts' own", SERVED, "fastest - slowest round")
    how = (
        f"{count} threads wait while another client holds the lock; the server is watched for {watch_seconds:g} s "
        f"after {SETTLE_SECONDS:g} s, the holder's renewals included; then the lock is freed, and each takes and frees "
        f"it once. {rounds} rounds for the time. redis-py with its default sleep of 0.1 s."
    )
    notes = [f"sent in {watch_seconds:g} s by {name}: {what}" for name, what in sent.items()]
    quiet_only = {name: {what: value for what, value in watched[name][0].items() if what != SERVED} for name in names}
    samples = {name: [quiet_only[name], *served[name]] for name in names}
    return Figure("waiters", title, how, columns, _rows(watched, served), claims, notes, samples)
