"""What a client learns of a real server, and what it says of one that is set up badly."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.asyncio

from pyredisson._core.server import ServerFacts
from pyredisson.errors import RedissonError
from pyredisson.events import ServerUnsafe
from tests.real_servers.observation import load_scripts
from tests.servers import HOST, VALKEY, Build, Server
from tests.waiting import until
from tests.worlds.clock import ClockWorld


def seen_by(client: Any) -> list[tuple[ServerFacts, ServerFacts | None]]:
    seen: list[tuple[ServerFacts, ServerFacts | None]] = []
    client._core.server.on_learned.append(lambda new, old: seen.append((new, old)))
    return seen


def users_client(world: ClockWorld, url: str) -> tuple[Any, Any]:
    """A client over a pool of the user's, and the pool."""
    pool = world.redis_py.BlockingConnectionPool.from_url(url)
    return world.api.Redisson(world.redis_py.Redis(connection_pool=pool)), pool


def test_a_users_pool_is_asked_once_and_after_a_break(world, own, unique_name):
    users, pool = users_client(world, own.url)
    client, actor = world.close_at_end(users), world.actor()
    seen = seen_by(client)
    lock = client.get_lock(unique_name)
    for _ in range(3):
        actor.do(lock.lock)
        actor.do(lock.unlock)
    assert len(seen) == 1
    own.restart()

    def back():
        try:
            actor.do(lock.is_locked)
        except redis.exceptions.RedisError:
            return False
        return True

    until(back, what="the pool has new connections")
    assert len(seen) == 2
    world.run(pool.disconnect)


# --- set up badly ---


@pytest.fixture
def evicting(build: Build, fresh_server: Callable[..., Server]) -> Server:
    """A server of each build that may remove locks."""
    return fresh_server(build, "--maxmemory-policy", "allkeys-lru")


def test_a_policy_that_evicts_is_warned_of_once(world, evicting, unique_name, caplog):
    client, actors = world.from_url(evicting.url), [world.actor() for _ in range(3)]
    lock = client.get_lock(unique_name)
    with caplog.at_level(logging.WARNING, "pyredisson"):
        for future in [actor.start(lock.is_locked) for actor in actors]:
            assert future.result(10) is False
    [event] = world.heard(ServerUnsafe)
    assert event.setting == "maxmemory-policy"
    [record] = [record for record in caplog.records if record.name == "pyredisson.server"]
    assert record.levelno == logging.WARNING
    assert "allkeys-lru" in record.getMessage()
    assert "maxmemory-policy noeviction" in record.getMessage()


@pytest.fixture
def replica(own: Server, fresh_server: Callable[..., Server]) -> Server:
    """A replica of ``own``."""
    own.config_set("repl-diskless-sync-delay", 0)
    server = fresh_server(VALKEY, "--replicaof", HOST, str(own.port))
    until(lambda: server.info("replication")["master_link_status"] == "up", within=20)
    return server


def test_a_replica_given_as_master_is_warned_of(world, replica, unique_name):
    client, actor = world.from_url(replica.url), world.actor()
    with pytest.raises(redis.exceptions.ReadOnlyError):
        actor.do(client.get_lock(unique_name).try_lock)
    [event] = world.heard(ServerUnsafe)
    assert event.setting == "role"
    strict = world.from_url(replica.url, strict_server=True)
    with pytest.raises(RedissonError, match="replica"):
        actor.do(strict.get_lock(unique_name).try_lock)


def test_a_user_without_the_permission_is_served_except_in_strict_mode(world, build, fresh_server, unique_name):
    server = fresh_server(build)
    with server.client() as direct:
        direct.execute_command("ACL", "SETUSER", "ann", "on", ">sesame", "~*", "&*", "+@all", "-info")
    load_scripts(server)
    url = f"redis://ann:sesame@{HOST}:{server.port}/0"
    client, actor = world.from_url(url), world.actor()
    lock = client.get_lock(unique_name)
    actor.do(lock.lock)
    actor.do(lock.unlock)
    assert client._core.server.facts is None
    assert client._core.server.refusal is not None
    assert not world.heard(ServerUnsafe)
    strict = world.from_url(url, strict_server=True)
    with pytest.raises(RedissonError, match="INFO") as caught:
        actor.do(strict.get_lock(unique_name).lock)
    assert "sesame" not in str(caught.value)
    with server.client() as direct:
        assert not direct.exists(unique_name)
