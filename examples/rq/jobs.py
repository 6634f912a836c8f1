"""Jobs that run once at a time, or once at a time for each key."""

import time

from pyredisson import Redisson
from pyredisson.integrations.rq import singleton

client = Redisson.from_url("redis://localhost:6379")


@singleton(client, "stock:{item}", when_busy="wait")
def count(item: str) -> None:
    """Wait for other jobs with the same item, without a place in a worker."""
    with open("counts.log", "a") as log:
        print("begins to count", item, file=log, flush=True)
        time.sleep(1)
        print("has counted", item, file=log)


@singleton(client, "clean")
def clean() -> None:
    """Do nothing if it runs already."""
    print("cleans")
    time.sleep(5)
