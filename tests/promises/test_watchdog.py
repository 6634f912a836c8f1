"""What is held without a lease is kept alive: as long as its owner lives, and not a moment longer."""

import gc
import logging

import pytest

from pyredisson import OutcomeUnknownError, events
from tests.promises.kinds import handle, release_of, rival, single
from tests.worlds.base import KEPT, World
from tests.worlds.environments import each_runtime, in_virtual_time, sync_and_async

#: A watchdog's timeout, of which two thirds can be waited for, while a busy machine may lose one of them.
#: Those of a read-write lock: of its holders, the reader has a key of its own.
SIDES = ["read_lock", "write_lock"]


@each_runtime
@pytest.mark.parametrize("kind", ["lock", "fair_lock", "spin_lock", "fenced_lock", "token_lock", "multi_lock", *SIDES])
def test_a_lock_without_a_lease_is_kept_alive(world, kind, alice, bob):
    client = world.client(lock_watchdog_timeout=KEPT)
    mine, theirs = handle(alice, client, kind), rival(bob, client, kind)
    mine.lock()
    keys = set(world.redis.everything())
    stored = world.redis.everything()["orders"]
    waiting = bob.start(theirs.lock)
    world.renewed(*(key for key in keys if world.redis.ttl(key) <= KEPT))
    assert not waiting.done()
    assert 0 < world.redis.ttl("orders") <= KEPT
    assert world.redis.everything()["orders"] == stored
    assert mine.get_hold_count() == 1
    mine.unlock()
    waiting.result(within=5)


@in_virtual_time
@pytest.mark.parametrize("kind", ["lock", "permit_expirable_semaphore"])
def test_renewals_go_in_batches(world, kind):
    for size, requests in ((None, 1), (10, 3)):
        rounds = []
        config = {} if size is None else {"lock_watchdog_batch_size": size}
        client = world.client(lock_watchdog_timeout=3, listeners=(rounds.append,), **config)
        alice = world.actor()
        blocks = [single(alice, client, kind, f"{size}-{number}").hold() for number in range(25)]
        for block in blocks:
            block.enter()
        world.until(lambda rounds=rounds, n=requests: events.Renewed(locks=25, requests=n) in rounds)
        for block in blocks:
            block.__exit__(None, None, None)


@sync_and_async
def test_a_renewal_without_an_answer_is_repeated_within_the_lease(world, proxy):
    heard = []
    client = world.through(proxy.port, lock_watchdog_timeout=3.9, listeners=(heard.append,))
    mine = world.actor().lock(client)
    mine.lock()
    lost = proxy.drop_reply("EVALSHA", k=None, then="reset")
    world.until(lambda: lost.hits >= 5)
    lost.remove()
    world.until(lambda: any(isinstance(event, events.Renewed) for event in heard))
    assert mine.get_hold_count() == 1
    mine.unlock()


@in_virtual_time
@pytest.mark.parametrize("stopped", ["in a request", "between requests", "when the server answers again"])
def test_the_watchdog_is_late_if_the_process_is_stopped_and_not_if_the_server_is_silent(world, stopped):
    late = []
    client = world.client(listeners=(lambda event: late.extend([event] if type(event) is events.WatchdogLate else []),))
    actors = world.actors(30)
    locks = [actor.lock(client, f"orders-{number}") for number, actor in enumerate(actors)]
    for lock in locks:
        lock.lock()
    world.simulation.node.pause()
    calls = [actor.start(lock.real.unlock) for actor, lock in zip(actors, locks, strict=True)]
    assert {type(call.error()) for call in calls} == {OutcomeUnknownError}
    world.pass_time(25)
    if stopped == "when the server answers again":
        world.simulation.node.resume()
        world.actor().lock(client).lock()
    watchdog = client.real.core.watchdog
    world.until(lambda: watchdog._stepping is (stopped == "in a request"))
    assert late == []
    world.process.pause()
    world.pass_time(20)
    world.process.resume()
    world.pass_time(1)
    assert [event.seconds > 15 for event in late] == [True]
    world.simulation.node.resume()


# ---- owners that are gone ----------------------------------------------------------------------------------------


@each_runtime
@pytest.mark.parametrize("kind", ["lock", "multi_lock"])
def test_a_lock_whose_holder_ended_is_free_within_one_lease(world, alice, bob, caplog, kind):
    happened = []
    client = world.client(lock_watchdog_timeout=1.8, listeners=(happened.append,))
    mine, theirs = handle(alice, client, kind), handle(bob, client, kind)
    mine.lock()
    owner = f"{client.id}:{alice.number}"
    world.renewed("orders", times=1)
    assert mine.is_locked()
    with caplog.at_level(logging.WARNING, logger="pyredisson"):
        alice.end()
        ended = world.now()
        assert theirs.try_lock(9)
        assert world.now() - ended < 5
        world.until(lambda: any(isinstance(event, events.HolderGone) for event in happened))
    [record] = [record for record in caplog.records if "gone" in record.getMessage()]
    assert (record.name, record.levelname) == ("pyredisson.lock", "WARNING")
    assert (record.lock, record.owner) == (mine.name, owner)
    if world.runtime == "asyncio":  # Before Python 3.12 ``asyncio.wait_for`` takes the lock in a task that then ends.
        assert "wait_for" in record.getMessage()
        assert "try_lock(5)" in record.getMessage()


@sync_and_async
def test_a_holder_whose_release_is_being_settled_is_not_gone(world, proxy):
    """Of nested holds, the one that no one releases has none any more."""
    gone = []

    def hear(event):  # It keeps no event with an error, whose traceback would keep the blocks alive.
        gone.extend([event] if type(event) is events.HolderGone else [])

    client = world.through(proxy.port, lock_watchdog_timeout=6, timeout=1.2, listeners=(hear,))
    actors = dict(zip(("unlock", "with", "hold", "multi_lock", "nested"), world.actors(5), strict=True))
    leave = {}
    for how, actor in actors.items():
        lock = handle(actor, client, "multi_lock" if how == "multi_lock" else "lock", how)
        for _ in range({"with": 1, "nested": 2}.get(how, 0)):
            lock.enter()
        leave[how] = World.leave(lock.real) if how in ("with", "nested") else release_of(lock, block=how == "hold")
    silent = proxy.hold_request("EVALSHA", None)
    calls = [actors[how].start(call) for how, call in leave.items()]
    assert {type(call.error()) for call in calls} == {OutcomeUnknownError}
    for actor in actors.values():
        actor.end()
    del lock
    calls.clear()
    leave.clear()
    gc.collect()
    world.until(lambda: "nested" in [event.name for event in gone], what="the last of them is looked at")
    assert [event.name for event in gone] == ["nested"]
    assert "ended without releasing it" in gone[0].hint
    silent.remove()
