"""anyio over asyncio and over uvloop: cancellations at random moments leave nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.frameworks.common import Surroundings, require


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_cancellations_leave_nothing(surroundings: Surroundings, loop: str, volume: Callable[[int], int]) -> None:
    require("anyio", "uvloop")
    count = max(450, volume(9000))
    program = surroundings.program("-X", "dev", "-m", "tests.frameworks.apps.cancellations", loop, str(count), "7")
    assert program.wait(60) == 0, program.output()
    assert program.output() == ""
    assert surroundings.notes().count("cancelled") >= count // 3
    surroundings.check_exclusion()
    surroundings.check_nothing_left()
