"""Celery workers whose tasks are greenlets: ``-P gevent``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.frameworks.common import ROOT, Program, Surroundings, require
from tests.waiting import until

APP = "tests.frameworks.apps.celery_app"


@pytest.fixture
def broker(surroundings: Surroundings) -> Iterator[dict[str, str]]:
    """What programs are told of the broker, which is another database of the same server."""
    url = surroundings.server.url.removesuffix("/0") + "/1"
    yield {"PYREDISSON_TEST_BROKER": url}
    with surroundings.server.client(db=1) as redis:
        for key in redis.scan_iter(match=f"*{surroundings.name}*"):
            redis.delete(key)


def work(surroundings: Surroundings, broker: dict[str, str], workers: int) -> list[Program]:
    """Start workers, and wait until they take tasks."""
    programs = [
        surroundings.program(
            *("-m", "celery", "-A", APP, "worker", "-P", "gevent", "-c", "20", "--without-gossip", "--without-mingle"),
            *("--without-heartbeat", "-n", f"worker{number}@%h", "-l", "INFO"),
            environment=broker,
        )
        for number in range(workers)
    ]
    for program in programs:
        until(lambda: " ready." in program.output(), within=30.0, what="a worker is ready")  # noqa: B023
    return programs


@contextmanager
def sending(surroundings: Surroundings, broker: dict[str, str], calls: str) -> Iterator[None]:
    """Send tasks while the block runs, by a program of their own, which on a busy machine ends long after them."""
    code = f"from {APP} import *\n{calls}\n"
    environment = {**surroundings.environment, **broker, "PATH": "/usr/bin:/bin"}
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment) as program:
        yield
        assert program.wait(60) == 0


def send(surroundings: Surroundings, broker: dict[str, str], calls: str) -> None:
    """Send tasks."""
    with sending(surroundings, broker, calls):
        pass


def owners(surroundings: Surroundings) -> list[str]:
    """The owners that tasks told of, one for each task."""
    return [note for note in surroundings.notes() if note.startswith("owner ")]


def test_tasks_in_greenlets_exclude_each_other(surroundings: Surroundings, broker: dict[str, str]) -> None:
    """Two workers of twenty greenlets; a lock that is kept over its lease, one that is lost, one that is for one."""
    require("celery", "gevent")
    workers = work(surroundings, broker, 2)
    send(
        surroundings,
        broker,
        "[single.delay() for _ in range(4)]; keep.delay(3)\n[enter.delay() for _ in range(120)]",
    )
    until(
        lambda: surroundings.notes().count("entered") == 120 and "kept" in surroundings.notes(),
        within=60.0,
        what="all is done",
    )
    notes = surroundings.notes()
    assert (notes.count("ran"), notes.count("skipped")) == (1, 3)
    send(surroundings, broker, "keep.delay(30)")
    with surroundings.server.client() as redis:
        until(lambda: redis.delete(f"{surroundings.name}-kept"), within=20.0, what="the lock was held")
    until(lambda: "kept: LockLostError" in surroundings.notes(), within=20.0, what="the loss was told")
    sent = 0

    def answered_by_each() -> bool:  # Which worker runs a task is up to chance: each one takes as many as there are.
        nonlocal sent
        sent += 40
        send(surroundings, broker, "[identify.delay() for _ in range(40)]")
        until(lambda: len(owners(surroundings)) == sent, within=20.0, what="all told who they are")
        return len({owner.partition(":")[0] for owner in owners(surroundings)}) == 2

    until(answered_by_each, within=60.0, what="both workers have run a task")
    assert len({*owners(surroundings)}) >= 20
    for program in workers:
        assert program.stop(within=30.0) == 0
        assert "Traceback" not in program.output()
    surroundings.check_exclusion(120)
    assert "lost -kept" in surroundings.notes()
    surroundings.check_nothing_left()


def test_a_warm_shutdown_waits_for_a_greenlet_that_holds_a_lock(
    surroundings: Surroundings, broker: dict[str, str]
) -> None:
    require("celery", "gevent")
    [worker] = work(surroundings, broker, 1)
    with sending(surroundings, broker, "keep.delay(2.5)"):
        until(lambda: surroundings.keys(), within=20.0, what="the lock is held")
    assert worker.stop(within=30.0) == 0
    assert surroundings.notes() == ["kept"]
    surroundings.check_nothing_left()
