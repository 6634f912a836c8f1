"""Many clients that wait for permits: as many are woken as there are permits for, and none depends on those."""

from __future__ import annotations

import itertools

import pytest

from pyredisson._core import waiting as wait_queue
from pyredisson._core.waiting import QueuedGroup
from tests.simulated.crowd import EXPIRABLE, KINDS, PLAIN, SOON, TURN, PermitCrowd, crowd_of, crowds
from tests.simulated.planted import Bug, check_found, crowd_tests, in_code, in_script
from tests.simulated.test_crowd import SHARED

CHANNEL = b"redisson_sc:{seats}"

crowd = crowds(PermitCrowd)


@pytest.fixture
def kind() -> str:
    """Of the tests that name none."""
    return PLAIN


@KINDS
@pytest.mark.parametrize("at_once", [True, False])
def test_as_many_clients_are_woken_as_there_are_permits(crowd, at_once):
    for _ in range(30):
        crowd.wait(keeps=0.01)
    began = crowd.world.now
    crowd.scripts.clear()
    for _ in range(1 if at_once else 10):
        crowd.start(crowd.semaphore().add_permits(10 if at_once else 1))
    assert crowd.world.run(until=lambda: len(crowd.served) == 10, seconds=SOON)
    crowd.finish()
    assert crowd.times[-1] - began < 10 * SOON
    assert sum(crowd.scripts.values()) <= 10 + 2.1 * 30, crowd.scripts
    crowd.close(available=10)


def test_one_that_wants_more_than_there_is_lets_others_pass(crowd):
    for wanted in (3, 3, 1, 2, 1, 1):
        crowd.wait(wanted=wanted, keeps=None)
    for permits, served in ((2, [3, 5]), (1, [3, 5, 6]), (1, [3, 5, 6]), (1, [3, 5, 6, 4])):
        crowd.give(permits)
        crowd.world.run(seconds=SOON)
        assert sorted(crowd.served) == sorted(served)
    crowd.give(3)
    crowd.give(3)
    crowd.finish()
    assert crowd.served[-2:] == [1, 2]
    crowd.close(available=0)


@KINDS
def test_those_who_wait_in_one_client_are_served_together(crowd):
    one, two = crowd.wait(keeps=None), crowd.wait(keeps=None)
    for client in (one, one, two):
        crowd.wait(client, keeps=None)
    assert len(crowd.queued()) == 2
    given = crowd.give(5)
    crowd.finish()
    assert sorted(crowd.served) == [1, 1, 1, 2, 2]
    assert crowd.times[-1] - given < 2 * SOON
    crowd.close()


@pytest.mark.parametrize("fate", ["pause", "crash"])
@pytest.mark.parametrize("victims", [1, 2, 4])
def test_clients_that_are_woken_and_do_not_answer_cost_the_others_little(crowd, fate, victims):
    waiting = [crowd.wait(keeps=None) for _ in range(12)]
    crowd.give(2)  # To the observers.
    crowd.world.run(seconds=2 * TURN)
    for client in waiting[2 : 2 + victims]:
        getattr(client.runtime.process, fate)()
    given = crowd.give(4)
    crowd.world.run(until=lambda: len(crowd.served) == 6, seconds=5)
    assert len(crowd.served) == 6
    cost = TURN if fate == "pause" else 0  # The server knows that it is gone.
    assert crowd.times[-1] - given <= cost + SOON
    assert crowd.last_resorts() == 0


@KINDS
def test_one_that_is_cancelled_when_it_has_a_permit_passes_it_on(crowd, kind):
    for _ in range(4):
        crowd.wait(keeps=None)
    script = "semaphore_acquire_waiting" if kind == PLAIN else "permit_acquire_waiting"
    crowd.when(script, crowd.tasks[0].cancel)
    given = crowd.give(1)
    crowd.world.run(until=lambda: len(crowd.served) == 1, seconds=5)
    assert crowd.served == [2]
    assert crowd.times[-1] - given <= 4 * SOON
    assert crowd.scripts[script] == 2
    crowd.give(2)
    crowd.finish()
    crowd.close()


def test_those_who_want_different_numbers_in_one_client_are_served(crowd):
    one = crowd.wait(wanted=2, keeps=None)
    crowd.wait(one, wanted=1, keeps=None)
    crowd.wait(one, wanted=3, keeps=None)
    crowd.wait(wanted=1, keeps=None)
    crowd.give(7)
    crowd.finish(seconds=1)
    crowd.close(available=0)


@pytest.mark.parametrize(
    ("change", "kind"),
    [("release", PLAIN), *((each, EXPIRABLE) for each in ("try_set_permits", "set_permits", "acquired_permits"))],
)
def test_whatever_makes_permits_available_wakes_clients(crowd, change):
    if change == "try_set_permits":
        crowd.redis("DEL", "seats")
    for _ in range(6):
        crowd.wait(keeps=None)
    semaphore = crowd.semaphore()
    if change == "acquired_permits":  # It looks for those that have expired.
        crowd.redis("ZADD", "{seats}:timeout", 1, "a", 2, "b")
        crowd.do(semaphore.acquired_permits())
    else:
        crowd.do(getattr(semaphore, change)(2))
    crowd.world.run(seconds=SOON)
    assert sorted(crowd.served) == [1, 2]  # Both are notified at once.
    crowd.give(4)
    crowd.finish()
    crowd.close(available=0)


def test_permits_that_are_drained_wake_none(crowd):
    crowd.wait(keeps=None)
    crowd.when("semaphore_add", lambda: crowd.redis("SET", "seats", 0))  # Before the notified client attempts.
    crowd.give(1)
    crowd.world.run(seconds=1)
    assert crowd.served == []
    assert len(crowd.queued()) == 1
    crowd.give(1)
    crowd.finish()
    crowd.close(available=0)


# ---- permits that expire ---------------------------------------------------------------------------------------------

LEASE = 1.0


@pytest.mark.parametrize("kind", [EXPIRABLE])
def test_a_permit_that_expires_wakes_one_client(crowd):
    for _ in range(30):
        crowd.wait(keeps=None, lease=LEASE)
    given = crowd.give(5)
    crowd.finish(seconds=10)
    rounds = [crowd.times[at] - given for at in range(0, 30, 5)]
    assert rounds == pytest.approx([LEASE * at for at in range(6)], abs=6 * SOON)
    assert sum(crowd.scripts.values()) <= 2 * 30, crowd.scripts
    assert [(each - 1) // 5 for each in crowd.served] == [at // 5 for at in range(30)]
    crowd.close()


@pytest.mark.parametrize("fate", ["pause", "crash", "cancel"])
@pytest.mark.parametrize("kind", [EXPIRABLE])
def test_a_permit_that_expires_is_taken_although_the_first_one_is_gone(crowd, fate):
    waiting = [crowd.wait(keeps=None, lease=LEASE) for _ in range(8)]
    given = crowd.give(1)
    crowd.world.run(seconds=LEASE / 2)
    if fate == "cancel":
        crowd.tasks[1].cancel()
    else:
        getattr(waiting[1].runtime.process, fate)()
    crowd.world.run(until=lambda: len(crowd.served) == 2, seconds=5)
    assert crowd.times[1] - given <= LEASE + SOON + (0 if fate == "cancel" else TURN)
    assert crowd.last_resorts() == 0


@pytest.mark.parametrize("kind", [EXPIRABLE])
def test_a_permit_that_is_given_back_in_time_wakes_none_when_it_would_have_expired(crowd):
    for _ in range(20):
        crowd.wait(keeps=0.1, lease=LEASE)
    crowd.give(1)
    crowd.finish(seconds=10)
    assert sum(crowd.scripts.values()) <= 2.4 * 20, crowd.scripts
    crowd.close()


# ---- beside those that do not know the queue -------------------------------------------------------------------------


@pytest.mark.parametrize("permits", [1, 3])
def test_a_release_by_one_that_does_not_know_the_queue_is_heard(crowd, permits):
    for _ in range(6):
        crowd.wait()
    crowd.redis("SET", "seats", permits)
    crowd.redis("PUBLISH", CHANNEL, permits)
    released = crowd.world.now
    crowd.finish()
    assert crowd.times[0] - released < SOON
    assert crowd.times[-1] - released < 6 * SOON
    crowd.close(available=permits)


# ---- planted bugs ----------------------------------------------------------------------------------------------------


def _in_waiting(*changes: tuple[str, str]) -> Bug:
    return in_script("semaphore_acquire_waiting", *changes)


BUGS: dict[str, Bug] = {
    "more are notified than there are permits": in_script(
        "semaphore_release", ("free = free - wanted", "free = free - 0.5")
    ),
    "those who were notified before are forgotten": in_script(
        "semaphore_add", ("free = free - (tonumber(string.match(before[i], '%d*$')) or 0)", "local _ = free")
    ),
    "one is notified at most": in_script(
        "semaphore_add", ("notified = notified + 1", "notified = notified + 1\n                        free = 0")
    ),
    "the newest is notified first": in_script(
        "semaphore_release",
        ("'zrangebyscore', waiting, '-inf', '(1e15', 'limit'", "'zrevrangebyscore', waiting, '(1e15', '-inf', 'limit'"),
    ),
    "one that wants more than there is keeps others from theirs": in_script(
        "semaphore_add", ("passed = passed + 1", "free = 0")
    ),
    "one that was notified is waited for without end": _in_waiting(("< 200 then", "< 1e9 then")),
    "a turn is never passed on": in_script("semaphore_stop_waiting", ("hand_out(KEYS[2]", "local _ = (KEYS[2]")),
    "permits that are undone wake none": in_script("semaphore_undo", ("if tonumber(given) > 0", "if false")),
    "one that has timed out stays in the queue": in_script(
        "semaphore_stop_waiting", ("redis.call('zrem', KEYS[2], ARGV[1], 'notified:' .. ARGV[1])", "")
    ),
    "one that was notified is never taken off": _in_waiting(("redis.call('zscore', queue, member)", "false")),
    "the queue outlives those in it": _in_waiting(("redis.call('pexpire', waiting, kept)", "local _ = kept")),
    "one that comes too late is not put back": _in_waiting(("redis.call('zadd', waiting, since, me)", "local _ = me")),
    "permits that are left are passed on to none": _in_waiting(("if type(reply[1]) == 'number'", "if false")),
    "the first one that comes is enough": _in_waiting(
        ("and redis.call('zcount', waiting, '2e15', '+inf') == 0 then", "then")
    ),
    "no client is notified of a permit that expires": in_script(
        "permit_acquire_waiting", ("redis.call(publish, waiting .. ':' .. client, 'in '", "tostring('in '")
    ),
    "all attempt when a permit expires": in_script(
        "permit_acquire_waiting", ("reply[3] = observes and reply[3] + 200 or -1", "local _ = observes")
    ),
    "only the first one attempts when a permit expires": in_script(
        "permit_acquire_waiting", ("reply[3] = observes and reply[3] + 200 or -1", "reply[3] = -1")
    ),
    "observers do not attempt": in_code(wait_queue, "NOTIFIED_FOR", 5.0),
    "observers attempt at each release": in_code(QueuedGroup, "_message", lambda self, message: 1),
}


@pytest.mark.planted
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_of_crowds_is_found(name, monkeypatch):
    tests = itertools.chain(crowd_tests(globals(), PermitCrowd, PLAIN), crowd_tests(SHARED, crowd_of, "lock"))
    check_found(monkeypatch, name, BUGS[name], tests)
