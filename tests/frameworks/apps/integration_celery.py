"""Tasks of Celery that run once at a time, and a beat, which note what they do."""

from __future__ import annotations

import os
import time

from tests.frameworks.apps.shared import NAME, URL, CriticalSection, note

os.environ["PYREDISSON_URL"] = URL
BROKER = os.environ["PYREDISSON_TEST_BROKER"]
from celery import Celery
from celery.beat import Scheduler

from pyredisson import Config, Redisson
from pyredisson.integrations.celery import LeaderBeat, SingletonTask

app = Celery("shop", broker=BROKER)
client = Redisson.from_env(config=Config(lock_watchdog_timeout=3))


@app.task(base=SingletonTask, client=client, key=f"{NAME}:stock:{{item}}", when_busy="wait", retry_in=0.2)
def count(item: str, seconds: float = 0.05) -> None:
    """Wait for other calls with the same item, without a place in a worker."""
    with CriticalSection(f"-{item}"):
        time.sleep(seconds)
    note(f"counted {item}")


@app.task(base=SingletonTask, client=client, key=f"{NAME}:clean", acks_late=True, reject_on_worker_lost=True)
def clean(seconds: float) -> None:
    """Do nothing if it runs already."""
    note(f"cleaning {os.getpid()}")
    time.sleep(seconds)
    note("cleaned")


@app.task(base=SingletonTask, client=client, key=f"{NAME}:index:{{item}}", when_busy="replace", retry_in=0.2)
def index(item: str, version: int) -> None:
    """Of the calls that wait, run the last."""
    note(f"indexing {item} {version}")
    time.sleep(1.5)


class Beat(LeaderBeat, Scheduler):
    """`celery beat -S module:Beat` on each host: one sends."""

    client = client


@app.task
def tick() -> None:
    """Sent by the beats."""
    note(f"tick {time.time():.1f}")


app.conf.beat_schedule = {"tick": {"task": tick.name, "schedule": 1.0}}


@app.task(base=SingletonTask, client=client, key=f"{NAME}:nested:{{item}}", when_busy="wait", retry_in=0.2)
def nested(item: str, inner: str = "") -> None:
    """Call itself with another item."""
    note(f"nested {item}")
    if inner:
        nested(inner)


@app.task(base=SingletonTask, client=client, key=f"{NAME}:again", bind=True, max_retries=1, ignore_result=False)
def again(self: SingletonTask) -> None:
    """Fail, and be sent again by its own retry."""
    note(f"again {self.request.retries}")
    time.sleep(1)  # Until the lock is waited for.
    raise self.retry(countdown=2)


app.main = NAME
app.conf.update(
    task_default_queue=f"{NAME}-queue",
    worker_prefetch_multiplier=8,
    worker_hijack_root_logger=False,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"polling_interval": 0.05},
    task_ignore_result=True,
    beat_max_loop_interval=0.5,
)
