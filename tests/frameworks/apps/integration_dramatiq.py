"""Actors of Dramatiq that run once at a time, and note what they do."""

from __future__ import annotations

import os
import time

from tests.frameworks.apps.shared import NAME, URL, CriticalSection, note

os.environ["PYREDISSON_URL"] = URL
BROKER = os.environ["PYREDISSON_TEST_BROKER"]
import dramatiq
from dramatiq.brokers.redis import RedisBroker

from pyredisson import Redisson
from pyredisson.integrations.dramatiq import Singletons

client = Redisson.from_env()
broker = RedisBroker(url=BROKER)
broker.add_middleware(Singletons(client, retry_in=0.2))
dramatiq.set_broker(broker)


@dramatiq.actor(singleton=f"{NAME}:stock:{{item}}", when_busy="wait")
def count(item: str, seconds: float = 0.05) -> None:
    """Wait for other calls with the same item, without a place in a worker."""
    with CriticalSection(f"-{item}"):
        time.sleep(seconds)
    note(f"counted {item}")


@dramatiq.actor(singleton=f"{NAME}:clean")
def clean(seconds: float) -> None:
    """Do nothing if it runs already."""
    note("cleaning")
    time.sleep(seconds)
    note("cleaned")
