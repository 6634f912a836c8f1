"""A failover, and a quorum with fewer nodes, are told: an event, and one line each."""

from __future__ import annotations

import logging
import time
from contextlib import ExitStack
from typing import Any

import pytest

from pyredisson._net.topology import read_slots
from pyredisson.events import Event, MasterChanged, QuorumNodeBack, QuorumNodeLost
from tests.proxy import Proxy
from tests.sentinels import SentinelSet
from tests.servers import VALKEY
from tests.waiting import until
from tests.worlds.clock import ClockWorld


def _of(world: ClockWorld, kind: type[Event]) -> list[Any]:
    return [event for _, event in world.events if isinstance(event, kind)]


def _lines(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


def test_sentinels_name_another_master(world, fresh_server, unique_name, caplog):
    sentinels = SentinelSet(fresh_server, VALKEY)
    try:
        client, actor = world.from_url(sentinels.url), world.actor()
        for number in range(3):
            actor.do(client.get_lock(f"{unique_name}-{number}").lock)
        sentinels.in_step()
        former = sentinels.master()
        with caplog.at_level(logging.WARNING, "pyredisson"):
            sentinels.fail_over()
            until(lambda: sentinels.master().port != former.port, 30, what="there is another master")
            until(lambda: actor.do(client.get_lock(unique_name).try_lock) or True, 10)
            until(lambda: _of(world, MasterChanged), 15, what="the failover is told")
            [event] = _of(world, MasterChanged)
            assert event.server == f"127.0.0.1:{sentinels.master().port}"
            assert event.former == f"127.0.0.1:{former.port}"
            assert event.held in (3, 4)
            [line] = until(lambda: _lines(caplog, "the master of"), what="it is logged")
            assert f"now {event.server} (was {event.former})" in line
    finally:
        sentinels.stop()


def test_a_replica_takes_over_in_a_cluster(world, cluster, unique_name, caplog):
    client, actor = world.from_url(cluster.url), world.actor()
    names = [f"{unique_name}-{number}" for number in range(30)]
    for name in names:
        actor.do(client.get_lock(name).lock)
    former = cluster.master_of(names[0])
    there = sum(cluster.master_of(name) is former for name in names)
    with caplog.at_level(logging.WARNING, "pyredisson"):
        master = cluster.fail_over(former)
        actor.do(client.get_lock(names[0]).unlock)
        until(lambda: _of(world, MasterChanged), 15, what="the failover is told")
        [event] = _of(world, MasterChanged)
        assert (event.server, event.former) == (f"127.0.0.1:{master.port}", f"127.0.0.1:{former.port}")
        assert event.held in (there, there - 1)
        [line] = until(lambda: _lines(caplog, "the master of"), what="it is logged")
        assert f"{event.held} locks are held across" in line


def test_a_node_that_the_cluster_has_lost_has_no_address():
    reply = [[0, 5460, [b"127.0.0.1", 0, b"id"]], [5461, 16383, [b"127.0.0.1", 7001, b"id"]]]
    assert read_slots(reply, ("127.0.0.1", 7001), None) == [(5461, 16383, ("127.0.0.1", 7001))]


@pytest.mark.parametrize("by", ["acquires", "renewals"])
def test_a_quorum_that_has_lost_a_node(world, fresh_server, unique_name, caplog, by):
    with ExitStack() as stack:
        proxies = [stack.enter_context(Proxy(fresh_server().port)) for _ in range(3)]
        clients = [world.connected(proxy.url, restart_guard=False, quorum_node_timeout=1.0) for proxy in proxies]
        for client in clients:
            client._core.watchdog._period = 0.5
        lock = clients[0].get_multi_lock(*[client.get_lock(unique_name) for client in clients])
        actor = world.actor()
        actor.do(lock.lock)

        def use():
            if by == "acquires":
                actor.do(lock.unlock)
                actor.do(lock.lock)
            return True

        with caplog.at_level(logging.WARNING, "pyredisson"):
            proxies[1].cut()
            until(lambda: use() and _of(world, QuorumNodeLost), 10, what="a node is lost")
            for _ in range(5):
                use()
                time.sleep(0.1)
            [event] = _of(world, QuorumNodeLost)
            assert (event.left, event.quorum) == (2, 2)
            assert str(proxies[1].port) in event.node
            proxies[1].heal()
            until(lambda: use() and _of(world, QuorumNodeBack), 15, what="it is back")
            assert _of(world, QuorumNodeBack)[0].node == event.node
            until(lambda: len(_lines(caplog, f"quorum {unique_name!r}")) == 2, what="both are logged")
        actor.do(lock.unlock)


def test_a_node_that_refuses_is_not_said_to_be_silent(world, fresh_server, unique_name, caplog):
    servers = [fresh_server() for _ in range(3)]
    clients = [world.connected(server.url, restart_guard=False) for server in servers]
    lock = clients[0].get_red_lock(*[client.get_lock(unique_name) for client in clients])
    servers[1].config_set("min-replicas-to-write", 1)
    actor = world.actor()

    def told():
        actor.do(lock.lock)
        actor.do(lock.unlock)
        return _lines(caplog, f"quorum {unique_name!r}")

    with caplog.at_level(logging.WARNING, "pyredisson"):
        [line] = until(told, 10, what="it is told")
    assert "cannot be used (NOREPLICAS" in line
    servers[1].config_set("min-replicas-to-write", 0)
