"""anyio over asyncio and over uvloop: cancellations at random moments leave nothing."""

from __future__ import annotations

import pytest

from tests.frameworks.common import Surroundings, require
from tests.volumes import Volume


@pytest.mark.volume
@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_cancellations_leave_nothing(surroundings: Surroundings, loop: str, volume: Volume) -> None:
    require("anyio", "uvloop")
    count = volume(450, full=9000)
    program = surroundings.program(
        *("-W", "always", "-m", "tests.frameworks.apps.cancellations", loop, str(count), "7")
    )
    assert program.wait(30 + count / 20) == 0, program.output()
    assert program.output() == ""
    assert surroundings.notes().count("cancelled") >= count // 3
    surroundings.check_exclusion()
    surroundings.check_nothing_left()
