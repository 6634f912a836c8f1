"""Django over ASGI: sync locks through ``sync_to_async`` and its kin."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Iterator

import pytest

from tests.frameworks.common import Site, Surroundings, require
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
def program(module_surroundings: Surroundings) -> Iterator[Program]:
    """One program for all tests of this file. At its end it leaves nothing."""
    require("uvicorn", "django", "asgiref", "anyio")
    program = Program(module_surroundings)
    yield program
    # uvicorn shuts down in order, then hands the signal on to itself.
    assert program.site.stop() in (0, -signal.SIGTERM)


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
