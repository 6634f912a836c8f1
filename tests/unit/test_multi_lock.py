"""What multi-locks refuse before there is any server, and how what is held of them is found."""

import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import FrameType
from typing import Any

import fakeredis
import pytest

import pyredisson
import pyredisson.asyncio
from pyredisson._quorum.hold import node_timeout

MANY = 400


def test_locks_of_the_other_form_are_refused():
    threads = pyredisson.Redisson.from_url("redis://localhost:1")
    tasks = pyredisson.asyncio.Redisson.from_url("redis://localhost:1")
    with pytest.raises(TypeError, match=r"of pyredisson takes locks of pyredisson, not a pyredisson\.asyncio\.Lock"):
        pyredisson.MultiLock(threads.get_lock("a"), tasks.get_lock("a"))
    with pytest.raises(TypeError, match=r"of pyredisson\.asyncio takes .*, not a pyredisson\.Lock"):
        pyredisson.asyncio.MultiLock(tasks.get_lock("a"), threads.get_lock("a"))


# ---- decisions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lease", "configured", "round_trip", "timeout"),
    [
        (30.0, None, 0.0, 0.05),  # A two-hundredth of the lease, within its bounds.
        (4.0, None, 0.0, 0.02),
        (0.1, None, 0.0, 0.005),
        (30.0, None, 0.001, 0.05),  # Near nodes change nothing.
        (4.0, None, 0.005, 0.02),
        (30.0, None, 0.06, 0.24),  # Several round trips to nodes that are far away.
        (4.0, None, 0.06, 0.24),
        (30.0, None, 2.0, 3.0),  # At most a tenth of the lease,
        (1.0, None, 0.06, 0.1),
        (0.01, None, 0.06, 0.005),  # but never less than for near ones.
        (30.0, 0.02, 0.06, 0.02),  # What is configured stands.
        (1.0, 5.0, 0.0, 5.0),
    ],
)
def test_what_a_node_gets_to_answer(lease, configured, round_trip, timeout):
    assert node_timeout(round(1000 * lease), configured, round_trip) == pytest.approx(timeout)


# ---- the holds of others ---------------------------------------------------------------------------------------------


@pytest.fixture
def client() -> Iterator[pyredisson.Redisson]:
    with fakeredis.FakeRedis() as server, pyredisson.Redisson(server) as client:
        yield client


@pytest.fixture
def lock(client: pyredisson.Redisson) -> Iterator[pyredisson.MultiLock]:
    """A multi-lock that another owner of its client holds, and that lives as long as the test."""
    other = client.new_owner()
    held = [client.get_lock(name, owner=other) for name in ("orders", "stock")]
    pyredisson.MultiLock(*held).lock()
    yield pyredisson.MultiLock(client.get_lock("orders"), client.get_lock("stock"))
    del other


def times_out(lock: pyredisson.MultiLock) -> None:
    with pytest.raises(pyredisson.LockTimeoutError, match=r"is held by .* of this client"), lock.hold(0):
        pytest.fail("the block was run")


def releases_what_it_does_not_hold(lock: pyredisson.MultiLock) -> None:
    with pytest.raises(pyredisson.LockNotOwnedError, match=r"held by .* of this client, and only"):
        lock.unlock()


def lines_of(work: Callable[[], object]) -> int:
    """How many lines of Python it takes."""
    lines = 0

    def look(frame: FrameType, event: str, arg: object) -> Callable[..., Any]:
        nonlocal lines
        lines += event == "line"
        return look

    tracing = sys.gettrace()
    sys.settrace(look)
    try:
        work()
    finally:
        sys.settrace(tracing)
    return lines


@pytest.mark.parametrize("work", [times_out, releases_what_it_does_not_hold])
def test_the_holds_of_one_multi_lock_are_found_without_a_look_at_the_others(lock, client, work):
    work(lock)
    few = lines_of(partial(work, lock))
    for number in range(MANY):
        assert client.get_multi_lock(client.get_lock(f"{number}"), client.get_lock(f"more {number}")).try_lock()
    assert lines_of(partial(work, lock)) < few + MANY / 4
