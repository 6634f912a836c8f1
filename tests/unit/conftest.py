"""Fixtures of the parts of the core that are tested by themselves."""

from types import ModuleType

import pytest

import pyredisson
import pyredisson.asyncio
from pyredisson._core.subscriptions import Subscriptions
from tests.unit.fake import FakeRuntime
from tests.unit.waiters import MAX_WAIT


@pytest.fixture
def world() -> FakeRuntime:
    """A world in virtual time."""
    return FakeRuntime()


@pytest.fixture
def subscriptions(world: FakeRuntime) -> Subscriptions:
    """The subscriptions of a client in that world."""
    return Subscriptions(world, MAX_WAIT)


@pytest.fixture(params=[pyredisson, pyredisson.asyncio], ids=["threads", "asyncio"])
def form(request: pytest.FixtureRequest) -> ModuleType:
    """Each form of the library in turn."""
    found: ModuleType = request.param
    return found
