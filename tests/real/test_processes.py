"""Processes that are stopped, killed, forked, or end while they hold."""

from __future__ import annotations

import subprocess
import time

import pytest
import redis

from tests.real import programs
from tests.real.lock_process import Peer, PeerError
from tests.real.observation import held, nothing_left
from tests.servers import Server
from tests.volumes import Volume
from tests.waiting import until
from tests.worlds.clock import ClockWorld

# --- stopped and killed ---


def test_a_holder_that_was_stopped_past_its_lease_learns_that_it_lost(
    world: ClockWorld, valkey: Server, direct: redis.Redis, unique_name: str
) -> None:
    client = world.from_url(valkey.url)
    lock, actor = client.get_lock(unique_name), world.actor()
    with Peer(world.runtime, valkey.url, unique_name, lock_watchdog_timeout=2.0) as peer:
        peer.do("enter")
        peer.do("ensure_held")
        assert actor.do(lock.try_lock) is False
        peer.stop()
        began = time.monotonic()
        actor.do(lock.lock)
        assert time.monotonic() - began < 6.0  # At the end of the lease, not when a waiter looks in any case.
        # What it asks first when it goes on is answered with the truth, whatever its watchdog has done by then.
        peer.send("ensure_held")
        peer.go_on()
        with pytest.raises(PeerError, match="LockLostError"):
            peer.result()
        assert peer.do("remaining") == 0.0
        with pytest.raises(PeerError, match="LockLostError"):
            peer.do("leave")
        until(lambda: peer.do("losses") == [[unique_name, peer.number]], what="called back")
        assert held(direct, lock, actor) == 1
        actor.do(lock.unlock)
        peer.do("lock")
        peer.do("unlock")
    nothing_left(direct, client, unique_name)


def test_a_plain_holder_that_was_stopped_learns_it_from_its_unlock(
    world: ClockWorld, valkey: Server, direct: redis.Redis, unique_name: str
) -> None:
    client = world.from_url(valkey.url)
    lock, actor = client.get_lock(unique_name), world.actor()
    with Peer(world.runtime, valkey.url, unique_name, lock_watchdog_timeout=1.8) as peer:
        peer.do("lock")
        peer.do("lock")
        peer.stop()
        actor.do(lock.lock)
        peer.send("unlock")
        peer.send("unlock")
        peer.send("unlock")
        peer.go_on()
        for kind in ("LockLostError", "LockLostError", "LockNotOwnedError"):
            with pytest.raises(PeerError) as error:
                peer.result()
            assert error.value.args[0] == kind
        assert held(direct, lock, actor) == 1
        actor.do(lock.unlock)
    nothing_left(direct, client, unique_name)


def test_a_waiter_that_was_stopped_acquires_nothing_held_by_another(
    world: ClockWorld, valkey: Server, direct: redis.Redis, unique_name: str
) -> None:
    client = world.from_url(valkey.url)
    lock, actor = client.get_lock(unique_name), world.actor()
    with Peer(world.runtime, valkey.url, unique_name) as peer:
        actor.do(lock.lock)
        peer.send("lock")
        until(lambda: direct.pubsub_numsub(f"redisson_lock__channel:{{{unique_name}}}")[0][1] == 1, what="it waits")
        peer.stop()
        actor.do(lock.unlock)
        actor.do(lock.lock)
        peer.go_on()
        assert held(direct, lock, actor) == 1
        actor.do(lock.unlock)
        peer.result()
        assert direct.hlen(unique_name) == 1
        peer.do("unlock")
    nothing_left(direct, client, unique_name)


@pytest.mark.parametrize("lease", [None, 1.2])
def test_a_waiter_acquires_within_the_lease_of_a_killed_holder(
    world: ClockWorld, valkey: Server, direct: redis.Redis, unique_name: str, lease: float | None
) -> None:
    client = world.from_url(valkey.url)
    lock, actor = client.get_lock(unique_name), world.actor()
    with Peer(world.runtime, valkey.url, unique_name, lock_watchdog_timeout=1.2) as peer:
        peer.do("lock", lease)
        taken = actor.start(lock.lock)
        peer.kill()
        began = time.monotonic()
        taken.result(20)
        assert time.monotonic() - began < 6.0  # As above.
    assert held(direct, lock, actor) == 1
    actor.do(lock.unlock)
    nothing_left(direct, client, unique_name)


# --- forked ---


@pytest.mark.parametrize("name", ["fork_holding", "fork_holding_asyncio", "fork_by_multiprocessing"])
def test_a_child_holds_nothing_and_the_parent_loses_nothing(
    valkey: Server, direct: redis.Redis, unique_name: str, name: str
) -> None:
    programs.run(name, valkey.url, unique_name)
    assert not direct.exists(unique_name)


def test_forks_while_other_threads_hold_wait_and_work(
    valkey: Server, direct: redis.Redis, unique_name: str, volume: Volume
) -> None:
    programs.run("fork_among_threads", valkey.url, unique_name, volume(8, full=80))
    assert not direct.exists(unique_name)


# --- ended ---

ENDS = [
    *(
        ("end_threads", how)
        for how in (
            "return",
            "sys.exit",
            "os._exit",
            "SIGTERM",
            "exception",
            "deleted",
            "unlock at exit",
            "close at exit",
            "daemon thread holds",
            "daemon thread waits",
        )
    ),
    *(("end_asyncio", how) for how in ("return", "sys.exit", "os._exit", "exception", "task waits", "SIGINT")),
]


@pytest.mark.parametrize(("name", "how"), ENDS)
def test_a_process_that_holds_ends_at_once_and_so_does_its_hold(
    valkey: Server, direct: redis.Redis, unique_name: str, name: str, how: str
) -> None:
    process = programs.start(name, valkey.url, unique_name, how)
    assert process.stdout is not None
    assert process.stdout.readline() == "ending\n"
    began = time.monotonic()
    try:
        out, err = process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    ended = time.monotonic()
    assert ended - began < 2.0
    assert process.returncode == {"exception": 1, "SIGTERM": -15}.get(how, 0), err
    assert not out
    assert not err
    if how == "unlock at exit":
        assert not direct.exists(unique_name)
    until(lambda: not direct.exists(unique_name), what="free")  # Its lease is of 0.8 s.
    until(lambda: direct.pubsub_numsub(f"redisson_lock__channel:{{{unique_name}}}")[0][1] == 0, what="nobody listens")


# --- collected ---


@pytest.mark.parametrize("name", ["collected_threads", "collected_asyncio", "collected_while_held"])
def test_nothing_is_left_of_a_collected_client(
    valkey: Server, direct: redis.Redis, unique_name: str, name: str
) -> None:
    programs.run(name, valkey.url, unique_name)
    assert not direct.exists(unique_name)
