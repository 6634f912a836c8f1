"""Where there are replicas, an acquire counts only when enough of them know of it. Real ones, that stop and go."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from pyredisson.errors import NoSyncedSlavesError, QuorumUnreachableError
from pyredisson.events import ServerUnsafe
from tests.proxy import Proxy
from tests.real_servers.client_settings import await_renewals, changed, renewed_every
from tests.real_servers.fleets import over
from tests.real_servers.kind_table import KINDS, LATCH, PERMITS
from tests.real_servers.observation import RELEASE, Tally, held, load_scripts, nothing_left
from tests.servers import HOST, VALKEY, Build, Server
from tests.waiting import until
from tests.worlds.base import Actor
from tests.worlds.clock import ClockWorld

PATIENCE = 0.3  # seconds, for replicas that are to be missed
#: For those that are to acknowledge something, however busy the machine is.
PATIENT = {"slaves_sync_timeout": 10.0}
NODE_TIMEOUT = 0.5  # far above what a busy machine adds, as a rule


def WAIT(args: list[bytes]) -> bool:
    return args[0].upper() == b"WAIT"


class Set:
    """A master and its replicas, which will be there soon: see ``in_step()``."""

    def __init__(self, start: Callable[..., Server], build: Build, count: int) -> None:
        self.master = start(build, "--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1")
        self.replicas = [start(build, "--replicaof", HOST, str(self.master.port)) for _ in range(count)]
        load_scripts(self.master)

    def in_step(self, count: int) -> None:
        """Until so many replicas have all there is."""
        with self.master.client() as direct:
            until(lambda: direct.info("replication")["connected_slaves"] == count, within=30)
            direct.set("in step", "yes")
            until(lambda: direct.wait(count, 200) >= count, within=30, what=f"{count} replicas are in step")
            direct.delete("in step")

    def stop(self) -> None:
        for replica in self.replicas:
            replica.pause()

    def go(self) -> None:
        for replica in self.replicas:
            replica.resume()


@pytest.fixture
def pair(fresh_server: Callable[..., Server]) -> Set:
    """A master with one replica."""
    pair = Set(fresh_server, VALKEY, 1)
    pair.in_step(1)
    return pair


@pytest.fixture
def direct(pair: Set) -> Iterator[redis.Redis]:
    """The master."""
    with pair.master.client(decode_responses=True) as direct:
        yield direct


def waits(direct: redis.Redis) -> int:
    """How many WAITs the server has had."""
    return int(direct.info("commandstats").get("cmdstat_wait", {"calls": 0})["calls"])


def waits_of_a_pair(direct: redis.Redis, actor: Actor, lock: Any) -> int:
    """Acquire and release it. Returns how many WAITs that was."""
    before = waits(direct)
    actor.do(lock.lock)
    actor.do(lock.unlock)
    return waits(direct) - before


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in (PERMITS, LATCH)], ids=str)
def test_an_acquire_counts_once_a_replica_has_acknowledged_it(world, pair, direct, unique_name, kind):
    client, actor = world.from_url(pair.master.url, **PATIENT), world.actor()
    lock = kind.handle(client, unique_name)
    if kind.has_permits:
        actor.do(lock.try_set_permits, 1)
    acquire, release = getattr(lock, kind.acquire), getattr(lock, str(kind.release))
    before = waits(direct)
    for count in (1, 2):  # The first one, too, of a client that knows nothing yet.
        actor.do(acquire)
        assert waits(direct) == before + count
        actor.do(release)
        assert waits(direct) == before + count, "a release waits for no replica"

    kept = {key for key in direct.scan_iter() if direct.type(key) == "hash"}
    pair.stop()
    began = time.monotonic()
    with pytest.raises(NoSyncedSlavesError) as caught, changed(client, slaves_sync_timeout=PATIENCE):
        actor.do(acquire)
    assert PATIENCE <= time.monotonic() - began < PATIENCE + 4
    assert caught.value.name == unique_name
    for said in (unique_name, "1 replica", "0 did", "released again", "slaves_sync_timeout"):
        assert said in str(caught.value)
    assert {key for key in direct.scan_iter() if direct.type(key) == "hash"} == kept
    assert direct.get(unique_name) == ("1" if kind.has_permits else None)
    pair.go()
    pair.in_step(1)
    actor.do(acquire)
    actor.do(release)
    assert not world.losses


def test_a_wait_for_replicas_delays_no_other_request(world, pair, direct, unique_name):
    client = world.from_url(pair.master.url, **PATIENT)
    renewed_every(client, 0.3)
    holder, other, asker = world.actor(), world.actor(), world.actor()
    lock = client.get_lock(unique_name)
    holder.do(lock.lock)
    pair.stop()
    with changed(client, slaves_sync_timeout=3.0):
        slow = other.start(client.get_lock(f"{unique_name}-2").lock)
        until(lambda: direct.exists(f"{unique_name}-2"))
        assert asker.do(lock.try_lock) is False
        assert asker.do(lock.is_locked) is True
        await_renewals(direct, unique_name, 1)
        assert not slow.done(), "it held up the others"
        with pytest.raises(NoSyncedSlavesError):
            slow.result(20)
    assert held(direct, lock, holder) == 1
    holder.do(lock.unlock)
    nothing_left(direct, client, unique_name, f"{unique_name}-2")
    assert not world.losses


def test_min_replicas_counts_those_that_are_not_there(world, pair, direct, unique_name):
    actor = world.actor()
    one = world.from_url(pair.master.url, min_replicas=1, **PATIENT).get_lock(unique_name)
    two = world.from_url(pair.master.url, min_replicas=2, slaves_sync_timeout=1.5).get_lock(unique_name)
    actor.do(one.lock)
    actor.do(one.unlock)
    with pytest.raises(NoSyncedSlavesError, match=r"2 replicas.*1 did"):
        actor.do(two.lock)
    assert not direct.exists(unique_name)


def test_without_the_check_no_replica_is_asked(world, pair, direct, unique_name):
    client, actor = world.from_url(pair.master.url, check_lock_synced_slaves=False), world.actor()
    pair.stop()
    before = waits(direct)
    lock = client.get_lock(unique_name)
    actor.do(lock.lock)
    actor.do(lock.unlock)
    assert waits(direct) == before


def test_replicas_that_went_away_are_asked_once_more_and_again_when_they_return(
    world, pair, direct, unique_name, monkeypatch
):
    monkeypatch.setattr("pyredisson._core.replicas.LOOK_AGAIN", 0.2)
    client, actor = world.from_url(pair.master.url, **PATIENT), world.actor()
    lock = client.get_lock(unique_name)

    assert waits_of_a_pair(direct, actor, lock) == 1
    [replica] = pair.replicas
    replica.kill()
    until(lambda: direct.info("replication")["connected_slaves"] == 0)
    with pytest.raises(NoSyncedSlavesError), changed(client, slaves_sync_timeout=PATIENCE):
        actor.do(lock.lock)
    assert client._core.server.facts.replicas == 0
    assert waits_of_a_pair(direct, actor, lock) == 0
    replica.restart()
    pair.in_step(1)
    until(lambda: waits_of_a_pair(direct, actor, lock) == 1, what="asked again")


def test_a_replica_that_comes_while_it_is_waited_for_is_asked_at_once(world, fresh_server, unique_name):
    """Else it would say so within a second, of its own accord."""
    master = fresh_server(VALKEY, "--repl-diskless-sync-delay", "0")
    load_scripts(master)
    actor = world.actor()
    lock = world.from_url(master.url, min_replicas=1, slaves_sync_timeout=25.0).get_lock(unique_name)
    with master.client(decode_responses=True) as direct:
        taking = actor.start(lock.lock)
        until(lambda: waits(direct) >= 3, what="the request for acknowledgement is repeated")
        assert not taking.done()
        fresh_server(VALKEY, "--replicaof", HOST, str(master.port))
        taking.result(20)
        actor.do(lock.unlock)
        assert not direct.exists(unique_name)


def test_a_wait_without_answer_is_a_wait_that_failed(world, pair, direct, unique_name):
    with Proxy(pair.master.port) as proxy:
        client, actor = world.from_url(proxy.url, **PATIENT), world.actor()
        lock = client.get_lock(unique_name)
        actor.do(lock.lock)
        actor.do(lock.unlock)
        released = Tally(proxy, RELEASE)
        lost = proxy.drop_reply(WAIT, 1)
        config = {"slaves_sync_timeout": PATIENCE, "timeout": 3.0}
        with pytest.raises(NoSyncedSlavesError, match="was not answered"), changed(client, **config):
            actor.do(lock.lock)
        lost.wait()
        assert not direct.exists(unique_name)
        assert released.count == 1
        actor.do(lock.lock)
        actor.do(lock.unlock)
        nothing_left(direct, client, unique_name)


@pytest.mark.parametrize("least", [0, 1])
def test_a_user_without_permission_for_WAIT(world, pair, direct, unique_name, least, caplog):
    direct.execute_command("ACL", "SETUSER", "ann", "on", ">sesame", "~*", "&*", "+@all", "-wait")
    url = f"redis://ann:sesame@{HOST}:{pair.master.port}/0"
    client, actor = world.from_url(url, min_replicas=least, **PATIENT), world.actor()
    lock = client.get_lock(unique_name)
    if least:
        for _ in range(2):
            with pytest.raises(NoSyncedSlavesError, match="NOPERM"):
                actor.do(lock.lock)
            assert not direct.exists(unique_name)
        return
    with caplog.at_level(logging.WARNING, "pyredisson"):
        for _ in range(3):
            actor.do(lock.lock)
            actor.do(lock.unlock)
    [event] = world.heard(ServerUnsafe)
    assert event.setting == "wait"
    assert [record.name for record in caplog.records] == ["pyredisson.server"]
    strict = world.from_url(url, strict_server=True).get_lock(unique_name)
    with pytest.raises(NoSyncedSlavesError, match="NOPERM"):
        actor.do(strict.lock)
    assert not direct.exists(unique_name)


def test_every_build_knows_how(world, build, fresh_server, unique_name):
    several = Set(fresh_server, build, 2)
    several.in_step(2)
    client, actor = world.from_url(several.master.url, min_replicas=2, **PATIENT), world.actor()
    lock = client.get_lock(unique_name)
    actor.do(lock.lock)
    for replica in several.replicas:
        with replica.client() as direct:
            assert direct.exists(unique_name)
    actor.do(lock.unlock)
    several.replicas[0].pause()
    with pytest.raises(NoSyncedSlavesError, match="1 did"), changed(client, slaves_sync_timeout=1.0):
        actor.do(lock.lock)
    several.replicas[0].resume()


# ---- several locks as one --------------------------------------------------------------------------------------------


@pytest.fixture
def three(fresh_server: Callable[..., Server]) -> list[Set]:
    """Three independent nodes, each a master with a replica."""
    three = [Set(fresh_server, VALKEY, 1) for _ in range(3)]
    for each in three:  # Not one after the other: a replica takes a second to come.
        each.in_step(1)
    return three


def on_all(three: list[Set], ask: Callable[[redis.Redis], Any]) -> list[Any]:
    """What each master answers."""
    answers = []
    for each in three:
        with each.master.client(decode_responses=True) as direct:
            answers.append(ask(direct))
    return answers


def quorum(world: ClockWorld, three: list[Set], name: str, **config: Any) -> Any:
    config = {"quorum_node_timeout": NODE_TIMEOUT, "restart_guard": False, **config}
    clients = [world.from_url(each.master.url, **config) for each in three]
    return over(clients, name)


def test_a_node_whose_replicas_are_silent_has_no_vote(world, three, unique_name):
    """What a user demands of a server in so many words, ``min_replicas``, is demanded of each node of a quorum."""
    actor = world.actor()
    plain = quorum(world, three, unique_name, quorum_node_timeout=10.0)
    before = on_all(three, waits)
    actor.do(plain.lock)
    actor.do(plain.unlock)
    assert on_all(three, waits) == before, "the other nodes are what replicas are elsewhere"
    patient = quorum(world, three, unique_name, min_replicas=1, quorum_node_timeout=10.0)
    actor.do(patient.lock)
    assert [after - earlier for earlier, after in zip(before, on_all(three, waits), strict=True)] == [1, 1, 1]
    actor.do(patient.unlock)
    assert [after - earlier for earlier, after in zip(before, on_all(three, waits), strict=True)] == [1, 1, 1]

    lock = quorum(world, three, unique_name, min_replicas=1)
    three[0].stop()
    actor.do(lock.lock)  # The other two are enough.
    assert on_all(three, lambda direct: direct.exists(unique_name)) == [0, 1, 1]
    assert actor.do(lock.validity) > 20
    actor.do(lock.unlock)

    three[1].stop()
    said = []

    def all_answered():
        with pytest.raises(QuorumUnreachableError) as caught:
            actor.do(lock.try_lock)
        said[:] = caught.value.nodes.values()
        return [type(each) for each in said] == [NoSyncedSlavesError, NoSyncedSlavesError, str]

    until(all_answered, 20, what="no node of a busy machine is late")
    for word in (unique_name, "1 replica", "0 did", "released again", "quorum_node_timeout", "min_replicas"):
        assert word in str(said[0])
    until(lambda: on_all(three, lambda direct: direct.exists(unique_name)) == [0, 0, 0], what="given back everywhere")

    assert not world.losses


@pytest.mark.parametrize("least", [0, 1])
def test_each_member_of_a_multi_lock_waits_for_replicas_as_if_alone(world, pair, direct, unique_name, least):
    client, actor = world.from_url(pair.master.url, min_replicas=least, **PATIENT), world.actor()
    names = [f"{unique_name}-{number}" for number in range(3)]
    both = client.get_multi_lock(*[client.get_lock(name) for name in names])
    before = waits(direct)
    actor.do(both.lock)
    assert waits(direct) == before + 3
    actor.do(both.unlock)
    assert waits(direct) == before + 3
    pair.stop()
    with pytest.raises(NoSyncedSlavesError), changed(client, slaves_sync_timeout=PATIENCE):
        actor.do(both.lock)
    nothing_left(direct, client, *names)
    assert not world.losses
