"""``client.run_once()``: a block or a function that runs on one process, and not again for a time."""

from typing import Any

import pytest

from pyredisson import ClientClosedError, LockError, LockLostError, Ran, Skipped
from tests.promises.test_synchronized import decorated
from tests.worlds.base import Remote, World
from tests.worlds.environments import each_runtime, in_real_time


def run(world: World, client: Remote, name: str = "report", **times: float) -> Any:
    """Return the block of a run of an actor of its own."""
    return Remote(client.real.run_once(name, **times), world.actor())


def test_one_runs_it_and_others_skip(world):
    client, other = world.client(), world.client()
    with run(world, client, at_most=60, at_least=0) as mine:
        assert 50 < mine.remaining() < 60
        for each in (client, other):
            with run(world, each, at_most=60) as theirs:
                assert theirs is None
    with run(world, other, at_most=60, at_least=0) as theirs:
        assert theirs is not None
    assert world.redis.everything() == {}


def test_by_default_a_short_run_is_not_repeated_within_ten_seconds(world, client):
    with run(world, client, at_most=60) as mine:
        assert mine is not None
    with run(world, world.client(), at_most=60) as theirs:
        assert theirs is None
    assert 5 < (world.redis.ttl("report") or 0) <= 10


@each_runtime
def test_the_default_is_never_more_than_at_most(world, client):
    with run(world, client, at_most=5) as mine:
        assert mine is not None
    assert 0 < (world.redis.ttl("report") or 0) <= 5
    with pytest.raises(ValueError, match="at_least must be from 0 to at_most, not 10 s"):
        client.real.run_once("report", at_most=5, at_least=10)


@each_runtime
def test_without_at_most_it_is_renewed_while_it_runs(world):
    client, other = world.client(lock_watchdog_timeout=3), world.client()
    with run(world, client, at_most=None, at_least=60) as mine:
        world.pass_time(4)
        assert not mine.lost
        assert 0 < (world.redis.ttl("report") or 0) <= 3, "a crash frees it within a watchdog's time"
        with run(world, other, at_most=60) as theirs:
            assert theirs is None
    assert 50 < (world.redis.ttl("report") or 0) < 58, "counted from its beginning"
    with run(world, other, at_most=None) as theirs:
        assert theirs is None
    world.pass_time(1.1)
    assert "report" in world.redis.everything()


def test_nobody_gets_it_until_at_least_is_over(world, client, alice):
    with Remote(client.real.run_once("report", at_most=60, at_least=40), alice) as mine:
        assert mine is not None
    assert world.redis.ttl("report") == pytest.approx(40, abs=5)
    (_, fields) = world.redis.everything()["report"]
    assert list(fields) == [f"{client.id}:{alice.number}:ran"]
    for each in (alice, world.actor()):
        with Remote(client.real.run_once("report", at_most=60), each) as again:
            assert again is None
        assert not each.lock(client, "report").try_lock()
    assert Remote(client.real.run_once("report").lock, alice).force_unlock()
    assert alice.lock(client, "report").try_lock()


@each_runtime
def test_the_time_is_counted_from_its_beginning(world, client):
    with run(world, client, at_most=60, at_least=0.4) as mine:
        assert mine is not None
        world.pass_time(0.5)
    assert world.redis.everything() == {}
    with run(world, client, at_most=60, at_least=0.3) as mine:
        assert mine is not None
    world.until(lambda: not world.redis.everything())
    block = run(world, client, at_most=60, at_least=40)
    assert block._actor.do(block.enter().extend, 600)
    world.pass_time(1.1)
    block.__exit__(None, None, None)
    assert 30 < (world.redis.ttl("report") or 0) <= 39, "however long the run was allowed to take"


@each_runtime
def test_a_run_that_takes_too_long_is_lost(world, client):
    with pytest.raises(LockLostError), run(world, client, at_most=0.3) as mine:
        world.until(lambda: mine.lost and not world.redis.everything())
        with run(world, client, at_most=60) as theirs:
            assert theirs is not None


@each_runtime
def test_a_lease_that_has_ended_before_its_grant_arrives_is_no_run(world):
    with pytest.raises(LockError, match="'report' can never be held: 3 times in a row"):
        run(world, world.client(), at_most=0.001).enter()
    assert "report" not in world.redis.everything()


@in_real_time
def test_skipped_is_false_and_ran_is_true(client, alice):
    call = decorated(client, lambda: 0, "report", word="run_once")
    assert alice.do(call)
    assert not alice.do(call)


def test_who_runs_it_already_skips_it(client, alice):
    with Remote(client.real.run_once("report", at_most=60), alice) as mine:
        assert mine is not None
        with Remote(client.real.run_once("report", at_most=60), alice) as again:
            assert again is None
        assert alice.lock(client, "report").try_lock()
        alice.lock(client, "report").unlock()
        assert alice.lock(client, "report").get_hold_count() == 1


@in_real_time
def test_a_function_says_whether_it_ran(world, alice, bob):
    client, other = world.client(), world.client()

    def report(day):
        return f"report of {day}"

    call = decorated(client, report, "report:{day}", word="run_once", at_most=60, at_least=30)
    again = decorated(other, report, "report:{day}", word="run_once", at_most=60)
    assert alice.do(call, "monday") == Ran("report of monday")
    assert alice.do(call, day="tuesday") == Ran("report of tuesday")
    skipped = bob.do(again, "monday")
    assert isinstance(skipped, Skipped)
    assert skipped.holder.client_id == client.id
    assert skipped.holder.pid is not None
    assert isinstance(alice.do(call, "monday"), Skipped)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            alice.do(decorated(client, lambda: 1 // 0, "wrong", word="run_once", at_most=60, at_least=0))


@each_runtime
def test_a_block_is_entered_once_and_of_an_open_client(world, client):
    block = run(world, client)
    with block:
        pass
    with pytest.raises(LockError, match=r"run_once\('report'\) can be entered only once"):
        block.enter()
    client.close()
    with pytest.raises(ClientClosedError):
        client.real.run_once("report")
