"""gunicorn's plain workers: the application's client is made before they are forked, or in each."""

from __future__ import annotations

import pytest

from tests.frameworks.common import Surroundings, require


@pytest.mark.parametrize(
    ("preload", "early"),
    [([], ""), (["--preload"], ""), (["--preload"], "1")],
    ids=["", "preload", "preload and used before the fork"],
)
@pytest.mark.parametrize(
    "worker",
    # Fewer connections for each than there are requests at once: no worker can serve them all.
    [["-k", "sync"], ["-k", "gthread", "--threads", "4", "--worker-connections", "5"]],
    ids=["sync", "gthread"],
)
def test_workers_exclude_each_other(
    surroundings: Surroundings, worker: list[str], preload: list[str], early: str
) -> None:
    require("gunicorn")
    site = surroundings.site(
        *("-m", "gunicorn", "-b", "{address}", "-w", "3", *worker, *preload, "tests.frameworks.apps.wsgi:app"),
        environment={"PYREDISSON_TEST_USE_EARLY": early},
    )
    replies = site.get_all_of_each(["/enter"] * 60, at_once=12, workers=2)
    assert {reply.status for reply in replies} == {200}
    clients = {reply.json["pid"]: reply.json["client"] for reply in replies}
    assert len(clients) == len(set(clients.values())) > 1
    assert site.stop() == 0
    surroundings.check_exclusion(len(replies))
    surroundings.check_nothing_left()
