"""Many clients that wait for the two sides of a read-write lock: those are woken who can have it, and no others."""

from __future__ import annotations

import itertools

import pytest

from pyredisson._core.acquiring import Attempt
from pyredisson._core.requests import Answer, Refused
from pyredisson._core.waiting import QueuedGroup, QueueUpdate
from pyredisson._kinds import read_write_lock as read_write_waiting
from pyredisson._kinds.read_write_lock import ReadKind, YieldToWriters
from tests.simulated.crowd import SOON, TURN, Sides, crowd_of, crowds
from tests.simulated.planted import Bug, all_of, check_found, crowd_tests, in_code, in_script
from tests.simulated.test_crowd import SHARED

crowd = crowds(Sides)


@pytest.fixture
def kind() -> str:
    """The side that is held in the tests that name none."""
    return "write"


@pytest.mark.parametrize("held", ["read", "write"])
@pytest.mark.parametrize(
    ("waiting", "served"),
    [("rwr" * 5, "r" * 10 + "w" * 5), ("wrr" * 5, "w" + "r" * 10 + "w" * 4), ("w" * 15, "w" * 15)],
)
def test_a_release_wakes_all_readers_if_one_has_waited_longest_else_a_writer(crowd, held, waiting, served):
    if held == "read":
        waiting = waiting.replace("r", "")
        served = "w" * len(waiting)
        crowd.free()
        crowd.held = "read"
        crowd.do(crowd.lock(crowd.holder).lock())
    crowd.come(waiting)
    crowd.world.run(seconds=1)  # Until those that listen to the channel of the lock have looked.
    released = crowd.free()
    crowd.finish()
    assert crowd.order() == served
    writers = [number for number in crowd.served if crowd.sides[crowd.clients[number]] == "write"]
    assert writers == sorted(writers)
    assert crowd.times[-1] - released < len(waiting) * SOON
    crowd.world.run(seconds=1)
    assert sum(crowd.scripts.values()) == 1 + 2 * len(waiting), crowd.scripts
    crowd.close()


def test_the_readers_of_one_client_are_woken_together(crowd):
    crowd.come("rr", keeps=0.5)  # The observers: of the release the next client hears only that it is its turn.
    client = crowd.reader(keeps=0.5)
    for _ in range(4):
        crowd.reader(client, keeps=0.5)
    assert len(crowd.queued()) == 3
    crowd.come("ww")
    released = crowd.free()
    crowd.finish()
    assert crowd.order() == "r" * 7 + "ww"
    assert crowd.times[6] - released < SOON
    crowd.close()


@pytest.mark.parametrize("kind", ["read"])
def test_readers_are_not_in_the_queue_while_others_read(crowd):
    crowd.come("rrr")
    assert crowd.served == [1, 2, 3]
    assert crowd.queued() == []
    crowd.free()
    crowd.close()


def test_a_writer_that_goes_on_reading_wakes_the_readers_alone(crowd):
    crowd.write_then_read()
    crowd.come("wwrrrr")
    crowd.world.run(until=lambda: len(crowd.served) == 4, seconds=1.5)
    crowd.world.run(seconds=0.5)
    assert crowd.order() == "rrrr"
    assert crowd.times[-1] - crowd.times[0] < SOON
    assert sum(crowd.scripts.values()) == 1 + 2 * 4, crowd.scripts
    crowd.finish()
    assert crowd.served[4:] == [1, 2]
    crowd.close()


@pytest.mark.parametrize("waiting", ["rwrw", "wrwr"])
def test_one_that_is_woken_and_finds_a_writer_goes_back_to_its_place(crowd, waiting):
    crowd.come(waiting)
    before = crowd.queued()
    crowd.when("read_write_lock_force_unlock", lambda: crowd.foreign("write"))
    crowd.free()
    crowd.world.run(seconds=0.1)
    assert crowd.served == []
    assert crowd.queued() == before
    crowd.foreign_release()
    crowd.finish()
    crowd.close()


def test_a_writer_that_is_woken_and_finds_readers_lets_the_other_readers_in(crowd):
    crowd.come("wrwr")
    crowd.when("read_write_lock_force_unlock", lambda: crowd.foreign("read"))
    released = crowd.free()
    crowd.world.run(seconds=0.5)
    assert crowd.order() == "rr"
    assert crowd.times[-1] - released < 3 * SOON
    released = crowd.foreign_release()
    crowd.finish()
    assert crowd.served[2:] == [1, 3] or crowd.served[2:] == [3, 1]
    assert crowd.times[-1] - released < 2 * SOON
    crowd.close()


@pytest.mark.parametrize("held", ["read", "write"])
@pytest.mark.parametrize("waiting", ["rrwwrr", "wwrrww", "rrrr"])
def test_a_release_of_redisson_is_heard(crowd, held, waiting):
    crowd.free()
    crowd.foreign(held)
    if held == "read":
        waiting = waiting.replace("r", "w")
    crowd.come(waiting)
    released = crowd.foreign_release()
    crowd.finish()
    assert sorted(crowd.served) == list(range(1, 1 + len(waiting)))
    assert crowd.times[0] - released < SOON
    assert crowd.times[-1] - released < len(waiting) * SOON
    crowd.close()


@pytest.mark.parametrize("fate", ["pause", "crash"])
@pytest.mark.parametrize("waiting", ["wwrr", "rrww", "wrrrr", "ww"])
def test_a_client_that_is_woken_and_does_not_answer_costs_the_others_little(crowd, fate, waiting):
    crowd.come(waiting)
    getattr(crowd.clients[1].runtime.process, fate)()
    released = crowd.free()
    crowd.world.run(until=lambda: len(crowd.served) == len(waiting) - 1, seconds=5)
    cost = TURN if fate == "pause" and waiting.startswith("w") else 0  # Of readers, all were notified.
    assert crowd.times[0] - released <= cost + SOON
    assert crowd.times[-1] - released <= cost + len(waiting) * SOON
    assert crowd.last_resorts() == 0
    if fate == "crash":
        crowd.world.run(seconds=1)
        assert crowd.queue not in crowd.world.node.redis.dump()


def test_a_client_that_waits_for_both_sides_is_in_the_queue_as_two(crowd):
    client = crowd.reader()
    crowd.writer(client)
    crowd.reader()
    assert len(crowd.queued()) == 3
    crowd.free()
    crowd.finish()
    assert sorted(crowd.served) == [1, 1, 2]
    crowd.close()


@pytest.mark.parametrize("kind", ["read"])
def test_a_reader_that_has_yielded_looks_when_the_writers_of_its_client_wait_no_longer(crowd):
    client = crowd.writer(seconds=0.2)
    came = crowd.world.now
    crowd.reader(client)
    assert crowd.served == []
    crowd.finish()
    assert crowd.served == [1]
    assert crowd.times[0] - came < 0.2 + SOON
    crowd.free()
    crowd.close()


@pytest.mark.parametrize("kind", ["read"])
def test_a_reader_that_has_yielded_to_a_writer_is_woken_by_its_release(crowd):
    client = crowd.writer(keeps=0.1)
    crowd.reader(client)
    released = crowd.free()
    crowd.finish()
    assert crowd.order() in ("wr", "rr")  # Both are of one client, which waits for the last one.
    assert crowd.times[0] - released < SOON
    assert crowd.times[1] - crowd.times[0] < 0.1 + SOON
    crowd.close()


def test_a_reader_that_yields_does_not_keep_the_turn_of_its_client(crowd):
    client = crowd.reader()
    crowd.writer(client)
    crowd.reader(client)  # It yields, and is not in the queue.
    crowd.writer()
    released = crowd.free()
    crowd.finish()
    assert len(crowd.served) == 4
    assert crowd.times[-1] - released < 6 * SOON
    crowd.close()


# ---- planted bugs ----------------------------------------------------------------------------------------------------

FREED = "read_write_lock_force_unlock"


def _in_releases(*changes: tuple[str, str]) -> Bug:
    return all_of(*(in_script(each, *changes) for each in ("read_lock_release", "write_lock_release", FREED)))


def _in_attempts(*changes: tuple[str, str]) -> Bug:
    return all_of(*(in_script(f"{side}_lock_acquire_waiting", *changes) for side in ("read", "write")))


async def _polite_although_notified(
    self: YieldToWriters, attempt: Attempt, update: QueueUpdate | None = None
) -> Answer:
    left = attempt.ownership.kind_state.until - attempt.client.runtime.now()
    if left > 0:
        return Refused(int(1000 * left))
    return await attempt(update)


BUGS = {
    "two writers are chosen": in_script(
        FREED,
        (
            "return choose_one(waiting, publish, '1e14', '(1e15') or choose_readers()",
            "choose_one(waiting, publish, '1e14', '(1e15') choose_one(waiting, publish, '1e14', '(1e15') return true",
        ),
    ),
    "one reader is chosen": _in_releases(
        (
            "while choose_one(waiting, publish, '-inf', '(1e14') do",
            "if choose_one(waiting, publish, '-inf', '(1e14') then",
        )
    ),
    "readers are chosen although a writer has waited longest": in_script(FREED, ("- 1e14 < first(", "< first(")),
    "a writer is chosen although a reader has waited longest": in_script(FREED, ("- 1e14 < first(", "- 2e14 < first(")),
    "a writer is chosen where others read": in_script(
        "write_lock_release", ("local reads = redis.call('hlen', KEYS[1]) > 2", "local reads = false")
    ),
    "a writer that goes on reading tells nobody": in_script(
        "write_lock_release", ("redis.pcall('exists', waiting) == 1", "redis.call('hlen', KEYS[1]) == 2")
    ),
    "the last one that reads tells nobody": in_script(
        "read_lock_release", ("redis.pcall('exists', waiting) == 1", "false")
    ),
    "one that is gone is chosen": in_script(FREED, ("elseif heard > 0 then", "else")),
    "a turn is never passed on": in_script(
        "read_write_lock_stop_waiting", ("and choose(KEYS[2], ARGV[2])", "and false")
    ),
    "one that leaves stays in the queue": in_code(QueuedGroup, "acquired", lambda self, update: None),
    "one that has timed out stays in the queue": in_script(
        "read_write_lock_stop_waiting", ("redis.call('zrem', KEYS[2], ARGV[1], 'notified:' .. ARGV[1])", "")
    ),
    "the queue outlives those in it": _in_attempts(("redis.call('pexpire', waiting, kept)", "local _ = kept")),
    "one that comes too late is not put back": _in_attempts(("redis.call('zadd', waiting, since, me)", "local _ = me")),
    "one that was refused is put behind": _in_attempts(
        ("server_ms() - tonumber(since)", "server_ms() + (tonumber(since) < -1e13 and 1e14 or 0)")
    ),
    "nobody listens to the channel of the lock": _in_attempts(("local missing = 2", "local missing = 0")),
    "readers are not let in by those who find that the lock is read": _in_attempts(
        ("pcall(choose, KEYS[#KEYS], ARGV[#ARGV])", "")
    ),
    "a reader that yields keeps the turn of its client": in_code(YieldToWriters, "attempt", _polite_although_notified),
    "a reader that has yielded is forgotten": in_code(read_write_waiting, "_any_yields", lambda kind: False),
    "the readers of a client are woken one by one": in_code(ReadKind, "waiting", YieldToWriters()),
}


@pytest.mark.planted
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_of_crowds_of_sides_is_found(name, monkeypatch):
    tests = itertools.chain(crowd_tests(globals(), Sides, "write"), crowd_tests(SHARED, crowd_of, "lock"))
    check_found(monkeypatch, name, BUGS[name], tests)
