"""uvicorn and FastAPI: endpoints and dependencies of both kinds over one lock, streams, clients that go away."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator

import pytest

from tests.frameworks.common import Site, Surroundings, require
from tests.waiting import until

PATHS = ["/async", "/sync", "/sync/nested", "/dependency/sync", "/dependency/async", "/async-dependency/async"]
#: Well under the lease of 30 s: it was released, and did not just run out.
SOON = 10.0


class Program:
    """A running uvicorn."""

    def __init__(self, surroundings: Surroundings, loop: str, workers: int) -> None:
        self.surroundings = surroundings
        self.workers = workers
        self.site: Site = surroundings.site(
            *("-m", "uvicorn", "--host", "127.0.0.1", "--port", "{port}", "--loop", loop),
            *("--workers", str(workers), "--no-access-log", "tests.frameworks.apps.fast:app"),
        )

    def keys(self, suffix: str = "") -> list[str]:
        """Those of the locks that are held."""
        return list(filter(lambda key: key.endswith(suffix), self.surroundings.keys()))


@pytest.fixture(scope="module", params=[("asyncio", 1), ("uvloop", 2)], ids=["asyncio", "uvloop with two workers"])
def program(request: pytest.FixtureRequest, module_surroundings: Surroundings) -> Iterator[Program]:
    """One program for all tests of this file. At its end it leaves nothing."""
    require("uvicorn", "fastapi", "uvloop")
    program = Program(module_surroundings, *request.param)
    yield program
    # uvicorn shuts down in order, then hands the signal on to itself.
    assert program.site.stop() in (0, -signal.SIGTERM)
    assert [each for each in module_surroundings.notes() if each.startswith("lost")] == []
    module_surroundings.check_nothing_left()


@pytest.mark.volume
def test_endpoints_and_dependencies_exclude_each_other(program, volume):
    paths = PATHS * volume(6, full=60)
    replies = program.site.get_all_of_each(paths, 12, program.workers)
    wrong = [(path, reply) for path, reply in zip(itertools.cycle(paths), replies, strict=False) if reply.status != 200]
    assert wrong == []
    program.surroundings.check_exclusion()
    until(lambda: not program.keys(), SOON, what="nothing is held")


@pytest.mark.parametrize("path", ["/stream/async/with", "/stream/async/hold"])
def test_a_stream_whose_reader_goes_away_releases_its_lock(program, path):
    for reset in (True, False):
        stream = program.site.begin(path, until_sent=b"row 0")
        assert program.keys("-stream") != []
        stream.close(reset=reset)
        until(lambda: not program.keys("-stream"), SOON, what="the lock is released")
    program.surroundings.check_exclusion()


def test_a_sync_stream_whose_reader_goes_away_releases_its_lock_when_it_is_collected(program):
    """Starlette closes no sync generator: it leaves it in a cycle to the garbage collector."""

    def released() -> bool:
        program.site.get("/collect")
        return not program.keys("-stream")

    for reset in (True, False):
        program.site.begin("/stream/sync", until_sent=b"row 0").close(reset=reset)
        until(released, SOON, what="the lock is released")
    program.surroundings.check_exclusion()
