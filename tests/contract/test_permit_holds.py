"""``with semaphore.hold()``: permits that belong to a block, and a permit that is renewed as long as its block runs."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
from typing import Any

import pytest

from pyredisson import ClientClosedError, LockError, LockLostError, LockTimeoutError, events
from tests.worlds.asyncio import AsyncioWorld
from tests.worlds.base import Actor, Remote, World
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import asyncio_only, each_runtime, sync_and_async, threads_only

SHORT = 1.5  # a watchdog's timeout, where a loss is waited for
LONG = 2.4  # one that a busy machine keeps
CHANNEL = "redisson_sc:{seats}"
TAKEN = "{seats}:timeout"
KINDS = ["semaphore", "permit_expirable_semaphore"]

each_kind = pytest.mark.parametrize("kind", KINDS)


def seats(actor: Actor, client: Remote, kind: str = "permit_expirable_semaphore", permits: int | None = None) -> Remote:
    return actor.get(client, kind, "seats", permits=permits)


def ends_at(world: World) -> float:
    """When the only permit that is taken expires, in ms of the server's clock."""
    (score,) = world.redis.everything()[TAKEN][1].values()
    return float(score)


# ---- both kinds ------------------------------------------------------------------------------------------------------


@each_kind
def test_a_block_holds_a_permit(world: World, kind: str) -> None:
    mine = seats(world.actor(), world.client(), kind, 2)
    with mine.hold() as lease:
        assert mine.available_permits() == 1
        lease.ensure_held()
        assert not lease.lost
        assert lease.token is None
        assert lease.remaining() > 0
        assert "seats" in repr(lease)
    assert mine.available_permits() == 2
    assert lease.remaining() == 0
    assert not lease.lost
    with pytest.raises(LockLostError, match="its block has already been left"):
        lease.ensure_held()


def test_permits_that_do_not_expire_are_certain_without_end(world: World) -> None:
    mine = seats(world.actor(), world.client(), "semaphore", 3)
    with mine.hold(2) as lease:
        assert lease.remaining() == math.inf
        assert mine.available_permits() == 1
    with mine.hold(0) as lease:
        assert mine.available_permits() == 3
    assert mine.available_permits() == 3


@each_kind
@pytest.mark.parametrize("wait", [0, 0.2])
def test_a_block_that_gets_no_permit_is_not_run(world: World, kind: str, wait: float) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    with seats(alice, client, kind, 1).hold():
        began = world.now()
        with pytest.raises(LockTimeoutError, match="seats") as refusal, seats(bob, client, kind).hold(wait_time=wait):
            pytest.fail("the block was run")
        assert 0.95 * wait <= world.now() - began < 5
        assert refusal.value.name == "seats"


@each_kind
def test_a_block_that_may_be_skipped_is_run_with_none(world: World, kind: str) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine, theirs = seats(alice, client, kind, 1), seats(bob, client, kind)
    with mine.hold():
        with theirs.hold(wait_time=0, skip=True) as lease:
            assert lease is None
        assert mine.available_permits() == 0
    with theirs.hold(wait_time=0, skip=True) as lease:
        assert lease is not None
    assert mine.available_permits() == 1


@each_kind
def test_a_block_waits_without_a_limit_by_default(world: World, kind: str) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine, theirs = seats(alice, client, kind, 1), seats(bob, client, kind)
    with mine.hold():
        entering = bob.start(theirs.hold().enter)
        world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
        assert not entering.done()
    entering.result(within=5).ensure_held()


@each_kind
def test_leaving_the_block_releases_the_permit(world: World, kind: str) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine = seats(alice, client, kind, 1)
    block = mine.hold()
    block.enter()
    assert mine.available_permits() == 0
    Remote(block.real, bob).__exit__(None, None, None)
    assert mine.available_permits() == 1


@each_kind
def test_an_exception_of_the_body_gives_the_permit_back(world: World, kind: str) -> None:
    mine = seats(world.actor(), world.client(), kind, 1)
    with pytest.raises(ZeroDivisionError), mine.hold():
        raise ZeroDivisionError
    assert mine.available_permits() == 1


@each_kind
def test_blocks_nest(world: World, kind: str) -> None:
    mine = seats(world.actor(), world.client(), kind, 2)
    with mine.hold(), mine.hold():
        assert mine.available_permits() == 0
    assert mine.available_permits() == 2


@each_runtime
@each_kind
def test_a_block_is_entered_once(world: World, kind: str) -> None:
    mine = seats(world.actor(), world.client(), kind, 2)
    block = mine.hold()
    with block:
        pass
    with pytest.raises(LockError, match="once"), block:
        pytest.fail("the block was run")
    assert mine.available_permits() == 2


@each_runtime
@each_kind
def test_arguments_are_checked_before_anything_is_sent(world: World, kind: str) -> None:
    mine = seats(world.actor(), world.client(), kind, 2)
    with pytest.raises(ValueError, match="wait_time"):
        mine.hold(wait_time=-1)
    with pytest.raises(TypeError, match="skip"):
        mine.hold(skip=0)
    if kind == "semaphore":
        with pytest.raises(ValueError, match="permits"):
            mine.hold(-1)
    else:
        with pytest.raises(ValueError, match="lease_time"):
            mine.hold(lease_time=0)
    assert set(world.redis.everything()) == set()


@each_runtime
@each_kind
def test_a_closed_client_raises_on_entering_and_on_leaving(world: World, kind: str) -> None:
    client = world.client()
    mine = seats(world.actor(), client, kind, 2)
    with pytest.raises(ClientClosedError), mine.hold():
        client.close()
    block = None
    with pytest.raises(ClientClosedError):
        block = mine.hold()
        block.enter()


@each_runtime
@each_kind
def test_an_interrupted_wait_acquires_nothing(world: World, kind: str) -> None:
    client = world.client()
    alice, me = world.actor(), world.interruptible()
    mine, theirs = seats(me, client, kind), seats(alice, client, kind, 1)
    with theirs.hold():
        block = mine.hold()
        error = me.interrupted(block.enter, once=lambda: world.redis.subscribers(CHANNEL) == 1)
        assert isinstance(error, (KeyboardInterrupt, asyncio.CancelledError))
        assert world.waiting(mine) == 0
    world.until(lambda: theirs.available_permits() == 1)


# ---- permits that are renewed ----------------------------------------------------------------------------------------


@each_runtime
def test_a_permit_without_a_lease_is_renewed_while_its_block_runs(world: World) -> None:
    mine = seats(world.actor(), world.client(lock_watchdog_timeout=LONG), permits=2)
    with mine.hold() as lease:
        first = ends_at(world)
        assert 0 < lease.remaining() <= LONG
        world.until(lambda: ends_at(world) > first)
        second = ends_at(world)
        world.until(lambda: ends_at(world) > second)
        lease.ensure_held()
    assert mine.available_permits() == 2


@each_runtime
def test_many_permits_are_renewed_by_one_request(world: World) -> None:
    rounds: list[events.Renewed] = []

    def listen(event: events.Event) -> None:
        if isinstance(event, events.Renewed):
            rounds.append(event)

    actor = world.actor()
    client = world.client(lock_watchdog_timeout=LONG, listeners=(listen,))
    blocks = [actor.get(client, "permit_expirable_semaphore", f"seats-{n}", permits=1).hold() for n in range(20)]
    for block in blocks:
        block.enter()
    world.until(lambda: any(event.locks == 20 and event.requests == 1 for event in rounds))
    for block in blocks:
        block.__exit__(None, None, None)


@each_runtime
def test_a_permit_with_a_lease_is_not_renewed_and_its_end_is_reported(world: World) -> None:
    lost: list[Any] = []
    alice = world.actor()
    client = world.client(on_lock_lost=lambda *told: lost.append(told), lock_watchdog_timeout=0.3)
    mine = seats(alice, client, permits=2)
    with pytest.raises(LockLostError, match="seats"), mine.hold(lease_time=0.5) as lease:
        world.until(lambda: lost)
        assert lease.lost
    assert lost == [("seats", alice.number)]
    world.until(lambda: mine.available_permits() == 2)


def test_leaving_says_that_the_permit_was_lost(world: World) -> None:
    mine = seats(world.actor(), world.client(), permits=2)
    with pytest.raises(LockLostError, match="a permit of 'seats' was lost") as loss, mine.hold():
        world.redis.delete(TAKEN)
    assert loss.value.name == "seats"
    assert "fencing" not in str(loss.value)
    with pytest.raises(ZeroDivisionError), mine.hold():
        world.redis.delete(TAKEN)
        raise ZeroDivisionError


@each_runtime
def test_the_body_can_see_that_the_permit_was_lost(world: World, caplog: pytest.LogCaptureFixture) -> None:
    lost: list[Any] = []
    alice = world.actor()
    client = world.client(lock_watchdog_timeout=SHORT, on_lock_lost=lambda *told: lost.append(told))
    mine = seats(alice, client, permits=2)
    with (
        caplog.at_level(logging.WARNING, logger="pyredisson.lock"),
        pytest.raises(LockLostError),
        mine.hold() as lease,
    ):
        world.redis.delete(TAKEN)
        world.until(lambda: lease.lost)
        assert lease.remaining() == 0
        with pytest.raises(LockLostError, match="released by its id"):
            lease.ensure_held()
    world.until(lambda: lost == [("seats", alice.number)])
    assert ["was lost" in record.getMessage() for record in caplog.records] == [True]


@each_runtime
def test_a_permit_released_from_outside_is_lost_and_released_once(world: World) -> None:
    alice, bob = world.actors(2)
    mine, theirs = seats(alice, world.client(), permits=2), seats(bob, world.client())
    with pytest.raises(LockLostError), mine.hold():
        (permit,) = world.redis.everything()[TAKEN][1]
        theirs.release(permit.hex())
    assert mine.available_permits() == 2


@sync_and_async
def test_a_collected_block_is_renewed_no_longer(world: ClockWorld, caplog: pytest.LogCaptureFixture) -> None:
    alice = world.actor()
    mine = seats(alice, world.client(lock_watchdog_timeout=4.0), permits=1)
    with caplog.at_level(logging.WARNING, logger="pyredisson.lock"):
        block = mine.hold()
        block.enter()
        del block
        alice.do(gc.collect)
        world.until(lambda: "dropped without leaving its block" in caplog.text)
    world.until(lambda: mine.available_permits() == 1)


# ---- generators that are closed --------------------------------------------------------------------------------------


@threads_only
@each_kind
def test_a_generator_that_is_closed_in_its_block_gives_the_permit_back(world: ClockWorld, kind: str) -> None:
    semaphore = getattr(world.client().real, f"get_{kind}")("seats", permits=1)

    def rows() -> Any:
        with semaphore.hold():
            yield 1
            yield 2

    for _ in rows():
        break
    gc.collect()
    assert semaphore.available_permits() == 1


@asyncio_only
@pytest.mark.parametrize(("kind", "block"), [*((kind, "hold") for kind in KINDS), ("semaphore", "with")])
def test_a_coroutine_that_is_closed_in_its_block_gives_the_permit_back(
    world: AsyncioWorld, kind: str, block: str
) -> None:
    semaphore = getattr(world.client().real, f"get_{kind}")("seats", permits=1)
    inside: list[bool] = []

    async def body() -> None:
        async with semaphore.hold() if block == "hold" else semaphore:
            inside.append(True)
            await asyncio.Event().wait()

    async def close() -> None:
        coroutine = body()
        while not inside:  # Driven by hand, since a task would not let go of it.
            future = coroutine.send(None)
            if future is not None and not inside:
                future._asyncio_future_blocking = False
                await asyncio.wait({future})
        coroutine.close()

    alice = world.actor()
    alice.do(close)
    world.until(lambda: alice.do(semaphore.available_permits) == 1)


@asyncio_only
@each_kind
def test_an_async_generator_that_is_closed_in_its_block_gives_the_permit_back(world: AsyncioWorld, kind: str) -> None:
    semaphore = getattr(world.client().real, f"get_{kind}")("seats", permits=1)

    async def rows() -> Any:
        async with semaphore.hold():
            yield 1
            yield 2

    async def read() -> None:
        generator = rows()
        async for _ in generator:
            break
        await generator.aclose()

    alice = world.actor()
    alice.do(read)
    world.until(lambda: alice.do(semaphore.available_permits) == 1)
