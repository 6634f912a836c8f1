"""Processes that are stopped, killed, forked, or end while they hold."""

from __future__ import annotations

import subprocess
import time

import pytest
import redis

from tests.real_servers import programs
from tests.real_servers.lock_process import Peer, PeerError
from tests.real_servers.observation import held, nothing_left
from tests.servers import Server
from tests.volumes import Volume
from tests.waiting import until
from tests.worlds.clock import ClockWorld

# --- stopped and killed ---


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


# --- forked ---


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
