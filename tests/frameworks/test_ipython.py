"""IPython: locks within one cell and over several, with and without ``await``."""

from __future__ import annotations

from pathlib import Path

from tests.frameworks.common import Surroundings, require


def test_cells(surroundings: Surroundings, tmp_path: Path) -> None:
    require("IPython")
    program = surroundings.program(
        "-m", "tests.frameworks.apps.shell", environment={"IPYTHONDIR": str(tmp_path / "ipython")}
    )
    assert program.wait(30) == 0, program.output()
    surroundings.check_exclusion(2)
    surroundings.check_nothing_left()
