"""A scheduler of APScheduler 4, to be started on several hosts, which notes its ticks."""

from __future__ import annotations

import os

from tests.frameworks.apps.shared import NAME, URL, note

os.environ["PYREDISSON_URL"] = URL
from apscheduler import Scheduler, current_job
from apscheduler.triggers.cron import CronTrigger

from pyredisson import Redisson
from pyredisson.integrations.apscheduler import once_per_tick

client = Redisson.from_env()


@once_per_tick(client, at_most=60, at_least=5)
def report() -> None:
    """Run every second, on one of the hosts."""
    note(f"tick {int(current_job.get().scheduled_fire_time.timestamp())}")


def main() -> None:
    """Schedule it, under the same id on all hosts."""
    with Scheduler() as scheduler:
        scheduler.add_schedule(report, CronTrigger(second="*"), id=f"{NAME}:report")
        scheduler.run_until_stopped()


if __name__ == "__main__":
    main()
