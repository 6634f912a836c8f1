"""A fenced lock is a lock whose holds are numbered: each number is greater than all before it."""

from tests.promises.kinds import each_of

TOKEN = "redisson_lock_token:{orders}"
kind = each_of("fenced_lock")


def test_tokens_grow_from_hold_to_hold(world, alice, bob):
    one, two = world.client(), world.client()
    mine, theirs = alice.get(one, "fenced_lock"), bob.get(two, "fenced_lock")
    assert mine.get_token() is None
    tokens = []
    for lock in (mine, theirs, mine, mine, theirs):
        tokens.append(lock.lock_and_get_token())
        assert lock.get_token() == tokens[-1]
        lock.unlock()
    assert tokens == [1, 2, 3, 4, 5]
    assert theirs.get_token() == 5, "the last one, though nobody holds it"


def test_a_block_knows_its_token(client, alice, mine):
    with mine.hold(1, 20) as outer:
        assert outer.token == 1
        with mine.hold() as inner:
            assert inner.token == 1
    with mine.hold() as lease:
        assert lease.token == 2
    with alice.lock(client).hold() as lease:
        assert lease.token is None


def test_who_does_not_get_it_gets_no_token(world, mine, theirs):
    mine.lock()
    assert theirs.try_lock_and_get_token() is None
    assert theirs.try_lock_and_get_token(0.05, 20) is None
    assert theirs.get_token() == 1
    mine.unlock()
    assert theirs.try_lock_and_get_token(0, 12) == 2
    assert 10 < world.redis.ttl("orders") <= 12


def test_tokens_follow_the_servers_clock_if_they_shall(world):
    mine = world.actor().get(world.client(fence_from_clock=True), "fenced_lock")
    first = mine.lock_and_get_token()
    assert first > 1_500_000_000_000_000, "microseconds since 1970"
    assert mine.lock_and_get_token() == first
    mine.unlock()
    mine.unlock()
    world.redis.delete(TOKEN)
    world.pass_time(0.001)
    assert mine.lock_and_get_token() > first, "they grow through a loss of all data"
    mine.unlock()
    world.redis.command("SET", TOKEN, str(first + 10**14))
    assert mine.lock_and_get_token() == first + 10**14 + 1, "and beyond a clock that was ahead"
