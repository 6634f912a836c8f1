"""Tasks that run once at a time, or once at a time for each key, and a beat that leads."""

import time

from celery import Celery
from celery.beat import Scheduler

from pyredisson import Redisson
from pyredisson.integrations.celery import LeaderBeat, SingletonTask

app = Celery("tasks", broker="redis://localhost:6379/1")
client = Redisson.from_url("redis://localhost:6379")


@app.task(base=SingletonTask, client=client, key="stock:{item}", when_busy="wait", retry_in=0.2)
def count(item: str) -> None:
    """Wait for other calls with the same item, without a place in a worker."""
    print(f"begins to count {item}")
    time.sleep(0.5)
    print(f"has counted {item}")


@app.task(base=SingletonTask, client=client, key="clean")
def clean() -> None:
    """Do nothing if it runs already."""
    print("cleans")
    time.sleep(5)


@app.task(base=SingletonTask, client=client, key="index:{item}", when_busy="replace", retry_in=0.2)
def index(item: str, version: int) -> None:
    """Of the calls that wait, run the last."""
    print(f"indexes {item}, version {version}")
    time.sleep(2)


class Beat(LeaderBeat, Scheduler):
    """On each host, `celery -A tasks beat -S tasks:Beat`: one sends."""

    client = client


@app.task
def tick() -> None:
    """Run every other second: the beats send it."""
    print("ticks")


app.conf.beat_schedule = {"tick": {"task": tick.name, "schedule": 2.0}}
