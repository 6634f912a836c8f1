"""Programs that use each kind of lock, for interpreters that tests start. They check without ``assert``, for ``-O``."""

import re

ASYNCIO = """
import asyncio, sys
from pyredisson.asyncio import Config, Redisson
from pyredisson.inspection import Inspector

def check(holds):
    if not holds:
        raise RuntimeError("a check failed")

async def main():
    asyncio.get_running_loop().slow_callback_duration = 60  # Else -X dev reports each step of a busy machine.
    async with Redisson.from_url(sys.argv[1], config=Config(presence_after=0.01)) as client:
        for kind in ("lock", "fair_lock", "fenced_lock", "spin_lock", "token_lock"):
            lock = getattr(client, "get_" + kind)(kind)
            async with lock:
                pass
            async with lock.hold(lease_time=5):
                check(await lock.is_locked())
            with Inspector(sys.argv[1]) as inspector:
                check(inspector.unlock(kind).outcome == "not_held")
        both = client.get_read_write_lock("both")
        async with both.write_lock(), both.read_lock():
            pass
        async with both.read_lock():
            pass
        semaphore = client.get_semaphore("semaphore", permits=2)
        check(await semaphore.try_acquire())
        check(not await semaphore.try_acquire(2))
        await semaphore.release()
        async with semaphore.hold():
            pass
        await semaphore.resize(3), await semaphore.add_permits(1), await semaphore.drain_permits()
        permits = client.get_permit_expirable_semaphore("permits", permits=2)
        await permits.release(await permits.acquire(lease_time=5))
        async with permits.hold():
            pass
        latch = client.get_count_down_latch("latch")
        await latch.try_set_count(1)
        await latch.count_down()
        await latch.wait(1)
        await client.get_event("event").set()
        async with client.run_once("once", at_most=5) as run:
            check(run is not None)
        async with client.get_leader_election("election").term():
            check(await client.get_leader_election("election").leader())
        async with client.get_multi_lock(client.get_lock("a"), client.get_lock("b")):
            pass
        condition = client.get_condition("condition")
        async with condition:
            await condition.wait(0.05)
            await condition.notify()
        check([each async for each in client.find_locks()] is not None)
        await client.get_barrier("barrier", 1).wait()

asyncio.run(main())
print("done")
"""

#: The same with threads.
THREADS = ASYNCIO.replace("pyredisson.asyncio", "pyredisson").replace("asyncio.run(main())", "main()")
THREADS = re.sub(r"\b(?:async|await) |.*slow_callback_duration.*\n|\basyncio, ", "", THREADS)
