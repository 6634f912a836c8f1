"""An exception of a signal handler at every point at which CPython looks for signals: of any class, for every kind.

Nothing stays held, queued, listed, subscribed, renewed or in doubt, and the exception is raised; whether the call
acquires at once, waits and acquires, or times out. What no library can close is counted: the entries of what gives
back, before which it cannot have begun.
"""

from __future__ import annotations

import gc
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any, NamedTuple, NoReturn

import pytest
import redis

import pyredisson
from pyredisson import Config, LockNotOwnedError
from pyredisson._net.wire import script
from pyredisson.compat.redis_py import Lock as CompatLock
from tests.real_servers.observation import busy, load_scripts
from tests.real_servers.signal_points import Points, other_points
from tests.servers import VALKEY, Server, SharedServers
from tests.waiting import until

pytestmark = [
    other_points,
    pytest.mark.volume,
    # If it is interrupted just before that, or collected later.
    pytest.mark.filterwarnings("ignore:.* was never entered:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]

CONFIG = Config(lock_watchdog_timeout=60.0, timeout=20.0, restart_guard=False)
TOTAL = 1_000_000  # permits, or the count of a latch

#: Seconds for which a call waits that times out.
SHORT = 0.02
#: Calls between two checks: a channel stays subscribed for a while after its last waiter has left.
TOGETHER = 100

#: The points before which what gives back cannot have begun: its own entry, and that of what sees it to its end.
ENTRIES = {
    "AnyLock.__exit__",
    "Lock.__exit__",  # of compat.redis_py, as the next one
    "Lock.release",
    "AnyLock.release",
    "AnyLock.unlock",
    "Hold.__exit__",
    "Semaphore.__exit__",
    "PermitExpirableSemaphore.release",
    "CountDownLatch.count_down",
    "run_to_the_end",
}


class SoftTimeLimitExceeded(Exception):
    """As Celery's: an ``Exception``."""


ERRORS: list[type[BaseException]] = [KeyboardInterrupt, SoftTimeLimitExceeded, TimeoutError]

# ---- what is interrupted ---------------------------------------------------------------------------------------------


def kind(name: str, **options: Any) -> Callable[..., Any]:
    return lambda key, client: getattr(client, f"get_{name}")(key, **options)


def side(name: str) -> Callable[..., Any]:
    return lambda key, client: getattr(client.get_read_write_lock(key), f"{name}_lock")()


def several(key: str, client: Any) -> Any:
    return client.get_multi_lock(*[client.get_lock(f"{{{key}}}{number}") for number in range(3)])


def red(key: str, *clients: Any) -> Any:
    return pyredisson.RedLock(*[each.get_lock(key) for each in clients])


def compat(key: str, client: Any) -> Any:
    return CompatLock(client, key)


def counted_latch(key: str, client: Any) -> Any:
    latch = client.get_count_down_latch(key)
    latch.try_set_count(1)
    return latch


def block(lock: Any) -> None:
    with lock:
        pass


def hold(lock: Any) -> None:
    with lock.hold():
        pass


def nested(lock: Any) -> None:
    with lock, lock:
        pass


def by_hand(lock: Any) -> None:
    lock.lock()
    lock.unlock()


def with_a_lease(lock: Any) -> None:
    assert lock.try_lock(lease_time=50)
    lock.unlock()


def permit(permits: Any) -> None:
    permits.release(permits.acquire())


def short(lock: Any) -> None:
    assert not lock.try_lock(SHORT)


class Case(NamedTuple):
    """A call that is interrupted.

    Attributes:
        get: Returns what it is a call of, given a name and a client for each server.
        do: The call.
        time_out: The call, if it waits and times out.
        held: Returns what another client holds while it waits.
        later: Returns what is used afterwards, without a wait.
        counts: The permits, or the count of a latch, before and after the call.
        servers: How many.
    """

    get: Callable[..., Any]
    do: Callable[[Any], object] = block
    time_out: Callable[[Any], object] = short
    held: Callable[..., Any] | None = None
    later: Callable[..., Any] | None = None
    counts: tuple[int | None, int | None] = (None, None)
    servers: int = 1


LOCKS = {
    "block": Case(kind("lock")),
    "hold": Case(kind("lock"), hold, lambda lock: lock.hold(SHORT, skip=True).__enter__()),
    "fair": Case(kind("fair_lock")),
    "read": Case(side("read"), held=side("write")),
    "write": Case(side("write"), held=side("read"), later=side("read")),  # Reads yield to a write that waits.
    "spin": Case(kind("spin_lock")),
    "fenced": Case(kind("fenced_lock"), hold),
    "token": Case(kind("token_lock")),
    "non-reentrant": Case(kind("non_reentrant_lock")),
    "non-reentrant fair": Case(kind("non_reentrant_fair_lock")),
    "multi": Case(several),
    "red": Case(red, servers=3),
    "redis-py": Case(compat, time_out=lambda lock: lock.acquire(blocking_timeout=SHORT)),
}
AT_ONCE = {
    **LOCKS,
    "nested": Case(kind("lock"), nested),
    "by hand": Case(kind("lock"), by_hand),
    "with a lease": Case(kind("lock"), with_a_lease),
    "semaphore": Case(kind("semaphore"), counts=(TOTAL, TOTAL)),
    "permit": Case(kind("permit_expirable_semaphore"), permit, counts=(TOTAL, TOTAL)),
    "latch": Case(kind("count_down_latch"), lambda latch: latch.count_down(), counts=(TOTAL, TOTAL - 1)),
}
WAITING = {
    **LOCKS,
    "semaphore": Case(
        kind("semaphore", permits=1), time_out=lambda permits: permits.try_acquire(1, SHORT), counts=(None, 1)
    ),
    "permit": Case(
        kind("permit_expirable_semaphore", permits=1),
        permit,
        lambda permits: permits.try_acquire(SHORT),
        counts=(None, 1),
    ),
    "latch": Case(counted_latch, lambda latch: latch.wait(), lambda latch: latch.wait(SHORT)),
}


def give_back(handle: Any, direct: redis.Redis, count: int | None) -> None:
    """Do by hand what was not even begun."""
    if count is not None:
        direct.set(handle.name, count)
        direct.delete(f"{{{handle.name}}}:timeout")
    else:
        (handle.release if isinstance(handle, CompatLock) else handle.unlock)()


class Walk:
    """One call after another, each of a new name and interrupted at the next point."""

    def __init__(self, case: Case, direct: list[redis.Redis], error: type[BaseException], name: str) -> None:
        self.urls = [f"redis://127.0.0.1:{each.connection_pool.connection_kwargs['port']}" for each in direct]
        self.clients = [pyredisson.Redisson.from_url(url, config=CONFIG) for url in self.urls]
        self.direct = direct
        self.points = 0
        self._case = case
        self._error = error
        self._name = name
        self._names = 0
        self._unchecked: dict[str, str] = {}

    def new_name(self) -> str:
        self._names += 1
        return f"{self._name}-{self._names}"

    def handle(self, name: str) -> Any:
        return self._case.get(name, *self.clients)

    def run(self, call: Callable[[int], Points], *, first: int, most: int) -> None:
        """Let each call be interrupted at the point that it is given: at all points, or about so many."""
        at, over = 0, False
        while not over:
            points = call(at)
            self.points = max(self.points, points.count)
            over = at > 0 and not points.where
            if over or len(self._unchecked) >= TOGETHER:
                self._check()
            at += max(1, self.points // most) if at else first

    def interrupt(self, name: str, at: int, call: Callable[[], object]) -> Points:
        """Make a call, interrupted at a point; 0 is none."""
        error = self._error()

        def interrupt() -> NoReturn:
            raise error

        points = Points(interrupt, at)
        raised = points.run(call)
        # What comes out of a listener might be its own, so that it goes no further.
        swallowed = isinstance(error, Exception) and "emit" in points.stack
        assert raised is (error if points.where else None) or swallowed, f"{raised!r} at {points}"
        error.__traceback__ = None  # It refers to all that it passed through.
        self._unchecked[name] = str(points)
        return points

    def left(self, name: str) -> list[str]:
        """What there is of calls that are over, but for permits, or counts of a latch."""
        left = [repr(ownership) for client in self.clients for ownership in busy(client)]
        for core in (client._core for client in self.clients):
            left += [f"{core.watchdog.watching()} watched"] * bool(core.watchdog.watching())
            left += [f"{core.ledger.count()} open"] * bool(core.ledger.count())
            left += [f"listening for {channel}" for channel in core.subscriptions.wanted()]
            left += [f"a call on {each!r}" for each in core.ownerships if each.call.thread]
            left += [f"a call on {name}" for name, _ in core.ledger.callers]
            left += [f"{each} waits" for each in core.presence.waiting()]
        count = self._case.counts[1]
        holds = [name, *(f"{{{name}}}{number}" for number in range(3))] if count is None else [f"{{{name}}}:timeout"]
        for server in self.direct:
            left += [f"{name} in Redis"] * bool(server.exists(*holds))
            left += [f"{key} in Redis" for key in server.keys(f"pyredisson_waiting:*{name}*")]
            left += [f"{channel} is heard" for channel in server.pubsub_channels(f"*{name}*")]
            if count is not None and (there := server.get(name)) != str(count):
                left.append(f"{there}, not {count}, at {name}")
        return left

    def close(self) -> None:
        for client in self.clients:
            client.close()

    def _check(self) -> None:
        gc.collect()
        for name in self._unchecked:
            deadline = time.monotonic() + 20
            while left := self.left(name):
                if time.monotonic() > deadline:
                    where = [at for each, at in self._unchecked.items() if re.search(rf"{each}\b", str(left))]
                    raise AssertionError(f"{left} left after an interruption at {where or self._unchecked}")
                time.sleep(0.002)
        self._unchecked.clear()


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """What is interrupted between being made and being kept, a coroutine or a socket, complains of it in the end.

    And not before: in the ``__new__`` of a named tuple, which has no builtins, CPython cannot import its ``warnings``.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        warnings.filterwarnings("ignore", "unclosed", ResourceWarning)
        gc.disable()
        try:
            yield
        finally:
            gc.enable()
            gc.collect()


@pytest.fixture
def servers(shared_servers: SharedServers, valkey: Server) -> Iterator[dict[int, list[redis.Redis]]]:
    """One server, and three, that know the scripts: which are known must not depend on what ran before."""
    load_scripts(valkey)
    ports = shared_servers.ports(VALKEY, 3)
    made = [redis.Redis(port=port, decode_responses=True) for port in [valkey.port, *ports]]
    for each in made:
        for name in ("lock_acquire", "lock_release"):
            each.script_load(script(name).text)
    yield {1: made[:1], 3: made[1:]}
    for each in made:
        each.close()


# ---- calls that acquire at once --------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
@pytest.mark.parametrize("warm", [False, True], ids=["first", "later"])
@pytest.mark.parametrize("name", AT_ONCE)
def test_nothing_is_left(servers, unique_name, volume, name, warm, error):
    case = AT_ONCE[name]
    walk = Walk(case, servers[case.servers], error, unique_name)
    direct, (before, after) = walk.direct[0], case.counts
    held_at_entries = 0

    def call(at):
        nonlocal held_at_entries
        key = walk.new_name()
        if before is not None and after is not None:
            direct.set(key, before + 2 * warm * (before - after))
        handle = walk.handle(key)
        for _ in range(2 * warm):
            case.do(handle)
        points = walk.interrupt(key, at, lambda: case.do(handle))
        if points.first and points.where in ENTRIES and walk.left(key):
            held_at_entries += 1
            give_back(handle, direct, after)
        elif not points.where and after is not None:
            assert direct.get(key) == str(after)
        return points

    try:
        call(0)  # It connects.
        walk.run(call, first=1 + ERRORS.index(error), most=volume(200, full=10_000))
    finally:
        walk.close()
    assert walk.points > 40
    # The points of two runs differ by a few, so that one may be passed over, or come twice.
    assert held_at_entries <= 4


# ---- calls that wait -------------------------------------------------------------------------------------------------


class Holder:
    """Another client, which holds what is waited for."""

    def __init__(self, urls: list[str], get: Callable[..., Any]) -> None:
        self.clients = [pyredisson.Redisson.from_url(url, config=Config(lock_watchdog_timeout=60.0)) for url in urls]
        self._get = get

    @contextmanager
    def holding(self, name: str, until_: Callable[[], object]) -> Iterator[None]:
        """Hold it until a condition is true, or until the block is over."""
        held, over = threading.Event(), threading.Event()

        def hold_it() -> None:
            handle = self._get(name, *self.clients)
            is_latch = hasattr(handle, "count_down")
            with nullcontext() if is_latch else handle.hold() if hasattr(handle, "hold") else handle:
                held.set()
                until(lambda: over.is_set() or until_(), 60)
            if is_latch:
                handle.count_down()

        thread = threading.Thread(target=hold_it)
        thread.start()
        try:
            assert held.wait(60)
            yield
        finally:
            over.set()
            thread.join(60)
            assert not thread.is_alive()

    def close(self) -> None:
        for client in self.clients:
            client.close()


def subscribe(url: str, client: pyredisson.Redisson, name: str) -> None:
    """Let a client wait for a first time: from then on it has a connection on which it hears messages."""
    other = Holder([url], kind("lock"))
    try:
        with other.holding(name, client._core.presence.waiting):
            block(client.get_lock(name))
    finally:
        other.close()


@pytest.mark.parametrize("granted", [True, False], ids=["granted", "timed out"])
@pytest.mark.parametrize("name", WAITING)
def test_nothing_is_left_of_an_interrupted_wait(servers, unique_name, volume, name, granted):
    """And later calls that need not wait are as fast as before."""
    case = WAITING[name]
    walk = Walk(case, servers[case.servers], KeyboardInterrupt if granted else SoftTimeLimitExceeded, unique_name)
    holder = Holder(walk.urls, case.held or case.get)
    client = walk.clients[0]

    def call(at):
        key = walk.new_name()
        handle = walk.handle(key)
        with holder.holding(key, lambda: granted and client._core.presence.waiting()):
            points = walk.interrupt(key, at, lambda: (case.do if granted else case.time_out)(handle))
        if points.first and points.where in ENTRIES:
            with suppress(LockNotOwnedError, redis.exceptions.LockError):  # Nothing was acquired yet, maybe.
                give_back(handle, walk.direct[0], case.counts[1])
        later = case.later(key, client) if case.later is not None else handle

        def is_fast():
            began = time.monotonic()
            case.do(later)
            return time.monotonic() - began < 0.25

        until(is_fast, 20, what=f"calls on {later} are fast")
        return points

    try:
        for url, each in zip(walk.urls, walk.clients, strict=True):
            subscribe(url, each, f"{unique_name}-before")
        walk.run(call, first=1, most=volume(200, full=10_000))
    finally:
        holder.close()
        walk.close()
    assert walk.points > 40
