"""Many clients that wait for a lock on a quorum of nodes: a release wakes one of them, whatever the nodes saw first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyredisson.asyncio.primitives import MultiLock
from pyredisson.config import Config
from pyredisson.core import listing
from pyredisson.core.listing import Listing
from pyredisson.quorum import listed
from pyredisson.quorum.listed import LEAD, ListedOnNodes
from pyredisson.quorum.round import Pace, Round
from tests.simulation.test_crowd import CHANNEL, LIST, SOON, TURN, cases_of
from tests.simulation.test_planted_bugs import Bug, finding, in_code, in_script
from tests.simulator.checkers import leftovers
from tests.simulator.runtime import SimulatedClient, SimulatedOwner
from tests.simulator.world import Cancelled, Node, Process, World

NODES = 5
#: For how long each holds the lock, unless a test says otherwise: with no time at all, one message serves several.
HOLD = 0.01


class Waiting:
    """A process with a lock on all nodes.

    Attributes:
        number: Its number among those of the crowd.
        process: The process.
        clients: Its clients, one for each node.
    """

    def __init__(self, number: int, process: Process, clients: list[SimulatedClient], kind: str) -> None:
        self.number = number
        self.process = process
        self.clients = clients
        self._kind = kind

    def lock(self) -> MultiLock:
        """A handle on all nodes."""
        return MultiLock(*[getattr(client, f"get_{self._kind}")("orders") for client in self.clients])


class QuorumCrowd:
    """A lock on a quorum that somebody holds, and clients that wait for it."""

    def __init__(self, kind: str = "lock", *, nodes: int = NODES) -> None:
        self.world = World(1, nodes=nodes)
        self.kind = kind
        self.scripts: Counter[str] = Counter()
        self.crowd: list[Waiting] = []
        self.plans: dict[str, Callable[[], object]] = {}
        self.served: list[int] = []
        self.times: list[float] = []
        self.tasks: list[Any] = []
        self.world.watchers.append(self._watch)
        self.holder = self.one()
        self.owner = SimulatedOwner(self.world)
        self.do(self.holder.lock().lock())

    def _watch(self, node: Node, script: str, keys: list[bytes], args: list[bytes], result: Any) -> None:
        self.scripts[script] += 1
        if script in self.plans:
            self.plans.pop(script)()

    def one(self, *, knows_lists: bool = True) -> Waiting:
        """A process, with a client for each node."""
        process = self.world.process(f"p{len(self.crowd)}")
        config = Config(lock_watchdog_timeout=60, timeout=0.9)
        clients = [SimulatedClient(process, config=config, node=node) for node in self.world.nodes]
        if not knows_lists:
            for client in clients:
                client.core.wakeups.may_list = False
        self.crowd.append(Waiting(len(self.crowd), process, clients, self.kind))
        return self.crowd[-1]

    def do(self, work: Any) -> Any:
        """Let the holder do something."""
        task = self.holder.process.start(work, "work", self.owner)
        assert self.world.run(until=task.done, seconds=60)
        return task.outcome.result()

    def release(self, *cut_off: int) -> float:
        """Let the holder release the lock; some nodes do not hear of it. Returns when."""
        self.scripts.clear()
        released = self.world.now
        for number in cut_off:
            self.holder.clients[number].runtime.cut()
        self.do(self.holder.lock().unlock())
        return released

    def wait(
        self,
        one: Waiting | None = None,
        *,
        knows_lists: bool = True,
        seconds: float | None = None,
        keeps: float = HOLD,
        after: float = SOON,
    ) -> Waiting:
        """Let a process wait, take the lock once, and give it back after a time."""
        one = one or self.one(knows_lists=knows_lists)

        async def work() -> None:
            lock = one.lock()
            if await lock.try_lock(seconds):
                self.served.append(one.number)
                self.times.append(self.world.now)
                if keeps:
                    await self.world.pause_of(one.process, keeps)
                await lock.unlock()

        self.tasks.append(one.process.start(work(), "waiter"))
        if after:
            self.world.run(seconds=after)
        return one

    def finish(self, seconds: float = 5) -> None:
        """Let all who wait be served."""
        live = [task for task in self.tasks if not task.process.crashed]
        assert self.world.run(until=lambda: all(task.done() for task in live), seconds=seconds), self.served
        for task in live:
            if not isinstance(task.outcome.error, Cancelled):
                task.outcome.result()

    def clients(self) -> list[SimulatedClient]:
        return [client for one in self.crowd if not one.process.crashed for client in one.clients]

    def last_resorts(self) -> int:
        return sum(client.core.wakeups.last_resorts for client in self.clients())

    def on_lists(self) -> list[int]:
        """How many stand on the list of each node."""
        states = [node.redis.dump().get(LIST) for node in self.world.nodes]
        return [0 if each is None else sum(b"ear" not in member for member in each.value) for each in states]

    def close(self) -> None:
        """Nothing is left of it."""
        self.world.run(seconds=70)
        for node in self.world.nodes:
            node.redis.command("DEL", "redisson_lock_token:{orders}")
        assert leftovers(self.world, self.clients()) == []


@pytest.fixture
def make() -> Iterator[Callable[..., QuorumCrowd]]:
    """Makes crowds, and ends their worlds."""
    made: list[QuorumCrowd] = []

    def crowd(kind: str = "lock", **how: Any) -> QuorumCrowd:
        made.append(QuorumCrowd(kind, **how))
        return made[-1]

    yield crowd
    for each in made:
        each.world.end()


@pytest.mark.parametrize("kind", ["lock", "fenced_lock", "non_reentrant_lock"])
def test_a_release_wakes_one_client_and_the_one_that_has_waited_longest(
    make: Callable[..., QuorumCrowd], kind: str
) -> None:
    crowd = make(kind)
    for _ in range(20):
        crowd.wait()
    released = crowd.release()
    crowd.finish()
    assert crowd.served == sorted(crowd.served)
    assert crowd.times[-1] - released < 20 * (HOLD + SOON / 2)
    assert sum(crowd.scripts.values()) <= 2.4 * NODES * 20, crowd.scripts
    assert crowd.last_resorts() == 0
    crowd.close()


def test_clients_that_come_at_once_wake_one_by_one_although_nodes_see_them_in_another_order(
    make: Callable[..., QuorumCrowd],
) -> None:
    crowd = make()
    for _ in range(40):
        crowd.wait(after=0, keeps=2 * HOLD)
    crowd.world.run(seconds=1)
    released = crowd.release()
    crowd.finish()
    assert sorted(crowd.served) == list(range(1, 41))
    assert crowd.times[-1] - released < 40 * (2 * HOLD + SOON / 2)
    assert sum(crowd.scripts.values()) <= 2.6 * NODES * 40, crowd.scripts
    assert crowd.last_resorts() == 0
    crowd.close()


def test_those_who_wait_in_one_process_have_one_place_on_each_list(make: Callable[..., QuorumCrowd]) -> None:
    crowd = make()
    one, two = crowd.wait(), crowd.wait()
    for each in (one, one, two):
        crowd.wait(each)
    assert crowd.on_lists() == [2, 2, 2, 0, 0]
    crowd.release()
    crowd.finish()
    assert sorted(crowd.served) == [1, 1, 1, 2, 2]
    assert crowd.last_resorts() == 0
    crowd.close()


@pytest.mark.parametrize("fate", ["pause", "crash"])
@pytest.mark.parametrize("victims", [1, 2])
def test_a_client_that_is_woken_and_does_not_answer_costs_the_others_little(
    make: Callable[..., QuorumCrowd], fate: str, victims: int
) -> None:
    crowd = make()
    waiting = [crowd.wait() for _ in range(6)]
    for each in waiting[:victims]:
        getattr(each.process, fate)()
    released = crowd.release()
    crowd.world.run(until=lambda: len(crowd.served) == 6 - victims, seconds=5)
    cost = TURN if fate == "pause" else 0  # The server knows that it is gone.
    assert crowd.times[0] - released <= cost + SOON
    assert crowd.times[-1] - released <= victims * cost + 6 * (HOLD + SOON)
    assert crowd.last_resorts() == 0


def test_one_that_is_cancelled_when_it_has_its_turn_passes_it_on(make: Callable[..., QuorumCrowd]) -> None:
    crowd = make()
    for _ in range(6):
        crowd.wait()
    crowd.plans["lock_release"] = crowd.tasks[0].cancel
    released = crowd.release()
    crowd.finish()
    assert crowd.served == [2, 3, 4, 5, 6]
    assert crowd.times[0] - released <= 2 * SOON + LEAD
    assert crowd.last_resorts() == 0
    crowd.close()


def test_one_that_has_timed_out_is_on_no_list_any_more(make: Callable[..., QuorumCrowd]) -> None:
    crowd = make()
    crowd.wait(seconds=0.1)
    crowd.wait()
    crowd.world.run(seconds=1)
    assert crowd.on_lists() == [1, 1, 1, 0, 0]
    crowd.release()
    crowd.finish()
    assert crowd.served == [2]
    crowd.close()


@pytest.mark.parametrize("order", ["old first", "new first", "in turn"])
def test_clients_that_do_not_know_the_lists_wait_beside_those_that_do(
    make: Callable[..., QuorumCrowd], order: str
) -> None:
    crowd = make()
    knows_lists = {
        "old first": [False] * 4 + [True] * 4,
        "new first": [True] * 4 + [False] * 4,
        "in turn": [True, False] * 4,
    }
    for each in knows_lists[order]:
        crowd.wait(knows_lists=each)
    crowd.release()
    crowd.finish()
    assert sorted(crowd.served) == list(range(1, 9))
    assert crowd.last_resorts() == 0
    crowd.close()


def test_a_release_by_one_that_does_not_know_the_lists_is_heard(make: Callable[..., QuorumCrowd]) -> None:
    crowd = make()
    for _ in range(6):
        crowd.wait()
    for node in crowd.world.nodes:
        node.redis.command("DEL", "orders")
        node.redis.command("PUBLISH", CHANNEL, "0")
    released = crowd.world.now
    crowd.finish()
    assert crowd.times[0] - released < SOON
    assert crowd.last_resorts() == 0
    crowd.close()


@pytest.mark.parametrize("number", range(NODES))
def test_a_node_that_goes_away_takes_no_turn_with_it(make: Callable[..., QuorumCrowd], number: int) -> None:
    crowd = make()
    for _ in range(6):
        crowd.wait()
    crowd.world.nodes[number].crash()
    crowd.world.run(seconds=0.2)
    released = crowd.release()
    crowd.finish()
    assert sorted(crowd.served) == [1, 2, 3, 4, 5, 6]
    assert crowd.times[0] - released <= LEAD + 2 * SOON
    assert crowd.last_resorts() == 0
    crowd.world.nodes[number].restart()
    crowd.close()


@pytest.mark.parametrize("number", range(NODES))
def test_a_node_that_is_cut_off_from_the_holder_costs_little(make: Callable[..., QuorumCrowd], number: int) -> None:
    crowd = make()
    for _ in range(4):
        crowd.wait()
    released = crowd.release(number)
    crowd.finish()
    assert sorted(crowd.served) == [1, 2, 3, 4]
    assert crowd.times[0] - released <= TURN
    assert crowd.last_resorts() == 0
    crowd.close()


@pytest.mark.parametrize("waiters", [1, 2])
def test_nodes_that_the_holder_does_not_have_are_not_asked_again_and_again(
    make: Callable[..., QuorumCrowd], waiters: int
) -> None:
    crowd = make()
    for _ in range(6):
        one = crowd.wait()
        for _ in range(waiters - 1):
            crowd.wait(one)
    for node in crowd.world.nodes[:2]:
        node.redis.command("DEL", "orders")
        node.redis.command("PUBLISH", CHANNEL, "0")
    crowd.world.run(seconds=2)
    crowd.scripts.clear()
    crowd.world.run(seconds=5)
    assert sum(crowd.scripts.values()) == 0, crowd.scripts
    released = crowd.release()
    crowd.finish()
    assert sorted(crowd.served) == sorted([1, 2, 3, 4, 5, 6] * waiters)
    assert crowd.times[0] - released <= LEAD + SOON
    assert crowd.last_resorts() == 0
    crowd.close()


def test_clients_that_wait_for_one_node_only_wait_beside_those_of_the_quorum(make: Callable[..., QuorumCrowd]) -> None:
    crowd = make()
    first = crowd.wait()
    alone: list[float] = []

    async def work(one: Waiting) -> None:
        async with one.clients[0].get_lock("orders"):
            alone.append(crowd.world.now)

    for each in (first, crowd.one(), crowd.one()):
        crowd.tasks.append(each.process.start(work(each), "alone"))
        crowd.world.run(seconds=SOON)
    for _ in range(3):
        crowd.wait()
    released = crowd.release()
    crowd.finish()
    assert len(alone) == 3
    assert sorted(crowd.served) == [1, 4, 5, 6]
    assert max(*alone, *crowd.times) - released < 7 * (HOLD + SOON) + 2 * LEAD
    assert crowd.last_resorts() == 0
    crowd.close()


@pytest.mark.parametrize("nodes", [1, 3, 4])
def test_other_numbers_of_nodes(make: Callable[..., QuorumCrowd], nodes: int) -> None:
    crowd = make(nodes=nodes)
    for _ in range(6):
        crowd.wait()
    crowd.release()
    crowd.finish()
    assert crowd.served == [1, 2, 3, 4, 5, 6]
    assert sum(crowd.scripts.values()) <= 3 * nodes * 6, crowd.scripts
    assert crowd.last_resorts() == 0
    crowd.close()


@pytest.mark.parametrize("nodes", [2, 4, 5])
def test_those_who_take_it_again_and_again_keep_none_of_those_who_wait_from_it(
    make: Callable[..., QuorumCrowd], nodes: int
) -> None:
    crowd = make(nodes=nodes)
    rounds = 20

    async def work(one: Waiting) -> None:
        for _ in range(rounds):
            async with one.lock():
                crowd.served.append(one.number)
                await crowd.world.pause_of(one.process, 0.001)

    for _ in range(5):
        one = crowd.one()
        crowd.tasks.append(one.process.start(work(one), "loop"))
        crowd.world.run(seconds=SOON)
    crowd.release()
    crowd.finish(seconds=20)
    assert Counter(crowd.served) == dict.fromkeys(range(1, 6), rounds)
    assert crowd.last_resorts() == 0
    assert sum(crowd.scripts.values()) <= 5 * nodes * 5 * rounds, crowd.scripts
    crowd.close()


def test_the_lists_do_not_outlive_those_on_them(make: Callable[..., QuorumCrowd]) -> None:
    crowd = make()
    for each in [crowd.wait() for _ in range(3)]:
        each.process.crash()
    crowd.world.run(seconds=40)
    assert crowd.on_lists() == [0] * NODES


def test_the_pause_of_one_whose_turn_it_is_grows_with_rounds_that_are_split(make: Callable[..., QuorumCrowd]) -> None:
    pace = Pace(make().holder.clients[0].runtime, 0.0)
    lost, split = Round(False, True, {}, {}, 0.0), Round(False, True, {}, {}, 0.0, (0, 1))
    pauses = []
    for round_ in (lost, lost, lost, split, split, split, split, lost):
        pace.count(round_)
        pauses.append(max(pace.after_split() for _ in range(50)))
    assert pauses[:3] == [0, 0, 0]
    assert pauses[-1] == 0
    assert 0 < 4 * pauses[3] < pauses[6]


# ---- planted bugs ----------------------------------------------------------------------------------------------------


def _never(*_: Any) -> None:
    return None


#: Bugs, each with the test that finds it.
BUGS: dict[str, tuple[Bug, Callable[..., None]]] = {
    "two are chosen": (
        in_script(
            "lock_release",
            ("return heard > 0\n", "if chosen then return true end\n            chosen = true\n"),
            ("    while true do\n", "    local chosen = false\n    while true do\n"),
        ),
        test_a_release_wakes_one_client_and_the_one_that_has_waited_longest,
    ),
    "the newest one is chosen": (
        in_script(
            "lock_release",
            ("'zrange', waiting, 0, 0)", "'zrangebyscore', waiting, '-inf', '(1e15', 'limit', last, 1)"),
            (
                "    while true do\n",
                "    local last = redis.call('zcount', waiting, '-inf', '(1e15') - 1\n    while true do\n",
            ),
        ),
        test_a_release_wakes_one_client_and_the_one_that_has_waited_longest,
    ),
    "a turn is never passed on, nor a place on a list given up": (
        in_code(ListedOnNodes, "_leave_later", _never),
        test_one_that_is_cancelled_when_it_has_its_turn_passes_it_on,
    ),
    "one that leaves stays on the lists": (
        in_code(Listing, "acquired", _never),
        test_a_release_wakes_one_client_and_the_one_that_has_waited_longest,
    ),
    "the lists outlive those on them": (
        in_script("lock_acquire_waiting", ("redis.call('pexpire', waiting, kept)", "local _ = kept")),
        test_the_lists_do_not_outlive_those_on_them,
    ),
    "one that comes too late is not put back": (
        in_script(
            "lock_acquire_waiting",
            ("redis.call('zadd', waiting, since, me)", "local _ = me"),
        ),
        test_a_release_wakes_one_client_and_the_one_that_has_waited_longest,
    ),
    "each node decides": (
        in_code(ListedOnNodes, "_has_turn", lambda self, seats: any(seat.bench.listing.chosen for seat in seats)),
        test_clients_that_come_at_once_wake_one_by_one_although_nodes_see_them_in_another_order,
    ),
    "only one node is believed": (
        in_code(listed, "LEAD", 5.0),
        test_a_node_that_is_cut_off_from_the_holder_costs_little,
    ),
    "ears do not look": (
        in_code(listing, "BACKUP", 5.0),
        test_a_client_that_is_woken_and_does_not_answer_costs_the_others_little,
    ),
    "the pause after a split does not grow": (
        in_code(Pace, "among_few", lambda self: 0.0),
        test_the_pause_of_one_whose_turn_it_is_grows_with_rounds_that_are_split,
    ),
    "one that no node will notify relies on being notified": (
        in_code(ListedOnNodes, "_again_soon", lambda self, refused: refused),
        test_those_who_take_it_again_and_again_keep_none_of_those_who_wait_from_it,
    ),
    "one that gives a node back is notified of it": (
        in_code(Listing, "given_back", property(_never, _never)),
        test_nodes_that_the_holder_does_not_have_are_not_asked_again_and_again,
    ),
}


def _found(test: Callable[..., None]) -> str | None:
    for case in cases_of(test):
        made: list[QuorumCrowd] = []

        def make(kind: str = "lock", made: list[QuorumCrowd] = made, **how: Any) -> QuorumCrowd:
            made.append(QuorumCrowd(kind, **how))
            return made[-1]

        try:
            test(make=make, **case)
        except (Exception, Cancelled) as error:
            return f"{case}: {finding(error)}"
        finally:
            for each in made:
                each.world.end()
    return None


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_of_crowds_on_a_quorum_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug, test = BUGS[name]
    bug.plant(monkeypatch)
    found = _found(test)
    print(f"{name}: {found}")
    assert found is not None
