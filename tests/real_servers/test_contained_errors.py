"""Errors that are not this library's, and what is no ``Exception``: none of them ends a loop of ours."""

from __future__ import annotations

import pytest
from redis.credentials import CredentialProvider

from pyredisson._core.names import LockNames
from pyredisson.events import CallbackFailed, ConnectionDown, ConnectionUp, Lost, Renewed
from tests.real_servers.client_settings import await_renewals, renewed_every
from tests.waiting import until


class Outcome(BaseException):
    """As test frameworks raise to end a test."""


NO_EXCEPTIONS = pytest.mark.parametrize("error", [SystemExit, Outcome], ids=["SystemExit", "no Exception"])


class TokenError(Exception):
    """An error of a library that no one here knows."""


class Tokens(CredentialProvider):
    """A token provider whose identity service may be down. It gives the default user's name, and any password."""

    def __init__(self) -> None:
        self.down = False
        self.asked = 0

    def get_credentials(self) -> tuple[str, str]:
        self.asked += 1
        if self.down:
            raise TokenError("the identity service is down")
        return "default", "any"


# --- what is no Exception ---


@NO_EXCEPTIONS
def test_the_watchdog_survives_its_listeners(world, valkey, direct, unique_name, error):
    def fails(event):
        if isinstance(event, Renewed):
            raise error

    client = world.from_url(valkey.url, listeners=(world._listen, fails))
    renewed_every(client, 0.2)
    lock, actor = client.get_lock(unique_name), world.actor()
    actor.do(lock.lock)
    await_renewals(direct, unique_name, times=4)
    failed = world.heard(CallbackFailed)
    assert {type(each.error) for each in failed} == {error}
    assert len(failed) <= len(world.heard(Renewed))
    actor.do(lock.unlock)


@NO_EXCEPTIONS
def test_the_subscriber_survives_its_listeners(world, proxy, unique_name, error):
    def fails(event):
        if isinstance(event, (ConnectionDown, ConnectionUp)):
            raise error

    client = world.from_url(proxy.url, listeners=(fails, world._listen), max_wait_without_check=100.0)
    alice, bob = world.actors(2)
    lock, channel = client.get_lock(unique_name), LockNames(unique_name).channel
    for _ in range(2):
        alice.do(lock.lock)
        waiting = bob.start(lock.lock)
        until(lambda: client._core.subscriptions.waiting(channel) == 1 and world.heard(ConnectionUp), 10)
        proxy.cut()
        proxy.heal()
        until(lambda: world.heard(ConnectionDown), 10, what="the subscriber has noticed")
        world.events.clear()
        until(lambda: world.heard(ConnectionUp), 10, what="the subscriber is back")
        alice.do(lock.unlock)
        waiting.result()
        bob.do(lock.unlock)


@NO_EXCEPTIONS
def test_every_loss_is_reported(world, valkey, direct, unique_name, error, caplog):
    lost = []

    def fails(event):
        if isinstance(event, Lost):
            raise error

    def on_lock_lost(name, number):
        lost.append(name)
        raise error

    client = world.from_url(valkey.url, listeners=(fails,), on_lock_lost=on_lock_lost)
    renewed_every(client, 0.2)
    names = [f"{unique_name}-{number}" for number in range(3)]
    for name in names:
        world.actor().do(client.get_lock(name).lock)
    direct.delete(*names)
    until(lambda: sorted(lost) == names, 10)
    until(lambda: caplog.text.count("on_lock_lost") >= 3, 10)
    assert error.__name__ in caplog.text


@pytest.mark.parametrize("world", ["asyncio"], indirect=True)
@NO_EXCEPTIONS
def test_a_coroutine_that_is_called_back_ends_no_event_loop(world, valkey, direct, unique_name, error):
    lost = []

    async def on_lock_lost(name, number):
        lost.append(name)
        raise error

    client = world.from_url(valkey.url, on_lock_lost=on_lock_lost)
    renewed_every(client, 0.2)
    lock, actor = client.get_lock(unique_name), world.actor()
    for times in range(1, 3):
        actor.do(lock.lock)
        direct.delete(unique_name)
        until(lambda times=times: len(lost) == times, 10)
        with pytest.raises(Exception, match="was lost"):
            actor.do(lock.unlock)


@NO_EXCEPTIONS
def test_a_campaign_and_its_observers_go_on(world, valkey, unique_name, error, caplog):
    led = []
    seen = []

    def observed(leader):
        seen.append(leader)
        raise error

    async def lead(term):
        led.append(term.token)
        raise error

    client = world.from_url(valkey.url)
    election, actor = client.get_leader_election(unique_name), world.actor()
    observation = actor.do(election.observe, observed)
    campaign = actor.do(election.start, world.function(lead))
    until(lambda: len(led) >= 3 and len(seen) >= 3, 20)
    assert "stopped" not in repr(campaign)
    until(lambda: caplog.text.count("callback of the election") >= 6, 10)
    actor.do(observation.stop)
    actor.do(campaign.stop)
    assert "stopped" in repr(campaign)


def test_a_campaign_of_a_closed_client_does_not_stand(world, valkey, unique_name):
    client = world.from_url(valkey.url)
    term = world.from_url(valkey.url).get_leader_election(unique_name).term()
    world.actor().do(world.enter(term))
    campaign = world.actor().do(client.get_leader_election(unique_name).start, print)
    assert "standing" in repr(campaign)
    world.run(client.close)
    until(lambda: "stopped" in repr(campaign), 10)


# --- errors of a foreign class ---


def test_a_token_provider_that_fails_delays_waiters_no_longer_than_it_does(world, proxy, unique_name):
    tokens = Tokens()
    client = world.from_url(proxy.url, redis_kwargs={"credential_provider": tokens}, max_wait_without_check=100.0)
    alice, bob = world.actors(2)
    lock, channel = client.get_lock(unique_name), LockNames(unique_name).channel
    alice.do(lock.lock)
    waiting = bob.start(lock.lock)
    until(lambda: client._core.subscriptions.waiting(channel) == 1 and world.heard(ConnectionUp), 10)
    tokens.down, before = True, tokens.asked
    proxy.cut()
    proxy.heal()
    until(lambda: tokens.asked >= before + 3, 10, what="asked in vain")
    until(lambda: any(isinstance(each.error, TokenError) for each in world.heard(ConnectionDown)), 10)
    assert not waiting.done()
    tokens.down = False
    until(lambda: len(world.heard(ConnectionUp)) > 1, 10)
    alice.do(lock.unlock)
    waiting.result()
    bob.do(lock.unlock)


def test_a_caller_sees_the_error_of_its_token_provider(world, valkey, unique_name):
    tokens = Tokens()
    tokens.down = True
    lock = world.from_url(valkey.url, redis_kwargs={"credential_provider": tokens}).get_lock(unique_name)
    with pytest.raises(TokenError, match="identity service"):
        world.actor().do(lock.lock)


def test_one_node_whose_tokens_fail_costs_no_quorum(world, fresh_server, unique_name):
    tokens = Tokens()
    servers = [fresh_server() for _ in range(3)]
    settings = [{"credential_provider": tokens}, {}, {}]
    clients = [
        world.from_url(server.url, lock_watchdog_timeout=3.0, redis_kwargs=each)
        for server, each in zip(servers, settings, strict=True)
    ]
    lock = world.api.RedLock(*(client.get_lock(unique_name) for client in clients))
    actor = world.actor()
    assert actor.do(lock.try_lock)
    tokens.down = True
    with servers[0].client() as raw:
        raw.client_kill_filter(_type="normal")
    world.pass_time(4.0)
    assert actor.do(lock.validity) > 0
    assert not world.losses
    actor.do(lock.unlock)
    assert actor.do(lock.try_lock), "two nodes of three answer"
    actor.do(lock.unlock)


def test_one_node_of_a_cluster_whose_tokens_fail_delays_no_other(world, fresh_cluster, unique_name):
    tokens = Tokens()
    client = world.from_url(fresh_cluster.url, lock_watchdog_timeout=6.0, redis_kwargs={"credential_provider": tokens})
    names = [f"{unique_name}-{number}" for number in range(40)]
    actor = world.actor()
    for name in names:
        actor.do(client.get_lock(name).lock)
    lost_at, tokens.down = fresh_cluster.masters()[0], True
    with lost_at.client() as raw:
        raw.client_kill_filter(_type="normal")
    kept = [name for name in names if fresh_cluster.master_of(name) is not lost_at]
    world.pass_time(8.0)
    assert {name for name, _ in world.losses} == set(names) - set(kept)
    tokens.down = False  # Who needs one more connection, as beside a renewal, is told of its provider's error.
    for name in kept:
        actor.do(client.get_lock(name).unlock)
