"""Readers and writers whose replies are lost: nothing counts twice, and nothing is stranded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pytest

from tests.contract.test_read_write_lock import CHANNEL, hold, sides
from tests.proxy import Proxy
from tests.worlds.base import Actor, Remote
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import sync_and_async

pytestmark = [sync_and_async, pytest.mark.parametrize("then", ["hang", "reset"])]

How = Literal["hang", "reset"]


@pytest.fixture
def proxy(world: ClockWorld) -> Iterator[Proxy]:
    assert world.port is not None
    with Proxy(world.port) as proxy:
        yield proxy


@pytest.fixture
def alice(world: ClockWorld) -> Actor:
    return world.actor()


@pytest.fixture
def client(world: ClockWorld, proxy: Proxy, alice: Actor) -> Remote:
    """A client whose requests go through the proxy; the scripts are known to the server."""
    client = world.through(proxy.port, timeout=2.4)
    for side in sides(alice, client, "warm-up"):
        side.lock()
        side.unlock()
    return client


@pytest.mark.parametrize("side", [0, 1], ids=["read", "write"])
def test_an_acquire_and_a_reentry(
    world: ClockWorld, proxy: Proxy, client: Remote, alice: Actor, side: int, then: How
) -> None:
    lock = sides(alice, client)[side]
    for holds in (1, 2):
        lost = proxy.drop_reply("EVALSHA", then=then)
        lock.lock(30)
        assert lost.hits == 1
        assert lock.get_hold_count() == holds
    if side:
        assert 50 < world.redis.ttl("orders") <= 60  # The second lease was added once.
    else:
        assert hold(client, alice, 2) in world.redis.everything()
        assert hold(client, alice, 3) not in world.redis.everything()
    lock.unlock()
    lock.unlock()
    assert not lock.is_locked()


@pytest.mark.parametrize("side", [0, 1], ids=["read", "write"])
def test_an_unlock(world: ClockWorld, proxy: Proxy, client: Remote, alice: Actor, side: int, then: How) -> None:
    lock = sides(alice, client)[side]
    said = world.messages(CHANNEL)
    lock.lock()
    lock.lock()
    for holds in (1, 0):
        lost = proxy.drop_reply("EVALSHA", then=then)
        lock.unlock()
        assert lost.hits == 1
        assert lock.get_hold_count() == holds
    assert said.received() == [b"01"[side : side + 1]]
    lock.lock()
    assert lock.get_hold_count() == 1


def test_the_unlock_of_one_reader_among_others(
    world: ClockWorld, proxy: Proxy, client: Remote, alice: Actor, then: How
) -> None:
    mine, theirs = sides(alice, client)[0], sides(world.actor(), world.client())[0]
    theirs.lock()
    mine.lock()
    lost = proxy.drop_reply("EVALSHA", then=then)
    mine.unlock()
    assert lost.hits == 1
    assert mine.get_hold_count() == 0
    assert theirs.get_hold_count() == 1


def test_a_downgrade(world: ClockWorld, proxy: Proxy, client: Remote, alice: Actor, then: How) -> None:
    read, write = sides(alice, client)
    write.lock()
    read.lock()
    lost = proxy.drop_reply("EVALSHA", then=then)
    write.unlock()
    assert lost.hits == 1
    assert (read.get_hold_count(), write.get_hold_count()) == (1, 0)
    assert sides(world.actor(), client)[0].try_lock()
    read.unlock()


def test_a_copy_that_arrives_late_is_refused(
    world: ClockWorld, proxy: Proxy, client: Remote, alice: Actor, then: How
) -> None:
    for lock in sides(alice, client):
        lock.lock()
        late_unlock = proxy.hold_request("EVALSHA", then="reset")
        lock.unlock()
        late_acquire = proxy.hold_request("EVALSHA", then="reset")
        lock.lock()
        assert late_unlock.release()
        assert lock.get_hold_count() == 1
        lock.unlock()
        assert late_acquire.release()
        assert not lock.is_locked()
