"""Histories of conditions and events in virtual time: no wake-up is lost, and planted bugs are found."""

from __future__ import annotations

from functools import partial

import pytest

from pyredisson.config import Config
from tests.simulated.engine.faults import Faults
from tests.simulated.engine.runtime import SimulatedClient
from tests.simulated.engine.world import World
from tests.simulated.planted import check_found, in_script

CONFIG = Config(timeout=0.9, max_wait_without_check=200.0)
ITEMS = 6
LOSING = Faults(lose_reply=0.05, duplicate=0.05)


def play(seed: int, faults: Faults) -> None:
    """Three consumers take what two producers bring; an event says that all has been taken."""
    world = World(seed, faults=faults)
    items: list[int] = []
    taken: list[int] = []
    clients = [SimulatedClient(world.process(f"p{number}"), config=CONFIG) for number in range(5)]

    async def produce(client: SimulatedClient, first: int) -> None:
        condition = client.get_condition("orders")
        for item in range(first, first + ITEMS):
            await world.pause_of(client.runtime.process, world.rng.expovariate(2.0))
            async with condition:
                items.append(item)
                await condition.notify()
        assert await client.get_event("done").wait(400)

    async def consume(client: SimulatedClient) -> None:
        condition = client.get_condition("orders")
        for _ in range(2 * ITEMS // 3):
            async with condition, condition:
                await condition.wait_for(lambda: items)
                taken.append(items.pop(0))
        if len(taken) == 2 * ITEMS:
            await world.pause_of(clients[0].runtime.process, 2.0)
            await client.get_event("done").set()
            await client.get_event("done").clear()

    with world:
        works = [produce(clients[0], 0), produce(clients[1], 100), *map(consume, clients[2:])]
        tasks = [client.runtime.process.start(work, "user") for client, work in zip(clients, works, strict=True)]
        assert world.run(until=lambda: all(task.done() for task in tasks), seconds=150), f"seed {seed}: a lost wake-up"
        for task in tasks:
            task.outcome.result()
        assert len(taken) == len(set(taken)) == 2 * ITEMS
        assert not any(client.core.subscriptions.last_resorts for client in clients)


@pytest.mark.parametrize("faults", [Faults(), LOSING], ids=["quiet", "losing replies"])
def test_no_seed_loses_a_wake_up(faults: Faults) -> None:
    for seed in range(15):
        play(seed, faults)


BUGS = {
    "a notification forgets to remove its waiter": in_script(
        "condition_notify", ("redis.call('zrem', KEYS[3], member)\n            woken", "woken")
    ),
    "a wait gives up the lock and does not join": in_script("condition_wait", ("if member ~= '' and", "if false and")),
    "a notification is not published": in_script(
        "condition_notify",
        ("redis.call(ARGV[2], KEYS[3] .. ':' .. string.match(member, '^[^:]*'), member) > 0", "true"),
    ),
    "a set is not published": in_script("event_change", ("redis.call(ARGV[4], KEYS[3], ARGV[3])", "")),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tests = ((f"seed {seed}", partial(play, seed, Faults())) for seed in range(15))
    check_found(monkeypatch, name, BUGS[name], tests, by=AssertionError)
