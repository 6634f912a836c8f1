"""What callers write with asyncio that differs from what they write with threads.

Never run: mypy --strict and pyright read it (``make check``).
"""

from __future__ import annotations

import asyncio

import redis.asyncio
from typing_extensions import assert_type

import pyredisson.asyncio as pyredisson
from pyredisson.asyncio import Hold, Lease, Lock, Redisson


async def clients() -> None:
    assert_type(Redisson(redis.asyncio.Redis(decode_responses=True)), Redisson)
    async with Redisson() as client:
        assert_type(client, Redisson)
        assert_type(client.get_lock("orders"), Lock)
        assert_type(client.get_read_write_lock("orders").read_lock(), Lock)


async def holds(lock: Lock) -> None:
    assert_type(lock.hold(), Hold[Lease[None]])
    async with lock as held:
        assert_type(held, Lock)
        await held.extend(5)
    assert_type(await lock.is_held_by_current_task(), bool)
    assert_type(await lock.extend(60), bool)
    lock.ensure_held()
    lock.hold(on_loss=asyncio.Event().set)
    async with lock.hold(wait_time=5, lease_time=60, cancel_on_loss=True) as lease:
        assert_type(lease, Lease[None])
    async with lock.hold(skip=True) as skipped:
        assert_type(skipped, "Lease[None] | None")


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


async def jobs_that_run_once(client: Redisson) -> None:
    async with client.run_once("report", at_most=600, at_least=60) as run:
        assert_type(run, "Lease[None] | None")

    @client.run_once("report:{day}")
    async def report(day: str) -> int:
        return len(day)

    assert_type(await report("monday"), "pyredisson.Ran[int] | pyredisson.Skipped")


async def leaders(client: Redisson) -> None:
    election = client.get_leader_election("scheduler")
    async with election.term() as lease:
        assert_type(lease, Lease[int])

    async def lead(term: pyredisson.Term) -> None:
        assert_type(term.token, int)

    assert_type(await election.start(lead).stop(timeout=5), bool)
    async with election.start(lead) as campaign:
        assert_type(await campaign.join(timeout=5), bool)
    assert_type(await election.run(lead), None)


async def properties_that_are_awaited(client: Redisson) -> None:
    barrier = client.get_barrier("start", 3)
    assert_type(await barrier.wait() + barrier.parties + await barrier.n_waiting, int)
    assert_type(await barrier.broken, bool)
