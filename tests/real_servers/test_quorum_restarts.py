"""Nodes of a quorum that were restarted: with what they knew, without it, and what is made of that."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
import redis.exceptions as rx

from pyredisson._core.runtime import run
from pyredisson.errors import LockLostError, QuorumUnreachableError, RedissonError
from pyredisson.events import NodeBarred, QuorumIsYoung, ServerUnsafe
from tests.real_servers.fleets import NODES, PATIENT, Fleet, over
from tests.real_servers.observation import load_scripts
from tests.servers import HOST, NOBODYS_PORT, VALKEY, Server
from tests.worlds.base import Actor
from tests.worlds.clock import ClockWorld
from tests.worlds.threads import ThreadActor

A, B, C, D, E = range(NODES)


def clients_of(world: ClockWorld, fleet: Fleet, reached: tuple[int, ...], **config: Any) -> list[Any]:
    """A client of each node, of which only these are to be reached."""
    nowhere = f"redis://{HOST}:{NOBODYS_PORT}"
    return [
        world.from_url(url if index in reached else nowhere, **{**PATIENT, **config})
        for index, url in enumerate(fleet.urls())
    ]


def reconnected(actor: Actor, lock: Any) -> None:
    """Let the clients of a Redlock find out that connections have ended: that costs a node its vote in one round."""
    for member in lock._core.locks:
        asked = partial(run, member.is_locked()) if isinstance(actor, ThreadActor) else member.is_locked
        with suppress(rx.RedisError):  # Those that are not to be reached.
            actor.do(asked)


# --- the hole that the guard closes ---


def test_a_client_that_saw_the_earlier_run_gives_it_no_vote(world, fleet, unique_name):
    alice, bob = world.actor(), world.actor()
    mine = over(clients_of(world, fleet, (A, B, C)), unique_name)
    theirs = over(clients_of(world, fleet, (C, D, E)), unique_name)
    alice.do(mine.lock)
    assert bob.do(theirs.try_lock) is False
    fleet.servers[C].restart()
    reconnected(bob, theirs)
    with pytest.raises(QuorumUnreachableError, match="no vote") as caught:
        bob.do(theirs.try_lock, 1)
    assert "restart_guard" in str(caught.value.nodes[f"node {C + 1} ({fleet.servers[C].url})"])
    assert alice.do(mine.validity) > 0
    barred = world.heard(NodeBarred)
    assert [(event.name, event.node) for event in barred] == [(unique_name, f"node {C + 1} ({fleet.servers[C].url})")]
    assert 20 < barred[0].seconds <= 30
    with suppress(LockLostError):  # She had three, and one of them has forgotten her: that is what unlock() may find.
        alice.do(mine.unlock)
    fleet.free(unique_name)


def test_the_longest_lease_asked_for_sets_the_delay(world, fleet, unique_name):
    bob = world.actor()
    theirs = over(clients_of(world, fleet, (C, D, E), lock_watchdog_timeout=0.5), unique_name)
    assert bob.do(theirs.try_lock, 0, 60) is True
    bob.do(theirs.unlock)
    fleet.servers[C].restart()
    reconnected(bob, theirs)
    with pytest.raises(QuorumUnreachableError):
        bob.do(theirs.try_lock, 1)
    [barred] = world.heard(NodeBarred)
    assert 50 < barred.seconds <= 60


def check_delay_of_a_minute(world, fleet, bob, theirs):
    """A node is restarted: for what is left of a minute it has no vote."""
    fleet.servers[C].restart()
    reconnected(bob, theirs)
    with pytest.raises(QuorumUnreachableError, match="no vote"):
        bob.do(theirs.try_lock)
    [barred] = world.heard(NodeBarred)
    assert 50 < barred.seconds <= 60


@pytest.mark.parametrize("extended", ["the quorum", "a lease", "another handle", "a member"])
def test_an_extension_sets_the_delay_as_a_lease_does(world, fleet, unique_name, extended):
    bob = world.actor()
    clients = clients_of(world, fleet, (C, D, E), lock_watchdog_timeout=5)
    theirs = over(clients, unique_name)
    block = theirs.hold()
    lease = bob.do(world.enter(block))
    if extended == "a member":
        member = clients[C].get_lock(unique_name)
        bob.do(member.lock)
        bob.do(member.extend, 60)
        bob.do(member.unlock)
    else:
        handle = over(clients, unique_name) if extended == "another handle" else theirs
        assert bob.do((lease if extended == "a lease" else handle).extend, 60) is True
    bob.do(world.leave(block))
    check_delay_of_a_minute(world, fleet, bob, theirs)


def test_a_member_acquired_by_itself_sets_the_delay_by_its_lease(world, fleet, unique_name):
    bob = world.actor()
    clients = clients_of(world, fleet, (C, D, E), lock_watchdog_timeout=5)
    member, theirs = clients[C].get_lock(unique_name), over(clients, unique_name)
    bob.do(member.try_lock, 0, 60)
    bob.do(theirs.lock)
    for held in (theirs, member):
        bob.do(held.unlock)
    check_delay_of_a_minute(world, fleet, bob, theirs)


def test_a_restart_is_reported_once_a_client_however_many_names_and_handles_there_are(
    world, fleet, unique_name, caplog
):
    bob = world.actor()
    clients = fleet.clients(world)
    bob.do(over(clients, unique_name).try_lock)  # The clients see the first run.
    fleet.servers[C].restart()
    reconnected(bob, over(clients, unique_name))
    with caplog.at_level(logging.WARNING, "pyredisson"):
        for number in range(6):
            assert bob.do(over(clients, f"{unique_name}:{number % 3}").try_lock) is True
    [barred] = world.heard(NodeBarred)
    assert barred.node == f"node {C + 1} ({fleet.servers[C].url})"
    [line] = [record.getMessage() for record in caplog.records if "has no vote" in record.getMessage()]
    assert f": {barred.node} was started" in line


# --- a young fleet, and one that does not say its age ---


def test_the_first_start_of_all_nodes_votes_and_is_logged_once(world, fleet, unique_name, caplog):
    alice = world.actor()
    clients = fleet.clients(world)
    with caplog.at_level(logging.INFO, "pyredisson"):
        for number in range(4):  # Of several handles and names, as one for each order.
            lock = over(clients, unique_name + ":2" * (number > 2))
            alice.do(lock.lock)
            alice.do(lock.unlock)
    [event] = world.heard(QuorumIsYoung)
    assert (event.name, event.nodes) == (unique_name, NODES)
    [line] = [record for record in caplog.records if "first start" in record.getMessage()]
    assert line.levelno == logging.INFO
    assert unique_name in line.getMessage()


@pytest.mark.parametrize("guard", [True, False])
def test_nodes_that_keep_no_data_are_warned_of_together_unless_there_is_no_guard(
    world, fleet, unique_name, guard, caplog
):
    alice = world.actor()
    clients = clients_of(world, fleet, tuple(range(NODES)), restart_guard=guard)
    for client in clients:
        alice.do(client.get_lock(unique_name).is_locked)  # It is connected, so that the first round reaches all nodes.
    with caplog.at_level(logging.WARNING, "pyredisson"):
        for name in (unique_name, f"{unique_name}:2"):
            lock = over(clients, name)
            alice.do(lock.lock)
            alice.do(lock.unlock)
    lines = [record.getMessage() for record in caplog.records if "appendonly" in record.getMessage()]
    assert len(lines) == guard
    for index, client in enumerate(clients):
        for line in lines:
            assert f"node {index + 1} ({client.url})" in line
    assert len([each for each in world.heard(ServerUnsafe) if each.setting == "appendonly"]) == guard


@pytest.fixture
def silent(fresh_server: Callable[..., Server]) -> Server:
    """A node whose user may not run INFO."""
    server = fresh_server(VALKEY)
    with server.client() as direct:
        direct.execute_command("ACL", "SETUSER", "ann", "on", ">sesame", "~*", "&*", "+@all", "-info")
    load_scripts(server)
    return server


def test_a_node_that_does_not_tell_its_age_votes_and_is_warned_of(world, fleet, silent, unique_name, caplog):
    alice = world.actor()
    url = f"redis://ann:sesame@{HOST}:{silent.port}/0"
    clients = [world.from_url(each, **PATIENT) for each in fleet.urls()[:2]]
    nowhere = [world.from_url(f"redis://{HOST}:{NOBODYS_PORT}") for _ in range(2)]
    lock = over([*clients, world.from_url(url, **PATIENT), *nowhere], unique_name)
    with caplog.at_level(logging.WARNING, "pyredisson"):
        for _ in range(3):
            alice.do(lock.lock)
            alice.do(lock.unlock)
    [event] = [each for each in world.heard(ServerUnsafe) if each.setting == "INFO"]
    assert "INFO" in event.text
    [line] = [record for record in caplog.records if "does not report its uptime" in record.getMessage()]
    assert line.levelno == logging.WARNING
    assert "sesame" not in line.getMessage()

    strict = over([*clients, world.from_url(url, strict_server=True, **PATIENT), *nowhere], unique_name)
    # One that may not be used is none: two of five are left.
    with pytest.raises((QuorumUnreachableError, RedissonError), match="INFO"):
        alice.do(strict.lock)
