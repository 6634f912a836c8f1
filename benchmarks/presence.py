"""Many clients that write what they hold: what that costs the server."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from .report import Figure, at_most, show
from .rounds import Tournament, median_of
from .server import Server
from .waiters import monitored
from .wire import lock_name

if TYPE_CHECKING:
    from pyredisson import Lock

__all__ = ["OFF", "ON", "presence", "turn"]

OFF, ON = "presence=False", "presence=True"

PERIODS = 3
"""Periods of the watchdog that are watched."""

LOCKS_PER_CLIENT = 5


def _server_seconds(server: Server) -> float:
    used: dict[str, Any] = server.admin.info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


def turn(server: Server, contestant: str, clients: int, lease_seconds: float) -> dict[str, float]:
    """Clients that hold some locks each, for long enough to write so; the server is watched for three periods."""
    from pyredisson import Config, Redisson

    server.reset()
    after = min(5.0, lease_seconds / 6)
    config = Config(lock_watchdog_timeout=lease_seconds, presence=contestant == ON, presence_after=after)
    held: list[Lock] = []
    with ExitStack() as closing:
        for number in range(clients):
            client = closing.enter_context(Redisson.from_url(server.url, config=config))
            for each in range(LOCKS_PER_CLIENT):
                lock = client.get_lock(lock_name(number * LOCKS_PER_CLIENT + each))
                lock.lock()
                held.append(lock)
        time.sleep(2 * after + 1)
        with monitored(server) as seen:
            begin, used = time.perf_counter(), _server_seconds(server)
            time.sleep(lease_seconds)
            used, elapsed = _server_seconds(server) - used, time.perf_counter() - begin
            written, renewed = seen["SET"], seen["EVALSHA"]
        keys = server.admin.keys("pyredisson_client:*")
        sizes = [int(server.admin.strlen(key)) for key in keys[:20]]
        for lock in held:
            lock.unlock()
    if len(keys) != (clients if contestant == ON else 0):
        raise RuntimeError(f"{len(keys)} of {clients} clients have written what they hold")
    return {
        "% of a core": used / elapsed * 100,
        "written a period": written / PERIODS,
        "renewals a period": renewed / PERIODS,
        "bytes": sum(sizes) / len(sizes) if sizes else 0.0,
    }


def presence(
    server: Server, *, rounds: int, lease_seconds: float, tournament: Tournament, clients: int = 200
) -> Figure:
    """Clients that write once a period what they hold, and the same ones that do not."""
    title = f"{clients} clients that write what they hold"
    played = tournament.play(title, (OFF, ON), rounds, lambda name: turn(server, name, clients, lease_seconds))

    def of(name: str, number: str) -> float:
        return median_of(played, name, number)

    period = lease_seconds / PERIODS
    share = of(ON, "% of a core") - of(OFF, "% of a core")
    at_default = share * lease_seconds / 30
    claims = [
        at_most("the server's load with periods of 10 s", at_default, 1, "% of a core", below=True),
        at_most("requests of a client in a period", of(ON, "written a period") / clients, 1.1),
    ]
    how = (
        f"{clients} clients of one process hold {LOCKS_PER_CLIENT} locks each. The watchdog timeout is "
        f"{lease_seconds:g} s, the period {period:g} s; three periods are watched. {rounds} rounds."
    )
    notes = [f"The difference in the server's load: {show(share)} % of a core, with periods of {period:g} s."]
    columns = ("contestant", "server, % of a core", "written a period", "renewals a period", "bytes each")
    rows = [
        (
            name,
            show(of(name, "% of a core")),
            show(of(name, "written a period")),
            show(of(name, "renewals a period")),
            show(of(name, "bytes")),
        )
        for name in (OFF, ON)
    ]
    return Figure("presence", title, how, columns, rows, claims, notes, {name: list(played[name]) for name in played})
