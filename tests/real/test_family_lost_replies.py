"""Requests that are lost, late or doubled, for each kind of the family: each counts once, and nothing is left."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import redis
from redis.exceptions import RedisError

from pyredisson.core.names import LockNames
from pyredisson.errors import OutcomeUnknownError
from tests.proxy import Held, Proxy, Toxic
from tests.real.kinds import FAIR, FAMILY, LATCH, SEMAPHORE, Kind
from tests.real.looking import ANY_SCRIPT, Tally, about, await_waiting, side_by_side
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

each_kind = pytest.mark.parametrize("kind", FAMILY, ids=str)
each_fault = pytest.mark.parametrize("fault", FAULTS)


@each_kind
@each_fault
def test_each_request_in_turn(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str, kind: Kind, fault: str
) -> None:
    def one_run(k: int) -> None:
        """All goes well but for the k-th request, and its copies."""
        name = f"{unique_name}-{k}"
        client, actor = world.from_url(proxy.url, timeout=2.4 if fault == "silence" else 6.0), world.actor()
        handle, permit = kind.of(client, name), None
        wrong = FAULTS[fault](proxy, about(ANY_SCRIPT, name), k)
        for step in kind.run:
            args = [permit if arg is ... else arg for arg in step.args]
            result = actor.do(getattr(handle, step.method), *args)
            if step.result is ...:
                permit = result
            else:
                assert result == step.result, step
            if isinstance(wrong, Held) and wrong.hits:
                wrong.release()  # It comes when all is long settled, and again after each further call.
            assert kind.look(direct, handle, actor) == step.state, step
        assert wrong.hits == 1
        kind.at_rest(direct, client, name, kind.run[-1].free)

    # Each request's turn has a run of its own, all of them at once: a silence lasts.
    side_by_side(one_run, range(1, len(kind.run) + 1))


@pytest.mark.parametrize("fault", ["reply lost", "late"])
@each_kind
def test_each_request_of_a_waiter_in_turn(
    world: ClockWorld, proxy: Proxy, valkey: Server, direct: redis.Redis, unique_name: str, kind: Kind, fault: str
) -> None:
    theirs, holders = world.from_url(valkey.url), {k: world.actor() for k in (1, 2, 3)}

    def one_wait(k: int) -> None:
        name = f"{unique_name}-{k}"
        let_in = kind.block(holders[k], theirs, name)
        client, actor = world.from_url(proxy.url, timeout=2.4 if fault == "silence" else 6.0), world.actor()
        handle = kind.of(client, name)
        asked = Tally(proxy, about(kind.asks, name))
        wrong = FAULTS[fault](proxy, about(kind.asks, name), k)
        waiting = actor.start(getattr(handle, kind.take))
        await_waiting(direct, handle)
        # Before it listens and after, and the third time when it is let in. What goes wrong before that is asked again.
        until(lambda: asked.count >= (2 if k == 3 else 3), what=f"request {k} goes wrong, and it asks again")
        until(lambda: not proxy.under_way, what="it is told to wait")
        let_in()

        taken = waiting.result(10)

        assert wrong.hits == 1
        if isinstance(wrong, Held):
            wrong.release()
        if kind.glance:
            assert not holders[k].do(getattr(kind.opponent(theirs, name), kind.glance)), "nobody gets in beside it"
        kind.give_back(actor, handle, taken)
        if isinstance(wrong, Held):
            wrong.release()
        kind.at_rest(direct, client, name, 1)

    side_by_side(one_wait, holders)


@pytest.mark.parametrize("kind", FAMILY, ids=str)
def test_a_waiter_lives_through_an_outage(
    world: ClockWorld, proxy: Proxy, valkey: Server, direct: redis.Redis, unique_name: str, kind: Kind
) -> None:
    let_in = kind.block(world.actor(), world.from_url(valkey.url), unique_name)
    client, actor = world.from_url(proxy.url, timeout=3.0, max_wait_without_check=60.0), world.actor()
    handle = kind.of(client, unique_name)
    waiting = actor.start(getattr(handle, kind.take))
    await_waiting(direct, handle)
    proxy.cut()
    until(lambda: client._core.wakeups.line.down is not None, what="the outage is seen")
    let_in()  # Nobody hears it.
    assert not waiting.done()
    proxy.heal()

    kind.give_back(actor, handle, waiting.result(15))

    kind.at_rest(direct, client, unique_name, 1)


@pytest.mark.parametrize("which", ["take", "give"])
def test_what_cannot_be_settled_is_made_good_behind(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str, which: str
) -> None:
    def give_up(kind: Kind) -> None:
        name = f"{unique_name}-{kind}"
        client, actor = world.connected(proxy.url, timeout=1.8), world.actor()
        handle = kind.of(client, name)
        call = partial(actor.do, getattr(handle, kind.take))
        if kind.permits:
            actor.do(handle.try_set_permits, 3)
        if kind is LATCH:
            actor.do(handle.try_set_count, 2)
            call = partial(actor.do, handle.count_down)
        elif which == "give":
            call = partial(kind.give_back, actor, handle, call())
        before = kind.look(direct, handle, actor)
        lost = proxy.drop_reply(about(ANY_SCRIPT, name), None, then="reset")

        with pytest.raises(OutcomeUnknownError) as error:
            call()

        assert error.value.name == name
        assert isinstance(error.value.__cause__, RedisError)
        assert lost.hits > 1
        assert kind.look(direct, handle, actor) != before, "it was executed"
        lost.remove()
        if kind is LATCH:
            until(lambda: client._core.ledger.count() == 0, what="settled")
            assert kind.look(direct, handle, actor) == 1
            actor.do(handle.count_down)
        elif which == "give" and not kind.permits:
            until(lambda: not client._core.watchdog._unsettled, what="settled")
            actor.do(handle.unlock)  # The same one, continued: it learns that it is done.
        kind.at_rest(direct, client, name, 3)

    # Whoever waits for a latch takes nothing.
    side_by_side(give_up, [kind for kind in FAMILY if kind is not LATCH or which == "give"])
    assert not world.losses


def test_a_place_in_the_queue_is_given_up_behind_an_outage(
    world: ClockWorld, proxy: Proxy, valkey: Server, direct: redis.Redis, unique_name: str
) -> None:
    theirs, holder, third = world.from_url(valkey.url), world.actor(), world.actor()
    let_in = FAIR.block(holder, theirs, unique_name)
    client, actor = world.connected(proxy.url), world.actor()
    handle, queue = FAIR.of(client, unique_name), LockNames(unique_name).queue
    waiting = actor.start(handle.try_lock, 1.5)
    until(lambda: direct.llen(queue) == 1, what="it queues up")
    proxy.cut()
    with pytest.raises((RedisError, OutcomeUnknownError)):
        waiting.result(10)
    assert direct.llen(queue) == 1, "nobody could tell the server"
    proxy.heal()

    until(lambda: direct.llen(queue) == 0, what="its place is given up")

    let_in()
    assert third.do(FAIR.of(theirs, unique_name).try_lock)
    third.do(FAIR.of(theirs, unique_name).unlock)
    FAIR.at_rest(direct, client, unique_name, 0)


def test_permits_wanted_by_many_are_conserved(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str
) -> None:
    client = world.from_url(proxy.url, timeout=4.5)
    semaphore, actors = SEMAPHORE.of(client, unique_name), [world.actor() for _ in range(8)]
    actors[0].do(semaphore.try_set_permits, 3)
    match = about(ANY_SCRIPT, unique_name)
    faults = zip((2, 5, 9, 14, 20, 26), (*FAULTS, "late", "reply lost"), strict=True)
    wrongs = [FAULTS[fault](proxy, match, k) for k, fault in faults]

    turns = [
        future
        for _ in range(3)
        for actor in actors
        for future in (actor.start(semaphore.acquire, 2), actor.start(semaphore.release, 2))
    ]
    for turn in turns:
        turn.result(20)
    for wrong in wrongs:
        if isinstance(wrong, Held) and wrong.hits:
            wrong.release()

    assert [wrong.hits for wrong in wrongs] == [1] * len(wrongs)
    SEMAPHORE.at_rest(direct, client, unique_name, 3)
