"""``pyredisson.integrations.celery`` in real workers and beats."""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections.abc import Iterator

import pytest

from pyredisson import Redisson
from tests.frameworks.common import Program, Surroundings, require
from tests.servers import VALKEY, Server, SharedServers
from tests.waiting import until

APP = "tests.frameworks.apps.integration_celery"
WITHIN = 40.0
DATABASE = 11


class Workers:
    """A queue, with workers and beats of its own."""

    def __init__(self, surroundings: Surroundings, broker: str) -> None:
        self.surroundings = surroundings
        self._environment = {"PYREDISSON_TEST_BROKER": broker}
        self.started: list[Program] = []

    def start(self, *options: str, ready: str) -> Program:
        program = self.surroundings.program("-m", "celery", "-A", APP, *options, environment=self._environment)
        self.started.append(program)
        until(lambda: ready in program.output() or not program.running(), WITHIN, what=f"{ready!r} is logged")
        assert program.running(), program.output()
        return program

    def worker(self, *options: str, name: str = "one") -> Program:
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "INFO")
        return self.start("worker", *quiet, "-n", f"{name}@%h", *options, ready=" ready.")

    def beat(self) -> Program:
        return self.start("beat", "-S", f"{APP}:Beat", "--loglevel", "INFO", "--pidfile=", ready="beat: Starting")

    def begin(self, calls: str) -> Program:
        """Start a program that calls tasks."""
        return self.surroundings.program("-c", f"from {APP} import *\n{calls}", environment=self._environment)

    def send(self, calls: str) -> None:
        """Send tasks by a program of their own."""
        done = self.begin(calls)
        assert done.wait(WITHIN) == 0, done.output()

    def noted(self, beginning: str) -> list[str]:
        return [each for each in self.surroundings.notes() if each.startswith(beginning)]

    def until_noted(self, beginning: str, times: int = 1) -> list[str]:
        """Wait until tasks have noted something that often."""
        return until(
            lambda: (found := self.noted(beginning))[times - 1 :] and found, WITHIN, what=f"{beginning} × {times}"
        )

    def stop(self) -> None:
        for program in self.started:
            if program.running():
                assert program.stop() == 0, program.output()


@pytest.fixture
def workers(surroundings: Surroundings, shared_servers: SharedServers) -> Iterator[Workers]:
    require("celery")
    # A broker of its own: tests may pause the other server, and Celery times its limits between requests.
    broker = shared_servers.get(VALKEY, 1)
    workers = Workers(surroundings, f"{broker.url.rsplit('/', 1)[0]}/{DATABASE}")
    try:
        yield workers
        workers.stop()
        assert "overlap" not in surroundings.notes()
    finally:
        with broker.client(db=DATABASE) as client:
            client.flushdb()


POOLS = {
    "prefork": ("--pool", "prefork", "-c", "3"),
    "threads": ("--pool", "threads", "-c", "3"),
    "gevent": ("--pool", "gevent", "-c", "3"),
}


@pytest.mark.parametrize("pool", POOLS)
def test_tasks_with_the_same_key_run_one_at_a_time(workers, pool):
    require(*(["gevent"] if pool == "gevent" else []))
    workers.worker(*POOLS[pool])
    workers.send("for _ in range(8): count.delay('tea'); count.delay(item='milk')")
    workers.until_noted("counted", 16)
    workers.stop()
    assert workers.surroundings.notes().count("in") == 16
    workers.surroundings.check_nothing_left()


def test_a_call_that_waits_does_not_occupy_the_worker(workers):
    workers.worker("--pool", "threads", "-c", "2")
    tea = f"{workers.surroundings.name}:stock:tea"
    with Redisson.from_url(workers.surroundings.url) as client, client.get_lock(tea).hold():
        workers.send("for _ in range(6): count.delay('tea')\ncount.delay('milk')")
        workers.until_noted("counted")
        assert workers.noted("counted") == ["counted milk"]
    workers.until_noted("counted", 7)


def test_a_busy_call_is_skipped_and_of_waiting_calls_the_newest_runs(workers):
    worker = workers.worker("--pool", "threads", "-c", "4")
    workers.send("for _ in range(3): clean.delay(2.0)")
    until(lambda: worker.output().count("pyredisson: task") >= 2, WITHIN, what="two calls were skipped")
    workers.until_noted("cleaned")
    workers.send(
        "import time\nindex.delay('tea', 0)\ntime.sleep(0.7)\nfor version in range(1, 6): index.delay('tea', version)"
    )
    workers.until_noted("indexing tea 5")
    until(lambda: worker.output().count("was replaced by a later call") >= 4, WITHIN, what="four were replaced")
    assert workers.noted("indexing") == ["indexing tea 0", "indexing tea 5"]
    assert len(workers.noted("cleaned")) == 1


def test_a_call_by_the_task_itself_and_an_eager_one_wait_in_their_caller(workers):
    workers.worker("--pool", "threads", "-c", "1")
    name = f"{workers.surroundings.name}:nested:milk"
    with Redisson.from_url(workers.surroundings.url) as client:
        with client.get_lock(name).hold():
            workers.send("nested.delay('tea', 'milk')")
            workers.until_noted("nested tea")
            eager = workers.begin("nested.apply(['milk']).get()")
            until(lambda: (view := client.inspect(name)) and view.waiting_clients == 2, WITHIN, what="both wait")
        workers.until_noted("nested milk", 2)
    assert eager.wait(WITHIN) == 0, eager.output()
    assert workers.noted("nested tea") == ["nested tea"]


def test_a_message_of_a_worker_that_died_runs_after_the_lease(workers):
    """It is delivered again while the lock of its own first worker is still held: it is neither skipped nor blocked."""
    workers.worker("--pool", "prefork", "-c", "1")
    workers.send("clean.delay(2.0)")
    [begun] = workers.until_noted("cleaning")
    os.kill(int(begun.split()[1]), signal.SIGKILL)
    workers.until_noted("cleaned")
    assert len(workers.noted("cleaning")) == 2


@pytest.mark.parametrize("limit", ["time_limit", "soft_time_limit"])
def test_a_time_limit_frees_the_lock_within_its_lease(workers, limit):
    """A hard limit ends the process by SIGTERM first: its ``finally`` blocks run. A soft one is an exception."""
    workers.worker("--pool", "prefork", "-c", "1")
    workers.send(f"count.apply_async(('tea', 60.0), {limit}=1)")
    until(lambda: workers.surroundings.notes(), WITHIN, what="it runs")
    workers.send("count.delay('tea')")
    workers.until_noted("counted")
    workers.stop()
    workers.surroundings.check_nothing_left()


def test_of_two_beats_one_sends_each_tick_and_the_other_takes_over(workers):
    workers.worker("--pool", "threads", "-c", "2")
    beats = [workers.beat(), workers.beat()]
    workers.until_noted("tick", 4)
    leader = next(each for each in beats if "Sending due task" in each.output())
    other = next(each for each in beats if each is not leader)
    assert "Sending due task" not in other.output()
    assert leader.stop() == 0, leader.output()
    until(lambda: "Sending due task" in other.output(), WITHIN, what="the other one sends")
    workers.until_noted("tick", 8)
    third = workers.beat()
    other.kill()
    until(lambda: "Sending due task" in third.output(), WITHIN, what="the third one sends")
    workers.until_noted("tick", 12)
    times = [float(each.split()[1]) for each in workers.noted("tick")]
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) > 0.5
    assert sum(each.output().count("Sending due task") for each in (leader, other, third)) - len(times) in (0, 1)
    workers.started.remove(other)


def silence(_broker: Server, server: Server, beat: Program) -> None:
    server.pause()
    until(lambda: "beat postpones" in beat.output() or not beat.running(), WITHIN, what="a tick is postponed")
    server.resume()


def end(_broker: Server, server: Server, beat: Program) -> None:
    server.kill()
    until(lambda: "beat postpones" in beat.output() or not beat.running(), WITHIN, what="a tick is postponed")
    server.restart()


def refuse_writes(_broker: Server, server: Server, beat: Program) -> None:
    server.config_set("min-replicas-to-write", 1)
    until(lambda: "beat postpones" in beat.output() or not beat.running(), WITHIN, what="a tick is postponed")
    server.config_set("min-replicas-to-write", 0)


def forget_the_mark_while_the_broker_is_slow(broker: Server, server: Server, _beat: Program) -> None:
    broker.pause()
    time.sleep(2.0)  # A tick is due each second, and is being sent now.
    with server.client() as client:
        client.flushall()
    broker.resume()


@pytest.mark.parametrize("trouble", [silence, end, refuse_writes, forget_the_mark_while_the_broker_is_slow])
def test_a_beat_goes_on_whatever_becomes_of_its_locks(own_surroundings, fresh_server, trouble):
    require("celery")
    broker = fresh_server()
    beat = Workers(own_surroundings, broker.url).beat()
    until(lambda: beat.output().count("Sending due task") >= 2, WITHIN, what="it sends")
    trouble(broker, own_surroundings.server, beat)
    sent = beat.output().count("Sending due task")
    until(lambda: beat.output().count("Sending due task") >= sent + 2 or not beat.running(), WITHIN, what="it goes on")
    assert beat.running(), beat.output()
    assert "Traceback" not in beat.output()
    assert beat.stop() == 0, beat.output()


def test_a_retry_that_finds_the_lock_held_is_skipped_as_a_success(workers):
    worker = workers.worker("--pool", "threads", "-c", "2")
    workers.send("again.delay()")
    workers.until_noted("again 0")
    with Redisson.from_url(workers.surroundings.url) as client, client.get_lock(f"{workers.surroundings.name}:again"):
        until(lambda: " succeeded in " in worker.output(), WITHIN, what="the retry was skipped")
    assert workers.noted("again") == ["again 0"]


@pytest.mark.parametrize(
    ("number", "completed"), [(signal.SIGTERM, True), (signal.SIGQUIT, False)], ids=["warm", "cold"]
)
def test_a_worker_that_shuts_down_releases_its_lock(workers, number, completed):
    worker = workers.worker(*POOLS["prefork"])
    workers.send("clean.delay(2)")
    workers.until_noted("cleaning")
    worker.stop(number)
    assert workers.surroundings.keys() == []
    assert bool(workers.noted("cleaned")) is completed


def said(program: Program, text: str) -> list[str]:
    """What tasks have printed, in a worker's log: of one item, or of one task."""
    return [line.partition("] ")[2] for line in program.output().splitlines() if text in line and "WARNING/" in line]


def test_the_page_runs_as_printed(open_page):
    page = open_page("celery")
    worker = page.start("celery -A tasks worker", ready=" ready.")
    beats = [page.start("celery -A tasks beat", ready="beat: Starting") for _ in range(2)]
    page.run("python app.py")
    until(lambda: len(said(worker, "has counted tea")) == 3, WITHIN, what="all were counted")
    assert said(worker, "count") == ["begins to count tea", "has counted tea"] * 3
    until(lambda: said(worker, "indexes tea, version 4"), WITHIN, what="the last one was indexed")
    assert len(said(worker, "indexes")) <= 2
    assert said(worker, "cleans") == ["cleans"]
    until(lambda: said(worker, "ticks"), WITHIN, what="it ticks")
    beats.sort(key=lambda beat: "Sending due task tick" in beat.output())
    assert "Sending" not in beats[0].output()
    assert beats[1].stop() == 0
    until(lambda: "Sending due task tick" in beats[0].output(), WITHIN, what="the other one sends")
    page.check_all_entered()
