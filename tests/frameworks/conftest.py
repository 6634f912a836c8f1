"""Fixtures of this folder. What they hand out is in ``common.py``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.frameworks.common")

from tests.frameworks.common import Surroundings  # noqa: E402
from tests.servers import Server  # noqa: E402


@pytest.fixture
def surroundings(valkey: Server, unique_name: str, tmp_path: Path) -> Iterator[Surroundings]:
    """Where a test starts its programs, on the shared server; they are killed at its end at the latest."""
    surroundings = Surroundings(valkey, unique_name, tmp_path)
    yield surroundings
    surroundings.close()


@pytest.fixture
def own_surroundings(fresh_server: Callable[..., Server], unique_name: str, tmp_path: Path) -> Iterator[Surroundings]:
    """The same, on a server of the test's own that may be paused, restarted or killed."""
    surroundings = Surroundings(fresh_server(), unique_name, tmp_path)
    yield surroundings
    surroundings.close()
