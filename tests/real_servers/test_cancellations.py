"""Under asyncio a cancellation reaches the task that is cancelled, though what redis-py awaits may drop it.

Before Python 3.12 ``asyncio.wait_for`` returns a result that came together with a cancellation, and forgets that. Where
a task goes on then, ``asyncio.run`` waits for it for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
import redis
import redis.asyncio

import pyredisson.asyncio
from pyredisson._asyncio.pipe import FORM, fan_out
from pyredisson._core.runtime import Runtime, ServerRequest
from pyredisson._net.urls import target_of
from pyredisson.config import Config
from tests.real_servers.observation import calls
from tests.servers import Server
from tests.waiting import soon, until


class Deaf(redis.asyncio.Connection):
    """Drops a cancellation that comes while it connects."""

    async def connect(self) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        await super().connect()


class Special(redis.asyncio.Connection):
    """One of the user's own class."""


def clients_of(direct: redis.Redis) -> int:
    return sum(each["name"] == "deaf" for each in direct.client_list())


def of_another_class(server: Server, kind: type[Any] = Deaf) -> Callable[[], Any]:
    settings: dict[str, Any] = {"host": "127.0.0.1", "port": server.port, "client_name": "deaf"}
    client = redis.asyncio.Redis(connection_pool=redis.asyncio.ConnectionPool(connection_class=kind, **settings))
    return target_of(client, Config(), FORM).link


def own(server: Server) -> Callable[[], Any]:
    client = redis.asyncio.Redis(host="127.0.0.1", port=server.port, client_name="deaf")
    made = target_of(client, Config(), FORM).link

    def link() -> Any:
        result: Any = made()
        result._class = Deaf
        return result

    return link


async def cancelled(work: Coroutine[Any, Any, Any], turns: int) -> bool:
    """Cancel it after so many turns of the loop. Returns whether it was still running then."""
    task = asyncio.ensure_future(work)
    for _ in range(turns):
        await asyncio.sleep(0)
    running = task.cancel()
    await asyncio.wait({task}, timeout=10)
    assert task.done(), "it goes on"
    assert task.cancelled() is running
    return running


@pytest.mark.parametrize("way", [own, of_another_class])
def test_while_a_subscriber_connects(valkey, direct, way):
    """And the connection that was made all the same is closed."""

    async def use():
        link = way(valkey)()
        assert await cancelled(link.stream(5.0), 3)
        for _ in range(500):
            await asyncio.sleep(0.01)
            if not clients_of(direct) and len(asyncio.all_tasks()) == 1:
                break
        assert len(asyncio.all_tasks()) == 1
        link.close()

    asyncio.run(use())
    until(lambda: clients_of(direct) == 0, what="nothing is connected")


async def test_while_a_stream_of_another_class_is_read(valkey):
    link = of_another_class(valkey, Special)()
    stream = await link.stream(5.0)
    running = 0
    for turns in range(6):

        async def read(turns=turns):
            asyncio.get_running_loop().call_soon(stream.wake)
            return await stream.read(60)

        running += await cancelled(read(), turns)
        await cancelled(stream.read(0), 3)
    assert 2 <= running < 6, "at some of these moments it has just been woken, and at some it is over"
    stream.close()
    link.close()


async def test_while_one_of_several_is_waited_for():
    for turns in range(8):

        async def answer():
            with suppress(asyncio.CancelledError):
                for _ in range(4):
                    await asyncio.sleep(0)
            return 1

        link = SimpleNamespace(eval=lambda *_, answer=answer: answer())
        ask = ServerRequest(cast("Runtime", SimpleNamespace(link=link)), b"", 1.0)
        await cancelled(fan_out([ask]), turns)


# ---- during a release ---------------------------------------------------------------------------------------------


class CountingLoop(asyncio.SelectorEventLoop):
    """Counts what it is asked to run: each wake-up of a task, among other things."""

    calls = 0

    def call_soon(self, *args: Any, **kwargs: Any) -> asyncio.Handle:
        self.calls += 1
        return super().call_soon(*args, **kwargs)


def in_counting_loop(work: Coroutine[Any, Any, None]) -> None:
    loop = CountingLoop()
    try:
        loop.run_until_complete(work)
    finally:
        loop.close()


@pytest.mark.parametrize("answered", [True, False], ids=["answered", "unanswered"])
async def test_while_the_place_in_a_queue_is_given_up(valkey, proxy, unique_name, answered):
    """The time of a fair lock's waiter is up, and it is cancelled before it has left the queue."""

    config = Config(timeout=20.0, lock_watchdog_timeout=60.0)
    holder = pyredisson.asyncio.Redisson.from_url(valkey.url, config=config)
    client = pyredisson.asyncio.Redisson.from_url(proxy.url, config=config)
    async with holder, client, holder.get_fair_lock(unique_name):
        lock = client.get_fair_lock(unique_name)
        await lock.is_locked()
        late = proxy.hold_request(calls("fair_release"), 1)
        task = asyncio.ensure_future(lock.try_lock(0.3))
        while not late.hits:  # noqa: ASYNC110 it is set by another thread
            await asyncio.sleep(0.001)
        assert task.cancel()
        await asyncio.sleep(0)
        if answered:
            late.release()
        await asyncio.wait({task}, timeout=10)
        assert task.cancelled()
        late.release()


@pytest.mark.parametrize("leaving", [True, False])
async def test_while_work_is_guarded(valkey, leaving):
    """The work is finished; and the cancellation is raised, unless its caller raises one anyway."""

    client = pyredisson.asyncio.Redisson.from_url(valkey.url)
    runtime = client._core.runtime
    go_on = asyncio.Event()

    async def work():
        await go_on.wait()
        return "finished"

    task = asyncio.ensure_future(runtime.guard(work(), 20.0, leaving=leaving))
    for _ in range(3):
        await asyncio.sleep(0)
        assert task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    await asyncio.wait({task}, timeout=10)
    assert task.cancelled() is not leaving
    assert not leaving or task.result() == "finished"
    await client.close()


async def test_while_a_client_is_closed(valkey, unique_name):
    """What it owes the server is done, and its tasks end."""

    client = pyredisson.asyncio.Redisson.from_url(valkey.url)
    done = asyncio.Event()

    async def work(timeout):
        await asyncio.sleep(0.01)
        done.set()

    assert not await client.get_lock(unique_name).is_locked()
    client._core.watchdog.do_later(work, client._core.runtime.now() + 60)
    task = asyncio.ensure_future(client.close())
    await asyncio.sleep(0)
    assert task.cancel()
    await asyncio.wait({task}, timeout=10)
    assert task.cancelled()
    assert done.is_set()
    await soon(lambda: len(asyncio.all_tasks()) == 1)


@pytest.mark.parametrize("step", ["acquire", "release"])
@pytest.mark.parametrize("kind", ["lock", "fair_lock", "semaphore"])
def test_under_anyio_the_loop_is_quiet_meanwhile(proxy, unique_name, kind, step):
    """It cancels again at each turn of the loop. Fifty tasks wait for a server that does not answer."""

    async def use():
        loop = asyncio.get_running_loop()
        assert isinstance(loop, CountingLoop)
        config = Config(timeout=20.0, lock_watchdog_timeout=60.0)
        async with pyredisson.asyncio.Redisson.from_url(proxy.url, config=config) as client:
            locks = [getattr(client, f"get_{kind}")(f"{unique_name}:{each}") for each in range(50)]
            await client.get_lock(unique_name).is_locked()
            if kind == "semaphore":
                for lock in locks:
                    await lock.try_set_permits(1)
            inside = 0

            async def hold(lock):
                nonlocal inside
                async with lock:
                    inside += 1
                    await anyio.sleep_forever()

            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as group:
                    if step == "acquire":
                        proxy.blackhole("down")
                    asked = proxy.requests
                    for lock in locks:
                        group.start_soon(hold, lock)
                    await soon(lambda: proxy.requests >= asked + len(locks))
                    if step == "release":
                        await soon(lambda: inside == len(locks))
                        proxy.blackhole("down")
                    before, began = loop.calls, loop.time()
                    scope.cancel()
            assert scope.cancelled_caught
            assert loop.time() - began < 10.0
            assert loop.calls - before < 5000  # a hundred a task

    in_counting_loop(use())
