"""A bounded semaphore has a number of permits, and is released as often as it was acquired at most."""

from __future__ import annotations

import pytest

from tests.proxy import Proxy
from tests.worlds.base import World
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import sync_and_async


def test_a_release_too_many_is_refused(world: World) -> None:
    semaphore = world.actor().get(world.client(), "bounded_semaphore", "seats", 2)
    assert semaphore.acquire() is True
    with semaphore:
        assert semaphore.locked() is True
        assert semaphore.acquire(False) is False
        assert semaphore.acquire(blocking=True, timeout=0.1) is False
    semaphore.release()
    with pytest.raises(ValueError, match="released too many times: its value is 2"):
        semaphore.release()
    assert world.redis.everything()["seats"] == ("string", "2")
    semaphore.acquire()
    with pytest.raises(ValueError, match="too many times"):
        semaphore.release(2)
    assert world.redis.everything()["seats"] == ("string", "1")
    semaphore.acquire()
    semaphore.release(2)
    assert semaphore.locked() is False


def test_a_block_that_was_released_inside(world: World) -> None:
    semaphore = world.actor().get(world.client(), "bounded_semaphore", "seats", 1)
    with pytest.raises(ValueError, match="too many times"), semaphore:
        semaphore.release()
    with pytest.raises(KeyError), semaphore:
        raise KeyError


@sync_and_async
def test_a_lost_reply(world: ClockWorld, proxy: Proxy) -> None:
    semaphore = world.actor().get(world.through(proxy.port, timeout=2.4), "bounded_semaphore", "seats", 2)
    semaphore.acquire()
    semaphore.release()
    semaphore.acquire()
    lost = proxy.drop_reply("EVALSHA")
    semaphore.release()  # The repeat is no release too many.
    assert lost.hits == 1
    assert world.redis.everything()["seats"] == ("string", "2")
    lost = proxy.drop_reply("EVALSHA")
    with pytest.raises(ValueError, match="too many times"):
        semaphore.release()
    assert lost.hits == 1
    assert world.redis.everything()["seats"] == ("string", "2")
