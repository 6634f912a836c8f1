"""The client: who it is, where it is connected, and what it never tells."""

import logging
import uuid

import pytest
import redis.exceptions

from pyredisson import OutcomeUnknownError
from tests.servers import HOST, VALKEY, Server
from tests.worlds.environments import sync_and_async

pytestmark = sync_and_async

SECRET = "hunter2"  # of a server that is thrown away


def test_each_client_has_an_id(world):
    one, other = world.client(), world.client()
    assert uuid.UUID(one.id).version == 4
    assert str(uuid.UUID(one.id)) == one.id
    assert one.id != other.id
    assert one.id in repr(one)


def test_a_client_has_the_settings_that_it_was_given(world):
    config = world.api.Config(lock_watchdog_timeout=5)
    assert world.adopt(world.api.Redisson(config=config)).config is config
    assert world.adopt(world.api.Redisson()).config == world.api.Config()


def test_its_url_and_representation_name_the_server(world):
    client = world.adopt(world.api.Redisson.from_url(f"redis://{HOST}:{world.port}/3"))
    mine = world.actor().lock(client)
    mine.lock()
    assert client.url == f"redis://{HOST}:{world.port}/3"
    assert client.url in repr(client)
    assert world.redis.everything() == {}, "its database is 3"
    assert world.actor().lock(world.adopt(world.api.Redisson.from_url(client.url))).is_locked()
    assert world.adopt(world.api.Redisson()).url == "redis://localhost:6379/0"
    masked = world.client(redis=world.redis_client(username="alice", password=SECRET))
    assert masked.url == f"redis://alice:***@{HOST}:{world.port}/0"
    assert SECRET not in repr(masked)


def test_the_password_appears_in_no_error_or_log(world, caplog):
    """Neither when it is right, nor when it is wrong, nor when the server is away."""
    shown = []
    settings = ("--requirepass", SECRET, "--maxmemory-policy", "allkeys-lru")  # Of the last one the log warns.
    with Server(VALKEY, *settings) as server, caplog.at_level(logging.DEBUG):
        config = world.api.Config(timeout=1.5, listeners=(shown.append,))
        right, wrong = (
            world.adopt(world.api.Redisson.from_url(f"redis://:{word}@{HOST}:{server.port}/0", config=config))
            for word in (SECRET, f"not-{SECRET}")
        )
        mine, theirs = world.actor().lock(right), world.actor().lock(wrong)
        mine.lock()
        with pytest.raises(redis.exceptions.AuthenticationError) as refusal:
            theirs.lock()
        server.kill()
        with pytest.raises((redis.exceptions.ConnectionError, OutcomeUnknownError)) as silence:
            mine.lock()
    shown += [refusal.value, silence.value, mine, right, wrong]
    text = "".join(map(repr, shown)) + caplog.text
    assert "maxmemory-policy" in caplog.text
    assert str(server.port) in text
    assert SECRET not in text
