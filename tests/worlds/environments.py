"""The environments that tests of the contract run in: each runtime over each server, and the simulation."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal

import fakeredis
import pytest

from tests.servers import BUILDS, DEFAULT, Build, SharedServers
from tests.worlds.base import PATIENCE, World
from tests.worlds.by_runtime import WORLDS
from tests.worlds.simulated import SimulatedWorld


@dataclass(frozen=True)
class Environment:
    """A runtime and the server that it is connected to."""

    runtime: Literal["threads", "asyncio", "simulated"]
    server: Build | Literal["fakeredis", "store"]

    def __str__(self) -> str:
        return f"{self.runtime}-{self.server if isinstance(self.server, str) else self.server.id}"

    @contextmanager
    def open(self, servers: SharedServers) -> Iterator[World]:
        """Open a world in this environment for one test, and close it."""
        world = self.make(servers)
        try:
            yield world
        finally:
            world.close()

    def make(self, servers: SharedServers) -> World:
        """Return a world in this environment; the caller closes it."""
        if self.runtime == "simulated":
            return SimulatedWorld()
        if not isinstance(self.server, Build):
            return WORLDS[self.runtime](fakeredis.FakeServer(), patience=PATIENCE)
        self.server.require()
        port = servers.get(self.server).port
        world = WORLDS[self.runtime](port, partial(servers.ports, self.server), patience=PATIENCE)
        world.redis_settings = {} if self.server.protocol == 3 else {"protocol": self.server.protocol}
        return world


RUNTIMES: tuple[Literal["threads", "asyncio"], ...] = ("threads", "asyncio")
SIMULATED = Environment("simulated", "store")
EVERYWHERE = [*(Environment(runtime, server) for runtime in RUNTIMES for server in (*BUILDS, "fakeredis")), SIMULATED]


def _only(*environments: Environment) -> pytest.MarkDecorator:
    return pytest.mark.environments(*environments)


#: Of a file where most tests say otherwise: a test's own mark goes before that of its file.
everywhere = _only(*EVERYWHERE)
#: For what every runtime promises and the server does not influence, above all where time has to pass.
each_runtime = _only(*(Environment(runtime, DEFAULT) for runtime in RUNTIMES), SIMULATED)
#: For periods and time limits of the protocol itself, which neither the runtime nor the server influences.
in_virtual_time = _only(SIMULATED)
#: For what cannot be simulated: threads, callbacks of any kind, clients that a user made.
in_real_time = _only(*(each for each in EVERYWHERE if each.runtime != "simulated"))
#: The same, where the server does not influence it.
sync_and_async = _only(*(Environment(runtime, DEFAULT) for runtime in RUNTIMES))
#: For what needs a real server: its statistics, its connections.
each_server = _only(*(each for each in EVERYWHERE if isinstance(each.server, Build) and not each.server.imitation))
threads_only = _only(Environment("threads", DEFAULT))
asyncio_only = _only(Environment("asyncio", DEFAULT))

#: Ctrl-C may come while a socket belongs to no object yet; it is closed all the same.
interruptible = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
