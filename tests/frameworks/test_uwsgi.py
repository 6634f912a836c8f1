"""uWSGI, which forks its workers without telling Python, and by default lets no thread run between two requests."""

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
    replies = site.get_all(["/enter?hold=0.02"] * 60, at_once=12)
    assert [reply.text for reply in replies if reply.status != 200] == []
    clients = {reply.json["pid"]: reply.json["client"] for reply in replies}
    assert len(clients) == len(set(clients.values())) == 3, "each worker is another client"
    site.stop()
    surroundings.check_exclusion(60)
    surroundings.check_nothing_left()
