"""Several processes contend for one lock while everything around them goes wrong: still one at a time.

What the lock guards is a counter that is read, thought about and written back, by a connection that nothing happens
to. It is exact at the end only if nobody was ever inside beside another.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest
import redis

from tests.proxy import Held, Proxy
from tests.real import programs
from tests.real.looking import ANY_SCRIPT, listeners, load_scripts
from tests.real.worlds import WORLDS
from tests.servers import Server
from tests.waiting import until


class Saboteur:
    """Does one harm after another, for as long as it is asked to. What it did is counted when it took effect."""

    def __init__(self, proxy: Proxy, direct: redis.Redis, seed: int) -> None:
        self.proxy = proxy
        self.direct = direct
        self.flushes = 0
        self.kills = 0
        self.delivered = 0
        self._lates: list[Held] = []
        self._random = random.Random(seed)
        self._harms: list[Callable[[], None]] = [
            self._drop,
            self._drop,
            self._duplicate,
            self._hold,
            self._deliver,
            self._deliver,
            self._cut,
            self._blackhole,
            self._delay,
            self._flush,
            self._kill_subscribers,
            self._kill_somebody,
            self._reset_in_the_middle,
        ]

    def harm(self) -> None:
        """Wait for some requests to come through unharmed, then do one harm."""
        enough = self.proxy.requests + self._random.randint(5, 30)
        deadline = time.monotonic() + 0.3
        while self.proxy.requests < enough and time.monotonic() < deadline:
            time.sleep(0.005)
        # Those that have not met their request yet must not pile up, or nothing comes through any more.
        self.proxy._toxics = self.proxy._toxics[-4:]
        self._random.choice(self._harms)()

    def __repr__(self) -> str:
        return f"{self.flushes} flushes, {self.kills} kills, {self.delivered} delivered late"

    def took_effect(self) -> int:
        hits = self.proxy.hits
        names = ("drop_reply", "duplicate_request", "hold_request", "cut", "blackhole", "reset_after")
        return sum(hits[name] for name in names) + self.delivered + self.flushes + self.kills

    def _drop(self) -> None:
        then = self._random.choice(["reset", "hang"])
        self.proxy.drop_reply(ANY_SCRIPT, self._random.randint(1, 5), then=then)  # type: ignore[arg-type]

    def _duplicate(self) -> None:
        self.proxy.duplicate_request(ANY_SCRIPT, self._random.randint(1, 5))

    def _hold(self) -> None:
        self._lates.append(self.proxy.hold_request(ANY_SCRIPT, self._random.randint(1, 3)))

    def _deliver(self) -> None:
        late = self._random.choice(self._lates) if self._lates else None
        if late is not None and late.hits:  # Perhaps not for the first time.
            late.release()
            self.delivered += 1

    def _cut(self) -> None:
        self.proxy.cut()
        time.sleep(self._random.uniform(0, 0.1))
        self.proxy.heal()

    def _blackhole(self) -> None:
        self.proxy.blackhole(self._random.choice(["up", "down", "both"]))  # type: ignore[arg-type]
        time.sleep(self._random.uniform(0, 0.1))
        self.proxy.heal()

    def _delay(self) -> None:
        self.proxy.latency(self._random.uniform(0, 0.01), self._random.uniform(0, 0.02), direction="both")
        time.sleep(0.05)
        self.proxy.latency(0)

    def _flush(self) -> None:
        self.direct.script_flush("SYNC")
        self.flushes += 1

    def _kill_subscribers(self) -> None:
        self.kills += int(self.direct.execute_command("CLIENT", "KILL", "TYPE", "pubsub"))

    def _kill_somebody(self) -> None:
        mine = self.direct.client_id()
        # Not those that keep the counter: they are outside of what is tested.
        clients = self.direct.client_list()
        others = [each["id"] for each in clients if each["id"] != str(mine) and each["lib-name"] != "counter"]
        if others:
            self.kills += int(self.direct.execute_command("CLIENT", "KILL", "ID", self._random.choice(others)))

    def _reset_in_the_middle(self) -> None:
        self.proxy.reset_after(self._random.randint(1, 2000), direction=self._random.choice(["up", "down"]))  # type: ignore[arg-type]


@pytest.mark.volume
def test_one_at_a_time_whatever_goes_wrong(
    fresh_server: Callable[..., Server], unique_name: str, volume: Callable[[int], int]
) -> None:
    server = fresh_server()
    load_scripts(server)
    workers, rounds = 3, volume(300)
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    with Proxy(server.port) as proxy, server.client(decode_responses=True) as direct:
        saboteur = Saboteur(proxy, direct, seed)
        processes = [
            programs.start("contend", proxy.url, server.url, unique_name, colour, workers, rounds)
            for colour in (*WORLDS, *WORLDS)
        ]
        try:
            until(lambda: direct.exists(f"{unique_name}-counter"), within=20, what="it has begun")
            while any(process.poll() is None for process in processes):
                saboteur.harm()
            proxy.clear()
            for process in processes:
                out, err = process.communicate(timeout=30)
                assert process.returncode == 0, err
                assert not err
                unknown, away, lost = map(int, out.split())
                print(f"{unknown} unknown, {away} away, {lost} lost")
                assert lost == 0  # No outage was as long as a lease.
        finally:
            for process in processes:
                process.kill()
                process.communicate()
        assert int(direct.get(f"{unique_name}-counter") or 0) == len(processes) * workers * rounds
        print(f"{saboteur.took_effect()} faults: {saboteur}, {dict(proxy.hits)}")
        assert saboteur.took_effect() >= rounds
        until(lambda: not direct.exists(unique_name), within=8, what="free")
        until(lambda: listeners(direct, unique_name) == 0, what="nobody listens")
