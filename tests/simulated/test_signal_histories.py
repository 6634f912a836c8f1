"""Histories of conditions, events, barriers and bounded semaphores in virtual time, and planted bugs that they find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from pyredisson._kinds.synchronizers import Visit
from pyredisson.config import Config
from tests.simulated.engine.faults import Faults
from tests.simulated.engine.runtime import SimulatedClient
from tests.simulated.engine.world import World
from tests.simulated.history import quiet
from tests.simulated.permit_history import PermitPlan
from tests.simulated.planted import Bug, check_found, in_code, in_script
from tests.simulated.seeds import runs
from tests.simulated.signal_history import BarrierHistory, BarrierPlan, BoundedHistory

CONFIG = Config(timeout=0.9, max_wait_without_check=200.0)
ITEMS = 6
#: A request has an unknown outcome if three replies to it are lost: seldom enough that no seed has one.
LOSING = Faults(lose_reply=0.02, duplicate=0.05)


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
        ended = world.run(until=lambda: all(task.done() for task in tasks), seconds=150)
        for task in tasks:
            if task.done():
                task.outcome.result()
        assert ended, f"seed {seed}: a lost wake-up"
        assert len(taken) == len(set(taken)) == 2 * ITEMS
        assert not any(client.core.subscriptions.last_resorts for client in clients)


@pytest.mark.parametrize("faults", [Faults(), LOSING], ids=["quiet", "losing replies"])
def test_no_seed_loses_a_wake_up(faults):
    for seed in range(30):
        play(seed, faults)


# ---- barriers and bounded semaphores ---------------------------------------------------------------------------------

QUIET = {
    BarrierHistory: quiet(BarrierPlan(config=Config(max_wait_without_check=30.0))),
    BoundedHistory: quiet(PermitPlan(config=Config(max_wait_without_check=30.0))),
}

each_history = pytest.mark.parametrize("history", QUIET)


@pytest.mark.volume
@each_history
def test_no_seed_breaks_a_rule(history, volume):
    results = list(runs(history, range(volume(40, full=2_000))))
    assert sum(result.grants for result in results) > 0
    if history is BarrierHistory:
        assert sum(result.unknown for result in results) < len(results) / 20


def play_quietly(history: type[BarrierHistory | BoundedHistory], seed: int) -> None:
    """Play a history without faults, in which a message wakes each waiter."""
    played = history(seed, QUIET[history])
    result = played.run()
    assert (result.unknown, result.errors) == (0, 0)
    assert not any(client.core.subscriptions.last_resorts for client in played.clients)


@each_history
def test_without_faults_a_message_wakes_each_waiter(history):
    for seed in range(20):
        play_quietly(history, seed)


# ---- planted bugs ----------------------------------------------------------------------------------------------------

#: Bugs by the histories that find them; those of conditions and events are found without one.
BUGS: dict[type[Any] | None, dict[str, Bug]] = {
    None: {
        "a notification forgets to remove its waiter": in_script(
            "condition_notify", ("redis.call('zrem', KEYS[3], member)\n            woken", "woken")
        ),
        "a wait gives up the lock and does not join": in_script(
            "condition_wait", ("if member ~= '' and", "if false and")
        ),
        "a notification is not published": in_script(
            "condition_notify",
            ("redis.call(ARGV[2], KEYS[3] .. ':' .. string.match(member, '^[^:]*'), member) > 0", "true"),
        ),
        "a set is not published": in_script("event_change", ("redis.call(ARGV[4], KEYS[3], ARGV[3])", "")),
    },
    BarrierHistory: {
        "a check at a barrier joins again": in_script(
            "barrier_visit", ("mine = who == ARGV[5] and number or mine", "mine = nil")
        ),
        "a late copy of a wait joins the next generation": in_script(
            "barrier_visit", ("if number and tonumber(number) > tonumber(ARGV[1]) then", "if false then")
        ),
        "all at a barrier have the number of the first": in_script(
            "barrier_visit", ("and -3 - parties or -1", "and -2 or -1")
        ),
        "the opening of a barrier is not published": in_script(
            "barrier_visit", ("redis.call(ARGV[2], KEYS[3], mode .. ' ' .. generation)", "")
        ),
        "a message ends the waits of other generations": in_code(
            Visit, "notified", lambda visit, payload: setattr(visit, "ended", True) or 1
        ),
    },
    BoundedHistory: {
        "a bounded semaphore counts a repeated release twice": in_script(
            "semaphore_release", ("if number == ARGV[1] then", "if false then")
        ),
        "a bounded semaphore has no bound": in_script(
            "semaphore_release", ("+ tonumber(given) <= tonumber(ARGV[4]) then", "then")
        ),
    },
}


def _finders(history: type[Any] | None) -> Iterator[tuple[str, Callable[[], object]]]:
    for seed in range(60):
        if history is None:
            yield f"seed {seed}", partial(play, seed, Faults())
        else:
            yield f"seed {seed} in quiet", partial(play_quietly, history, seed % 5)
            yield f"seed {seed}", history(seed).run


@pytest.mark.planted
@pytest.mark.parametrize(("history", "name"), [(history, name) for history, bugs in BUGS.items() for name in bugs])
def test_a_planted_bug_is_found(history, name, monkeypatch):
    check_found(monkeypatch, name, BUGS[history][name], _finders(history))
