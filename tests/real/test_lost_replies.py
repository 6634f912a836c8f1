"""The reply of a script is lost after it ran: it counts once all the same."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
import redis

from pyredisson.errors import OutcomeUnknownError
from pyredisson.events import GivenBack, Lost, RenewalFailed, Renewed
from tests.proxy import Proxy, Then
from tests.real.looking import (
    ACQUIRE,
    ANY_SCRIPT,
    FORCE,
    RELEASE,
    RENEW,
    about,
    epoch,
    held,
    nothing_left,
    side_by_side,
)
from tests.servers import Server
from tests.waiting import until
from tests.worlds.clock import ClockWorld
from tests.worlds.threads import ThreadsWorld

# What is done: its method, its script, the holds before it and after it.
OPERATIONS = {
    "acquire": ("lock", ACQUIRE, 0, 1),
    "re-entry": ("lock", ACQUIRE, 1, 2),
    "third hold": ("lock", ACQUIRE, 2, 3),
    "unlock": ("unlock", RELEASE, 1, 0),
    "partial unlock": ("unlock", RELEASE, 2, 1),
    "force_unlock": ("force_unlock", FORCE, 2, 0),
}
THENS: list[Then] = ["reset", "hang"]


@pytest.mark.parametrize("then", THENS)
@pytest.mark.parametrize("lost", [1, 2])
def test_counts_once(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str, then: Then, lost: int
) -> None:
    def count(operation: str) -> None:
        method, script, before, after = OPERATIONS[operation]
        client = world.connected(proxy.url, timeout=3.3)
        lock, actor = client.get_lock(f"{unique_name}-{operation}"), world.actor()
        for _ in range(before):
            actor.do(lock.lock)
        toxics = [proxy.drop_reply(about(script, lock.name), k, then=then) for k in range(1, lost + 1)]

        actor.do(getattr(lock, method))

        assert [toxic.hits for toxic in toxics] == [1] * lost
        assert held(direct, lock, actor) == after
        assert epoch(direct, lock, actor) == lost
        for left in reversed(range(after)):
            actor.do(lock.unlock)
            assert held(direct, lock, actor) == left
        nothing_left(direct, client, lock.name)

    side_by_side(count, OPERATIONS)


@pytest.mark.parametrize("then", THENS)
def test_that_cannot_be_settled_is_said_and_made_good_behind(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str, then: Then
) -> None:
    def give_up(operation: str) -> None:
        method, _, before, after = OPERATIONS[operation]
        client = world.connected(proxy.url, timeout=1.8)
        lock, actor = client.get_lock(f"{unique_name}-{operation}"), world.actor()
        for _ in range(before):
            actor.do(lock.lock)
        # Every script from now on: neither the call nor the background gets an answer.
        lost = proxy.drop_reply(about(ANY_SCRIPT, lock.name), None, then=then)

        began = time.monotonic()
        with pytest.raises(OutcomeUnknownError) as error:
            actor.do(getattr(lock, method))

        assert time.monotonic() - began < 2 * 1.8
        assert isinstance(error.value.__cause__, (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError))
        assert error.value.name == lock.name
        assert lost.hits > 1

        lost.remove()
        if method == "lock":
            # Given back, and no more than that: the outer holds stand, and are renewed.
            until(lambda: lock.name in {event.name for event in world.heard(GivenBack)}, what="given back")
            assert held(direct, lock, actor) == before
            for left in reversed(range(before)):
                actor.do(lock.unlock)
                assert held(direct, lock, actor) == left
        elif method == "unlock":
            until(lambda: held(direct, lock, actor) == after, what="released behind")
            until(lambda: not client._core.watchdog._unsettled, what="settled")
            actor.do(lock.unlock)  # The same one, continued: it learns that it is done.
            assert held(direct, lock, actor) == after
            for _ in range(after):
                actor.do(lock.unlock)
        else:
            assert actor.do(lock.force_unlock) in (True, False)
        nothing_left(direct, client, lock.name)

    side_by_side(give_up, OPERATIONS)
    assert not world.losses


@pytest.mark.parametrize("then", THENS)
def test_an_unlock_called_again_continues_the_one_that_failed(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str, then: Then
) -> None:
    def go_on(holds: int) -> None:
        client = world.connected(proxy.url, timeout=1.2)
        lock, actor = client.get_lock(f"{unique_name}-{holds}"), world.actor()
        for _ in range(holds):
            actor.do(lock.lock)
        lost = proxy.drop_reply(about(ANY_SCRIPT, lock.name), None, then=then)
        for _ in range(2):
            with pytest.raises(OutcomeUnknownError):
                actor.do(lock.unlock)
        lost.remove()

        actor.do(lock.unlock)

        assert held(direct, lock, actor) == holds - 1
        for _ in range(holds - 1):
            actor.do(lock.unlock)
        nothing_left(direct, client, lock.name)

    side_by_side(go_on, (1, 2))


@pytest.mark.parametrize("then", THENS)
def test_of_each_script_of_a_nested_run_in_turn(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str, then: Then
) -> None:
    def one_run(k: int) -> None:
        client, actor = world.connected(proxy.url, timeout=3.3), world.actor()
        lock = client.get_lock(f"{unique_name}-{k}")
        lost = proxy.drop_reply(about(ANY_SCRIPT, lock.name), k, then=then)
        counts = []
        for method in (lock.lock, lock.lock, lock.unlock, lock.lock, lock.unlock, lock.unlock):
            actor.do(method)
            counts.append(held(direct, lock, actor))
        assert counts == [1, 2, 1, 2, 1, 0]
        assert lost.hits == 1
        nothing_left(direct, client, lock.name)

    # Each script's turn has a run of its own, all of them at once: a silence lasts.
    side_by_side(one_run, range(1, 7))


@pytest.mark.parametrize("then", THENS)
def test_of_a_renewal_is_asked_again_and_nothing_is_lost(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str, then: Then
) -> None:
    client = world.connected(proxy.url, lock_watchdog_timeout=3.9)
    lock, actor = client.get_lock(unique_name), world.actor()
    actor.do(lock.lock)
    lost = [proxy.drop_reply(RENEW, k, then=then) for k in (1, 2, 4)]

    for toxic in lost:
        toxic.wait()
    until(lambda: len(world.heard(RenewalFailed)) >= 3, what="three renewals failed")
    renewed = len(world.heard(Renewed))
    until(lambda: len(world.heard(Renewed)) > renewed or not held(direct, lock, actor), what="renewed all the same")

    assert held(direct, lock, actor) == 1
    assert not world.losses
    actor.do(lock.unlock)
    nothing_left(direct, client, unique_name)


def test_of_one_owner_holds_up_others_by_one_patience_at_most(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str
) -> None:
    client = world.from_url(proxy.url, timeout=6.0)
    actor, other = world.actor(), world.actor()
    lock, another = client.get_lock(unique_name), client.get_lock(f"{unique_name}-2")
    actor.do(lock.lock)
    other.do(another.lock)
    other.do(another.unlock)
    lost = proxy.drop_reply(RELEASE, 1, then="hang")
    hanging = actor.start(lock.unlock)
    lost.wait()

    began = time.monotonic()
    other.do(another.lock)
    other.do(another.unlock)
    took = time.monotonic() - began

    # Threads have a connection each. Tasks share one: when that falls silent it does so for all of them, for a third
    # of the budget, and then all of them go by another.
    assert took < (1.8 if world.runtime == "threads" else 3.8)
    hanging.result(10)
    nothing_left(direct, client, unique_name, another.name)


def test_under_many_at_once_counts_once_for_each(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str
) -> None:
    client = world.from_url(proxy.url, timeout=3.6)
    actors = [world.actor() for _ in range(12)]
    locks = [client.get_lock(f"{unique_name}-{index}") for index in range(12)]
    lost = [proxy.drop_reply(ANY_SCRIPT, k, then=then) for k, then in zip((3, 9, 14, 20, 31), THENS * 3, strict=False)]
    futures = []
    for actor, lock in zip(actors, locks, strict=True):
        for method in (lock.lock, lock.lock, lock.unlock):
            futures.append(actor.start(method))
    for future in futures:
        future.result(20)

    assert [held(direct, lock, actor) for lock, actor in zip(locks, actors, strict=True)] == [1] * 12
    assert sum(toxic.hits for toxic in lost) >= 2
    for actor, lock in zip(actors, locks, strict=True):
        actor.do(lock.unlock)
    nothing_left(direct, client, *(lock.name for lock in locks))


def test_of_an_unlock_is_late_and_a_renewal_says_that_it_is_gone(valkey: Server, unique_name: str) -> None:
    """The renewal was sent before and is executed after it: that is no loss. Under asyncio they are in one line."""
    world = ThreadsWorld()
    client = world.connected(valkey.url, lock_watchdog_timeout=3.0, timeout=20.0)
    lock, actor, runtime = client.get_lock(unique_name), world.actor(), client._core.runtime
    ask, sent, released = runtime.eval, threading.Event(), threading.Event()

    async def cross(request: Any, timeout: float) -> Any:
        if request.script.name == "lock_renew":
            sent.set()
            assert released.wait(20)
            return await ask(request, 10.0)
        reply = await ask(request, timeout)
        if request.script.name == "lock_release":
            released.set()
            until(lambda: world.heard(Renewed), 20, what="the renewal is over")
        return reply

    runtime.eval = cross
    actor.do(lock.lock)
    assert sent.wait(20)
    actor.do(lock.unlock)
    assert not world.heard(Lost)
    world.close()
