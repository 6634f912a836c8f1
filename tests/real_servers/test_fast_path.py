"""The fast path beside the general path: the same random steps and faults, and in the end the same state.

One client may take the fast path, its twin may not. What each step returned or raised, what each client knows of its
lock, and what is stored in Redis has to agree after every step.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
import redis.exceptions as rx

import pyredisson
import pyredisson.asyncio
from pyredisson import Config
from pyredisson._asyncio.pipe import Pipe
from pyredisson._core import acquiring as settle
from pyredisson._core.failures import NotSent, Unanswered
from pyredisson._core.owners import CallChains
from pyredisson._core.requests import IN_DOUBT
from pyredisson._core.runtime import run
from pyredisson._kinds.lock import LockCore
from pyredisson._threads import fast_path
from pyredisson._threads.sockets import Connection
from tests.forms import ended, enter_of, exit_of
from tests.real_servers.observation import load_scripts
from tests.servers import Server
from tests.waiting import soon, until

CONFIG = Config(lock_watchdog_timeout=3600, timeout=20.0)
STRANGER = "stranger:1"

#: How a handle of each kind is made.
KINDS: dict[str, Callable[[Any, str], Any]] = {
    "lock": lambda client, name: client.get_lock(name),
    "fair": lambda client, name: client.get_fair_lock(name),
    "spin": lambda client, name: client.get_spin_lock(name),
    "fenced": lambda client, name: client.get_fenced_lock(name),
    "token": lambda client, name: client.get_token_lock(name),
    "non-reentrant": lambda client, name: client.get_non_reentrant_lock(name),
    "non-reentrant fair": lambda client, name: client.get_non_reentrant_fair_lock(name),
    "read": lambda client, name: client.get_read_write_lock(name).read_lock(),
    "write": lambda client, name: client.get_read_write_lock(name).write_lock(),
}

#: What is done, and how often.
STEPS = {
    "lock": 6,
    "unlock": 8,
    "try_lock": 3,
    "wait": 1,
    "lease": 1,
    "with": 3,
    "hold": 3,
    "hold with a lease": 1,
    "body raises": 1,
    "handle": 1,
    "force_unlock": 1,
}
#: What happens to the first request of a step.
FAULTS = {
    "none": 12,
    "not sent": 2,
    "lost": 2,
    "unknown script": 1,
    "deleted": 1,
    "taken": 1,
    "interrupted": 2,
    "late": 2,
}


#: Seconds for a request of a caller that leaves: as long as on a busy machine an answer may take.
BUDGET = 20.0

#: How many steps a history has.
LENGTH = 40

#: What waits for the lock without end.
ENDLESS = ("lock", "with", "body raises")


class Interruption(BaseException):
    """As a signal handler's."""


class Faults:
    """What happens to the next request to the lock's server, and what was sent."""

    def __init__(self, direct: redis.Redis, kind: str) -> None:
        self._direct = direct
        self._kind = kind
        self.fault = "none"
        self.name = ""

    def concern(self, data: bytes) -> bool:
        """Whether it is a script about the lock; who holds it is a question that is given up in a hurry."""
        return b"EVAL" in data and self.name.encode() in data

    def before(self) -> str:
        """Do what is to happen before the request. Returns what is to become of it."""
        fault, self.fault = self.fault, "none"
        if fault == "unknown script":
            self._direct.script_flush()
        elif fault == "deleted":
            self._direct.delete(self.name)
        elif fault == "taken":
            self._direct.delete(self.name)
            if self._kind == "token":
                self._direct.set(self.name, STRANGER)
            elif self._kind in ("read", "write"):
                self._direct.hset(self.name, mapping={"mode": "write", f"{STRANGER}:write": 1})
            else:
                self._direct.hset(self.name, STRANGER, 1)
            self._direct.pexpire(self.name, 100_000)
        return fault

    def failure(self, fault: str) -> BaseException | None:
        """What a request brings instead of being sent, or instead of its reply."""
        match fault:
            case "not sent":
                return NotSent(rx.ConnectionError("planned"))
            case "lost":
                return Unanswered(rx.ConnectionError("planned"))
            case "interrupted" | "late":
                return Interruption()
        return None


@contextmanager
def in_threads(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    exchange, thread = Connection.exchange, threading.current_thread()

    def planned(self: Connection, data: bytes | None, timeout: float) -> Any:
        ours = data is not None and faults.concern(data) and threading.current_thread() is thread
        fault = faults.before() if ours else "none"
        failure = faults.failure(fault)
        if failure is None:
            return exchange(self, data, timeout)
        try:
            if fault in ("lost", "late"):
                exchange(self, data, timeout)
            raise failure
        finally:
            self.close()

    with monkeypatch.context() as patch:
        patch.setattr(Connection, "exchange", planned)
        patch.setattr(settle, "CLEANUP_BUDGET", BUDGET)
        yield


@contextmanager
def in_tasks(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    post, task = Pipe.post, asyncio.current_task()

    def planned(self: Pipe, data: bytes, timeout: float, outcome: Any) -> None:
        ours = faults.concern(data) and asyncio.current_task() is task
        fault = faults.before() if ours else "none"
        failure = faults.failure(fault)
        if failure is None:
            post(self, data, timeout, outcome)
            return
        instead: BaseException = asyncio.CancelledError() if isinstance(failure, Interruption) else failure
        if fault not in ("lost", "late"):
            outcome.set_exception(instead)
            return
        answered = asyncio.get_running_loop().create_future()
        answered.add_done_callback(lambda done: outcome.done() or outcome.set_exception(instead))
        post(self, data, timeout, answered)

    with monkeypatch.context() as patch:
        patch.setattr(Pipe, "post", planned)
        patch.setattr(settle, "CLEANUP_BUDGET", BUDGET)
        yield


def state(client: Any, direct: redis.Redis, name: str) -> dict[str, Any]:
    """What a client knows of a lock, and what is stored."""
    core = client._core
    found: dict[str, Any] = {"watched": [each.name for each in core.watchdog.ownerships()].count(name)}
    for each in core.ownerships.of(name):
        flight = each.in_flight
        found |= {
            "holds": [
                (hold.lease_ms, hold.watched, hold.watchdog, hold.block is not None, hold.token) for hold in each.holds
            ],
            "lost": each.loss,
            "ended": len(each.ended),
            "visible": [hold.trace is not None and hold.trace() is not None for hold in each.holds],
            "epoch": each.epoch,
            "generation": each.generation,
            "pending": (flight.pending, len(flight.due), flight.released_behind, flight.queued_ms),
            "doubtful": flight.state not in IN_DOUBT if flight.pending else None,
            "deadline": round(max(0.0, each.deadline - time.monotonic()), -2) if each.holds else None,
        }
    found["stored"] = sorted(direct.hvals(name)) if direct.type(name) == "hash" else direct.strlen(name)
    found["lives"] = direct.pttl(name) > 0
    found["epochs"] = sorted(direct.get(key) for key in direct.scan_iter(f"*epoch*{name}*"))
    return found


async def do_step(lock: Any, step: str) -> object:
    """Do one step. Returns what came of it."""
    match step:
        case "lock" | "unlock" | "try_lock" | "force_unlock":
            return await ended(getattr(lock, step)())
        case "wait":
            return await ended(lock.try_lock(wait_time=0.02))
        case "lease":
            return await ended(lock.try_lock(lease_time=2_000))
        case "with" | "body raises" | "hold" | "hold with a lease":
            block = lock.hold(0, 2_000 if "lease" in step else None, skip=True) if "hold" in step else lock
            leave = exit_of(block)
            entered = await ended(enter_of(block)())
            if step == "body raises":
                error = ZeroDivisionError()
                await ended(leave(type(error), error, None))
                raise error
            await ended(leave(None, None, None))
            return "hold" in step and entered is None
    return None


class Twins:
    """A client that may take the fast path and one that may not, and what they have done."""

    def __init__(self, server: Server, direct: redis.Redis, name: str, clients: tuple[Any, Any], kind: str) -> None:
        self.server = server
        self.direct = direct
        self.names = (f"{name}-fast", f"{name}-general")
        self.clients = clients
        self.locks: list[Any] = [None, None]
        self.kind = kind
        for index in range(2):
            self.get_handle(index)
        self.faults = Faults(direct, kind)
        self.outcomes: list[object] = []
        self.done: list[tuple[str, str]] = []
        self.flushed = True

    def get_handle(self, index: int) -> None:
        """Use a new handle."""
        self.locks[index] = KINDS[self.kind](self.clients[index], self.names[index])

    def begin(self, index: int, step: str, fault: str) -> Any:
        """Plan what happens next. Returns the lock."""
        self.clients[1]._core.fast_pool = None
        if self.flushed:  # The reply that a script is not known would be no reply to lose.
            load_scripts(self.server)
        self.flushed = fault == "unknown script"
        if step == "handle":
            self.get_handle(index)
        elif index == 0:
            self.done.append((step, fault))
        self.faults.name, self.faults.fault = self.names[index], fault
        return self.locks[index]

    def is_strangers(self, name: str) -> bool:
        """Whether another client holds the lock."""
        if self.kind == "token":
            return bool(self.direct.get(name) == STRANGER)
        return STRANGER in str(self.direct.hkeys(name))

    def settled(self) -> bool:
        """Whether nothing is under way."""
        ownerships = [each for client, name in self._each() for each in client._core.ownerships.of(name)]
        return not any(each.pending is not None or each.in_flight.queued_ms for each in ownerships)

    def check(self) -> None:
        """Fail unless both have come to the same."""
        self.faults.fault = "none"
        fast, general = (state(client, self.direct, name) for client, name in self._each())
        assert self.outcomes[-2] == self.outcomes[-1], self.done[-4:]
        assert fast == general, self.done[-4:]

    def _each(self) -> Iterator[tuple[Any, str]]:
        yield from zip(self.clients, self.names, strict=True)


def plan(seed: int) -> list[tuple[str, str]]:
    """The steps of one history, each with a fault."""
    rng = random.Random(seed)
    steps = rng.choices(list(STEPS), list(STEPS.values()), k=LENGTH)
    faults = rng.choices(list(FAULTS), list(FAULTS.values()), k=LENGTH)
    planned = zip(steps, faults, strict=True)
    # What waits without end has to find the lock free.
    return [("try_lock" if step in ENDLESS and fault == "taken" else step, fault) for step, fault in planned]


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the fast path was taken, each time that it might have been."""
    found: list[bool] = []
    prepare_fast_path = LockCore.prepare_fast_path

    def counted(self: LockCore, *args: Any) -> bool:
        found.append(prepare_fast_path(self, *args))
        return found[-1]

    monkeypatch.setattr(LockCore, "prepare_fast_path", counted)
    return found


async def compare(twins: Twins, seed: int, wait: Callable[..., Any]) -> None:
    """Let both do the steps of one history, and compare them after each."""
    for step, fault in plan(seed):
        for index in range(2):
            lock = twins.begin(index, step, fault)
            if wait is until:
                lock.is_locked()  # Whether "not sent" is an error depends on whether the connection is new.
            if step in ENDLESS and twins.is_strangers(lock.name):
                twins.direct.delete(lock.name)
            try:
                twins.outcomes.append(await do_step(lock, step))
            except BaseException as error:
                twins.outcomes.append(type(error).__name__)
        await ended(wait(twins.settled, 10.0))
        twins.check()


@pytest.mark.volume
@pytest.mark.parametrize("kind", KINDS)
def test_threads(kind, valkey, direct, unique_name, volume, noted, monkeypatch):
    with (
        pyredisson.Redisson.from_url(valkey.url, config=CONFIG) as fast,
        pyredisson.Redisson.from_url(valkey.url, config=CONFIG) as general,
    ):
        for seed in range(volume(24 if kind == "lock" else 8, full=2000)):
            twins = Twins(valkey, direct, f"{unique_name}-{seed}", (fast, general), kind)
            with in_threads(twins.faults, monkeypatch):
                run(compare(twins, seed, until))
    assert sum(noted) > len(noted) / 10, "the fast path was hardly taken"


@pytest.mark.volume
@pytest.mark.parametrize("kind", KINDS)
async def test_tasks(kind, valkey, direct, unique_name, volume, noted, monkeypatch):
    async with (
        pyredisson.asyncio.Redisson.from_url(valkey.url, config=CONFIG) as fast,
        pyredisson.asyncio.Redisson.from_url(valkey.url, config=CONFIG) as general,
    ):
        for seed in range(volume(24 if kind == "lock" else 8, full=2000)):
            twins = Twins(valkey, direct, f"{unique_name}-{seed}", (fast, general), kind)
            with in_tasks(twins.faults, monkeypatch):
                await compare(twins, seed, soon)
    assert sum(noted) > len(noted) / 10, "the fast path was hardly taken"


def use_once(lock: Any) -> None:
    with lock:
        pass


def test_a_handle_that_another_thread_uses_meanwhile(valkey, unique_name, monkeypatch):
    """Each thread acts on its own ownership, whichever one the handle has used last."""
    with pyredisson.Redisson.from_url(valkey.url, config=CONFIG) as client:
        lock = client.get_lock(unique_name)
        core = lock._core
        use_once(lock)
        own = core.last
        other_thread = threading.Thread(target=use_once, args=(lock,))
        other_thread.start()
        other_thread.join()
        others = core.last
        assert others is not own

        def loop():
            core.last = others

        def sees(chains, hold):
            core.last = others
            return saw(chains, hold)

        saw = CallChains.sees
        monkeypatch.setattr(fast_path, "_running_loop", loop)
        monkeypatch.setattr(CallChains, "sees", sees)
        for use in (lock.lock, lock.unlock):
            core.last = own
            use()
            assert (len(own.holds), own.pending) == (int(use == lock.lock), None)
            assert (len(others.holds), others.pending, others.call.thread) == (0, None, 0)


def test_a_fair_hand_over_takes_three_scripts(valkey, direct, unique_name, monkeypatch):
    """A release, an attempt that joins the queue, and one that acquires: a subscription that stands costs no other."""
    monkeypatch.setattr("pyredisson._core.subscriptions.LINGER", 60.0)
    sent = []
    exchange = Connection.exchange

    def noted(self, data, timeout):
        if data is not None and unique_name.encode() in data:
            sent.append(data)
        return exchange(self, data, timeout)

    turns, left = 20, [True, True]
    queue = f"redisson_lock_queue:{{{unique_name}}}"

    def take_turns(lock, other):
        for _ in range(turns):
            with lock:
                until(lambda: direct.llen(queue) == 1 or not left[other], 10.0)
        left[1 - other] = False

    with (
        pyredisson.Redisson.from_url(valkey.url, config=CONFIG) as one,
        pyredisson.Redisson.from_url(valkey.url, config=CONFIG) as another,
    ):
        locks = [client.get_fair_lock(unique_name) for client in (one, another)]
        monkeypatch.setattr(Connection, "exchange", noted)
        threads = [threading.Thread(target=take_turns, args=(lock, 1 - index)) for index, lock in enumerate(locks)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30.0)
        assert left == [False, False]
    # Each client attempts once more when its subscription is confirmed, and sends scripts that the server did not know.
    assert len(sent) < 3.25 * 2 * turns
