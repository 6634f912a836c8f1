"""RQ's SimpleWorker: jobs whose time is up hold nothing, and nobody queues for them."""

from __future__ import annotations

from tests.frameworks.common import Surroundings, require


def test_jobs_whose_time_is_up_leave_nothing(surroundings: Surroundings) -> None:
    require("rq")
    database = surroundings.server.url.rsplit("/", 1)[0] + "/10"
    program = surroundings.program("-c", f"from tests.frameworks.apps.jobs import main; main({database!r})")
    assert program.wait(40) == 0, program.output()
    surroundings.check_exclusion(20)
    surroundings.check_nothing_left()
    with surroundings.server.client(db=10) as client:
        client.flushdb()
