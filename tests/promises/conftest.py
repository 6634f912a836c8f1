"""The world that a test of the contract runs in: each one in turn."""

from collections.abc import Iterator

import pytest

from pyredisson._core import holder_lookup
from tests.promises.kinds import handle
from tests.proxy import Proxy
from tests.servers import SharedServers
from tests.worlds.base import Actor, Remote, World
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import EVERYWHERE


@pytest.fixture(params=EVERYWHERE, ids=str)
def world(request: pytest.FixtureRequest, shared_servers: SharedServers) -> Iterator[World]:
    """A runtime over a server, fresh for this test: without faults no waiter relies on its checks.

    ``@pytest.mark.unheard``: something becomes free in this test of which no message tells.
    """
    with request.param.open(shared_servers) as world:
        yield world
        if request.node.get_closest_marker("unheard") is None:
            assert world.last_resorts() == 0


@pytest.fixture(autouse=True)
def patient_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What errors say of a holder is looked up within a moment; a server on a busy machine may need a longer one."""
    monkeypatch.setattr(holder_lookup, "BUDGET", 1.0)


@pytest.fixture
def proxy(world: ClockWorld) -> Iterator[Proxy]:
    """Between clients made by ``world.through(proxy.port)`` and the world's real server."""
    with Proxy(world.port) as proxy:
        yield proxy


@pytest.fixture
def client(world: World) -> Remote:
    return world.client()


@pytest.fixture
def alice(world: World) -> Actor:
    return world.actor()


@pytest.fixture
def bob(world: World) -> Actor:
    return world.actor()


@pytest.fixture
def carol(world: World) -> Actor:
    return world.actor()


@pytest.fixture
def kind() -> str:
    """The kind of ``mine`` and ``theirs``, which a module or a test may override."""
    return "lock"


@pytest.fixture
def mine(alice: Actor, client: Remote, kind: str) -> Remote:
    """The lock "orders", for Alice."""
    return handle(alice, client, kind)


@pytest.fixture
def theirs(bob: Actor, client: Remote, kind: str) -> Remote:
    """The same lock of the same client, for Bob."""
    return handle(bob, client, kind)
