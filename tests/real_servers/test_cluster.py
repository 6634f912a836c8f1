"""Redis Cluster: what works on one server works there, wherever slots and masters move meanwhile."""

from __future__ import annotations

import gc
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
from redis.crc import key_slot

from pyredisson import Redisson, events
from pyredisson._core.names import LockNames
from tests.clusters import RunningCluster
from tests.command_line import run_python
from tests.real_servers.handles import handle
from tests.real_servers.kind_table import FENCED, KINDS
from tests.real_servers.observation import busy, listens, waiting
from tests.real_servers.test_mutual_exclusion import Contenders
from tests.servers import HOST, REDIS_6, Server
from tests.waiting import until
from tests.worlds.clock import ClockWorld


def slot(name: str) -> int:
    return int(key_slot(name.encode()))


def left_of(cluster: RunningCluster, name: str) -> list[str]:
    """The keys that belong to a name."""
    return [key for key in cluster.all_keys() if name in key]


def nothing_left(cluster: RunningCluster, client: Any, name: str) -> None:
    """Nothing is held, watched or unsettled (any more, within a few seconds)."""
    until(lambda: client._core.watchdog.watching() == 0, 15, what="nothing is watched")
    until(lambda: not busy(client), 15, what=f"nothing is pending: {busy(client)}")
    until(
        lambda: [key for key in left_of(cluster, name) if not key.startswith("pyredisson_")] == [],
        15,
        what=f"no key of {name} is left",
    )


# ---- everything works there ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_waiter_acquires_what_is_released(world, any_cluster, unique_name, kind):
    client, holder, waiter = world.from_url(any_cluster.url, timeout=6.0), world.actor(), world.actor()
    let_in = kind.block(holder, client, unique_name)
    handle = kind.handle(client, unique_name)
    if kind.try_acquire:
        assert not waiter.do(getattr(handle, kind.try_acquire))
    acquired = waiter.start(getattr(handle, kind.acquire))
    let_in()
    kind.give_back(waiter, handle, acquired.result(20))
    stays = {unique_name} if kind.has_permits else set()
    if kind is FENCED:
        stays = {f"redisson_lock_token:{{{unique_name}}}"}
    until(
        lambda: {key for key in left_of(any_cluster, unique_name) if not key.startswith("pyredisson_")} == stays,
        what="only permits, or the last token, are left",
    )
    assert not busy(client)


def test_messages_go_to_a_shard_where_the_server_has_that(world, any_cluster, unique_name):
    check_messages(world, any_cluster, unique_name, "AUTO", sharded=any_cluster.build is not REDIS_6)


@pytest.mark.parametrize("mode", ["ON", "OFF"])
def test_how_messages_go_can_be_set(world, cluster, unique_name, mode):
    check_messages(world, cluster, unique_name, mode, sharded=mode == "ON")


def check_messages(world: ClockWorld, cluster: RunningCluster, unique_name: str, mode: str, *, sharded: bool) -> None:
    client, holder, waiter = (
        world.from_url(cluster.url, sharded_subscription_mode=mode, max_wait_without_check=60.0, timeout=6.0),
        world.actor(),
        world.actor(),
    )
    channel = LockNames(unique_name).channel
    heard: dict[str, list[bytes]] = {"SUBSCRIBE": [], "SSUBSCRIBE": []}
    with cluster.client(unique_name) as direct, direct.pubsub() as common, direct.pubsub() as shard:
        common.subscribe(channel)
        readers = [("SUBSCRIBE", common)]
        if cluster.build is not REDIS_6:
            shard.ssubscribe(channel)
            readers.append(("SSUBSCRIBE", shard))
        lock = client.get_lock(unique_name)
        for _ in range(3):
            holder.do(lock.lock)
            waiting_for = waiter.start(lock.lock)
            until(lambda: listens(client, unique_name), what="it listens")
            released = time.monotonic()
            holder.do(lock.unlock)
            waiting_for.result(20)
            assert time.monotonic() - released < 15.0, "it waited for the lease to end, not for the message"
            waiter.do(lock.unlock)

        def count() -> int:
            for kind, reader in readers:
                while (message := reader.get_message(timeout=0.02)) is not None:
                    if message["type"] in ("message", "smessage"):
                        heard[kind].append(message["data"])
            return sum(map(len, heard.values()))

        until(lambda: count() >= 6, what="six releases are announced")
        assert heard["SSUBSCRIBE" if sharded else "SUBSCRIBE"] == [b"0"] * 6
        assert heard["SUBSCRIBE" if sharded else "SSUBSCRIBE"] == []
    nothing_left(cluster, client, unique_name)


def test_a_client_that_the_user_made(world, cluster, unique_name):
    """Its settings are used, it stays open, and all of it works although it was told of one node only."""
    port = cluster.masters()[0].port
    settings = {"client_name": "yours", "decode_responses": True, "protocol": 3}
    yours = world.redis_py.RedisCluster(host=HOST, port=port, **settings)
    try:
        client = world.close_at_end(world.api.Redisson(yours))
        assert client.url.startswith(f"redis+cluster://{HOST}:")
        actor = world.actor()
        locks = [client.get_lock(f"{unique_name}-{each}") for each in range(12)]
        for lock in locks:
            actor.do(lock.lock)
        named = {
            each["name"]
            for node in cluster.masters()
            for each in node_clients(node)
            if each["cmd"] in ("evalsha", "wait")
        }
        assert "yours" in named
        for lock in locks:
            actor.do(lock.unlock)
        world.run(client.close)
        assert world.run(yours.set, f"{unique_name}-mine", "1")
        assert world.run(yours.delete, f"{unique_name}-mine") == 1
    finally:
        world.run(yours.aclose if world.runtime == "asyncio" else yours.close)


def node_clients(node: Server) -> list[dict[str, str]]:
    with node.client() as client:
        return list(client.client_list())


@pytest.mark.parametrize("name", ["a}b", "a{b", "{}a", "a{}b"])
def test_names_whose_keys_would_be_scattered_are_refused(world, cluster, name):
    client = world.from_url(cluster.url)
    for kind in ("lock", "fair_lock", "spin_lock", "fenced_lock", "token_lock", "read_write_lock", "semaphore"):
        with pytest.raises(ValueError, match=r"one slot of the cluster.*as in '"):
            handle(client, kind, name)


def test_a_hash_tag_puts_names_together_but_a_latch_cannot_have_one(world, cluster):
    client = world.from_url(cluster.url)
    assert client.get_lock("{orders}:1").name == "{orders}:1"
    with pytest.raises(ValueError, match="braces on a cluster, as in 'orders:1'"):
        client.get_count_down_latch("{orders}:1")
    assert client.get_count_down_latch("orders").name == "orders"


def test_a_server_that_is_no_cluster(world, valkey):
    client, actor = world.from_url(f"redis+cluster://127.0.0.1:{valkey.port}"), world.actor()
    with pytest.raises(redis.ResponseError, match="cluster support disabled"):
        actor.do(client.get_lock("x").lock)


FORKING = """
import os, sys
import pyredisson

client = pyredisson.Redisson.from_url(sys.argv[1])
lock = client.get_lock(sys.argv[2])
lock.lock()
parent = client.id
tried, told = os.pipe()
child = os.fork()
if not child:
    assert client.id != parent
    assert not lock.is_held_by_current_thread(), "it holds nothing of its parent's"
    assert not lock.try_lock(), "its parent's lock is another's"
    os.write(told, b"!")
    got = lock.try_lock(20)
    if got:
        lock.unlock()
    client.close()
    os._exit(0 if got else 1)
os.close(told)
assert os.read(tried, 1) == b"!", "the child did not come so far"
lock.unlock()
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
client.close()
import threading, time
deadline = time.monotonic() + 10
while threading.active_count() > 1:
    assert time.monotonic() < deadline, threading.enumerate()
    time.sleep(0.01)
sys.exit(status)
"""


def test_a_fork_and_the_end(cluster, unique_name):
    """The child is another client, on connections of its own; a client that was closed leaves no thread."""
    run_python(FORKING, cluster.url, unique_name)


def test_a_client_that_was_dropped_ends(world, cluster, unique_name):
    """What it made goes with it: no connection stays at any node."""
    actor, other = world.actor(), world.actor()

    def connections():
        return sum(unique_name in str(each) for node in cluster.masters() for each in node_clients(node))

    def use():
        client = world.api.Redisson.from_url(cluster.url, client_name=unique_name)
        lock = client.get_lock(unique_name)
        actor.do(lock.lock)
        waiting_for = other.start(lock.lock)
        until(lambda: listens(client, lock.name), what="it listens")
        actor.do(lock.unlock)
        waiting_for.result(20)
        other.do(lock.unlock)
        assert connections() >= 2

    use()

    def gone():
        gc.collect()
        return connections() == 0

    until(gone, 10, what="its connections are closed")


# ---- the watchdog ----------------------------------------------------------------------------------------------------


def test_many_locks_in_many_slots_are_renewed(world, cluster, unique_name):
    client, actor = world.from_url(cluster.url, lock_watchdog_timeout=3.6, timeout=6.0), world.actor()
    # Not numbered: names that are alike but for a few digits share slots more often than chance would have it.
    names = [f"{unique_name}-{uuid.uuid4().hex}" for _ in range(200)]
    assert len({slot(name) for name in names}) > 150
    locks = [client.get_lock(name) for name in names]
    for lock in locks:
        actor.do(lock.lock)
    began = time.monotonic()
    until(lambda: time.monotonic() - began > 3.7, within=15, what="a lease has gone by")
    until(lambda: any(event.locks == 200 for event in world.heard(events.Renewed)), 15, what="all are renewed at once")
    for lock in locks:
        assert actor.do(lock.is_held_by_current_thread)
        actor.do(lock.unlock)
    assert world.losses == []
    nothing_left(cluster, client, unique_name)


# ---- slots that move -------------------------------------------------------------------------------------------------


@pytest.fixture
def to_and_fro(cluster: RunningCluster, unique_name: str) -> Iterator[Callable[..., None]]:
    """``to_and_fro(times)``: moves the slot of the test's name to another master and back, so often."""
    home = cluster.master_of(unique_name)

    def move(times: int = 1, *, between: Callable[[], object] = lambda: None, pause: Any = None) -> None:
        away = next(each for each in cluster.masters() if each is not home)
        for _ in range(times):
            cluster.move_slot(slot(unique_name), home, away, pause)
            between()
            cluster.move_slot(slot(unique_name), away, home, pause)

    yield move
    assert cluster.master_of(unique_name) is home


def test_a_hold_is_renewed_while_its_slot_migrates(world, cluster, unique_name, to_and_fro):
    """Some of a batch's names are still here, some are there already: each is asked for by itself, then."""
    client, actor = world.from_url(cluster.url, lock_watchdog_timeout=3.0, timeout=6.0), world.actor()
    locks = [client.get_lock(f"{{{unique_name}}}{each}") for each in range(6)]
    for lock in locks:
        actor.do(lock.lock)
    home = cluster.master_of(unique_name)

    def half_way():
        away = next(each for each in cluster.masters() if each is not home)
        if not cluster.command(home, "CLUSTER", "COUNTKEYSINSLOT", slot(unique_name)):
            return  # On the way back.
        cluster.command(home, "MIGRATE", HOST, away.port, "", 0, 3000, "KEYS", *[each.name for each in locks[:3]])
        assert [each for each in locks if not actor.do(each.is_held_by_current_thread)] == []
        began = time.monotonic()
        until(lambda: time.monotonic() - began > 3.1, within=15, what="a lease has gone by")

    to_and_fro(pause=half_way)
    for lock in locks:
        assert actor.do(lock.is_held_by_current_thread)
        actor.do(lock.unlock)
    assert world.losses == []


def test_waiters_hear_at_the_new_node(world, any_cluster, unique_name):
    client, holder, waiter = (
        world.from_url(any_cluster.url, max_wait_without_check=60.0, timeout=6.0),
        world.actor(),
        world.actor(),
    )
    lock = client.get_lock(unique_name)
    home = any_cluster.master_of(unique_name)
    away = next(each for each in any_cluster.masters() if each is not home)
    for source, target in ((home, away), (away, home)):
        holder.do(lock.lock)
        waiting_for = waiter.start(lock.lock)
        until(lambda: listens(client, lock.name), what="it listens")
        any_cluster.move_slot(slot(unique_name), source, target)
        moved = time.monotonic()
        holder.do(lock.unlock)
        waiting_for.result(20)
        assert time.monotonic() - moved < 15.0, "it waited for the lease to end, not for the message"
        waiter.do(lock.unlock)
    nothing_left(any_cluster, client, unique_name)


@pytest.mark.volume
@pytest.mark.parametrize("kind", ["lock", "fair_lock"])
@pytest.mark.parametrize("what", ["slots move", "masters change"])
def test_only_one_owner_at_a_time_while(cluster, valkey, direct, unique_name, to_and_fro, volume, what, kind):
    """``CLUSTER FAILOVER`` waits for the replica, and a slot takes its keys along: no call fails, no hold is lost."""

    def counted():
        return int(direct.get(f"{unique_name}-counter") or 0)

    def progress():
        before = counted()
        until(lambda: counted() >= before + 20 or not contenders.under_way(), 60, what="they go on")

    direct.set(f"{unique_name}-go", 1)
    with Contenders(cluster.url, valkey, unique_name, 2, 3, 1_000_000, kind, 6, 15) as contenders:
        progress()
        for _ in range(volume(1, full=30)):
            if what == "slots move":
                to_and_fro(between=progress)
            else:
                for _ in range(2):  # There and back.
                    cluster.fail_over(cluster.master_of(unique_name))
                    progress()
                    until(cluster.ready, 20, what="the former master follows")
            progress()
        direct.set(f"{unique_name}-stop", 1)
        assert contenders.went_through().total() == 0
    assert counted() == sum(map(int, direct.hvals(f"{unique_name}-written"))) > 40
    until(lambda: [key for key in left_of(cluster, unique_name) if not key.startswith("pyredisson_")] == [], 15)


# ---- masters that change ---------------------------------------------------------------------------------------------


def test_a_hold_and_a_waiter_outlive_a_change_of_master(world, cluster, unique_name):
    client = world.from_url(cluster.url, lock_watchdog_timeout=3.6, max_wait_without_check=60.0, timeout=6.0)
    holder, waiter = world.actor(), world.actor()
    lock, renewed_one = client.get_lock(unique_name), client.get_lock(f"{{{unique_name}}}-renewed")
    holder.do(lock.lock, 60)  # So long a lease that it is not its end that lets the waiter in.
    holder.do(renewed_one.lock)
    waiting_for = waiter.start(lock.lock)
    until(lambda: listens(client, lock.name), what="it listens")
    cluster.fail_over(cluster.master_of(unique_name))
    renewed = len(world.heard(events.Renewed))
    until(lambda: len(world.heard(events.Renewed)) > renewed + 1, 20, what="it is renewed there")
    for each in (lock, renewed_one):
        assert holder.do(each.is_held_by_current_thread)
        holder.do(each.unlock)
    waiting_for.result(20)
    waiter.do(lock.unlock)
    assert world.losses == []
    nothing_left(cluster, client, unique_name)
    until(cluster.ready, 20, what="the former master follows")


def test_a_takeover_of_a_replica_that_is_behind_loses_the_lock_of_a_healthy_master(fresh_cluster, unique_name):
    cluster, master = fresh_cluster, fresh_cluster.master_of(unique_name)
    replica = cluster.replica_of(master)
    cluster.command(replica, "CONFIG", "SET", "masterauth", "wrong")
    cluster.command(master, "CLIENT", "KILL", "TYPE", "replica")
    until(lambda: cluster.command(replica, "ROLE")[3] != b"connected", what="it does not follow its master")
    with Redisson.from_url(cluster.url) as client:
        client.get_lock(unique_name).lock(60)
        assert cluster.command(master, "EXISTS", unique_name) == 1
        cluster.command(replica, "CLUSTER", "FAILOVER", "TAKEOVER")
        until(lambda: cluster.find_master_of(unique_name) is replica, what="it has taken over")
        assert cluster.command(replica, "EXISTS", unique_name) == 0


def test_a_master_is_killed(world, fresh_cluster, unique_name):
    """Holds at the others are not touched; what was there goes on with the replica, and nobody hangs."""
    cluster = fresh_cluster
    client = world.from_url(cluster.url, lock_watchdog_timeout=12.0, max_wait_without_check=60.0, timeout=3.0)
    holder, waiter = world.actor(), world.actor()
    lock, renewed_one = client.get_lock(unique_name), client.get_lock(f"{{{unique_name}}}-renewed")
    victim = cluster.master_of(unique_name)
    others = [client.get_lock(f"{unique_name}-{each}") for each in range(60)]
    elsewhere = [other for other in others if cluster.master_of(other.name) is not victim][:20]
    holder.do(lock.lock, 60)  # So long a lease that it is not its end that lets the waiter in.
    for each in (renewed_one, *elsewhere):
        holder.do(each.lock)
    with victim.client() as direct:  # It was replicated: that it is lost would be for another reason.
        direct.set(f"{{{unique_name}}}", "in step", px=1)  # WAIT is about what its own connection wrote.
        assert direct.wait(1, 5000) == 1
    waiting_for = waiter.start(lock.lock)
    until(lambda: listens(client, lock.name), what="it waits")
    victim.kill()
    until(lambda: cluster.find_master_of(unique_name) not in (None, victim), 30, what="the replica took over")
    renewed = len(world.heard(events.Renewed))
    until(lambda: len(world.heard(events.Renewed)) > renewed, 20, what="all of them are renewed")
    assert world.losses == []
    for each in (lock, renewed_one, *elsewhere):
        assert holder.do(each.is_held_by_current_thread)
    holder.do(lock.unlock)
    waiting_for.result(20)
    waiter.do(lock.unlock)
    for each in (renewed_one, *elsewhere):
        holder.do(each.unlock)
    nothing_left(cluster, client, unique_name)
    assert waiting(client, unique_name) == 0
