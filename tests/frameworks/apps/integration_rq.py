"""Jobs of RQ that run once at a time, and note what they do."""

from __future__ import annotations

import os
import time

from tests.frameworks.apps.shared import NAME, URL, CriticalSection, note, notes

os.environ["PYREDISSON_URL"] = URL
from rq import Retry

from pyredisson import Redisson
from pyredisson.integrations.rq import singleton

client = Redisson.from_env()


@singleton(client, f"{NAME}:stock:{{item}}", when_busy="wait")
def count(item: str) -> None:
    """Wait for other jobs with the same item, without a place in a worker."""
    with CriticalSection(f"-{item}"):
        time.sleep(0.05)
    note(f"counted {item}")


@singleton(client, f"{NAME}:clean")
def clean(seconds: float) -> str:
    """Do nothing if it runs already."""
    note("cleaning")
    time.sleep(seconds)
    return "cleaned"


@singleton(client, f"{NAME}:stock:{{item}}", when_busy="wait")
def count_after(item: str, other: str) -> None:
    """Count, and go on until another item was counted meanwhile."""
    with CriticalSection(f"-{item}"):
        while f"counted {other}" not in notes():
            time.sleep(0.02)
    note(f"counted {item}")


@singleton(client, f"{NAME}:thrice", when_busy="wait", retry_in=1)
def succeed_at_the_third_run() -> str | Retry:
    """Ask RQ for two more runs."""
    note("run")
    return Retry(max=2, interval=[1, 2]) if notes().count("run") < 3 else "done"
