"""``lock.extend()``: the holder prolongs its lease."""

from __future__ import annotations

import pytest

from pyredisson import ClientClosedError, LockLostError, LockNotOwnedError
from tests.promises.kinds import handle, lock_of
from tests.worlds.base import Actor, Remote, World
from tests.worlds.environments import each_runtime, sync_and_async

KINDS = ["lock", "fair_lock", "fenced_lock", "spin_lock", "token_lock", "read_lock", "write_lock", "multi_lock"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_lease_is_prolonged_and_never_shortened(world: World, client: Remote, alice: Actor, kind: str) -> None:
    mine = handle(alice, client, kind)
    mine.lock(lease_time=5)
    assert mine.extend(60)
    assert 55 < mine.remain_time_to_live() <= 60 if kind != "multi_lock" else mine.validity() > 55
    assert mine.extend(20)
    assert mine.remain_time_to_live() > 50 if kind != "multi_lock" else mine.validity() > 50
    mine.unlock()
    assert not mine.is_locked()


@each_runtime
def test_a_block_knows_it_and_lasts_longer(world: World, client: Remote, mine: Remote) -> None:
    with mine.hold(lease_time=1) as lease:
        assert world.actor().do(lease.extend, 60)
        assert lease.remaining() > 50
        world.pass_time(1.5)
        lease.ensure_held()


@each_runtime
def test_a_quorum_is_extended_within_its_validity(world: World) -> None:
    lock = Remote(lock_of(world, "red_lock"), world.actor())
    lock.lock(lease_time=5)
    before = lock.validity()
    assert lock.extend(30)
    assert lock.validity() > before + 20
    lock.unlock()


@each_runtime
@pytest.mark.parametrize("kind", ["lock", "token_lock", "multi_lock"])
def test_who_does_not_hold_it_cannot_extend_it(client: Remote, alice: Actor, bob: Actor, kind: str) -> None:
    mine, theirs = handle(alice, client, kind), handle(bob, client, kind)
    with pytest.raises(LockNotOwnedError, match="is not held by"):
        mine.extend(5)
    mine.lock()
    with pytest.raises(LockNotOwnedError, match="is not held by"):
        theirs.extend(5)


@each_runtime
@pytest.mark.parametrize("kind", ["lock", "token_lock", "write_lock"])
def test_a_lost_lock_is_not_extended(world: World, client: Remote, alice: Actor, kind: str) -> None:
    mine = handle(alice, client, kind)
    mine.lock()
    world.redis.delete("orders")
    with pytest.raises(LockLostError):
        mine.extend(60)
    with pytest.raises(LockLostError):
        mine.unlock()


@each_runtime
def test_an_extension_of_a_closed_client_is_refused(client: Remote, mine: Remote) -> None:
    mine.lock()
    client.close()
    with pytest.raises(ClientClosedError):
        mine.extend(5)


@sync_and_async
def test_the_token_of_a_token_lock_is_that_of_its_holder(
    world: World, client: Remote, alice: Actor, bob: Actor
) -> None:
    mine, theirs = handle(alice, client, "token_lock"), handle(bob, client, "token_lock")
    seen: list[str | None] = []
    alice.do(lambda: seen.append(mine.real.token))
    mine.lock()
    bob.do(lambda: seen.append(theirs.real.token))
    assert seen == [None, None]
    alice.do(lambda: seen.append(mine.real.token))
    assert world.redis.everything()["orders"] == ("string", seen[2])


@each_runtime
def test_a_permit_of_a_block_is_extended(world: World, client: Remote, alice: Actor) -> None:
    with handle(alice, client, "permit_expirable_semaphore", permits=1).hold(lease_time=1) as lease:
        assert alice.do(lease.extend, 60)
        world.pass_time(1.5)
        lease.ensure_held()
    with handle(alice, client, "semaphore", "seats", permits=1).hold() as lease:
        assert alice.do(lease.extend, 60)
    with pytest.raises(LockLostError, match="its block has already been left"):
        alice.do(lease.extend, 60)
