"""Tasks under a lock, with a worker that is told how to run them by its arguments. The broker is the test's server."""

from __future__ import annotations

import os
import time

from celery import Celery

import pyredisson
from tests.frameworks.apps.shared import NAME, URL, CriticalSection, note

app = Celery("greenlets", broker=os.environ["PYREDISSON_TEST_BROKER"])
app.conf.task_default_queue = NAME
app.conf.broker_connection_retry_on_startup = True
app.conf.worker_prefetch_multiplier = 100

client = pyredisson.Redisson.from_url(
    URL,
    config=pyredisson.Config(
        lock_watchdog_timeout=1.8, on_lock_lost=lambda name, number: note(f"lost {name.removeprefix(NAME)}")
    ),
)
lock = client.get_lock(NAME)


@app.task
def enter() -> None:
    """Be inside for a moment."""
    with lock.hold(wait_time=30), CriticalSection():
        time.sleep(0.005)
    note("entered")


@app.task
def keep(seconds: float) -> None:
    """Hold another lock for longer than its lease, or until it is lost."""
    try:
        with client.get_lock(f"{NAME}-kept").hold(wait_time=0) as lease:
            until = time.monotonic() + seconds
            while time.monotonic() < until and not lease.lost:
                time.sleep(0.05)
    except pyredisson.LockLostError:
        note("kept: LockLostError")
    else:
        note("kept")


@app.task
def single() -> None:
    """Do something unless somebody does it."""
    single_lock = client.get_lock(f"{NAME}-single")
    if not single_lock.try_lock():
        note("skipped")
        return
    try:
        note("ran")
        time.sleep(1.5)
    finally:
        single_lock.unlock()


@app.task
def identify() -> None:
    """Tell who runs a task."""
    with lock.hold(wait_time=30):
        note(f"owner {client.id}:{pyredisson.current_thread_id()}")
