"""Call chains that share a thread: each has a context of its own, knows its own holds, and no others.

A hold is visible in the context in which it was acquired, and in copies that were made since. A call acts for the owner
of that lock in its thread that has a visible hold; if there is none, for the thread itself while no one else of the
thread uses the lock, and for a new owner otherwise. Each lock is decided by itself, a member of a multi-lock, too.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextvars import Context
from typing import Any

import pytest

from pyredisson import LockError, LockLostError, OutcomeUnknownError, events
from tests.promises.kinds import acquired, each_of, handle, make, not_owned, over, raises_lost, warned
from tests.worlds.base import KEPT, Actor, Pending, Remote, method_of
from tests.worlds.environments import threads_only
from tests.worlds.threads import ThreadsWorld

pytestmark = threads_only

REENTRANT = ["lock", "fair_lock", "spin_lock", "fenced_lock", "write_lock"]
BRIEF = 0.3  # a lease that is left to run out

each_kind = pytest.mark.parametrize("kind", REENTRANT)


class Chain(Actor):
    """What runs in one thread and in one context, an empty one by default."""

    def __init__(self, thread: Actor, context: Context | None = None) -> None:
        self._thread = thread
        self._context = context or Context()

    def copy(self) -> Chain:
        """Return a chain of the same thread that begins with what this one knows now."""
        return Chain(self._thread, self._context.copy())

    @property
    def number(self) -> int:
        return self._thread.number

    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Pending:
        return self._thread.start(self._context.run, method_of(call, args, kwargs))

    def end(self) -> None:
        self._thread.end()

    def interrupted(self, call: Callable[..., Any], *args: Any, once: Callable[[], object]) -> BaseException | None:
        return self._thread.interrupted(self._context.run, method_of(call, args, {}), once=once)


def multi(chain: Actor, client: Remote, *names: str, kind: str = "lock") -> Remote:
    return over(chain, [make(client, kind, name) for name in names])


def acquire(chain: Actor, client: Remote, how: str, kind: str = "lock") -> Callable[[], Any]:
    """Acquire the lock "a" in one of several ways. Returns the call that releases it."""
    lock = multi(chain, client, "a", "other", kind=kind) if "multi" in how else handle(chain, client, kind, "a")
    return acquired(lock, chain, block="hold" in how)


how = each_of("lock", "hold", "multi", "multi hold")


@pytest.fixture
def one(alice: Actor) -> Chain:
    return Chain(alice)


@pytest.fixture
def other(alice: Actor) -> Chain:
    """Another one, of the same thread."""
    return Chain(alice)


def gone(world: ThreadsWorld, *names: str) -> bool:
    return not world.redis.command("EXISTS", *names)


# ---- members are decided one by one ----------------------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize("names", ["ab", "ba"])
def test_a_multi_lock_does_not_join_what_another_chain_holds(client, one, other, kind, names):
    mine, theirs = (handle(chain, client, kind, name) for chain, name in ((one, names[0]), (other, names[1])))
    both = multi(one, client, *"ab", kind=kind)
    mine.lock()
    theirs.lock()
    assert both.try_lock() is False
    assert both.hold(wait_time=0, skip=True).enter() is None
    assert (mine.get_hold_count(), theirs.get_hold_count()) == (1, 1)
    theirs.unlock()
    assert both.try_lock() is True
    assert theirs.try_lock() is False
    both.unlock()
    mine.unlock()


def test_a_multi_lock_is_refused_however_its_members_are_held(client, one, other, how):
    theirs = other.lock(client, "b")
    theirs.lock()
    release = acquire(one, client, how)
    assert multi(one, client, "a", "b").try_lock() is False
    assert multi(one, client, "a", "b", "c").try_lock() is False
    assert theirs.get_hold_count() == 1
    release()


def test_a_quorum_does_not_join_what_another_chain_holds(world, one, other):
    clients = world.nodes(3, quorum_node_timeout=2.0)
    one.lock(clients[0]).lock()
    theirs = [other.lock(client) for client in clients[1:]]
    for lock in theirs:
        lock.lock()
    assert over(one, [client.real.get_lock("orders") for client in clients]).try_lock() is False
    assert [lock.get_hold_count() for lock in theirs] == [1, 1]


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_a_member_is_the_threads_own_while_another_member_is_not(client, one, other, names):
    """Several chains of a thread may hold a read lock, under different numbers."""
    shared, alone = names[0], names[1]
    handle(one, client, "read_lock", shared).lock()
    mine = handle(other, client, "read_lock", shared)
    mine.lock()
    both = over(other, [make(client, "read_lock", shared), make(client, "lock", alone)])
    both.lock()
    assert make(client, "lock", alone).is_held_by_thread(one.number)
    assert mine.get_hold_count() == 2
    both.unlock()
    mine.unlock()


def test_a_chain_has_the_threads_number_in_each_lock_that_no_other_chain_uses(client, one, other):
    one.lock(client, "a").lock()
    assert not other.lock(client, "a").try_lock()
    for lock in (other.lock(client, "b"), multi(other, client, "c", "d")):
        lock.lock()
    assert [make(client, "lock", name).is_held_by_thread(one.number) for name in "abcd"] == [True] * 4


# ---- two clients never meet ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "token_lock", "write_lock", "multi_lock"])
@pytest.mark.parametrize("apart", ["by prefix", "by database", "by server"])
def test_a_lock_of_one_name_is_another_one_for_another_client(world, one, other, kind, apart):
    if apart == "by server":
        first, second = world.nodes(2)
    else:
        first = world.client()
        second = world.client(prefix="apart:") if apart == "by prefix" else world.client(world.redis_client(db=1))
    handle(one, first, kind).lock()
    theirs, mine = handle(other, second, kind), handle(one, second, kind)
    theirs.lock()
    assert mine.try_lock() is False
    not_owned(mine.unlock)
    assert (mine.get_hold_count(), theirs.get_hold_count()) == (0, 1)
    theirs.unlock()
    assert mine.try_lock() is True


def test_what_a_closed_client_held_is_nothing_to_the_next_one(world, client, one, other, how):
    old = world.client()
    acquire(one, old, how)
    old.close()
    world.redis.command("FLUSHALL")
    mine, theirs = one.lock(client, "a"), other.lock(client, "a")
    theirs.lock()
    assert theirs.is_held_by_thread(one.number)
    assert mine.try_lock() is False
    not_owned(mine.unlock)
    theirs.unlock()
    assert mine.try_lock() is True
    assert mine.get_hold_count() == 1


@pytest.mark.parametrize("kind", ["lock", "fenced_lock", "read_lock", "multi_lock"])
@pytest.mark.parametrize("same", [True, False], ids=["the same chain", "another chain"])
def test_what_a_closed_client_held_is_not_warned_of_later(world, one, other, kind, same, caplog):
    old = world.client()
    handle(one, old, kind).lock()
    old.close()
    world.redis.command("FLUSHALL")
    client, chain = world.client(), one if same else other
    caplog.clear()
    for name in ("parcels", "orders"):
        lock = handle(chain, client, kind, name)
        lock.lock()
        assert lock.get_hold_count() == 1
        lock.unlock()
    assert warned(caplog) == []


# ---- nothing old revives ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["lock", "hold", "multi"])
def test_a_hold_of_long_ago_does_not_count_when_another_chain_holds_the_lock(client, one, other, before, how):
    acquire(one, client, before)()
    release = acquire(other, client, how)
    mine = one.lock(client, "a")
    assert mine.try_lock() is False
    assert multi(one, client, "a", "c").try_lock() is False
    assert not mine.is_held_by_current_thread()
    not_owned(mine.unlock)
    release()
    assert mine.try_lock() is True


@pytest.mark.parametrize("kind", ["lock", "read_lock", "multi_lock"])
def test_a_hold_that_a_copy_has_released_does_not_revive(client, one, other, kind):
    """Nor is one visible in its own chain that was acquired in a copy."""
    mine, copied = handle(one, client, kind), one.copy()
    mine.lock()
    handle(one.copy(), client, kind).unlock()
    assert mine.get_hold_count() == 0
    handle(copied, client, kind).lock()
    assert mine.get_hold_count() == 0
    not_owned(mine.unlock)
    handle(copied, client, kind).unlock()


# ---- what is visible -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*REENTRANT, "read_lock", "multi_lock"])
def test_a_hold_is_visible_where_it_was_acquired_and_in_later_copies(client, one, other, kind):
    earlier = one.copy()
    handle(one, client, kind).lock()
    later = one.copy()
    known = [handle(chain, client, kind).get_hold_count() for chain in (one, later, later.copy(), earlier, other)]
    assert known == [1, 1, 1, 0, 0]
    if kind == "multi_lock":  # Of its members just so.
        counts = [chain.lock(client, "stock").get_hold_count() for chain in (one, later, earlier, other)]
        assert counts == [1, 1, 0, 0]
    handle(later, client, kind).lock()
    for chain in (one, later):
        handle(chain, client, kind).unlock()
    assert [handle(chain, client, kind).get_hold_count() for chain in (one, later)] == [0, 0]


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "read_lock"])
@pytest.mark.parametrize("block", [True, False], ids=["hold", "lock"])
def test_a_thread_knows_what_it_holds_however_much_it_held_before(client, alice, kind, block, caplog):
    for turn in range(40):
        names = [f"{turn}:{each}" for each in "abc"]
        several = multi(alice, client, *names, kind=kind)
        with several.hold() if block else several:
            for name in names:
                lock = handle(alice, client, kind, name)
                assert lock.is_held_by_current_thread(), name
                assert lock.try_lock(), name
                lock.unlock()
    assert warned(caplog) == []


def test_a_thread_knows_each_of_many_members(client, alice, caplog):
    names = [str(number) for number in range(40)]
    with multi(alice, client, *names):
        assert [name for name in names if alice.lock(client, name).get_hold_count() != 1] == []
    assert warned(caplog) == []


def test_a_thread_knows_all_of_many_multi_locks_at_once(client, alice, caplog):
    names = [str(number) for number in range(60)]
    held = [multi(alice, client, *names[at : at + 3]) for at in range(0, len(names), 3)]
    for each in held:
        each.lock()
    assert [name for name in names if not alice.lock(client, name).try_lock()] == []
    for name in names:
        alice.lock(client, name).unlock()
    for each in held:
        each.unlock()
    assert warned(caplog) == []


# ---- a condition gives the same holds back ---------------------------------------------------------------------------


def wait(chain: Actor, client: Remote, kind: str = "lock", seconds: float = 0.05) -> None:
    condition = client.real.get_condition(make(client, kind, "a"))
    assert chain.do(condition.wait, seconds) is False


kind = each_of("lock", "fair_lock")


def test_a_hold_can_be_released_after_a_wait_in_a_copy(world, client, one, kind, how):
    release = acquire(one, client, how, kind)
    copy = one.copy()
    wait(copy, client, kind)
    assert handle(one, client, kind, "a").get_hold_count() == 1
    release()
    assert gone(world, "a", "other")


def test_all_of_several_holds_can_be_released_after_a_wait_in_a_copy(world, client, one, kind):
    releases = [acquire(one, client, how, kind) for how in ("lock", "hold", "lock")]
    wait(one.copy(), client, kind)
    for release in reversed(releases):
        release()
    assert gone(world, "a")


def test_a_copy_from_before_a_wait_knows_the_hold_after_it(world, client, one, other, kind, how):
    release = acquire(one, client, how, kind)
    copy = handle(one.copy(), client, kind, "a")
    wait(one, client, kind)
    assert copy.get_hold_count() == 1
    assert copy.try_lock() is True
    copy.unlock()
    assert handle(other, client, kind, "a").try_lock() is False
    release()
    assert gone(world, "a", "other")


@pytest.mark.parametrize("how", ["lock", "multi"])
def test_a_hold_is_renewed_after_a_wait_in_a_copy_that_is_gone(world, one, how, caplog):
    client = world.client(lock_watchdog_timeout=KEPT)
    release = acquire(one, client, how)
    wait(one.copy(), client)
    gc.collect()
    world.renewed("a")
    release()
    assert gone(world, "a", "other")
    assert warned(caplog) == []


# ---- chains that have ended ------------------------------------------------------------------------------------------


@each_kind
@pytest.mark.parametrize("how", ["multi", "multi hold"])
def test_a_lock_is_renewed_that_a_chain_used_which_has_ended(world, alice, one, kind, how, caplog):
    client = world.client(lock_watchdog_timeout=KEPT)
    acquire(Chain(alice), client, "lock", kind)()
    gc.collect()
    releases = [acquire(one, client, how, kind), acquire(one, client, "lock", kind)]
    releases.pop(0)()
    world.renewed("a")
    releases.pop()()
    assert gone(world, "a", "other")
    assert warned(caplog) == []


@pytest.mark.parametrize("again", [True, False], ids=["and by itself", "alone"])
@pytest.mark.parametrize("used", [True, False], ids=["used before", "new"])
def test_a_wait_for_another_chain_of_the_thread_is_refused(client, alice, one, other, used, again):
    if used:
        acquire(Chain(alice), client, "lock")()
        gc.collect()
    acquire(one, client, "multi")
    if again:
        acquire(one, client, "lock")
    for lock in (other.lock(client, "a"), multi(other, client, "a", "c")):
        with pytest.raises(LockError, match="would never end"):
            lock.try_lock(5)


@pytest.mark.parametrize(
    ("how", "kind"),
    [*((how, "lock") for how in ("lock", "hold", "multi", "multi hold")), *(("lock", kind) for kind in REENTRANT[1:])],
)
def test_what_a_chain_holds_that_is_gone_keeps_the_next_one_out_until_its_lease_is_over(world, alice, one, how, kind):
    heard, bound = [], []

    def hear(event):
        heard.append(event)
        if type(event) is events.HolderGone:
            bound.extend(own.bound() for own in client.real._core.ownerships.held())

    client = world.client(lock_watchdog_timeout=4.5, listeners=(hear,))
    acquire(Chain(alice), client, how, kind)
    gc.collect()
    world.until(lambda: any(type(event) is events.HolderGone for event in heard))
    mine = handle(one, client, kind, "a")
    assert mine.try_lock() is False
    assert mine.try_lock(20) is True
    assert mine.get_hold_count() == 1
    mine.unlock()
    world.until(lambda: gone(world, "a", "other"))  # The other member has a lease of its own.
    assert not [event for event in heard if type(event) in (events.Lost, events.LeftBehind)]
    assert not any(bound), "its thread may go on at once, and is not to be warned of what was reported"
    assert mine.try_lock() is True
    mine.unlock()
    assert len(client.real._core.ownerships.of("a")) == 1


@pytest.mark.parametrize("kind", ["lock", "read_lock", "multi_lock"])
def test_what_has_ended_in_chains_that_are_gone_is_not_kept(world, client, alice, one, kind):
    for _ in range(20):
        handle(Chain(alice), client, kind, "orders").lock(0.05)
        world.until(lambda: gone(world, "orders", "stock"))
    gc.collect()
    for _ in range(2):
        lock = handle(one, client, kind, "orders")
        lock.lock()
        lock.unlock()
    known = client.real._core.ownerships.of("orders")
    assert [each.ended for each in known] == [()]


@pytest.mark.parametrize("several", [True, False], ids=["multi-lock", "lock"])
def test_a_wait_for_the_block_of_a_multi_lock_is_not_refused(world, client, one, other, bob, kind, several):
    block = multi(one, client, "a", "b", kind=kind).hold()
    block.enter()
    lock = multi(other, client, "a", "c", kind=kind) if several else handle(other, client, kind, "a")
    assert lock.try_lock(0.1) is False
    waiting = other.start(lock.real.try_lock, 10)
    bob.do(world.leave(block.real))
    assert waiting.result() is True


def test_a_wait_for_the_block_of_a_quorum_is_not_refused(world, one, other, bob):
    clients = world.nodes(3, quorum_node_timeout=2.0)
    block = over(one, [client.real.get_lock("orders") for client in clients]).hold()
    block.enter()
    waiting = other.start(clients[0].real.get_lock("orders").try_lock, 10)
    bob.do(world.leave(block.real))
    assert waiting.result() is True


# ---- warnings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*REENTRANT, "token_lock", "non_reentrant_lock", "read_lock", "multi_lock"])
def test_a_fixed_lease_that_a_chain_left_to_run_out_is_not_warned_of(world, client, one, other, kind, caplog):
    handle(one, client, kind).lock(0.15)
    world.until(lambda: gone(world, "orders", "stock"))
    for name in ("parcels", "orders"):
        lock = handle(other, client, kind, name)
        lock.lock()
        lock.unlock()
    assert warned(caplog) == []


def test_what_a_chain_has_left_is_not_warned_of_while_its_release_is_settled(world, proxy, one, other):
    left = []
    client = world.through(proxy.port, timeout=1.5, listeners=(left.append,))
    mine, theirs = one.lock(client), other.lock(client, "parcels")
    mine.enter()
    silent = proxy.hold_request(lambda args: args[0] == b"EVALSHA" and b"orders" in args, None)
    with pytest.raises(OutcomeUnknownError):
        mine.__exit__(None, None, None)
    theirs.lock()
    assert not any(type(event) is events.LeftBehind for event in left)
    silent.remove()


@pytest.mark.parametrize("holds", [2, 3])
def test_nested_fixed_leases_that_ran_out_are_not_warned_of(world, client, one, other, holds, caplog):
    mine = one.lock(client)
    for _ in range(holds):
        mine.lock(0.15)
    world.until(lambda: gone(world, "orders"))
    acquire(other, client, "multi")()
    for _ in range(holds):
        raises_lost(mine.unlock)
    assert warned(caplog) == []


@pytest.mark.parametrize("noticed", [True, False])
def test_what_has_ended_under_another_number_is_given_back(world, client, one, other, bob, noticed):
    """Each re-entry of a write lock adds its lease to what is left: it lasts longer on the server than is certain."""
    mine, theirs = (handle(chain, client, "write_lock", "a") for chain in (one, other))
    theirs.lock()
    assert handle(bob, client, "write_lock", "a").force_unlock()
    for _ in range(2):
        mine.lock(1.5)
    raises_lost(theirs.unlock)
    world.until(lambda: mine.remain_time_to_live() < 1.5, what="it is certain no longer")
    if noticed:
        assert theirs.try_lock() is False
    raises_lost(mine.unlock)
    assert gone(world, "a")
    raises_lost(mine.unlock)
    not_owned(mine.unlock)


@pytest.mark.parametrize("mine_first", [True, False])
def test_an_unlock_without_an_answer_may_be_called_again_while_another_chain_reads(
    world, proxy, one, other, mine_first
):
    client = world.through(proxy.port, timeout=1.0, lock_watchdog_timeout=6)
    mine, theirs = (handle(chain, client, "read_lock", "a") for chain in (one, other))
    for call in (mine.lock, mine.unlock):  # The server knows the scripts now.
        call()
    first, second = (mine, theirs) if mine_first else (theirs, mine)
    first.lock()
    second.lock()
    silent = proxy.hold_request("EVALSHA", None)
    with pytest.raises(OutcomeUnknownError):
        mine.unlock()
    silent.remove()
    world.until(lambda: repr(mine.real).count("held by") == 1, what="it is settled")
    mine.unlock()
    not_owned(mine.unlock)
    theirs.unlock()
    assert gone(world, "a")


def test_an_unlock_without_an_answer_leaves_the_number_of_the_thread_when_its_chain_has_ended(
    world, proxy, alice, other
):
    """No one can ask for its outcome any more."""
    client = world.through(proxy.port, timeout=1.0, lock_watchdog_timeout=6)
    lock = handle(other, client, "lock", "a")
    lock.lock()
    lock.unlock()
    chains = [Chain(alice)]
    handle(chains[0], client, "lock", "a").lock()
    silent = proxy.hold_request("EVALSHA", None)
    with pytest.raises(OutcomeUnknownError):
        handle(chains[0], client, "lock", "a").unlock()
    silent.remove()
    world.until(lambda: "held by" not in repr(lock.real), what="it is settled")
    chains.clear()
    gc.collect()
    lock.lock()
    assert lock.is_held_by_thread(alice.number)
    lock.unlock()


@each_kind
@pytest.mark.parametrize("how", ["lock", "hold", "multi"])
@pytest.mark.parametrize("own", [True, False], ids=["one of its own", "that of before"])
def test_an_unlock_releases_no_hold_that_a_sibling_has_acquired(world, client, one, kind, how, own):
    """Two copies of one context, which both join what is held there: each releases what it sees."""
    outer = handle(one, client, kind, "a")
    outer.lock()
    left, right = one.copy(), one.copy()
    if own:
        handle(left, client, kind, "a").lock()
    release = acquire(right, client, how, kind)
    handle(left, client, kind, "a").unlock()
    if own:
        handle(left, client, kind, "a").unlock()
    not_owned(handle(left, client, kind, "a").unlock)
    not_owned(outer.unlock)
    assert handle(right, client, kind, "a").get_hold_count() == 1
    release()
    assert gone(world, "a", "other")


@pytest.mark.parametrize("left", ["by unlock", "by the end of a block", "by an error in a block"])
@pytest.mark.parametrize("how", ["lock", "multi"])
def test_a_hold_that_has_ended_is_left_once_while_another_chain_holds_the_lock(world, client, one, other, left, how):
    """What has ended keeps no one out: the other chain has the number of the thread now."""
    mine = one.lock(client, "a")
    mine.lock(BRIEF)
    world.until(lambda: gone(world, "a"), what="it has ended")
    release = acquire(other, client, how)
    if left == "by an error in a block":
        mine.__exit__(ValueError, ValueError(), None)
    else:
        with pytest.raises(LockLostError):
            mine.unlock() if left == "by unlock" else mine.__exit__(None, None, None)
    not_owned(mine.unlock)
    assert other.lock(client, "a").get_hold_count() == 1
    release()
    assert gone(world, "a")


def test_chains_that_have_lost_their_holds_are_forgotten(world, client, alice):
    """The server may execute the release of what was lost late; a number that never comes again needs no protection."""
    for _ in range(20):
        outer, inner = Chain(alice), Chain(alice)
        kind = "read_lock"
        handle(outer, client, kind, "a").lock()
        lock = handle(inner, client, kind, "a")
        lock.lock()
        handle(outer, client, kind, "a").force_unlock()
        raises_lost(lock.unlock)
    assert len(client.real._core.ownerships.of("a")) <= 3
