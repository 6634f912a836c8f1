"""A lock on a quorum of simulated nodes: scenes, interruptions at every point, and planted bugs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from pyredisson._asyncio.locks import MultiLock
from pyredisson._core import releasing as release
from pyredisson._core.client import ClientCore
from pyredisson._core.ownership import Ownership
from pyredisson._core.runtime import run
from pyredisson._core.server import ServerState
from pyredisson._quorum import hold, multi_lock, redlock
from pyredisson._quorum import redlock as restart_guard
from pyredisson._quorum.hold import MultiHold, certain_until
from pyredisson._quorum.redlock import RestartGuard
from pyredisson.config import Config
from pyredisson.errors import LockLostError, QuorumUnreachableError
from tests.simulated.engine.checkers import QuorumRules, leftovers
from tests.simulated.engine.runtime import SimulatedClient, SimulatedOwner
from tests.simulated.engine.world import Cancelled, World
from tests.simulated.planted import all_of, check_found, in_code, in_script
from tests.simulated.quorum_history import QuorumHistory
from tests.simulated.seeds import first_of

# ---- scenes ----------------------------------------------------------------------------------------------------------


class Scene:
    """A few nodes and clients, with nothing random but the time that packets take."""

    def __init__(self, nodes: int = 5, seed: int = 0, **config: Any) -> None:
        self.world = World(seed, nodes=nodes)
        self.config = Config(**{"lock_watchdog_timeout": 3.0, "timeout": 0.9, "quorum_retry_timeout": 4.0, **config})
        self.clients: list[SimulatedClient] = []
        self.owners: dict[int, SimulatedOwner] = {}

    def lock(self, process: str, name: str = "orders") -> MultiLock:
        """A lock on all nodes, of a process of its own."""
        where = self.world.process(process)
        clients = [SimulatedClient(where, config=self.config, node=node) for node in self.world.nodes]
        self.clients += clients
        return MultiLock(*[client.get_lock(name) for client in clients])

    def do(self, lock: MultiLock, call: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Do something in the lock's process, always in the name of one owner, and wait for its end."""
        process = lock._core.client.runtime.process
        owner = self.owners.setdefault(id(lock), SimulatedOwner(self.world))
        task = process.start(call(), "task", owner)
        self.world.run(until=task.done, seconds=100)
        return task.outcome.result()

    def end(self) -> None:
        """Nothing is left when everything is over."""
        self.world.run(seconds=90)
        left = leftovers(self.world, self.clients)
        self.world.end()
        assert not left, left


def the_hole(*, guard: bool, known: bool) -> bool:
    """A and B and C are locked; C is restarted empty; can another client lock C, D and E? Returns whether it can."""
    scene = Scene(restart_guard=10.0 if guard else False)
    *_, c, d, e = scene.world.nodes
    mine, theirs = scene.lock("mine"), scene.lock("theirs")
    if known:
        assert scene.do(theirs, theirs.try_lock)
        scene.do(theirs, theirs.unlock)
    for client in scene.clients[3:5]:
        client.runtime.cut()
    assert scene.do(mine, lambda: mine.try_lock(0, 8))
    scene.world.run(seconds=0.5)
    c.crash()
    c.restart(data=False)
    assert d.redis.command("EXISTS", "orders") == e.redis.command("EXISTS", "orders") == 0
    # A and B refuse, D and E are free, and C has no say in it.
    taken = bool(scene.do(theirs, lambda: theirs.try_lock(0, 1)))
    for client in scene.clients[3:5]:
        client.runtime.heal()
    scene.end()
    return taken


@pytest.mark.parametrize("known", [True, False])
def test_a_node_that_was_restarted_empty_has_no_vote(known):
    assert not the_hole(guard=True, known=known)
    assert the_hole(guard=False, known=known), "the guard is not what closes the hole"


def test_a_lock_that_waited_for_votes_counts_them():
    scene = Scene(nodes=3, restart_guard=3.0)
    for node in scene.world.nodes[1:]:
        node.crash()
        node.restart(data=False)
    lock = scene.lock("mine")
    began = scene.world.now
    scene.do(lock, lock.lock)  # Round after round all say yes, and two of them without a vote.
    assert scene.world.now - began > 1.0, "it did not wait, so nothing was tested"
    assert scene.do(lock, lock.get_hold_count) == 1
    scene.do(lock, lock.unlock)
    scene.end()


def test_what_a_silent_node_took_is_given_back_as_soon_as_it_answers():
    scene = Scene(nodes=3)
    one, other, third = scene.world.nodes
    mine = scene.lock("mine")
    third.crash()
    other.pause()
    with pytest.raises(QuorumUnreachableError):
        scene.do(mine, lambda: mine.try_lock(0, 30))
    assert one.redis.command("EXISTS", "orders") == 0
    other.resume()
    assert other.redis.command("EXISTS", "orders") == 1, "it has not come that far"
    assert scene.world.run(until=lambda: other.redis.command("EXISTS", "orders") == 0, seconds=3)
    third.restart()
    scene.end()


def test_split_votes_do_not_go_on_for_ever():
    """Five clients who want it at the same moment, again and again: the rounds that each acquire took."""
    asked = {}
    attempt_all = redlock.Rounds.attempt_all

    async def counted(self):
        asked[self.whole] = asked.get(self.whole, 0) + 1
        return await attempt_all(self)

    async def work(lock):
        await lock.lock(2)
        await lock.unlock()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redlock.Rounds, "attempt_all", counted)
        for seed in range(30):
            scene = Scene(seed=seed)
            tasks = [
                lock._core.client.runtime.process.start(work(lock), f"t{index}")
                for index, lock in enumerate([scene.lock(f"p{index}") for index in range(5)])
            ]
            with scene.world:
                assert scene.world.run(until=lambda tasks=tasks: all(task.done() for task in tasks), seconds=30)
                for task in tasks:
                    task.outcome.result()
                scene.end()
    rounds = sorted(asked.values())
    assert len(rounds) == 5 * 30
    assert rounds[int(0.99 * len(rounds))] <= 10, rounds[-10:]


def test_a_late_copy_of_a_request_takes_nothing():
    """A node gets an acquire that its sender gave up long ago, when the lock was taken and given back meanwhile."""
    scene = Scene(nodes=3)
    late = []
    slow = scene.world.nodes[2]
    mine = scene.lock("mine")
    arrive = slow.arrive
    slow.arrive = lambda call: None if late else (late.append(call), None)[1]
    assert scene.do(mine, lambda: mine.try_lock(0, 8))
    slow.arrive = arrive
    scene.do(mine, mine.unlock)
    # What was not answered is settled in the background, under the next epoch.
    assert scene.world.run(until=lambda: slow.commands > 0, seconds=3)
    scene.world.run(seconds=1)
    late[0]()
    assert slow.redis.command("EXISTS", "orders") == 0
    scene.end()


def test_the_pause_between_rounds_is_by_chance_and_grows():
    scene = Scene(nodes=3)
    lock = scene.lock("mine")._core
    assert isinstance(lock.strategy, redlock.Redlock)
    whole = MultiHold(lock.members, 2, "orders", "orders", SimulatedOwner(scene.world), None)
    rounds = redlock.Rounds(lock.strategy, whole, 0.0)
    first = [rounds.chance() for _ in range(50)]
    assert len(set(first)) > 10
    rounds.reached, rounds.refusals = True, {}
    for _ in range(5):
        run(rounds.refused())
    assert max(rounds.chance() for _ in range(50)) > 4 * max(first)
    scene.end()


def test_two_members_on_one_node_are_no_quorum():
    scene = Scene(nodes=1)
    process = scene.world.process("mine")
    scene.clients = [SimulatedClient(process, config=scene.config) for _ in range(3)]
    lock = MultiLock(*[client.get_lock("orders") for client in scene.clients])
    with pytest.raises(ValueError, match="the same server"):
        scene.do(lock, lock.try_lock)
    scene.end()


# ---- interruptions ---------------------------------------------------------------------------------------------------


async def _plain(lock: MultiLock) -> None:
    await lock.lock(2)
    await lock.unlock()


async def _watched(lock: MultiLock) -> None:
    async with lock:
        pass


async def _nested(lock: MultiLock) -> None:
    async with lock.hold() as lease, lock.hold(lease_time=1):
        lease.ensure_held()


async def _waiting(lock: MultiLock) -> None:
    if await lock.try_lock(5, 2):
        await lock.unlock()


USES = {"plain": _plain, "watched": _watched, "nested": _nested, "waiting": _waiting}


def _interrupt(use: str, how: str, point: int, *, stopped: bool = False) -> bool:
    """Interrupt one use at one point. Returns whether it came to its end before."""
    scene = Scene(nodes=3)
    rules: QuorumRules | None = None
    lock, other = scene.lock("mine"), scene.lock("other")
    rules = QuorumRules(scene.world, scene.clients)
    if how == "ordered":
        client = scene.clients[0]
        lock = MultiLock(*[client.get_lock(name) for name in ("a", "orders", "z")])
        client = scene.clients[3]
        other = MultiLock(*[client.get_lock(name) for name in ("a", "orders", "z")])
    if use == "waiting":
        scene.do(other, lambda: other.lock(1))
    if stopped:
        scene.world.nodes[1].pause()
        scene.world.after(1.0, scene.world.nodes[1].resume)
    task = lock._core.client.runtime.process.start(USES[use](lock), "task")
    task.cancel_at = point
    scene.world.run(until=task.done, seconds=30)
    finished = task.suspensions < point
    try:
        task.outcome.result()
    except Cancelled:
        pass
    # Not by the end of a lease, the shortest of which is over in a second: it was given back.
    if use != "waiting" and not stopped and not scene.do(other, lambda: other.try_lock(0.6, 0.5)):
        scene.world.end()
        raise AssertionError("it was left taken")
    assert rules is not None
    scene.end()
    return finished


@pytest.mark.parametrize("stopped", [False, True], ids=["well", "one-stopped"])
@pytest.mark.parametrize("how", ["quorum", "ordered"])
@pytest.mark.parametrize("use", USES)
def test_an_interrupted_caller_leaves_nothing(use, how, stopped):
    if stopped and how == "ordered":
        pytest.skip("there is one node")
    for point in range(1, 200):
        if _interrupt(use, how, point, stopped=stopped):
            assert point > 3
            return
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("waits", [False, True], ids=["asks", "waits"])
def test_a_multi_lock_of_a_silent_server_is_left_within_a_second(waits):
    """Behind another second in which its client leaves the wait queue, if it was in one."""
    scene = Scene(nodes=1, timeout=20.0, lock_watchdog_timeout=60.0)
    _, _, client, others = scene.lock("mine"), scene.lock("other"), *scene.clients
    lock = MultiLock(*[client.get_lock(name) for name in ("a", "z")])
    other = MultiLock(*[others.get_lock(name) for name in ("y", "z")])
    if waits:
        scene.do(other, lambda: other.lock(60))
    else:
        scene.world.nodes[0].pause()
    task = lock._core.client.runtime.process.start(lock.lock(), "task")
    scene.world.run(seconds=0.3)
    scene.world.nodes[0].pause()
    began = scene.world.now
    task.cancel()
    scene.world.run(until=task.done, seconds=30)
    took = scene.world.now - began
    scene.world.nodes[0].resume()
    with pytest.raises(Cancelled):
        task.outcome.result()
    assert took < 1.01 + waits
    scene.end()


# ---- planted bugs ----------------------------------------------------------------------------------------------------

CERTAIN_UNTIL = MultiHold.certain_until


def _of_any(deadlines: Any, quorum: int) -> float:
    return certain_until(list(deadlines), 1)


def _forgets(client: Any, call: Any, failure: Any) -> None:
    call.ownership.in_flight.pending = None


async def _gives_nothing_back(self: Any, *_: Any) -> None:
    return None


def _later_never(self: Any, ownership: Any, lease: int) -> None:
    ownership.in_flight.pending = None


BUGS = {
    "half of the nodes are enough": in_code(multi_lock, "majority", lambda count: count // 2 or 1),
    "the time that it took is not taken off": in_code(
        MultiHold, "certain_until", lambda self: CERTAIN_UNTIL(self) + 0.5
    ),
    "nodes that did not answer are not released": in_code(ClientCore, "settle_later", _later_never),
    "a release that was not answered is forgotten": in_code(release, "_end_failed_release", _forgets),
    "an extension by any node counts": in_code(hold, "certain_until", _of_any),
    "an extension counts when the validity is over": in_code(Ownership, "expire", lambda self, now: ()),
    "there is no chance in the delay": in_code(redlock.Rounds, "chance", lambda self: 0.0),
    "two nodes may be one server": in_code(RestartGuard, "_check_distinct", lambda self, facts: None),
    "a late copy of a request is accepted": in_script(
        "lock_acquire", ("tonumber(stored) > tonumber(ARGV[2])", "false")
    ),
    "a restarted node votes": in_code(RestartGuard, "has_vote", lambda self, index, now: True),
    "a run id is forgotten, and so is an uptime": all_of(
        in_code(ServerState, "_note_start", lambda self, facts, before: None),
        in_code(restart_guard, "CLEARLY_OLDER", 1e9),
    ),
    "what was taken in vain is kept": in_code(redlock, "undo", _gives_nothing_back),
    "an interrupted acquire is not given back": in_code(multi_lock, "undo_interrupted", _gives_nothing_back),
    "a quorum is never told of as lost": in_code(MultiHold, "lost_part", lambda self, **how: None),
}


def test_a_lost_quorum_is_reported():
    told = []
    scene = Scene(nodes=3, on_lock_lost=lambda name, owner: told.append(name))
    lock = scene.lock("mine")

    async def hold():
        await lock.lock()
        for node in scene.world.nodes[:2]:
            node.redis.command("DEL", "orders")
        await scene.world.pause_of(lock._core.client.runtime.process, 3.0)
        assert told == ["orders"] * 3, told
        await lock.unlock()

    with pytest.raises(LockLostError):
        scene.do(lock, hold)
    scene.end()


#: Which history found it the last time, where that is not among the first: tried before the others, which take longer.
FOUND_BY = {"the time that it took is not taken off": 49, "a release that was not answered is forgotten": 3}


def _tests(bug: str) -> Iterator[tuple[str, Callable[[], object]]]:
    yield "a lost quorum", test_a_lost_quorum_is_reported
    yield "the hole, known", lambda: test_a_node_that_was_restarted_empty_has_no_vote(True)
    yield "the hole", lambda: test_a_node_that_was_restarted_empty_has_no_vote(False)
    yield "one node", test_two_members_on_one_node_are_no_quorum
    yield "a silent node", test_what_a_silent_node_took_is_given_back_as_soon_as_it_answers
    yield "a late copy", test_a_late_copy_of_a_request_takes_nothing
    yield "chance", test_the_pause_between_rounds_is_by_chance_and_grows
    yield "interrupted", lambda: [_interrupt("plain", "quorum", point) for point in range(1, 8)]
    yield "split votes", test_split_votes_do_not_go_on_for_ever
    for seed in first_of(FOUND_BY.get(bug), 150):
        yield f"history {seed}", QuorumHistory(seed).run


@pytest.mark.planted
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_of_the_quorum_is_found(name, monkeypatch):
    check_found(monkeypatch, name, BUGS[name], _tests(name))
