"""Sync locks in the worker threads of asgiref (Django), anyio (Starlette) and asyncio: each call may get another."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import pytest

from pyredisson import Config, LockError, LockNotOwnedError, LockTimeoutError, Redisson
from tests.frameworks.common import require
from tests.servers import Server
from tests.waiting import until

Call = Callable[..., Awaitable[Any]]

#: Each runs its calls in copies of the caller's context. A bare ``run_in_executor`` does not: there, jobs that share a
#: thread cannot be distinguished.
WAYS = ["sensitive", "insensitive", "to_thread", "anyio"]


def way_of(name: str) -> Call:
    from anyio import to_thread
    from asgiref.sync import sync_to_async

    async def sensitive(call: Callable[..., Any], *args: Any) -> Any:
        return await sync_to_async(call, thread_sensitive=True)(*args)

    async def insensitive(call: Callable[..., Any], *args: Any) -> Any:
        return await sync_to_async(call, thread_sensitive=False)(*args)

    ways: dict[str, Call] = {"to_thread": asyncio.to_thread, "anyio": to_thread.run_sync}
    return {**ways, "sensitive": sensitive, "insensitive": insensitive}[name]


class Tasks:
    """Tasks that all want the lock of the test. Two that are inside at once fail the test."""

    def __init__(self, client: Redisson, name: str) -> None:
        self.client = client
        self.lock = client.get_lock(name)
        self._inside = 0

    async def be_inside(self) -> str:
        self._inside += 1
        assert self._inside == 1, "two tasks are inside at once"
        await asyncio.sleep(0.01)
        self._inside -= 1
        return "released"

    async def call_by_call(self, call: Call) -> str:
        """``try_lock()`` in one call, ``unlock()`` in another."""
        try:
            for _ in range(300):
                if await call(self.lock.try_lock):
                    break
                await asyncio.sleep(0.005)
            else:
                return "not acquired"
        except LockError as error:
            return str(error)
        outcome = await self.be_inside()
        try:
            await call(self.lock.unlock)
        except LockNotOwnedError as error:
            return str(error)
        return outcome

    async def by_stack(self, call: Call) -> str:
        """``hold()`` on a stack that is closed in another call."""
        stack = ExitStack()
        while True:
            try:
                await call(stack.enter_context, self.lock.hold(wait_time=0))
                break
            except LockTimeoutError:
                await asyncio.sleep(0.005)
        outcome = await self.be_inside()
        await call(stack.close)
        return outcome

    async def by_owner(self, call: Call) -> str:
        """A handle that belongs to an owner of its own."""
        lock = self.client.get_lock(self.lock.name, owner=self.client.new_owner())
        while not await call(lock.try_lock):  # noqa: ASYNC110 - as its users would
            await asyncio.sleep(0.005)
        outcome = await self.be_inside()
        await call(lock.unlock)
        return outcome

    async def in_one_call(self, call: Call) -> str:
        def work() -> str:
            with self.lock.hold(wait_time=20):
                return asyncio.run(self.be_inside())

        return str(await call(work))


@pytest.fixture
def tasks(valkey: Server, unique_name: str) -> Iterator[Tasks]:
    require("asgiref", "anyio")
    with Redisson.from_url(valkey.url, config=Config(lock_watchdog_timeout=1.5)) as client:
        tasks = Tasks(client, unique_name)
        yield tasks
        # What calls have left is not renewed, once their contexts are gone.
        until(lambda: gc.collect() >= 0 and not tasks.lock.is_locked(), 10, what="nothing is held")


async def gather(work: Callable[[], Awaitable[str]], count: int) -> list[str]:
    return list(await asyncio.gather(*(work() for _ in range(count))))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("warm", [False, True], ids=["", "after a use in the parent"])
async def test_tasks_that_lock_and_unlock_call_by_call_are_never_inside_at_once(tasks, way, warm):
    call = way_of(way)
    if warm:  # All the tasks inherit the context of that.
        await tasks.in_one_call(call)
    outcomes = await gather(partial(tasks.call_by_call, call), 3)
    for outcome in outcomes:  # The error says what to use instead.
        assert outcome in ("released", "not acquired") or ("hold()" in outcome and "owner=" in outcome), outcome
    if way == "sensitive":  # asgiref brings the changes of the context back: there the two calls belong together.
        assert outcomes == ["released"] * 3


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", ["by_stack", "by_owner", "in_one_call"])
async def test_tasks_exclude_each_other_in_the_forms_that_are_meant(tasks, way, form):
    assert await gather(partial(getattr(tasks, form), way_of(way)), 6) == ["released"] * 6
