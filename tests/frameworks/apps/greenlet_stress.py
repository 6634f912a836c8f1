"""Greenlets that take a few locks again and again, while time-outs and kills end them at any moment.

Arguments: ``gevent`` or ``eventlet``, how many greenlets, for how many seconds, a seed. Prints what happened, as JSON.
"""

from __future__ import annotations

from tests.frameworks.apps import greens  # isort: skip  # It patches, so it comes first.

import json
import random
import sys
import time
from collections import Counter
from typing import Any

import pyredisson
from tests.frameworks.apps.shared import NAME, URL, CriticalSection

COUNT, SECONDS, SEED = int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])

chance = random.Random(SEED)
seen: Counter[str] = Counter()
owners: set[int] = set()
client = pyredisson.Redisson.from_url(URL, config=pyredisson.Config(lock_watchdog_timeout=3.0))
GET = [client.get_lock, client.get_lock, client.get_fair_lock]
over = time.monotonic() + SECONDS


def work() -> None:
    """Take one lock after another."""
    while time.monotonic() < over:
        kind = chance.randrange(3)
        lock = GET[kind](f"{NAME}-{kind}")
        try:
            with greens.Timeout(chance.uniform(0.001, 0.3)), lock.hold(wait_time=2), CriticalSection(f"-{kind}"):
                owners.add(pyredisson.current_thread_id())
                seen["holds"] += 1
                greens.sleep(chance.choice([0, 0, 0.001, 0.02]))
        except greens.Timeout:
            seen["timeouts"] += 1
        except pyredisson.LockTimeoutError:
            seen["waited in vain"] += 1


greenlets: list[Any] = [greens.spawn(work) for _ in range(COUNT)]
while time.monotonic() < over:
    greens.sleep(0.01)
    index = chance.randrange(COUNT)
    greens.kill(greenlets[index])
    seen["kills"] += 1
    greens.sleep(0)
    greenlets[index] = greens.spawn(work)
seen["stuck"] = sum(not greens.join(greenlet, 20.0) for greenlet in greenlets)
seen["owners"] = len(owners)

# What a killed greenlet left to the watchdog is done in the background; then nothing is held, and nobody queues.
again = time.monotonic() + 20
while any(client.get_lock(f"{NAME}-{kind}").is_locked() for kind in range(3)) and time.monotonic() < again:
    greens.sleep(0.01)
client.close()
print(json.dumps(seen))
