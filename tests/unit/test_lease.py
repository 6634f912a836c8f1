"""A lease says for how long its hold is certain, and asks nobody."""

from __future__ import annotations

import pytest

from pyredisson.core.deadline import certain_for
from pyredisson.core.ownership.hold import Hold
from pyredisson.core.ownership.ownership import Ownership
from pyredisson.errors import LockLostError
from pyredisson.lease import Lease
from tests.unit.fake import FakeOwner, FakeRuntime


@pytest.fixture
def world() -> FakeRuntime:
    return FakeRuntime()


@pytest.fixture
def ownership(world: FakeRuntime) -> Ownership:
    return Ownership(("orders", "client:1"), FakeOwner(), world)


def take(ownership: Ownership, world: FakeRuntime) -> Lease:
    level = Hold(10_000, watchdog=True, block=True)
    assert ownership.granted(ownership.begin_acquire(level).request_id, level, world.now() + certain_for(10_000))
    return Lease(ownership, level, world)


@pytest.fixture
def lease(ownership: Ownership, world: FakeRuntime) -> Lease:
    return take(ownership, world)


def test_time_goes_by(lease: Lease, world: FakeRuntime) -> None:
    assert lease.remaining() == pytest.approx(10 - 0.1 - 0.002)
    world.pass_time(4)
    assert lease.remaining() == pytest.approx(6 - 0.1 - 0.002)
    assert not lease.lost
    lease.ensure_held()


def test_past_the_deadline_it_is_lost_without_a_report(lease: Lease, world: FakeRuntime) -> None:
    world.pass_time(certain_for(10_000))
    assert lease.remaining() == 0.0
    assert lease.lost
    with pytest.raises(LockLostError, match="lease expired") as caught:
        lease.ensure_held()
    assert caught.value.name == "orders"


def test_a_reported_loss_counts_at_once(lease: Lease, ownership: Ownership) -> None:
    ownership.lose("it was force-unlocked")
    assert lease.remaining() == 0.0
    assert lease.lost
    with pytest.raises(LockLostError, match="force-unlocked"):
        lease.ensure_held()


def test_renewal_makes_it_grow(lease: Lease, ownership: Ownership, world: FakeRuntime) -> None:
    world.pass_time(5)
    ownership.renewed(ownership.generation, world.now(), 10_000)
    assert lease.remaining() == pytest.approx(certain_for(10_000))


def test_lost_is_final(lease: Lease, ownership: Ownership, world: FakeRuntime) -> None:
    ownership.lose("gone")
    ownership.renewed(ownership.generation, world.now(), 10_000)
    assert lease.lost


def test_a_hold_acquired_after_the_loss_is_another(lease: Lease, ownership: Ownership, world: FakeRuntime) -> None:
    ownership.lose("it was force-unlocked")
    ownership.begin_release()
    again = take(ownership, world)
    assert again.remaining() > 9
    assert not again.lost
    assert lease.lost
    assert lease.remaining() == 0.0
    with pytest.raises(LockLostError):
        lease.ensure_held()


def test_so_is_one_after_the_owner_forced_it_open_itself(
    lease: Lease, ownership: Ownership, world: FakeRuntime
) -> None:
    ownership.begin_force()
    ownership.clear()
    take(ownership, world)
    assert lease.remaining() == 0.0


def test_nested_holds_share_the_latest_deadline(lease: Lease, ownership: Ownership, world: FakeRuntime) -> None:
    world.pass_time(5)
    inner = take(ownership, world)
    assert lease.remaining() == inner.remaining() == pytest.approx(certain_for(10_000))
    turn = ownership.begin_release()[0]
    ownership.released(turn, 0.0)
    assert inner.remaining() == 0.0
    assert lease.remaining() == pytest.approx(certain_for(10_000))


def test_after_its_block_it_holds_nothing_and_is_not_called_lost(lease: Lease) -> None:
    lease._end()
    assert lease.remaining() == 0.0
    assert not lease.lost
    with pytest.raises(LockLostError, match="block has already been left"):
        lease.ensure_held()


def test_callbacks_are_called_at_the_loss(lease: Lease, ownership: Ownership, world: FakeRuntime) -> None:
    told: list[str] = []
    lease._when_lost(lambda: told.append("first"))
    other = take(ownership, world)
    other._when_lost(lambda: told.append("second"))
    lease._end()
    for each in ownership.on_loss:
        each()
    assert told == ["second"]


def test_it_shows_its_state(lease: Lease, ownership: Ownership) -> None:
    assert repr(lease) == "<Lease of 'orders': 9.898 s>"
    ownership.lose("gone")
    assert repr(lease) == "<Lease of 'orders': lost>"
    lease._end()
    assert repr(lease) == "<Lease of 'orders': ended>"


def test_the_token_is_what_it_was_given(lease: Lease, ownership: Ownership) -> None:
    assert lease.token is None
    ownership.holds[0].token = 33
    assert lease.token == 33
