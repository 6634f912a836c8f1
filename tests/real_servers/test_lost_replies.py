"""Requests and replies that are lost, late or doubled: each call counts once all the same, and nothing is left over."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import pytest
import redis
from redis.exceptions import RedisError

from pyredisson.core.names import LockNames
from pyredisson.errors import OutcomeUnknownError
from pyredisson.events import RenewalFailed, Renewed
from tests.proxy import Held, Proxy, Then, Toxic
from tests.real_servers.kind_table import FAIR, KINDS, LATCH, Kind
from tests.real_servers.observation import (
    ANY_SCRIPT,
    RELEASE,
    RENEW,
    Tally,
    about,
    await_waiting,
    held,
    nothing_left,
    side_by_side,
)
from tests.servers import Server
from tests.waiting import until
from tests.worlds.clock import ClockWorld

#: What happens to the k-th request that matches.
FAULTS: dict[str, Callable[[Proxy, Callable[[list[bytes]], bool], int], Toxic]] = {
    "reply lost": lambda proxy, match, k: proxy.drop_reply(match, k, then="reset"),
    "silence": lambda proxy, match, k: proxy.drop_reply(match, k, then="hang"),
    "late": lambda proxy, match, k: proxy.hold_request(match, k, then="reset"),
    "doubled": lambda proxy, match, k: proxy.duplicate_request(match, k),
}

#: How the client notices: its connection is reset, or stays silent.
THENS: list[Then] = ["reset", "hang"]

each_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


@each_kind
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_each_request_in_turn_changes_no_result(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str, kind: Kind, fault: str
) -> None:
    def one_run(k: int) -> None:
        """All goes well but for the k-th request, and its copies."""
        name = f"{unique_name}-{k}"
        client, actor = world.from_url(proxy.url, timeout=2.4 if fault == "silence" else 6.0), world.actor()
        handle, permit = kind.handle(client, name), None
        wrong = FAULTS[fault](proxy, about(ANY_SCRIPT, name), k)
        for step in kind.steps:
            args = [permit if arg is ... else arg for arg in step.args]
            result = actor.do(getattr(handle, step.method), *args)
            if step.result is ...:
                permit = result
            else:
                assert result == step.result, step
            if isinstance(wrong, Held) and wrong.hits:
                wrong.release()  # It comes when all is long settled, and again after each further call.
            assert kind.state(direct, handle, actor) == step.state, step
        assert wrong.hits == 1
        kind.await_rest(direct, client, name, kind.steps[-1].free)

    # Each request's turn has a run of its own, all of them at once: a silence lasts.
    side_by_side(one_run, range(1, len(kind.steps) + 1))


@pytest.mark.parametrize("fault", ["reply lost", "late"])
@each_kind
def test_a_fault_in_each_request_of_a_waiter_in_turn_does_not_keep_it_from_acquiring(
    world: ClockWorld, proxy: Proxy, valkey: Server, direct: redis.Redis, unique_name: str, kind: Kind, fault: str
) -> None:
    theirs, holders = world.from_url(valkey.url), {k: world.actor() for k in (1, 2, 3)}

    def one_wait(k: int) -> None:
        name = f"{unique_name}-{k}"
        release_it = kind.block(holders[k], theirs, name)
        client, actor = world.from_url(proxy.url, timeout=6.0), world.actor()
        handle = kind.handle(client, name)
        asked = Tally(proxy, about(kind.is_acquire, name))
        wrong = FAULTS[fault](proxy, about(kind.is_acquire, name), k)
        waiting = actor.start(getattr(handle, kind.acquire))
        await_waiting(direct, handle)
        # Before it listens and after, and the third time when it is let in. What goes wrong before that is asked again.
        until(lambda: asked.count >= (2 if k == 3 else 3), what=f"request {k} goes wrong, and it asks again")
        until(lambda: not proxy.under_way, what="it is refused, and waits")
        release_it()

        acquired = waiting.result(10)

        assert wrong.hits == 1
        if isinstance(wrong, Held):
            wrong.release()
        if kind.try_acquire:
            assert not holders[k].do(getattr(kind.blocking_handle(theirs, name), kind.try_acquire)), "it is held"
        kind.give_back(actor, handle, acquired)
        if isinstance(wrong, Held):
            wrong.release()
        kind.await_rest(direct, client, name, 1)

    side_by_side(one_wait, holders)


@pytest.mark.parametrize("which", ["acquire", "release"])
def test_a_call_with_unknown_outcome_raises_and_is_undone_in_the_background(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str, which: str
) -> None:
    def fail(kind: Kind) -> None:
        name = f"{unique_name}-{kind}"
        client, actor = world.connected(proxy.url, timeout=1.8), world.actor()
        handle = kind.handle(client, name)
        call = partial(actor.do, getattr(handle, kind.acquire))
        if kind.has_permits:
            actor.do(handle.try_set_permits, 3)
        if kind is LATCH:
            actor.do(handle.try_set_count, 2)
            call = partial(actor.do, handle.count_down)
        elif which == "release":
            call = partial(kind.give_back, actor, handle, call())
        before = kind.state(direct, handle, actor)
        lost = proxy.drop_reply(about(ANY_SCRIPT, name), None, then="reset")

        with pytest.raises(OutcomeUnknownError) as error:
            call()

        assert error.value.name == name
        assert isinstance(error.value.__cause__, RedisError)
        assert lost.hits > 1
        assert kind.state(direct, handle, actor) != before, "it was executed"
        lost.remove()
        if kind is LATCH:
            until(lambda: client._core.ledger.count() == 0, what="settled")
            assert kind.state(direct, handle, actor) == 1
            actor.do(handle.count_down)
        elif which == "release" and not kind.has_permits:
            until(lambda: not client._core.watchdog._unsettled, what="settled")
            actor.do(handle.unlock)  # The same one, continued: it learns that it is done.
        kind.await_rest(direct, client, name, 3)

    # A wait for a latch acquires nothing.
    side_by_side(fail, [kind for kind in KINDS if kind is not LATCH or which == "release"])
    assert not world.losses


def test_a_place_in_the_queue_is_given_up_after_an_outage(
    world: ClockWorld, proxy: Proxy, valkey: Server, direct: redis.Redis, unique_name: str
) -> None:
    theirs, holder, third = world.from_url(valkey.url), world.actor(), world.actor()
    release_it = FAIR.block(holder, theirs, unique_name)
    client, actor = world.connected(proxy.url), world.actor()
    handle, queue = FAIR.handle(client, unique_name), LockNames(unique_name).queue
    waiting = actor.start(handle.try_lock, 1.5)
    until(lambda: direct.llen(queue) == 1, what="it queues up")
    proxy.cut()
    with pytest.raises((RedisError, OutcomeUnknownError)):
        waiting.result(10)
    assert direct.llen(queue) == 1, "the server cannot know"
    proxy.heal()

    until(lambda: direct.llen(queue) == 0, what="its place is given up")

    release_it()
    assert third.do(FAIR.handle(theirs, unique_name).try_lock)
    third.do(FAIR.handle(theirs, unique_name).unlock)
    FAIR.await_rest(direct, client, unique_name, 0)


@pytest.mark.parametrize("then", THENS)
def test_a_renewal_is_repeated_when_its_reply_is_lost(
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


def test_the_silence_of_one_request_delays_other_owners_by_its_timeout_at_most(
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
