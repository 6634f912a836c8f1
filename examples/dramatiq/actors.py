"""Actors that run once at a time, or once at a time for each key."""

import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from pyredisson import Redisson
from pyredisson.integrations.dramatiq import Singletons

client = Redisson.from_url("redis://localhost:6379")
broker = RedisBroker(url="redis://localhost:6379/1")
broker.add_middleware(Singletons(client, retry_in=0.2))
dramatiq.set_broker(broker)


@dramatiq.actor(singleton="stock:{item}", when_busy="wait")
def count(item: str) -> None:
    """Wait for other calls with the same item, without a place in a worker."""
    print(f"begins to count {item}", flush=True)
    time.sleep(0.5)
    print(f"has counted {item}", flush=True)


@dramatiq.actor(singleton="clean")
def clean() -> None:
    """Do nothing if it runs already."""
    print("cleans", flush=True)
    time.sleep(5)
