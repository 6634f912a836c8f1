"""Streams of gunicorn whose clients go away, and generators that views give up: the lock is released at once."""

from __future__ import annotations

import pytest

from tests.frameworks.common import Surroundings, require
from tests.frameworks.streams import begin_to_read
from tests.volumes import Volume
from tests.waiting import until

#: Well under the lease of 30 s: it was released, and did not just run out.
SOON = 10.0


@pytest.mark.volume
@pytest.mark.parametrize("worker", [["-k", "sync"], ["-k", "gthread", "--threads", "4"]], ids=["sync", "gthread"])
def test_a_lock_of_a_response_given_up_is_released(
    surroundings: Surroundings, worker: list[str], volume: Volume
) -> None:
    require("gunicorn")
    site = surroundings.site(
        *("-m", "gunicorn", "-b", "{address}", "-w", "2", *worker, "tests.frameworks.apps.wsgi_streams:app")
    )
    for number in range(volume(4, full=100)):
        form = "with" if number % 4 < 2 else "hold"
        begin_to_read(site, f"/stream/{form}").go_away(reset=number % 2 == 0)
    until(lambda: not surroundings.keys(), SOON, what="the lock is released")
    replies = site.get_all(["/give-up"] * 12, at_once=4)
    assert [reply.status for reply in replies] == [200] * 12
    assert {reply.json["count"] for reply in replies} == {0}
    assert surroundings.keys() == []
    surroundings.check_exclusion()
    # For each worker: as many as its threads can use at once, and those of its watchdog and its subscriber.
    assert len(surroundings.connections()) <= 2 * 7
    assert site.stop() == 0
    surroundings.check_nothing_left()
