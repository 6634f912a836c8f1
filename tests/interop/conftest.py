"""Fixtures of the interoperability tests: JVMs with Redisson, and a side in each language."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.building import CURRENT, VERSIONS, require
from tests.interop.clients import JavaSide, PythonSide, Side
from tests.interop.peer import Jvm
from tests.servers import Server
from tests.worlds.by_runtime import WORLDS
from tests.worlds.clock import ClockWorld

_HERE = Path(__file__).parent
LANGUAGES = ("java", "python")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One version after another: each worker is given tests that stand together, and so needs fewer JVMs."""
    places = [place for place, item in enumerate(items) if item.path.is_relative_to(_HERE)]
    for place, item in zip(places, sorted((items[place] for place in places), key=_turn_of), strict=True):
        items[place] = item
        # The first test of a version may have to wait for Maven, or for another worker that does.
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900))


def _turn_of(item: pytest.Item) -> int:
    parameters = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return VERSIONS.index(parameters.get("version", CURRENT))


class Jvms:
    """One running JVM a version and worker, started when first asked for: it takes a second, and 100 MB."""

    def __init__(self) -> None:
        self._running: dict[str, Jvm] = {}

    def get(self, version: str) -> Jvm:
        """The shared one; do not kill it."""
        if version not in self._running:
            self._running[version] = start(version)
        return self._running[version]

    def stop(self) -> None:
        for jvm in self._running.values():
            jvm.kill()


def start(version: str) -> Jvm:
    """A new JVM, of the caller's own."""
    jvm = Jvm(require(version))
    # What happened when is compared between the two, so both have to read one clock.
    before = time.monotonic_ns()
    there = jvm.do("main", "clock")
    assert before <= there <= time.monotonic_ns(), "Java's nanoTime() is another clock than time.monotonic_ns()"
    return jvm


@pytest.fixture(scope="session")
def jvms() -> Iterator[Jvms]:
    jvms = Jvms()
    yield jvms
    jvms.stop()


@pytest.fixture
def own_jvm() -> Iterator[Callable[..., Jvm]]:
    """``own_jvm(version=CURRENT)``: a JVM of the test's own, to be killed."""
    started: list[Jvm] = []

    def start_one(version: str = CURRENT) -> Jvm:
        started.append(start(version))
        return started[-1]

    yield start_one
    for jvm in started:
        jvm.kill()


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """Each version of Redisson in turn."""
    each: str = request.param
    require(each)
    return each


@pytest.fixture(params=LANGUAGES)
def first(request: pytest.FixtureRequest) -> str:
    """Who comes first; the other one is of the other language."""
    language: str = request.param
    return language


@pytest.fixture
def worlds() -> Iterator[dict[str, ClockWorld]]:
    """Threads, and tasks."""
    made = {runtime: make() for runtime, make in WORLDS.items()}
    try:
        yield made
    finally:
        for world in made.values():
            world.close()


class Sides:
    """What makes the clients of a test, on one server or cluster; ended with it. With several, one client on each.

    Attributes:
        version: Of Redisson.
    """

    def __init__(self, version: str, jvm: Jvm, worlds: dict[str, ClockWorld], urls: tuple[str, ...]) -> None:
        self.version = version
        self._jvm, self._worlds, self._urls = jvm, worlds, urls
        self._java: list[JavaSide] = []

    def java(self, **settings: Any) -> Side:
        """A new client of Redisson's."""
        self._java.append(JavaSide(self._jvm, *self._urls, **settings))
        return self._java[-1]

    def python(self, runtime: str = "threads", **config: Any) -> Side:
        """A new client of ours. It has as much patience as Java: JVMs that start keep a small machine busy."""
        return PythonSide(self._worlds[runtime], *self._urls, **{"timeout": 15.0, **config})

    def both(self, first: str) -> tuple[Side, Side]:
        """One in ``first`` (``java`` or ``python``), and one in the other."""
        sides = {"java": self.java, "python": self.python}
        second = "python" if first == "java" else "java"
        return sides[first](), sides[second]()

    def close(self) -> None:
        for side in self._java:
            side.close()


@pytest.fixture
def open_sides(jvms: Jvms, worlds: dict[str, ClockWorld], valkey: Server) -> Iterator[Callable[..., Sides]]:
    """``open_sides(version, url, ...)``: clients of one version of Redisson and of ours; on our usual server."""
    opened: list[Sides] = []

    def make(version: str, *urls: str) -> Sides:
        require(version)
        opened.append(Sides(version, jvms.get(version), worlds, urls or (valkey.url,)))
        return opened[-1]

    yield make
    for sides in opened:
        sides.close()


@pytest.fixture
def sides(open_sides: Callable[..., Sides], version: str) -> Sides:
    """Clients of each version of Redisson in turn, and of ours."""
    return open_sides(version)
