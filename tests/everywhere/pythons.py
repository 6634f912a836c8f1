"""The tests that depend on the version of Python, with each CPython from 3.10 to 3.14."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import datetime, timezone
from pathlib import Path

from tests.everywhere.install import fetch_python
from tests.everywhere.table import Python
from tests.interop.building import NotBuilt

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14")


def find(version: str) -> str | None:
    """A program on the PATH, of pyenv, or, for 3.14, of Debian's unstable release."""
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"), reverse=True)
    for program in filter(None, [shutil.which(f"python{version}"), *map(str, kept)]):
        if full_version(program):  # A shim of pyenv may have none to start.
            return program
    if version == "3.14":
        try:
            return str(fetch_python())
        except NotBuilt as error:
            print(f"== CPython {version}: {error}")
    return None


def full_version(program: str) -> str:
    """As ``3.11.7``; empty if it does not start."""
    done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    return done.stdout.partition(" ")[2].strip()


def run_pythons(jobs: int) -> list[Python]:
    """Run ``make test-python`` with each that is here."""
    rows: list[Python] = []
    for version in VERSIONS:
        program = find(version)
        if program is None:
            print(f"== no CPython {version} here")
            continue
        full = full_version(program)
        print(f"== CPython {full}", flush=True)
        order = ["make", "test-python", f"PYTHON={program}", f"JOBS={jobs}"]
        done = subprocess.run(order, cwd=ROOT, capture_output=True, text=True, check=False)
        print(done.stdout[-2000:], done.stderr[-2000:], flush=True)
        counts = {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout[-300:])}
        failed = counts.get("failed", 0) + counts.get("error", 0) or int(done.returncode != 0)
        today = datetime.now(timezone.utc).date().isoformat()
        rows.append({"version": full, "date": today, "passed": counts.get("passed", 0), "failed": failed})
    return rows
