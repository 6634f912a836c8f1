"""Jobs of RQ that hold locks; and, run by tests, a SimpleWorker, which ends jobs by an `Exception` from SIGALRM."""

from __future__ import annotations

import time

import redis

import pyredisson
from tests.frameworks.apps.shared import NAME, URL, CriticalSection

client = pyredisson.Redisson.from_url(URL)


def add() -> None:
    with client.get_lock(NAME).hold(wait_time=20), CriticalSection():
        time.sleep(0.002)


def hold(form: str) -> None:
    """Hold a lock until the job's time is up."""
    lock = client.get_lock(f"{NAME}-{form}")
    with lock.hold(wait_time=20) if form == "hold" else lock:
        time.sleep(60)


def wait() -> None:
    """Wait for another's lock until the job's time is up."""
    client.get_fair_lock(f"{NAME}-waited").lock()


def main(database: str) -> None:
    from rq import Queue, SimpleWorker

    with redis.Redis.from_url(database) as connection, pyredisson.Redisson.from_url(URL) as other:
        queue = Queue(f"{NAME}-queue", connection=connection)
        for _ in range(20):
            queue.enqueue(add)
        queue.enqueue(hold, "hold", job_timeout=1)
        queue.enqueue(hold, "with", job_timeout=1)
        queue.enqueue(wait, job_timeout=1)
        with other.get_fair_lock(f"{NAME}-waited"):
            SimpleWorker([queue], connection=connection).work(burst=True)
        assert queue.failed_job_registry.count == 3, queue.failed_job_registry.count
        queue.failed_job_registry.cleanup()
    for name in (NAME, f"{NAME}-hold", f"{NAME}-with"):
        assert not client.get_lock(name).locked(), name
    assert client.get_fair_lock(f"{NAME}-waited").try_lock(0)
    client.get_fair_lock(f"{NAME}-waited").unlock()
    assert client._core.watchdog.watching() == 0
