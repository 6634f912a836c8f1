"""A lost lock is not silent: the holder is told, at once where that can be known, and it is final."""

import logging
import threading
from contextlib import suppress

import pytest

from pyredisson import LockLostError, events
from tests.promises.kinds import raises_lost, single
from tests.worlds.base import KEPT, Remote, World
from tests.worlds.environments import each_runtime, sync_and_async

SHORT = 1.5  # a watchdog's timeout, where a loss is waited for
PERMITS = "permit_expirable_semaphore"
STRANGER = "8743c9c0-0795-4907-87fd-6c719a6b4586:7"


def taken_away(world: World) -> None:
    """The lock is taken away, and another process has it now."""
    world.redis.delete("orders")
    world.redis.command("HSET", "orders", STRANGER, "1")
    world.redis.expire("orders", 60)


def is_the_strangers(world: World) -> bool:
    return world.redis.hash("orders") == {STRANGER: "1"}


@pytest.mark.parametrize(("kind", "holds", "suffix"), [("lock", 2, ""), ("token_lock", 1, ":token")])
def test_a_loss_is_reported_once_by_a_callback_and_an_event(world, alice, kind, holds, suffix):
    lost, happened = [], []
    client = world.client(
        lock_watchdog_timeout=SHORT, on_lock_lost=lambda *told: lost.append(told), listeners=(happened.append,)
    )
    mine, owner = alice.get(client, kind), f"{client.id}:{alice.number}{suffix}"
    for _ in range(holds):
        mine.lock()
    taken_away(world)
    world.until(lambda: lost)
    world.pass_time(2 / 3 * SHORT)  # two rounds more
    raises_lost(mine.lock)
    for _ in range(holds):
        raises_lost(mine.unlock)
    assert lost == [("orders", alice.number)]
    [event] = [event for event in happened if isinstance(event, events.Lost)]
    assert (event.name, event.owner) == ("orders", owner)
    assert is_the_strangers(world)


def test_leaving_a_block_says_that_the_lock_was_lost(world, mine):
    with pytest.raises(LockLostError), mine:
        taken_away(world)
    assert is_the_strangers(world)


@sync_and_async
@pytest.mark.parametrize("how", ["cut", "blackhole"])
@pytest.mark.parametrize(("kind", "lease"), [("lock", None), (PERMITS, None), (PERMITS, SHORT)])
def test_leaving_a_block_says_so_although_the_server_is_away(world, proxy, alice, kind, lease, how):
    client = world.through(proxy.port, timeout=1.2, lock_watchdog_timeout=SHORT)
    block = single(alice, client, kind).hold(lease_time=lease)
    held = block.enter()
    getattr(proxy, how)()
    world.until(lambda: held.lost)
    with pytest.raises(LockLostError, match=r"'orders' was lost by .*: its lease expired") as lost:
        block.__exit__(None, None, None)
    assert lost.value.name == "orders"
    proxy.heal()


def test_unlocking_a_lost_hold_still_gives_up_what_may_stand_in_redis(world, alice):
    client = world.client(lock_watchdog_timeout=SHORT, on_lock_lost=world.on_lock_lost)
    mine = alice.lock(client)
    mine.lock()
    owner = f"{client.id}:{alice.number}"
    world.redis.delete("orders")
    world.until(lambda: world.losses)
    world.redis.command("HSET", "orders", owner, "1")
    raises_lost(mine.unlock)
    assert not mine.is_locked()


@each_runtime
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_re_entry_over_a_lost_hold_acquires_nothing(world, known):
    client = world.client(lock_watchdog_timeout=SHORT if known else 60, on_lock_lost=world.on_lock_lost)
    mine = world.actor().lock(client)
    mine.lock()
    world.redis.delete("orders")
    if known:
        world.until(lambda: world.losses)
    for attempt in (mine.lock, mine.try_lock, mine.acquire):
        raises_lost(attempt)
    assert world.redis.ttl("orders") is None
    raises_lost(mine.unlock)
    mine.lock()
    assert mine.get_hold_count() == 1
    mine.unlock()


# ---- the callback ------------------------------------------------------------------------------------------------


@sync_and_async
@pytest.mark.parametrize("how", ["raises", "raises in a task", "blocks"])
def test_a_callback_that_raises_or_blocks_delays_nothing(world, how, caplog):
    go_on = threading.Event()
    lost = []

    def fail(name, number):
        lost.append(name)
        raise ZeroDivisionError(name)

    async def fail_later(name, number):
        fail(name, number)

    def block(name, number):
        lost.append(name)
        go_on.wait(30)

    callback = {"raises": fail, "raises in a task": fail_later, "blocks": block}[how]
    client, alice = world.client(lock_watchdog_timeout=KEPT, on_lock_lost=callback), world.actor()
    mine, other = alice.lock(client), alice.lock(client, "parcels")
    mine.lock()
    other.lock()
    try:
        with caplog.at_level(logging.ERROR, logger="pyredisson"):
            taken_away(world)
            world.until(lambda: lost if how == "blocks" else "ZeroDivisionError" in caplog.text)
        raises_lost(mine.unlock)
        world.renewed("parcels", times=1)
        assert other.get_hold_count() == 1
        world.redis.delete("parcels")
        world.until(lambda: lost == ["orders", "parcels"])
    finally:
        go_on.set()


def test_a_listener_that_raises_does_no_harm(world, caplog):
    def fail(event):
        raise ZeroDivisionError

    mine = world.actor().lock(world.client(listeners=(fail,)))
    with caplog.at_level(logging.ERROR, logger="pyredisson"):
        mine.lock()
        mine.unlock()
        world.until(lambda: "ZeroDivisionError" in caplog.text)
    assert not mine.is_locked()


@sync_and_async
@pytest.mark.parametrize("kind", ["lock", "semaphore", "permit_expirable_semaphore", "red_lock"])
def test_log_lines_name_the_owner(world, alice, kind, caplog):
    """The thread or task, whoever finds out: not the id of a client."""
    config = {"lock_watchdog_timeout": 1.5, "warn_held_longer_than": 0.1, "client_name": "shop"}
    client = world.client(**config)
    handle = client.real.get_red_lock(client.real.get_lock("orders")) if kind == "red_lock" else None
    mine = Remote(handle, alice) if handle else alice.get(client, kind)
    if "semaphore" in kind:
        mine.try_set_permits(1)
    with caplog.at_level(logging.WARNING, "pyredisson"):
        block = mine.hold()
        block.enter()
        if kind != "semaphore":
            for key in world.redis.everything():
                world.redis.delete(key)
        told = "been held" if kind == "semaphore" else "was lost"
        world.until(lambda: any(told in each.getMessage() for each in caplog.records), 5)
    lines = [each.getMessage() for each in caplog.records if "lock 'orders'" in each.getMessage()]
    assert lines
    assert all(" of shop" in each and client.id not in each for each in lines), lines
    with suppress(LockLostError):
        alice.do(world.leave(block.real))
