"""The server is away, or says nothing: nobody hangs, no waiter misses its turn, and a loss is reported in time."""

from __future__ import annotations

import time
from contextlib import suppress

import pytest
import redis
import redis.exceptions as rx

from pyredisson._core.deadline import certain_for
from pyredisson._core.names import LockNames
from pyredisson.errors import ClientClosedError, LockLostError, LockNotOwnedError, OutcomeUnknownError
from pyredisson.events import ConnectionDown, Lost, RenewalFailed
from tests.real_servers.client_settings import await_renewals, changed, renewed_every
from tests.real_servers.observation import (
    ANY_SCRIPT,
    RELEASE,
    RENEW,
    await_waiter,
    calls,
    held,
    listeners,
    nothing_left,
    side_by_side,
)
from tests.servers import REDIS_6
from tests.waiting import until
from tests.worlds.clock import PATIENCE_WITH_FAULTS, ClockWorld

AWAY = (rx.ConnectionError, rx.TimeoutError, OutcomeUnknownError)
MARGIN = 2.0  # seconds; this machine may be busy


# --- in the middle ---


def test_cut_off_while_holding(world, proxy, direct, unique_name):
    client = world.from_url(proxy.url)
    lock, other = client.get_lock(unique_name), client.get_lock(f"{unique_name}-2")
    actor = world.actor()
    actor.do(lock.lock)
    proxy.cut()
    began = time.monotonic()
    with changed(client, timeout=0.6):
        for call in (lock.lock, other.lock, lock.unlock, lock.unlock, lock.is_locked, lock.force_unlock):
            with pytest.raises(AWAY):
                actor.do(call)
    assert time.monotonic() - began < 6 * 0.6 + MARGIN
    proxy.heal()
    actor.do(lock.unlock)
    nothing_left(direct, client, unique_name, other.name)
    assert not world.losses


def test_idle_connections_that_were_closed_are_no_outage(world, proxy, direct, unique_name):
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


def test_the_server_dies_and_comes_back_empty(world, own, unique_name):
    client = world.from_url(own.url, lock_watchdog_timeout=30.0)
    renewed_every(client, 0.4)
    lock, actor, other = client.get_lock(unique_name), world.actor(), world.actor()
    context = lock.hold()
    lease = actor.do(world.enter(context))
    own.kill()
    with pytest.raises(AWAY), changed(client, timeout=0.6):
        other.do(lock.try_lock)
    own.restart()

    # Nobody holds it now, and its holder is told by the next renewal.
    until(lambda: world.losses, what="told")
    assert world.losses == [(unique_name, actor.number)]
    assert lease.lost
    with pytest.raises(LockLostError):
        lease.ensure_held()
    assert other.do(lock.try_lock)
    with pytest.raises(LockLostError):
        actor.do(world.leave(context))
    with own.client() as direct:
        assert held(direct, lock, other) == 1
        other.do(lock.unlock)
        nothing_left(direct, client, unique_name)


@pytest.mark.parametrize("how", ["unlock", "wait"])
def test_a_block_whose_lock_may_have_been_released_is_not_certain(world, proxy, valkey, direct, unique_name, how):
    """By a call in it, whose reply is lost: another one may have acquired the lock by then."""
    client, actor, another = world.connected(proxy.url), world.actor(), world.actor()
    lock, other = client.get_lock(unique_name), world.connected(valkey.url).get_lock(unique_name)
    wait = client.get_condition(lock).wait
    context = lock.hold()
    lease = actor.do(world.enter(context))
    with changed(client, timeout=0.6):
        lost = proxy.drop_reply(calls("lock_release", "condition_wait"))
        pending = actor.start(lock.unlock) if how == "unlock" else actor.start(wait, 1.0)
        lost.wait()
        proxy.cut()
        assert another.do(other.try_lock, 5)
        for _ in range(2):  # While that call tries on, and after it.
            assert lease.remaining() == 0.0
            with pytest.raises(LockLostError):
                lease.ensure_held()
            with pytest.raises(OutcomeUnknownError):
                pending.result(10)
    assert lease.lost
    if how == "wait":
        until(lambda: world.losses == [(unique_name, actor.number)], what="told")
    proxy.heal()
    with pytest.raises(LockLostError) if how == "wait" else suppress(LockNotOwnedError):
        actor.do(world.leave(context))
    another.do(other.unlock)
    nothing_left(direct, client, unique_name)


# --- while waiting ---


@pytest.mark.parametrize("how", ["cut", "drop", "blackhole"])
@pytest.mark.parametrize("wait", [60.0, None])
def test_closing_ends_the_wait_of_a_multi_lock(world, proxy, unique_name, how, wait):
    client, actor = world.connected(proxy.url, timeout=0.6), world.actor()
    lock = client.get_multi_lock(*(client.get_lock(f"{unique_name}-{number}") for number in "12"))
    if how == "drop":
        proxy.drop_reply(ANY_SCRIPT, None, then="reset")
    else:
        getattr(proxy, how)()
    waiting = actor.start(lock.try_lock, wait)
    time.sleep(1.0)  # The wait goes on through the outage, between two of its rounds.
    assert not waiting.done()
    world.run(client.close)
    with pytest.raises(ClientClosedError):
        waiting.result(MARGIN)


def test_a_multi_lock_waits_for_no_permission(world, proxy, unique_name):
    client, actor = world.connected(proxy.url), world.actor()
    lock = client.get_multi_lock(*(client.get_lock(f"{unique_name}-{number}") for number in "12"))
    refused = proxy.refuse_request(ANY_SCRIPT, "NOPERM no permissions")
    with pytest.raises(rx.NoPermissionError, match=f"lock '{unique_name}-1'"):
        actor.start(lock.try_lock, 60).result(5)
    refused.remove()
    actor.do(lock.lock)
    actor.do(lock.unlock)


def test_a_place_in_the_queue_is_given_up_after_an_outage(world, proxy, valkey, direct, unique_name):
    theirs, holder = world.from_url(valkey.url).get_fair_lock(unique_name), world.actor()
    holder.do(theirs.lock)
    client, actor = world.connected(proxy.url), world.actor()
    queue = LockNames(unique_name).queue
    waiting = actor.start(client.get_fair_lock(unique_name).try_lock, 1.5)
    until(lambda: direct.llen(queue) == 1, what="it queues up")
    proxy.cut()
    with pytest.raises(AWAY):
        waiting.result(10)
    assert direct.llen(queue) == 1, "the server cannot know"
    proxy.heal()
    until(lambda: direct.llen(queue) == 0, what="its place is given up")
    holder.do(theirs.unlock)
    nothing_left(direct, client, unique_name)


# --- an inner hold that could not be released ---


@pytest.mark.parametrize("form", ["calls", "blocks"])
def test_an_outer_hold_is_renewed_after_an_inner_one_that_could_not_be_released(
    world, proxy, direct, unique_name, form
):
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


def test_the_silence_of_one_request_delays_other_owners_by_its_timeout_at_most(world, proxy, direct, unique_name):
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


# --- the subscriber's connection ---

# Nothing here is served by the regular look: that comes later than any of these waits may last.
NEVER = {"max_wait_without_check": 60.0}


class HandOver:
    """A lock that one client holds, and that an owner of another client waits for.

    Attributes:
        acquired: The call of the one who waits.
    """

    def __init__(self, world: ClockWorld, url: str, holder_url: str, name: str, **config: float) -> None:
        self.client = world.from_url(url, **NEVER, **config)
        self._lock, self._theirs = self.client.get_lock(name), world.from_url(holder_url).get_lock(name)
        self._holder, self._waiter = world.actor(), world.actor()
        self._holder.do(self._theirs.lock)

    def begin_to_wait(self) -> None:
        self.acquired = self._waiter.start(self._lock.lock)

    def finish(self, direct: redis.Redis) -> None:
        """Release it, which the other one notices."""
        self._holder.do(self._theirs.unlock)
        self.acquired.result(20)
        self._waiter.do(self._lock.unlock)
        nothing_left(direct, self.client, self._lock.name)


def test_silent_and_found_out_by_a_ping_without_an_answer(world, proxy, valkey, direct, unique_name):
    hand_over = HandOver(world, proxy.url, valkey.url, unique_name, ping_interval=0.2, ping_timeout=1.2)
    hand_over.begin_to_wait()
    await_waiter(direct, hand_over.client, unique_name)
    # From the next ping on, nothing comes back on that connection, and nobody says that it has ended.
    silent = proxy.drop_reply("PING", 1, then="hang")
    silent.wait()
    began = time.monotonic()
    hand_over.finish(direct)
    assert 0.1 < time.monotonic() - began < 8.0


def test_the_confirmation_never_comes(world, proxy, valkey, direct, unique_name):
    hand_over = HandOver(world, proxy.url, valkey.url, unique_name, ping_interval=0.2, ping_timeout=0.3)
    silent = [proxy.drop_reply("SUBSCRIBE", 1, then="hang"), proxy.hold_request("SUBSCRIBE", 2)]
    hand_over.begin_to_wait()
    for each in silent:
        each.wait()
    hand_over.finish(direct)


def test_dropped_for_its_output_buffer(world, fresh_server, unique_name):
    # Valkey counts no buffer for a payload that it need not copy.
    server = fresh_server(REDIS_6)
    server.config_set("client-output-buffer-limit", "pubsub 32kb 16kb 1")
    hand_over = HandOver(world, server.url, server.url, unique_name)
    hand_over.begin_to_wait()
    with server.client(decode_responses=True) as direct:
        await_waiter(direct, hand_over.client, unique_name)
        for round_ in range(1, 4):
            direct.publish(LockNames(unique_name).channel, "x" * 1_000_000)
            until(lambda round_=round_: len(world.heard(ConnectionDown)) >= round_, what="dropped")
            until(lambda: listeners(direct, unique_name) == 1, what="back")
        assert not hand_over.acquired.done()
        hand_over.finish(direct)


# --- renewals and a server that is stopped ---

LATE = 0.25  # seconds after another alarm for the same moment rang, on this machine that may be busy


@pytest.mark.parametrize("outage", ["blackhole", "cut", "unanswered"])
def test_a_renewal_that_never_gets_through_is_a_loss_reported_at_the_deadline(
    world, proxy, direct, unique_name, outage
):
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


def test_no_call_hangs_on_a_stopped_server(world, own, unique_name):
    client = world.connected(own.url, timeout=1.5, connect_timeout=1.5, ping_interval=0.2, ping_timeout=0.4)
    lock, free = client.get_lock(unique_name), client.get_lock(f"{unique_name}-2")
    holder, waiter = world.actor(), world.actor()
    holder.do(lock.lock)
    began = time.monotonic()
    waiting = waiter.start(lock.try_lock, 2.5)
    with own.client() as direct:
        await_waiter(direct, client, unique_name)
    own.pause()
    # A new client, too: the kernel takes its connection, and nobody answers.
    stranger = world.from_url(own.url, timeout=1.5, connect_timeout=1.5)
    calls_of_one = [
        (world.actor(), [free.lock, free.try_lock]),
        (world.actor(), [free.is_locked]),
        (world.actor(), [free.get_hold_count]),
        (world.actor(), [free.remain_time_to_live]),
        (world.actor(), [free.force_unlock]),
        (world.actor(), [stranger.get_lock(unique_name).lock]),
        (holder, [lock.unlock]),
    ]

    def fail_in_time(one):
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
    own.resume()
    holder.do(lock.unlock)
    with own.client() as direct:
        nothing_left(direct, client, lock.name, free.name)
