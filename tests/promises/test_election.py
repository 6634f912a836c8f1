"""Leader elections: one leads at a time, with a token that grows from leader to leader, and observers are told."""

import asyncio
import gc
import math
import re
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

import pyredisson
from pyredisson import ClientClosedError, LockError, LockLostError, LockTimeoutError
from pyredisson._kinds.election import ElectionCore
from pyredisson._shared import election as shared
from tests.forms import ended
from tests.worlds.base import Actor, Remote, World
from tests.worlds.environments import asyncio_only, each_runtime, everywhere, sync_and_async, threads_only

pytestmark = sync_and_async


@everywhere
def test_one_leads_and_the_next_one_has_a_greater_token(world, alice, bob):
    clients = world.client(), world.client()
    mine, theirs = (each.get(client, "leader_election") for each, client in zip((alice, bob), clients, strict=True))
    with mine.term() as first:
        first.ensure_held()
        with pytest.raises(LockTimeoutError, match="'orders' is held by"):
            theirs.term(wait_time=0).enter()
    with theirs.term() as second:
        assert [first.token, second.token] == [1, 2]
    assert first.lost is False
    assert mine.leader() is None


@each_runtime
def test_a_leader_is_told_of_a_loss_and_cannot_be_elected_again_meanwhile(world):
    mine = world.actor().get(world.client(), "leader_election")
    with pytest.raises(LockLostError), mine.term() as term:
        with pytest.raises(LockError, match="not reentrant"):
            mine.term().enter()
        world.redis.delete("orders")
        world.until(lambda: term.lost, 30)


class Candidate:
    """One who stands for election with a callback that notes when it begins and ends."""

    def __init__(self, world: World, client: Remote, fails: bool = False, goes_on: bool = False) -> None:
        self.began: list[int] = []
        self.ended: list[int] = []
        self.fails = fails
        self.may_end = threading.Event()
        if not goes_on:
            self.may_end.set()
        self._actor: Actor = world.actor()
        lead = self._lead if isinstance(client.real, pyredisson.Redisson) else self._lead_as_task
        self.campaign: Any = self._actor.do(client.real.get_leader_election("orders").start, lead)

    def _lead(self, term: Any) -> None:
        self.began.append(term.token)
        while not self.fails and not term.wait():
            pass
        self.may_end.wait()
        self.ended.append(term.token)
        if self.fails:
            raise ValueError("no plan")

    async def _lead_as_task(self, term: Any) -> None:
        self.began.append(term.token)
        try:
            await asyncio.sleep(0 if self.fails else 3600)
        finally:
            while not self.may_end.is_set():  # noqa: ASYNC110 - set by another thread
                await asyncio.sleep(0.01)
            self.ended.append(term.token)
        raise ValueError("no plan")

    def resign(self) -> None:
        self._actor.do(self.campaign.resign)

    def stop(self) -> None:
        self._actor.do(self.campaign.stop)


def test_a_campaign_leads_again_and_again_one_at_a_time(world, client):
    candidates = [Candidate(world, each) for each in (client, client, world.client())]

    def leader():
        return next((each for each in candidates if len(each.began) > len(each.ended)), None)

    tokens = []
    for _ in range(4):
        world.until(lambda: leader() is not None)
        now = leader()
        assert now.campaign.leading
        tokens.append(now.began[-1])
        now.resign()
        world.until(lambda now=now: tokens[-1] in now.ended)
    assert tokens == sorted(set(tokens))
    for each in candidates:
        each.stop()
        assert each.began == each.ended
    everything = sorted(token for each in candidates for token in each.began)
    assert everything == sorted(set(everything))
    world.until(lambda: "orders" not in world.redis.everything())  # One may have been elected as it was stopped.


def leads(world: World, led: list[Any], error: BaseException | None = None) -> Any:
    """Return a callback of this world's form. It leads until it has to end, or raises an error at once."""

    async def lead(term):
        led.append(term)
        if error is not None:
            raise error
        await ended(term.wait())

    return world.function(lead)


def test_run_blocks_until_its_client_is_closed(world, alice, bob):
    client, led = world.client(), []
    running = alice.start(client.real.get_leader_election("orders").run, leads(world, led))
    world.until(lambda: led)
    assert not running.done()
    standing = bob.start(client.real.get_leader_election("orders").run, leads(world, led))
    world.until(lambda: "waiting" in repr(client.real.get_leader_election("orders")))
    client.close()
    assert running.result() is None
    assert standing.result() is None
    assert len(led) == 1
    assert "orders" not in world.redis.everything()


def test_run_ends_with_the_error_of_its_callback_when_it_has_resigned(world, client, alice, caplog):
    led, error = [], ValueError("no plan")
    with pytest.raises(ValueError, match="no plan"):
        alice.do(client.real.get_leader_election("orders").run, leads(world, led, error))
    assert len(led) == 1
    assert "orders" not in world.redis.everything()
    assert "failed" not in caplog.text


@pytest.mark.parametrize("leading", [True, False], ids=["leading", "standing"])
def test_run_is_interrupted(world, client, alice, leading):
    led = []
    other = None if leading else alice.get(world.client(), "leader_election").term()
    if other is not None:
        other.enter()
    election = client.real.get_leader_election("orders")
    began = time.monotonic()
    error = world.interruptible().interrupted(
        election.run, leads(world, led), once=lambda: led if leading else time.monotonic() > began + 0.5
    )
    assert isinstance(error, (KeyboardInterrupt, asyncio.CancelledError))
    if other is not None:
        other.__exit__(None, None, None)
    assert len(led) == leading
    with alice.get(world.client(), "leader_election").term(wait_time=1):
        pass


def test_a_campaign_ends_with_its_block(world, client, alice):
    led = []
    campaign = Remote(alice.do(client.real.get_leader_election("orders").start, leads(world, led)), alice)
    with campaign as entered:
        assert entered is campaign.real
        world.until(lambda: led)
        assert campaign.real.leading
        assert campaign.join(0.05) is False
    assert "stopped" in repr(campaign)
    assert campaign.join() is True
    assert led[0].remaining() == 0
    assert "orders" not in world.redis.everything()


def test_a_campaign_that_waits_to_be_elected_is_stopped_at_once(world, client, alice, bob):
    with alice.get(world.client(), "leader_election").term():
        campaign = bob.do(client.real.get_leader_election("orders").start, leads(world, []))
        began = time.monotonic()
        assert bob.do(campaign.stop) is True
        assert bob.do(campaign.join) is True
        assert time.monotonic() - began < 5


def test_a_campaign_that_is_closed_with_its_client_is_joined(world, client, alice):
    led = []
    campaign = alice.do(client.real.get_leader_election("orders").start, leads(world, led))
    world.until(lambda: led)
    client.close()
    assert alice.do(campaign.join) is True


def test_a_campaign_that_is_dropped_is_logged(world, client, alice, caplog):
    led = []

    async def begin():
        client.real.get_leader_election("orders").start(leads(world, led))

    alice.do(begin)
    world.until(lambda: led)
    gc.collect()
    assert "the campaign for the election 'orders' was dropped" in caplog.text
    client.close()
    world.until(lambda: "orders" not in world.redis.everything())


def test_a_campaign_that_was_stopped_may_be_dropped(world, client, alice, caplog):
    campaign = alice.do(client.real.get_leader_election("orders").start, leads(world, []))
    alice.do(campaign.stop)
    del campaign
    gc.collect()
    assert "dropped" not in caplog.text


def test_a_campaign_whose_callback_fails_stands_again(world, caplog):
    candidate = Candidate(world, world.client(), fails=True)
    world.until(lambda: len(candidate.began) == 2)
    candidate.stop()
    assert "the callback of the election 'orders' failed" in caplog.text


def test_observers_are_told_of_each_change(world, alice, bob):
    client, other = world.client(), world.client()
    seen = []
    observe = other.real.get_leader_election("orders").observe
    observation = bob.do(observe, lambda leader: seen.append(leader and leader.client_id))
    world.until(lambda: seen == [None])
    for number in (1, 2):
        began = time.monotonic()
        with alice.get(client, "leader_election").term():
            world.until(lambda number=number: len(seen) == 2 * number)
        world.until(lambda number=number: len(seen) == 2 * number + 1)
        assert time.monotonic() - began < 5  # By message: it would look by itself after ten seconds.
    assert seen == [None, client.id, None, client.id, None]
    bob.do(observation.stop)
    with alice.get(client, "leader_election").term():
        assert alice.get(other, "leader_election").leader().client_id == client.id
    assert len(seen) == 5


def test_a_campaign_that_led_before_goes_on_after_a_loss(world):
    candidate = Candidate(world, world.client(lock_watchdog_timeout=1.5))
    world.until(lambda: candidate.began)
    candidate.resign()
    world.until(lambda: len(candidate.began) == 2)
    world.redis.delete("orders")
    world.until(lambda: len(candidate.ended) == 2)
    world.until(lambda: len(candidate.began) == 3)
    assert candidate.began == sorted(set(candidate.began))
    candidate.stop()


def test_a_term_ends_with_its_lease_if_its_client_was_closed(world):
    client = world.client(lock_watchdog_timeout=1.5)
    candidate = Candidate(world, client)
    world.until(lambda: candidate.began)
    client.close()
    world.until(lambda: candidate.ended)
    candidate.stop()


def test_who_lost_leadership_leads_no_longer_while_its_callback_runs(world):
    candidate = Candidate(world, world.client(lock_watchdog_timeout=1.5), goes_on=True)
    world.until(lambda: candidate.began)
    assert candidate.campaign.leading
    world.redis.delete("orders")
    world.until(lambda: not candidate.campaign.leading)
    assert not candidate.ended
    candidate.may_end.set()
    candidate.stop()


@threads_only
def test_a_campaign_is_stopped_when_it_has_resigned(world, monkeypatch):
    leave = ElectionCore.leave

    async def leave_slowly(core, *args, **kwargs):
        await core.client.runtime.sleep(0.3)
        await leave(core, *args, **kwargs)

    monkeypatch.setattr(ElectionCore, "leave", leave_slowly)
    candidate = Candidate(world, world.client())
    world.until(lambda: candidate.began)
    candidate.resign()
    world.until(lambda: candidate.ended)
    candidate.stop()
    assert "orders" not in world.redis.everything()


def test_a_callback_that_could_never_run_is_refused(world):
    async def of_the_other_form(_): ...

    client = world.client().real
    election = client.get_leader_election("orders")
    for call, argument in ((election.start, "the term"), (election.observe, "the leader")):
        with pytest.raises(TypeError, match=f"callback must be a function, .* {argument}, not None"):
            call(None)
        for wrong in (lambda: None, lambda a, b: None):
            with pytest.raises(TypeError, match=f"callback is called with 1 argument, {argument}: .* takes \\("):
                call(wrong)
    for call in (election.start, election.observe) if isinstance(client, pyredisson.Redisson) else (election.observe,):
        with pytest.raises(TypeError, match="must not be a coroutine function"):
            call(of_the_other_form)


@asyncio_only
def test_a_plain_function_cannot_lead_and_nothing_begins_outside_an_event_loop(world, client, alice, caplog):
    def lead(term):
        led.append(term)

    def leads_nothing(term) -> None:
        raise AssertionError

    election = client.real.get_leader_election("orders")
    led, text = [], r"must be a coroutine function, which .* is not: write `async def`"
    campaign = alice.do(election.start, lambda term: leads(world, led)(term))
    world.until(lambda: led)
    assert alice.do(campaign.stop, 30)
    for call, callback in ((election.run, lead), (election.run, leads_nothing), (election.start, leads_nothing)):
        with pytest.raises(TypeError, match=text):
            alice.do(call, callback)
    assert alice.do(alice.do(election.start, lead).join, 30), "it has ended"
    assert re.search(text, caplog.text)
    for call in (lambda: election.start(leads(world, [])), lambda: election.observe(lead)):
        with pytest.raises(RuntimeError, match="needs a running event loop"):
            call()


def test_the_times_of_campaigns_and_terms_are_checked(world, client, alice):
    led, wrong = [], [("x", TypeError), (True, TypeError), (-1, ValueError), (math.nan, ValueError)]
    campaign = alice.do(client.real.get_leader_election("orders").start, leads(world, led))
    world.until(lambda: led)
    for time_, error in wrong:
        for call, name in ((campaign.join, "timeout"), (campaign.stop, "timeout"), (led[0].wait, "seconds")):
            with pytest.raises(error, match=f"^{name} must "):
                alice.do(call, time_)
    for call in (campaign.join, led[0].wait):
        assert alice.do(call, timedelta(milliseconds=1)) is False
    assert alice.do(campaign.stop, timedelta(seconds=30)) is True


@threads_only
@pytest.mark.parametrize("word", ["start", "observe"])
def test_an_interrupted_start_leaves_no_thread(world, client, monkeypatch, word):
    start = threading.Thread.start

    def interrupted(thread):
        start(thread)
        if thread.name.endswith(" orders"):
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    monkeypatch.setattr(shared, "LOOK_EVERY", 0.1)
    with pytest.raises(KeyboardInterrupt):
        getattr(client.real.get_leader_election("orders"), word)(lambda _: None)
    world.until(lambda: not any(each.name.endswith(" orders") for each in threading.enumerate()))
    assert "orders" not in world.redis.everything()


@asyncio_only
def test_a_campaign_is_awaited(world, client, alice):
    led = []
    campaign = alice.do(client.real.get_leader_election("orders").start, leads(world, led))

    async def wait():
        return await campaign

    world.until(lambda: led)
    waiting = alice.start(wait)
    assert not waiting.done()
    client.close()
    assert waiting.result() is True


@each_runtime
def test_who_leads_is_not_known_without_a_server(world, client):
    mine = world.actor().get(client, "leader_election")
    world.redis.command("SET", "orders", "something")
    with pytest.raises(LockError, match="'orders'"):
        mine.leader()
    client.close()
    for call in (mine.leader, lambda: client.real.get_leader_election("orders")):
        with pytest.raises(ClientClosedError):
            call()


def test_a_campaign_leads_until_its_callback_returns_however_often_it_is_stopped(world):
    began, may_end, actor, other = threading.Event(), threading.Event(), world.actor(), world.actor()

    def lead(term):
        began.set()
        may_end.wait()

    async def lead_as_task(term):
        began.set()
        while not may_end.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    client = world.client().real
    campaign = actor.do(
        client.get_leader_election("orders").start, lead if isinstance(client, pyredisson.Redisson) else lead_as_task
    )
    world.until(began.is_set)
    assert [actor.do(campaign.stop, 0.1) for _ in range(2)] == [False, False]
    with pytest.raises(LockTimeoutError):
        other.get(world.client(), "leader_election").term(wait_time=0).enter()
    may_end.set()
    assert actor.do(campaign.stop) is True
