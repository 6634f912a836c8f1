"""Where the contract is held to: each runtime over each server, and the simulation. Tests may name some of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Literal

import pytest

from tests.contract.on_the_clock import AsyncioWorld, ThreadsWorld
from tests.contract.simulated import SimulatedWorld
from tests.contract.worlds import World
from tests.servers import BUILDS, VALKEY, Build, SharedServers


@dataclass(frozen=True)
class Place:
    """A runtime and what it is connected to."""

    runtime: Literal["threads", "asyncio", "simulated"]
    server: Build | Literal["fakeredis", "store"]

    def __str__(self) -> str:
        return f"{self.runtime}-{self.server if isinstance(self.server, str) else self.server.id}"

    @contextmanager
    def open(self, servers: SharedServers) -> Iterator[World]:
        """The world at this place, for one test."""
        world = self.make(servers)
        try:
            yield world
        finally:
            world.close()

    def make(self, servers: SharedServers) -> World:
        """The world at this place; whoever asks for it closes it."""
        if self.runtime == "simulated":
            return SimulatedWorld()
        port = ports = None
        if isinstance(self.server, Build):
            self.server.require()
            port = servers.get(self.server).port
            ports = partial(servers.ports, self.server)
        return ThreadsWorld(port, ports) if self.runtime == "threads" else AsyncioWorld(port, ports)


RUNTIMES: tuple[Literal["threads", "asyncio"], ...] = ("threads", "asyncio")
SIMULATED = Place("simulated", "store")
EVERYWHERE = [*(Place(runtime, server) for runtime in RUNTIMES for server in (*BUILDS, "fakeredis")), SIMULATED]


def _only(*places: Place) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("world", places, ids=str, indirect=True)


#: For what every runtime promises and no server has a say in, above all where time has to pass.
each_runtime = _only(*(Place(runtime, VALKEY) for runtime in RUNTIMES), SIMULATED)
#: For what is beyond a simulation: threads, callbacks of any kind, clients that a user made.
on_the_clock = _only(*(place for place in EVERYWHERE if place.runtime != "simulated"))
#: The same, where no server has a say in it.
each_colour = _only(*(Place(runtime, VALKEY) for runtime in RUNTIMES))
#: For what takes a real server: its statistics, its connections.
each_server = _only(*(place for place in EVERYWHERE if isinstance(place.server, Build)))
threads_only = _only(Place("threads", VALKEY))
asyncio_only = _only(Place("asyncio", VALKEY))
