"""``pyredisson.integrations.apscheduler`` in several processes, with the APScheduler that is installed: 3, or 4."""

from __future__ import annotations

from importlib.metadata import version

from tests.frameworks.common import Surroundings, require
from tests.waiting import until


def test_each_tick_runs_once_although_three_schedulers_run(surroundings: Surroundings) -> None:
    require("apscheduler")
    major = version("apscheduler").partition(".")[0]
    app = f"tests.frameworks.apps.integration_apscheduler{'' if major == '3' else major}"
    programs = [surroundings.program("-m", app) for _ in range(3)]
    until(lambda: len(surroundings.notes()) >= 3, 40, what="it ticks")
    programs.pop().kill()
    before = len(surroundings.notes())
    until(lambda: len(surroundings.notes()) >= before + 4, 40, what="it goes on without one of them")
    assert all(program.running() for program in programs)
    ticks = surroundings.notes()
    assert len(ticks) == len(set(ticks)), "a tick ran twice"
