"""Token locks of ours, of redsync (Go) and of node-redlock: they exclude each other, on one node and on a quorum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, wait
from typing import Any

import pytest
import redis
from click.testing import CliRunner

from pyredisson import LockLostError, LockNotOwnedError
from pyredisson._tools.cli import cli
from pyredisson.compat.redis_py import Lock as DropIn
from tests.interop.clients import PythonSide, Side
from tests.interop.contention import check_exclusion, counters, let_begin, waits_between
from tests.interop.peer import WITHIN
from tests.interop.tokens.building import LIBRARIES
from tests.interop.tokens.peers import LEASE, Peer, PeerSide
from tests.servers import Server
from tests.waiting import until
from tests.worlds.clock import ClockWorld

HAND_OVERS = 1_000
SHORT = 0.5  # seconds: a lease that ends within the test


@pytest.fixture(scope="module", params=LIBRARIES)
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    """Each library in turn, in a process of its own."""
    peer = Peer(request.param)
    yield peer
    peer.kill()


class Nodes:
    """One node, or five of which the last is dead, and what makes the clients on them.

    Attributes:
        kind: Of our lock on them.
        live: The nodes that are not dead.
    """

    def __init__(self, servers: list[Server], worlds: dict[str, ClockWorld], peer: Peer) -> None:
        self.kind = "token_lock" if len(servers) == 1 else "red_lock/token_lock"
        self.live = [server for server in servers if not server.killed]
        self._urls = [server.url for server in servers]
        self._worlds, self._peer = worlds, peer

    def python(self, runtime: str = "threads", **config: Any) -> Side:
        # These servers were started a moment ago: to the guard, they lost their data.
        patient = {"timeout": 15.0, "restart_guard": False, "quorum_node_timeout": 5.0}
        return PythonSide(self._worlds[runtime], *self._urls, **{**patient, **config})

    def theirs(self) -> Side:
        return PeerSide(self._peer, self._urls)

    def values(self, name: str) -> list[str | None]:
        """The tokens on the live nodes."""
        found = []
        for server in self.live:
            with server.client(decode_responses=True) as direct:
                found.append(direct.get(name))
        return found


@pytest.fixture(params=[1, 5], ids=["one node", "four of five nodes"])
def nodes(
    request: pytest.FixtureRequest, fresh_server: Callable[..., Server], worlds: dict[str, ClockWorld], peer: Peer
) -> Nodes:
    servers = [fresh_server() for _ in range(request.param)]
    if request.param > 1:
        servers[-1].kill()
    return Nodes(servers, worlds, peer)


@pytest.fixture
def node(valkey: Server, worlds: dict[str, ClockWorld], peer: Peer) -> Nodes:
    """One node, which other tests use as well."""
    return Nodes([valkey], worlds, peer)


@pytest.mark.volume
@pytest.mark.timeout(900)
def test_only_one_owner_holds_the_lock_at_a_time(nodes, unique_name, volume):
    python, theirs = nodes.python(), nodes.theirs()
    owners = [python.owner(), python.owner(), nodes.python("asyncio").owner(), theirs.owner(), nodes.theirs().owner()]
    hand_overs = volume(40, full=HAND_OVERS)
    counter = f"counter-{unique_name}"
    wanted = 5 * hand_overs  # About half of the turns go from one library to the other; on a busy machine, a quarter.
    counting = [owner.contend(nodes.kind, unique_name, counter, wanted, 0.0001, 0.01) for owner in owners]
    with counters(nodes.live[0].url) as client:
        let_begin(client, counter, counting)
        # An owner that fails may keep the lock, so that the others would wait for it.
        for each in wait(counting, 800, FIRST_EXCEPTION).done:
            each.result()
        everybody = [each.result(0) for each in counting]
        assert sum(map(len, everybody)) == int(client.get(counter)) >= wanted
    check_exclusion(everybody)
    waits = waits_between(everybody, ["ours"] * 3 + ["theirs"] * 2)
    assert sum(len(times) for pair, times in waits.items() if pair[0] != pair[1]) >= hand_overs
    assert not any(nodes.values(unique_name))


@pytest.mark.parametrize("runtime", ["threads", "asyncio"])
def test_each_waits_for_the_other_and_cannot_release_its_lock(nodes, unique_name, runtime):
    mine = nodes.python(runtime).owner().get(nodes.kind, unique_name)
    theirs = nodes.theirs().owner().get(nodes.kind, unique_name)
    assert theirs.try_lock()
    token = theirs.value()
    assert nodes.values(unique_name) == [token] * len(nodes.live)
    assert not mine.try_lock()
    assert not mine.try_lock(0.1)
    with pytest.raises(LockNotOwnedError):
        mine.unlock()
    assert nodes.values(unique_name) == [token] * len(nodes.live)
    waiting = mine.start("lock")
    assert theirs.unlock()
    waiting.result(WITHIN)

    tokens = nodes.values(unique_name)
    assert token not in tokens
    assert not theirs.try_lock()
    assert not theirs.unlock()
    assert not theirs.extend()
    assert nodes.values(unique_name) == tokens
    waiting = theirs.start("lock")
    mine.unlock()
    assert waiting.result(WITHIN)
    assert theirs.unlock()
    assert not any(nodes.values(unique_name))


def test_each_gets_what_the_other_let_expire(nodes, unique_name):
    mine = nodes.python().owner().get(nodes.kind, unique_name)
    theirs = nodes.theirs().owner().get(nodes.kind, unique_name)
    assert theirs.lock(SHORT)
    mine.lock(SHORT)
    assert not theirs.extend()
    assert not theirs.unlock()
    assert theirs.lock()
    tokens = nodes.values(unique_name)
    with pytest.raises(LockLostError):
        mine.unlock()
    assert nodes.values(unique_name) == tokens
    assert theirs.unlock()


def test_each_keeps_the_other_out_while_it_extends_its_lease(node, unique_name, direct):
    mine = node.python(lock_watchdog_timeout=6.0).owner().get("token_lock", unique_name)
    theirs = node.theirs().owner().get("token_lock", unique_name)
    mine.lock()
    direct.pexpire(unique_name, 4500)
    waiting = theirs.start("lock")
    until(lambda: direct.pttl(unique_name) > 4600, what="the watchdog renewed it")
    assert not waiting.done()
    mine.unlock()
    assert waiting.result(WITHIN)

    direct.pexpire(unique_name, 4500)
    assert theirs.extend()
    assert LEASE / 2 < direct.pttl(unique_name) / 1000 <= LEASE
    assert not mine.try_lock()
    theirs.unlock()


def test_a_drop_in_does_not_extend_the_lock_of_the_other(node, unique_name, direct):
    theirs = node.theirs().owner().get("token_lock", unique_name)
    with node.live[0].client() as client:
        lock = DropIn(client, unique_name, timeout=LEASE)
        assert lock.acquire()
        direct.delete(unique_name)
        assert theirs.try_lock(LEASE)
        for refused in (lambda: lock.extend(10 * LEASE), lock.reacquire, lock.release):
            with pytest.raises(redis.exceptions.LockError):
                refused()
    assert direct.get(unique_name) == theirs.value()
    assert direct.pttl(unique_name) <= LEASE * 1000
    assert theirs.unlock()


def test_the_commands_list_show_and_free_their_lock(fresh_server, worlds, peer):
    own = fresh_server()
    nodes = Nodes([own], worlds, peer)

    def run(*arguments):
        return CliRunner().invoke(cli, list(arguments), env={"PYREDISSON_URL": own.url})

    theirs = nodes.theirs().owner().get("token_lock", "orders")
    assert theirs.try_lock()
    holder = hashlib.sha256(theirs.value().encode()).hexdigest()[:8]
    [listed] = json.loads(run("ls", "--json").stdout)["locks"]
    assert (listed["name"], listed["kind"]) == ("orders", "token_lock")
    shown = run("show", "orders")
    assert shown.stdout.startswith("orders  token lock, held\n")
    assert holder in shown.stdout
    assert theirs.value() not in shown.stdout
    waiting = nodes.python().owner().get("token_lock", "orders").start("lock")
    assert run("unlock", "orders", "--yes", "--holder", "00000000").exit_code != 0
    assert not waiting.done()
    assert run("unlock", "orders", "--yes", "--holder", holder).exit_code == 0
    waiting.result(WITHIN)
    assert not theirs.extend()
    assert not theirs.unlock()
