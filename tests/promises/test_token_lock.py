"""The token lock: a plain string, shared with every other client of the Redlock kind, and as safe as the others."""

from __future__ import annotations

import re

import pytest

from tests.worlds.base import Actor, Remote, World


def token(actor: Actor, client: Remote, name: str = "orders") -> Remote:
    return actor.get(client, "token_lock", name)


@pytest.fixture
def kind() -> str:
    return "token_lock"


# ---- stored state ----------------------------------------------------------------------------------------------------


def test_it_is_a_string_under_its_own_name_with_the_lease_as_its_ttl(world: World) -> None:
    mine = token(world.actor(), world.client(lock_watchdog_timeout=25))
    mine.lock()
    assert set(world.redis.everything()) == {"orders"}
    kind, value = world.redis.everything()["orders"]
    assert kind == "string"
    assert re.fullmatch(r"[0-9a-f]{40}", value), "20 random bytes"
    assert 20 < world.redis.ttl("orders") <= 25
    mine.unlock()
    assert world.redis.everything() == {}


def test_each_hold_has_a_token_of_its_own(world: World, mine: Remote) -> None:
    seen = set()
    for _ in range(20):
        with mine:
            seen.add(world.redis.command("GET", "orders"))
    assert len(seen) == 20


def test_a_release_publishes_no_message(world: World) -> None:
    said = world.messages("redisson_lock__channel:{orders}")
    mine = token(world.actor(), world.client())
    mine.lock()
    mine.unlock()
    mine.lock()
    mine.force_unlock()
    assert said.received() == []


# ---- a lock ----------------------------------------------------------------------------------------------------------


def test_a_foreign_empty_token_is_a_lock_too(world: World) -> None:
    world.redis.command("SET", "orders", "")
    assert not token(world.actor(), world.client()).try_lock()


# ---- time ------------------------------------------------------------------------------------------------------------


# ---- other clients of the same kind ----------------------------------------------------------------------------------
