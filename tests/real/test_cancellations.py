"""Under asyncio a cancellation reaches the task that is cancelled, though what redis-py awaits may drop it.

Before Python 3.12 ``asyncio.wait_for`` returns a result that came together with a cancellation, and forgets that. Where
a task goes on then, ``asyncio.run`` waits for it for ever.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
import redis
import redis.asyncio

from pyredisson.asyncio.connections import Beside, link_to
from pyredisson.link import Link
from tests.servers import Server
from tests.waiting import until


class Deaf(redis.asyncio.Connection):
    """Drops a cancellation that comes while it connects."""

    async def connect(self) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(3600)
        await super().connect()  # type: ignore[no-untyped-call]


class Special(redis.asyncio.Connection):
    """One that we cannot make by ourselves: it stays the user's."""


def clients_of(direct: redis.Redis) -> int:
    return sum(each["name"] == "deaf" for each in direct.client_list())


def borrowed(server: Server, kind: type[Any] = Deaf) -> Callable[[], Link]:
    settings: dict[str, Any] = {"host": "127.0.0.1", "port": server.port, "client_name": "deaf"}
    return link_to(redis.asyncio.Redis(connection_pool=redis.asyncio.ConnectionPool(connection_class=kind, **settings)))


def own(server: Server) -> Callable[[], Link]:
    made = link_to(redis.asyncio.Redis(host="127.0.0.1", port=server.port, client_name="deaf"))

    def link() -> Link:
        result: Any = made()
        result._class = Deaf
        return result  # type: ignore[no-any-return]

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


@pytest.mark.parametrize("way", [own, borrowed])
def test_while_a_subscriber_connects(
    valkey: Server, direct: redis.Redis, way: Callable[[Server], Callable[[], Link]]
) -> None:
    """And the connection that was made all the same is closed."""

    async def use() -> None:
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


def test_while_a_borrowed_stream_is_read(valkey: Server) -> None:
    async def use() -> None:
        link = borrowed(valkey, Special)()
        stream = await link.stream(5.0)
        running = 0
        for turns in range(6):

            async def read(turns: int = turns) -> Any:
                asyncio.get_running_loop().call_soon(stream.wake)
                return await stream.read(60)

            running += await cancelled(read(), turns)
            await cancelled(stream.read(0), 3)
        assert 2 <= running < 6, "at some of these moments it has just been woken, and at some it is over"
        stream.close()
        link.close()

    asyncio.run(use())


def test_while_one_of_several_is_waited_for() -> None:
    async def use() -> None:
        for turns in range(8):

            async def answer() -> int:
                with suppress(asyncio.CancelledError):
                    for _ in range(4):
                        await asyncio.sleep(0)
                return 1

            beside = Beside(answer())
            await cancelled(beside.take(), turns)
            beside.drop()

    asyncio.run(use())
