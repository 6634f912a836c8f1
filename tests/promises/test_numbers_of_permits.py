"""A semaphore has the permits that it is made with, set once, and as many as the last resize says."""

import logging
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from pyredisson import LockError, LockTimeoutError, events
from tests.promises.kinds import each_of
from tests.worlds.base import Remote, World
from tests.worlds.environments import sync_and_async

KINDS = ["semaphore", "permit_expirable_semaphore"]
kind = each_of(*KINDS)
CHANNEL = "redisson_sc:{seats}"


@pytest.mark.parametrize("first", ["acquire", "try_acquire", "available_permits", "hold", "expire"])
def test_permits_are_there_at_the_first_use(world, kind, first):
    mine = world.actor().get(world.client(), kind, "seats", permits=3)
    assert world.redis.everything() == {}  # Making a handle sends nothing.
    if first == "hold":
        with mine.hold():
            assert mine.available_permits() == 2
    elif first == "available_permits":
        assert mine.available_permits() == 3
    elif first == "expire":
        assert mine.expire(60) is True
        assert 50 < world.redis.ttl("seats") <= 60
    else:
        assert getattr(mine, first)()
        assert mine.available_permits() == 2


def test_permits_released_before_any_acquire_are_added_to_the_first_ones(world):
    mine = world.actor().get(world.client(), "semaphore", "seats", permits=3)
    mine.release()
    assert mine.available_permits() == 4
    other = world.actor().get(world.client(), "semaphore", "tables", permits=3)
    assert other.drain_permits() == 3


def test_permits_are_set_by_the_first_use_of_the_first_handle_alone(world, alice, bob, kind):
    mine, theirs = (actor.get(world.client(), kind, "seats", permits=1) for actor in (alice, bob))
    assert mine.acquire()
    assert not theirs.try_acquire()
    assert theirs.available_permits() == 0
    world.redis.delete("seats")
    assert mine.try_acquire(), "what the server has forgotten is set again"
    assert not theirs.try_acquire()


def _forget_all(world: World) -> None:
    """What a restart without persistence leaves."""
    for key in world.redis.everything():
        world.redis.command("DEL", key)  # It may have ended by itself.


@pytest.mark.unheard
@pytest.mark.parametrize("resize", [False, True])
@pytest.mark.parametrize("asked", ["try_acquire", "available_permits", "a waiter"])
def test_permits_are_set_again_after_the_server_has_lost_them(world, alice, bob, kind, resize, asked):
    client = world.client(max_wait_without_check=0.2)
    mine, theirs = (actor.get(client, kind, "seats", permits=2, resize=resize) for actor in (alice, bob))
    assert mine.try_acquire()
    if asked == "a waiter":
        assert mine.try_acquire()
        waiting = bob.start(theirs.real.try_acquire, wait_time=20)
        world.pass_time(0.3)
        _forget_all(world)
        assert waiting.result(20)
        assert theirs.available_permits() == 1
        return
    _forget_all(world)
    if asked == "try_acquire":
        assert mine.try_acquire()
    assert theirs.available_permits() == (1 if asked == "try_acquire" else 2)


@pytest.mark.parametrize(
    ("kind", "after"),
    [
        *(("semaphore", after) for after in ("release", "block", "add_permits", "drain_permits", "nothing")),
        *(("permit_expirable_semaphore", after) for after in ("block", "add_permits", "nothing")),
    ],
)
@pytest.mark.parametrize("resize", [False, True])
def test_a_loss_leaves_no_fewer_permits(world, client, alice, bob, kind, resize, after):
    """Permits that were acquired before the loss went with it."""
    mine, theirs = (actor.get(client, kind, "seats", permits=3, resize=resize) for actor in (alice, bob))
    block = mine.hold()
    block.enter()
    _forget_all(world)
    if after == "release":
        mine.release()
    elif after == "add_permits":
        mine.add_permits(2)
    elif after == "drain_permits":
        assert theirs.drain_permits() == 3
        theirs.release(3)
    elif after == "block" and kind == "semaphore":
        alice.do(world.leave(block.real))
    more = 2 if after == "add_permits" else 0
    taken = 0
    while mine.try_acquire():
        taken += 1
    assert taken == 3 + more


def test_a_bounded_semaphore_that_was_lost_has_its_value_again(world, alice):
    mine = alice.get(world.client(), "bounded_semaphore", "seats", value=2)
    assert mine.acquire()
    _forget_all(world)
    mine.release()
    assert [mine.acquire(blocking=False) for _ in range(3)] == [True, True, False]
    mine.release(2)
    with pytest.raises(ValueError, match="too many"):
        mine.release()


def test_a_semaphore_may_end_after_a_time(world, alice, kind):
    mine = alice.get(world.client(), kind, "seats")
    assert mine.try_set_permits(2, ttl=timedelta(seconds=2)) is True
    assert mine.try_set_permits(3, 600) is False
    assert mine.try_acquire()
    world.until(lambda: mine.available_permits() == 0)
    assert not mine.try_acquire()
    if kind == "permit_expirable_semaphore":
        world.until(lambda: mine.acquired_permits() == 0)
    assert mine.try_set_permits(1) is True


@pytest.mark.parametrize(
    ("kind", "there", "wanted", "told"),
    [(kind, *numbers) for kind in KINDS for numbers in ((2, 5, 2), (5, 2, 5), (3, 3, None))],
)
def test_another_number_of_permits_is_logged_once_where_it_is_known(world, alice, kind, there, wanted, told, caplog):
    happened = []
    client = world.client(listeners=(happened.append,))
    before = alice.get(client, kind, "seats", permits=there)
    assert before.acquire()
    with caplog.at_level(logging.WARNING, logger="pyredisson.lock"):
        for more in range(3):  # Once for all numbers.
            mine = alice.get(client, kind, "seats", permits=wanted + (more if told is not None else 0))
            assert mine.available_permits() == there - 1
            with mine.hold():
                pass
    differ = [event for event in happened if isinstance(event, events.PermitsDiffer)]
    assert len(differ) == len(caplog.records) == (told is not None)
    if told is not None:
        assert (differ[0].name, differ[0].wanted, differ[0].permits) == ("seats", wanted, told)
        text = caplog.records[0].getMessage()
        assert f"asked for {wanted} permits, but it has {told}" in text
        assert f"run: pyredisson permits seats --set {wanted}; get_semaphore() and " in text


@pytest.mark.parametrize(("there", "wanted", "told"), [(5, 2, 4), (5, 4, None), (2, 5, None)])
def test_of_permits_that_redisson_set_only_the_available_ones_are_known(world, there, wanted, told):
    happened = []
    client = world.client(listeners=(happened.append,))
    world.redis.command("SET", "seats", there - 1)  # One of them is acquired, which is stored nowhere.
    assert world.actor().get(client, "semaphore", "seats", permits=wanted).available_permits() == there - 1
    differ = [event for event in happened if isinstance(event, events.PermitsDiffer)]
    assert [event.permits for event in differ] == [told][: told is not None]


def test_the_timeout_for_permits_that_were_never_set_says_so(client, alice, kind):
    mine = alice.get(client, kind, "seats")
    for wait in (0.05, 0):
        with pytest.raises(LockTimeoutError, match=r"'seats'.*; their number was never set: call try_set_permits"):
            mine.hold(wait_time=wait).enter()
    mine.try_set_permits(0)
    with pytest.raises(LockTimeoutError) as error:
        mine.hold(wait_time=0).enter()
    assert "never set" not in str(error.value)


def test_a_waiter_for_permits_that_were_never_set_is_logged_once(world, alice, bob, kind, caplog):
    happened = []
    client = world.client(listeners=(happened.append,))
    mine, theirs = alice.get(client, kind, "seats"), bob.get(client, kind, "seats")

    def told():
        return [event for event in happened if isinstance(event, events.PermitsNeverSet)]

    with caplog.at_level(logging.WARNING, logger="pyredisson.lock"):
        with alice.get(client, kind, "all acquired", permits=1).hold(), pytest.raises(TimeoutError):
            bob.get(client, kind, "all acquired").hold(wait_time=0.1).enter()
        assert not mine.try_acquire()
        assert told() == []  # Nobody waits.
        waiting = [alice.start(mine.acquire), bob.start(theirs.acquire)]
        world.until(told)
        world.until(lambda: world.waiting(mine) == 2)
    assert told() == [events.PermitsNeverSet("seats", told()[0].owner)]
    (record,) = caplog.records
    assert "seats" in record.getMessage()
    assert "permits=" in record.getMessage()
    assert world.actor().get(client, kind, "seats").try_set_permits(2)
    for pending in waiting:
        assert pending.result(within=10)


# ---- resize ----------------------------------------------------------------------------------------------------------


def release(mine: Remote, permit: Any) -> None:
    """Release a permit of either kind."""
    mine.release(*([] if permit is True else [permit]))


def test_the_total_is_set_whatever_is_acquired(world, kind):
    mine = world.actor().get(world.client(), kind, "seats", permits=3)
    acquired = [mine.acquire(), mine.acquire()]
    mine.resize(5)
    assert mine.available_permits() == 3
    mine.resize(1)
    assert mine.available_permits() == -1
    release(mine, acquired.pop())
    assert mine.available_permits() == 0
    assert not mine.try_acquire()
    release(mine, acquired.pop())
    assert mine.available_permits() == 1
    mine.resize(0)
    assert mine.available_permits() == 0


def test_a_handle_resizes_at_its_first_use(client, alice, kind, caplog):
    before = alice.get(client, kind, "seats", permits=3)
    assert before.acquire()
    with caplog.at_level(logging.WARNING, logger="pyredisson.lock"):
        mine = alice.get(client, kind, "seats", permits=5, resize=True)
        assert before.available_permits() == 2
        assert mine.available_permits() == 4
    assert caplog.records == []
    before.resize(3)
    assert mine.available_permits() == 2  # Once.


def test_a_number_that_is_not_recorded_is_not_guessed(world, client, alice):
    world.redis.command("SET", "seats", 1)  # Redisson has set three, and two are acquired.
    for mine in (
        alice.get(client, "semaphore", "seats"),
        alice.get(client, "semaphore", "seats", permits=5, resize=True),
    ):
        with pytest.raises(
            LockError, match=r"not recorded.*get_semaphore\('seats', permits=n\)\.resize\(5\)"
        ) as refusal:
            mine.resize(5)
        assert refusal.value.name == "seats"
    assert world.redis.command("GET", "seats") in (b"1", "1")
    alice.get(client, "semaphore", "seats", permits=3).resize(5)
    assert mine.available_permits() == 3


def test_a_bounded_semaphore_is_compared_with_its_value(world):
    happened = []
    client, alice = world.client(listeners=(happened.append,)), world.actor()
    assert alice.get(client, "bounded_semaphore", "seats", value=3).acquire()
    assert alice.get(client, "bounded_semaphore", "seats", value=2).acquire()
    (differ,) = (each for each in happened if isinstance(each, events.PermitsDiffer))
    assert (differ.wanted, differ.permits) == (2, 3)


# ---- two kinds on one name -------------------------------------------------------------------------------------------


def test_permits_that_expire_are_refused_as_those_that_do_not(client, alice):
    expiring = alice.get(client, "permit_expirable_semaphore", "seats", permits=2)
    permit = expiring.acquire()
    for _ in range(2):
        plain = alice.get(client, "semaphore", "seats", permits=2)
        resizes = alice.get(client, "semaphore", "seats", permits=4, resize=True)
        calls = plain.try_acquire, plain.available_permits, plain.hold(wait_time=0).enter, partial(plain.resize, 4)
        for call in (*calls, resizes.try_acquire):
            with pytest.raises(LockError, match="'seats' is of the other kind, whose permits expire, as the key"):
                call()
    assert expiring.available_permits() == 1
    expiring.release(permit)
    assert alice.get(client, "semaphore", "seats", permits=2).try_acquire()


def test_permits_that_do_not_expire_are_refused_as_those_that_do(world, client, alice):
    assert alice.get(client, "semaphore", "seats", permits=2).try_acquire()
    for each in (client, world.client()):
        expiring = alice.get(each, "permit_expirable_semaphore", "seats", permits=2)
        resizes = alice.get(each, "permit_expirable_semaphore", "seats", permits=4, resize=True)
        for call in (expiring.try_acquire, resizes.try_acquire, partial(expiring.set_permits, 4)):
            with pytest.raises(LockError, match="whose permits do not expire, as the key"):
                call()
    assert alice.get(client, "semaphore", "seats", permits=2).available_permits() == 1


def changes(mine: Remote, kind: str) -> list[Any]:
    """The calls of a handle without a number of permits that would take those of the other kind."""
    plain = [mine.drain_permits] if kind == "semaphore" else []
    block = partial(mine.hold, wait_time=0)
    return [mine.try_acquire, lambda: block().enter(), *plain]


def test_a_handle_without_a_number_refuses_the_other_kind_too(world, client, alice, kind):
    other = next(each for each in KINDS if each != kind)
    theirs = alice.get(world.client(), other, "seats", permits=2)
    assert theirs.acquire()
    before = theirs.available_permits()
    for call in changes(alice.get(client, kind, "seats"), kind):
        with pytest.raises(LockError, match="'seats' is of the other kind") as error:
            call()
        assert error.value.name == "seats"
    with pytest.raises(LockError, match="of the other kind"):
        alice.get(client, kind, "seats").try_set_permits(3)
    if kind == "semaphore":
        with pytest.raises(LockError, match="of the other kind"):
            alice.get(client, "bounded_semaphore", "seats", value=2).acquire()
    assert theirs.available_permits() == before == 1


@sync_and_async
def test_looking_for_the_other_kind_costs_no_request(world, proxy, alice, kind):
    before = alice.get(world.client(), kind, "seats")
    before.try_set_permits(3)
    release(before, before.acquire())  # The server knows the scripts.
    client = world.through(proxy.port)
    sent = proxy.requests
    for each in range(3):
        mine = alice.get(client, kind, "seats")
        permit = mine.acquire()
        release(mine, permit)
        assert proxy.requests - sent == 2 * (each + 1)
