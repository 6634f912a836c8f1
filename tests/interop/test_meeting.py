"""What one side does to a lock, and what the other one sees of it: in either direction."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
import redis

from pyredisson import LockLostError
from tests.interop.building import OLD, VERSIONS
from tests.interop.clients import Handle, JavaSide, Side, not_owned
from tests.interop.conftest import Sides
from tests.interop.peer import WITHIN, Jvm
from tests.interop.supported_kinds import LOCK_CASES, LOCKS, OTHERS
from tests.interop.waiters import until_it_waits
from tests.real.lock_process import Peer
from tests.servers import Server
from tests.waiting import until

LANGUAGES = ("java", "python")


@pytest.fixture(params=LANGUAGES)
def first(request: pytest.FixtureRequest) -> str:
    """Who comes first; the other one is of the other language."""
    language: str = request.param
    return language


def cases(*kinds: str) -> list[tuple[str, str]]:
    return [(version, kind) for kind in kinds for version in {**LOCKS, **OTHERS}[kind]]


@contextlib.contextmanager
def refused() -> Iterator[None]:
    """Whatever is done here is refused, since the caller does not hold the lock."""
    with pytest.raises(Exception) as refusal:
        yield
    assert not_owned(refusal.value), refusal.value


@pytest.mark.parametrize(("version", "kind"), LOCK_CASES)
def test_holds_are_counted(
    open_sides: Callable[..., Sides], version: str, kind: str, first: str, unique_name: str, direct: redis.Redis
) -> None:
    one, other = open_sides(version).both(first)
    holder = one.owner()
    mine, theirs = holder.get(kind, unique_name), other.owner().get(kind.replace("read", "write"), unique_name)
    times = 1 if kind.startswith("non_reentrant") else 3
    for _ in range(times):
        assert mine.try_lock()
    field = holder.field + (":write" if kind == "write_lock" else "")
    assert direct.hget(unique_name, field) == str(times)
    assert mine.get_hold_count() == times
    for left in range(times - 1, -1, -1):
        assert not theirs.try_lock()
        with refused():
            theirs.unlock()
        mine.unlock()
        assert mine.get_hold_count() == left
    assert theirs.try_lock()
    assert not mine.try_lock()
    theirs.unlock()


@pytest.mark.parametrize(("version", "kind"), cases("lock", "fair_lock", "spin_lock", "fenced_lock", "write_lock"))
def test_forced_open(
    open_sides: Callable[..., Sides], version: str, kind: str, first: str, unique_name: str, direct: redis.Redis
) -> None:
    one, other = open_sides(version).both(first)
    mine, theirs = one.owner().get(kind, unique_name), other.owner().get(kind, unique_name)
    waiting = other.owner().get(kind, unique_name)
    mine.lock()
    waits = waiting.start("lock")
    if kind != "spin_lock":
        until_it_waits(direct, waiting)
    assert not waits.done()
    assert theirs.force_unlock() is True
    waits.result(10)
    if not (kind == "fair_lock" and first == "java"):  # There it is refused only because another has it.
        with refused():
            mine.unlock()
    waiting.unlock()
    assert theirs.force_unlock() is False


# A fair waiter of Redisson before 3.45 may look a moment too early, and then waits for a message.
@pytest.mark.parametrize(
    ("version", "kind", "first"),
    [
        (*case, language)
        for case in LOCK_CASES
        for language in LANGUAGES
        if (*case, language) != (OLD, "fair_lock", "python")
    ],
)
def test_a_lease_that_runs_out(
    open_sides: Callable[..., Sides], version: str, kind: str, first: str, unique_name: str
) -> None:
    """Nobody says anything then: who waits knows when to look again."""
    one, other = open_sides(version).both(first)
    mine, theirs = one.owner().get(kind, unique_name), other.owner().get(kind.replace("read", "write"), unique_name)
    began = time.monotonic()
    mine.lock(0.3)
    theirs.lock()
    assert 0.29 < time.monotonic() - began < 8
    with refused():
        mine.unlock()
    theirs.unlock()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_watchdog_of_one_side_keeps_the_other_out(
    open_sides: Callable[..., Sides], version: str, first: str, unique_name: str
) -> None:
    """All kinds at once: it takes longer than a lease, and that has to outlast whatever a machine is busy with."""
    sides = open_sides(version)
    clients = {"java": sides.java(watchdog_ms=3000), "python": sides.python(lock_watchdog_timeout=3.0)}
    holder, other = clients.pop(first).owner(), clients.popitem()[1]
    names = {kind: f"{unique_name}-{kind}" for kind in ("lock", "fair_lock", "read_lock", "write_lock")}
    mine = {kind: holder.get(kind, name) for kind, name in names.items()}
    theirs = {kind: other.owner().get(kind.replace("read", "write"), name) for kind, name in names.items()}
    for kind in names:
        mine[kind].lock()
    waiting = {kind: each.start("try_lock", 4.5) for kind, each in theirs.items()}  # One and a half.
    assert {kind: each.result(WITHIN) for kind, each in waiting.items()} == dict.fromkeys(names, False)
    for kind in names:
        mine[kind].unlock()
        assert theirs[kind].try_lock(5), kind
        theirs[kind].unlock()


@pytest.mark.parametrize("version", VERSIONS)
def test_java_is_killed_while_it_holds(
    open_sides: Callable[..., Sides], own_jvm: Callable[..., Jvm], version: str, unique_name: str, valkey: Server
) -> None:
    """All kinds at once: what a watchdog kept ends within its time, and a permit when its lease is over."""
    java = JavaSide(own_jvm(version), valkey.url, watchdog_ms=3000)
    holder, python = java.owner(), open_sides(version).python()
    kinds = [kind for kind, has in LOCKS.items() if version in has]
    for kind in kinds:
        holder.get(kind, f"{unique_name}-{kind}").lock()
    permits = f"{unique_name}-permits"
    if version in OTHERS["permit_expirable_semaphore"]:
        semaphore = holder.get("permit_expirable_semaphore", permits)
        assert semaphore.try_set_permits(1)
    waiting = {}
    for kind in kinds:
        mine = python.owner().get(kind.replace("read", "write"), f"{unique_name}-{kind}")
        waiting[mine] = mine.start("lock")
    if version in OTHERS["permit_expirable_semaphore"]:
        semaphore.acquire(3)
        mine = python.owner().get("permit_expirable_semaphore", permits)
        waiting[mine] = mine.start("acquire")
    assert not any(waits.done() for waits in waiting.values())
    before = time.monotonic()
    java.clients[0].jvm.kill()
    for waits in waiting.values():
        waits.result(10)
    assert time.monotonic() - before < 8
    for mine in waiting:
        if mine.kind != "permit_expirable_semaphore":
            mine.unlock()


@pytest.mark.parametrize("version", VERSIONS)
def test_python_is_killed_while_it_holds(
    open_sides: Callable[..., Sides], version: str, unique_name: str, valkey: Server
) -> None:
    """All kinds at once: what a watchdog kept ends within its time."""
    java = open_sides(version).java()
    names = {kind: f"{unique_name}-{kind}" for kind in ("lock", "fair_lock", "write_lock")}
    if version == OLD:
        # A fair waiter of Redisson before 3.45 believes in the time that was left when it came, and then waits to be
        # told.
        del names["fair_lock"]
    mine = {kind: java.owner().get(kind, name) for kind, name in names.items()}
    with contextlib.ExitStack() as peers:
        holders = [
            peers.enter_context(Peer("threads", valkey.url, name, kind, lock_watchdog_timeout=1.5))
            for kind, name in names.items()
        ]
        for peer in holders:
            peer.do("lock")
        waiting = [each.start("lock") for each in mine.values()]
        before = time.monotonic()
        for peer in holders:
            peer.kill()
        for waits in waiting:
            waits.result(10)
        assert time.monotonic() - before < 8
    for each in mine.values():
        each.unlock()


def test_python_is_killed_while_it_waits_its_turn(sides: Sides, unique_name: str, valkey: Server) -> None:
    """Its place in the queue costs those behind it no more than the patience that it came with."""
    holder, behind = sides.java().owner().get("fair_lock", unique_name), sides.python().owner()
    with Peer("threads", valkey.url, unique_name, "fair_lock", fair_lock_wait_timeout=1.0) as peer:
        holder.lock(30)  # In Redisson, what it has to wait for counts as well.
        peer.send("lock")
        queue = f"redisson_lock_queue:{{{unique_name}}}"
        with valkey.client() as direct:
            until(lambda: direct.llen(queue) == 1, what="it stands in the queue")
            waits = behind.get("fair_lock", unique_name).start("lock")
            until(lambda: direct.llen(queue) == 2, what="the next one, too")
        peer.kill()
        killed = time.monotonic()
        holder.force_unlock()
        waits.result(20)
        assert time.monotonic() - killed < 8, "what was left of the lease did not count"


@pytest.mark.parametrize("version", LOCKS["fair_lock"])
def test_fair_to_both(
    open_sides: Callable[..., Sides], version: str, first: str, unique_name: str, direct: redis.Redis
) -> None:
    """Whoever comes first is first, whatever language they speak; those who leave are left out."""
    one, other = open_sides(version).both(first)
    holder = one.owner().get("fair_lock", unique_name)
    queue = f"redisson_lock_queue:{{{unique_name}}}"
    holder.lock()
    waiting: list[tuple[Handle, Future[Any]]] = []
    owners = [side.owner() for side in (one, other, other, one, other, one, one, other)]
    for place, owner in enumerate(owners):
        handle = owner.get("fair_lock", unique_name)
        waits = handle.start("lock") if place != 3 else handle.start("try_lock", 2, 30)
        until(lambda: direct.llen(queue) > place, what="it stands in the queue")  # noqa: B023
        waiting.append((handle, waits))
    assert direct.lrange(queue, 0, -1) == [owner.field for owner in owners]
    left = waiting.pop(3)[1]
    assert left.result(10) is False
    assert direct.lrange(queue, 0, -1) == [owner.field for owner in owners if owner is not owners[3]]
    now = holder
    for handle, waits in waiting:
        now.unlock()
        waits.result(10)
        assert handle.is_held_by_current_thread() is True
        assert sum(each.done() for _, each in waiting) == 1 + waiting.index((handle, waits))
        now = handle
    now.unlock()


@pytest.mark.parametrize("version", LOCKS["fenced_lock"])
def test_tokens_grow(open_sides: Callable[..., Sides], version: str, unique_name: str) -> None:
    """A guard that has seen the token of one language refuses an older one of the other."""
    sides = open_sides(version)
    handles = [side.owner().get("fenced_lock", unique_name) for side in (sides.java(), sides.python()) * 2]
    tokens = []
    for turn in range(12):
        handle, other = handles[turn % 4], handles[(turn + 1) % 4]
        tokens.append(handle.lock_and_get_token())
        assert handle.get_token() == tokens[-1]
        assert handle.try_lock_and_get_token(0.2, 60) is not None  # It joins in Python, and draws another in Java.
        # In each language it waits once: for less, Java may say that it could not listen in time.
        assert other.try_lock_and_get_token(1.5 if turn < 2 else 0, 60) is None
        handle.unlock()
        handle.unlock()
    assert tokens == sorted(set(tokens))


@pytest.mark.parametrize("version", OTHERS["permit_expirable_semaphore"])
def test_permits_of_the_other(
    open_sides: Callable[..., Sides], version: str, first: str, unique_name: str, direct: redis.Redis
) -> None:
    """Permits are told by their ids, so anybody can give them back, and knows when they expire."""
    one, other = open_sides(version).both(first)
    mine, theirs = (side.owner().get("permit_expirable_semaphore", unique_name) for side in (one, other))
    assert mine.try_set_permits(3)
    assert theirs.try_set_permits(5) is False
    for_ever, long, another = mine.acquire(), mine.acquire(60), mine.acquire(60)
    assert theirs.try_acquire() is None
    assert theirs.acquired_permits() == 3
    assert theirs.try_release(another) is True
    short = mine.acquire(0.3)
    permit = theirs.acquire()  # Nobody says that the short one is over; it knows when.
    assert mine.try_release(short) is False
    assert theirs.try_release(for_ever) is True
    assert theirs.try_release(for_ever) is False
    assert theirs.update_lease_time(long, 300) is True
    score = direct.zscore(f"{{{unique_name}}}:timeout", bytes.fromhex(long))
    assert 250 < float(str(score)) / 1000 - time.time() <= 300
    theirs.release(long)
    with refused():
        theirs.release(long)
    mine.release(permit)
    assert (mine.available_permits(), theirs.available_permits(), theirs.get_permits()) == (3, 3, 3)


@pytest.mark.parametrize("version", OTHERS["semaphore"])
def test_permits_without_an_owner(open_sides: Callable[..., Sides], version: str, first: str, unique_name: str) -> None:
    one, other = open_sides(version).both(first)
    mine, theirs = (side.owner().get("semaphore", unique_name) for side in (one, other))
    assert mine.try_set_permits(3)
    assert mine.try_acquire(2)
    assert theirs.available_permits() == 1
    wants_two = theirs.start("acquire", 2)
    theirs_too = other.owner().get("semaphore", unique_name)
    assert theirs_too.try_acquire(1, 0.02)
    assert not mine.try_acquire(1, 0.02)
    mine.release(2)
    wants_two.result(10)
    assert theirs.available_permits() == 0
    mine.release(3)  # Whoever took them.
    assert theirs_too.drain_permits() == 3
    mine.add_permits(2)
    assert theirs.try_acquire(2)


@pytest.mark.parametrize("version", OTHERS["count_down_latch"])
def test_a_latch_for_both(open_sides: Callable[..., Sides], version: str, first: str, unique_name: str) -> None:
    one, other = open_sides(version).both(first)
    mine, theirs = (side.owner().get("count_down_latch", unique_name) for side in (one, other))
    for _ in range(2):
        assert mine.try_set_count(2)
        assert not theirs.try_set_count(5)
        waiting = [side.owner().get("count_down_latch", unique_name).start("wait") for side in (one, other)]
        assert theirs.wait(0.02) is False
        mine.count_down()
        assert theirs.get_count() == 1
        assert not any(each.done() for each in waiting)
        theirs.count_down()
        for each in waiting:
            each.result(10)
        assert theirs.wait(0) is True


def test_kinds_of_one_layout_exclude_each_other(sides: Sides, first: str, unique_name: str) -> None:
    """Lock, fair, spin and fenced lock of one name are one lock, between the languages, too."""
    one, other = sides.both(first)
    kinds = [kind for kind in ("lock", "fair_lock", "spin_lock", "fenced_lock") if sides.version in LOCKS[kind]]
    mine, theirs = one.owner(), other.owner()
    for kind in kinds:
        mine.get(kind, unique_name).lock()
        for another in kinds:
            assert not theirs.get(another, unique_name).try_lock()
        mine.get(kind, unique_name).unlock()


@pytest.mark.parametrize("name", ["{shop}orders", "orders{1}", "größe", "a b\tc", "日本"])
def test_names(sides: Sides, first: str, name: str, unique_name: str, direct: redis.Redis) -> None:
    """Both derive the same keys and channels from any name."""
    name = f"{name}{unique_name}"
    one, other = sides.both(first)

    def meet(kind: str, side: Side, another: Side) -> None:
        mine, theirs = side.owner().get(kind, f"{name}-{kind}"), another.owner().get(kind, f"{name}-{kind}")
        mine.lock()
        assert theirs.is_locked()
        waits = theirs.start("lock")
        until_it_waits(direct, theirs)
        mine.unlock()
        waits.result(10)
        theirs.unlock()

    for kind in ("lock", "fair_lock", "write_lock"):
        meet(kind, one, other)


def test_a_lock_that_java_forces_open_is_reported_as_lost(sides: Sides, unique_name: str) -> None:
    """What Java forces open, ours says at the latest when it gives it back."""
    java, python = sides.java(), sides.python()
    mine = python.owner().get("lock", unique_name)
    mine.lock()
    assert java.owner().get("lock", unique_name).force_unlock() is True
    with pytest.raises(LockLostError):
        mine.unlock()
