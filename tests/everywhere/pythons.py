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
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"))
    found = shutil.which(f"python{version}") or (str(kept[-1]) if kept else None)
    if found is None and version == "3.14":
        try:
            return str(fetch_python())
        except NotBuilt as error:
            print(f"== CPython {version}: {error}")
    return found


def run_pythons() -> list[Python]:
    """Run ``make test-python`` with each that is here."""
    rows: list[Python] = []
    for version in VERSIONS:
        program = find(version)
        if program is None:
            print(f"== no CPython {version} here")
            continue
        full = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
        print(f"== CPython {full}", flush=True)
        order = ["make", "test-python", f"PYTHON={program}", "JOBS=2"]
        done = subprocess.run(order, cwd=ROOT, capture_output=True, text=True, check=False)
        print(done.stdout[-2000:], done.stderr[-2000:], flush=True)
        counts = {word: int(count) for count, word in re.findall(r"(\d+) (passed|failed|error)", done.stdout[-300:])}
        failed = counts.get("failed", 0) + counts.get("error", 0)
        rows.append(
            {
                "version": full,
                "date": datetime.now(timezone.utc).date().isoformat(),
                "passed": counts.get("passed", 0) if done.returncode == 0 else 0,
                "failed": failed,
            }
        )
    return rows
