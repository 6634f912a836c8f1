"""A request whose reply is lost is settled before the call returns: it never counts twice, and strands no hold."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest
import redis.exceptions
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from pyredisson import LockError, OutcomeUnknownError
from tests.proxy import Proxy
from tests.worlds.base import Remote
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import sync_and_async
from tests.worlds.store import CHANNEL

pytestmark = sync_and_async

HOW: tuple[Literal["hang", "reset"], ...] = ("hang", "reset")


@pytest.fixture
def proxy(world: ClockWorld) -> Iterator[Proxy]:
    assert world.port is not None
    with Proxy(world.port) as proxy:
        yield proxy


@pytest.fixture
def mine(world: ClockWorld, proxy: Proxy) -> Remote:
    """A lock of alice's, whose requests go through the proxy; the scripts are known to the server."""
    # For each try it has half a second, a sixth of the lease; and there is time for several.
    return lock_through(world, proxy, timeout=4, lock_watchdog_timeout=3)


@pytest.fixture
def hasty(world: ClockWorld, proxy: Proxy) -> Remote:
    """The same, of a client that gives up sooner: for what cannot be settled."""
    return lock_through(world, proxy, timeout=1.2)


def lock_through(world: ClockWorld, proxy: Proxy, **config: float) -> Remote:
    client = world.through(proxy.port, **config)
    alice = world.actor()
    warm = alice.lock(client, "warm-up")
    assert not warm.is_locked()
    warm.lock()
    warm.lock()
    warm.unlock()
    warm.unlock()
    return alice.lock(client)


@pytest.mark.parametrize("then", HOW)
def test_an_acquire(world: ClockWorld, proxy: Proxy, mine: Remote, then: Literal["hang", "reset"]) -> None:
    lost = proxy.drop_reply("EVALSHA", then=then)
    mine.lock()
    assert lost.hits == 1
    assert mine.get_hold_count() == 1
    mine.unlock()
    assert not mine.is_locked()


@pytest.mark.parametrize("then", HOW)
def test_a_reentry(world: ClockWorld, proxy: Proxy, mine: Remote, then: Literal["hang", "reset"]) -> None:
    mine.lock()
    lost = proxy.drop_reply("EVALSHA", then=then)
    mine.lock()
    assert lost.hits == 1
    assert mine.get_hold_count() == 2


@pytest.mark.parametrize("then", HOW)
def test_an_unlock(world: ClockWorld, proxy: Proxy, mine: Remote, then: Literal["hang", "reset"]) -> None:
    said = world.messages(CHANNEL)
    mine.lock()
    lost = proxy.drop_reply("EVALSHA", then=then)
    mine.unlock()
    assert lost.hits == 1
    assert not mine.is_locked()
    assert said.received() == [b"0"]
    mine.lock()
    assert mine.get_hold_count() == 1


@pytest.mark.parametrize("then", HOW)
def test_a_partial_unlock(world: ClockWorld, proxy: Proxy, mine: Remote, then: Literal["hang", "reset"]) -> None:
    mine.lock()
    mine.lock()
    lost = proxy.drop_reply("EVALSHA", then=then)
    mine.unlock()
    assert lost.hits == 1
    assert mine.get_hold_count() == 1


def test_a_copy_that_arrives_late_is_refused(world: ClockWorld, proxy: Proxy, mine: Remote) -> None:
    """The owner has gone on meanwhile: a late unlock would free its next hold, a late acquire would strand one."""
    mine.lock()
    late_unlock = proxy.hold_request("EVALSHA", then="reset")
    mine.unlock()
    late_acquire = proxy.hold_request("EVALSHA", then="reset")
    mine.lock()
    assert late_unlock.release()
    assert mine.get_hold_count() == 1
    mine.unlock()
    assert late_acquire.release()
    assert not mine.is_locked()


def test_redis_pys_own_repeats_do_not_apply(world: ClockWorld, proxy: Proxy) -> None:
    """By default it repeats ten times, and a lock would count twice."""
    retry = Retry(ConstantBackoff(0.01), 10)
    users = world.redis_client(retry=retry, socket_timeout=0.4, port=proxy.port)
    mine = world.actor().lock(world.client(redis=users, timeout=4, lock_watchdog_timeout=3))
    mine.lock()
    mine.unlock()
    lost = proxy.drop_reply("EVALSHA")
    mine.lock()
    assert lost.hits == 1
    assert mine.get_hold_count() == 1


def test_what_could_not_be_settled_is_said_and_given_back(world: ClockWorld, proxy: Proxy, hasty: Remote) -> None:
    mine = hasty
    silence = proxy.drop_reply("EVALSHA", k=None)
    with pytest.raises(OutcomeUnknownError) as unknown:
        mine.try_lock(lease_time=60)
    assert isinstance(unknown.value, LockError)
    assert isinstance(unknown.value.__cause__, redis.exceptions.RedisError)
    assert unknown.value.name == "orders"
    silence.remove()
    proxy.heal()
    world.until(lambda: not mine.is_locked())
    mine.lock()
    assert mine.get_hold_count() == 1


def test_an_unlock_that_could_not_be_settled_can_be_called_again(
    world: ClockWorld, proxy: Proxy, hasty: Remote
) -> None:
    mine = hasty
    mine.lock()
    silence = proxy.drop_reply("EVALSHA", k=None)
    with pytest.raises(OutcomeUnknownError):
        mine.unlock()
    silence.remove()
    proxy.heal()
    mine.unlock()
    assert not mine.is_locked()
    with pytest.raises(LockError):
        mine.unlock()


def test_a_first_contact_that_fails_raises_at_once(world: ClockWorld) -> None:
    client = world.client(redis=world.unreachable())
    mine = world.actor().lock(client)
    for call in (mine.lock, mine.try_lock, mine.acquire, mine.is_locked, mine.force_unlock, mine.enter):
        began = world.now()
        with pytest.raises(redis.exceptions.ConnectionError):
            call()
        assert world.now() - began < 3
    began = world.now()
    with pytest.raises(redis.exceptions.ConnectionError):
        mine.try_lock(60)
    assert world.now() - began < 5
