"""Whoever waits at a latch goes on when it has been counted down, and not before."""

from __future__ import annotations

from tests.worlds.base import Actor, Remote, World
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import each_server

CHANNEL = "redisson_countdownlatch__channel__{ready}"


def ready(actor: Actor, client: Remote, count: int | None = None) -> Remote:
    latch = actor.get(client, "count_down_latch", "ready")
    if count is not None:
        assert latch.try_set_count(count) is True
    return latch


def test_return_values_and_stored_state(world: World) -> None:
    actor, client = world.actor(), world.client()
    mine = ready(actor, client)
    said = world.messages(CHANNEL)
    mine.try_set_count(2)
    mine.try_set_count(2)
    mine.count_down()
    assert world.redis.everything()["ready"] == ("string", "1")
    assert said.received() == [b"1"]
    mine.count_down()
    assert said.received() == [b"1", b"0"]
    record = f"pyredisson_done:{{ready}}:{client.id}:{actor.number}"
    assert set(world.redis.everything()) == {record}
    assert 50 < world.redis.ttl(record) <= 60


@each_server
def test_one_request_serves_all_waiters(world: ClockWorld) -> None:
    crowd = 200 if world.runtime == "threads" else 1000
    client = world.client(max_wait_without_check=60, timeout=30)  # They all connect at once.
    handle = client.real.get_count_down_latch("ready")
    theirs = Remote(handle, world.actor())
    mine = ready(world.actor(), world.client(), 1)
    pendings = [actor.start(handle.wait) for actor in world.actors(crowd)]
    world.until(lambda: world.waiting(theirs) == crowd, within=30)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    world.pass_time(0.3)
    before = world.redis.calls("get")
    mine.count_down()
    assert all(pending.result(within=60) for pending in pendings)
    assert world.redis.calls("get") - before <= 10  # The script's own are among them.
