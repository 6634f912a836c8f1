"""Callers who leave in the middle: Ctrl-C at random moments, cancellation at random moments."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import pytest
import redis

from tests.proxy import Proxy
from tests.real_servers import programs
from tests.real_servers.observation import ANY_SCRIPT, held, nothing_left
from tests.servers import Server
from tests.volumes import Volume
from tests.waiting import until
from tests.worlds.asyncio import AsyncioWorld
from tests.worlds.threads import ThreadsWorld


@contextmanager
def contention(url: str, name: str) -> Iterator[None]:
    """Somebody else takes the lock all the time, and lets it go again."""
    world = ThreadsWorld()
    lock = world.from_url(url).get_lock(name)
    over = threading.Event()

    def take_turns() -> None:
        while not over.is_set():
            with lock:
                over.wait(random.uniform(0, 0.004))
            over.wait(random.uniform(0, 0.004))

    turns = world.actor().start(take_turns)
    try:
        yield
    finally:
        over.set()
        turns.result(10)
        world.close()


def test_interrupted_event_loops(valkey: Server, direct: redis.Redis, unique_name: str, volume: Volume) -> None:
    with contention(valkey.url, unique_name):
        process = programs.start("interrupted_asyncio", valkey.url, unique_name, volume(4, full=200))
        assert process.stdout is not None
        for line in process.stdout:
            assert line == "interrupt me\n"
            time.sleep(random.uniform(0, 0.02))
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert not err
    until(lambda: not direct.exists(unique_name), what="free")


# --- cancelled ---


class Cancelled:
    """Tasks that take the lock in some way, and are cancelled at random moments.

    How long they take depends on the machine. The moments are such that some get in, and some are cancelled.
    """

    def __init__(self, client: Any, name: str) -> None:
        self.client = client
        self.lock = client.get_lock(name)
        self.inside = 0
        self.together = 0
        self.entered = 0
        self.cancelled = 0

    async def enters(self) -> None:
        self.inside += 1
        self.entered += 1
        self.together = max(self.together, self.inside)
        try:
            await asyncio.sleep(random.uniform(0, 0.001))
        finally:
            self.inside -= 1

    async def with_block(self) -> None:
        async with self.lock:
            await self.enters()

    async def with_hold(self) -> None:
        async with self.lock.hold(wait_time=30, lease_time=20, cancel_on_loss=True):
            await self.enters()

    async def nested(self) -> None:
        async with self.lock:
            async with self.lock:
                await self.enters()
            async with self.lock:
                pass

    async def by_hand(self) -> None:
        if await self.lock.try_lock(random.choice([0, 0.002, 30])):
            try:
                await self.enters()
            finally:
                await self.lock.unlock()

    async def many(
        self, rounds: int, at_once: int, apart: float = 0.0015, enough: Callable[[], bool] = lambda: True
    ) -> None:
        works = [self.with_block, self.with_hold, self.nested, self.by_hand]
        index = 0
        while index < rounds // at_once or min(4 * self.cancelled, 8 * self.entered) < rounds or not enough():
            entered, cancelled = self.entered, self.cancelled
            tasks = [asyncio.create_task(works[(index + k) % 4]()) for k in range(at_once)]
            for task in tasks:
                await asyncio.sleep(random.uniform(0, apart))
                task.cancel()
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                self.cancelled += isinstance(outcome, asyncio.CancelledError)
                assert outcome is None or isinstance(outcome, asyncio.CancelledError), outcome
            index += 1
            if self.entered == entered:
                apart *= 1.2
            elif self.cancelled == cancelled:
                apart /= 1.2
        assert self.inside == 0


@pytest.mark.parametrize("at_once", [1, 6])
@pytest.mark.parametrize("contended", [False, True], ids=["free", "contended"])
def test_cancelled_at_random(
    valkey: Server,
    direct: redis.Redis,
    unique_name: str,
    volume: Volume,
    at_once: int,
    contended: bool,
) -> None:
    world, rounds = AsyncioWorld(), volume(40, full=2000)
    with contention(valkey.url, unique_name) if contended else nullcontext():
        cancelled = Cancelled(world.from_url(valkey.url), unique_name)
        world.run(cancelled.many, rounds, at_once)
    assert cancelled.together == 1
    nothing_left(direct, cancelled.client, unique_name)
    assert not world.losses
    world.close()


@pytest.mark.parametrize("then", ["reset", "hang"])
@pytest.mark.parametrize("method", ["lock", "unlock"])
def test_cancelled_while_the_reply_is_awaited(
    proxy: Proxy, direct: redis.Redis, unique_name: str, method: str, then: Any
) -> None:
    world = AsyncioWorld()
    client = world.from_url(proxy.url, timeout=4.5)
    lock, actor = client.get_lock(unique_name), world.actor()
    late = proxy.hold_request(ANY_SCRIPT, 1 if method == "lock" else 2, then=then)

    async def work() -> None:
        await lock.lock()
        await lock.unlock()

    async def cancel() -> None:
        task = asyncio.create_task(work())
        while not late.hits:  # noqa: ASYNC110 it is set by another thread
            await asyncio.sleep(0.001)
        task.cancel()
        began = time.monotonic()
        with suppress(asyncio.CancelledError):
            await task
        assert time.monotonic() - began < 3.0, "it took more than the second of those who leave"

    world.run(cancel)
    # It is executed after all, now that nobody waits for it any more.
    late.release()
    assert actor.number
    nothing_left(direct, client, unique_name)
    actor.do(lock.lock)
    assert held(direct, lock, actor) == 1
    actor.do(lock.unlock)
    world.close()
