"""A report every second, by one of the hosts that run this program."""

from apscheduler import Scheduler, current_job
from apscheduler.triggers.cron import CronTrigger

from pyredisson import Redisson
from pyredisson.integrations.apscheduler import once_per_tick

client = Redisson.from_url("redis://localhost:6379")


@once_per_tick(client, at_most=60, at_least=5)
def report() -> None:
    """Run every second, on one of the hosts."""
    print(f"report at {current_job.get().scheduled_fire_time:%X}", flush=True)


if __name__ == "__main__":
    with Scheduler() as scheduler:
        scheduler.add_schedule(report, CronTrigger(second="*"), id="report")  # the same id on all hosts
        scheduler.run_until_stopped()
