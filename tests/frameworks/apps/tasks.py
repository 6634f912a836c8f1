"""A Celery application whose tasks hold locks. Its client is made when it is imported, and used in the parent."""

from __future__ import annotations

import os
import time

import redis
from celery import Celery
from celery.exceptions import SoftTimeLimitExceeded

import pyredisson
from tests.frameworks.apps.shared import NAME, URL, CriticalSection, note

BROKER = os.environ["PYREDISSON_TEST_BROKER"]

app = Celery("tasks", broker=BROKER)
app.conf.update(
    task_default_queue=f"{NAME}-queue",
    worker_send_task_events=False,
    worker_prefetch_multiplier=1,
    task_acks_late=False,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"polling_interval": 0.05},
    task_ignore_result=True,
)

client = pyredisson.Redisson.from_url(
    URL,
    config=pyredisson.Config(lock_watchdog_timeout=20, on_lock_lost=lambda name, number: note(f"lost {name}")),
)
with client.get_lock(f"{NAME}-early"):
    pass


@app.task
def add(hold: float = 0.002) -> None:
    """Take the lock that all tasks take."""
    with client.get_lock(NAME).hold(wait_time=60), CriticalSection():
        time.sleep(hold)
    note("done")


@app.task
def sleep(name: str, form: str) -> None:
    """Hold a lock until a time limit ends it, or the worker."""
    lock = client.get_lock(f"{NAME}{name}")
    with lock.hold(wait_time=60) if form == "hold" else lock:
        note(f"holding{name}")
        time.sleep(60)


@app.task
def stall(name: str, step: str) -> None:
    """Call while the server answers nobody, so that a time limit strikes within the call."""
    lock = client.get_lock(f"{NAME}{name}")
    if step == "unlock":
        lock.lock()
    with redis.Redis.from_url(URL) as direct:
        direct.client_pause(2500, all=False)
    note(f"stalled{name}")
    try:
        getattr(lock, step)()
    except SoftTimeLimitExceeded:
        note(f"interrupted{name}")
        raise
