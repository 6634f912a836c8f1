"""The functions of an uncontended ``lock()`` and ``unlock()``: few, and those that the documentation names."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from functools import partial
from pathlib import Path
from types import FrameType

import pytest

import pyredisson
import pyredisson.asyncio
from pyredisson._kinds.lock import LockCore
from tests.forms import ended, made_at_once
from tests.servers import Server

LIBRARY = Path(pyredisson.__file__).parent
PAGE = LIBRARY.parent / "docs" / "contributing" / "architecture.md"

#: As many functions of the library at most; resumptions of coroutines count.
PAIR = {"threads": 16, "asyncio": 22}
WITH_A_NEW_HANDLE = 30
QUORUM_OF_FIVE = 305
MULTI_LOCK_OF_TWO = 145

#: With a listener, of a ``hold()``, and of each other kind: as many at most, and in so many files.
WITH_A_LISTENER = {"threads": (20, 10), "asyncio": (26, 9)}
HOLD = {"threads": 31, "asyncio": 40}
OTHER_KINDS = {
    "fair": lambda client: client.get_fair_lock("path-fair"),
    "spin": lambda client: client.get_spin_lock("path-spin"),
    "fenced": lambda client: client.get_fenced_lock("path-fenced"),
    "token": lambda client: client.get_token_lock("path-token"),
    "non-reentrant": lambda client: client.get_non_reentrant_lock("path-once"),
    "read": lambda client: client.get_read_write_lock("path-rw").read_lock(),
    "write": lambda client: client.get_read_write_lock("path-rw").write_lock(),
}
PERMITS = {
    "semaphore": lambda client: client.get_semaphore("path-semaphore", permits=1),
    "permits": lambda client: client.get_permit_expirable_semaphore("path-permits", permits=1),
}
OF_OTHER_KINDS = 45

#: On the general path: calls of one lock() and of one unlock(), and the number of their files.
GENERAL = {"threads": ((39, 14), (36, 13)), "asyncio": ((62, 16), (52, 13))}


#: Of so many pairs the one with the fewest calls is looked at: a busy machine may have the watchdog be woken by one.
PAIRS = 10


@contextmanager
def recorded() -> Iterator[list[str]]:
    """The functions of the library that this thread calls meanwhile, in order."""
    found: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and LIBRARY in path.parents:
            found.append(f"{path.relative_to(LIBRARY).as_posix()} {frame.f_code.co_name}")

    sys.setprofile(note)
    try:
        yield found
    finally:
        sys.setprofile(None)


def documented(form: str) -> list[str]:
    """The functions in the numbered list of the page."""
    section = PAGE.read_text(encoding="utf-8").split("## The path of a lock", 1)[1].split("\n## ", 1)[0]
    columns = re.findall(r"^\d+\. (.+)$", section.split(f"### {form}", 1)[1].split("\n### ", 1)[0], re.MULTILINE)
    return [f"{path} {name}" for line in columns for path, name in re.findall(r"`([\w/]+\.py)` `(\w+)`", line)]


def fewest(use: Callable[[], object]) -> list[str]:
    """The functions that are called in one of a few repetitions: the one with the fewest."""
    pairs = []
    for _ in range(PAIRS):
        with recorded() as found:
            use()
        pairs.append(found)
        time.sleep(0.01)
    return min(pairs, key=len)


def in_threads(
    url: str,
    use: Callable[[pyredisson.Redisson, pyredisson.Lock], object],
    config: pyredisson.Config | None = None,
) -> list[str]:
    with pyredisson.Redisson.from_url(url, config=config) as client:
        lock = client.get_lock("path")
        for _ in range(3):
            use(client, lock)
        return fewest(partial(use, client, lock))


def a_pair(client: pyredisson.Redisson, lock: pyredisson.Lock) -> None:
    lock.lock()
    lock.unlock()


def a_block(client: pyredisson.Redisson, lock: pyredisson.Lock) -> None:
    with client.get_lock(lock.name):
        pass


async def in_a_task(url: str, config: pyredisson.Config | None = None, *, hold: bool = False) -> list[str]:
    async with pyredisson.asyncio.Redisson.from_url(url, config=config) as client:
        lock = client.get_lock("path")

        async def use() -> None:
            if hold:
                async with lock.hold():
                    pass
            else:
                await lock.lock()
                await lock.unlock()

        for _ in range(3):
            await use()
        pairs = []
        for _ in range(PAIRS):
            with recorded() as found:
                await use()
            pairs.append(found)
            await asyncio.sleep(0.01)
    return min(pairs, key=len)


@pytest.fixture
def url(fresh_server: Callable[..., Server]) -> str:
    """A server of this test's own."""
    return fresh_server().url


@pytest.mark.parametrize("form", PAIR)
def test_the_page_names_each_function(url, form):
    # In a context without marks of other tests.
    found = Context().run(lambda: in_threads(url, a_pair) if form == "threads" else asyncio.run(in_a_task(url)))
    assert len(found) <= PAIR[form], found
    assert found == documented(form)


@pytest.mark.parametrize("form", WITH_A_LISTENER)
def test_a_listener_costs_a_third_at_most(url, form):
    config = pyredisson.Config(listeners=[lambda event: None])
    found = Context().run(
        lambda: in_threads(url, a_pair, config) if form == "threads" else asyncio.run(in_a_task(url, config))
    )
    most_calls, most_files = WITH_A_LISTENER[form]
    assert len(found) <= most_calls, found
    assert len({each.split()[0] for each in found}) <= most_files, found


@pytest.mark.parametrize("form", HOLD)
def test_a_hold_costs_little(url, form):
    def use(client, lock):
        with lock.hold():
            pass

    found = Context().run(lambda: in_threads(url, use) if form == "threads" else asyncio.run(in_a_task(url, hold=True)))
    assert len(found) <= HOLD[form], found


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_each_kind_costs_little(url, kind):
    def use(client, lock):
        if client not in locks:
            locks[client] = OTHER_KINDS[kind](client)
        a_pair(client, locks[client])

    locks = {}
    found = Context().run(in_threads, url, use)
    assert len(found) <= OF_OTHER_KINDS, found


@pytest.mark.parametrize("kind", PERMITS)
def test_permits_cost_little(url, kind):
    def use(client, lock):
        if client not in made:
            made[client] = PERMITS[kind](client)
        acquired = made[client].acquire()
        made[client].release(*[acquired] * (kind == "permits"))

    made = {}
    found = Context().run(in_threads, url, use)
    assert len(found) <= OF_OTHER_KINDS, found


@pytest.mark.parametrize("form", GENERAL)
def test_the_general_path_is_short(url, form, monkeypatch):
    def record():
        return in_threads(url, a_pair) if form == "threads" else asyncio.run(in_a_task(url))

    prepare = LockCore.prepare_fast_path
    monkeypatch.setattr(LockCore, "prepare_fast_path", lambda *args: prepare(*args) and False)
    found = Context().run(record)
    begins = next(at for at, each in enumerate(found) if each.endswith("/locks.py unlock"))
    for calls, (most_calls, most_files) in zip((found[:begins], found[begins:]), GENERAL[form], strict=True):
        assert len(calls) <= most_calls, calls
        assert len({each.split()[0] for each in calls}) <= most_files, calls
    if form == "threads":
        assert found == documented("The general path")


def test_a_handle_a_call_costs_little(url):
    found = Context().run(in_threads, url, a_block)
    assert len(found) <= WITH_A_NEW_HANDLE, found


@pytest.mark.parametrize("several", [False, True], ids=["lock", "multi-lock"])
@pytest.mark.parametrize("form", PAIR)
def test_the_unlock_of_a_nested_hold_takes_no_more_steps_behind_many_others(url, form, several):
    lines = []

    def note(frame: FrameType, event: str, _: object) -> object:
        if LIBRARY not in Path(frame.f_code.co_filename).parents:
            return None
        if event == "line":
            lines.append(f"{frame.f_code.co_filename}:{frame.f_lineno}")
        return note

    async def steps(lock, depth):
        """The fewest lines of the library that one of a few unlocks runs, after as many of them as stay held."""
        for _ in range(2 * depth):
            await ended(lock.lock())
        for _ in range(depth):
            await ended(lock.unlock())
        found = []
        for _ in range(5):
            lines.clear()
            before = sys.gettrace()
            sys.settrace(note)
            try:
                await ended(lock.unlock())
            finally:
                sys.settrace(before)
            found.append(list(lines))
        for _ in range(depth - 5):
            await ended(lock.unlock())
        return min(found, key=len)

    async def compare():
        client = (pyredisson if form == "threads" else pyredisson.asyncio).Redisson.from_url(url)
        try:
            lock, other = client.get_lock("path"), client.get_lock("path-other")
            used = client.get_multi_lock(lock, other) if several else lock
            return [await steps(used, depth) for depth in (20, 200)]
        finally:
            await ended(client.close())

    few, many = Context().run(made_at_once if form == "threads" else lambda call: asyncio.run(call()), compare)
    assert 0 < len(many) <= len(few) + 50, Counter(many).most_common(3)


def test_a_multi_lock_of_two_costs_little(url):
    multi: list[pyredisson.MultiLock] = []

    def use(client, lock):
        if not multi:
            multi.append(client.get_multi_lock(lock, client.get_lock("path-2")))
        a_pair(client, multi[0])

    found = Context().run(in_threads, url, use)
    assert len(found) <= MULTI_LOCK_OF_TWO, found


def test_a_pair_on_five_nodes_costs_little(fleet):
    def use():
        config = pyredisson.Config(restart_guard=False, quorum_node_timeout=3.0)
        clients = [pyredisson.Redisson.from_url(url, config=config) for url in fleet.urls()]
        lock = pyredisson.RedLock(*[client.get_lock("path") for client in clients])
        for _ in range(50):  # Each one may find that a node is nearer than was known, and notes that.
            lock.lock()
            lock.unlock()
        found = fewest(partial(a_pair, clients[0], lock))
        for client in clients:
            client.close()
        return found

    found = Context().run(use)
    assert len(found) <= QUORUM_OF_FIVE, found
