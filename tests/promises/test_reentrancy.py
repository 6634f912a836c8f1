"""Whoever holds the lock may take it again, and gives it back as often; nobody's time is ever cut short."""

import pytest

from tests.promises.kinds import handle, not_owned


def test_a_stranger_cannot_unlock(world, client, alice, bob, mine):
    mine.lock()
    assert not alice.lock(world.client()).try_lock()
    for stranger in (bob.lock(client), bob.lock(world.client()), alice.lock(world.client())):
        not_owned(stranger.unlock)
    assert mine.get_hold_count() == 1


# ---- no lease is shortened ---------------------------------------------------------------------------------------


each_kind = pytest.mark.parametrize("kind", ["lock", "read_lock"])


@each_kind
@pytest.mark.parametrize("first", [None, 20], ids=lambda lease: f"outer-{lease}")
@pytest.mark.parametrize("second", [None, 5, 50], ids=lambda lease: f"inner-{lease}")
def test_neither_entering_nor_leaving_shortens_the_time_left(world, kind, first, second):
    """Redisson: a nested lease of a second lets another client in a second later."""
    mine = handle(world.actor(), world.client(lock_watchdog_timeout=30), kind)
    longest = max(30 if lease is None else lease for lease in (first, second))
    mine.lock(first)
    mine.lock(second)
    assert longest - 5 < mine.remain_time_to_live() <= longest
    mine.unlock()
    assert longest - 5 < mine.remain_time_to_live() <= longest
    mine.unlock()
    assert not mine.is_locked()


@pytest.mark.parametrize("leases", [(40, 5), (5, 40, 5), (40, 5, 50)], ids=str)
def test_leaving_gives_what_the_remaining_holds_were_promised(world, leases, mine):
    """A partial unlock writes the longer of what is left and the longest lease among the holds left."""
    for lease in leases:
        mine.lock(lease)
    world.redis.expire("orders", 10)
    mine.unlock()
    assert 35 < world.redis.ttl("orders") <= 40


@each_kind
def test_all_nested_holds_share_the_latest_deadline(world, client, kind):
    mine = handle(world.actor(), client, kind)
    with mine.hold(lease_time=1) as outer:
        with mine.hold(lease_time=60) as inner:
            assert inner.remaining() > 50
            assert outer.remaining() > 50
            with mine.hold(lease_time=1) as innermost:
                assert innermost.remaining() > 50
                assert outer.remaining() > 50
        assert outer.remaining() > 50
        outer.ensure_held()
