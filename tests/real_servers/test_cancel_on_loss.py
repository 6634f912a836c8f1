"""``hold(cancel_on_loss=True)``: the body is cancelled when the lock is lost, and nothing else is, nor stays cancelled.

The task's cancellations are counted as ``asyncio.timeout`` counts them: what this block asked for it takes back, and
what others asked for is theirs.
"""

# ruff: noqa: PT012  # How a block ends is what is tested, so the block is inside.

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
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
        inside: Set when the body has begun.
        go_on: What it waits for.
    """

    def __init__(self, client: pyredisson.asyncio.Redisson, name: str, direct: redis.Redis) -> None:
        self.client = client
        self.lock = client.get_lock(name)
        self.direct = direct
        self.inside = asyncio.Event()
        self.go_on = asyncio.Event()

    def hold(self) -> Any:
        return self.lock.hold(cancel_on_loss=True)

    async def sleep(self) -> None:
        self.inside.set()
        await self.go_on.wait()

    async def lose(self) -> None:
        """Another task forces the lock open: its holder is told at once."""
        await asyncio.wait_for(self.inside.wait(), 10)
        assert await self.lock.force_unlock()

    def at_the_loss(self, call: Callable[[], object], first: str) -> None:
        """Make a call in the same turn as the loss is reported: after that if ``first`` is "loss", else before."""
        [ownership] = self.client._core.ownerships.held()
        told = ownership.on_loss
        ownership.on_loss = (*told, call) if first == "loss" else (call, *told)

    async def run(self, body: Callable[[], Awaitable[Any]]) -> asyncio.Task[Any]:
        """Run a body until the lock was lost, and to its end."""
        task = asyncio.ensure_future(body())
        await self.lose()
        await asyncio.wait({task}, timeout=10)
        assert task.done(), "it goes on"
        return task


Play = Callable[[Scene], Awaitable[None]]
Played = Callable[[Play], None]


def cancelling() -> int:
    task = asyncio.current_task()
    return task.cancelling() if sys.version_info >= (3, 11) and task is not None else 0


@pytest.fixture
def played(valkey: Server, direct: redis.Redis, unique_name: str) -> Played:
    """``played(play)`` runs a coroutine function with a scene."""

    @asynccontextmanager
    async def scene() -> AsyncIterator[Scene]:
        config = Config(lock_watchdog_timeout=60.0, timeout=20.0)
        async with pyredisson.asyncio.Redisson.from_url(valkey.url, config=config) as client:
            await client.get_lock(unique_name).is_locked()
            yield Scene(client, unique_name, direct)

    def run(play: Play) -> None:
        async def main() -> None:
            async with scene() as each:
                await play(each)

        asyncio.run(main())

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
def test_the_holder_whose_own_call_finds_the_loss_is_not_cancelled(played: Played, find: Play) -> None:
    async def play(scene: Scene) -> None:
        with pytest.raises(LockLostError):
            async with scene.hold():
                await find(scene)
        assert cancelling() == 0
        await asyncio.sleep(0)

    played(play)


@counts_cancellations
def test_a_task_group_reports_the_loss(played: Played) -> None:
    async def play(scene: Scene) -> None:
        async def work() -> None:
            async with scene.hold():
                await _an_inner_block(scene)

        with pytest.raises(BaseException) as raised:
            async with asyncio.TaskGroup() as group:  # type: ignore[attr-defined]
                _ = group.create_task(work())
        assert [type(error) for error in raised.value.exceptions] == [LockLostError]  # type: ignore[attr-defined]

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
def test_a_loss_is_a_loss_however_the_body_ends(played: Played, body: Play) -> None:
    async def play(scene: Scene) -> None:
        async def work() -> None:
            with pytest.raises(LockLostError):
                async with scene.hold():
                    await body(scene)
            assert cancelling() == 0
            await asyncio.sleep(0)

        (await scene.run(work)).result()

    played(play)


@each_body
def test_a_loss_is_a_loss_in_a_task_that_was_cancelled_before(played: Played, body: Play) -> None:
    async def play(scene: Scene) -> None:
        async def work() -> None:
            task = asyncio.current_task()
            assert task is not None
            asyncio.get_running_loop().call_soon(task.cancel)
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(60)
            before = cancelling()
            with pytest.raises(LockLostError):
                async with scene.hold():
                    await body(scene)
            assert cancelling() == before

        (await scene.run(work)).result()

    played(play)


@counts_cancellations
def test_a_time_limit_after_a_loss_that_was_turned_into_another_error(played: Played) -> None:
    async def play(scene: Scene) -> None:
        async def work() -> None:
            async with asyncio.timeout(0.2):  # type: ignore[attr-defined]
                with pytest.raises(ZeroDivisionError):
                    async with scene.hold():
                        try:
                            await scene.sleep()
                        except asyncio.CancelledError:
                            raise ZeroDivisionError from None
                await asyncio.sleep(60)

        task = await scene.run(work)
        assert isinstance(task.exception(), TimeoutError)

    played(play)


@counts_cancellations
def test_a_loss_after_a_task_group_that_failed(played: Played) -> None:
    """Before Python 3.13 that leaves the task with a cancellation counted."""

    async def play(scene: Scene) -> None:
        async def fail() -> None:
            raise ZeroDivisionError

        async def work() -> None:
            with pytest.raises(BaseException):  # noqa: B017
                async with asyncio.TaskGroup() as group:  # type: ignore[attr-defined]
                    _ = group.create_task(fail())
                    await asyncio.sleep(60)
            with pytest.raises(LockLostError):
                async with scene.hold():
                    await scene.sleep()

        (await scene.run(work)).result()

    played(play)


@each_body
def test_nested_blocks_that_are_lost_at_once(played: Played, body: Play) -> None:
    async def play(scene: Scene) -> None:
        async def work() -> None:
            with pytest.raises(LockLostError):
                async with scene.hold(), scene.hold():
                    await body(scene)
            assert cancelling() == 0
            await asyncio.sleep(0)

        (await scene.run(work)).result()

    played(play)


# ---- cancellations requested by others stay --------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["loss", "outside"])
@each_body
def test_a_cancellation_from_outside_in_the_same_turn(played: Played, body: Play, first: str) -> None:
    if first == "loss" and sys.version_info < (3, 11) and body is not _swallows_it:
        pytest.skip("Python 3.10 does not count cancellations: see docs/explanation/safety.md")

    async def play(scene: Scene) -> None:
        left: list[BaseException] = []

        async def work() -> None:
            try:
                async with scene.hold():
                    await body(scene)
            except BaseException as error:
                left.append(error)
                raise

        task = asyncio.ensure_future(work())
        await asyncio.wait_for(scene.inside.wait(), 10)

        def cancel() -> None:
            assert task.cancel()

        scene.at_the_loss(cancel, first)
        assert await scene.lock.force_unlock()
        await asyncio.wait({task}, timeout=10)
        swallowed = body is _swallows_it  # Then there is none on its way any more that could go on.
        assert isinstance(left[0], LockLostError if swallowed else asyncio.CancelledError)
        if sys.version_info >= (3, 11):
            assert task.cancelling() == 1

    played(play)


@counts_cancellations
@pytest.mark.parametrize("first", ["loss", "limit"])
def test_a_time_limit_around_that_is_over_in_the_same_turn(played: Played, first: str) -> None:
    async def play(scene: Scene) -> None:
        async def work() -> None:
            limit = asyncio.timeout(None)  # type: ignore[attr-defined]
            with pytest.raises(TimeoutError):
                async with limit, scene.hold():
                    scene.at_the_loss(limit._on_timeout, first)
                    await scene.sleep()
            assert cancelling() == 0
            await asyncio.sleep(0)

        (await scene.run(work)).result()

    played(play)


@counts_cancellations
@pytest.mark.parametrize("first", ["loss", "limit"])
def test_a_time_limit_inside_that_is_over_in_the_same_turn(played: Played, first: str) -> None:
    """The block ends with the loss: its own cancellation goes past the limit, as any other would."""

    async def play(scene: Scene) -> None:
        async def work() -> None:
            with pytest.raises(LockLostError):
                async with scene.hold():
                    async with asyncio.timeout(None) as limit:  # type: ignore[attr-defined]
                        scene.at_the_loss(limit._on_timeout, first)
                        await scene.sleep()
            assert cancelling() == 0
            await asyncio.sleep(0)

        (await scene.run(work)).result()

    played(play)


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
def test_a_limit_of_anyio_stays_what_it_is(played: Played, where: str) -> None:
    async def play(scene: Scene) -> None:
        with pytest.raises(TimeoutError):
            async with limited(scene, where, 0.05):
                await anyio.sleep(60)
        assert cancelling() == 0
        await asyncio.sleep(0)
        assert not await scene.lock.is_locked()

    played(play)


@pytest.mark.parametrize("where", ["around", "inside"])
def test_a_loss_under_a_limit_of_anyio(played: Played, where: str) -> None:
    async def play(scene: Scene) -> None:
        async def work() -> None:
            with pytest.raises(LockLostError):
                async with limited(scene, where, 60):
                    await scene.sleep()
            assert cancelling() == 0
            await asyncio.sleep(0)

        (await scene.run(work)).result()

    played(play)


@pytest.mark.parametrize("first", ["loss", "limit"])
def test_a_limit_of_anyio_around_that_is_over_in_the_same_turn(played: Played, first: str) -> None:
    async def play(scene: Scene) -> None:
        async def work() -> None:
            with anyio.CancelScope() as scope:
                async with scene.hold():
                    scene.at_the_loss(scope.cancel, first)
                    await scene.sleep()
            assert scope.cancelled_caught
            assert cancelling() == 0
            await asyncio.sleep(0)

        (await scene.run(work)).result()

    played(play)
