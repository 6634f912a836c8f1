"""``Config(loss_margin=...)``: a hold that was not renewed is lost before its lease ends on the server."""

import asyncio
import math
import re
from contextlib import suppress

import pytest

from pyredisson import LockError, LockLostError, LockNotOwnedError, OutcomeUnknownError, events
from pyredisson._core.deadline import certain_for
from pyredisson._core.hold import InMargin
from tests.promises.kinds import each_of, handle, members, over, raises_lost, single
from tests.worlds.base import KEPT, Remote
from tests.worlds.environments import asyncio_only, each_runtime, sync_and_async

pytestmark = each_runtime

LEASE, MARGIN = 3.0, 1.2
PERMITS = "permit_expirable_semaphore"

kind = each_of("lock", "fenced_lock", "token_lock", PERMITS)


def test_a_hold_is_lost_before_its_lease_ends_and_no_other_owner_begins(world, alice, bob, kind):
    lost, called = [], []
    client = world.client(loss_margin=MARGIN, on_lock_lost=lambda *told: lost.append(told))
    mine, theirs = single(alice, client, kind), single(bob, world.client(), kind)
    with (
        pytest.raises(
            LockLostError, match=r"has 1\.2 s left \(Config\.loss_margin\), and nothing renews a fixed lease"
        ),
        mine.hold(lease_time=LEASE, on_loss=lambda: called.append(1)) as lease,
    ):
        assert LEASE - MARGIN - 1 < lease.remaining() <= certain_for(3000, MARGIN)
        world.until(lambda: lease.lost)
        world.until(lambda: lost and called)
        with theirs.hold(wait_time=0, skip=True) as other:
            assert other is None, "the server has it still"
    with theirs.hold(wait_time=0.5):  # It was released, although it was lost.
        pass
    assert called == [1]


def test_until_the_lease_ends_on_the_server_no_error_speaks_of_an_overlap(world, alice, kind, caplog):
    """It says for how long no other owner can begin; once that is over, that they may have."""
    client = world.client(loss_margin=MARGIN)
    mine = single(alice, client, kind)
    with (
        pytest.raises(
            LockLostError, match=r"left \(Config\.loss_margin\), and nothing .* fixed lease\. The lease ended"
        ),
        mine.hold(lease_time=LEASE) as lease,
    ):
        world.until(lambda: lease.lost)
        with pytest.raises(LockLostError, match=rf"{EARLY}\.\d s: stop") as early:
            lease.ensure_held()
        assert "overlap" not in str(early.value)
        world.pass_time(MARGIN + 0.1)
        raises_lost(lease.ensure_held, match=r"The lease ended \d\.\d s ago\. Work done since then may have overlapped")
    logged = [each.getMessage() for each in caplog.records if "was lost" in each.getMessage()]
    assert all(re.search(rf"; {EARLY.lower()}\.\d s$", each) for each in logged), logged


def test_a_loss_by_the_margin_does_not_deny_that_the_lease_was_taken_away(world, alice, bob, kind):
    """The client cannot know it."""
    mine, theirs = single(alice, world.client(loss_margin=WIDE), kind), single(bob, world.client(), kind)
    with pytest.raises(LockLostError, match="may have overlapped"), mine.hold(lease_time=LONG) as lease:
        if kind == PERMITS:
            world.redis.delete("{orders}:timeout")
        else:
            theirs.force_unlock()
            assert theirs.try_lock()
        world.until(lambda: lease.lost)
        raises_lost(lease.ensure_held, match=EARLY)


EARLY = r"Unless it was taken away, no one else can acquire it for another \d"
#: Lost soon, and long before anyone else can begin.
LONG, WIDE = 12.0, 10.5


def test_so_does_a_fixed_lease_that_ran_out(world, alice, bob):
    """The unlock frees it, so that it says nothing of the time from then on."""
    mine, theirs = (single(who, world.client(loss_margin=WIDE), "lock") for who in (alice, bob))
    mine.lock(LONG)
    world.pass_time(LONG - WIDE)
    raises_lost(mine.ensure_held, match=EARLY)
    raises_lost(mine.unlock, match=r"fixed lease\. It was given up before anyone else could acquire it$")
    assert theirs.try_lock()


def test_nothing_is_said_of_a_lease_that_was_taken_away(world, alice, bob, kind):
    client = world.client(loss_margin=WIDE)
    mine, theirs = single(alice, client, kind), single(bob, client, kind)
    with pytest.raises(LockLostError, match="may have overlapped"), mine.hold(lease_time=LONG) as lease:
        world.until(lambda: lease.lost)
        if kind == PERMITS:
            world.redis.delete("{orders}:timeout")
        else:
            theirs.force_unlock()
            raises_lost(lease.ensure_held, match=r"force-unlocked by this client.*may have overlapped")


@pytest.mark.parametrize("kind", ["lock", "multi_lock"])
def test_an_inner_block_lets_no_one_begin_before_the_outer_one_is_left(world, alice, bob, kind):
    client = world.client(loss_margin=WIDE)
    mine, theirs = handle(alice, client, kind), handle(bob, world.client(), kind)
    with pytest.raises(LockLostError), mine.hold(lease_time=LONG) as lease:
        with pytest.raises(LockLostError, match=rf"{EARLY}|given up before"), mine.hold(lease_time=LONG) as inner:
            world.until(lambda: lease.lost and inner.lost)
        assert not theirs.try_lock()
        raises_lost(lease.ensure_held, match=EARLY)
    assert theirs.try_lock()


def test_nothing_is_said_of_a_lease_that_has_been_renewed_or_released_since(world, alice, bob):
    mine, theirs = (single(who, world.client(loss_margin=WIDE), "lock") for who in (alice, bob))
    mine.lock(LONG)
    world.pass_time(LONG - WIDE)
    mine.lock(60)  # Anew: the first one has ended.
    mine.unlock()
    assert theirs.try_lock()
    for call in (mine.ensure_held, mine.unlock):
        raises_lost(call, match=r"its lease expired\. Work done since then may have overlapped")


@sync_and_async
def test_nothing_is_said_of_a_lease_that_may_have_been_released(world, alice, bob, proxy):
    """The server has executed the unlock, whose reply is lost."""
    world.redis.learn_scripts()
    client = world.through(proxy.port, loss_margin=MARGIN, timeout=0.9)
    mine, theirs = single(alice, client, "lock"), single(bob, world.client(), "lock")
    mine.lock(LEASE)
    proxy.blackhole("down")
    with suppress(OutcomeUnknownError):
        mine.unlock()
    assert theirs.try_lock(2)
    world.pass_time(LEASE - MARGIN)
    with pytest.raises(LockNotOwnedError) as caught:
        mine.ensure_held()
    assert not re.search(EARLY, str(caught.value))


@sync_and_async
def test_nothing_is_said_of_a_lease_that_a_clock_has_put_in_doubt(world, alice, bob, proxy):
    """A guest that was paused does not know for how long."""
    lost = []
    client = world.through(proxy.port, loss_margin=MARGIN, timeout=0.9, listeners=(lost.append,))
    mine, runtime = single(alice, client, "lock"), client.real._runtime
    with pytest.raises(LockLostError, match="Work done since then may have overlapped"), mine.hold() as lease:
        unix_time, runtime.unix_time = runtime.unix_time, lambda: unix_time() + 60
        proxy.blackhole()
        client.real._core.watchdog._nudge()
        world.until(lambda: lease.lost)
        proxy.heal()
    assert not [each for each in lost if isinstance(each, events.Lost) and isinstance(each.reason, InMargin)]


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_multi_lock_says_for_how_long_no_other_owner_can_begin(world, alice, nodes):
    several = over(alice, members(world, nodes, loss_margin=WIDE, quorum_node_timeout=1.0)[0])
    with pytest.raises(LockLostError, match="It was given up before"), several.hold(lease_time=LONG) as lease:
        world.until(lambda: lease.lost)
        raises_lost(lease.ensure_held, match=EARLY)


@pytest.mark.parametrize("kind", ["lock", PERMITS])
def test_what_is_renewed_is_kept_and_the_server_is_asked_for_the_same_lease(world, alice, kind):
    client = world.client(lock_watchdog_timeout=KEPT, loss_margin=MARGIN)
    with single(alice, client, kind).hold() as lease:
        for _ in range(4):
            world.pass_time(KEPT / 3)
            lease.ensure_held()
            assert lease.remaining() <= certain_for(4500, MARGIN)
            if kind == "lock":
                assert KEPT - 3 < world.redis.ttl("orders") <= KEPT


@sync_and_async
def test_what_cannot_be_renewed_is_lost_before_its_lease_ends(world, alice, bob, kind, proxy):
    client = world.through(proxy.port, lock_watchdog_timeout=LEASE, loss_margin=MARGIN, timeout=2.0)
    lock = single(alice, client, kind)
    held = lock.hold()
    lease, began = held.enter(), world.now()
    proxy.blackhole()
    world.until(lambda: lease.lost)
    with single(bob, world.client(), kind).hold(wait_time=0, skip=True) as other:
        assert other is None, "it is lost after its lease has ended"
    raises_lost(lease.ensure_held, match=r"left \(Config\.loss_margin\) before it could be renewed")
    with pytest.raises(LockLostError, match=r"Unless it was taken away, it was given up \d\.\d s before anyone else"):
        held.__exit__(None, None, None)
    assert world.now() - began > LEASE, "it has asked for longer than the lease"
    proxy.heal()


def test_a_lock_without_a_block_ends_by_then_and_can_be_acquired_anew(world, alice):
    client = world.client(loss_margin=MARGIN)
    mine = alice.lock(client)
    mine.lock(lease_time=LEASE)
    mine.ensure_held()
    world.pass_time(LEASE - MARGIN)
    raises_lost(mine.ensure_held)
    mine.lock(lease_time=LEASE)
    assert mine.get_hold_count() == 1
    mine.ensure_held()
    mine.unlock()
    raises_lost(mine.unlock)
    assert not mine.is_locked()


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_multi_lock_follows_that_of_its_clients(world, alice, nodes):
    locks, stores = members(world, nodes, loss_margin=MARGIN, quorum_node_timeout=1.0)
    several = over(alice, locks)
    with pytest.raises(LockLostError), several.hold(lease_time=LEASE) as lease:
        assert 0 < several.validity() <= certain_for(3000, MARGIN)
        assert several.extend(LEASE)
        assert several.validity() <= certain_for(3000, MARGIN)
        world.until(lambda: lease.lost)
        assert stores[0].ttl("a") > 0
    assert not several.is_locked()
    with pytest.raises(ValueError, match=r"lease_time=1\.2 must be longer than Config\.loss_margin \(1\.2 s\)"):
        several.hold(lease_time=MARGIN)


def test_run_once_follows_it(world, alice):
    client = world.client(loss_margin=MARGIN)
    with pytest.raises(ValueError, match=r"at_most=1\.2 must be longer than Config\.loss_margin"):
        alice.do(client.real.run_once, "report", at_most=MARGIN, at_least=0)
    block = Remote(client.real.run_once("report", at_most=LEASE, at_least=0), alice)
    with pytest.raises(LockLostError), block as run:
        assert run.remaining() <= certain_for(3000, MARGIN)
        world.until(lambda: run.lost)
        assert world.redis.ttl("report") > 0


def test_a_term_of_a_leader_follows_it(world, alice):
    client = world.client(lock_watchdog_timeout=LEASE, loss_margin=MARGIN)
    election = alice.get(client, "leader_election")
    with election.term() as term:
        assert 0 < term.remaining() <= certain_for(3000, MARGIN)


@pytest.mark.parametrize("kind", ["lock", "fenced_lock", "token_lock", PERMITS, "multi_lock"])
def test_a_fixed_lease_of_which_clock_drift_leaves_nothing_is_refused(world, alice, kind):
    """It would be lost before its grant arrives, however soon that is."""
    client = world.client(loss_margin=MARGIN)
    mine = single(alice, client, kind)
    for call in (mine.hold,) if kind == PERMITS else (mine.hold, mine.lock):
        with pytest.raises(
            ValueError, match=r"=1\.21 must be .*margin \(1\.2 s\) and the drift of clocks: at least 1\.215 s$"
        ):
            call(lease_time=1.21)
    assert world.redis.everything().keys() <= {"orders"}, "nothing was sent"


def test_a_fixed_lease_that_is_not_longer_is_refused(world, alice, kind):
    mine = single(alice, world.client(loss_margin=MARGIN), kind)
    calls = [lambda: mine.hold(lease_time=MARGIN)]
    if kind != PERMITS:
        mine.lock(lease_time=LEASE)  # The second acquire may take another path.
        mine.unlock()
        calls += [lambda: mine.lock(lease_time=MARGIN), lambda: mine.try_lock(0, 1)]
    for call in calls:
        with pytest.raises(ValueError, match=r"lease_time=1(\.2)? must be longer than Config\.loss_margin \(1\.2 s\)"):
            call()
    with mine.hold() as lease:
        with pytest.raises(ValueError, match="must be longer than"):
            alice.do(lease.extend, 1)
        assert alice.do(lease.extend, 60)
        assert math.isclose(lease.remaining(), certain_for(60_000, MARGIN), abs_tol=2)


@asyncio_only
def test_the_block_is_cancelled_before_its_lease_ends(world):
    client = world.client(loss_margin=MARGIN)

    async def main():
        with pytest.raises(LockLostError):
            async with client.real.get_lock("orders").hold(lease_time=LEASE, cancel_on_loss=True):
                await asyncio.sleep(60)
        assert not await client.real.get_lock("orders").is_locked()

    began = world.now()
    world.run(main)
    assert world.now() - began < LEASE


def test_a_loss_by_the_margin_is_an_event_once(world, alice):
    seen = []
    mine = alice.lock(world.client(loss_margin=MARGIN, listeners=(seen.append,)))
    with pytest.raises(LockLostError), mine.hold(lease_time=LEASE) as lease:
        world.until(lambda: lease.lost)
        world.pass_time(MARGIN)
    assert len([each for each in seen if isinstance(each, events.Lost)]) == 1


def test_a_multi_lock_in_a_block_of_a_member_says_nothing_of_what_it_has_freed(world, alice, bob):
    client = world.client(loss_margin=WIDE)
    several, member = handle(alice, client, "multi_lock"), alice.lock(client)
    with pytest.raises(LockLostError), member.hold(lease_time=LONG) as lease:
        with pytest.raises(LockLostError) as caught, several.hold(lease_time=LONG) as inner:
            world.until(lambda: lease.lost and inner.lost)
        assert not re.search(EARLY, str(caught.value)), "the other member is free"
        assert alice.start(bob.lock(world.client(), "stock").real.is_locked).result() is False
        raises_lost(lease.ensure_held, match=EARLY)


def test_what_ran_out_before_keeps_nothing_from_being_freed(world, alice, bob):
    mine, theirs = (single(who, world.client(loss_margin=WIDE), "lock") for who in (alice, bob))
    for lease in (LONG, LONG + 1):
        mine.lock(lease)
        world.pass_time(lease - WIDE)
    raises_lost(mine.unlock, match="It was given up before")
    assert theirs.try_lock()


@sync_and_async
def test_a_member_is_kept_while_another_one_is_waited_for(world, alice, bob):
    """Most of its lease is the margin."""
    client = world.client(loss_margin=3)
    theirs = bob.lock(world.client(), "b")
    theirs.lock()
    several = over(alice, [alice.lock(client, name).real for name in ("a", "b")])
    waiting = alice.start(several.lock, 5)
    for _ in range(11):
        world.pass_time(0.5)
        assert theirs.get_hold_count() == 1
    assert world.redis.hash("a"), "it has ended meanwhile"
    theirs.unlock()
    waiting.result()
    several.unlock()


@sync_and_async
@pytest.mark.parametrize("kind", ["lock", "read_write_lock", "multi_lock"])
@pytest.mark.parametrize("form", ["with", "unlock"])
def test_it_is_judged_when_the_block_ends_and_not_when_its_release_has_failed(world, alice, proxy, kind, form):
    client = world.through(proxy.port, lock_watchdog_timeout=LEASE, loss_margin=MARGIN, timeout=2.0)
    mine = handle(alice, client, "lock" if kind == "read_write_lock" else kind)
    if kind == "read_write_lock":
        mine = Remote(client.real.get_read_write_lock("orders").write_lock(), alice)
    began = world.now()
    mine.enter() if form == "with" else mine.lock()
    proxy.blackhole()

    def lost():
        with suppress(LockLostError):
            mine.ensure_held()
            return False
        return True

    world.until(lost)
    assert world.now() - began < LEASE
    with pytest.raises(LockLostError, match=r"it was given up \d\.\d s before anyone else could acquire it$"):
        alice.do(world.leave(mine.real)) if form == "with" else mine.unlock()
    proxy.heal()


@sync_and_async
@pytest.mark.parametrize("kind", ["lock", "multi_lock", PERMITS])
def test_a_lease_that_is_never_certain_is_an_error_that_names_the_margin(world, alice, proxy, kind):
    client = world.through(proxy.port, loss_margin=1)
    mine = single(alice, client, kind)
    with mine.hold():
        pass
    proxy.latency(0.06)
    with pytest.raises(LockError, match=r"a lease of 1020 ms, less Config\.loss_margin \(1000 ms\), was no"):
        mine.hold(lease_time=1.02).enter()
