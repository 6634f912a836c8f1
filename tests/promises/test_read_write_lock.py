"""Many readers or one writer; a writer may read, a reader may not write; each reader has a lease of its own."""

from functools import partial

import pytest

from pyredisson import LockError, LockNotOwnedError
from pyredisson._kinds import read_write_lock as read_write_waiting
from tests.promises.kinds import each_of, handle, not_owned, raises_lost
from tests.worlds.base import KEPT, Actor, Remote
from tests.worlds.environments import each_runtime, in_virtual_time

CHANNEL = "redisson_rwlock:{orders}"
SHORT = 1.5  # a watchdog's timeout, where a loss is waited for


def sides(actor: Actor, client: Remote, name: str = "orders") -> tuple[Remote, Remote]:
    """The read and the write side, for an actor."""
    both = actor.get(client, "read_write_lock", name)
    return both.read_lock(), both.write_lock()


@pytest.fixture
def read(alice: Actor, client: Remote) -> Remote:
    return handle(alice, client, "read_lock")


@pytest.fixture
def write(alice: Actor, client: Remote) -> Remote:
    return handle(alice, client, "write_lock")


kind = each_of("read_lock")


def hold(client: Remote, actor: Actor, number: int = 1) -> str:
    """Where the hold of a reader of "orders" is kept."""
    return f"{{orders}}:{client.id}:{actor.number}:rwlock_timeout:{number}"


# ---- exclusion ---------------------------------------------------------------------------------------------------


def test_a_reader_may_not_write(world, read, write):
    read.lock()
    began = world.now()
    for acquire in (write.lock, write.try_lock, write.acquire, write.enter, partial(write.try_lock, 30)):
        with pytest.raises(LockError) as refusal:
            acquire()
        assert not isinstance(refusal.value, LockNotOwnedError)
        assert refusal.value.name == "orders"
    assert world.now() - began < 5
    assert read.get_hold_count() == 1
    read.unlock()
    assert write.try_lock()


@each_runtime
def test_a_leftover_read_hold_in_redis_does_not_keep_its_owner_from_writing(world, client, alice, write):
    """The server still has a hold, and its client knows that it is over: of an unlock that never arrived, say."""
    world.redis.command("HSET", "orders", "mode", "read", f"{client.id}:{alice.number}", "1")
    world.redis.expire("orders", 60)
    world.redis.command("SET", hold(client, alice), "1", "PX", 60_000)
    assert write.try_lock()
    assert write.get_hold_count() == 1
    write.unlock()
    assert world.redis.everything() == {}


# ---- stored state ------------------------------------------------------------------------------------------------


def test_it_looks_as_redissons(world, client, alice, bob):
    """Appendix A of the protocol."""
    mine, theirs = sides(alice, client)[0], sides(bob, client)[0]
    me, they = f"{client.id}:{alice.number}", f"{client.id}:{bob.number}"
    mine.lock(30)
    mine.lock(10)
    theirs.lock(30)
    assert world.redis.everything() == {
        "orders": ("hash", {"mode": "read", me: "2", they: "1"}),
        hold(client, alice): ("string", "1"),
        hold(client, alice, 2): ("string", "1"),
        hold(client, bob): ("string", "1"),
    }
    assert 25 < world.redis.ttl("orders") <= 30
    assert 25 < world.redis.ttl(hold(client, alice)) <= 30
    assert 5 < world.redis.ttl(hold(client, alice, 2)) <= 10


def test_a_writer_that_reads_looks_as_redissons(world, client, alice):
    read, write = sides(alice, client)
    me = f"{client.id}:{alice.number}"
    said = world.messages(CHANNEL)
    write.lock(30)
    write.lock(30)
    assert 55 < world.redis.ttl("orders") <= 60
    read.lock(20)
    both = {"mode": "write", f"{me}:write": "2", me: "1"}
    assert world.redis.everything() == {"orders": ("hash", both), hold(client, alice): ("string", "1")}
    write.unlock()
    assert 55 < world.redis.ttl("orders") <= 60
    write.unlock()
    assert world.redis.hash("orders") == {"mode": "read", me: "1"}
    read.unlock()
    assert world.redis.everything() == {}
    assert said.received() == [b"1", b"0"]


# ---- watchdog and loss -------------------------------------------------------------------------------------------


@each_runtime
def test_a_hold_missing_in_redis_is_not_revived_and_is_reported_lost(world, alice, bob):
    client = world.client(lock_watchdog_timeout=SHORT, on_lock_lost=world.on_lock_lost)
    other = world.client()
    mine, theirs = sides(alice, client)[0], sides(bob, other)[0]
    mine.lock()
    theirs.lock(60)
    number = alice.number
    world.redis.delete(hold(client, alice))
    world.until(lambda: world.losses)
    assert world.losses == [("orders", number)]
    assert hold(client, alice) not in world.redis.everything()
    raises_lost(mine.lock)
    raises_lost(mine.unlock)
    assert theirs.get_hold_count() == 1
    assert mine.try_lock()


@in_virtual_time
def test_ending_the_read_does_not_end_the_renewal_of_the_write(world):
    """Redisson counts the two together, and the write lock silently ends."""
    client = world.client(lock_watchdog_timeout=KEPT)
    read, write = sides(world.actor(), client)
    write.lock()
    read.lock()
    read.unlock()
    world.renewed("orders")
    assert write.get_hold_count() == 1
    write.unlock()


def test_who_lost_a_read_must_unlock_before_it_writes(world):
    client = world.client(lock_watchdog_timeout=0.9)
    read, write = sides(world.actor(), client)
    read.lock()
    world.redis.delete("orders")
    world.pass_time(0.9)
    raises_lost(write.lock)
    raises_lost(read.unlock)
    assert write.try_lock()


# ---- waiting -----------------------------------------------------------------------------------------------------


@each_runtime
def test_all_readers_get_in_when_the_writers_lease_ends(world, client):
    """Nobody says so: one looks, and lets the next one look at once."""
    _, write = sides(world.actor(), world.client())
    write.lock(0.5)
    waiting = []
    for actor in world.actors(5):
        waiting.append(actor.start(sides(actor, client)[0].lock))
    began = world.now()
    for each in waiting:
        each.result(within=5)
    assert world.now() - began < 3


@each_runtime
def test_readers_yield_for_a_moment_only(world, alice, bob, carol, client):
    mine, theirs = sides(alice, client)[0], sides(bob, client)[0]
    mine.lock()
    write = sides(carol, client)[1]
    waiting = carol.start(write.try_lock, 9)
    world.until(lambda: world.waiting(write) == 1)
    began = world.now()
    theirs.lock()
    assert 0.9 * read_write_waiting.YIELD < world.now() - began < read_write_waiting.YIELD + 2
    mine.lock()  # Who reads already does not wait at all.
    assert theirs.try_lock()
    for lock in (mine, mine, theirs, theirs):
        lock.unlock()
    assert waiting.result(within=5) is True


@each_runtime
def test_a_stream_of_readers_does_not_starve_a_writer_of_their_client(world, carol, client):
    readers = [(actor, sides(actor, client)[0]) for actor in world.actors(3)]
    readers[0][1].lock()
    write = sides(carol, client)[1]
    waiting = carol.start(write.lock)
    world.until(lambda: world.waiting(write) == 1)
    for turn in range(1, 30):  # Each comes before the one before has gone.
        actor, read = readers[turn % 3]
        coming = actor.start(read.lock)
        world.pass_time(0.02)
        readers[(turn - 1) % 3][1].unlock()
        world.until(lambda coming=coming: waiting.done() or coming.done())
        if waiting.done():
            break
    assert waiting.done()
    waiting.result()
    assert turn < 5
    write.unlock()
    coming.result()


def test_a_single_attempt_to_read_does_not_yield(world, alice, bob, carol, client):
    sides(alice, client)[0].lock()
    write = sides(carol, client)[1]
    carol.start(write.lock)
    world.until(lambda: world.waiting(write) == 1)
    assert sides(bob, client)[0].try_lock()


# ---- asking and forcing ------------------------------------------------------------------------------------------


def test_each_side_reports_its_holder(client, alice, read, write):
    both, number = alice.get(client, "read_write_lock"), alice.number
    assert both.name == read.name == write.name == "orders"
    for held, other in ((write, read), (read, write)):
        with held:
            assert (held.is_held_by_thread(number), other.is_held_by_thread(number)) == (True, False)
            assert (held.locked(), other.locked()) == (True, False)
            assert (held.remain_time_to_live() is None, other.remain_time_to_live() is None) == (False, True)
            assert ("held" in repr(held), "held" in repr(other)) == (True, False)
            assert f"held for {'reading' if held is read else 'writing'}" in repr(both)


def test_force_unlock_frees_its_own_side_only(read, write):
    for held, other in ((read, write), (write, read)):
        held.lock()
        assert other.force_unlock() is False
        assert held.get_hold_count() == 1
        assert held.force_unlock() is True
        not_owned(held.unlock)
