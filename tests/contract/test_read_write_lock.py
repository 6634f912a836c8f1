"""Many readers or one writer; a writer may read, a reader may not write; each reader has a lease of its own."""

from __future__ import annotations

import pytest

from pyredisson import LockError, LockLostError, LockNotOwnedError
from pyredisson.kinds import read_write_waiting
from tests.worlds.base import Actor, Remote, World
from tests.worlds.environments import each_runtime, in_virtual_time, sync_and_async

CHANNEL = "redisson_rwlock:{orders}"
SHORT = 1.5  # a watchdog's timeout, where a loss is waited for
LONG = 2.4  # the same, where nothing may be lost: a busy machine may well keep the watchdog waiting


def sides(actor: Actor, client: Remote, name: str = "orders") -> tuple[Remote, Remote]:
    """The read and the write side, for an actor."""
    both = actor.get(client, "read_write_lock", name)
    return both.read_lock(), both.write_lock()


def hold(client: Remote, actor: Actor, number: int = 1) -> str:
    """Where the hold of a reader of "orders" is kept."""
    return f"{{orders}}:{client.id}:{actor.number}:rwlock_timeout:{number}"


# ---- exclusion ---------------------------------------------------------------------------------------------------


def test_many_readers_at_once_exclude_a_writer(world: World) -> None:
    clients = [world.client(), world.client()]
    readers = [sides(actor, clients[n % 2])[0] for n, actor in enumerate(world.actors(4))]
    _, write = sides(world.actor(), clients[0])
    for reader in readers:
        assert reader.try_lock()
    assert not write.try_lock()
    for reader in readers:
        assert reader.is_held_by_current_thread()
        reader.unlock()
    assert write.try_lock()


def test_a_writer_excludes_other_readers_and_writers(world: World) -> None:
    client, other = world.client(), world.client()
    alice, bob = world.actors(2)
    _, write = sides(alice, client)
    write.lock()
    for each in (client, other):
        for side in sides(bob, each):
            assert not side.try_lock()
    write.unlock()
    assert sides(bob, other)[0].try_lock()


def test_a_reader_may_read_again_and_a_writer_write(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    for side, theirs in zip(sides(alice, client), reversed(sides(bob, client)), strict=True):
        for holds in (1, 2, 3):
            side.lock()
            assert side.get_hold_count() == holds
        for holds in (2, 1):
            side.unlock()
            assert side.get_hold_count() == holds
            assert not theirs.try_lock()
        side.unlock()
        assert side.get_hold_count() == 0
        assert theirs.try_lock()
        theirs.unlock()
    assert world.redis.everything() == {}


def test_a_writer_may_read_and_go_on_reading(world: World) -> None:
    client = world.client()
    alice, bob, carol = world.actors(3)
    read, write = sides(alice, client)
    theirs = sides(bob, client)[0]
    hers = sides(carol, client)[1]
    write.lock()
    read.lock()
    assert not theirs.try_lock()
    write.unlock()
    assert theirs.try_lock()
    assert not hers.try_lock()
    theirs.unlock()
    read.unlock()
    assert hers.try_lock()


def test_a_writer_may_end_its_read_first(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    read, write = sides(alice, client)
    write.lock()
    left = write.remain_time_to_live()
    read.lock(1)
    read.lock(1)
    read.unlock()
    read.unlock()
    assert write.remain_time_to_live() > left - 5
    assert not sides(bob, client)[0].try_lock()
    write.unlock()
    assert world.redis.everything() == {}


def test_waiting_readers_hear_of_a_downgrade(world: World) -> None:
    """Redisson says nothing, and they sleep until the lease ends."""
    client, other = world.client(), world.client()
    alice, bob, carol = world.actors(3)
    read, write = sides(alice, client)
    write.lock()
    read.lock()
    waiting = [bob.start(sides(bob, other)[0].lock), carol.start(sides(carol, client)[0].lock)]
    world.until(lambda: world.redis.subscribers(CHANNEL) == 2)
    world.pass_time(0.1)
    assert not any(each.done() for each in waiting)
    said = world.messages(CHANNEL)
    write.unlock()
    for each in waiting:
        each.result(within=5)
    assert said.received() == [b"1"]


@pytest.mark.parametrize("how", ["lock", "try_lock", "acquire", "enter", "wait"])
def test_a_reader_may_not_write(world: World, how: str) -> None:
    client = world.client()
    read, write = sides(world.actor(), client)
    read.lock()
    began = world.now()
    with pytest.raises(LockError) as refusal:
        if how == "wait":
            write.try_lock(30)
        else:
            getattr(write, how)()
    assert not isinstance(refusal.value, LockNotOwnedError)
    assert refusal.value.name == "orders"
    assert world.now() - began < 5
    assert read.get_hold_count() == 1
    read.unlock()
    assert write.try_lock()


@each_runtime
def test_a_leftover_read_hold_in_redis_does_not_keep_its_owner_from_writing(world: World) -> None:
    """The server still has a hold, and its client knows that it is over: of an unlock that never arrived, say."""
    client = world.client()
    alice = world.actor()
    _, write = sides(alice, client)
    world.redis.command("HSET", "orders", "mode", "read", f"{client.id}:{alice.number}", "1")
    world.redis.expire("orders", 60)
    world.redis.command("SET", hold(client, alice), "1", "PX", 60_000)
    assert write.try_lock()
    assert write.get_hold_count() == 1
    write.unlock()
    assert world.redis.everything() == {}


def test_a_hold_that_ran_out_is_no_upgrade(world: World) -> None:
    """Its field stays in Redis as long as others read."""
    client = world.client()
    alice, bob = world.actors(2)
    read, write = sides(alice, client)
    theirs, _ = sides(bob, client)
    theirs.lock()
    read.lock(0.2)
    world.pass_time(0.4)
    assert f"{client.id}:{alice.number}" in world.redis.hash("orders")
    assert write.try_lock(0.2) is False
    theirs.unlock()
    assert write.try_lock(2)


def test_a_stranger_cannot_unlock(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    read, write = sides(alice, client)
    their_read, their_write = sides(bob, client)
    for mine, strangers in ((read, (write, their_read, their_write)), (write, (read, their_read, their_write))):
        mine.lock()
        for stranger in strangers:
            with pytest.raises(LockNotOwnedError) as refusal:
                stranger.unlock()
            assert not isinstance(refusal.value, LockLostError)
        assert mine.get_hold_count() == 1
        mine.unlock()


def test_locks_of_other_kinds_on_the_same_name_exclude_it(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    plain = alice.lock(client)
    plain.lock()
    for side in sides(bob, client):
        assert not side.try_lock()
        assert not side.is_locked()
    read, _ = sides(alice, client)
    for call in (read.lock, read.unlock):
        with pytest.raises(LockError, match="needs another name"):
            call()
    assert plain.get_hold_count() == 1
    plain.unlock()
    read.lock()
    for call in (plain.lock, plain.unlock):
        with pytest.raises(LockError, match="needs another name"):
            call()
    assert read.get_hold_count() == 1
    read.unlock()
    for side in sides(bob, client):
        side.lock()
        assert not plain.try_lock()
        side.unlock()


# ---- stored state ------------------------------------------------------------------------------------------------


def test_it_looks_as_redissons(world: World) -> None:
    """Appendix A of the protocol."""
    client = world.client()
    alice, bob = world.actors(2)
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


def test_a_writer_that_reads_looks_as_redissons(world: World) -> None:
    client = world.client()
    alice = world.actor()
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


def test_a_name_with_braces_is_not_wrapped(world: World) -> None:
    client = world.client()
    alice = world.actor()
    sides(alice, client, "{shop}orders")[0].lock()
    assert f"{{shop}}orders:{client.id}:{alice.number}:rwlock_timeout:1" in world.redis.everything()


def test_only_what_frees_is_announced(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    read, write = sides(alice, client)
    theirs, _ = sides(bob, client)
    said = world.messages(CHANNEL)
    read.lock()
    read.lock()
    theirs.lock()
    read.unlock()
    read.unlock()
    assert said.received() == []
    theirs.unlock()
    write.lock()
    write.lock()
    write.unlock()
    assert said.received() == [b"0"]
    write.unlock()
    assert said.received() == [b"0", b"1"]


# ---- leases ------------------------------------------------------------------------------------------------------


def test_the_lock_lives_as_long_as_its_longest_reader(world: World) -> None:
    client = world.client()
    alice, bob, carol = world.actors(3)
    mine, theirs, hers = (sides(actor, client)[0] for actor in (alice, bob, carol))
    mine.lock(60)
    theirs.lock(40)
    hers.lock(20)
    assert 55 < world.redis.ttl("orders") <= 60
    mine.unlock()
    assert 35 < world.redis.ttl("orders") <= 40
    hers.unlock()
    assert 35 < world.redis.ttl("orders") <= 40


@each_runtime
def test_a_reader_whose_lease_is_over_frees_the_lock_for_others_only_when_they_are_done(world: World) -> None:
    client = world.client()
    alice, bob, carol = world.actors(3)
    mine, theirs = sides(alice, client)[0], sides(bob, client)[0]
    write = sides(carol, client)[1]
    mine.lock(0.4)
    theirs.lock(60)
    world.pass_time(0.6)
    assert mine.get_hold_count() == 0
    assert not mine.is_held_by_current_thread()
    assert theirs.is_held_by_current_thread()
    assert not write.try_lock()
    with pytest.raises(LockLostError):
        mine.unlock()
    assert theirs.get_hold_count() == 1
    theirs.unlock()
    assert write.try_lock()


def test_dead_readers_are_dropped_with_the_last_live_one(world: World) -> None:
    """Its process is gone; the lock must not wait for the rest of a lease that others had asked for."""
    client, gone = world.client(), world.client()
    alice, bob, carol = world.actors(3)
    mine, dead = sides(alice, client)[0], sides(bob, gone)[0]
    said = world.messages(CHANNEL)
    mine.lock(60)
    dead.lock(60)
    world.redis.delete(hold(gone, bob))
    mine.unlock()
    assert "orders" not in world.redis.everything()
    assert said.received() == [b"0"]
    assert sides(carol, client)[1].try_lock()


@pytest.mark.parametrize("first", [None, 20], ids=lambda lease: f"outer-{lease}")
@pytest.mark.parametrize("second", [None, 5, 50], ids=lambda lease: f"inner-{lease}")
def test_neither_entering_nor_leaving_shortens_a_readers_time(
    world: World, first: float | None, second: float | None
) -> None:
    client = world.client(lock_watchdog_timeout=30)
    alice = world.actor()
    mine = sides(alice, client)[0]
    longest = max(30 if lease is None else lease for lease in (first, second))
    mine.lock(first)
    mine.lock(second)
    assert longest - 5 < world.redis.ttl("orders") <= longest
    mine.unlock()
    assert longest - 5 < world.redis.ttl("orders") <= longest
    assert longest - 5 < world.redis.ttl(hold(client, alice)) <= longest
    assert hold(client, alice, 2) not in world.redis.everything()
    mine.unlock()
    assert world.redis.everything() == {}


def test_a_readers_nested_holds_share_the_latest_deadline(world: World) -> None:
    client = world.client()
    alice = world.actor()
    mine = sides(alice, client)[0]
    with mine.hold(lease_time=0.3) as outer:
        with mine.hold(lease_time=60) as inner:
            world.pass_time(0.5)
            assert inner.remaining() > 50
        assert outer.remaining() > 50
        assert 50 < world.redis.ttl(hold(client, alice)) <= 60
        outer.ensure_held()
    assert world.redis.everything() == {}


def test_a_writers_reentry_adds_but_not_without_end(world: World) -> None:
    client = world.client()
    _, write = sides(world.actor(), client)
    write.lock(30)
    for _ in range(5):
        write.lock(20)
        assert 45 < world.redis.ttl("orders") <= 50
        write.unlock()
        assert 45 < world.redis.ttl("orders") <= 50
    write.unlock()
    assert world.redis.everything() == {}


# ---- watchdog and loss -------------------------------------------------------------------------------------------


@each_runtime
def test_readers_and_writers_are_kept_alive(world: World) -> None:
    client = world.client(lock_watchdog_timeout=LONG)
    alice, bob, carol = world.actors(3)
    read, write = sides(alice, client)
    write.lock()
    read.lock()
    held = hold(client, alice)
    theirs, hers = sides(bob, client)[0], sides(carol, client)[1]
    reading = bob.start(theirs.lock)
    world.renewed("orders", held)
    assert not reading.done()
    write.unlock()
    reading.result(within=5)
    theirs.unlock()
    writing = carol.start(hers.lock)
    world.renewed("orders", held)
    assert not writing.done()
    assert 0 < world.redis.ttl("orders") <= LONG
    assert 0 < world.redis.ttl(held) <= LONG
    read.unlock()
    writing.result(within=5)


@each_runtime
def test_a_reader_renews_only_its_own_hold(world: World) -> None:
    client, other = world.client(lock_watchdog_timeout=LONG), world.client()
    alice, bob = world.actors(2)
    mine, theirs = sides(alice, client)[0], sides(bob, other)[0]
    theirs.lock(60)
    mine.lock()
    world.redis.expire(hold(other, bob), 50)
    world.renewed(hold(client, alice), times=1)
    assert 0 < world.redis.ttl(hold(client, alice)) <= LONG
    assert 40 < world.redis.ttl(hold(other, bob)) <= 50
    assert 50 < world.redis.ttl("orders") <= 60


@each_runtime
def test_a_hold_missing_in_redis_is_not_revived_and_is_reported_lost(world: World) -> None:
    lost = []
    client = world.client(lock_watchdog_timeout=SHORT, on_lock_lost=lambda *told: lost.append(told))
    other = world.client()
    alice, bob = world.actors(2)
    mine, theirs = sides(alice, client)[0], sides(bob, other)[0]
    mine.lock()
    theirs.lock(60)
    number = alice.number
    world.redis.delete(hold(client, alice))
    world.until(lambda: lost)
    assert lost == [("orders", number)]
    assert hold(client, alice) not in world.redis.everything()
    with pytest.raises(LockLostError):
        mine.lock()
    with pytest.raises(LockLostError):
        mine.unlock()
    assert theirs.get_hold_count() == 1
    assert mine.try_lock()


@in_virtual_time
def test_ending_the_read_does_not_end_the_renewal_of_the_write(world: World) -> None:
    """Redisson counts the two together, and the write lock silently ends."""
    client = world.client(lock_watchdog_timeout=LONG)
    read, write = sides(world.actor(), client)
    write.lock()
    read.lock()
    read.unlock()
    world.renewed("orders")
    assert write.get_hold_count() == 1
    write.unlock()


def test_a_lost_read_says_so_at_unlock(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine = sides(alice, client)[0]
    with pytest.raises(LockLostError), mine.hold() as lease:
        world.redis.delete("orders")
        assert sides(bob, client)[1].try_lock()
        assert not lease.lost
    assert not mine.is_locked()


def test_who_lost_a_read_must_unlock_before_it_writes(world: World) -> None:
    client = world.client(lock_watchdog_timeout=0.9)
    read, write = sides(world.actor(), client)
    read.lock()
    world.redis.delete("orders")
    world.pass_time(0.9)
    with pytest.raises(LockLostError):
        write.lock()
    with pytest.raises(LockLostError):
        read.unlock()
    assert write.try_lock()


# ---- waiting -----------------------------------------------------------------------------------------------------


def test_a_writer_gets_it_when_the_last_reader_leaves(world: World) -> None:
    client, other = world.client(), world.client()
    alice, bob, carol = world.actors(3)
    one, two = sides(alice, client)[0], sides(bob, other)[0]
    write = sides(carol, other)[1]
    one.lock()
    two.lock()
    waiting = carol.start(write.lock)
    world.until(lambda: world.redis.subscribers(CHANNEL) == 1)
    one.unlock()
    world.pass_time(0.1)
    assert not waiting.done()
    two.unlock()
    waiting.result(within=5)


def test_all_readers_get_in_when_the_writer_leaves(world: World) -> None:
    client = world.client()
    _, write = sides(world.actor(), client)
    write.lock()
    readers = [(actor, sides(actor, client)[0]) for actor in world.actors(5)]
    waiting = [actor.start(read.lock) for actor, read in readers]
    world.until(lambda: world.waiting(readers[0][1]) == 5)
    assert world.waiting(write) == 0
    write.unlock()
    for each in waiting:
        each.result(within=5)


@each_runtime
def test_all_readers_get_in_when_the_writers_lease_ends(world: World) -> None:
    """Nobody says so: one looks, and lets the next one look at once."""
    client = world.client()
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
def test_readers_of_a_client_yield_to_its_writer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is always somebody reading: without giving way, the writer would never get it."""
    monkeypatch.setattr(read_write_waiting, "YIELD", 5.0)
    client = world.client()
    pair = [sides(actor, client)[0] for actor in world.actors(2)]
    carol = world.actor()
    write = sides(carol, client)[1]
    pair[0].lock()
    waiting = carol.start(write.lock)
    world.until(lambda: world.waiting(write) == 1)
    newcomer = pair[1]._actor.start(pair[1].lock)
    world.until(lambda: world.waiting(pair[1]) == 1)
    pair[0].unlock()
    waiting.result(within=5)
    assert not newcomer.done()
    write.unlock()
    newcomer.result(within=5)


@each_runtime
def test_readers_yield_for_a_moment_only(world: World) -> None:
    client = world.client()
    alice, bob, carol = world.actors(3)
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


@in_virtual_time
def test_a_reader_that_yielded_does_not_do_so_again_without_a_waiting_writer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_write_waiting, "YIELD", 1.5)
    client = world.client()
    alice, carol = world.actors(2)
    read, write = sides(alice, client)[0], sides(carol, client)[1]
    other = sides(world.actor(), world.client())[0]
    other.lock()
    waiting = carol.start(write.try_lock, 0.3)
    world.until(lambda: world.waiting(write) == 1)
    reading = alice.start(read.lock)
    assert waiting.result() is False
    reading.result()
    read.unlock()
    began = world.now()
    read.lock()
    assert world.now() - began < 1.2


@each_runtime
def test_a_stream_of_readers_does_not_starve_a_writer_of_their_client(world: World) -> None:
    client = world.client()
    readers = [(actor, sides(actor, client)[0]) for actor in world.actors(3)]
    readers[0][1].lock()
    carol = world.actor()
    write = sides(carol, client)[1]
    waiting = carol.start(write.lock)
    world.until(lambda: world.waiting(write) == 1)
    for turn in range(1, 30):  # Each comes before the one before has gone.
        actor, read = readers[turn % 3]
        coming = actor.start(read.lock)
        world.pass_time(0.02)
        readers[(turn - 1) % 3][1].unlock()
        world.until(lambda coming=coming: waiting.done() or coming.done())  # type: ignore[misc]
        if waiting.done():
            break
    assert waiting.done()
    waiting.result()
    assert turn < 5
    write.unlock()
    coming.result()


def test_a_single_attempt_to_read_does_not_yield(world: World) -> None:
    client = world.client()
    alice, bob, carol = world.actors(3)
    sides(alice, client)[0].lock()
    write = sides(carol, client)[1]
    carol.start(write.lock)
    world.until(lambda: world.waiting(write) == 1)
    assert sides(bob, client)[0].try_lock()


# ---- asking and forcing ------------------------------------------------------------------------------------------


def test_each_side_says_whether_it_is_locked(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    read, write = sides(alice, client)

    def seen() -> tuple[bool, ...]:
        their_read, their_write = sides(bob, client)
        for side in (their_read, their_write):
            assert side.locked() == side.is_locked() == (side.remain_time_to_live() is not None)
        return their_read.is_locked(), their_write.is_locked()

    assert seen() == (False, False)
    read.lock()
    assert seen() == (True, False)
    read.unlock()
    write.lock()
    assert seen() == (False, True)
    read.lock()
    assert seen() == (True, True)
    write.unlock()
    assert seen() == (True, False)
    read.unlock()
    assert seen() == (False, False)


def test_each_side_reports_its_holder(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    both = alice.get(client, "read_write_lock", "orders")
    read, write = both.read_lock(), both.write_lock()
    assert both.name == read.name == write.name == "orders"
    number = alice.number
    write.lock()
    assert (write.get_hold_count(), read.get_hold_count()) == (1, 0)
    assert (write.is_held_by_thread(number), read.is_held_by_thread(number)) == (True, False)
    assert "held" in repr(write)
    assert "held" not in repr(read)
    read.lock()
    write.unlock()
    assert (write.get_hold_count(), read.get_hold_count()) == (0, 1)
    assert (write.is_held_by_current_thread(), read.is_held_by_current_thread()) == (False, True)
    assert "held" in repr(read)
    assert "held" not in repr(write)
    assert "held for reading" in repr(both)
    assert sides(bob, client)[0].get_hold_count() == 0
    assert not sides(bob, client)[0].is_held_by_current_thread()


def test_force_unlock_frees_its_own_side_only(world: World) -> None:
    client, other = world.client(), world.client()
    alice, bob = world.actors(2)
    read, write = sides(alice, client)
    their_read, their_write = sides(bob, other)
    said = world.messages(CHANNEL)
    assert not their_read.force_unlock()
    assert not their_write.force_unlock()
    read.lock()
    assert their_write.force_unlock() is False
    assert read.get_hold_count() == 1
    assert their_read.force_unlock() is True
    assert said.received() == [b"0"]
    with pytest.raises(LockLostError):
        read.unlock()
    assert said.received() == [b"0", b"0"]  # It finds the lock gone, and says so, too.
    write.lock()
    assert their_read.force_unlock() is False
    assert write.get_hold_count() == 1
    assert their_write.force_unlock() is True
    assert said.received() == [b"0", b"0", b"1"]
    with pytest.raises(LockLostError):
        write.unlock()
    assert said.received() == [b"0", b"0", b"1", b"1"]


def test_force_unlock_ends_what_the_caller_held_itself(world: World) -> None:
    client = world.client()
    read, write = sides(world.actor(), client)
    write.lock()
    read.lock()
    assert read.force_unlock() is False
    assert (read.get_hold_count(), write.get_hold_count()) == (1, 1)
    assert write.force_unlock() is True
    for side in (read, write):
        with pytest.raises(LockNotOwnedError) as refusal:
            side.unlock()
        assert not isinstance(refusal.value, LockLostError)
        side.lock()
        side.unlock()


@each_runtime
def test_forcing_the_write_side_open_ends_what_the_caller_read_before(world: World) -> None:
    client, actor = world.client(), world.actor()
    both = actor.get(client, "read_write_lock", "orders")
    read, write = both.read_lock(), both.write_lock()
    read.lock(0.2)
    world.pass_time(0.3)
    write.lock()
    assert write.force_unlock() is True
    with pytest.raises(LockNotOwnedError) as refusal:
        read.unlock()
    assert not isinstance(refusal.value, LockLostError), "it knows what it has done"


@sync_and_async
def test_other_readers_of_the_client_lose_their_hold_by_a_forced_unlock(world: World) -> None:
    lost: list[object] = []
    client = world.client(on_lock_lost=lambda *told: lost.append(told))
    alice, bob = world.actors(2)
    mine, theirs = sides(alice, client)[0], sides(bob, client)[0]
    mine.lock()
    theirs.lock()
    mine.force_unlock()
    world.until(lambda: lost == [("orders", bob.number)])
    with pytest.raises(LockLostError):
        theirs.unlock()
    mine.lock()
    mine.unlock()
