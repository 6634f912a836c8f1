"""What callers must not write: each line is an error, or its ``type: ignore`` is one (``warn_unused_ignores``)."""

# pyright: strict, reportUnnecessaryTypeIgnoreComment=true, reportUnusedExpression=false, reportUnusedCoroutine=true

from __future__ import annotations

import redis
import redis.asyncio

import pyredisson
import pyredisson.asyncio


def with_threads(client: pyredisson.Redisson, lock: pyredisson.Lock, lease: pyredisson.Lease) -> None:
    client.get_lock(7)  # type: ignore[arg-type]
    client.get_lock()  # type: ignore[call-arg]
    client.id = "other"  # type: ignore[misc]
    client.config.timeout = 1  # type: ignore[misc]
    pyredisson.Redisson("redis://h")  # type: ignore[arg-type]
    pyredisson.Redisson(None, pyredisson.Config())  # type: ignore[call-arg]
    pyredisson.Redisson(redis.asyncio.Redis())  # type: ignore[arg-type]
    lock.lock("10")  # type: ignore[arg-type]
    lock.try_lock(wait_time="1")  # type: ignore[arg-type]
    lock.acquire(timeout="1")  # type: ignore[arg-type]
    lock.hold(cancel_on_loss=True)  # type: ignore[call-overload]
    lock.is_held_by_current_task()  # type: ignore[attr-defined]
    lock.is_held_by_thread("1")  # type: ignore[arg-type]
    lock.name = "other"  # type: ignore[misc]
    lease.lost = False  # type: ignore[misc]
    with lock.hold() as hold:
        token: int = hold.token  # type: ignore[assignment]
        print(token)
    lease.end()  # type: ignore[attr-defined]
    with client.get_semaphore("seats").hold(skip=True) as skipped:
        skipped.ensure_held()  # type: ignore[union-attr]
    seats = client.get_permit_expirable_semaphore("seats")
    several: str = seats.acquire(permits=2)  # type: ignore[assignment]
    one: list[str] = seats.acquire()  # type: ignore[assignment]
    seats.release(seats.try_acquire())  # type: ignore[arg-type]
    seats.get_lease_time([several, *one])  # type: ignore[arg-type]
    client.get_token_lock("orders", 0.2)  # type: ignore[arg-type]
    client.get_spin_lock("orders", tries="3")  # type: ignore[arg-type]
    client.get_event("ready").wait("5")  # type: ignore[arg-type]
    client.get_barrier("start")  # type: ignore[call-arg]
    lock.extend()  # type: ignore[call-arg]
    held: bool = lock.lock()  # type: ignore[func-returns-value, assignment]
    print(held)


async def with_asyncio(client: pyredisson.asyncio.Redisson, lock: pyredisson.asyncio.Lock) -> None:
    lock.lock()  # type: ignore[unused-coroutine]
    lock.unlock()  # type: ignore[unused-coroutine]
    client.close()  # type: ignore[unused-coroutine]
    if lock.try_lock():  # type: ignore[truthy-bool]
        pass
    await lock.name  # type: ignore[misc]
    await lock.hold()  # type: ignore[misc]
    with lock:  # type: ignore[attr-defined]
        pass
    with lock.hold():  # type: ignore[attr-defined]
        pass
    pyredisson.asyncio.Redisson(redis.Redis())  # type: ignore[arg-type]


def configs() -> None:
    pyredisson.Config(timeout="3")  # type: ignore[arg-type]
    pyredisson.Config(unknown=1)  # type: ignore[call-arg]
    pyredisson.Config(30.0)  # type: ignore[call-arg]
    pyredisson.Config(sharded_subscription_mode="auto")  # type: ignore[arg-type]
    pyredisson.Config(on_lock_lost=lambda name: None)  # type: ignore[arg-type, misc]


class MyLock(pyredisson.FencedLock):  # type: ignore[misc]
    pass


class MyClient(pyredisson.asyncio.Redisson):  # type: ignore[misc]
    pass


class MyConfig(pyredisson.Config):  # type: ignore[misc]
    pass
