"""What a client says of all locks of its server: ``inspect``, ``find_locks`` and the rest, in both forms."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from typing import Any

import pytest

from pyredisson import Config, LockTimeoutError, Redisson
from pyredisson.events import HeldTooLong
from pyredisson.inspection import Inspector, LockView, as_json
from tests.command_line import output_of
from tests.sentinels import SERVICE, SentinelSet
from tests.servers import HOST, VALKEY
from tests.waiting import until
from tests.worlds.clock import ClockWorld

SOON = {"presence_after": 0.05, "lock_watchdog_timeout": 3.0}


def found(world: ClockWorld, client: Any, method: str, *arguments: str) -> list[LockView]:
    """All that such a method yields."""

    async def collect(them: Any) -> list[LockView]:
        return [each async for each in them]

    def ask() -> Any:
        them = getattr(client, method)(*arguments)
        return list(them) if world.runtime == "threads" else collect(them)

    return world.actor().do(ask)


def test_what_is_stored_under_a_name(world, own):
    client = world.from_url(own.url, client_name="shop", **SOON)
    holder, waiter = world.actor(), world.actor()
    places = [(1, waiter.number)]
    lock = client.get_fair_lock("orders")
    assert holder.do(client.inspect, "orders") is None
    holder.do(lock.lock)
    waiting = waiter.start(client.get_fair_lock("orders").lock)

    def seen():
        return world.actor().do(client.inspect, "orders")

    view = until(lambda: seen() if seen().waiters and seen().holders[0].since else None)

    assert (view.name, view.kind, view.problems) == ("orders", "fair_lock", ())
    assert view.remaining is not None
    assert 0 < view.remaining <= 3
    assert [(who.app, who.client_id, who.thread_id, who.holds) for who in view.holders] == [
        ("shop", client.id, holder.number, 1)
    ]
    assert [(each.place, each.who.thread_id) for each in view.waiters] == places
    assert json.loads(json.dumps(as_json(view)))["kind"] == "fair_lock"
    [edge] = world.actor().do(client.wait_graph).edges
    assert (edge.lock, edge.waiter.thread_id, edge.holder.thread_id) == ("orders", waiter.number, holder.number)
    holder.do(lock.unlock)
    waiting.result()


def test_all_locks_and_how_many_of_each_kind(world, own):
    client = world.from_url(own.url, prefix="shop:")
    actor = world.actor()
    for number in range(3):
        actor.do(client.get_lock(f"order:{number}").lock)
    actor.do(client.get_read_write_lock("prices").write_lock().lock)
    with own.client() as direct:
        direct.set("order:9", "not under the prefix")
        direct.hset("shop:forgotten", "8743c9c0-0795-4907-87fd-6c719a6b4586:12", 1)

    [leak] = found(world, client, "find_leaks")
    assert (leak.name, leak.problems[0]) == ("forgotten", "never_expires")
    assert sorted(view.name for view in found(world, client, "find_locks")) == [
        "forgotten",
        "order:0",
        "order:1",
        "order:2",
        "prices",
    ]
    assert sorted(view.name for view in found(world, client, "find_locks", "order:*")) == [
        "order:0",
        "order:1",
        "order:2",
    ]
    assert actor.do(client.count_locks) == {"lock": 4, "read_write_lock": 1}
    assert actor.do(client.count_locks, "order:[01]") == {"lock": 2}
    assert [each.client_id for each in actor.do(client.clients)] == [client.id]


def test_permits_that_stay_after_close_are_found(world, own):
    """Until their blocks are left, which release them."""
    client, other = world.from_url(own.url, **SOON), world.from_url(own.url)
    holder = world.actor()
    blocks = [client.get_semaphore("rooms", permits=5).hold(3), client.get_semaphore("seats", permits=5)]
    for block in blocks:
        holder.do(world.enter(block))
    world.actor().do(client.close)

    def leaks():
        return sorted(found(world, other, "find_leaks"), key=lambda view: view.name)

    until(lambda: len(leaks()) == 2)
    rooms = leaks()[0]
    assert (rooms.name, rooms.problems, rooms.holders[0].holds, rooms.permits) == ("rooms", ("holder_gone",), 3, 2)
    with Inspector(own.url) as inspector, pytest.raises(ValueError, match="closed in the middle of a block, which may"):
        inspector.unlock("rooms", holder=rooms.holders[0].client_id)
    holder.do(world.leave(blocks[0]))
    assert [each.name for each in leaks()] == ["seats"]
    holder.do(world.leave(blocks[1]))
    assert leaks() == []
    with own.client() as direct:
        assert not direct.keys("*presence*")


def test_permits_without_a_block_are_reported_while_their_client_lives_and_missing_afterwards(world, own):
    """For as long as they are missing: nothing of the client is left in Redis then."""
    client, other = world.from_url(own.url, **SOON), world.from_url(own.url, **SOON)
    holder, releaser = world.actor(), world.actor()
    rooms = client.get_semaphore("rooms", permits=5)
    for _ in range(3):
        holder.do(rooms.acquire)
    releaser.do(rooms.release)

    def holds():
        view = world.actor().do(other.inspect, "rooms")
        return [who.holds for who in view.holders]

    until(lambda: holds() == [2])
    assert found(world, other, "find_leaks") == []

    world.actor().do(client.close)
    for pattern in ((), ("ro*",), ("rooms",)):
        [view] = found(world, other, "find_locks", *pattern)
        assert (view.name, view.problems, view.missing, view.total) == ("rooms", ("permits_missing",), 2, 5)
    world.actor().do(other.get_semaphore("rooms").release, 2)
    assert found(world, other, "find_leaks") == []
    assert found(world, other, "find_locks") == []


def test_permits_that_are_released_elsewhere_leave_little_behind(world, own):
    """A program may acquire here and release there for as long as it runs."""
    warned: list[object] = []
    client = world.from_url(own.url, **SOON, warn_held_longer_than=0.05, listeners=(warned.append,))
    other = world.from_url(own.url)
    rooms, elsewhere = client.get_semaphore("rooms", permits=3000), other.get_semaphore("rooms")
    actors = [world.actor() for _ in range(20)]
    for _ in range(3):
        for actor in actors:
            actor.do(rooms.acquire)
        actors[0].do(elsewhere.release, 20)
    [plain] = client._core.presence.plain.values()
    assert plain.permits == 60
    world.actor().do(rooms.release, 2000)  # Of all owners at once, and more than this client has acquired.
    assert client._core.presence.plain == {}
    world.actor().do(rooms.acquire)
    world.actor().do(other.get_semaphore("rooms").delete)
    assert world.actor().do(rooms.try_acquire)
    [plain] = client._core.presence.plain.values()
    assert plain.permits == 1, "what was set anew has no permits of before"
    until(lambda: [who.holds for who in world.actor().do(other.inspect, "rooms").holders] == [1])
    assert not [each for each in warned if isinstance(each, HeldTooLong)]


def test_of_clients_with_another_prefix_it_is_not_known_whether_permits_are_missing(world, own):
    client, other = world.from_url(own.url, **SOON, prefix="app:"), world.from_url(own.url)
    world.actor().do(client.get_semaphore("rooms", permits=2).acquire)
    until(lambda: world.actor().do(client.inspect, "rooms").holders)
    with own.client() as direct:
        direct.delete(*direct.keys("pyredisson_done:*"))  # As a minute later.
    for pattern in ((), ("app:*",)):
        [view] = [view for view in found(world, other, "find_locks", *pattern) if view.name == "app:rooms"]
        assert (view.missing, view.problems) == (None, ())
    assert found(world, client, "find_leaks") == []


def test_of_a_semaphore_in_use_it_is_not_known_whether_permits_are_missing(world, own):
    """What was acquired a moment ago is reported by no one yet, and no leak."""
    client = world.from_url(own.url)
    actor = world.actor()
    actor.do(client.get_semaphore("rooms", permits=5).acquire)
    [view] = found(world, client, "find_locks")
    assert (view.problems, view.missing, view.total, view.permits) == ((), None, 5, 4)
    assert found(world, client, "find_leaks") == []


def test_a_client_that_was_only_refused_permits_does_not_use_the_semaphore(world, own):
    lost, client = world.from_url(own.url), world.from_url(own.url)
    actor = world.actor()
    actor.do(lost.get_semaphore("rooms", permits=1).acquire)
    actor.do(lost.close)
    assert not world.actor().do(client.get_semaphore("rooms", permits=1).try_acquire)
    [view] = found(world, client, "find_leaks")
    assert (view.name, view.missing) == ("rooms", 1)


def test_who_waits_for_what_no_one_holds(world, own):
    client = world.from_url(own.url, **SOON)
    looking, waiters = world.actor(), world.actors(3)
    event, barrier, condition = client.get_event("ready"), client.get_barrier("start", 2), client.get_condition("queue")
    numbers = [each.number for each in waiters]
    waiters[2].do(condition.acquire)
    waiting = [waiters[0].start(event.wait), waiters[1].start(barrier.wait), waiters[2].start(condition.wait)]
    for name, kind, number in zip(("ready", "start", "queue"), ("event", "barrier", "condition"), numbers, strict=True):
        view = until(lambda name=name: seen if (seen := looking.do(client.inspect, name)) and seen.waiters else None)
        assert (view.kind, view.holders, view.permits) == (kind, (), None)
        assert [(each.who.thread_id, each.kind) for each in view.waiters] == [(number, kind)]
    assert sorted(each.name for each in found(world, client, "find_locks")) == ["queue", "ready", "start"]
    looking.do(event.set)
    looking.do(barrier.wait)
    looking.do(condition.acquire)
    looking.do(condition.notify)
    looking.do(condition.release)
    for each in waiting:
        each.result()


@pytest.mark.parametrize("made", ["cluster", "sentinels", "user's client", "user's sentinels", "user's cluster"])
def test_wherever_the_client_leads(world, cluster, fresh_server, unique_name, made):
    module = world.redis_py
    if "cluster" in made:
        host, port = cluster.url.rpartition("://")[2].split(",")[0].split(":")
        client = (
            world.from_url(cluster.url)
            if made == "cluster"
            else world.close_at_end(world.api.Redisson(module.RedisCluster(host=host, port=int(port))))
        )
        check(world, client, unique_name)
    elif made == "user's client":
        check(world, world.close_at_end(world.api.Redisson(module.Redis(port=fresh_server().port))), unique_name)
    else:
        watched, closing = SentinelSet(fresh_server, VALKEY), ExitStack()
        try:
            if made == "sentinels":
                client = world.from_url(watched.url)
            else:
                manager = module.sentinel.Sentinel([(HOST, each.port) for each in watched.sentinels])
                theirs = manager.master_for(SERVICE)
                for each in (theirs, *manager.sentinels):
                    closing.callback(world.run, getattr(each, "aclose", each.close))
                client = world.close_at_end(world.api.Redisson(theirs))
            check(world, client, unique_name)
        finally:
            closing.close()
            watched.stop()


def check(world: ClockWorld, client: Any, name: str) -> None:
    actor = world.actor()
    actor.do(client.get_lock(name).lock)
    [view] = found(world, client, "find_locks", f"{name}*")
    assert (view.name, view.holders[0].client_id) == (name, client.id)
    assert actor.do(client.inspect, name).holders[0].thread_id == actor.number
    actor.do(client.get_lock(name).unlock)


def test_a_client_that_inspects_nothing_does_not_load_it():
    code = "import sys, pyredisson, pyredisson.asyncio; print([each for each in sys.modules if 'inspection' in each])"
    assert output_of(code) == "[]"


def test_what_has_run_once_is_no_leak_although_its_client_has_ended(valkey, unique_name):
    with Redisson.from_url(valkey.url, config=Config(client_name="cron:9")) as client:
        with client.run_once(unique_name, at_most=600, at_least=300) as run:
            assert run is not None
            running = client.inspect(unique_name)
        assert running is not None
        assert running.held
    with Redisson.from_url(valkey.url) as other:
        view = other.inspect(unique_name)
        assert view is not None
        assert view.kind == "run_once"
        (who,) = view.holders
        assert (who.client_id, who.app, who.pid, who.ran) == (client.id, "cron:9", os.getpid(), True)
        assert who.label.endswith("(has run)")
        assert (view.problems, view.notes) == ((), ())
        assert unique_name not in [each.name for each in other.find_leaks()]
        holder = other.holder_of(unique_name)
        assert holder is not None
        assert (holder.client_id, holder.app) == (client.id, "cron:9")
        with pytest.raises(LockTimeoutError, match=r"it was run by cron:9@.*, and is free in (300|2\d\d)\.\d s"):
            other.get_lock(unique_name).hold(wait_time=0).__enter__()
