"""The servers that the cases of scripts run on."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.scripts.compared_servers import Model, RealServer
from tests.scripts.harness import CHANNEL, DEAD, ME, OTHER, PERMITS, RW_CHANNEL, ComparedServer
from tests.servers import BUILDS, Build, SharedServers


@pytest.fixture(scope="session")
def real_servers() -> Iterator[Callable[[Build], RealServer]]:
    """Servers for these tests alone, because they empty them and take their memory."""
    servers = SharedServers()
    open_: dict[Build, RealServer] = {}

    def get(build: Build) -> RealServer:
        if build not in open_:
            open_[build] = RealServer(servers.get(build))
            open_[build].hear_shards([CHANNEL, RW_CHANNEL])
            open_[build].hear_shards([CHANNEL, PERMITS])
            open_[build].hear_shards([CHANNEL, *(CHANNEL + b":" + owner for owner in (ME, OTHER, DEAD))])
        return open_[build]

    yield get
    for each in open_.values():
        each.close()
    servers.stop()


@pytest.fixture(params=[None, *BUILDS], ids=lambda build: build.id if build else "simulated")
def server(request: pytest.FixtureRequest, real_servers: Callable[[Build], RealServer]) -> ComparedServer:
    """The simulated server and each real one in turn, empty."""
    build: Build | None = request.param
    if build is None:
        model = Model()
        model.server.only_declared_keys = True
        return model
    build.require()
    server = real_servers(build)
    server.empty()
    return server
