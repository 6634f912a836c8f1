"""The server is away: at the first contact, in the middle, while somebody waits, and between nested blocks."""

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
from tests.real_servers.observation import RELEASE, RENEW, Tally, await_waiter, held, nothing_left
from tests.servers import Server
from tests.waiting import until
from tests.worlds.clock import ClockWorld

AWAY = (RedisConnectionError, RedisTimeoutError)
MARGIN = 2.0  # seconds; this machine may be busy


# --- at the first contact ---


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


@pytest.mark.parametrize("outage", ["cut", "blackhole"])
def test_a_waiter_lives_through_it(
    world: ClockWorld, proxy: Proxy, valkey: Server, direct: redis.Redis, unique_name: str, outage: str
) -> None:
    theirs = world.from_url(valkey.url).get_lock(unique_name)
    client = world.from_url(proxy.url, ping_interval=0.2, ping_timeout=0.4, max_wait_without_check=1.0)
    lock, holder, waiter = client.get_lock(unique_name), world.actor(), world.actor()
    holder.do(theirs.lock)
    taken = waiter.start(lock.lock)
    await_waiter(direct, client, unique_name)
    with changed(client, timeout=0.6):
        getattr(proxy, outage)()
        until(lambda: client._core.subscriptions.connection.down is not None, what="the outage is seen")
        holder.do(theirs.unlock)  # Nobody hears it.
        assert not taken.done()
        proxy.heal()

        began = time.monotonic()
        taken.result(20)

    assert time.monotonic() - began < 6.0
    assert held(direct, lock, waiter) == 1
    waiter.do(lock.unlock)
    nothing_left(direct, client, unique_name)


# --- an unlock that could not be settled ---


def test_an_unlock_that_does_not_get_through_ends_the_renewal(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str
) -> None:
    client = world.from_url(proxy.url, lock_watchdog_timeout=1.8)
    lock, actor = client.get_lock(unique_name), world.actor()
    actor.do(lock.is_locked)  # There is a connection.
    actor.do(lock.lock)
    swallowed = proxy.hold_request(RELEASE, None, then="reset")
    renewals = Tally(proxy, RENEW)
    with pytest.raises(OutcomeUnknownError), changed(client, timeout=0.3):
        actor.do(lock.unlock)
    before = renewals.count

    # Nobody renews it, so it ends with its lease although its thread lives; and nothing was lost: it was not wanted.
    until(lambda: not direct.exists(unique_name), what="it has run out")
    until(lambda: not client._core.watchdog._unsettled, what="given up")
    assert renewals.count == before
    assert not world.losses
    swallowed.remove()
    with pytest.raises(LockLostError):
        actor.do(lock.unlock)
    actor.do(lock.lock)
    assert held(direct, lock, actor) == 1
    actor.do(lock.unlock)
    nothing_left(direct, client, unique_name)


def test_a_partial_unlock_that_gets_through_at_last_resumes_the_renewal(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str
) -> None:
    client = world.from_url(proxy.url)
    renewed_every(client, 0.3)
    lock, actor = client.get_lock(unique_name), world.actor()
    actor.do(lock.lock)
    actor.do(lock.lock)
    swallowed = proxy.hold_request(RELEASE, None, then="reset")
    with pytest.raises(OutcomeUnknownError), changed(client, timeout=0.3):
        actor.do(lock.unlock)
    swallowed.remove()
    actor.do(lock.unlock)
    assert held(direct, lock, actor) == 1

    await_renewals(direct, unique_name)
    assert held(direct, lock, actor) == 1
    actor.do(lock.unlock)
    nothing_left(direct, client, unique_name)


# --- nested blocks ---


@pytest.mark.parametrize("healed", ["between", "after"])
@pytest.mark.parametrize("kind", ["with", "hold"])
def test_nested_blocks_strand_no_hold(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str, kind: str, healed: str
) -> None:
    client = world.from_url(proxy.url)
    lock, actor = client.get_lock(unique_name), world.actor()
    outer, inner = (lock, lock) if kind == "with" else (lock.hold(), lock.hold())
    actor.do(world.enter(outer))
    actor.do(world.enter(inner))
    proxy.cut()
    with pytest.raises((*AWAY, OutcomeUnknownError)) as error, changed(client, timeout=0.3):
        actor.do(world.leave(inner))
    if healed == "between":
        proxy.heal()
        # The inner hold's exception goes before any error of the outer one's, and the outer one is given back.
        actor.do(world.leave(outer), error.value)
    else:
        with changed(client, timeout=0.3):
            actor.do(world.leave(outer), error.value)
        proxy.heal()
    # Given back, long before the lease is over.
    nothing_left(direct, client, unique_name)
    actor.do(lock.lock)
    assert held(direct, lock, actor) == 1
    actor.do(lock.unlock)
    nothing_left(direct, client, unique_name)


@pytest.mark.parametrize("healed", ["before the outer one is left", "after"])
@pytest.mark.parametrize("outage", ["cut", "blackhole"])
def test_the_inner_block_cannot_be_entered(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str, outage: str, healed: str
) -> None:
    client = world.from_url(proxy.url)
    lock, actor = client.get_lock(unique_name), world.actor()
    actor.do(world.enter(lock))
    with changed(client, timeout=0.3):
        getattr(proxy, outage)()
        with pytest.raises((*AWAY, OutcomeUnknownError)) as error:
            actor.do(world.enter(lock))
        if healed != "after":
            proxy.heal()
        actor.do(world.leave(lock), error.value)
        proxy.heal()
    # Given back, long before the lease is over.
    nothing_left(direct, client, unique_name)
    assert not world.losses


def test_an_unlock_after_a_re_entry_that_failed_ends_the_renewal_too(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str
) -> None:
    client = world.from_url(proxy.url)
    lock, actor = client.get_lock(unique_name), world.actor()
    actor.do(lock.lock)
    proxy.blackhole()
    with changed(client, timeout=0.3):
        with pytest.raises(OutcomeUnknownError):
            actor.do(lock.lock)
        for _ in range(2):
            with pytest.raises(OutcomeUnknownError):
                actor.do(lock.unlock)
    proxy.heal()
    # Its thread lives and does nothing more: both the re-entry and the hold are given back behind it.
    until(lambda: not direct.exists(unique_name), within=10.0, what="given back, well before the lease is over")
    actor.do(lock.unlock)
    nothing_left(direct, client, unique_name)
    assert not world.losses


def test_an_outer_block_goes_on_after_an_inner_one_that_could_not_be_left(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str
) -> None:
    client = world.from_url(proxy.url)
    renewed_every(client, 0.3)
    lock, actor = client.get_lock(unique_name), world.actor()
    outer, inner = lock.hold(), lock.hold()
    lease = actor.do(world.enter(outer))
    actor.do(world.enter(inner))
    swallowed = proxy.hold_request(RELEASE, None, then="reset")
    with pytest.raises(OutcomeUnknownError), changed(client, timeout=0.3):
        actor.do(world.leave(inner))
    swallowed.remove()
    until(lambda: held(direct, lock, actor) == 1, what="left behind")

    # Nobody comes back for the inner hold, so once that is settled the outer one is renewed as before.
    await_renewals(direct, unique_name)
    lease.ensure_held()
    actor.do(world.leave(outer))
    nothing_left(direct, client, unique_name)
    assert not world.losses
