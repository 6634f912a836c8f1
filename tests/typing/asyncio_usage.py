"""What callers write with asyncio that differs from what they write with threads.

Never run: mypy --strict and pyright read it (``make check``).
"""

from __future__ import annotations

import redis.asyncio
from typing_extensions import assert_type

from pyredisson.asyncio import Config, Hold, Lease, Lock, Redisson


async def clients() -> None:
    assert_type(Redisson(), Redisson)
    assert_type(Redisson(redis.asyncio.Redis(decode_responses=True)), Redisson)
    assert_type(Redisson.from_url("redis://h", socket_keepalive=True), Redisson)
    assert_type(Redisson.embedded(config=Config()), Redisson)
    async with Redisson() as client:
        assert_type(client, Redisson)
        assert_type(client.get_lock("orders"), Lock)
        assert_type(client.get_read_write_lock("orders").read_lock(), Lock)


async def holds(lock: Lock) -> None:
    assert_type(lock.hold(), Hold[Lease[None]])
    async with lock as entered:
        assert_type(entered, bool)
    assert_type(await lock.is_held_by_current_task(), bool)
    async with lock.hold(wait_time=5, lease_time=60, cancel_on_loss=True) as lease:
        assert_type(lease, Lease[None])
    async with lock.hold(skip=True) as skipped:
        assert_type(skipped, "Lease[None] | None")


async def tokens(client: Redisson) -> None:
    async with client.get_fenced_lock("orders").hold(wait_time=5) as lease:
        assert_type(lease, Lease[int])
        assert_type(lease.token, int)


async def after_a_block_code_goes_on(lock: Lock) -> int:
    # A context manager that could swallow exceptions would make this a function that may return None.
    async with lock:
        return 1


async def after_a_hold_code_goes_on(lock: Lock) -> int:
    async with lock.hold():
        return 1


async def synchronized_functions_keep_their_types(client: Redisson) -> None:
    @client.synchronized("orders:{order_id}", wait_time=5)
    async def ship(order_id: int, note: str = "") -> str:
        return note

    assert_type(await ship(7), str)
    assert_type(await ship(order_id=7, note="now"), str)
