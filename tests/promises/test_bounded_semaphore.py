"""A bounded semaphore has a number of permits, and is released as often as it was acquired at most."""

from __future__ import annotations

import pytest

from tests.proxy import Proxy
from tests.worlds.base import World
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import sync_and_async


def test_a_release_too_many_is_refused(world: World) -> None:
    """Basic use is in CPython's own tests, which run against ours."""
    semaphore = world.actor().get(world.client(), "bounded_semaphore", "seats", 2)
    with pytest.raises(ValueError, match="released too many times: its value is 2"), semaphore:
        assert semaphore.acquire() is True
        assert semaphore.locked() is True
        semaphore.release(2)
    assert world.redis.everything()["seats"] == ("string", "2")
    semaphore.acquire()
    with pytest.raises(ValueError, match="too many times"):
        semaphore.release(2)
    assert world.redis.everything()["seats"] == ("string", "1")


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
