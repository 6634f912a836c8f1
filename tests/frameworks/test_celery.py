"""Celery: prefork and threads, soft and hard time limits, warm and cold shutdown."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from tests.frameworks.celery_workers import Workers, workers_of
from tests.frameworks.common import Program, Surroundings, require
from tests.servers import SharedServers
from tests.volumes import Volume
from tests.waiting import until

#: Well under the lease of 20 s: it was released, and did not just run out.
SOON = 10.0


@pytest.fixture(scope="module")
def queue(module_surroundings: Surroundings, shared_servers: SharedServers) -> Iterator[Workers]:
    """One queue for all tests of this file."""
    require("celery")
    with workers_of("tests.frameworks.apps.tasks", module_surroundings, shared_servers, database=9) as workers:
        yield workers
        assert workers.noted("lost") == []


@pytest.fixture(scope="module")
def prefork(queue: Workers) -> Iterator[Program]:
    """Processes that were forked from one whose client was in use."""
    worker = queue.worker("--pool", "prefork", "--concurrency", "3", name="prefork")
    yield worker
    assert worker.stop() == 0, worker.output()


def keys(queue: Workers, name: str) -> list[str]:
    return [key for key in queue.surroundings.keys() if name in key]  # noqa: SIM118 - a method


def until_free(queue: Workers, name: str, within: float = SOON) -> None:
    until(lambda: not keys(queue, name), within, what=f"the lock {name} is free")


@pytest.mark.volume
def test_tasks_exclude_each_other(queue: Workers, prefork: Program, volume: Volume) -> None:
    """Forked processes, and the threads of another worker."""
    threads = queue.worker("--pool", "threads", "--concurrency", "4", name="threads")
    count = volume(40, full=600)
    queue.send(f"for _ in range({count}): add.delay()")
    queue.until_noted("done", count)
    queue.surroundings.check_exclusion(count)
    until_free(queue, "")
    assert threads.stop() == 0, threads.output()


@pytest.mark.parametrize("form", ["with", "hold"])
def test_a_soft_limit_in_a_block_releases_its_lock(queue: Workers, prefork: Program, form: str) -> None:
    name = f"-soft-{form}"
    queue.send(f"sleep.apply_async(({name!r}, {form!r}), soft_time_limit=0.5)")
    queue.until_noted(f"holding{name}")
    until_free(queue, name)


@pytest.mark.parametrize("step", ["lock", "unlock"])
def test_a_soft_limit_within_a_call_leaves_nothing(queue: Workers, prefork: Program, step: str) -> None:
    """It is an ``Exception`` that a signal handler raises."""
    name = f"-stalled-{step}"
    # Time enough for a busy machine to come to that call.
    queue.send(f"stall.apply_async(({name!r}, {step!r}), soft_time_limit=1.5)")
    queue.until_noted(f"stalled{name}")
    queue.until_noted(f"interrupted{name}")
    until_free(queue, name)


def test_a_hard_limit_lets_the_next_one_in(queue: Workers, prefork: Program) -> None:
    """Celery ends the process by SIGTERM first: its ``finally`` blocks run."""
    queue.send("sleep.apply_async(('-hard', 'with'), time_limit=0.5)")
    queue.until_noted("holding-hard")
    until(lambda: "Hard time limit" in prefork.output(), SOON, what="the limit has struck")
    done = len(queue.noted("done"))
    queue.send("add.delay()")
    queue.until_noted("done", done + 1)
    until_free(queue, "-hard", within=25)  # At the end of its lease at the latest.


def test_a_cold_shutdown_ends_in_time(queue: Workers) -> None:
    cold = f"{queue.surroundings.name}-cold-queue"
    worker = queue.worker("--pool", "prefork", "--concurrency", "1", "-Q", cold, name="cold")
    queue.send(f"sleep.apply_async(('-cold', 'hold'), queue={cold!r})")
    queue.until_noted("holding-cold")
    worker.stop(signal.SIGQUIT)
    until_free(queue, "-cold", within=25)  # At the end of its lease at the latest.
