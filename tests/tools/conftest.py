"""The commands are tested in this process, of which some set what a process of their own may set."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _level() -> Iterator[None]:
    logger = logging.getLogger("pyredisson")
    level = logger.level
    yield
    logger.setLevel(level)
