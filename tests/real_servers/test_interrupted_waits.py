"""An exception of a signal handler at every point of a call that waits, of every kind, granted or timed out.

Nothing stays held, listed, subscribed or in doubt, and later calls are as fast as before.
"""

from __future__ import annotations

import gc
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import pytest
import redis

import pyredisson
from pyredisson import Config, LockNotOwnedError
from tests.real_servers.signal_points import Points
from tests.real_servers.test_interrupted_everywhere import (
    ENTRIES,
    SoftTimeLimitExceeded,
    Work,
    _quiet,
    block,
    compat,
    give_back,
    hold,
    kind,
    permit,
    servers,
    several,
)
from tests.volumes import Volume
from tests.waiting import until

__all__ = ["_quiet", "servers"]  # Fixtures.

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="CPython 3.10 looks at other points")

#: Seconds for which a call waits that times out.
SHORT = 0.02
#: Calls between two checks: a channel stays subscribed for a while after its last waiter has left.
TOGETHER = 100


def wait_for_latch(latch: Any) -> None:
    latch.wait()


def only_permit(name: str) -> Callable[..., Any]:
    return lambda key, client: getattr(client, f"get_{name}")(key, permits=1)


def counted_latch(key: str, client: Any) -> Any:
    latch = client.get_count_down_latch(key)
    latch.try_set_count(1)
    return latch


def side(name: str) -> Callable[..., Any]:
    return lambda key, client: getattr(client.get_read_write_lock(key), f"{name}_lock")()


def red(key: str, *clients: Any) -> Any:
    return pyredisson.RedLock(*[each.get_lock(key) for each in clients])


def short(lock: Any) -> None:
    assert not lock.try_lock(SHORT)


class Case(NamedTuple):
    """A call that waits.

    Attributes:
        get: Returns what it waits for.
        do: The call, if it is granted in the end.
        time_out: The call, if it times out.
        held: Returns what another client holds meanwhile.
        later: Returns what is used afterwards, without a wait.
        count: The permits that there are.
    """

    get: Callable[..., Any]
    do: Callable[[Any], None] = block
    time_out: Callable[[Any], object] = short
    held: Callable[..., Any] | None = None
    later: Callable[..., Any] | None = None
    count: int | None = None


CASES = {
    "plain": Case(kind("lock")),
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
    "red": Case(red),
    "redis-py": Case(compat, time_out=lambda lock: lock.acquire(blocking_timeout=SHORT)),
    "semaphore": Case(only_permit("semaphore"), time_out=lambda permits: permits.try_acquire(1, SHORT), count=1),
    "permit": Case(
        only_permit("permit_expirable_semaphore"), permit, lambda permits: permits.try_acquire(SHORT), count=1
    ),
    "latch": Case(counted_latch, wait_for_latch, lambda latch: latch.wait(SHORT)),
}


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
            if hasattr(handle, "count_down"):
                held.set()
                until(lambda: over.is_set() or until_(), 60)
                handle.count_down()
            else:
                with handle.hold() if hasattr(handle, "hold") else handle:
                    held.set()
                    until(lambda: over.is_set() or until_(), 60)

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


class Walk:
    """One call after another, each interrupted at the next point."""

    def __init__(
        self, case: Case, work: Work, holder: Holder, direct: list[redis.Redis], error: type[BaseException]
    ) -> None:
        self._case = case
        self._work = work
        self._holder = holder
        self._direct = direct
        self._error = error
        self._unchecked: dict[str, str] = {}
        self.points = 0

    def run(self, *, granted: bool, first: int, most: int) -> None:
        """Walk over the points, or over about so many of them."""
        at = 0
        while True:
            points = self._call(at, granted=granted)
            self.points = max(self.points, points.count)
            done = at > 0 and not points.where
            if done or len(self._unchecked) >= TOGETHER:
                self._check()
            if done:
                return
            at += max(1, self.points // most) if at else first

    def _call(self, at: int, *, granted: bool) -> Points:
        case, name, client = self._case, self._work.renew(), self._work.clients[0]
        handle = self._work.handle(name)
        points = Points(self._error() if at else None, at)
        do = case.do if granted else case.time_out
        with self._holder.holding(name, lambda: granted and client._core.presence.waiting()):
            raised = points.run(lambda: do(handle))
        # What comes out of a listener might be its own, so that it goes no further.
        swallowed = isinstance(points.error, Exception) and {"emit", "emit_ordinary"} & points.stack
        assert raised is (points.error if points.where else None) or swallowed, f"{raised!r} at {points}"
        self._unchecked[name] = str(points)
        points.error = raised = None  # It refers to all that it passed through.
        if points.first and points.where in ENTRIES:
            with suppress(LockNotOwnedError, redis.exceptions.LockError):  # Nothing was acquired yet, maybe.
                give_back(handle, self._direct[0], case.count)
        self._use(case.later(name, client) if case.later is not None else handle)
        return points

    def _use(self, handle: Any) -> None:
        """Make a call that need not wait: it is as fast as ever."""

        def is_fast() -> bool:
            began = time.monotonic()
            self._case.do(handle)
            return time.monotonic() - began < 0.25

        until(is_fast, 20, what=f"calls on {handle} are fast")

    def _left(self, name: str) -> list[str]:
        left = self._work.left(self._direct, name, self._case.count)
        for client in self._work.clients:
            left += [f"{each} waits" for each in client._core.presence.waiting()]
        for each in self._direct:
            left += [f"{key} in Redis" for key in each.keys(f"pyredisson_waiting:*{name}*")]
            left += [f"{channel} is heard" for channel in each.pubsub_channels(f"*{name}*")]
        return left

    def _check(self) -> None:
        gc.collect()
        for name in self._unchecked:
            deadline = time.monotonic() + 20
            while left := self._left(name):
                if time.monotonic() > deadline:
                    where = [at for each, at in self._unchecked.items() if re.search(rf"{each}\b", str(left))]
                    raise AssertionError(f"{left} left after an interruption at {where}")
                time.sleep(0.002)
        self._unchecked.clear()


def subscribe(url: str, client: pyredisson.Redisson, name: str) -> None:
    """Let a client wait for a first time: from then on it has a connection on which it hears messages."""
    other = Holder([url], kind("lock"))
    try:
        with other.holding(name, client._core.presence.waiting):
            block(client.get_lock(name))
    finally:
        other.close()


@pytest.mark.volume
@pytest.mark.filterwarnings("ignore:.* was never entered:ResourceWarning")  # If it is interrupted just before that.
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning")  # The same, collected later.
@pytest.mark.parametrize("granted", [True, False], ids=["granted", "timed out"])
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_left_of_an_interrupted_wait(
    servers: list[redis.Redis], unique_name: str, volume: Volume, name: str, granted: bool
) -> None:
    case = CASES[name]
    direct = servers[1:] if name == "red" else servers[:1]
    urls = [f"redis://127.0.0.1:{each.connection_pool.connection_kwargs['port']}" for each in direct]
    work, holder = Work(urls, case.get, unique_name), Holder(urls, case.held or case.get)
    try:
        for url, client in zip(urls, work.clients, strict=True):
            subscribe(url, client, f"{unique_name}-before")
        error = KeyboardInterrupt if granted else SoftTimeLimitExceeded
        walk = Walk(case, work, holder, direct, error)
        walk.run(granted=granted, first=1, most=volume(200, full=10_000))
    finally:
        holder.close()
        work.close()
    assert walk.points > 40
