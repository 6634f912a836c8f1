"""Refusals of the server: the error names the lock, the server and what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis.exceptions as rx

from pyredisson.errors import LockError, LockLostError
from tests.servers import HOST

CALLS: dict[str, Callable[[Any, str], Callable[[], Any]]] = {
    "lock": lambda client, name: client.get_lock(name).try_lock,
    "fair lock": lambda client, name: client.get_fair_lock(name).try_lock,
    "semaphore": lambda client, name: lambda: client.get_semaphore(name).try_set_permits(1),
    "latch": lambda client, name: lambda: client.get_count_down_latch(name).try_set_count(1),
}


@pytest.mark.parametrize("kind", CALLS)
def test_a_full_memory(world, own, unique_name, kind):
    client, actor = world.connected(own.url), world.actor()
    own.config_set("maxmemory", 1)
    with pytest.raises(rx.ResponseError, match=r"^OOM.*maxmemory") as caught:
        actor.do(CALLS[kind](client, unique_name))
    assert repr(unique_name) in str(caught.value)
    assert f":{own.port}" in str(caught.value)


@pytest.mark.parametrize("kind", CALLS)
def test_missing_rights(world, own, unique_name, kind):
    with own.client() as direct:
        direct.execute_command("ACL", "SETUSER", "app", "on", ">one", "~other*", "&*", "+@all")
    client, actor = world.from_url(own.url.replace("://", "://app:one@")), world.actor()
    with pytest.raises(rx.NoPermissionError, match="What the server must allow") as caught:
        actor.do(CALLS[kind](client, unique_name))
    assert repr(unique_name) in str(caught.value)


def test_missing_rights_of_an_inspection(world, own, unique_name):
    with own.client() as direct:
        direct.execute_command("ACL", "SETUSER", "app", "on", ">one", "~other*", "&*", "+@all")
    client = world.from_url(own.url.replace("://", "://app:one@"))
    with pytest.raises(rx.NoPermissionError, match="What the server must allow") as caught:
        world.actor().do(client.inspect, unique_name)
    assert str(caught.value).count(f"(TYPE {unique_name!r})") == 1


@pytest.mark.parametrize("kind", CALLS)
def test_a_database_that_there_is_not(world, own, unique_name, kind):
    client, actor = world.from_url(f"redis://{HOST}:{own.port}/99"), world.actor()
    with pytest.raises(rx.ResponseError, match="no database of this number") as caught:
        actor.do(CALLS[kind](client, unique_name))
    assert repr(unique_name) in str(caught.value)
    assert f":{own.port}/99" in str(caught.value)
    with pytest.raises(rx.ResponseError, match=rf":{own.port}.*no database of this number"):
        actor.do(client.inspect, unique_name)


def test_one_node_of_a_cluster(world, cluster, unique_name):
    master = cluster.master_of(unique_name)
    other = next(each for each in cluster.masters() if each is not master)
    with pytest.raises(rx.ResponseError, match=r"redis\+cluster://"):
        world.actor().do(world.from_url(other.url).get_lock(unique_name).try_lock)


def test_owners_are_named(world, own, unique_name):
    client, actor = world.connected(own.url), world.actor()
    lock = client.get_lock(unique_name)
    actor.do(lock.lock)
    with own.client() as direct:
        direct.delete(unique_name)
    with pytest.raises(LockLostError, match=r"was lost by (thread|task) '") as caught:
        actor.do(lock.unlock)
    assert client.id not in str(caught.value)
    actor.do(client.get_token_lock(f"{unique_name}-2").lock)
    with pytest.raises(LockError) as refused:
        actor.do(client.get_token_lock(f"{unique_name}-2").lock)
    assert client.id not in str(refused.value)
