"""Run the tests on one server after the other: ``python -m tests.everywhere [--quick] [ID...]``.

``--quick`` is the part for each change: the contract on the servers that no other part of the tests runs on. Without
it, clusters, sentinels, what stands in for a server and the versions of Python are tested too, and what was found is
written to ``docs/_generated/servers.json``, and from there into the tables of the documentation.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from datetime import datetime, timezone
from pathlib import Path
from xml.etree import ElementTree

from tests.everywhere import table
from tests.everywhere.install import fetch
from tests.everywhere.pythons import run_pythons
from tests.servers import KNOWN, REDIS_6, REDIS_7, VALKEY, Build

ROOT = Path(__file__).parents[2]
CONTRACT = ("tests/promises", "tests/scripts", "tests/everywhere")
#: Of Debian's unstable release.
UNPINNED = ("redis-8.0", "redict-7.3")
#: The newest of each make, for what needs several servers.
NEWEST = ("valkey-9.1", "redis-8.2", "redict-7.3")
SEVERAL = {"cluster": "tests/real_servers/test_cluster.py", "sentinels": "tests/real_servers/test_sentinel.py"}


def run(servers: str, jobs: int, *arguments: str) -> list[ElementTree.Element]:
    """Run tests, of which those that no server influences are on the first, and return what was reported of each."""
    environment = {**os.environ, "PYREDISSON_SERVERS": servers, "PYREDISSON_REQUIRE_ALL": "1"}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        options = ("-q", "-n", str(jobs), "--dist", "worksteal", f"--junitxml={report}", *arguments)
        done = subprocess.run([sys.executable, "-m", "pytest", *options], cwd=ROOT, env=environment, check=False)
        if done.returncode > 1:  # It was interrupted, could not begin, or found no test.
            sys.exit(f"pytest ended with {done.returncode}")
        return list(ElementTree.parse(report).iter("testcase"))


def counted(cases: list[ElementTree.Element]) -> table.Part:
    """Count what passed, and name what failed."""
    failed = {
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if case.find("failure") is not None or case.find("error") is not None
    }
    skipped = sum(case.find("skipped") is not None for case in cases)
    return {"passed": len(cases) - skipped - len(failed), "failed": sorted(failed)}


def tested(build: Build, jobs: int) -> table.Row:
    """Run all that a server influences."""
    print(f"== {build.id}", flush=True)
    other = REDIS_7 if build is VALKEY else VALKEY
    # On an imitation much may wait for what never comes.
    what = [*CONTRACT[:1], "--timeout=40"] if build.imitation else CONTRACT
    cases = run(f"{other.id} {build.id}", jobs, *what, "-k", build.id)
    of = {
        "threads": [case for case in cases if f"threads-{build.id}" in str(case.get("name"))],
        "asyncio": [case for case in cases if f"asyncio-{build.id}" in str(case.get("name"))],
        "scripts": [case for case in cases if str(case.get("classname")).startswith("tests.scripts")],
        "differences": [case for case in cases if str(case.get("classname")).startswith("tests.everywhere")],
    }
    if build.id in NEWEST:
        of |= {name: run(build.id, jobs, path) for name, path in SEVERAL.items()}
    version = subprocess.run([build.require(), "--version"], capture_output=True, text=True, check=True).stdout
    return {
        "id": build.id,
        "version": version.partition("v=")[2].split()[0],
        "date": datetime.now(timezone.utc).date().isoformat(),
        "imitation": build.imitation,
        "parts": {name: counted(found) for name, found in of.items() if found},
    }


def available(ids: list[str], *, quick: bool) -> tuple[list[Build], bool]:
    """Fetch these servers. Returns those that are here, and whether all are that have to be."""
    reasons = fetch(ids)
    asked = [build for build in KNOWN if build.id in ids]
    reasons |= {build.id: reason for build in asked if (reason := build.missing()) and build.id not in reasons}
    for id, reason in reasons.items():
        print(f"== {id} is missing: {reason}", flush=True)
    # What is released there changes from day to day.
    may_be_missing = UNPINNED if quick else ()
    return [build for build in asked if build.id not in reasons], all(id in may_be_missing for id in reasons)


def run_quickly(builds: list[Build], jobs: int) -> list[str]:
    """Run the contract on these servers. Returns the tests that failed."""
    ids = [build.id for build in builds]
    return counted(run(" ".join([VALKEY.id, *ids]), jobs, *CONTRACT, "-k", " or ".join(ids)))["failed"]


def run_all(builds: list[Build], jobs: int, *, pythons: bool) -> list[str]:
    """Run all on these servers, and write what was found. Returns what failed on real ones."""
    rows = [tested(build, jobs) for build in builds]
    versions = run_pythons(jobs) if pythons else []
    table.merge(rows, versions)
    failed = [test for row in rows if not row["imitation"] for part in row["parts"].values() for test in part["failed"]]
    return failed + [f"CPython {each['version']}" for each in versions if each["failed"]]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.everywhere")
    parser.add_argument("--quick", action="store_true", help="the contract on the servers that no other test runs on")
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("ids", nargs="*", help="of servers, or `pythons` (all)")
    options = parser.parse_args()
    others = [build.id for build in KNOWN if build not in (VALKEY, REDIS_6, REDIS_7) and not build.imitation]
    ids = options.ids or (others if options.quick else [*(build.id for build in KNOWN), "pythons"])
    builds, complete = available(ids, quick=options.quick)
    if options.quick:
        failed = run_quickly(builds, options.jobs)
    else:
        failed = run_all(builds, options.jobs, pythons="pythons" in ids)
    print(*failed, sep="\n")
    return 1 if failed or not complete else 0


if __name__ == "__main__":
    sys.exit(main())
