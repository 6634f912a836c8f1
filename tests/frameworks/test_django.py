"""Django over ASGI: sync and async views over one lock, and sync locks through ``sync_to_async`` and its kin."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator

import pytest

from tests.frameworks.common import Site, Surroundings, require
from tests.servers import VALKEY, SharedServers
from tests.volumes import Volume
from tests.waiting import until

#: Each runs its calls in copies of the caller's context. A bare ``run_in_executor`` does not: there, jobs that share a
#: thread cannot be told apart.
WAYS = ["sensitive", "insensitive", "to_thread", "anyio"]


class Program:
    """A running uvicorn with a Django project."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.site: Site = surroundings.site(
            *("-m", "uvicorn", "--host", "127.0.0.1", "--port", "{port}", "--no-access-log", "--lifespan", "off"),
            "tests.frameworks.apps.django_site:app",
        )

    def free(self) -> None:
        """Wait until nothing is held: what calls have left is not renewed, once their contexts are gone."""

        def nothing_held() -> bool:
            self.site.get("/collect")
            return not self.surroundings.keys()

        until(nothing_held, 10, what="no lock is held")


@pytest.fixture(scope="module")
def program(shared_servers: SharedServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """One program for all tests of this file. At its end it leaves nothing."""
    require("uvicorn", "django", "asgiref", "anyio")
    folder = tmp_path_factory.mktemp("django")
    surroundings = Surroundings(shared_servers.get(VALKEY), f"test-{folder.name}", folder)
    try:
        program = Program(surroundings)
        yield program
        # uvicorn shuts down in order, then hands the signal on to itself.
        assert program.site.stop() in (0, -signal.SIGTERM)
        assert "overlap" not in surroundings.notes()
        surroundings.check_nothing_left()
    finally:
        surroundings.close()


@pytest.mark.volume
def test_views_of_all_kinds_exclude_each_other(program: Program, volume: Volume) -> None:
    paths = ["/view/sync", "/view/async", "/view/async-over-sync"] * volume(8, full=100)
    replies = program.site.get_all(paths, at_once=8)
    assert [each for each in replies if each.status != 200] == []
    program.surroundings.check_exclusion()
    program.free()


def test_a_coroutine_under_async_to_sync_is_an_owner(program: Program) -> None:
    replies = program.site.get_all(["/view/sync-over-async", "/view/async"] * 6, at_once=4)
    assert [each for each in replies if each.status != 200] == []
    program.surroundings.check_exclusion()
    program.free()


@pytest.mark.parametrize("warm", ["", "?warm"], ids=["", "after a use in the parent"])
@pytest.mark.parametrize("way", WAYS)
def test_tasks_that_lock_and_unlock_call_by_call_are_never_inside_at_once(
    program: Program, way: str, warm: str
) -> None:
    reply = program.site.get(f"/gathered/calls/{way}{warm}{'&' if warm else '?'}tasks=3")
    program.surroundings.check_exclusion()
    assert reply.status == 200, reply
    for outcome in reply.json:  # Who is refused is told what to use instead.
        assert outcome in ("released", "not acquired") or ("hold()" in outcome and "owner=" in outcome), outcome
    if way == "sensitive":  # asgiref brings the changes of the context back: there the two calls belong together.
        assert reply.json == ["released"] * 3
    program.free()


@pytest.mark.parametrize(
    ("way", "form"),
    [*itertools.product(WAYS, ["stack", "owner", "whole"]), ("executor", "owner"), ("executor", "whole")],
)
def test_tasks_exclude_each_other_in_the_ways_that_are_meant(program: Program, way: str, form: str) -> None:
    reply = program.site.get(f"/gathered/{form}/{way}")
    assert reply.status == 200, reply
    assert reply.json == ["released"] * 6
    program.surroundings.check_exclusion()
    program.free()


@pytest.mark.parametrize("way", ["to_thread", "anyio"])  # asgiref hands marks on to the tasks that a holder starts.
def test_child_tasks_do_not_join_what_their_parent_holds(program: Program, way: str) -> None:
    reply = program.site.get(f"/within/{way}")
    assert reply.status == 200, reply
    assert reply.json == [False] * 3
    program.free()


@pytest.mark.parametrize("form", ["lock", "stack", "owner"])
def test_released_on_another_thread_than_it_was_acquired_on(program: Program, form: str) -> None:
    reply = program.site.get(f"/another/{form}")
    assert reply.status == 200, reply
    if form == "lock":
        assert "'one_0'" in reply.json
        assert "hold()" in reply.json
        assert "owner=" in reply.json
    else:
        assert reply.json == "released"
    program.free()
