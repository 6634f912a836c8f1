"""Names of connections, presence and holders where there are several servers, and in the child of a fork."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyredisson import LockTimeoutError, Redisson
from tests.waiting import until

SOON: dict[str, Any] = {"presence_after": 0.1, "lock_watchdog_timeout": 3.0}


def refused(lock: Any) -> LockTimeoutError:
    with pytest.raises(LockTimeoutError) as error:
        lock.hold(0.05).__enter__()
    return error.value


def test_on_a_cluster_every_node_knows_who_is_connected(world, cluster, unique_name):
    client, actors = world.from_url(cluster.url, client_name=unique_name, **SOON), world.actors(6)
    names = [f"{unique_name}-{each}" for each in range(6)]
    for actor, name in zip(actors, names, strict=True):
        actor.do(client.get_lock(name).lock)
    key = f"pyredisson_client:{client.id}"

    def told():
        with cluster.client(key, decode_responses=True) as node:
            return {each["name"] for each in json.loads(str(node.get(key) or '{"holds": []}'))["holds"]}

    until(lambda: told() == set(names), what="all of them are written by one request")
    for node in {cluster.master_of(name).port: cluster.master_of(name) for name in names}.values():
        with node.client() as direct:
            assert f"pyredisson:{unique_name}:" in str(direct.client_list())
    with Redisson.from_url(cluster.url) as other:
        holder = refused(other.get_lock(names[0])).holder
        assert holder is not None
        assert (holder.client_id, holder.app, holder.thread_id) == (client.id, unique_name, actors[0].number)
        assert holder.since is not None
    for actor, name in zip(actors, names, strict=True):
        actor.do(client.get_lock(name).unlock)
    until(lambda: told() == set())


def test_behind_sentinels_the_master_knows_who_is_connected(world, watched, unique_name):
    client, actor = world.from_url(watched.url, slaves_sync_timeout=10.0, client_name="web", **SOON), world.actor()
    actor.do(client.get_lock(unique_name).lock)
    with watched.master().client() as master:
        until(lambda: master.exists(f"pyredisson_client:{client.id}"))
        assert "pyredisson:web:" in str(master.client_list())
    for sentinel in watched.sentinels:
        with sentinel.client() as direct:
            assert "pyredisson" not in str(direct.client_list())
    actor.do(client.get_lock(unique_name).unlock)
