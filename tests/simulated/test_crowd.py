"""Many clients that wait for one lock: a release wakes one of them, and none depends on the one that was woken."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from pyredisson._core import waiting as wait_queue
from pyredisson._core.waiting import QueuedGroup
from pyredisson._net.wire import script
from tests.simulated.crowd import BOTH_SIDES, EXPIRABLE, PLAIN, SOON, TURN, LockCrowd, crowd_of, crowds
from tests.simulated.engine.runtime import SimulatedClient
from tests.simulated.planted import Bug, check_found, crowd_tests, in_code, in_script

CHANNEL = b"redisson_lock__channel:{orders}"
LOCKS = ["lock", "fenced_lock", "non_reentrant_lock"]
#: Of any kind: what holds for the waiters of locks, of sides of a read-write lock, and of permits alike.
ANY = pytest.mark.parametrize("kind", ["lock", BOTH_SIDES, PLAIN, EXPIRABLE])

crowd = crowds(crowd_of)


@pytest.fixture
def kind() -> str:
    """Of the tests that name none."""
    return "lock"


@pytest.mark.parametrize("kind", [*LOCKS, BOTH_SIDES, PLAIN, EXPIRABLE])
def test_a_release_wakes_one_client_and_the_one_that_has_waited_longest(crowd, kind):
    for _ in range(30):
        crowd.wait()
    freed = crowd.free()
    crowd.finish()
    assert crowd.served == sorted(crowd.served)
    assert crowd.times[-1] - freed < 30 * SOON
    assert sum(crowd.scripts.values()) <= (2.4 if kind in LOCKS else 2.2) * 30, crowd.scripts
    crowd.close()


@ANY
def test_one_that_is_cancelled_when_it_has_its_turn_passes_it_on(crowd):
    for _ in range(6):
        crowd.wait()
    for script_name in ("lock_force_unlock", "read_write_lock_force_unlock", "semaphore_add", "permit_add"):
        crowd.when(script_name, crowd.tasks[0].cancel)
    freed = crowd.free()
    crowd.finish()
    assert crowd.served == [2, 3, 4, 5, 6]
    assert crowd.times[0] - freed <= 2 * SOON
    crowd.close()


@ANY
def test_one_that_has_timed_out_is_in_the_queue_no_more(crowd):
    crowd.wait(seconds=0.1)
    crowd.wait()
    crowd.world.run(seconds=1)
    assert len(crowd.queued()) == 1
    crowd.free()
    crowd.finish()
    assert crowd.served == [2]
    crowd.close()


@ANY
@pytest.mark.parametrize("order", ["old first", "new first", "in turn"])
def test_clients_that_do_not_know_the_queue_wait_beside_those_that_do(crowd, order):
    queued = {
        "old first": [False] * 4 + [True] * 4,
        "new first": [True] * 4 + [False] * 4,
        "in turn": [True, False] * 4,
    }
    for each in queued[order]:
        crowd.wait(queued=each)
    freed = crowd.free()
    crowd.finish()
    assert sorted(crowd.served) == list(range(1, 9))
    assert crowd.times[-1] - freed < 8 * 2 * SOON
    crowd.close()


@ANY
def test_the_queue_does_not_outlive_those_in_it(crowd, kind):
    for client in [crowd.wait() for _ in range(3)]:
        client.runtime.process.crash()
    crowd.world.run(seconds=100 if kind in (PLAIN, EXPIRABLE) else 40)
    assert crowd.queue not in crowd.world.node.redis.dump()


#: What finds bugs of crowds of each kind.
SHARED = {name: test for name, test in list(globals().items()) if name.startswith("test_")}


# ---- locks alone -----------------------------------------------------------------------------------------------------


def test_those_who_wait_in_one_client_have_one_place_in_the_queue(crowd):
    one, two = crowd.wait(), crowd.wait()
    for client in (one, one, two):
        crowd.wait(client)
    assert len(crowd.queued()) == 2
    crowd.free()
    crowd.finish()
    assert crowd.served == [1, 2, 1, 1, 2]
    crowd.close()


@pytest.mark.parametrize("fate", ["pause", "crash"])
@pytest.mark.parametrize("victims", [1, 2])
def test_a_client_that_is_woken_and_does_not_answer_costs_the_others_little(crowd, fate, victims):
    waiting = [crowd.wait() for _ in range(6)]
    for client in waiting[:victims]:
        getattr(client.runtime.process, fate)()
    released = crowd.free()
    crowd.world.run(until=lambda: len(crowd.served) == 6 - victims, seconds=5)
    cost = TURN if fate == "pause" else 0  # The server knows that it is gone.
    assert crowd.times[0] - released <= cost + SOON
    assert crowd.times[-1] - released <= victims * cost + 6 * SOON
    assert crowd.last_resorts() == 0


def test_a_release_by_one_that_does_not_know_the_queue_is_heard(crowd):
    for _ in range(6):
        crowd.wait()
    crowd.redis("DEL", "orders")
    crowd.redis("PUBLISH", CHANNEL, "0")
    released = crowd.world.now
    crowd.finish()
    assert crowd.times[0] - released < SOON
    assert crowd.times[-1] - released < 6 * SOON
    crowd.close()


def test_observers_that_die_are_replaced(crowd):
    waiting = [crowd.wait() for _ in range(6)]
    for client in waiting:
        if CHANNEL.decode() in client.runtime.subscribed():
            client.runtime.process.crash()
    crowd.world.run(seconds=2)
    late = crowd.wait()
    crowd.world.run(seconds=SOON)
    live = [each for each in [*waiting, late] if not each.runtime.process.crashed]
    assert len([each for each in live if CHANNEL.decode() in each.runtime.subscribed()]) == 2
    crowd.free()
    crowd.finish()
    assert len(crowd.served) == 5
    assert crowd.last_resorts() == 0


def test_observers_attempt_nothing_while_the_notified_client_holds_the_lock(crowd):
    for _ in range(10):
        crowd.wait(keeps=0.5)
    crowd.free()
    crowd.finish(seconds=10)
    assert crowd.served == sorted(crowd.served)
    assert sum(crowd.scripts.values()) <= 2.4 * 10, crowd.scripts


def listeners(crowd: LockCrowd) -> list[SimulatedClient]:
    return [client for client in crowd.clients if CHANNEL.decode() in client.runtime.subscribed()]


def release_in_vain(crowd: LockCrowd, times: int) -> None:
    """Let the holder release the lock, and acquire it again before any other client can, so many times."""

    def acquire() -> None:
        crowd.redis("HSET", "orders", "faster:1", "1")
        crowd.redis("PEXPIRE", "orders", "60000")

    for _ in range(times):
        crowd.when("lock_force_unlock", acquire)
        crowd.free()
        crowd.world.run(seconds=SOON)
    assert crowd.served == []


@pytest.mark.parametrize("times", [1, 5])
def test_one_that_is_notified_in_vain_is_back_at_its_place(crowd, times):
    waiting = [crowd.wait() for _ in range(6)]
    before = listeners(crowd)
    release_in_vain(crowd, times)
    assert listeners(crowd) == [*before, waiting[5]]
    crowd.free()
    crowd.finish()
    assert crowd.served == [1, 2, 3, 4, 5, 6]
    crowd.close()


@pytest.mark.parametrize("fate", ["pause", "crash"])
@pytest.mark.parametrize("which", ["notified", "observer"])
@pytest.mark.parametrize("by", ["us", "Redisson"])
def test_neither_the_one_that_was_notified_in_vain_nor_an_observer_is_relied_on(crowd, by, which, fate):
    waiting = [crowd.wait() for _ in range(6)]
    release_in_vain(crowd, 2)
    victim = next(each for each in listeners(crowd) if (each is waiting[0]) == (which == "notified"))
    getattr(victim.runtime.process, fate)()
    if by == "us":
        crowd.free()
    else:
        crowd.redis("DEL", "orders")
        crowd.redis("PUBLISH", CHANNEL, "0")
    released = crowd.world.now
    assert crowd.world.run(until=lambda: len(crowd.served) == 5, seconds=5)
    assert crowd.times[0] - released <= TURN + SOON
    assert crowd.times[-1] - released <= 2 * TURN + 6 * SOON
    assert crowd.last_resorts() == 0


def test_one_that_stays_behind_alone_hears_of_a_release_before_it_listens(crowd):
    """The one that leaves listens still, so the release finds that somebody hears it."""
    owner = crowd.client()
    done = []

    async def hold():
        lock = crowd.lock(owner)
        await lock.lock()
        done.append(crowd.world.pause_of(owner.runtime.process, 60))
        await done[0]
        await lock.unlock()

    owner.runtime.process.start(hold(), "owner")
    crowd.free()
    crowd.world.run(seconds=1)
    crowd.wait()

    def leave_and_release():
        redis = crowd.world.node.redis
        members = redis.dump()[crowd.queue].value
        redis.eval(
            script("lock_stop_waiting").text, [b"orders", crowd.queue], [min(members, key=members.get), b"PUBLISH"]
        )
        crowd.tasks[0].cancel()
        done[0].settle(True)

    crowd.when("lock_acquire_waiting", leave_and_release)
    joined = crowd.world.now
    crowd.wait()
    crowd.finish()
    assert crowd.served == [3]
    assert crowd.times[0] - joined < SOON
    crowd.close()


def test_one_that_joins_learns_of_a_release_before_it_listens(crowd):

    def release_as_redisson_does():
        crowd.redis("DEL", "orders")
        crowd.redis("PUBLISH", CHANNEL, "0")

    crowd.when("lock_acquire_waiting", release_as_redisson_does)
    joined = crowd.world.now
    crowd.wait()
    crowd.finish()
    assert crowd.times[0] - joined < 2 * SOON
    crowd.close()


def test_one_that_comes_when_the_last_of_its_client_is_served_waits_for_no_other(crowd):
    client = crowd.wait(keeps=0.5)
    crowd.wait(keeps=0.5)
    crowd.wait()

    def come():
        crowd.inside = True
        crowd.wait(client)

    crowd.when("lock_acquire_waiting", lambda: crowd.world.soon(client.runtime.process, come))
    crowd.free()
    assert crowd.world.run(until=lambda: len(crowd.served) == 4, seconds=5)
    crowd.finish()
    assert crowd.served == [1, 2, 3, 1]
    assert crowd.times[-1] - crowd.times[-2] < SOON
    crowd.close()


@pytest.mark.parametrize(("clients", "owners"), [(2, 1), (8, 1), (1, 2), (1, 4), (2, 2)])
def test_owners_that_acquire_again_and_again_let_the_others_in(crowd, clients, owners):
    turns = []
    ends = crowd.world.now + 2.0

    async def work(number, client):
        lock = crowd.lock(client)
        while crowd.world.now < ends:
            await lock.lock()
            turns.append(number)
            await crowd.world.pause_of(client.runtime.process, 0.001)
            await lock.unlock()

    for client in [crowd.client() for _ in range(clients)]:
        for _ in range(owners):
            crowd.tasks.append(client.runtime.process.start(work(len(crowd.tasks), client), "owner"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wait_queue, "SLICE", 0.0)  # From one release on.
        crowd.free()
        crowd.finish()
    shares = Counter(turns)
    assert max(shares.values()) <= 1.5 * min(shares.values()), shares
    twice = sum(a == b for a, b in itertools.pairwise(turns))
    assert twice <= 0.1 * len(turns)
    assert sum(crowd.scripts.values()) <= 3.2 * len(turns), crowd.scripts
    crowd.close()


# ---- planted bugs ----------------------------------------------------------------------------------------------------


def _in_waiting(*changes: tuple[str, str]) -> Bug:
    return in_script("lock_acquire_waiting", *changes)


BUGS = {
    "two are chosen": in_script(
        "lock_release",
        ("elseif heard > 0 then\n", "elseif heard > 0 and not chosen then chosen = true elseif heard > 0 then\n"),
        ("    while true do\n", "    local chosen = false\n    while true do\n"),
    ),
    "the newest one is chosen": in_script(
        "lock_release",
        ("'zrange', waiting, 0, 0)", "'zrangebyscore', waiting, '-inf', '(1e15', 'limit', last, 1)"),
        (
            "    while true do\n",
            "    local last = redis.call('zcount', waiting, '-inf', '(1e15') - 1\n    while true do\n",
        ),
    ),
    "one that is gone is chosen": in_script("lock_force_unlock", ("elseif heard > 0 then", "else")),
    "a turn is never passed on": in_script("lock_stop_waiting", ("and choose(KEYS[2], ARGV[2])", "and false")),
    "one that leaves stays in the queue": in_code(QueuedGroup, "acquired", lambda self, update: None),
    "one that has timed out stays in the queue": in_script(
        "lock_stop_waiting", ("redis.call('zrem', KEYS[2], ARGV[1], 'notified:' .. ARGV[1])", "")
    ),
    "the queue outlives those in it": _in_waiting(("redis.call('pexpire', waiting, kept)", "local _ = kept")),
    "one that comes too late is not put back": _in_waiting(("redis.call('zadd', waiting, since, me)", "local _ = me")),
    "one that was refused is put behind": _in_waiting(("server_ms() - tonumber(since)", "server_ms()")),
    "nobody listens to the channel of the lock": _in_waiting(("local missing = 2", "local missing = 0")),
    "observers that die are not replaced": _in_waiting(("< trusted then", "< 1e9 then")),
    "observers do not attempt": in_code(wait_queue, "NOTIFIED_FOR", 5.0),
    "observers attempt although the notified client has": in_script(
        "lock_acquire_waiting", ("publish, waiting, '3'", "publish, waiting, '5'")
    ),
    "new observers attempt as soon as they listen": in_code(
        QueuedGroup, "confirmed", lambda self, channel: self.notify(1)
    ),
    "one that joins attempts no more when it listens": _in_waiting(("'observe and attempt'", "'observe'")),
    "observers attempt at each release": in_code(QueuedGroup, "_message", lambda self, message: 1),
}


@pytest.mark.planted
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_of_crowds_is_found(name, monkeypatch):
    check_found(monkeypatch, name, BUGS[name], crowd_tests(globals(), crowd_of, "lock"))
