"""Fixtures for everybody. Thin ones: what they hand out is in modules beside this file."""

import asyncio
import gc
import inspect
import sys
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
import redis
from hypothesis import HealthCheck, settings

from tests.clusters import RunningCluster, SharedClusters
from tests.command_line import Programs, programs
from tests.parts import is_quick, may_have_tests
from tests.postgres import running_postgres
from tests.servers import BUILDS, DEFAULT, Build, Server, SharedServers
from tests.volumes import Volume

# An example takes as long as the machine lets it; Hypothesis's own default would be 0.2 s.
settings.register_profile("any machine", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="run as many seeds, steps and hand-overs as `make test-full`")
    parser.addoption(
        "--part",
        choices=["all", "quick", "rest"],
        default="all",
        help="`quick`: what `make test` runs; `rest`: what it leaves to `make test-all` (all)",
    )


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out files that have no tests of this part."""
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    return True if is_test and not may_have_tests(collection_path, config.getoption("--part")) else None


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}))
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test in the environments of its own mark, or of that of its file; without one, where its folder says."""
    mark = metafunc.definition.get_closest_marker("environments")
    if mark is not None and "world" in metafunc.fixturenames:
        each = pytest.mark.parametrize("world", mark.args, ids=str, indirect=True)
        metafunc.definition.add_marker(each, append=False)


@pytest.fixture(autouse=True)
def no_later_losses() -> Iterator[None]:
    """Forget what the clients that this test has closed would lose later: others may look at the log then."""
    yield
    if (module := sys.modules.get("pyredisson._threads.background")) is not None:
        with module.late_calls._changed:
            module.late_calls._calls.clear()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep thousands of tests out of each garbage collection, which some tests ask for again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.hookimpl(trylast=True)  # After those of folders, which set limits of their own.
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of this part; what grows with the volume may take an hour longer at the full one."""
    part = config.getoption("--part")
    if part != "all":
        others = [item for item in items if is_quick(item) is not (part == "quick")]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if is_quick(item) is (part == "quick")]
    for item in items:
        if item.get_closest_marker("volume"):
            limit = item.get_closest_marker("timeout")
            seconds = limit.args[0] if limit else float(config.getini("timeout"))
            more = 3600 if config.getoption("--full") else 60
            item.add_marker(pytest.mark.timeout(seconds + more), append=False)


@pytest.fixture
def volume(request: pytest.FixtureRequest) -> Volume:
    """``volume(usual, full=...)``: how many repetitions to run."""
    is_full: bool = request.config.getoption("--full")
    return lambda usual, *, full: full if is_full else usual


@pytest.fixture
def unique_name() -> str:
    """A name that no other test uses on the shared servers, not even in another process."""
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture
def command_line(tmp_path: Path) -> Iterator[Programs]:
    """Starts programs, which end with the test."""
    with programs(tmp_path) as started:
        yield started


@pytest.fixture(scope="session")
def shared_servers() -> Iterator[SharedServers]:
    """One running server a build and worker; ask it for ``.get(build)``, and do not kill what you get."""
    servers = SharedServers()
    yield servers
    servers.stop()


@pytest.fixture(params=BUILDS, ids=lambda build: build.id)
def build(request: pytest.FixtureRequest) -> Build:
    """Each build in turn; the test is skipped for one that is missing."""
    each: Build = request.param
    each.require()
    return each


@pytest.fixture
def server(build: Build, shared_servers: SharedServers) -> Server:
    """The shared server of each build in turn."""
    return shared_servers.get(build)


@pytest.fixture
def valkey(shared_servers: SharedServers) -> Server:
    """The shared server of the default build, for tests where the build is of no interest."""
    return shared_servers.get(DEFAULT)


@pytest.fixture
def direct(valkey: Server) -> Iterator[redis.Redis]:
    """The same without a client of ours, past any proxy."""
    with valkey.client(decode_responses=True) as client:
        yield client


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The URL of a running PostgreSQL, one a worker."""
    with running_postgres() as url:
        yield url


@pytest.fixture(scope="session")
def shared_clusters() -> Iterator[SharedClusters]:
    """One running cluster a build and worker; ask it for ``.get(build)``, and kill none of its nodes."""
    clusters = SharedClusters()
    yield clusters
    clusters.stop()


@pytest.fixture
def cluster(shared_clusters: SharedClusters) -> RunningCluster:
    """The shared cluster of the default build. Slots and masters may be moved, as long as it ends up whole."""
    return shared_clusters.get(DEFAULT)


@pytest.fixture
def any_cluster(build: Build, shared_clusters: SharedClusters) -> RunningCluster:
    """The shared cluster of each build in turn."""
    return shared_clusters.get(build)


@pytest.fixture
def fresh_cluster() -> Iterator[RunningCluster]:
    """A cluster of the test's own, whose nodes may be killed."""
    DEFAULT.require()
    cluster = RunningCluster(DEFAULT)
    yield cluster
    cluster.stop()


@pytest.fixture
def fresh_server() -> Iterator[Callable[..., Server]]:
    """``fresh_server(build=DEFAULT, *args)``: a server of the test's own, to be killed, paused or misconfigured."""
    servers: list[Server] = []

    def start(build: Build = DEFAULT, *args: str) -> Server:
        server = Server(build, *args)
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.stop()


@pytest.fixture
def own(fresh_server: Callable[..., Server]) -> Server:
    """A server of the test's own: what is stored there is all that is found."""
    return fresh_server()
