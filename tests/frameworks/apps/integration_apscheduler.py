"""A scheduler of APScheduler 3, to be started on several hosts, which notes its ticks."""

from __future__ import annotations

import os
import time

from apscheduler.events import EVENT_JOB_EXECUTED

from tests.frameworks.apps.shared import NAME, URL, note

os.environ["PYREDISSON_URL"] = URL
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.blocking import BlockingScheduler

from pyredisson import Redisson
from pyredisson.integrations.apscheduler import OncePerTick

client = Redisson.from_env()


class Executor(OncePerTick, ThreadPoolExecutor):
    """Run what no other host runs."""


def report() -> None:
    """Run every second, on one of the hosts."""
    time.sleep(0.1)


scheduler = BlockingScheduler(executors={"default": Executor(client=client, at_least=5)})
scheduler.add_job(report, "cron", second="*", id=f"{NAME}:report")
scheduler.add_listener(lambda event: note(f"tick {event.scheduled_run_time.timestamp()}"), EVENT_JOB_EXECUTED)
if __name__ == "__main__":
    scheduler.start()
