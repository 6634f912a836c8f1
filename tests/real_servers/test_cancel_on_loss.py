"""``hold(cancel_on_loss=True)``: the body is cancelled when the lock is lost, and nothing else is, nor stays cancelled.

The task's cancellations are counted as ``asyncio.timeout`` counts them: what this block asked for it takes back, and
what others asked for is theirs.
"""

# ruff: noqa: PT012  # How a block ends is what is tested, so the block is inside.

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any

import anyio
import pytest
import redis

import pyredisson.asyncio
from pyredisson import Config, LockLostError
from tests.servers import Server

counts_cancellations = pytest.mark.skipif(sys.version_info < (3, 11), reason="tasks count cancellations from 3.11 on")


class Scene:
    """A task in whose body the lock is lost.

    Attributes:
        client: The client that holds it.
        lock: The lock.
        direct: The server.
        inside: Set when the body has begun.
    """

    def __init__(self, client: pyredisson.asyncio.Redisson, name: str, direct: redis.Redis) -> None:
        self.client = client
        self.lock = client.get_lock(name)
        self.direct = direct
        self.inside = asyncio.Event()

    def hold(self) -> Any:
        return self.lock.hold(cancel_on_loss=True)

    async def sleep(self) -> None:
        self.inside.set()
        await asyncio.Event().wait()

    def at_the_loss(self, call: Callable[[], object], first: str) -> None:
        """Make a call in the same turn as the loss is reported: after that if ``first`` is "loss", else before."""
        [ownership] = self.client._core.ownerships.held()
        told, mine = ownership.on_loss, {call: ownership.holds[-1]}
        ownership.on_loss = told | mine if first == "loss" else mine | told

    async def lose(self, task: asyncio.Task[None]) -> None:
        """Force the lock open, as soon as the body of a task has begun, and wait until the task has ended."""
        await asyncio.wait_for(self.inside.wait(), 10)
        assert await self.lock.force_unlock()
        await asyncio.wait({task}, timeout=10)
        assert task.done(), "it goes on"


Play = Callable[[Scene], Awaitable[None]]
Run = Callable[[Play], None]


def cancelling() -> int:
    task = asyncio.current_task()
    return task.cancelling() if sys.version_info >= (3, 11) and task is not None else 0


@contextmanager
def ends_with(error: type[BaseException]) -> Iterator[None]:
    """The block ends with this error, and leaves no cancellation counted."""
    before = cancelling()
    with pytest.raises(error):
        yield
    assert cancelling() == before


@pytest.fixture
def played(valkey: Server, direct: redis.Redis, unique_name: str) -> Run:
    """``played(play)`` runs a coroutine function with a scene."""

    def run(play: Play) -> None:
        async def main() -> None:
            config = Config(lock_watchdog_timeout=60.0, timeout=20.0)
            async with pyredisson.asyncio.Redisson.from_url(valkey.url, config=config) as client:
                await client.get_lock(unique_name).is_locked()
                await play(Scene(client, unique_name, direct))
                await asyncio.sleep(0)

        asyncio.run(main())

    return run


@pytest.fixture
def lost(played: Run) -> Run:
    """``lost(work)`` runs it in a task, in whose body the lock is lost: another task forces it open."""

    def run(work: Play) -> None:
        async def play(scene: Scene) -> None:
            async def in_task() -> None:
                await work(scene)
                await asyncio.sleep(0)

            task = asyncio.ensure_future(in_task())
            await scene.lose(task)
            task.result()

        played(play)

    return run


# ---- the running task is never cancelled -----------------------------------------------------------------------------


async def _an_inner_block(scene: Scene) -> None:
    async with scene.lock:
        scene.direct.delete(scene.lock.name)


async def _an_inner_block_that_is_caught(scene: Scene) -> None:
    with pytest.raises(LockLostError):
        await _an_inner_block(scene)
    await asyncio.sleep(0)


async def _an_unlock(scene: Scene) -> None:
    await scene.lock.lock()
    scene.direct.delete(scene.lock.name)
    with pytest.raises(LockLostError):
        await scene.lock.unlock()
    await asyncio.sleep(0)


async def _a_reentry(scene: Scene) -> None:
    scene.direct.delete(scene.lock.name)
    await scene.lock.lock()


FINDINGS = [_an_inner_block, _an_inner_block_that_is_caught, _an_unlock, _a_reentry]


@pytest.mark.parametrize("find", FINDINGS, ids=lambda find: find.__name__[1:])
def test_the_holder_whose_own_call_finds_the_loss_is_not_cancelled(played, find):
    async def play(scene):
        with ends_with(LockLostError):
            async with scene.hold():
                await find(scene)

    played(play)


@counts_cancellations
def test_a_task_group_reports_the_loss(played):
    async def play(scene):
        async def work():
            async with scene.hold():
                await _an_inner_block(scene)

        with pytest.raises(BaseException) as raised:
            async with asyncio.TaskGroup() as group:
                _ = group.create_task(work())
        assert [type(error) for error in raised.value.exceptions] == [LockLostError]

    played(play)


# ---- a cancellation requested by the lease is withdrawn --------------------------------------------------------------


async def _lets_it_pass(scene: Scene) -> None:
    await scene.sleep()


async def _swallows_it(scene: Scene) -> None:
    try:
        await scene.sleep()
    except asyncio.CancelledError:
        await asyncio.sleep(0)


async def _awaits_another_task(scene: Scene) -> None:
    await asyncio.ensure_future(scene.sleep())


async def _gathers(scene: Scene) -> None:
    await asyncio.gather(scene.sleep(), asyncio.sleep(60))


async def _waits_for(scene: Scene) -> None:
    await asyncio.wait_for(scene.sleep(), 60)


BODIES = [_lets_it_pass, _swallows_it, _awaits_another_task, _gathers, _waits_for]
each_body = pytest.mark.parametrize("body", BODIES, ids=lambda body: body.__name__[1:])


@each_body
@pytest.mark.parametrize("blocks", [1, 2], ids=["", "nested"])
@pytest.mark.parametrize("cancelled", [False, True], ids=["", "cancelled before"])
def test_a_loss_is_a_loss_however_the_body_ends(lost, body, blocks, cancelled):
    async def work(scene):
        if cancelled:
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel)
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(60)
        with ends_with(LockLostError):
            async with AsyncExitStack() as stack:
                for _ in range(blocks):
                    await stack.enter_async_context(scene.hold())
                await body(scene)

    lost(work)


@counts_cancellations
def test_a_time_limit_after_a_loss_that_was_turned_into_another_error(lost):
    async def work(scene):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                with pytest.raises(ZeroDivisionError):
                    async with scene.hold():
                        try:
                            await scene.sleep()
                        except asyncio.CancelledError:
                            raise ZeroDivisionError from None
                await asyncio.sleep(60)

    lost(work)


@counts_cancellations
def test_a_loss_after_a_task_group_that_failed(lost):
    """Before Python 3.13 that leaves the task with a cancellation counted."""

    async def fail():
        raise ZeroDivisionError

    async def work(scene):
        with pytest.raises(BaseException):  # noqa: B017
            async with asyncio.TaskGroup() as group:
                _ = group.create_task(fail())
                await asyncio.sleep(60)
        with pytest.raises(LockLostError):
            async with scene.hold():
                await scene.sleep()

    lost(work)


# ---- cancellations requested by others stay --------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["loss", "outside"])
@each_body
def test_a_cancellation_from_outside_in_the_same_turn(played, body, first):
    if first == "loss" and sys.version_info < (3, 11) and body is not _swallows_it:
        pytest.skip("Python 3.10 does not count cancellations: see docs/explanation/safety.md")

    async def play(scene):
        left = []

        async def work():
            try:
                async with scene.hold():
                    await body(scene)
            except BaseException as error:
                left.append(error)
                raise

        task = asyncio.ensure_future(work())
        await asyncio.wait_for(scene.inside.wait(), 10)

        def cancel():
            assert task.cancel()

        scene.at_the_loss(cancel, first)
        await scene.lose(task)
        swallowed = body is _swallows_it  # Then there is none on its way any more that could go on.
        assert isinstance(left[0], LockLostError if swallowed else asyncio.CancelledError)
        if sys.version_info >= (3, 11):
            assert task.cancelling() == 1

    played(play)


@counts_cancellations
@pytest.mark.parametrize("first", ["loss", "limit"])
@pytest.mark.parametrize("where", ["around", "inside"])
def test_a_time_limit_that_is_over_in_the_same_turn(lost, first, where):
    """Inside, the block ends with the loss: its own cancellation goes past the limit, as any other would."""

    async def work(scene):
        limit = asyncio.timeout(None)
        blocks = (limit, scene.hold()) if where == "around" else (scene.hold(), limit)
        with ends_with(TimeoutError if where == "around" else LockLostError):
            async with blocks[0], blocks[1]:
                scene.at_the_loss(limit._on_timeout, first)
                await scene.sleep()

    lost(work)


@asynccontextmanager
async def limited(scene: Scene, where: str, seconds: float) -> AsyncIterator[None]:
    """A block of the lock, and a limit of anyio around it or inside it."""
    if where == "around":
        with anyio.fail_after(seconds):
            async with scene.hold():
                yield
    else:
        async with scene.hold():
            with anyio.fail_after(seconds):
                yield


@pytest.mark.parametrize("where", ["around", "inside"])
def test_a_limit_of_anyio_stays_what_it_is(played, where):
    async def play(scene):
        with ends_with(TimeoutError):
            async with limited(scene, where, 0.05):
                await anyio.sleep(60)
        assert not await scene.lock.is_locked()

    played(play)


@pytest.mark.parametrize("where", ["around", "inside"])
def test_a_loss_under_a_limit_of_anyio(lost, where):
    async def work(scene):
        with ends_with(LockLostError):
            async with limited(scene, where, 60):
                await scene.sleep()

    lost(work)


@pytest.mark.parametrize("first", ["loss", "limit"])
def test_a_limit_of_anyio_around_that_is_over_in_the_same_turn(lost, first):
    async def work(scene):
        with anyio.CancelScope() as scope:
            async with scene.hold():
                scene.at_the_loss(scope.cancel, first)
                await scene.sleep()
        assert scope.cancelled_caught
        assert cancelling() == 0

    lost(work)
