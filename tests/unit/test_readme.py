"""What only the README says and shows; its commands, examples and links are tested with those of the documentation."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import pyredisson
from tests.examples import ROOT, blocks_of

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

COMMANDS = [command for block in blocks_of(README) if block.info == "console" for command in block.commands]


def run(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    program, *arguments = shlex.split(command)
    assert program == "pyredisson"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    return subprocess.run(
        [sys.executable, "-m", "pyredisson", *arguments],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_report_runs_while_the_lock_is_held(tmp_path: Path) -> None:
    [command] = (each for each in COMMANDS if each.startswith("pyredisson run"))
    report = tmp_path / "report.sh"
    report.write_text('#!/bin/sh\necho "$PYREDISSON_LOCK"\n', encoding="utf-8")
    report.chmod(0o755)
    with pyredisson.Redisson.embedded() as client:
        assert "redis://localhost:6379" in command
        done = run(command.replace("redis://localhost:6379", str(client.url)), tmp_path)
    assert (done.returncode, done.stdout) == (0, "nightly-report\n"), done.stderr


def test_the_demo_is_the_one_that_is_drawn(tmp_path: Path) -> None:
    """It is run by ``tests/real_servers/test_demo.py``; here its options and the picture of its output."""
    assert "pyredisson demo" in COMMANDS
    defaults = run("pyredisson demo --help", tmp_path).stdout
    picture = (ROOT / "docs" / "_static" / "demo.svg").read_text(encoding="utf-8").replace("&#160;", " ")
    workers, seats = re.findall(r"(\d+) processes sell (\d+) seats", picture)[0]
    assert re.search(rf"Seats in stock\.\s+\[default: {seats};", defaults)
    assert re.search(rf"Processes that sell them\.\s+\[default: {workers};", defaults)
    assert f"{ {'4': 'Four'}[workers] } processes sell {seats} seats" in TEXT
    assert "taken over" in picture
    assert "…" not in picture, "its table was cut"


def test_the_badges_say_what_the_package_says() -> None:
    assert f"![version {pyredisson.__version__}](https://img.shields.io/badge/version-{pyredisson.__version__}-" in TEXT
    [oldest] = re.findall(r'^requires-python = ">=([\d.]+)"', PYPROJECT, re.MULTILINE)
    assert f"![Python {oldest} or newer](https://img.shields.io/badge/python-{oldest}%2B-" in TEXT


@pytest.mark.parametrize(("page", "after"), [("README.md", "```output"), ("docs/tutorial.md", "```console")])
def test_how_to_install_before_the_first_release_stands_under_the_first_example(page: str, after: str) -> None:
    below = (ROOT / page).read_text(encoding="utf-8").split(f"\n{after}\n")[1]
    assert 'pip install ".[embedded]"' in below.split("```python")[0]
