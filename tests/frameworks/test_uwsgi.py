"""uWSGI, which forks its workers without telling Python."""

from __future__ import annotations

import pytest

from tests.frameworks.common import Site, Surroundings, require

APP = "tests.frameworks.apps.wsgi:app"


def serve(surroundings: Surroundings, *more: str, **environment: str) -> Site:
    require("pyuwsgi")
    return surroundings.site(
        *("-c", "import pyuwsgi, sys; pyuwsgi.run(sys.argv[1:])"),
        *("--http-socket", "{address}", "--master", "--die-on-term", "--module", APP, *more),
        environment=environment,
    )


@pytest.mark.parametrize("early", [False, True], ids=["", "used-before-the-fork"])
@pytest.mark.parametrize("how", ["", "--enable-threads", "--enable-threads --lazy-apps"])
def test_workers_exclude_each_other(surroundings: Surroundings, how: str, early: bool) -> None:
    site = serve(
        surroundings, "--processes", "3", *how.split(), **({"PYREDISSON_TEST_USE_EARLY": "1"} if early else {})
    )
    replies = site.get_all_of_each(["/enter?hold=0.02"] * 60, at_once=12, workers=3)
    assert [reply.text for reply in replies if reply.status != 200] == []
    clients = {reply.json["pid"]: reply.json["client"] for reply in replies}
    assert len(clients) == len(set(clients.values())) == 3, "each worker is another client"
    site.stop()
    surroundings.check_exclusion(len(replies))
    surroundings.check_nothing_left()


@pytest.mark.parametrize("how", ["", "--enable-threads"])
def test_a_lock_is_renewed_while_a_request_holds_it(surroundings: Surroundings, how: str) -> None:
    site = serve(
        surroundings,
        *("--processes", "2", *how.split()),
        PYREDISSON_TEST_USE_EARLY="1",
        PYREDISSON_TEST_WATCHDOG_TIMEOUT="1.8",
    )
    kept = site.get("/keep?hold=3")
    assert kept.status == 200, kept
    assert not kept.json["lost"]
    site.stop()
    assert surroundings.notes() == []
    surroundings.check_nothing_left()


def test_a_lock_is_renewed_between_two_requests(surroundings: Surroundings) -> None:
    """One begins to hold it, another one of the same thread ends that."""
    site = serve(surroundings, "--enable-threads", PYREDISSON_TEST_WATCHDOG_TIMEOUT="1.8")
    assert site.get("/begin").status == 200
    for _ in range(2):
        surroundings.wait_for_renewal(surroundings.name)
    assert site.get("/end").json == {"outcome": "released"}
    site.stop()
    assert "WARNING pyredisson" not in site.output()
    surroundings.check_nothing_left()
