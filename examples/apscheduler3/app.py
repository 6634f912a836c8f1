"""A report every second, by one of the hosts that run this program."""

import time

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.blocking import BlockingScheduler

from pyredisson import Redisson
from pyredisson.integrations.apscheduler import OncePerTick

client = Redisson.from_url("redis://localhost:6379")


class Executor(OncePerTick, ThreadPoolExecutor):
    """Run what no other host runs."""


def report() -> None:
    """Run every second, on one of the hosts."""
    print(time.strftime("report at %X"), flush=True)


scheduler = BlockingScheduler(executors={"default": Executor(client=client, at_least=5)})
scheduler.add_job(report, "cron", second="*", id="report")

if __name__ == "__main__":
    scheduler.start()
