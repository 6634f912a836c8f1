"""The server is away, or says nothing: in the middle, while somebody waits, and in an inner block."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import redis
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from pyredisson.errors import LockLostError, OutcomeUnknownError
from tests.proxy import Proxy
from tests.real_servers.client_settings import await_renewals, changed, renewed_every
from tests.real_servers.observation import RELEASE, held, nothing_left
from tests.servers import Server
from tests.waiting import until
from tests.worlds.clock import ClockWorld

AWAY = (RedisConnectionError, RedisTimeoutError)
MARGIN = 2.0  # seconds; this machine may be busy


# --- in the middle ---


def test_cut_off_while_holding(world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str) -> None:
    client = world.from_url(proxy.url)
    lock, other = client.get_lock(unique_name), client.get_lock(f"{unique_name}-2")
    actor = world.actor()
    actor.do(lock.lock)
    proxy.cut()
    began = time.monotonic()
    with changed(client, timeout=0.6):
        for call in (lock.lock, other.lock, lock.unlock, lock.unlock, lock.is_locked, lock.force_unlock):
            with pytest.raises((*AWAY, OutcomeUnknownError)):
                actor.do(call)
    assert time.monotonic() - began < 6 * 0.6 + MARGIN
    proxy.heal()
    actor.do(lock.unlock)
    nothing_left(direct, client, unique_name, other.name)
    assert not world.losses


def test_idle_connections_that_were_closed_are_no_outage(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str
) -> None:
    client = world.from_url(proxy.url)
    lock, actor = client.get_lock(unique_name), world.actor()
    for _ in range(10):
        actor.do(lock.lock)
        proxy.cut()
        proxy.heal()
        actor.do(lock.lock)
        proxy.cut()
        proxy.heal()
        actor.do(lock.unlock)
        assert held(direct, lock, actor) == 1
        actor.do(lock.unlock)
    nothing_left(direct, client, unique_name)


def test_the_server_dies_and_comes_back_empty(
    world: ClockWorld, fresh_server: Callable[..., Server], unique_name: str
) -> None:
    server = fresh_server()
    client = world.from_url(server.url, lock_watchdog_timeout=30.0)
    renewed_every(client, 0.4)
    lock, actor, other = client.get_lock(unique_name), world.actor(), world.actor()
    context = lock.hold()
    lease = actor.do(world.enter(context))
    server.kill()
    with pytest.raises((*AWAY, OutcomeUnknownError)), changed(client, timeout=0.6):
        other.do(lock.try_lock)
    server.restart()

    # Nobody holds it now, and its holder is told by the next renewal.
    until(lambda: world.losses, what="told")
    assert world.losses == [(unique_name, actor.number)]
    assert lease.lost
    with pytest.raises(LockLostError):
        lease.ensure_held()
    assert other.do(lock.try_lock)
    with pytest.raises(LockLostError):
        actor.do(world.leave(context))
    with server.client() as direct:
        assert held(direct, lock, other) == 1
        other.do(lock.unlock)
        nothing_left(direct, client, unique_name)


# --- while waiting ---


# --- an inner hold that could not be released ---


@pytest.mark.parametrize("form", ["calls", "blocks"])
def test_an_outer_hold_is_renewed_after_an_inner_one_that_could_not_be_released(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str, form: str
) -> None:
    """The caller repeats the call; nobody comes back to a block, which is released in the background."""
    client = world.from_url(proxy.url)
    renewed_every(client, 0.3)
    lock, actor = client.get_lock(unique_name), world.actor()
    outer = lock.hold()
    lease = actor.do(world.enter(outer))
    if form == "blocks":
        inner = lock.hold()
        actor.do(world.enter(inner))
        leave = world.leave(inner)
    else:
        actor.do(lock.lock)
        leave = lock.unlock
    swallowed = proxy.hold_request(RELEASE, None, then="reset")
    with pytest.raises(OutcomeUnknownError), changed(client, timeout=0.3):
        actor.do(leave)
    swallowed.remove()
    if form == "calls":
        actor.do(lock.unlock)
    until(lambda: held(direct, lock, actor) == 1, what="the inner hold is released")

    await_renewals(direct, unique_name)
    lease.ensure_held()
    actor.do(world.leave(outer))
    nothing_left(direct, client, unique_name)
    assert not world.losses


# --- silence of one request ---


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
