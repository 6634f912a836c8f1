"""anyio over asyncio and over uvloop: cancellations at random moments leave nothing."""

from __future__ import annotations

import pytest

from tests.frameworks.common import START_WITHIN, Surroundings, require
from tests.volumes import Volume
from tests.waiting import until


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


def test_a_cancelled_holder_waits_quietly_for_a_server_that_does_not_answer(own_surroundings: Surroundings) -> None:
    """anyio cancels again at every turn of the loop, as long as the release is under way."""
    require("anyio")
    program = own_surroundings.program("-m", "tests.frameworks.apps.quiet")
    until(lambda: "holding" in own_surroundings.notes(), START_WITHIN, what="it holds its locks")
    own_surroundings.server.pause()
    try:
        (own_surroundings.folder / "section-paused").touch()
        status = program.wait(30)
    finally:
        own_surroundings.server.resume()
    assert status == 0, program.output()
    (spent,) = [float(note.split()[1]) for note in own_surroundings.notes() if note.startswith("cpu")]
    assert spent < 0.5
