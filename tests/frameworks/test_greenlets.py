"""Programs that gevent or eventlet have patched: who owns what, kills and time-outs at any moment, and forks."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.frameworks.common import require

each_kind = pytest.mark.parametrize("kind", ["gevent", "eventlet"])


@each_kind
def test_each_greenlet_is_an_owner(surroundings, kind):
    require(kind)
    program = surroundings.program("-W", "ignore", "-m", "tests.frameworks.apps.greenlet_owners", kind)
    assert program.wait(30) == 0, program.output()
    assert program.output().endswith("well\n"), program.output()
    surroundings.check_nothing_left()


@pytest.mark.volume
@each_kind
def test_kills_and_timeouts_leave_nothing(surroundings, kind, volume):
    """Processes of many greenlets on three locks; a greenlet may be ended at any point at which it waits."""
    require(kind)
    seconds = volume(3, full=60)
    programs = [
        surroundings.program(
            *("-W", "ignore", "-m", "tests.frameworks.apps.greenlet_stress"), *(kind, "30", str(seconds), str(seed))
        )
        for seed in range(2)
    ]
    seen: Counter[str] = Counter()
    for program in programs:
        assert program.wait(60 + seconds) == 0, program.output()
        seen.update(json.loads(program.output()))
    assert seen["stuck"] == 0
    assert min(seen["holds"], seen["timeouts"], seen["kills"], seen["owners"]) >= 30, seen
    surroundings.check_exclusion()
    surroundings.check_nothing_left()


def test_the_child_of_a_fork_keeps_none_of_its_parents_greenlets(surroundings):
    require("gevent")
    program = surroundings.program("-m", "tests.frameworks.apps.gevent_fork")
    status = program.wait(60)
    assert (status, [note for note in surroundings.notes() if note != "in"]) == (0, []), program.output()
    assert "Traceback" not in program.output()
    surroundings.check_exclusion()
    surroundings.check_nothing_left()
