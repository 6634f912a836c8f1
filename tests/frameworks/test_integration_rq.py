"""``pyredisson.integrations.rq`` in real workers, which fork for each job."""

from __future__ import annotations

from tests.frameworks.common import Surroundings, require
from tests.waiting import until

APP = "tests.frameworks.apps.integration_rq"


def test_jobs_with_the_same_key_run_one_at_a_time_and_others_meanwhile(surroundings: Surroundings) -> None:
    require("rq")
    import redis
    from rq import Queue, Worker

    database = surroundings.server.url.rsplit("/", 1)[0] + "/10"
    name = f"{surroundings.name}-queue"
    with redis.Redis.from_url(database) as connection:
        options = ("-u", database, "--with-scheduler", "--path", ".", name)
        workers = [surroundings.program("-c", "from rq.cli import main; main()", "worker", *options) for _ in range(2)]
        until(lambda: Worker.count(connection) == 2, 30, what="both workers are ready")
        queue = Queue(name, connection=connection)
        counts = [queue.enqueue(f"{APP}.count_after", "tea", "milk")]
        until(lambda: "in" in surroundings.notes(), 30, what="the first job runs")
        counts += [queue.enqueue(f"{APP}.count", item) for item in ("tea", "tea", "milk")]
        until(lambda: "in" in surroundings.notes(), 30, what="the first job runs")
        cleans = [queue.enqueue(f"{APP}.clean", 3.0) for _ in range(2)]
        until(lambda: all(job.is_finished for job in [*counts, *cleans]), 60, what="all jobs have finished")
        assert sorted(str(job.return_value()) for job in cleans) == ["None", "cleaned"]
        for worker in workers:
            assert worker.stop() == 0, worker.output()
        connection.flushdb()
    surroundings.check_exclusion(4)
    counted = [each for each in surroundings.notes() if each.startswith("counted")]
    assert counted.index("counted milk") == 0
    surroundings.check_nothing_left()
