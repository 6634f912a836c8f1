"""The fair lock: who asked first gets it first; whoever leaves the queue, or dies in it, holds nobody up for long."""

import math
from weakref import WeakKeyDictionary

import pytest

from tests.worlds.base import Actor, Pending, Remote, World
from tests.worlds.environments import each_runtime, each_server
from tests.worlds.store import CHANNEL

QUEUE = "redisson_lock_queue:{orders}"
TIMEOUTS = "redisson_lock_timeout:{orders}"
ALIVE = "pyredisson_lock_alive:{orders}"
#: One who is not of ours, dead or alive.
STRANGER = "8743c9c0-0795-4907-87fd-6c719a6b4586:7"


#: Asked for in time: an actor that waits cannot say.
NUMBERS: WeakKeyDictionary[Actor, int] = WeakKeyDictionary()


def fair(actor: Actor, client: Remote, kind: str = "fair_lock") -> Remote:
    NUMBERS[actor] = actor.number
    made = actor.get(client, kind)
    made.waits_as = owner(actor, client)
    return made


def owner(actor: Actor, client: Remote) -> str:
    return f"{client.id}:{NUMBERS[actor]}"


def queue(world: World) -> list[str]:
    return world.redis.list(QUEUE)


def scores(world: World) -> dict[str, float]:
    """For how many seconds from now each is believed in."""
    now = world.redis.time()
    return {who: score / 1000 - now for who, score in world.redis.scores(TIMEOUTS).items()}


def enqueue(world: World, who: str, seconds: float) -> None:
    """As a Java client does."""
    # In this order: whoever looks in between takes an entry without a score out of the queue.
    world.redis.command("ZADD", TIMEOUTS, round((world.redis.time() + seconds) * 1000), who)
    world.redis.command("RPUSH", QUEUE, who)


def enqueue_ours(world: World, who: str, seconds: float, score: float = 400.0) -> None:
    """As a Python client does, which means to wait for so many seconds."""
    world.redis.command("HSET", ALIVE, who, round((world.redis.time() + seconds) * 1000))
    world.redis.command("PEXPIRE", ALIVE, round(score * 1000))
    enqueue(world, who, score)


def alive_for(world: World, who: str) -> float:
    """For how many seconds from now one may be taken to be alive, by what it said itself."""
    return int(world.redis.hash(ALIVE)[who]) / 1000 - world.redis.time()


def wait_in_turn(world: World, waiters: list[tuple[Actor, Remote]], *args: float) -> list[Pending]:
    """Let each begin to wait, one after another."""
    begun: list[Pending] = []
    for actor, lock in waiters:
        begun.append(actor.start(lock.try_lock, *args) if args else actor.start(lock.lock))
        world.until(lambda lock=lock: lock.waits_as in queue(world) or begun[-1].done(), what="it queues up")
    return begun


def nothing_is_left(world: World) -> bool:
    return world.redis.everything() == {}


# ---- in turn ---------------------------------------------------------------------------------------------------------


def test_who_asked_first_gets_it_first(world):
    clients = [world.client(), world.client()]
    mine = fair(world.actor(), clients[0])
    mine.lock()
    waiters = [(actor, fair(actor, clients[n % 2])) for n, actor in enumerate(world.actors(6))]
    begun = wait_in_turn(world, waiters)
    mine.unlock()
    for served, (_, lock) in enumerate(waiters):
        begun[served].result()
        world.pass_time(0.02)
        assert [pending.done() for pending in begun] == [True] * (served + 1) + [False] * (5 - served)
        assert lock.is_held_by_current_thread()
        lock.unlock()
    assert nothing_is_left(world)


def test_one_attempt_neither_queues_up_nor_overtakes(world, client, alice, bob):
    mine, theirs = fair(alice, client), fair(bob, client)
    mine.lock()
    before = world.redis.everything()
    assert theirs.try_lock() is False
    assert theirs.acquire(blocking=False) is False
    assert world.redis.everything() == before
    assert world.redis.subscribers(f"{CHANNEL}:{owner(bob, client)}") == 0
    mine.unlock()
    enqueue(world, STRANGER, 60)
    assert theirs.try_lock() is False, "it is another's turn"
    assert queue(world) == [STRANGER]
    world.redis.delete(QUEUE)
    world.redis.delete(TIMEOUTS)
    assert theirs.try_lock() is True


def test_it_is_the_same_lock_as_the_plain_one(world, client, alice, bob):
    """A plain lock of the same name excludes, and overtakes."""
    mine, theirs = alice.lock(client), fair(bob, client)
    mine.lock(3)
    waiting = bob.start(theirs.lock)
    world.until(lambda: queue(world))
    assert mine.is_held_by_current_thread()
    waiting.result()
    assert theirs.get_hold_count() == 1
    assert not mine.try_lock()


# ---- the dead and the living -----------------------------------------------------------------------------------------


@each_runtime
def test_a_waiter_that_lost_its_place_queues_again(world):
    """FLUSHALL, an eviction, or a pause that was longer than anybody was believed in."""
    client = world.client(max_wait_without_check=0.3)
    alice, *others = world.actors(4)
    mine = fair(alice, client)
    mine.lock(60)
    waiters = [(actor, fair(actor, client)) for actor in others]
    begun = wait_in_turn(world, waiters)
    world.redis.delete(QUEUE)
    world.redis.delete(TIMEOUTS)
    world.until(lambda: len(queue(world)) == 3)
    assert set(queue(world)) == {owner(actor, client) for actor in others}
    mine.unlock()
    world.until(lambda: any(pending.done() for pending in begun))
    for _ in range(3):
        world.until(lambda: any(pending.done() for pending in begun))
        [served] = [n for n, pending in enumerate(begun) if pending.done()]
        begun.pop(served).result()
        waiters.pop(served)[1].unlock()
    assert nothing_is_left(world)


# ---- number of requests ----------------------------------------------------------------------------------------------


@each_server
def test_a_hand_over_costs_two_requests(world):
    world.redis.learn_scripts()
    clients = [world.client(), world.client()]
    mine = fair(world.actor(), clients[0])
    mine.lock()
    waiters = [(actor, fair(actor, clients[n % 2])) for n, actor in enumerate(world.actors(4))]
    begun = wait_in_turn(world, waiters)
    world.quiet_for(0.5, "evalsha", "eval")  # After the subscriptions, and the looks that follow.
    before = world.redis.calls("evalsha", "eval")
    mine.unlock()
    begun[0].result()
    world.pass_time(0.2)
    assert world.redis.calls("evalsha", "eval") - before == 2
    assert not begun[1].done()


def test_a_wait_may_be_as_long_as_one_likes(world, client, alice, bob):
    mine, theirs = fair(alice, client), fair(bob, client)
    mine.lock()
    waiting = bob.start(theirs.try_lock, 1e300)
    world.until(lambda: queue(world))
    assert math.isfinite(scores(world)[owner(bob, client)])
    mine.unlock()
    assert waiting.result() is True


def test_an_entry_without_a_score_counts_as_no_waiter(world, client, alice, bob):
    """Redisson: nobody gets the lock any more."""
    mine, theirs = fair(alice, client), fair(bob, client)
    world.redis.command("RPUSH", QUEUE, STRANGER)
    assert mine.try_lock()
    [waiting] = wait_in_turn(world, [(bob, theirs)])
    world.redis.command("LPUSH", QUEUE, STRANGER)
    mine.unlock()
    waiting.result(within=5)
    theirs.unlock()
    assert nothing_is_left(world)


def test_a_waiter_is_believed_in_as_long_as_it_waits_and_leaves_the_queue_with_its_wait(
    world, client, alice, bob, carol
):
    mine, leaving, staying = (fair(actor, client) for actor in (alice, bob, carol))
    mine.lock()
    [gone] = wait_in_turn(world, [(bob, leaving)], 0.7)
    [stays] = wait_in_turn(world, [(carol, staying)], 400)
    world.until(lambda: scores(world)[owner(carol, client)] > 800, what="she is looked after")
    before = scores(world)[owner(carol, client)]
    assert gone.result() is False
    assert queue(world) == [owner(carol, client)]
    # What Bob's wait had added, and the time that has passed.
    assert before - 3 < scores(world)[owner(carol, client)] < before
    mine.unlock()
    assert stays.result() is True


@pytest.mark.parametrize("earlier", [0.2, 1000])
def test_a_waiter_says_anew_for_how_long_it_can_be_alive(world, alice, bob, carol, earlier):
    """Its patience and 1 %, or that of any waiter. What Redisson left of an earlier wait does not end this one."""
    clients = [world.client(fair_lock_wait_timeout=100), world.client(max_wait_without_check=0.2)]
    mine, theirs, last = fair(alice, clients[0]), fair(bob, clients[0]), fair(carol, clients[1])
    mine.lock()
    field = owner(bob, clients[0])
    world.redis.command("HSET", ALIVE, field, round((world.redis.time() + earlier) * 1000))
    [waiting] = wait_in_turn(world, [(bob, theirs)])
    [later] = wait_in_turn(world, [(carol, last)], 5)
    assert 95 < alive_for(world, field) <= 101
    assert 1 < alive_for(world, owner(carol, clients[1])) <= 5.06
    believed = max(scores(world).values())
    assert (world.redis.ttl(ALIVE) or 0) > believed - 1, "without it, the score of one that is dead would be believed"
    world.pass_time(0.6)
    assert queue(world)[0] == field
    mine.unlock()
    waiting.result()
    assert not later.done()
    theirs.unlock()
    later.result()


def test_a_dead_waiter_delays_others_by_its_own_timeout_at_most(world):
    """It meant to wait for a second. The lease had 30 left, and others are believed in for 300: that is not its own."""
    clients = [world.client(max_wait_without_check=60), world.client(max_wait_without_check=60)]
    holder, other, last = world.actors(3)
    mine, theirs, hers = fair(holder, clients[0]), fair(other, clients[0]), fair(last, clients[1])
    mine.lock(30)
    [served] = wait_in_turn(world, [(other, theirs)])
    ends = world.now() + 1.0
    enqueue_ours(world, STRANGER, 1.0)
    [waiting] = wait_in_turn(world, [(last, hers)])
    mine.unlock()
    served.result(within=5)
    theirs.unlock()
    waiting.result()
    assert -0.1 < world.now() - ends < 5
    hers.unlock()
    assert nothing_is_left(world)
