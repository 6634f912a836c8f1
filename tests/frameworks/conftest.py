"""Fixtures of this folder. What they hand out is in ``common.py``."""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.frameworks.common", "tests.frameworks.page_programs")

from tests.frameworks.common import Surroundings  # noqa: E402
from tests.frameworks.page_programs import Environments, Page  # noqa: E402
from tests.servers import VALKEY, Server, SharedServers  # noqa: E402


@pytest.fixture
def surroundings(valkey: Server, unique_name: str, tmp_path: Path) -> Iterator[Surroundings]:
    """Where a test starts its programs, on the shared server; they are killed at its end at the latest."""
    surroundings = Surroundings(valkey, unique_name, tmp_path)
    yield surroundings
    surroundings.close()


@pytest.fixture(scope="module")
def module_surroundings(
    request: pytest.FixtureRequest, shared_servers: SharedServers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Surroundings]:
    """The same for all tests of a file, whose program runs until their end. No two were inside at once, ever."""
    folder = tmp_path_factory.mktemp(request.module.__name__.rpartition("test_")[2])
    surroundings = Surroundings(shared_servers.get(VALKEY), f"test-{folder.name}-{uuid.uuid4().hex}", folder)
    try:
        yield surroundings
        assert "overlap" not in surroundings.notes()
        surroundings.check_nothing_left()
    finally:
        surroundings.close()


@pytest.fixture
def own_surroundings(fresh_server: Callable[..., Server], unique_name: str, tmp_path: Path) -> Iterator[Surroundings]:
    """The same, on a server of the test's own that may be paused, restarted or killed."""
    surroundings = Surroundings(fresh_server(), unique_name, tmp_path)
    yield surroundings
    surroundings.close()


@pytest.fixture(scope="session")
def environments(tmp_path_factory: pytest.TempPathFactory) -> Environments:
    """Fresh environments, in which the commands of a page run."""
    return Environments(tmp_path_factory.mktemp("environments"))


@pytest.fixture
def open_page(own_surroundings: Surroundings, environments: Environments) -> Callable[..., Page]:
    """``open_page(name, version="")``: a page of an integration, on a server of the test's own."""
    return functools.partial(Page, surroundings=own_surroundings, environments=environments)
