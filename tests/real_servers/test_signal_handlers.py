"""A signal handler that uses locks works, or is refused at once, wherever it comes; and so does one that closes.

They are called at each point in turn at which CPython runs handlers, and once by a real timer.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import redis

from pyredisson import (
    ClientClosedError,
    Config,
    LockError,
    LockLostError,
    LockNotOwnedError,
    OutcomeUnknownError,
    Redisson,
)
from pyredisson._shared.owners import local
from tests.real_servers.handles import handle
from tests.real_servers.observation import busy
from tests.real_servers.signal_points import Points, other_points
from tests.servers import Server
from tests.waiting import until
from tests.worlds.threads import ThreadsWorld

pytestmark = other_points


@pytest.fixture(autouse=True)
def _undivided() -> Iterator[None]:
    """Let the thread be an owner that earlier tests have not divided: it has longer paths, and each step is a test."""
    if hasattr(local, "owner"):
        del local.owner
    yield
    assert local.owner.alive(), "what this thread holds would not be renewed"


def at_every_point(call: Callable[[], object], handler: Callable[[], object], *, stride: int = 1) -> Iterator[int]:
    """Make a call again and again, each time with the handler at the next point. Yields after each."""
    at = 1
    while True:
        points = Points(handler, at)
        raised = points.run(call)
        if raised is not None:
            raise raised
        if not points.where:
            assert at > 20, "there were no points to come in the middle of"
            return
        yield at
        at += stride


def pair(lock: Any) -> Callable[[], None]:
    """Return the call that acquires and releases it."""

    def acquire_and_release() -> None:
        lock.lock()
        lock.unlock()

    return acquire_and_release


KINDS = [
    *("lock", "fair_lock", "fenced_lock", "spin_lock", "token_lock", "read_lock", "write_lock", "multi_lock"),
    *("semaphore", "permit_expirable_semaphore"),
]


def multi_lock(client: Redisson, name: str) -> Any:
    return client.get_multi_lock(client.get_lock(name), client.get_lock(f"{name}-2"))


def use_of(client: Redisson, kind: str, name: str) -> Callable[[], None]:
    """Return the call that acquires and releases something of a kind."""
    if "semaphore" not in kind:
        return pair(multi_lock(client, name) if kind == "multi_lock" else handle(client, kind, name))
    permits = handle(client, kind, name)
    permits.try_set_permits(100)

    def acquire_and_release() -> None:
        acquired = permits.acquire()
        permits.release(*([acquired] if isinstance(acquired, str) else []))

    return acquire_and_release


@pytest.fixture
def client(valkey: Server) -> Iterator[Redisson]:
    with Redisson.from_url(valkey.url, config=Config(timeout=20)) as client:
        yield client


class Handler:
    """Uses a lock, as often as it is called. Attributes: ``outcomes``, how often it worked, or was refused."""

    def __init__(self, use: Callable[[], object]) -> None:
        self._use = use
        self.outcomes: Counter[str] = Counter()
        self.refusals: list[str] = []

    def __call__(self, *_: object) -> None:
        began = time.monotonic()
        try:
            self._use()
            self.outcomes["worked"] += 1
        except LockError as error:
            known = "signal handler" in str(error) or "not reentrant" in str(error)
            if not known or type(error) is not LockError or time.monotonic() - began > 5:
                raise
            self.outcomes["refused"] += 1
            self.refusals.append(str(error))


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", KINDS)
def test_in_the_middle_of_the_same_lock(client, direct, unique_name, kind):
    use = use_of(client, kind, unique_name)
    use()
    handler = Handler(use)
    for at in at_every_point(use, handler):
        assert "semaphore" in kind or not direct.exists(unique_name), f"left at point {at}"
    assert not busy(client)
    # It works outside of the hold alone if that is not reentrant: there are few points.
    assert handler.outcomes["worked"] > (5 if kind == "token_lock" else 20)
    assert handler.outcomes["refused"] > 20 or "semaphore" in kind
    use()
    world = ThreadsWorld()  # And nothing is in the way of other threads.
    world.actor().do(use)
    world.close()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("outer", ["write", "read"])
def test_in_the_middle_of_the_other_side(client, direct, unique_name, outer):
    sides = client.get_read_write_lock(unique_name)
    read, write = sides.read_lock(), sides.write_lock()
    mine, other = (write, read) if outer == "write" else (read, write)
    outcomes = Counter()

    def handler():
        try:
            if other.try_lock():
                other.unlock()
        except LockError as error:  # Or it is a reader that asks to write.
            outcomes[str(error)[:40]] += 1

    for at in at_every_point(pair(mine), handler):
        assert not direct.exists(unique_name), f"left at point {at}"
    assert not busy(client)


@pytest.mark.timeout(240)
def test_that_forces_the_lock_open(client, direct, unique_name):
    lock = client.get_lock(unique_name)

    def use():
        lock.lock()
        with suppress(LockNotOwnedError, LockLostError):
            lock.unlock()

    use()
    handler = Handler(lock.force_unlock)
    for at in at_every_point(use, handler):
        assert not direct.exists(unique_name), f"left at point {at}"
    assert handler.outcomes["worked"] > 20
    assert not busy(client)


def block_of(kind: str, lock: Any) -> Any:
    """Return a generator that holds it in a block, entered."""
    block = lock if kind.startswith("with_") else lock.hold

    def held() -> Iterator[None]:
        with block if block is lock else block():
            yield

    entered = held()
    next(entered)
    return entered


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    ("kind", "stride"),
    [
        *(("lock", 2), ("with_lock", 2), ("fenced_lock", 5), ("fair_lock", 5), ("read_lock", 5), ("write_lock", 5)),
        *(("with_write_lock", 5), ("multi_lock", 7), ("with_multi_lock", 7), ("semaphore", 2)),
        ("permit_expirable_semaphore", 2),
    ],
)
def test_that_leaves_a_block_in_the_middle_of_a_call_on_its_lock(client, direct, unique_name, kind, stride):
    """That call goes on, and what the block holds is released behind it."""
    word, permits = kind.removeprefix("with_"), "semaphore" in kind
    lock = multi_lock(client, unique_name) if word == "multi_lock" else handle(client, word, unique_name)
    use = use_of(client, word, unique_name)
    blocks, times = [], []

    def use_in_block() -> None:
        for _ in range(2):
            blocks.append(block_of(kind, lock))
        use()
        while blocks:
            blocks.pop().close()

    def handler() -> None:
        began = time.monotonic()
        while blocks:
            blocks.pop().close()
        times.append(time.monotonic() - began)

    def free() -> bool:
        return lock.available_permits() == 100 if permits else not direct.exists(unique_name) and not busy(client)

    for at in at_every_point(use_in_block, handler, stride=stride):
        until(free, 10, what=f"the block is released that was left at point {at}")
    assert max(times) < 5  # Of the 20 s for which it would wait for the call's turn.


@pytest.mark.timeout(240)
@pytest.mark.parametrize("kind", ["lock", "with_lock"])
@pytest.mark.parametrize("takes", [0.0, 0.1], ids=["quick", "slow"])
def test_that_leaves_a_block_in_the_middle_of_the_wait_of_its_condition(client, direct, unique_name, kind, takes):
    """It is not held again. ``takes``: longer than until the background releases it."""
    lock, condition = client.get_lock(unique_name), client.get_condition(unique_name)
    blocks = []

    def wait_in_block() -> None:
        with lock:
            blocks.append(block_of(kind, lock))
            condition.wait(0.1)
            while blocks:
                blocks.pop().close()

    def handler() -> None:
        while blocks:
            blocks.pop().close()
            time.sleep(takes)

    def free() -> bool:
        return not direct.exists(unique_name) and not busy(client)

    wait_in_block()
    for at in at_every_point(wait_in_block, handler, stride=23 if takes else 17):
        until(free, 10, what=f"the block is released that was left at point {at}")


def interrupted_once(asked: Any, method: str, handler: Callable[[], object]) -> None:
    """Let the handler run once, before the next request that this method makes of a client, or its runtime."""
    ask = getattr(asked, method)

    async def interrupted(*args: Any, **options: Any) -> Any:
        setattr(asked, method, ask)
        handler()
        return await ask(*args, **options)

    setattr(asked, method, interrupted)


@pytest.mark.parametrize("kind", ["lock", "with_lock", "multi_lock", "with_multi_lock"])
@pytest.mark.parametrize("how", ["forced", "expired"])
def test_that_leaves_a_block_that_is_lost_learns_of_it(client, unique_name, kind, how):
    word = kind.removeprefix("with_")
    lock, learned = multi_lock(client, unique_name) if word == "multi_lock" else client.get_lock(unique_name), []

    def held() -> Iterator[None]:
        if kind.startswith("with_") and how == "forced":
            with lock:
                yield
        else:
            with lock.hold(lease_time=0.5 if how == "expired" else None):
                yield

    def handler() -> None:
        if how == "forced":
            ThreadsWorld().actor().do(lock.force_unlock)
        else:
            time.sleep(0.6)
        try:
            next(entered, None)
        except LockError as error:
            learned.append(type(error))

    entered = held()
    next(entered)
    interrupted_once(client._core, "exchange", handler)
    with suppress(LockLostError):
        lock.lock(9)
    assert learned == [LockLostError]
    with suppress(LockLostError, LockNotOwnedError):
        lock.unlock()
    until(lambda: not busy(client), what="what was left is forgotten")


@pytest.mark.parametrize("kind", ["lock", "multi_lock"])
def test_that_leaves_a_block_before_its_client_is_closed(client, direct, unique_name, kind):
    """As at a SIGTERM: the handler leaves the block, and the program ends."""
    lock = multi_lock(client, unique_name) if kind == "multi_lock" else client.get_lock(unique_name)
    entered = block_of(kind, lock)
    lock.lock()
    asked = (client._core.runtime, "fan_out") if kind == "multi_lock" else (client._core, "exchange")
    interrupted_once(*asked, lambda: next(entered, None))
    lock.unlock()
    client.close()
    assert not direct.exists(unique_name)


def test_that_leaves_the_block_of_a_multi_lock_that_is_being_extended(client, unique_name):
    lock = multi_lock(client, unique_name)
    entered = block_of("multi_lock", lock)
    interrupted_once(client._core.runtime, "fan_out", lambda: next(entered, None))
    with pytest.raises(LockLostError, match="released or force-unlocked inside its block"):
        lock.extend(60)


@pytest.mark.parametrize("kind", ["lock", "semaphore"])
def test_that_closes_the_client_and_leaves_a_block(valkey, direct, unique_name, kind):
    client = Redisson.from_url(valkey.url)
    lock = client.get_lock(unique_name) if kind == "lock" else client.get_semaphore(unique_name)
    if kind == "semaphore":
        lock.try_set_permits(5)
    entered = block_of(kind, lock)

    def handler() -> None:
        client.close()
        next(entered, None)

    interrupted_once(client._core, "exchange" if kind == "lock" else "perform", handler)
    acquired = 0
    with suppress(ClientClosedError, OutcomeUnknownError, redis.exceptions.ConnectionError):
        if kind == "lock":
            lock.lock()
        else:
            lock.acquire()
        acquired = 1  # Its request was on its way, and it is left to its lease.

    def left() -> int:
        """Return what the server counts: the holds, or the permits that are held."""
        if kind == "semaphore":
            return 5 - int(direct.get(unique_name))
        return sum(map(int, direct.hvals(unique_name)))

    until(lambda: left() == acquired, 10, what="the block is released")


@pytest.mark.volume
@pytest.mark.timeout(240)
@pytest.mark.parametrize("waits", [False, True], ids=["free", "waits"])
def test_that_closes_the_client(valkey, direct, unique_name, waits, volume):
    stride = volume(3, full=1)
    world = ThreadsWorld()
    held = world.from_url(valkey.url).get_lock(unique_name)
    if waits:
        world.actor().do(held.lock)
    at, over = 1, False
    while not over:
        client = Redisson.from_url(valkey.url)
        lock = client.get_lock(unique_name)
        with suppress(LockLostError):
            lock.is_locked()
        took = []

        def close(client=client, took=took):
            began = time.monotonic()
            client.close()
            took.append(time.monotonic() - began)

        def use(lock=lock):
            with suppress(ClientClosedError, redis.exceptions.ConnectionError):
                if lock.try_lock(0.002 if waits else 0):
                    lock.unlock()

        assert Points(close, at).run(use) is None
        over = not took
        assert not took or took[0] < 1.5, f"at point {at}"
        client.close()
        direct.delete(*([] if waits else [unique_name]) or ["nothing"])
        at += stride
    assert at > 50
    world.close()


@pytest.mark.timeout(120)
def test_a_storm_of_real_signals(client, direct, unique_name):
    assert threading.current_thread() is threading.main_thread()
    mine, another = client.get_lock(unique_name), client.get_lock(f"{unique_name}-2")
    with_mine, with_another = Handler(pair(mine)), Handler(pair(another))
    inside = []

    def handle(*_):
        if not inside:  # Else a late signal came in the middle of the one before.
            inside.append(None)
            with_mine()
            with_another()
            inside.clear()

    before = signal.signal(signal.SIGALRM, handle)
    try:
        over = time.monotonic() + 20
        while time.monotonic() < over and sum(with_mine.outcomes.values()) < 300:
            signal.setitimer(signal.ITIMER_REAL, 0.0002 + (time.monotonic_ns() % 997) / 1e6)
            pair(mine)()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert with_mine.outcomes["refused"] > 20
    assert with_another.outcomes["worked"] > 20
    assert with_another.refusals == []
    until(lambda: not direct.exists(unique_name) and not busy(client), what="nothing is left")
