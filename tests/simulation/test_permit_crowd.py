"""Many clients that wait for permits: as many are woken as there are permits for, and none depends on those."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from pyredisson.config import Config
from pyredisson.core.waiting import wait_queue
from pyredisson.core.waiting.wait_queue import QueuedGroup
from tests.simulation.test_planted_bugs import Bug, finding, in_code, in_script
from tests.simulator.checkers import leftovers
from tests.simulator.runtime import SimulatedClient
from tests.simulator.world import Cancelled, Node, World

PLAIN = "semaphore"
EXPIRABLE = "permit_expirable_semaphore"
KINDS = pytest.mark.parametrize("kind", [PLAIN, EXPIRABLE])

WAIT_QUEUE = b"pyredisson_waiting:{seats}"
CHANNEL = b"redisson_sc:{seats}"
#: A few round trips.
SOON = 0.02
#: What clients cost the others that were notified that it is their turn, and do not answer.
TURN = 0.25


class Crowd:
    """A semaphore without available permits, and clients that wait for some."""

    def __init__(self, kind: str = PLAIN) -> None:
        self.world = World(1)
        self.kind = kind
        self.scripts: Counter[str] = Counter()
        self.clients: list[SimulatedClient] = []
        self.plans: dict[str, Callable[[], object]] = {}
        self.served: list[int] = []
        self.times: list[float] = []
        self.tasks: list[Any] = []
        self.world.watchers.append(self._watch)
        self.redis("SET", "seats", 0)
        self.giver = self.client()

    def _watch(self, node: Node, script: str, keys: list[bytes], args: list[bytes], result: Any) -> None:
        self.scripts[script] += 1
        if script in self.plans:
            self.plans.pop(script)()

    def redis(self, *words: str | int | bytes) -> Any:
        return self.world.node.redis.command(*words)

    def when(self, script: str, call: Callable[[], object]) -> None:
        """Call something as soon as a script has run, before its answer or its messages arrive."""
        self.plans[script] = call

    def client(self, *, queued: bool = True) -> SimulatedClient:
        client = SimulatedClient(self.world.process(f"p{len(self.clients)}"), config=Config(max_wait_without_check=30))
        if not queued:
            client.runtime.counts_listeners = lambda: False  # type: ignore[method-assign]
        self.clients.append(client)
        return client

    def semaphore(self, client: SimulatedClient | None = None, **settings: int) -> Any:
        return getattr(client or self.giver, f"get_{self.kind}")("seats", **settings)

    def start(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.giver.runtime.process.start(work, "work")

    def do(self, work: Coroutine[Any, Any, Any]) -> Any:
        task = self.start(work)
        assert self.world.run(until=task.done, seconds=60)
        return task.outcome.result()

    def give(self, permits: int) -> float:
        """Make permits available. Returns when."""
        self.scripts.clear()
        self.do(self.semaphore().add_permits(permits))
        return self.world.now

    def wait(
        self,
        client: SimulatedClient | None = None,
        *,
        queued: bool = True,
        seconds: float | None = None,
        wanted: int = 1,
        keeps: float | None = 0.0,
        lease: float | None = None,
    ) -> SimulatedClient:
        """Let a client wait, take permits once, and give them back after a time (``None``: never)."""
        client = client or self.client(queued=queued)
        number = self.clients.index(client)
        semaphore = self.semaphore(client)

        async def work() -> None:
            args = (wanted, seconds) if self.kind == PLAIN else (seconds, lease)
            permit = await semaphore.try_acquire(*args)
            if permit:
                self.served.append(number)
                self.times.append(self.world.now)
                if keeps:
                    await self.world.pause_of(client.runtime.process, keeps)
                if keeps is not None:
                    await semaphore.release(wanted if self.kind == PLAIN else permit)

        self.tasks.append(client.runtime.process.start(work(), "waiter"))
        self.world.run(seconds=SOON)
        return client

    def queued(self) -> int:
        """How many clients are in the queue, and were not notified."""
        entry = self.world.node.redis.dump().get(WAIT_QUEUE)
        assert entry is None or isinstance(entry.value, dict)
        return 0 if entry is None else sum(float(score) < 1e15 for score in entry.value.values())

    def finish(self, seconds: float = 5) -> None:
        """Let all who wait be served."""
        live = [task for task in self.tasks if not task.process.crashed]
        assert self.world.run(until=lambda: all(task.done() for task in live), seconds=seconds), self.served
        for task in live:
            if not isinstance(task.outcome.error, Cancelled):
                task.outcome.result()

    def last_resorts(self) -> int:
        return sum(client.core.subscriptions.last_resorts for client in self.clients)

    def close(self, available: int | None = None) -> None:
        """Nothing is left of it, and the permits are there."""
        self.world.run(seconds=70)
        if available is not None:
            assert int(self.redis("GET", "seats")) == available
        self.redis("DEL", "seats", "{seats}:timeout")
        self.world.run(seconds=30)
        assert leftovers(self.world, [each for each in self.clients if not each.runtime.process.crashed]) == []


@pytest.fixture
def make() -> Iterator[Callable[..., Crowd]]:
    """Makes crowds, and ends their worlds."""
    made: list[Crowd] = []

    def crowd(kind: str = PLAIN) -> Crowd:
        made.append(Crowd(kind))
        return made[-1]

    yield crowd
    for each in made:
        each.world.end()


@KINDS
def test_a_permit_wakes_one_client_and_the_one_that_has_waited_longest(make: Callable[..., Crowd], kind: str) -> None:
    crowd = make(kind)
    for _ in range(20):
        crowd.wait()
    given = crowd.give(1)
    crowd.finish()
    assert crowd.served == sorted(crowd.served)
    assert crowd.times[-1] - given < 20 * SOON
    assert sum(crowd.scripts.values()) <= 2.2 * 20, crowd.scripts
    assert crowd.last_resorts() == 0
    crowd.close(available=1)


@KINDS
@pytest.mark.parametrize("at_once", [True, False])
def test_as_many_clients_are_woken_as_there_are_permits(make: Callable[..., Crowd], kind: str, at_once: bool) -> None:
    crowd = make(kind)
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
    assert crowd.last_resorts() == 0
    crowd.close(available=10)


def test_each_acquire_of_a_crowd_costs_little(make: Callable[..., Crowd]) -> None:
    crowd = make()
    for _ in range(80):
        crowd.wait(keeps=0.003)
    crowd.give(10)
    crowd.finish()
    assert sum(crowd.scripts.values()) <= 2.5 * 80, crowd.scripts


def test_one_that_wants_more_than_there_is_lets_others_pass(make: Callable[..., Crowd]) -> None:
    crowd = make()
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
    assert crowd.last_resorts() == 0
    crowd.close(available=0)


@KINDS
def test_those_who_wait_in_one_client_are_served_together(make: Callable[..., Crowd], kind: str) -> None:
    crowd = make(kind)
    one, two = crowd.wait(keeps=None), crowd.wait(keeps=None)
    for client in (one, one, two):
        crowd.wait(client, keeps=None)
    assert crowd.queued() == 2
    given = crowd.give(5)
    crowd.finish()
    assert sorted(crowd.served) == [1, 1, 1, 2, 2]
    assert crowd.times[-1] - given < 2 * SOON
    assert crowd.last_resorts() == 0
    crowd.close()


def test_those_who_want_different_numbers_in_one_client_are_served(make: Callable[..., Crowd]) -> None:
    crowd = make()
    one = crowd.wait(wanted=2, keeps=None)
    crowd.wait(one, wanted=1, keeps=None)
    crowd.wait(one, wanted=3, keeps=None)
    crowd.wait(wanted=1, keeps=None)
    crowd.give(7)
    crowd.finish(seconds=1)
    assert crowd.last_resorts() == 0
    crowd.close(available=0)


@pytest.mark.parametrize("fate", ["pause", "crash"])
@pytest.mark.parametrize("victims", [1, 2, 4])
def test_clients_that_are_woken_and_do_not_answer_cost_the_others_little(
    make: Callable[..., Crowd], fate: str, victims: int
) -> None:
    crowd = make()
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


def test_one_that_does_not_answer_costs_its_permit_only_for_a_moment(make: Callable[..., Crowd]) -> None:
    """Others are notified all the time, and answer."""
    crowd = make()
    waiting = [crowd.wait(keeps=0.05) for _ in range(40)]
    waiting[0].runtime.process.pause()
    given = crowd.give(2)
    crowd.world.run(until=lambda: len(crowd.served) == 39, seconds=5)
    assert crowd.times[-1] - given < TURN + 38 * (0.05 + SOON) / 2
    assert crowd.last_resorts() == 0


def test_one_that_is_cancelled_when_it_has_its_turn_passes_it_on(make: Callable[..., Crowd]) -> None:
    crowd = make()
    for _ in range(6):
        crowd.wait(keeps=None)
    crowd.when("semaphore_add", crowd.tasks[0].cancel)
    given = crowd.give(2)
    crowd.world.run(until=lambda: len(crowd.served) == 2, seconds=5)
    assert crowd.served == [2, 3]
    assert crowd.times[-1] - given <= 2 * SOON
    crowd.give(3)
    crowd.finish()
    assert crowd.last_resorts() == 0
    crowd.close(available=0)


@KINDS
def test_one_that_is_cancelled_when_it_has_a_permit_passes_it_on(make: Callable[..., Crowd], kind: str) -> None:
    crowd = make(kind)
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
    assert crowd.last_resorts() == 0
    crowd.close()


@KINDS
def test_one_that_has_timed_out_is_in_the_queue_no_more(make: Callable[..., Crowd], kind: str) -> None:
    crowd = make(kind)
    crowd.wait(seconds=0.1)
    crowd.wait()
    crowd.world.run(seconds=1)
    assert crowd.queued() == 1
    crowd.give(1)
    crowd.finish()
    assert crowd.served == [2]
    crowd.close(available=1)


@pytest.mark.parametrize("change", ["try_set_permits", "set_permits", "release", "acquired_permits"])
def test_whatever_makes_permits_available_wakes_clients(make: Callable[..., Crowd], change: str) -> None:
    kind = PLAIN if change == "release" else EXPIRABLE
    crowd = make(kind)
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
    assert crowd.last_resorts() == 0
    crowd.close(available=0)


def test_permits_that_are_drained_wake_none(make: Callable[..., Crowd]) -> None:
    crowd = make()
    crowd.wait(keeps=None)
    crowd.when("semaphore_add", lambda: crowd.redis("SET", "seats", 0))  # Before the notified client attempts.
    crowd.give(1)
    crowd.world.run(seconds=1)
    assert crowd.served == []
    assert crowd.queued() == 1
    crowd.give(1)
    crowd.finish()
    assert crowd.last_resorts() == 0
    crowd.close(available=0)


# ---- permits that expire ---------------------------------------------------------------------------------------------

LEASE = 1.0


def test_a_permit_that_expires_wakes_one_client(make: Callable[..., Crowd]) -> None:
    crowd = make(EXPIRABLE)
    for _ in range(30):
        crowd.wait(keeps=None, lease=LEASE)
    given = crowd.give(5)
    crowd.finish(seconds=10)
    rounds = [crowd.times[at] - given for at in range(0, 30, 5)]
    assert rounds == pytest.approx([LEASE * at for at in range(6)], abs=6 * SOON)
    assert sum(crowd.scripts.values()) <= 2 * 30, crowd.scripts
    assert [(each - 1) // 5 for each in crowd.served] == [at // 5 for at in range(30)]
    assert crowd.last_resorts() == 0
    crowd.close()


@pytest.mark.parametrize("fate", ["pause", "crash", "cancel"])
def test_a_permit_that_expires_is_taken_although_the_first_one_is_gone(make: Callable[..., Crowd], fate: str) -> None:
    crowd = make(EXPIRABLE)
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


def test_a_permit_that_is_given_back_in_time_wakes_none_when_it_would_have_expired(make: Callable[..., Crowd]) -> None:
    crowd = make(EXPIRABLE)
    for _ in range(20):
        crowd.wait(keeps=0.1, lease=LEASE)
    crowd.give(1)
    crowd.finish(seconds=10)
    assert sum(crowd.scripts.values()) <= 2.4 * 20, crowd.scripts
    assert crowd.last_resorts() == 0
    crowd.close()


# ---- beside those that do not know the queue -------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("order", ["old first", "new first", "in turn"])
def test_clients_that_do_not_know_the_queue_wait_beside_those_that_do(
    make: Callable[..., Crowd], kind: str, order: str
) -> None:
    crowd = make(kind)
    queued = {
        "old first": [False] * 4 + [True] * 4,
        "new first": [True] * 4 + [False] * 4,
        "in turn": [True, False] * 4,
    }
    for each in queued[order]:
        crowd.wait(queued=each)
    given = crowd.give(2)
    crowd.finish()
    assert sorted(crowd.served) == list(range(1, 9))
    assert crowd.times[-1] - given < 8 * 2 * SOON
    assert crowd.last_resorts() == 0
    crowd.close(available=2)


@pytest.mark.parametrize("permits", [1, 3])
def test_a_release_by_one_that_does_not_know_the_queue_is_heard(make: Callable[..., Crowd], permits: int) -> None:
    crowd = make()
    for _ in range(6):
        crowd.wait()
    crowd.redis("SET", "seats", permits)
    crowd.redis("PUBLISH", CHANNEL, permits)
    released = crowd.world.now
    crowd.finish()
    assert crowd.times[0] - released < SOON
    assert crowd.times[-1] - released < 6 * SOON
    assert crowd.last_resorts() == 0
    crowd.close(available=permits)


def test_the_queue_does_not_outlive_those_in_it(make: Callable[..., Crowd]) -> None:
    crowd = make()
    for client in [crowd.wait() for _ in range(3)]:
        client.runtime.process.crash()
    crowd.world.run(seconds=100)
    assert WAIT_QUEUE not in crowd.world.node.redis.dump()


# ---- planted bugs ----------------------------------------------------------------------------------------------------


def _in_waiting(*changes: tuple[str, str]) -> Bug:
    return in_script("semaphore_acquire_waiting", *changes)


#: And the test that finds it.
BUGS: dict[str, tuple[Callable[..., None], Bug]] = {
    "more are notified than there are permits": (
        test_whatever_makes_permits_available_wakes_clients,
        in_script("semaphore_release", ("free = free - wanted", "free = free - 0.5")),
    ),
    "those who were notified before are forgotten": (
        test_as_many_clients_are_woken_as_there_are_permits,
        in_script(
            "semaphore_add", ("free = free - (tonumber(string.match(before[i], '%d*$')) or 0)", "local _ = free")
        ),
    ),
    "one is notified at most": (
        test_clients_that_are_woken_and_do_not_answer_cost_the_others_little,
        in_script(
            "semaphore_add", ("notified = notified + 1", "notified = notified + 1\n                        free = 0")
        ),
    ),
    "the newest is notified first": (
        test_a_permit_wakes_one_client_and_the_one_that_has_waited_longest,
        in_script(
            "semaphore_release",
            (
                "'zrangebyscore', waiting, '-inf', '(1e15', 'limit'",
                "'zrevrangebyscore', waiting, '(1e15', '-inf', 'limit'",
            ),
        ),
    ),
    "one that wants more than there is keeps others from theirs": (
        test_one_that_wants_more_than_there_is_lets_others_pass,
        in_script("semaphore_add", ("passed = passed + 1", "free = 0")),
    ),
    "one that was notified is waited for without end": (
        test_clients_that_are_woken_and_do_not_answer_cost_the_others_little,
        _in_waiting(("< 200 then", "< 1e9 then")),
    ),
    "a turn is never passed on": (
        test_one_that_is_cancelled_when_it_has_its_turn_passes_it_on,
        in_script("semaphore_stop_waiting", ("hand_out(KEYS[2]", "local _ = (KEYS[2]")),
    ),
    "permits that are undone wake none": (
        test_one_that_is_cancelled_when_it_has_a_permit_passes_it_on,
        in_script("semaphore_undo", ("if tonumber(given) > 0", "if false")),
    ),
    "one that has timed out stays in the queue": (
        test_one_that_has_timed_out_is_in_the_queue_no_more,
        in_script("semaphore_stop_waiting", ("redis.call('zrem', KEYS[2], ARGV[1], 'notified:' .. ARGV[1])", "")),
    ),
    "one that was notified is never taken off": (
        test_a_permit_wakes_one_client_and_the_one_that_has_waited_longest,
        _in_waiting(("redis.call('zscore', queue, member)", "false")),
    ),
    "the queue outlives those in it": (
        test_the_queue_does_not_outlive_those_in_it,
        _in_waiting(("redis.call('pexpire', waiting, kept)", "local _ = kept")),
    ),
    "one that comes too late is not put back": (
        test_permits_that_are_drained_wake_none,
        _in_waiting(("redis.call('zadd', waiting, since, me)", "local _ = me")),
    ),
    "permits that are left are passed on to none": (
        test_clients_that_are_woken_and_do_not_answer_cost_the_others_little,
        _in_waiting(("if type(reply[1]) == 'number'", "if false")),
    ),
    "the first one that comes is enough": (
        test_clients_that_are_woken_and_do_not_answer_cost_the_others_little,
        _in_waiting(("and redis.call('zcount', waiting, '2e15', '+inf') == 0 then", "then")),
    ),
    "no client is notified of a permit that expires": (
        test_a_permit_that_expires_wakes_one_client,
        in_script("permit_acquire_waiting", ("redis.call(publish, waiting .. ':' .. client, 'in '", "tostring('in '")),
    ),
    "all attempt when a permit expires": (
        test_a_permit_that_expires_wakes_one_client,
        in_script("permit_acquire_waiting", ("reply[3] = observes and reply[3] + 200 or -1", "local _ = observes")),
    ),
    "only the first one attempts when a permit expires": (
        test_a_permit_that_expires_is_taken_although_the_first_one_is_gone,
        in_script("permit_acquire_waiting", ("reply[3] = observes and reply[3] + 200 or -1", "reply[3] = -1")),
    ),
    "observers do not attempt": (
        test_clients_that_are_woken_and_do_not_answer_cost_the_others_little,
        in_code(wait_queue, "NOTIFIED_FOR", 5.0),
    ),
    "observers attempt at each release": (
        test_a_permit_wakes_one_client_and_the_one_that_has_waited_longest,
        in_code(QueuedGroup, "_message", lambda self, message: 1),
    ),
}


def _cases(test: Callable[..., None]) -> list[dict[str, Any]]:
    """The parameters of a test."""
    cases: list[dict[str, Any]] = [{}]
    for mark in getattr(test, "pytestmark", []):
        cases = [{**case, mark.args[0]: value} for case in cases for value in mark.args[1]]
    return cases


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_of_crowds_is_found(
    name: str, make: Callable[..., Crowd], monkeypatch: pytest.MonkeyPatch
) -> None:
    test, bug = BUGS[name]
    bug.plant(monkeypatch)
    for case in _cases(test):
        try:
            test(make=make, **case)
        except (Exception, Cancelled) as error:
            print(f"{name}: {case}: {finding(error)}")
            return
    pytest.fail(f"{test.__name__} does not find it")
