"""What one side does to a lock, and what the other one sees of it: in either direction."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator

import pytest

from pyredisson import LockLostError
from tests.interop.building import OLD, VERSIONS
from tests.interop.clients import JavaSide, not_owned
from tests.interop.conftest import LANGUAGES
from tests.interop.peer import WITHIN
from tests.interop.supported_kinds import LOCK_CASES, LOCKS, OTHERS
from tests.interop.waiters import until_it_waits
from tests.interop.wake_up_checks import SOON
from tests.real_servers.lock_process import Peer
from tests.waiting import until


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """Whatever is done here is refused, since the caller does not hold the lock."""
    with pytest.raises(Exception) as refusal:
        yield
    assert not_owned(refusal.value), refusal.value


# A fair waiter of Redisson before 3.45 may look a moment too early, and then waits for a message.
@pytest.mark.parametrize(
    ("version", "kind", "first"),
    [
        (*case, language)
        for case in LOCK_CASES
        for language in LANGUAGES
        if (*case, language) != (OLD, "fair_lock", "python")
    ],
)
def test_a_lease_that_runs_out(open_sides, version, kind, first, unique_name):
    """Nobody says anything then: who waits knows when to look again."""
    one, other = open_sides(version).both(first)
    mine, theirs = one.owner().get(kind, unique_name), other.owner().get(kind.replace("read", "write"), unique_name)
    began = time.monotonic()
    mine.lock(0.3)
    theirs.lock()
    assert 0.29 < time.monotonic() - began < 8
    with refused():
        mine.unlock()
    theirs.unlock()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_watchdog_of_one_side_keeps_the_other_out(open_sides, version, first, unique_name):
    """All kinds at once: it takes longer than a lease, and that has to outlast whatever a machine is busy with."""
    sides = open_sides(version)
    clients = {"java": sides.java(watchdog_ms=3000), "python": sides.python(lock_watchdog_timeout=3.0)}
    holder, other = clients.pop(first).owner(), clients.popitem()[1]
    names = {kind: f"{unique_name}-{kind}" for kind in ("lock", "fair_lock", "read_lock", "write_lock")}
    mine = {kind: holder.get(kind, name) for kind, name in names.items()}
    theirs = {kind: other.owner().get(kind.replace("read", "write"), name) for kind, name in names.items()}
    for kind in names:
        mine[kind].lock()
    waiting = {kind: each.start("try_lock", 4.5) for kind, each in theirs.items()}  # One and a half.
    assert {kind: each.result(WITHIN) for kind, each in waiting.items()} == dict.fromkeys(names, False)
    for kind in names:
        mine[kind].unlock()
        assert theirs[kind].try_lock(5), kind
        theirs[kind].unlock()


@pytest.mark.parametrize("version", VERSIONS)
def test_java_is_killed_while_it_holds(open_sides, own_jvm, version, unique_name, valkey):
    """All kinds at once: what a watchdog kept ends within its time, and a permit when its lease is over."""
    java = JavaSide(own_jvm(version), valkey.url, watchdog_ms=3000)
    holder, python = java.owner(), open_sides(version).python()
    kinds = [kind for kind, has in LOCKS.items() if version in has]
    for kind in kinds:
        holder.get(kind, f"{unique_name}-{kind}").lock()
    permits = f"{unique_name}-permits"
    if version in OTHERS["permit_expirable_semaphore"]:
        semaphore = holder.get("permit_expirable_semaphore", permits)
        assert semaphore.try_set_permits(1)
    waiting = {}
    for kind in kinds:
        mine = python.owner().get(kind.replace("read", "write"), f"{unique_name}-{kind}")
        waiting[mine] = mine.start("lock")
    if version in OTHERS["permit_expirable_semaphore"]:
        semaphore.acquire(3)
        mine = python.owner().get("permit_expirable_semaphore", permits)
        waiting[mine] = mine.start("acquire")
    assert not any(waits.done() for waits in waiting.values())
    before = time.monotonic()
    java.clients[0].jvm.kill()
    for waits in waiting.values():
        waits.result(10)
    assert time.monotonic() - before < 8
    for mine in waiting:
        if mine.kind != "permit_expirable_semaphore":
            mine.unlock()


@pytest.mark.parametrize("version", VERSIONS)
def test_python_is_killed_while_it_holds(open_sides, version, unique_name, valkey):
    """All kinds at once: what a watchdog kept ends within its time."""
    java = open_sides(version).java()
    names = {kind: f"{unique_name}-{kind}" for kind in ("lock", "fair_lock", "write_lock")}
    if version == OLD:
        # A fair waiter of Redisson before 3.45 believes in the time that was left when it came, and then waits to be
        # told.
        del names["fair_lock"]
    mine = {kind: java.owner().get(kind, name) for kind, name in names.items()}
    with contextlib.ExitStack() as peers:
        holders = [
            peers.enter_context(Peer("threads", valkey.url, name, kind, lock_watchdog_timeout=1.5))
            for kind, name in names.items()
        ]
        for peer in holders:
            peer.do("lock")
        waiting = [each.start("lock") for each in mine.values()]
        before = time.monotonic()
        for peer in holders:
            peer.kill()
        for waits in waiting:
            waits.result(10)
        assert time.monotonic() - before < 8
    for each in mine.values():
        each.unlock()


@pytest.mark.parametrize("version", LOCKS["fair_lock"])
def test_fair_to_both(open_sides, version, first, unique_name, direct):
    """Whoever comes first is first, whatever language they speak; those who leave are left out."""
    one, other = open_sides(version).both(first)
    holder = one.owner().get("fair_lock", unique_name)
    queue = f"redisson_lock_queue:{{{unique_name}}}"
    holder.lock()
    waiting = []
    owners = [side.owner() for side in (one, other, other, one, other, one, one, other)]
    for place, owner in enumerate(owners):
        handle = owner.get("fair_lock", unique_name)
        waits = handle.start("lock") if place != 3 else handle.start("try_lock", 2, 30)
        until(lambda: direct.llen(queue) > place, what="it stands in the queue")  # noqa: B023
        waiting.append((handle, waits))
    assert direct.lrange(queue, 0, -1) == [owner.field for owner in owners]
    left = waiting.pop(3)[1]
    assert left.result(10) is False
    assert direct.lrange(queue, 0, -1) == [owner.field for owner in owners if owner is not owners[3]]
    now = holder
    for handle, waits in waiting:
        now.unlock()
        waits.result(10)
        assert handle.is_held_by_current_thread() is True
        assert sum(each.done() for _, each in waiting) == 1 + waiting.index((handle, waits))
        now = handle
    now.unlock()


@pytest.mark.parametrize("version", OTHERS["permit_expirable_semaphore"])
def test_permits_of_the_other(open_sides, version, first, unique_name, direct):
    """Permits are told by their ids, so anybody can give them back, and knows when they expire."""
    one, other = open_sides(version).both(first)
    mine, theirs = (side.owner().get("permit_expirable_semaphore", unique_name) for side in (one, other))
    assert mine.try_set_permits(3)
    assert theirs.try_set_permits(5) is False
    for_ever, long, another = mine.acquire(), mine.acquire(60), mine.acquire(60)
    assert theirs.try_acquire() is None
    assert theirs.acquired_permits() == 3
    assert theirs.try_release(another) is True
    short = mine.acquire(0.3)
    permit = theirs.acquire()  # Nobody says that the short one is over; it knows when.
    assert mine.try_release(short) is False
    assert theirs.try_release(for_ever) is True
    assert theirs.try_release(for_ever) is False
    assert theirs.update_lease_time(long, 300) is True
    score = direct.zscore(f"{{{unique_name}}}:timeout", bytes.fromhex(long))
    assert 250 < float(str(score)) / 1000 - time.time() <= 300
    theirs.release(long)
    with refused():
        theirs.release(long)
    mine.release(permit)
    assert (mine.available_permits(), theirs.available_permits(), theirs.get_permits()) == (3, 3, 3)


@pytest.mark.parametrize("version", OTHERS["permit_expirable_semaphore"])
def test_several_permits_of_the_other(open_sides, version, first, unique_name, direct):
    """One side acquires and releases several at once, and the other releases them, in a list or alone."""
    one, other = open_sides(version).both(first)
    mine, theirs = (side.owner().get("permit_expirable_semaphore", unique_name) for side in (one, other))
    assert mine.try_set_permits(3)
    permits = mine.acquire(60, permits=2)
    assert theirs.try_acquire(permits=2) is None
    assert theirs.get_lease_time(permits[0]) == pytest.approx(60, abs=20)
    waiting = theirs.start("acquire", permits=3)
    until_it_waits(direct, theirs)
    mine.release(permits)  # Its message is 2, though there are 3 permits then.
    all_of_them = waiting.result(SOON)
    assert len(all_of_them) == 3
    assert mine.get_lease_time(all_of_them[0]) == math.inf
    assert mine.try_release([all_of_them[0], permits[0]]) is False
    assert mine.acquired_permits() == 3
    assert theirs.try_release(all_of_them[0]) is True
    with refused():
        mine.release(all_of_them)
    assert mine.try_release(all_of_them[1:]) is True
    assert (mine.available_permits(), theirs.available_permits(), theirs.get_permits()) == (3, 3, 3)


@pytest.mark.parametrize("kind", ["semaphore", "permit_expirable_semaphore"])
def test_a_semaphore_that_the_other_lets_expire_or_deletes(sides, first, kind, unique_name, direct):
    """Both mean the same keys, and the permits in all, which only Python knows, go with them."""
    mine, theirs = (side.owner().get(kind, unique_name) for side in sides.both(first))
    assert mine.try_set_permits(3)
    assert mine.try_acquire()
    for one, other in ((mine, theirs), (theirs, mine)):
        assert one.expire(60) is True
        assert 50_000 < direct.pttl(unique_name) <= 60_000
        assert other.clear_expire() is True
        assert other.clear_expire() is False
        assert direct.pttl(unique_name) == -1
        assert one.exists() is True
    assert mine.delete() is True
    assert (mine.delete(), theirs.delete(), theirs.exists(), mine.exists()) == (False, False, False, False)
    assert theirs.try_set_permits(2)
    assert mine.available_permits() == 2


def test_java_returns_from_a_latch_that_python_deletes(sides, unique_name, direct):
    mine, theirs = (side.owner().get("count_down_latch", unique_name) for side in (sides.python(), sides.java()))
    assert theirs.try_set_count(3)
    pending = theirs.start("wait", 20)
    channel = f"redisson_countdownlatch__channel__{{{unique_name}}}"
    until(lambda: direct.pubsub_numsub(channel)[0][1] == 1, what="Java waits")
    assert mine.delete() is True
    assert pending.result(5) is True
    assert theirs.exists() is False


@pytest.mark.parametrize("name", ["{shop}orders", "orders{1}", "größe", "a b\tc", "日本"])
def test_names(sides, first, name, unique_name, direct):
    """Both derive the same keys and channels from any name."""
    name = f"{name}{unique_name}"
    one, other = sides.both(first)

    def meet(kind, side, another):
        mine, theirs = side.owner().get(kind, f"{name}-{kind}"), another.owner().get(kind, f"{name}-{kind}")
        mine.lock()
        assert theirs.is_locked()
        waits = theirs.start("lock")
        until_it_waits(direct, theirs)
        mine.unlock()
        waits.result(10)
        theirs.unlock()

    for kind in ("lock", "fair_lock", "write_lock"):
        meet(kind, one, other)


def test_java_deletes_the_lock_of_another_library_when_it_forces_it_open(sides, unique_name, direct):
    assert direct.lock(unique_name, timeout=60).acquire(blocking=False)
    assert sides.java().owner().get("lock", unique_name).force_unlock() is True
    assert not direct.exists(unique_name)


def test_a_lock_that_java_forces_open_is_reported_as_lost(sides, unique_name):
    """What Java forces open, ours says at the latest when it gives it back."""
    java, python = sides.java(), sides.python()
    mine = python.owner().get("lock", unique_name)
    mine.lock()
    assert java.owner().get("lock", unique_name).force_unlock() is True
    with pytest.raises(LockLostError):
        mine.unlock()
