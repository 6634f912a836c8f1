"""Which of the servers a test runs on, below the full volume.

Many tests are the same for each server. All of them run on Valkey, the embedded default; of the others (Redis 6.2,
Redis 7.0, fakeredis) each test has one, drawn by its name. So each server sees each kind of test, and the run takes
half the time; ``make test-full`` runs every test on every server.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from tests.servers import BUILDS, VALKEY

SERVERS = [*(build.id for build in BUILDS), "fakeredis"]


def drawn(items: list[pytest.Item]) -> list[pytest.Item]:
    """The tests that run: those on Valkey, on the server drawn for them, or on the only one there is for them."""
    servers: dict[str, list[str]] = {}
    for item in items:
        base, server = _without_server(item)
        if server is not None:
            servers.setdefault(base, []).append(server)
    return [item for item in items if _is_drawn(*_without_server(item), servers)]


def _is_drawn(base: str, server: str | None, servers: dict[str, list[str]]) -> bool:
    if server is None or server == VALKEY.id:
        return True
    others = sorted(each for each in servers[base] if each != VALKEY.id)
    return server == others[zlib.crc32(base.encode()) % len(others)]


def _without_server(item: pytest.Item) -> tuple[str, str | None]:
    """The name of a test without that of its server, and that server, if it is one of several."""
    callspec = getattr(item, "callspec", None)
    ids = callspec.id.split("-") if callspec is not None else []
    for server in SERVERS:
        words = server.split("-")
        if any(ids[at : at + len(words)] == words for at in range(len(ids))):
            return item.nodeid.replace(server, "…"), server
    return item.nodeid, None


# ---- the two parts of a run ------------------------------------------------------------------------------------------

#: What `make test` runs whole: it needs no time but the processor's.
WHOLE = {"unit", "lua", "simulation", "stateful", "test_parity.py"}
FORMS = ["threads", "asyncio"]


def may_have_tests(path: Path, part: str) -> bool:
    """Whether a file may have tests of a part: to collect all of them takes each worker a quarter of a minute."""
    folder = path.relative_to(Path(__file__).parent).parts[0]
    if part == "rest":
        return folder not in WHOLE
    return part == "all" or folder in {*WHOLE, "contract"} or "mark.quick" in path.read_text(encoding="utf-8")


def quick(items: list[pytest.Item]) -> set[pytest.Item]:
    """The tests of ``make test``; all others are those of ``make test-all``.

    The contract is run on the simulator, and on Valkey in one form for each test, drawn by its name. Of the tests that
    start servers and processes of their own, those are run that are marked ``quick``.
    """
    chosen: set[pytest.Item] = set()
    forms: dict[str, dict[str, pytest.Item]] = {}
    for item in items:
        folder = item.nodeid.split("/")[1].split("::")[0]
        if folder in WHOLE or item.get_closest_marker("quick"):
            chosen.add(item)
        elif folder == "contract":
            base, server = _without_server(item)
            form = _form(item)
            if form is None:
                chosen.add(item)
            elif server == VALKEY.id:
                forms.setdefault(base.replace(form, "…"), {})[form] = item
    for base, each in forms.items():
        names = sorted(each)
        chosen.add(each[names[zlib.crc32(base.encode()) % len(names)]])
    return chosen


def _form(item: pytest.Item) -> str | None:
    callspec = getattr(item, "callspec", None)
    return next((form for form in FORMS if callspec is not None and form in callspec.id.split("-")), None)
