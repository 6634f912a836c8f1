"""What differs on purpose (``same_calls.EXEMPT``): that it does, and that both still exclude and wake each other."""

from __future__ import annotations

import time

import pytest

from pyredisson import LockError, LockLostError, LockNotOwnedError
from tests.interop.building import CURRENT, OLD, require
from tests.interop.clients import not_owned
from tests.interop.peer import JavaError
from tests.interop.waiters import until_it_waits
from tests.real_servers.lock_process import Peer
from tests.waiting import until


@pytest.fixture
def version() -> str:
    """The newest."""
    require(CURRENT)
    return CURRENT


def test_a_ttl_is_never_lowered(sides, unique_name, direct):
    mine, theirs = sides.python().owner().get("lock", unique_name), sides.java().owner().get("lock", unique_name)
    mine.lock(60)
    mine.lock(20)
    assert 30_000 < direct.pttl(unique_name) <= 60_000
    assert not theirs.try_lock()
    mine.unlock()
    mine.unlock()
    theirs.lock(60)
    theirs.lock(20)
    assert direct.pttl(unique_name) <= 20_000
    assert not mine.try_lock()
    theirs.unlock()
    assert not mine.try_lock()
    theirs.unlock()
    assert mine.try_lock()
    mine.unlock()


def test_a_fenced_re_entry_joins(sides, unique_name):
    mine = sides.python().owner().get("fenced_lock", unique_name)
    theirs = sides.java().owner().get("fenced_lock", unique_name)
    assert mine.lock_and_get_token() == mine.lock_and_get_token() == 1
    assert not theirs.try_lock()
    mine.unlock()
    mine.unlock()
    assert [theirs.lock_and_get_token(), theirs.lock_and_get_token()] == [2, 3]
    assert not mine.try_lock()
    theirs.unlock()
    theirs.unlock()
    assert mine.lock_and_get_token() == 4
    mine.unlock()


def test_a_fair_waiter_of_ours_stays_alive(sides, unique_name, direct):
    """It waits for longer than it was first believed in, and is served in its turn, before Java's behind it."""
    java = sides.java()
    holder, last = java.owner().get("fair_lock", unique_name), java.owner().get("fair_lock", unique_name)
    waiter = sides.python(fair_lock_wait_timeout=1.0).owner()
    mine = waiter.get("fair_lock", unique_name)
    queue, timeouts = f"redisson_lock_queue:{{{unique_name}}}", f"redisson_lock_timeout:{{{unique_name}}}"
    lease = 2.0  # As long as this it is believed in, and a second more.
    holder.lock(lease)
    waits = mine.start("lock")
    until(lambda: direct.llen(queue) == 1, what="it is queued up")
    believed = direct.zscore(timeouts, waiter.field)
    waits_too = last.start("lock")
    until(lambda: direct.llen(queue) == 2, what="the next one, too")
    while time.time() * 1000 < float(str(believed)) + 200:
        assert holder.try_lock(0.1, lease)  # The lock must not run out meanwhile.
        time.sleep(0.01)
    assert direct.lindex(queue, 0) == waiter.field
    holder.force_unlock()
    waits.result(10)
    assert not waits_too.done()
    mine.unlock()
    waits_too.result(10)
    last.unlock()


def test_a_dead_fair_waiter_of_ours_is_passed(sides, unique_name, direct, valkey):
    """By ours when its own patience is over, though Java freed the lock, and believes in it by its score."""
    holder, theirs = (sides.java().owner().get("fair_lock", unique_name) for _ in range(2))
    mine = sides.python().owner().get("fair_lock", unique_name)
    queue, timeouts = f"redisson_lock_queue:{{{unique_name}}}", f"redisson_lock_timeout:{{{unique_name}}}"
    holder.lock(60)
    with Peer("threads", valkey.url, unique_name, "fair_lock") as peer:
        came = time.monotonic()
        peer.send("try_lock", 2.0)
        until(lambda: direct.llen(queue) == 1, what="it stands in the queue")
        waits = mine.start("lock")
        until(lambda: direct.llen(queue) == 2, what="the next one, too")
        peer.kill()
    score = direct.zscore(timeouts, f"{peer.client_id}:{peer.number}")
    assert float(str(score)) > time.time() * 1000 + 30_000
    holder.unlock()
    assert theirs.try_lock() is False
    waits.result(20)
    assert 1.9 < time.monotonic() - came < 15
    mine.unlock()
    assert theirs.try_lock() is True
    theirs.unlock()


@pytest.mark.parametrize("first", ["java", "python"])
def test_a_downgrade_tells(sides, first, unique_name, direct):
    """Ours does. Java's does not; but a reader of ours looks again by itself."""
    clients = {"java": sides.java(), "python": sides.python(max_wait_without_check=1.0)}
    writer, reader = clients.pop(first).owner(), clients.popitem()[1].owner()
    write, read = writer.get("write_lock", unique_name), writer.get("read_lock", unique_name)
    theirs, their_write = reader.get("read_lock", unique_name), reader.get("write_lock", unique_name)
    write.lock()
    read.lock()
    waits = theirs.start("lock")
    until_it_waits(direct, theirs)
    before = time.monotonic()
    write.unlock()
    waits.result(10)
    assert time.monotonic() - before < 8
    theirs.unlock()
    assert not their_write.try_lock()
    read.unlock()
    assert their_write.try_lock()
    their_write.unlock()


def test_a_fair_lock_that_is_gone(sides, unique_name, direct):
    mine, theirs = (side.owner().get("fair_lock", unique_name) for side in (sides.python(), sides.java()))
    mine.lock()
    direct.delete(unique_name)
    with pytest.raises(LockLostError):
        mine.unlock()
    theirs.lock()
    direct.delete(unique_name)
    theirs.unlock()
    assert mine.try_lock()
    assert not theirs.try_lock()
    mine.unlock()


def test_nothing_is_asked_for_nothing(sides, unique_name, direct):
    mine, theirs = (side.owner().get("write_lock", unique_name) for side in (sides.python(), sides.java()))
    with direct.pubsub() as heard:
        heard.subscribe(f"redisson_rwlock:{{{unique_name}}}")
        until(heard.get_message, what="it is subscribed")
        with pytest.raises(LockNotOwnedError):
            mine.unlock()
        with pytest.raises(JavaError) as refusal:
            theirs.unlock()
        assert not_owned(refusal.value)
        direct.publish(f"redisson_rwlock:{{{unique_name}}}", "the end")
        said = [until(heard.get_message, what="the messages")["data"] for _ in range(2)]
    assert said == ["1", "the end"], "one by Java"


def test_an_upgrade_raises(sides, unique_name):
    mine, theirs = sides.python().owner(), sides.java().owner()
    for owner in (mine, theirs):
        owner.get("read_lock", unique_name).lock()
    with pytest.raises(LockError, match="read"):
        mine.get("write_lock", unique_name).try_lock()
    assert theirs.get("write_lock", unique_name).try_lock() is False
    mine.get("read_lock", unique_name).unlock()
    assert mine.get("write_lock", unique_name).try_lock() is False
    theirs.get("read_lock", unique_name).unlock()
    assert mine.get("write_lock", unique_name).try_lock() is True
    mine.get("write_lock", unique_name).unlock()


def test_each_side_has_its_time(sides, unique_name):
    mine, theirs = sides.python().owner(), sides.java().owner()
    theirs.get("read_lock", unique_name).lock(60)
    assert 30 < mine.get("read_lock", unique_name).remain_time_to_live() <= 60
    assert mine.get("write_lock", unique_name).remain_time_to_live() is None
    assert 30 < theirs.get("write_lock", unique_name).remain_time_to_live() <= 60
    assert mine.get("write_lock", unique_name).try_lock() is False


def test_keys_of_one_side(sides, unique_name, direct):
    """Each goes on beside those that only the other one writes. They all have an end, but for the permits in all."""
    mine, theirs = (side.owner().get("semaphore", unique_name) for side in (sides.python(), sides.java()))
    assert mine.try_set_permits(1)
    for one in (mine, theirs, mine):
        assert one.try_acquire()
        one.release()
    total = f"pyredisson_permits:{{{unique_name}}}"
    assert direct.get(total) == "1"
    keys = [key for key in direct.scan_iter(f"*{unique_name}*") if key not in (unique_name, total)]
    assert keys == [f"pyredisson_done:{{{unique_name}}}:{mine.owner.field}"]
    assert 0 < direct.pttl(keys[0]) <= 60_000


def test_long_ago(open_sides, unique_name):
    """The oldest version: an unlock of nothing succeeds, and a reader who writes is not said to read."""
    sides = open_sides(OLD)
    mine, theirs = sides.python().owner(), sides.java().owner()
    assert theirs.get("read_lock", unique_name).unlock() is None
    with pytest.raises(LockNotOwnedError):
        mine.get("read_lock", unique_name).unlock()
    for each in (theirs, mine):
        each.get("write_lock", unique_name).lock()
        each.get("read_lock", unique_name).lock()
        assert theirs.get("read_lock", unique_name).is_locked() is False
        assert mine.get("read_lock", unique_name).is_locked() is True
        other = mine if each is theirs else theirs
        assert other.get("read_lock", unique_name).try_lock() is False
        each.get("write_lock", unique_name).unlock()
        each.get("read_lock", unique_name).unlock()
