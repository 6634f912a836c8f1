"""Which of the servers a test runs on, below the full volume.

Many tests are the same for each server. All of them run on Valkey, the embedded default; of the others (Redis 6.2,
Redis 7.0, fakeredis) each test has one, drawn by its name. So each server sees each kind of test, and the run takes
half the time; ``make test-full`` runs every test on every server.
"""

from __future__ import annotations

import zlib

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
