"""Several processes contend for what only one may have, while everything goes wrong: still one at a time.

What the lock guards is a counter that is read, thought about and written back, by a connection that nothing happens
to. It is exact at the end only if nobody was ever inside beside another.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest
import redis

import pyredisson
from pyredisson._core.names import WAITING
from tests.proxy import Held, Proxy
from tests.real_servers.contenders import COUNTER, Contenders
from tests.real_servers.handles import handle
from tests.real_servers.observation import ANY_SCRIPT, channels, keys, load_scripts
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
        self.proxy.drop_reply(ANY_SCRIPT, self._random.randint(1, 5), then=then)

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
        self.proxy.blackhole(self._random.choice(["up", "down", "both"]))
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
        others = [each["id"] for each in clients if each["id"] != str(mine) and each["lib-name"] != COUNTER]
        if others:
            self.kills += int(self.direct.execute_command("CLIENT", "KILL", "ID", self._random.choice(others)))

    def _reset_in_the_middle(self) -> None:
        self.proxy.reset_after(self._random.randint(1, 2000), direction=self._random.choice(["up", "down"]))


def counting(direct: redis.Redis) -> int:
    """How many have come to keep the counter."""
    return sum(each["lib-name"] == COUNTER for each in direct.client_list())


def begin(direct: redis.Redis, kind: str, name: str) -> None:
    """Where there have to be permits, let there be one."""
    if kind in ("semaphore", "permit_expirable_semaphore"):
        direct.set(name, 1)


def over(direct: redis.Redis, kind: str, name: str) -> None:
    """Nothing is left of it."""
    if kind in ("semaphore", "permit_expirable_semaphore"):
        until(lambda: direct.get(name) == "1", within=20, what="its permit is there")
        direct.delete(name)
    # The list of those who were killed while they waited expires by itself, later.
    until(lambda: not {key for key in keys(direct, name) if not key.startswith(WAITING)}, within=20, what="free")
    until(lambda: not channels(direct, name), what="nobody listens")


# What it is that only one may have; how many processes, and how often each of three workers has it.
CONTENTIONS = {
    "lock": (4, 300),
    "fair_lock": (2, 80),
    "write_lock": (2, 80),
    "semaphore": (2, 80),
    "permit_expirable_semaphore": (2, 80),
}


@pytest.mark.volume
@pytest.mark.parametrize("kind", CONTENTIONS)
def test_only_one_owner_at_a_time_whatever_goes_wrong(own, unique_name, volume, kind):
    load_scripts(own)
    processes, rounds = CONTENTIONS[kind]
    workers, rounds = 3, volume(6, full=rounds)
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    with Proxy(own.port) as proxy, own.client(decode_responses=True) as direct:
        saboteur = Saboteur(proxy, direct, seed)
        begin(direct, kind, unique_name)
        with Contenders(proxy.url, own, unique_name, processes, workers, rounds, kind) as contenders:
            until(lambda: counting(direct) == processes * workers, within=90, what="all have come")
            direct.set(f"{unique_name}-go", 1)
            while contenders.under_way():
                saboteur.harm()
            proxy.clear()
            assert contenders.went_through()["lost"] == 0  # No outage was as long as a lease.
        assert int(direct.get(f"{unique_name}-counter") or 0) == processes * workers * rounds
        print(f"{saboteur.took_effect()} faults: {saboteur}, {dict(proxy.hits)}")
        assert saboteur.took_effect() >= processes * rounds // 8
        over(direct, kind, unique_name)


@pytest.mark.parametrize(
    "kind", [pytest.param("fair_lock", marks=pytest.mark.quick), "write_lock", "permit_expirable_semaphore"]
)
def test_only_one_owner_at_a_time_though_one_is_killed_in_the_middle(valkey, direct, unique_name, kind):
    begin(direct, kind, unique_name)
    counter, written, go = (f"{unique_name}-{key}" for key in ("counter", "written", "go"))
    direct.set(go, 1)
    with Contenders(valkey.url, valkey, unique_name, 2, 2, 1_000_000, kind, 1.5) as contenders:
        victim, survivor = contenders.processes

        def has_written(process):
            return int(direct.hget(written, str(process.pid)) or 0)

        until(lambda: has_written(victim) >= 3 and has_written(survivor) >= 3, within=90, what="both are at it")
        victim.kill()
        victim.wait()
        before = has_written(survivor)
        until(lambda: has_written(survivor) >= before + 10, within=30, what="the other one goes on")
        assert survivor.poll() is None
    with direct.pipeline(transaction=True) as at_once:  # What the dead sent last may be done just now.
        value, parts = at_once.get(counter).hvals(written).execute()
    assert int(value or 0) == sum(map(int, parts))
    direct.delete(counter, written, go)
    with pyredisson.Redisson.from_url(valkey.url) as client:  # What the dead had, and their places: somebody comes.
        guard = handle(client, kind, unique_name)
        if kind == "permit_expirable_semaphore":
            guard.release(guard.try_acquire(20))
        else:
            assert guard.try_lock(20)
            guard.unlock()
    over(direct, kind, unique_name)
