"""Random programs do what the model says, and those that once met a fault."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.frameworks.common import require
from tests.programs.kept import KEPT
from tests.programs.printing import as_python
from tests.programs.programs import SETTINGS, drawn, given
from tests.programs.running import Fault, Run, Undecided, run_steps
from tests.programs.shrinking import shrink
from tests.servers import VALKEY, Server

#: How many programs of so many steps one test runs, and how many tests there are of a setting.
PROGRAMS, STEPS, PARTS = 6, 300, 3
DRAWN = [name for name in SETTINGS if name != "greenlets"]


def has_contexts(what: str) -> bool:
    """Whether a program has contexts, which tasks do not care for."""
    return any(step.op == "copy" for step in KEPT[what])


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with Server(VALKEY) as server:
        yield server.port


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("name", DRAWN)
def test_random_programs_do_what_the_model_says(port, name, part):
    setting = SETTINGS[name]
    ends = []
    for seed in range(PROGRAMS * part, PROGRAMS * (part + 1)):
        _, fault = run_steps(drawn(setting, seed, STEPS), port, tasks=setting.tasks)
        if isinstance(fault, Fault):
            command = f"python -m tests.programs --setting {name} --programs 1 --steps {STEPS} --seed {seed}"
            pytest.fail(f"{fault}\n{command}")
        ends.append(fault)
    assert None in ends, "all of them were too slow to say anything"


def test_greenlets_do_what_the_model_says():
    require("gevent")
    command = [sys.executable, "-W", "ignore", "-m", "tests.programs", "--setting", "greenlets"]
    command += ["--seed", "1", "--programs", str(PROGRAMS), "--steps", str(STEPS), "--no-shrinking"]
    ran = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=100)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "without a fault" in ran.stdout


@pytest.mark.parametrize(
    ("name", "what"),
    [("threads", what) for what in KEPT] + [("tasks", what) for what in KEPT if not has_contexts(what)],
)
def test_a_program_that_once_met_a_fault_does_what_is_right(port, name, what):
    setting, steps = SETTINGS[name], KEPT[what]
    for _ in range(10):
        run, fault = run_steps(given(setting, steps), port, tasks=setting.tasks)
        if not isinstance(fault, Undecided):  # It was too slow to say anything: a lease ended between two steps.
            break
    if fault is not None:
        pytest.fail(f"{fault}\n{as_python(run.steps, tasks=setting.tasks)}")
    assert run.steps[: len(steps)] == steps, "a step was left out"


@pytest.mark.parametrize("name", ["thread", "task"])
def test_a_release_that_releases_nothing_is_found_and_shrunk(port, name, monkeypatch):
    def release_nothing(self, step):
        return None if "+" not in step.on else original(self, step)

    original = Run._do_release
    monkeypatch.setattr(Run, "_do_release", release_nothing)
    setting = SETTINGS[name]
    run, fault = run_steps(drawn(setting, 1, 60), port, tasks=setting.tasks)
    assert isinstance(fault, Fault)

    def still_fails(steps):
        _, other = run_steps(given(setting, steps), port, tasks=setting.tasks)
        return isinstance(other, Fault) and other.kind == fault.kind

    short = shrink(run.steps, still_fails)
    assert 1 <= len(short) <= 2
    run, fault = run_steps(given(setting, short), port, tasks=setting.tasks)
    program = as_python(run.steps, tasks=setting.tasks)
    compile(program, "program", "exec")
    assert "unlock()" in program or "__(Exception, Exception(), None)" in program
