"""The two parts of the tests: what ``make test`` runs, and what it leaves to ``make test-all``.

``make test`` runs what a computer alone can tell in minutes:

* all tests of the folders in :data:`WHOLE`, but for those that are marked ``planted``,
* those of :mod:`tests.promises` in both forms, in the simulator and on Valkey, the embedded default,
* those that are marked ``quick`` of the tests that start servers and processes of their own.

``make test-all`` runs all others, so the promises on each other server, too.
"""

from pathlib import Path

import pytest

from tests.servers import BUILDS, DEFAULT

#: What needs no time but the processor's.
WHOLE = {"unit", "scripts", "simulated", "stateful", "programs", "test_parity.py"}

OTHER_SERVERS = [*(build.id for build in BUILDS if build is not DEFAULT), "fakeredis"]


def may_have_tests(path: Path, part: str) -> bool:
    """Whether a file may have tests of a part: to collect all of them takes each worker a quarter of a minute."""
    folder = path.relative_to(Path(__file__).parent).parts[0]
    if part == "rest":
        return folder not in WHOLE or "mark.planted" in path.read_text(encoding="utf-8")
    return part == "all" or folder in {*WHOLE, "promises"} or "mark.quick" in path.read_text(encoding="utf-8")


def is_quick(item: pytest.Item) -> bool:
    """Whether a test is one of ``make test``."""
    folder = item.nodeid.split("/")[1].split("::")[0]
    if folder == "promises":
        callspec = getattr(item, "callspec", None)
        return callspec is None or not any(server in callspec.id for server in OTHER_SERVERS)
    if folder in WHOLE:
        return item.get_closest_marker("planted") is None
    return item.get_closest_marker("quick") is not None
