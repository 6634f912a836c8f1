"""Renewals that do not get through, and servers that stop: nobody hangs, and a loss is told at its deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.exceptions as rx

from pyredisson.core.deadline import certain_for
from pyredisson.errors import LockLostError, OutcomeUnknownError
from pyredisson.events import Lost, RenewalFailed
from tests.proxy import Proxy
from tests.real_servers.observation import RENEW, await_waiter, nothing_left, side_by_side
from tests.servers import Server
from tests.waiting import until
from tests.worlds.base import Actor
from tests.worlds.clock import PATIENCE_WITH_FAULTS, ClockWorld

AWAY = (rx.ConnectionError, rx.TimeoutError, OutcomeUnknownError)
LATE = 0.25  # seconds after another alarm for the same moment rang, on this machine that may be busy


@pytest.mark.parametrize("outage", ["blackhole", "cut", "unanswered"])
def test_a_renewal_that_never_gets_through_is_a_loss_reported_at_the_deadline(
    world: ClockWorld, proxy: Proxy, direct: redis.Redis, unique_name: str, outage: str
) -> None:
    client = world.connected(proxy.url, lock_watchdog_timeout=2.4)
    lock, actor = client.get_lock(unique_name), world.actor()
    unanswered = proxy.hold_request(RENEW, None)  # None gets through before the outage either, should that be late.
    context = lock.hold()
    before = time.monotonic()
    lease = actor.do(world.enter(context))
    due = world.alarm(time.monotonic() + certain_for(2400))
    if outage != "unanswered":
        getattr(proxy, outage)()
        unanswered.remove()

    lost_before_its_time = False
    while time.monotonic() < before + certain_for(2400) - 0.01:
        lost_before_its_time |= lease.lost and time.monotonic() < before + certain_for(2400)
        time.sleep(0.002)
    until(lambda: world.losses, what="told")

    assert not lost_before_its_time
    (told,) = world.when(Lost)
    assert before + certain_for(2400) <= told < due.result(PATIENCE_WITH_FAULTS) + LATE
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


# --- the server is stopped ---


def test_no_call_hangs_on_a_stopped_server(
    world: ClockWorld, fresh_server: Callable[..., Server], unique_name: str
) -> None:
    server = fresh_server()
    client = world.connected(server.url, timeout=1.5, connect_timeout=1.5, ping_interval=0.2, ping_timeout=0.4)
    lock, free = client.get_lock(unique_name), client.get_lock(f"{unique_name}-2")
    holder, waiter = world.actor(), world.actor()
    holder.do(lock.lock)
    began = time.monotonic()
    waiting = waiter.start(lock.try_lock, 2.5)
    with server.client() as direct:
        await_waiter(direct, client, unique_name)
    server.pause()
    # A new client, too: the kernel takes its connection, and nobody answers.
    stranger = world.from_url(server.url, timeout=1.5, connect_timeout=1.5)
    calls_of_one = [
        (world.actor(), [free.lock, free.try_lock]),
        (world.actor(), [free.is_locked]),
        (world.actor(), [free.get_hold_count]),
        (world.actor(), [free.remain_time_to_live]),
        (world.actor(), [free.force_unlock]),
        (world.actor(), [stranger.get_lock(unique_name).lock]),
        (holder, [lock.unlock]),
    ]

    def fail_in_time(one: tuple[Actor, list[Callable[[], Any]]]) -> None:
        actor, calls = one
        for call in calls:
            asked = time.monotonic()
            with pytest.raises(AWAY):
                actor.do(call)
            assert time.monotonic() - asked < 2.9, f"{call} took its budget of 1.5 s, and more"

    side_by_side(fail_in_time, calls_of_one)
    with pytest.raises(AWAY):
        waiting.result(10)
    assert time.monotonic() - began < 10
    # close() does not hang either.
    asked = time.monotonic()
    world.run(stranger.close)
    assert time.monotonic() - asked < 4.0
    server.resume()
    holder.do(lock.unlock)
    with server.client() as direct:
        nothing_left(direct, client, lock.name, free.name)
