"""Replicas that do not acknowledge what was taken: it is given back, once, and only if it was taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyredisson._core import acquiring as attempt
from pyredisson._core import client
from pyredisson._core.client import ClientCore
from pyredisson._core.hold import SingleHold
from pyredisson._core.numbered import NumberedCall
from pyredisson._core.ownership import Ownership
from pyredisson._core.replicas import NotAcknowledged, Replicas
from pyredisson._core.requests import Reader
from pyredisson._core.runtime import Reply, Request
from pyredisson._kinds.semaphores import SemaphoreCore
from pyredisson.config import Config
from pyredisson.errors import LockError, NoSyncedSlavesError
from tests.simulated.engine.faults import Faults
from tests.simulated.planted import check_found, in_code
from tests.simulated.stage import Stage


class Scene(Stage):
    """A client whose acquires are acknowledged, or not, as the test wants it."""

    def __init__(self, *, replicas: int = 1) -> None:
        super().__init__(Config(), seed=3)
        self.world.node.redis.replicas = replicas

    def acknowledge(self, share: float) -> None:
        self.world.faults = Faults(unsynced=1.0 - share)

    def state(self) -> dict[bytes, Any]:
        """What is stored, but for what the library notes of its own."""
        dump = self.world.node.redis.dump()
        return {key: entry.value for key, entry in dump.items() if not key.startswith((b"pyredisson", b"{pyredisson"))}


def test_a_lock_is_free_at_once():
    with Scene() as scene:
        scene.acknowledge(0.0)
        with pytest.raises(NoSyncedSlavesError):
            scene.do(scene.client.get_lock("orders").lock(100))
        assert scene.state() == {}
        scene.acknowledge(1.0)
        assert scene.do(scene.client.get_lock("orders").try_lock(0, 100)) is True


def test_one_of_two_holds_remains():
    with Scene() as scene:

        async def twice(client):
            orders = client.get_lock("orders")
            scene.acknowledge(1.0)
            await orders.lock()
            scene.acknowledge(0.0)
            with pytest.raises(NoSyncedSlavesError):
                await orders.lock()
            assert list(scene.state()[b"orders"].values()) == [b"1"]
            assert await orders.get_hold_count() == 1
            await orders.unlock()

        scene.do(twice(scene.client))
        assert scene.state() == {}


def test_an_acquire_that_was_refused_is_not_undone():
    with Scene() as scene:
        scene.acknowledge(0.0)

        async def ask(client):
            semaphore = client.get_semaphore("seats")
            await semaphore.try_set_permits(1)
            assert await semaphore.try_acquire(2) is False
            with pytest.raises(NoSyncedSlavesError):
                await semaphore.try_acquire(1)
            assert await semaphore.available_permits() == 1

        scene.do(ask(scene.client))


def test_a_new_connection_that_tells_of_replicas_has_them_asked():
    """The request for which it was made went out as if there were none, and is asked again: it counts once."""
    with Scene(replicas=0) as scene:

        async def use(client):
            orders = client.get_lock("orders")
            await orders.lock()
            await orders.unlock()
            scene.world.node.redis.replicas = 1
            scene.world.break_connections(scene.world.node)
            await orders.lock()
            assert await orders.get_hold_count() == 1
            await orders.unlock()
            semaphore = client.get_semaphore("seats")
            await semaphore.try_set_permits(3)
            assert await semaphore.drain_permits() == 3

        scene.do(use(scene.client))
        assert scene.world.counts["WAIT"] == 2


# --- planted bugs ---


async def _lock_is_kept(
    client: ClientCore, ownership: Ownership, hold: SingleHold, short: NotAcknowledged, exchange: object
) -> Exception:
    ownership.refused(ownership.request_id)
    return client.replicas.error(ownership.name, short, given_back=True)


async def _permit_is_kept(self: NumberedCall[object], short: NotAcknowledged) -> Exception:
    self._request = None
    return self._client.replicas.error(self.key[0], short, given_back=True)


class ReadsAll:
    def acquired(self, reply: Reply) -> bool:
        return True


async def _asked_whatever_it_took(self: Replicas, request: Request, timeout: float, reader: Reader) -> Reply:
    return await ACKNOWLEDGE(self, request, timeout, ReadsAll())


async def _given_back_by_releasing(self: NumberedCall[object], short: NotAcknowledged) -> Exception:
    error = await GIVE_BACK(self, short)
    await SemaphoreCore(self._client, self.key[0]).release(1)
    return error


ACKNOWLEDGE = Replicas.acknowledge
GIVE_BACK: Callable[..., Any] = NumberedCall._give_back

BUGS = {
    "a lock without acknowledgement is not given back": in_code(attempt, "_give_back_unacknowledged", _lock_is_kept),
    "a permit without acknowledgement is not given back": in_code(NumberedCall, "_give_back", _permit_is_kept),
    "it fails although nothing was taken": in_code(Replicas, "acknowledge", _asked_whatever_it_took),
    "permits are given back twice": in_code(NumberedCall, "_give_back", _given_back_by_releasing),
    "whoever has no connection yet asks nobody": in_code(client, "replicas_appeared", lambda: LockError("planted")),
}

FINDERS = {
    "a lock": test_a_lock_is_free_at_once,
    "two holds": test_one_of_two_holds_remains,
    "a refusal": test_an_acquire_that_was_refused_is_not_undone,
    "a new connection": test_a_new_connection_that_tells_of_replicas_has_them_asked,
}


@pytest.mark.planted
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name, monkeypatch):
    check_found(monkeypatch, name, BUGS[name], FINDERS.items())
