"""Celery: prefork and threads, soft and hard time limits, warm and cold shutdown."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import pyredisson
from tests.frameworks.common import ROOT, Program, Surroundings, require
from tests.servers import VALKEY, Server, SharedServers
from tests.volumes import Volume
from tests.waiting import until

#: Well under the lease of 20 s: it was released, and did not just run out.
SOON = 10.0
START_WITHIN = 40.0

SEND = """
import json, sys
from tests.frameworks.apps.tasks import app
for line in sys.stdin:
    name, arguments, options = json.loads(line)
    app.send_task(f"tests.frameworks.apps.tasks.{name}", arguments, **options)
    print("sent", flush=True)
"""


class Queue:
    """A queue of tasks of its own."""

    def __init__(self, surroundings: Surroundings, broker: Server) -> None:
        self.surroundings = surroundings
        self._broker = broker
        self.environment = {
            "PYREDISSON_TEST_BROKER": broker.url.rsplit("/", 1)[0] + "/9",
            "PYREDISSON_TEST_USE_EARLY": "1",
        }
        self._sender = subprocess.Popen(
            [sys.executable, "-c", SEND],
            cwd=ROOT,
            env={**os.environ, **surroundings.environment, **self.environment, "PYREDISSON_TEST_USE_EARLY": ""},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def worker(self, *options: str) -> Program:
        """A running worker."""
        program = self.surroundings.program(
            *("-m", "celery", "-A", "tests.frameworks.apps.tasks", "worker", "--loglevel", "INFO"),
            *("--without-gossip", "--without-mingle", "--without-heartbeat", *options),
            environment=self.environment,
        )
        until(
            lambda: " ready." in program.output() or not program.running(),
            START_WITHIN,
            what="the worker is ready",
        )
        assert program.running(), program.output()
        return program

    def send(self, task: str, *arguments: Any, **options: Any) -> None:
        """Send a task."""
        assert self._sender.stdin is not None
        assert self._sender.stdout is not None
        self._sender.stdin.write(json.dumps([task, arguments, options]) + "\n")
        self._sender.stdin.flush()
        assert self._sender.stdout.readline() == "sent\n"

    def noted(self, note: str, times: int = 1, within: float = START_WITHIN) -> None:
        """Wait until tasks have noted something."""
        until(lambda: self.surroundings.notes().count(note) >= times, within, what=f"{note} was noted {times} times")

    def free(self, name: str) -> None:
        """Wait until a lock is free, soon."""
        until(lambda: not self.keys(name), SOON, what=f"the lock {name} is free")

    def keys(self, name: str) -> list[str]:
        return [key for key in self.surroundings.keys() if name in key]  # noqa: SIM118 - a method

    def close(self) -> None:
        assert self._sender.stdin is not None
        assert self._sender.stdout is not None
        self._sender.stdin.close()
        self._sender.stdout.close()
        self._sender.wait(10)
        with self._broker.client(db=9) as client:
            client.flushdb()


@pytest.fixture(scope="module")
def queue(shared_servers: SharedServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Queue]:
    """One queue for all tests of this file."""
    require("celery")
    folder = tmp_path_factory.mktemp("celery")
    surroundings = Surroundings(shared_servers.get(VALKEY), f"test-{folder.name}", folder)
    # A broker of its own: the other server is made to pause, and Celery times its limits between requests.
    queue = Queue(surroundings, shared_servers.get(VALKEY, 1))
    try:
        yield queue
        assert "overlap" not in surroundings.notes()
        assert [each for each in surroundings.notes() if each.startswith("lost")] == []
        surroundings.check_nothing_left()
    finally:
        queue.close()
        surroundings.close()


@pytest.fixture(scope="module")
def prefork(queue: Queue) -> Iterator[Program]:
    """Processes that were forked from one whose client was in use."""
    worker = queue.worker("--pool", "prefork", "--concurrency", "3", "-n", "prefork@%h")
    yield worker
    assert worker.stop() == 0, worker.output()


@pytest.mark.volume
def test_tasks_exclude_each_other(queue: Queue, prefork: Program, volume: Volume) -> None:
    """Forked processes, and the threads of another worker."""
    threads = queue.worker("--pool", "threads", "--concurrency", "4", "-n", "threads@%h")
    count = volume(40, full=600)
    for _ in range(count):
        queue.send("add")
    queue.noted("done", count)
    queue.surroundings.check_exclusion(count)
    queue.free("")
    assert threads.stop() == 0, threads.output()


@pytest.mark.parametrize("form", ["with", "hold"])
def test_a_soft_limit_in_a_block_releases_its_lock(queue: Queue, prefork: Program, form: str) -> None:
    name = f"-soft-{form}"
    queue.send("sleep", name, form, soft_time_limit=0.5)
    queue.noted(f"holding{name}")
    queue.free(name)


@pytest.mark.parametrize("kind", ["lock", "fair_lock"])
def test_a_soft_limit_on_a_waiter_leaves_no_waiter(queue: Queue, prefork: Program, kind: str) -> None:
    name = f"-waiting-{kind}"
    full_name = f"{queue.surroundings.name}{name}"
    with pyredisson.Redisson.from_url(queue.surroundings.server.url) as client:
        lock = getattr(client, f"get_{kind}")(full_name)
        with lock:
            queue.send("wait", name, kind, soft_time_limit=0.5)
            queue.noted(f"waiting{name}")
            queue.noted(f"interrupted{name}")
            until(lambda: queue.keys(name) == [full_name], SOON, what="nobody is queued")
        assert lock.try_lock(SOON) is True
        lock.unlock()
    queue.free(name)


@pytest.mark.parametrize("step", ["lock", "unlock"])
def test_a_soft_limit_within_a_call_leaves_nothing(queue: Queue, prefork: Program, step: str) -> None:
    """It is an ``Exception`` that a signal handler raises."""
    name = f"-stalled-{step}"
    queue.send("stall", name, step, soft_time_limit=1.5)  # Time enough for a busy machine to come to that call.
    queue.noted(f"stalled{name}")
    queue.noted(f"interrupted{name}")
    queue.free(name)


def test_a_hard_limit_lets_the_next_one_in(queue: Queue, prefork: Program) -> None:
    """Celery ends the process by SIGTERM first: its ``finally`` blocks run."""
    queue.send("sleep", "-hard", "with", time_limit=0.5)
    queue.noted("holding-hard")
    until(lambda: "Hard time limit" in prefork.output(), SOON, what="the limit has struck")
    queue.send("add")
    queue.noted("done", queue.surroundings.notes().count("done") + 1)
    until(lambda: not queue.keys("-hard"), 25, what="the lock is free, at the end of its lease at the latest")


def test_a_cold_shutdown_ends_in_time(queue: Queue) -> None:
    cold = f"{queue.surroundings.name}-cold-queue"
    worker = queue.worker("--pool", "prefork", "--concurrency", "1", "-n", "cold@%h", "-Q", cold)
    queue.send("sleep", "-cold", "hold", queue=cold)
    queue.noted("holding-cold")
    worker.stop(signal.SIGQUIT)
    until(lambda: not queue.keys("-cold"), 25, what="the lock is free, at the end of its lease at the latest")
