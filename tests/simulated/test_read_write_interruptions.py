"""Both sides of a read-write lock, cancelled or interrupted wherever they can be."""

from __future__ import annotations

from functools import partial

import pytest

from pyredisson.asyncio.primitives import Lock
from tests.simulated.engine.checkers import ReadWriteRules
from tests.simulated.engine.runtime import SimulatedClient
from tests.simulated.interruptions import INTERRUPTIONS, walk
from tests.simulated.test_interruptions import CASES, LockScene


class Reading(LockScene):
    """The victim reads; the others write."""

    def make(self, client: SimulatedClient) -> Lock:
        both = client.get_read_write_lock("orders")
        return both.read_lock() if client is self.client else both.write_lock()

    def rules(self) -> None:
        ReadWriteRules(self.world, [self.client, self.other])


class Writing(Reading):
    """The victim writes; the others read."""

    suffix = ":write"

    def make(self, client: SimulatedClient) -> Lock:
        both = client.get_read_write_lock("orders")
        return both.write_lock() if client is self.client else both.read_lock()


both = pytest.mark.parametrize("scene", [Reading, Writing], ids=lambda scene: scene.__name__.lower())


@both
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.kind == "lock"])
@pytest.mark.parametrize("how", ["cancelled", "cancelled twice", "interrupted"])
def test_an_interrupted_call_leaves_nothing_in_redis(name: str, how: str, scene: type[LockScene]) -> None:
    assert walk(partial(scene, CASES[name]), INTERRUPTIONS[how]) >= 3
