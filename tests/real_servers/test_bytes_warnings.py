"""``python -bb``, which turns a comparison of bytes with numbers or text into an error: every kind works."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.servers import VALKEY, Server

THREADS = """
import sys
from pyredisson import Config, Redisson

with Redisson.from_url(sys.argv[1], config=Config(presence_after=0.01)) as client:
    for kind in ("lock", "fair_lock", "fenced_lock", "spin_lock", "token_lock"):
        lock = getattr(client, "get_" + kind)(kind)
        with lock:
            pass
        with lock.hold(lease_time=5):
            assert lock.is_locked()
    both = client.get_read_write_lock("both")
    with both.write_lock(), both.read_lock():
        pass
    with both.read_lock():
        pass
    semaphore = client.get_semaphore("semaphore", permits=2)
    assert semaphore.try_acquire()
    assert not semaphore.try_acquire(2)
    semaphore.release()
    with semaphore.hold():
        pass
    semaphore.resize(3), semaphore.add_permits(1), semaphore.drain_permits()
    permits = client.get_permit_expirable_semaphore("permits", permits=2)
    permits.release(permits.acquire(lease_time=5))
    with permits.hold():
        pass
    latch = client.get_count_down_latch("latch")
    latch.try_set_count(1)
    latch.count_down()
    latch.wait(1)
    client.get_event("event").set()
    with client.run_once("once", at_most=5) as run:
        assert run is not None
    with client.get_leader_election("election").term():
        assert client.get_leader_election("election").leader()
    with client.get_multi_lock(client.get_lock("a"), client.get_lock("b")):
        pass
    condition = client.get_condition("condition")
    with condition:
        condition.wait(0.05)
        condition.notify()
    assert list(client.find_locks()) is not None
    client.get_barrier("barrier", 1).wait()
print("done")
"""

ASYNCIO = """
import asyncio, sys
from pyredisson.asyncio import Redisson

async def main():
    async with Redisson.from_url(sys.argv[1]) as client:
        for kind in ("lock", "fair_lock", "fenced_lock", "token_lock"):
            async with getattr(client, "get_" + kind)(kind):
                pass
        semaphore = client.get_semaphore("semaphore", permits=2)
        assert await semaphore.try_acquire()
        await semaphore.release()
        permits = client.get_permit_expirable_semaphore("permits", permits=2)
        async with permits.hold():
            pass
        latch = client.get_count_down_latch("latch")
        await latch.try_set_count(1)
        await latch.count_down()

asyncio.run(main())
print("done")
"""


@pytest.mark.parametrize("program", [THREADS, ASYNCIO], ids=["threads", "asyncio"])
def test_each_kind(program: str) -> None:
    with Server.start(VALKEY) as server:
        ended = subprocess.run(
            [sys.executable, "-bb", "-c", program, server.url], capture_output=True, text=True, timeout=60, check=False
        )
    assert ended.stderr == ""
    assert ended.stdout == "done\n"
