"""``pyredisson.integrations.rq`` in real workers, which fork for each job."""

from pyredisson import Redisson
from tests.frameworks.common import require
from tests.waiting import until

APP = "tests.frameworks.apps.integration_rq"


def test_the_page_runs_as_printed(open_page):
    page = open_page("rq")
    workers = [page.start("rq worker", ready="Listening on default") for _ in range(2)]
    page.run("python app.py")

    log = page.folder / "counts.log"
    until(lambda: log.exists() and log.read_text().count("has counted") == 3, 60, what="all were counted")
    page.run("cat")
    assert sum(worker.output().count("cleans") for worker in workers) == 1
    page.check_all_entered()


def test_jobs_with_the_same_key_run_one_at_a_time_and_others_meanwhile(surroundings):
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


def test_waiting_counts_as_none_of_the_retries_that_a_job_returns(surroundings):
    require("rq")
    import redis
    from rq import Queue

    database, name = surroundings.server.url.rsplit("/", 1)[0] + "/10", f"{surroundings.name}-queue"
    with redis.Redis.from_url(database) as connection, Redisson.from_url(surroundings.url) as client:
        with client.get_lock(f"{surroundings.name}:thrice").hold():
            job = Queue(name, connection=connection).enqueue(f"{APP}.succeed_at_the_third_run")
            options = ("-u", database, "--with-scheduler", "--path", ".", name)
            worker = surroundings.program("-c", "from rq.cli import main; main()", "worker", *options)
            until(lambda: len(job.results()) >= 3, 40, what="it has waited three times")
            assert surroundings.notes() == []
        until(lambda: job.get_status() in ("finished", "failed"), 40, what="it has ended")
        assert (job.return_value(), surroundings.notes()) == ("done", ["run"] * 3)
        assert worker.stop() == 0, worker.output()
        connection.flushdb()
