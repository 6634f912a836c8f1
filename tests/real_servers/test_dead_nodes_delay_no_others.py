"""A node of a cluster that is dead or silent delays no renewal on the other nodes by more than half an interval."""

import time
from contextlib import suppress

import pytest

from pyredisson.events import WatchdogLate

LEASE = 6.0
NODES = 3
INTERVAL = LEASE / 3


@pytest.mark.parametrize("how", ["silent", "dead"])
def test_renewals_elsewhere_are_in_time(world, fresh_cluster, unique_name, how):
    fresh_cluster.be_patient()
    client = world.connected(fresh_cluster.url, lock_watchdog_timeout=LEASE)
    actor, names = world.actor(), [f"{unique_name}-{number}" for number in range(30)]
    contexts = {name: client.get_lock(name).hold() for name in names}
    leases = {name: actor.do(world.enter(context)) for name, context in contexts.items()}
    failed = fresh_cluster.masters()[0]
    away = [name for name in names if fresh_cluster.master_of(name) is failed]
    healthy = [name for name in names if name not in away]
    assert away
    assert healthy
    world.pass_time(INTERVAL)
    (failed.pause if how == "silent" else failed.kill)()
    began, lowest = time.monotonic(), LEASE
    while time.monotonic() - began < 3 * LEASE:
        lowest = min(lowest, *(leases[name].remaining() for name in healthy))
        time.sleep(0.02)
    print(f"{how}: {lowest:.2f} s of {LEASE:.0f} s left at the lowest")
    assert lowest > LEASE - INTERVAL - INTERVAL / 2 - 0.1
    assert sorted({name for name, _ in world.losses}) == sorted(away)
    assert not world.heard(WatchdogLate)
    if how == "silent":
        failed.resume()
    for name, context in contexts.items():
        with suppress(Exception):
            actor.do(world.leave(context))
        assert name in away or not leases[name].lost


@pytest.mark.parametrize("how", ["silent", "dead"])
def test_the_other_nodes_of_a_quorum_are_renewed_in_time(world, fresh_server, unique_name, how):
    servers = [fresh_server() for _ in range(NODES)]
    clients = [world.connected(server.url, lock_watchdog_timeout=LEASE) for server in servers]
    lock = world.api.RedLock(*(client.get_lock(unique_name) for client in clients))
    single = clients[-1].get_lock(f"{unique_name}-alone").hold()
    actor = world.actor()
    leases = [actor.do(world.enter(block)) for block in (lock.hold(), single)]
    (servers[0].pause if how == "silent" else servers[0].kill)()
    began, lowest = time.monotonic(), LEASE
    while time.monotonic() - began < 2 * LEASE:
        lowest = min(lowest, *(each.remaining() for each in leases))
        time.sleep(0.02)
    assert lowest > LEASE - INTERVAL - INTERVAL / 2 - 0.1
    assert not world.losses
    assert not world.heard(WatchdogLate)
    assert not world.actor().do(lock.try_lock)
    if how == "silent":
        servers[0].resume()
