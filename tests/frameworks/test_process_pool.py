"""ProcessPoolExecutor: children that were forked or spawned are clients of their own."""

from __future__ import annotations

import pytest

from tests.frameworks.common import Surroundings
from tests.volumes import Volume


@pytest.mark.volume
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_exclude_each_other(surroundings: Surroundings, method: str, volume: Volume) -> None:
    count = volume(60, full=1000)
    program = surroundings.program("-m", "tests.frameworks.apps.pool", method, str(count))
    assert program.wait(40 + count / 20) == 0, program.output()
    assert "Traceback" not in program.output()
    surroundings.check_exclusion(count)
    surroundings.check_nothing_left()
