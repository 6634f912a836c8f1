"""A request that arrives twice, or after its owner has done something else meanwhile, changes nothing."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import redis

from pyredisson.errors import OutcomeUnknownError
from pyredisson.events import GivenBack, Lost, Renewed
from tests.proxy import Held, Proxy, Then
from tests.real_servers.client_settings import changed, renewed_every
from tests.real_servers.observation import ACQUIRE, FORCE, RELEASE, RENEW, held, nothing_left
from tests.servers import Server
from tests.waiting import until
from tests.worlds.clock import ClockWorld
from tests.worlds.threads import ThreadsWorld

THENS: list[Then] = ["reset", "hang"]


def refused(late: Held) -> bool:
    """Deliver it, and see whether the server says that it was overtaken."""
    (reply, *_) = late.release()
    return isinstance(reply, list) and reply[0] == b"stale"


# --- twice ---


def test_renewals_come_twice(world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str) -> None:
    client = world.from_url(proxy.url)
    renewed_every(client, 0.3)
    lock, actor = client.get_lock(unique_name), world.actor()
    twice = proxy.duplicate_request(RENEW, None)
    actor.do(lock.lock)
    until(lambda: twice.hits >= 3, what="three renewals")
    assert held(direct, lock, actor) == 1
    actor.do(lock.unlock)
    nothing_left(direct, client, unique_name)


# --- late ---


@pytest.mark.parametrize("then", THENS)
def test_a_force_unlock_does_not_free_the_next_holder(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str, then: Then
) -> None:
    client, other = world.from_url(proxy.url), world.from_url(proxy.url)
    lock, actor, next_one = client.get_lock(unique_name), world.actor(), world.actor()
    actor.do(lock.lock)
    late = proxy.hold_request(FORCE, then=then)
    with changed(client, attempt=0.2):
        assert actor.do(lock.force_unlock) is True
    theirs = other.get_lock(unique_name)
    next_one.do(theirs.lock)

    assert refused(late)

    assert held(direct, theirs, next_one) == 1
    next_one.do(theirs.unlock)
    nothing_left(direct, client, unique_name)


@pytest.mark.parametrize("then", THENS)
def test_a_renewal_raises_no_lock_from_the_dead(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str, then: Then
) -> None:
    client = world.from_url(proxy.url)
    renewed_every(client, 0.3)
    lock, actor = client.get_lock(unique_name), world.actor()
    late = proxy.hold_request(RENEW, then=then)
    actor.do(lock.lock)
    late.wait()
    actor.do(lock.unlock)

    assert late.release()[0] == [b"0"]

    nothing_left(direct, client, unique_name)
    next_one = world.actor()
    next_one.do(lock.lock)
    assert late.release()[0] == [b"0"]
    next_one.do(lock.unlock)


@pytest.mark.parametrize("then", THENS)
@pytest.mark.parametrize("method", ["lock", "unlock"])
def test_a_late_request_whose_caller_gave_up(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str, method: str, then: Then
) -> None:
    client = world.from_url(proxy.url)
    lock, actor = client.get_lock(unique_name), world.actor()
    actor.do(lock.is_locked)  # There is a connection.
    script = ACQUIRE
    if method == "unlock":
        script = RELEASE
        actor.do(lock.lock)
    # Nothing passes any more: the caller gives up, and the background as well for the time being.
    lates: list[Any] = [proxy.hold_request(script, k, then=then) for k in (1, 2)]
    swallowed = proxy.hold_request(RELEASE, None, then="reset")
    lost = proxy.hold_request(script, None, then="reset")
    with pytest.raises(OutcomeUnknownError), changed(client, timeout=0.5):
        actor.do(getattr(lock, method))
    swallowed.remove()
    lost.remove()
    if method == "lock":
        until(lambda: world.heard(GivenBack), what="given back")
    else:
        until(lambda: not client._core.watchdog._unsettled, what="released behind")
        actor.do(lock.unlock)
    assert not direct.exists(unique_name)

    for late in lates:
        assert not late.hits or refused(late)
    assert lates[0].hits

    assert not direct.exists(unique_name)
    actor.do(lock.lock)
    assert not lates[1].hits or refused(lates[1])
    assert refused(lates[0])
    assert held(direct, lock, actor) == 1
    actor.do(lock.unlock)
    nothing_left(direct, client, unique_name)


def test_a_renewal_that_finds_a_lock_just_released_is_no_loss(valkey: Server, unique_name: str) -> None:
    """The renewal is sent before the release and executed after it. With asyncio they share a connection."""
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
