"""Why a lock was lost: what the server says of itself, and not a list of guesses."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pyredisson.errors import LockLostError
from pyredisson.events import Lost
from tests.real_servers.client_settings import renewed_every
from tests.real_servers.observation import INFO
from tests.servers import Server
from tests.waiting import until
from tests.worlds.clock import ClockWorld

GUESS = "no longer exists or belongs to another owner"


def _reasons(world: ClockWorld) -> list[str]:
    return [event.reason for _, event in world.events if isinstance(event, Lost)]


def _hold(world: ClockWorld, server: Server, name: str, how: str) -> tuple[Any, Any, Any]:
    """Hold a lock; ``how``: its loss will be noticed. Return the client, the holder and the lock."""
    client, actor = world.from_url(server.url), world.actor()
    lock = client.get_lock(name)
    if how == "renewal":
        renewed_every(client, 0.5)
    actor.do(lock.lock)
    return client, actor, lock


@pytest.mark.parametrize("how", ["renewal", "unlock", "re-entry"])
def test_a_restart_without_data_is_the_cause(world, own, unique_name, how):
    client, actor, lock = _hold(world, own, unique_name, how)
    own.kill()
    own.restart()
    match how:
        case "renewal":
            until(lambda: _reasons(world), what="the loss is found")
            reason = _reasons(world)[0]
        case "unlock":
            world.actor().do(client.get_lock(f"{unique_name}-2").try_lock)  # It has a new connection.
            with pytest.raises(LockLostError) as caught:
                actor.do(lock.unlock)
            reason = str(caught.value)
        case _:
            with pytest.raises(LockLostError) as caught:
                actor.do(lock.try_lock)
            reason = str(caught.value)
    assert "was restarted" in reason
    assert "run id" in reason
    assert GUESS not in reason


def test_a_client_that_finds_a_restarted_server_checks_its_holds_at_once(world, own, unique_name):
    client, actor, other = world.from_url(own.url), world.actor(), world.actor()
    lease = actor.do(world.enter(client.get_lock(unique_name).hold()))
    actor.do(client.get_lock(f"{unique_name}-2").lock)
    own.kill()
    own.restart()
    began = time.monotonic()
    other.do(client.get_lock(f"{unique_name}-other").try_lock)
    until(lambda: len(_reasons(world)) == 2, 3.0, what="both losses are found")
    assert time.monotonic() - began < 3.0, "a renewal comes after ten seconds"
    assert lease.lost
    assert all("was restarted" in reason for reason in _reasons(world))


@pytest.mark.parametrize("waits", [False, True])
def test_so_does_one_whose_subscriber_comes_back(world, own, unique_name, waits):
    client, actor, waiter = world.from_url(own.url), world.actor(), world.actor()
    actor.do(client.get_lock(unique_name).lock)
    if waits:
        waiting = waiter.start(client.get_lock(unique_name).try_lock, 20.0)
        until(lambda: client._core.subscriptions.wanted(), what="it waits")
    own.kill()
    own.restart()
    if waits:
        until(lambda: _reasons(world), 5.0, what="the loss is found")
        assert "was restarted" in _reasons(world)[0]
        waiting.result(20)


@pytest.mark.parametrize("command", ["FLUSHALL", "FLUSHDB"])
@pytest.mark.parametrize("how", ["renewal", "unlock", "extend", "notify", "extend all"])
def test_a_flush_is_the_cause(world, own, unique_name, command, how):
    client, actor, lock = _hold(world, own, unique_name, how)
    both = client.get_multi_lock(*(client.get_lock(f"{unique_name}-{number}") for number in "12"))
    if how == "extend all":
        actor.do(both.lock)
    calls = {
        "unlock": lock.unlock,
        "extend": lambda: lock.extend(50),
        "notify": client.get_condition(lock).notify,
        "extend all": lambda: both.extend(50),
    }
    with own.client() as direct:
        direct.execute_command(command)
    if how == "renewal":
        until(lambda: _reasons(world), what="the loss is found")
    else:
        with pytest.raises(LockLostError, match="was flushed" if how in ("unlock", "extend") else "was lost"):
            actor.do(calls[how])
    if how != "notify":
        assert "was flushed" in _reasons(world)[0]


def test_a_deleted_key_is_neither(world, own, unique_name):
    client, actor = world.from_url(own.url), world.actor()
    lock = client.get_lock(unique_name)
    with own.client() as direct:
        direct.flushall()
        actor.do(lock.lock)
        direct.set("other", 1)
        direct.delete(unique_name)
    with pytest.raises(LockLostError, match=GUESS):
        actor.do(lock.unlock)


@pytest.mark.parametrize("how", ["renewal", "unlock"])
def test_a_flush_before_the_client_is_no_cause(world, own, unique_name, how):
    with own.client() as direct:
        direct.flushall()
        _client, actor, lock = _hold(world, own, unique_name, how)
        direct.delete(unique_name)
    if how == "renewal":
        until(lambda: _reasons(world), what="the loss is found")
    else:
        with pytest.raises(LockLostError, match=GUESS):
            actor.do(lock.unlock)
    assert GUESS in _reasons(world)[0]


def test_only_the_first_connection_asks_how_often_a_server_was_flushed(world, proxy, unique_name):
    asked = []

    def hear(args: list[bytes]) -> bool:
        asked.extend([args] if INFO(args) else [])
        return False  # No reply is dropped.

    proxy.drop_reply(hear, None)
    client, actor = world.from_url(proxy.url), world.actor()
    actor.do(client.get_lock(unique_name).is_locked)
    assert asked == [[b"INFO", b"all"]]
    proxy.cut()
    proxy.heal()
    actor.do(client.get_lock(unique_name).is_locked)
    assert asked[1:] == [[b"INFO"]]


def test_a_restart_before_the_acquire_is_no_cause(world, own, unique_name):
    client, actor = world.from_url(own.url), world.actor()
    lock = client.get_lock(unique_name)
    actor.do(lock.lock)
    actor.do(lock.unlock)
    own.kill()
    own.restart()
    time.sleep(2.5)
    actor.do(lock.lock)
    with own.client() as direct:
        direct.set("other", 1)
        direct.delete(unique_name)
    with pytest.raises(LockLostError, match=GUESS):
        actor.do(lock.unlock)


def test_a_flushed_node_of_a_cluster_is_the_cause_of_its_own_losses(world, cluster, unique_name):
    client, actor = world.from_url(cluster.url), world.actor()
    names = [f"{unique_name}-{number}" for number in range(40)]
    first = cluster.master_of(names[0])
    there = next(name for name in names if cluster.master_of(name) is first)
    elsewhere = next(name for name in names if cluster.master_of(name) is not first)
    for name in (there, elsewhere):
        actor.do(client.get_lock(name).lock)
    with first.client() as direct:
        direct.flushall()
    with cluster.client(elsewhere) as direct:
        direct.set(f"{{{elsewhere}}}:other", 1)
        direct.delete(elsewhere)
    with pytest.raises(LockLostError, match=f":{first.port} was flushed"):
        actor.do(client.get_lock(there).unlock)
    with pytest.raises(LockLostError, match=GUESS):
        actor.do(client.get_lock(elsewhere).unlock)
