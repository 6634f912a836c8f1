"""Renewals that do not get through, and servers that stop: nobody hangs, and a loss is told at its deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import redis
import redis.exceptions as rx

from pyredisson.core.deadline import certain_for
from pyredisson.core.events import Lost, RenewalFailed
from pyredisson.errors import LockLostError, OutcomeUnknownError
from tests.proxy import Proxy
from tests.real.looking import RENEW, Tally, await_waiter, held, nothing_left
from tests.real.worlds import World
from tests.servers import Server
from tests.waiting import until

AWAY = (rx.ConnectionError, rx.TimeoutError, OutcomeUnknownError)
MARGIN = 0.6  # seconds; this machine may be busy


@pytest.mark.parametrize("outage", ["blackhole", "cut", "unanswered"])
def test_a_renewal_that_never_gets_through_is_told_at_the_deadline(
    world: World, proxy: Proxy, direct: redis.Redis, unique_name: str, outage: str
) -> None:
    client = world.client(proxy.url, lock_watchdog_timeout=0.9)
    lock, actor = client.get_lock(unique_name), world.actor()
    context = lock.hold()
    before = time.monotonic()
    lease = actor.do(world.enter(context))
    after = time.monotonic()
    if outage == "unanswered":
        proxy.hold_request(RENEW, None)
    else:
        getattr(proxy, outage)()

    lost_before_its_time = False
    while time.monotonic() < before + certain_for(900) - 0.01:
        lost_before_its_time |= lease.lost and time.monotonic() < before + certain_for(900)
    until(lambda: world.losses, what="told")

    assert not lost_before_its_time
    (told,) = world.when(Lost)
    assert before + certain_for(900) <= told < after + certain_for(900) + 0.25
    assert world.losses == [(unique_name, actor.number)]
    assert len(world.heard(RenewalFailed)) >= 2  # It did not wait for the next period.
    assert lease.lost
    assert lease.remaining() == 0.0
    with pytest.raises(LockLostError):
        lease.ensure_held()
    proxy.clear()
    with pytest.raises(LockLostError):
        actor.do(world.leave(context))
    nothing_left(direct, client, unique_name)


def test_a_loss_is_told_before_anybody_else_gets_the_lock(
    world: World, proxy: Proxy, valkey: Server, direct: redis.Redis, unique_name: str
) -> None:
    client, other = world.client(proxy.url, lock_watchdog_timeout=0.8), world.client(valkey.url)
    lock, theirs = client.get_lock(unique_name), other.get_lock(unique_name)
    actor, next_one = world.actor(), world.actor()
    lease = actor.do(world.enter(lock.hold()))
    taken: list[float] = []
    waiting = [next_one.start(theirs.lock), next_one.start(lambda: taken.append(time.monotonic()))]
    await_waiter(direct, other, unique_name)
    proxy.blackhole()
    for call in waiting:
        call.result(5)
    assert lease.lost
    (told,) = world.when(Lost)
    assert told <= taken[0]
    proxy.clear()
    with pytest.raises(LockLostError):
        actor.do(lock.unlock)
    assert held(direct, theirs, next_one) == 1
    next_one.do(theirs.unlock)
    nothing_left(direct, client, unique_name)


@pytest.mark.parametrize("levels", [1, 3])
def test_after_a_loss_each_level_says_so_and_then_it_is_over(
    world: World, proxy: Proxy, direct: redis.Redis, unique_name: str, levels: int
) -> None:
    client = world.client(proxy.url, lock_watchdog_timeout=0.5)
    lock, actor = client.get_lock(unique_name), world.actor()
    for _ in range(levels):
        actor.do(lock.lock)
    proxy.blackhole()
    until(lambda: world.losses, what="told")
    proxy.clear()
    with pytest.raises(LockLostError):
        actor.do(lock.lock)  # It would be taken for what was lost.
    for _ in range(levels):
        with pytest.raises(LockLostError):
            actor.do(lock.unlock)
    actor.do(lock.lock)
    assert held(direct, lock, actor) == 1
    actor.do(lock.unlock)
    nothing_left(direct, client, unique_name)
    assert len(world.losses) == 1


def test_an_outage_shorter_than_the_lease_costs_nothing(
    world: World, proxy: Proxy, direct: redis.Redis, unique_name: str
) -> None:
    client = world.client(proxy.url, lock_watchdog_timeout=1.8)
    lock, actor = client.get_lock(unique_name), world.actor()
    lease = actor.do(world.enter(lock.hold()))
    for outage in ("cut", "blackhole"):
        failed = len(world.heard(RenewalFailed))
        getattr(proxy, outage)()
        until(lambda failed=failed: len(world.heard(RenewalFailed)) > failed, what="a renewal failed")
        proxy.heal()
        renewals = Tally(proxy, RENEW)
        until(lambda renewals=renewals: renewals.count >= 2, what="renewed again")
    lease.ensure_held()
    assert held(direct, lock, actor) == 1
    actor.do(lock.unlock)
    nothing_left(direct, client, unique_name)
    assert not world.losses


# --- the server is stopped ---


def test_no_call_hangs_on_a_stopped_server(world: World, fresh_server: Callable[..., Server], unique_name: str) -> None:
    server = fresh_server()
    client = world.client(server.url, timeout=0.6, ping_interval=0.2, ping_timeout=0.4)
    lock, free = client.get_lock(unique_name), client.get_lock(f"{unique_name}-2")
    holder, actor, waiter = world.actor(), world.actor(), world.actor()
    holder.do(lock.lock)
    began = time.monotonic()
    waiting = waiter.start(lock.try_lock, 1.0)
    with server.client() as direct:
        await_waiter(direct, client, unique_name)
    server.pause()
    calls = {
        "lock": free.lock,
        "try_lock": free.try_lock,
        "is_locked": free.is_locked,
        "get_hold_count": free.get_hold_count,
        "remain_time_to_live": free.remain_time_to_live,
        "force_unlock": free.force_unlock,
    }
    for name, call in calls.items():
        asked = time.monotonic()
        with pytest.raises(AWAY):
            actor.do(call)
        assert time.monotonic() - asked < 0.6 + MARGIN, name
    asked = time.monotonic()
    with pytest.raises(AWAY):
        holder.do(lock.unlock)
    assert time.monotonic() - asked < 0.6 + MARGIN
    with pytest.raises(AWAY):
        waiting.result(10)
    assert time.monotonic() - began < 10
    # A new client, too: the kernel takes its connection, and nobody answers.
    asked = time.monotonic()
    stranger = world.client(server.url, timeout=0.6)
    with pytest.raises(AWAY):
        world.actor().do(stranger.get_lock(unique_name).lock)
    assert time.monotonic() - asked < 0.6 + MARGIN
    # close() does not hang either.
    asked = time.monotonic()
    world.run(stranger.close)
    assert time.monotonic() - asked < 1.0 + MARGIN
    server.resume()
    holder.do(lock.unlock)
    with server.client() as direct:
        nothing_left(direct, client, lock.name, free.name)


def test_a_server_stopped_past_the_lease_is_a_loss_told_at_the_deadline(
    world: World, fresh_server: Callable[..., Server], unique_name: str
) -> None:
    server = fresh_server()
    client = world.client(server.url, timeout=1.5, lock_watchdog_timeout=0.9)
    lock, actor = client.get_lock(unique_name), world.actor()
    context = lock.hold()
    lease = actor.do(world.enter(context))
    asked = time.monotonic()
    server.pause()
    until(lambda: world.losses, what="told")
    (told,) = world.when(Lost)
    assert told < asked + certain_for(900) + 0.25
    with pytest.raises(LockLostError):
        lease.ensure_held()
    server.resume()
    with pytest.raises(LockLostError):
        actor.do(world.leave(context))
    with server.client() as direct:
        nothing_left(direct, client, unique_name)
        actor.do(lock.lock)
        assert held(direct, lock, actor) == 1
        actor.do(lock.unlock)


def test_a_server_stopped_for_less_than_the_lease_is_no_loss(
    world: World, fresh_server: Callable[..., Server], unique_name: str
) -> None:
    server = fresh_server()
    client = world.client(server.url, lock_watchdog_timeout=2.4)
    lock, actor = client.get_lock(unique_name), world.actor()
    lease = actor.do(world.enter(lock.hold()))
    server.pause()
    until(lambda: world.heard(RenewalFailed), what="a renewal failed")
    server.resume()
    with server.client() as direct:
        until(lambda: direct.pttl(unique_name) > 2000 and lease.remaining() > 1.9, what="renewed")
        actor.do(lock.unlock)
        nothing_left(direct, client, unique_name)
    assert not world.losses


def test_a_fixed_lease_ends_by_itself(world: World, proxy: Proxy, direct: redis.Redis, unique_name: str) -> None:
    client = world.client(proxy.url)
    lock, actor = client.get_lock(unique_name), world.actor()
    renewals = Tally(proxy, RENEW)
    actor.do(lock.lock, 0.3)
    until(lambda: not direct.exists(unique_name), what="run out")
    with pytest.raises(LockLostError):
        actor.do(lock.unlock)
    actor.do(lock.lock, 0.3)
    assert held(direct, lock, actor) == 1
    actor.do(lock.unlock)
    # The block of a hold() wants to be told, though.
    context = lock.hold(lease_time=0.3)
    lease = actor.do(world.enter(context))
    until(lambda: world.losses, what="told")
    assert lease.lost
    with pytest.raises(LockLostError):
        actor.do(world.leave(context))
    assert renewals.count == 0
    nothing_left(direct, client, unique_name)
