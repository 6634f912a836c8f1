"""An exception of a signal handler at every point at which CPython looks for signals: of any class, for every kind.

Nothing stays held, queued, renewed or in doubt; and the exception is raised. What no library can close is counted: the
entries of what gives back, before which it cannot have begun.
"""

from __future__ import annotations

import gc
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

import pyredisson
from pyredisson import Config
from pyredisson.compat.redis_py import Lock as CompatLock
from pyredisson.net.resp import script
from pyredisson.quorum.table import multi_locks_of
from tests.real_servers.observation import busy, load_scripts
from tests.real_servers.signal_points import Points
from tests.servers import VALKEY, Server, SharedServers
from tests.volumes import Volume

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="CPython 3.10 looks at other points")

CONFIG = Config(lock_watchdog_timeout=60.0, timeout=20.0)
TOTAL = 1_000_000  # permits, or the count of a latch

#: The points before which what gives back cannot have begun: its own entry, and that of what sees it to its end.
ENTRIES = {
    "AnyLock.__exit__",
    "Lock.__exit__",  # of compat.redis_py, as the next one
    "Lock.release",
    "AnyLock.release",
    "AnyLock.unlock",
    "HoldContext.__exit__",
    "Semaphore.__exit__",
    "PermitExpirableSemaphore.release",
    "CountDownLatch.count_down",
    "run_to_the_end",
}


class SoftTimeLimitExceeded(Exception):
    """As Celery's: an ``Exception``."""


class Work:
    """What is interrupted: something of one kind, used once a call."""

    def __init__(self, urls: list[str], get: Callable[..., Any], name: str) -> None:
        self.clients = [pyredisson.Redisson.from_url(url, config=CONFIG) for url in urls]
        self._get = get
        self.name = name
        self._names = 0

    def renew(self) -> str:
        """A name that was not used yet."""
        self._names += 1
        return f"{self.name}-{self._names}"

    def handle(self, name: str) -> Any:
        return self._get(name, *self.clients)

    def left(self, direct: list[redis.Redis], name: str, count: int | None) -> list[str]:
        """What there is of a call that is over, but for so many permits, or counts of a latch."""
        found = [repr(ownership) for client in self.clients for ownership in busy(client)]
        for client in self.clients:
            core = client._core
            found += [f"{core.watchdog.watching()} watched"] * bool(core.watchdog.watching())
            found += [f"{each!r} is watched" for each in multi_locks_of(core).watched()]
            found += [f"{core.ledger.count()} open"] * bool(core.ledger.count())
            found += [f"listening for {channel}" for channel in core.subscriptions.wanted()]
            found += [f"a call on {each!r}" for each in (*core.ownerships, *multi_locks_of(core)) if each.call.thread]
            found += [f"a call on {name}" for name, _ in core.ledger.asking]
        for server in direct:
            holds = (
                [name, *(f"{{{name}}}{number}" for number in range(3))] if count is None else [f"{{{name}}}:timeout"]
            )
            found += [f"{name} in Redis"] * bool(server.exists(*holds))
            if count is not None and (there := server.get(name)) != str(count):
                found.append(f"{there}, not {count}")
        return found

    def close(self) -> None:
        for client in self.clients:
            client.close()


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


def count_down(latch: Any) -> None:
    latch.count_down()


def kind(name: str) -> Callable[..., Any]:
    return lambda key, client: getattr(client, f"get_{name}")(key)


def several(key: str, client: Any) -> Any:
    return client.get_multi_lock(*[client.get_lock(f"{{{key}}}{number}") for number in range(3)])


def compat(key: str, client: Any) -> Any:
    return CompatLock(client, key)


#: Of what has no owner: what is set before, and what it is afterwards.
COUNTS = {"semaphore": (TOTAL, TOTAL), "permit": (TOTAL, TOTAL), "latch": (TOTAL, TOTAL - 1)}

#: What is got, what is done with it, and on how many servers.
WORKS: dict[str, tuple[Callable[..., Any], Callable[[Any], None], int]] = {
    "block": (kind("lock"), block, 1),
    "hold": (kind("lock"), hold, 1),
    "nested": (kind("lock"), nested, 1),
    "by hand": (kind("lock"), by_hand, 1),
    "with a lease": (kind("lock"), with_a_lease, 1),
    "fair": (kind("fair_lock"), block, 1),
    "read": (lambda key, client: client.get_read_write_lock(key).read_lock(), block, 1),
    "write": (lambda key, client: client.get_read_write_lock(key).write_lock(), block, 1),
    "spin": (kind("spin_lock"), block, 1),
    "fenced": (kind("fenced_lock"), hold, 1),
    "token": (kind("token_lock"), block, 1),
    "non-reentrant": (kind("non_reentrant_lock"), block, 1),
    "non-reentrant fair": (kind("non_reentrant_fair_lock"), block, 1),
    "multi": (several, block, 1),
    "red": (lambda key, *clients: pyredisson.RedLock(*[each.get_lock(key) for each in clients]), block, 3),
    "redis-py": (compat, block, 1),
    "semaphore": (kind("semaphore"), block, 1),
    "permit": (kind("permit_expirable_semaphore"), permit, 1),
    "latch": (kind("count_down_latch"), count_down, 1),
}
ERRORS: list[type[BaseException]] = [KeyboardInterrupt, SoftTimeLimitExceeded, TimeoutError]


def give_back(handle: Any, direct: redis.Redis, count: int | None) -> None:
    """Do by hand what was not even begun."""
    if count is not None:
        direct.set(handle.name, count)
        direct.delete(f"{{{handle.name}}}:timeout")
    else:
        (handle.release if isinstance(handle, CompatLock) else handle.unlock)()


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


class Walk:
    """One call after another, each interrupted at the next point."""

    def __init__(
        self,
        work: Work,
        do: Callable[[Any], None],
        error: type[BaseException],
        counts: tuple[int | None, int | None] = (None, None),
    ) -> None:
        self._work = work
        self._do = do
        self._error = error
        self._before, self._after = counts
        self.points = 0
        self.entries: Counter[str] = Counter()  # How often it was left held, by the function that had not begun.

    def run(self, direct: list[redis.Redis], *, warm: bool, most: int) -> None:
        """Walk over the points, or over about so many of them."""
        work, at = self._work, 0
        while True:
            name = work.renew()
            if self._before is not None:
                direct[0].set(name, self._before + 2 * warm * (self._before - (self._after or 0)))
            handle = work.handle(name)
            for _ in range(2 * warm):
                self._do(handle)
            points = Points(self._error() if at else None, at)
            raised = points.run(lambda handle=handle: self._do(handle))
            if at and not points.where:
                assert raised is None
                return
            self.points = max(self.points, points.count)
            if at:
                # What comes out of a listener might be its own, so that it goes no further.
                swallowed = raised is None and isinstance(points.error, Exception) and "emit" in points.stack
                assert raised is points.error or swallowed, f"{raised!r} at {points}"
                if points.first and points.where in ENTRIES and self._work.left(direct, name, self._after):
                    self.entries[points.where] += 1
                    give_back(handle, direct[0], self._after)
            else:
                assert raised is None
            self._check(direct, name, points)
            at += max(1, self.points // most) if at else 1 + ERRORS.index(self._error)

    def _check(self, direct: list[redis.Redis], name: str, points: Points) -> None:
        over = time.monotonic() + 10.0
        while left := self._work.left(direct, name, self._after):
            assert time.monotonic() < over, f"{left} left after an interruption at {points}"
            time.sleep(0.002)


@pytest.fixture
def servers(shared_servers: SharedServers, valkey: Server) -> Iterator[list[redis.Redis]]:
    """Three servers that know the scripts: which are known must not depend on what ran before."""
    load_scripts(valkey)
    ports = shared_servers.ports(VALKEY, 3)
    made = [redis.Redis(port=port, decode_responses=True) for port in [valkey.port, *ports]]
    for each in made:
        for name in ("lock_acquire", "lock_release"):
            each.script_load(script(name).text)
    yield made
    for each in made:
        each.close()


@pytest.mark.volume
@pytest.mark.filterwarnings("ignore:.* was never entered:ResourceWarning")  # If it is interrupted just before that.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # The same, collected later.
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.__name__)
@pytest.mark.parametrize("warm", [False, True], ids=["first", "later"])
@pytest.mark.parametrize("name", WORKS)
def test_nothing_is_left(
    servers: list[redis.Redis],
    unique_name: str,
    volume: Volume,
    name: str,
    warm: bool,
    error: type[BaseException],
) -> None:
    get, do, count = WORKS[name]
    direct = servers[:1] if count == 1 else servers[1:]
    urls = [f"redis://127.0.0.1:{each.connection_pool.connection_kwargs['port']}" for each in direct]
    work = Work(urls, get, unique_name)
    try:
        before, after = COUNTS.get(name, (None, None))
        connecting = f"{unique_name}-connecting"
        direct[0].set(connecting, before) if before else None
        do(work.handle(connecting))
        walk = Walk(work, do, error, (before, after))
        walk.run(direct, warm=warm, most=volume(200, full=10_000))
    finally:
        work.close()
    assert walk.points > 40
    # The points of two runs differ by a few, so that one may be passed over, or come twice.
    assert sum(walk.entries.values()) <= 4, walk.entries
