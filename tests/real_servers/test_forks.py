"""Clients in the child of a fork, whether or not Python was told of the fork, and whatever threads were doing then."""

from __future__ import annotations

import _thread
import gc
import logging
import os
import signal
import textwrap
import threading
import traceback
import types
from pathlib import Path
from typing import Any

import pytest

import pyredisson
import pyredisson.asyncio
from tests.command_line import run_python
from tests.servers import Server
from tests.waiting import until

ROOT = Path(__file__).parents[2]


def locks_behind(client: Any) -> dict[int, object]:
    """The locks that a client can reach, by their ids; not those of redis-py, of logging, or of modules."""
    found: dict[int, object] = {}
    seen: set[int] = set()
    todo: list[object] = [client._core, client._runtime]
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, (_thread.LockType, _thread.RLock)):
            found[id(each)] = each
        skipped = (types.ModuleType, type, types.FrameType, logging.Logger, threading.Thread)
        if isinstance(each, skipped) or type(each).__module__.partition(".")[0] in ("redis", "threading"):
            continue
        if isinstance(each, types.FunctionType):
            todo += [cell.cell_contents for cell in each.__closure__ or ()]
            continue
        todo += gc.get_referents(each)
    return found


@pytest.mark.filterwarnings("ignore:Exception ignored")
def test_the_child_uses_no_lock_of_its_parents(valkey, unique_name):
    """A thread of the parent may have held it at the moment of the fork, and nobody would ever release it."""
    client = pyredisson.Redisson.from_url(valkey.url)
    lock = client.get_lock(unique_name)
    with lock:
        threads = [threading.Thread(target=lambda: lock.try_lock(20) and lock.unlock()) for _ in range(2)]
        for thread in threads:
            thread.start()
        while "2 waiting here" not in repr(lock):
            pass
        before = locks_behind(client)
    for thread in threads:
        thread.join()
    assert len(before) > 5, "or else this test shows nothing"
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            shared = [repr(before[each]) for each in locks_behind(client).keys() & before.keys()]
            for each in before.values():
                each.acquire(blocking=False)  # As a thread of the parent's might have.
            with lock:
                assert client.get_lock(unique_name).is_locked()
            client.close()
            os.write(write, repr(shared).encode())
        except BaseException:
            os.write(write, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(write)
    try:
        until(lambda: os.waitpid(child, os.WNOHANG)[0], within=20.0, what="the child has ended")
    except AssertionError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    with os.fdopen(read) as said:
        assert said.read() == "[]"
    client.close()


HEAD = """
    import asyncio, functools, sys, time
    import redis, pyredisson, pyredisson.asyncio
    from tests import children
    URL, NAME = sys.argv[1:]
    server = redis.Redis.from_url(URL)

    in_child = functools.partial(children.in_child, fork=children.fork_without_hooks)
"""


def run_program(valkey: Server, name: str, script: str) -> tuple[str, str]:
    """Run a program, which has to end well. Returns what it printed and what it logged."""
    code = textwrap.dedent(HEAD) + textwrap.dedent(script)
    flags = ("-W", "ignore::DeprecationWarning")
    done = run_python(code, f"{valkey.url}?client_name={name}", name, flags=flags)
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout, done.stderr


def test_a_fork_without_pythons_hooks_makes_another_client(valkey, unique_name):
    """Whichever is the first thing that the child does with it."""
    run_program(
        valkey,
        unique_name,
        """
        client = pyredisson.Redisson.from_url(URL, config=pyredisson.Config(lock_watchdog_timeout=1.8))
        lock, other = client.get_lock(NAME), client.get_lock(NAME + "-other")
        semaphore, latch = client.get_semaphore(NAME + "-semaphore"), client.get_count_down_latch(NAME + "-latch")
        semaphore.try_set_permits(1)
        parent = client.id

        def connections():
            return sorted(each["id"] for each in server.client_list() if each["name"] == NAME)

        def renewals_of(lock):
            before = lock.remain_time_to_live()
            while (after := lock.remain_time_to_live()) <= before:
                before = after
                time.sleep(0.01)

        lock.lock()
        opened = connections()

        def unlock():
            try:
                lock.unlock()
            except pyredisson.LockNotOwnedError:
                return
            raise AssertionError("the child could release its parent's lock")

        first_steps = [
            lambda: client.id,
            lambda: lock.is_locked(),
            lambda: lock.try_lock(),
            unlock,
            lambda: other.lock() or other.unlock(),
            lambda: semaphore.try_acquire() and semaphore.release(),
            lambda: latch.wait(0.1),
            lambda: client.get_lock(NAME + "-more"),
            lambda: lock.is_held_by_current_thread(),
        ]
        for step in first_steps:
            # Python's own locks are as they are at that moment: the other threads have to be at rest.
            renewals_of(lock)
            time.sleep(0.05)
            def child():
                step()
                assert client.id != parent
                assert lock.get_hold_count() == 0
                other.lock()
                renewals_of(other)
                other.unlock()
            if step in first_steps[:3]:
                in_child(child)
            else:
                in_child(lambda: (step(), client.id != parent or 1 / 0, client.close()))
            assert client.id == parent
            assert lock.get_hold_count() == 1
        in_child(lambda: client.close())
        renewals_of(lock)
        assert set(opened) <= set(connections()), "a child ended a connection of its parent's"
        lock.unlock()
        client.close()
        server.delete(NAME + "-semaphore")
        """,
    )


def test_a_fork_without_pythons_hooks_makes_another_client_of_asyncio(valkey, unique_name):
    said, _ = run_program(
        valkey,
        unique_name,
        """
        client = pyredisson.asyncio.Redisson.from_url(URL)
        lock = client.get_lock(NAME)

        async def work():
            async with lock:
                assert await lock.is_locked()
                print(server.hkeys(NAME)[0].decode().partition(":")[0])
            assert not await lock.is_locked()

        in_child(lambda: asyncio.run(work()))
        asyncio.run(work())
        for _ in range(2):
            in_child(lambda: asyncio.run(work()))
        in_child(lambda: asyncio.run(client.close()))
        """,
    )
    assert len(set(said.split())) == 4, "each process is a client of its own"


LOADERS = """
import sys, threading

loaders = {}


class Noting:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith("pyredisson"):
            loaders.setdefault(name, threading.current_thread().name)


sys.meta_path.insert(0, Noting)
from pyredisson import Config, Redisson

lost, renewed = threading.Event(), threading.Event()
url, name = sys.argv[1:]
config = Config(lock_watchdog_timeout=0.6, on_lock_lost=lambda *_: lost.set(), presence_after=0.1)
with Redisson.from_url(url, config=config) as one, Redisson.from_url(url, config=config) as other:
    lock = one.get_lock(name)
    lock.lock()
    waiter = threading.Thread(target=lambda: other.get_lock(name).lock(10), name="waiter")
    waiter.start()
    while "1 waiting here" not in repr(other.get_lock(name)):
        pass
    other.get_lock(name).force_unlock()
    assert lost.wait(20)
    waiter.join(20)
print({module: thread for module, thread in loaders.items() if thread.startswith("pyredisson")})
"""


def test_no_thread_of_a_client_loads_modules(valkey, unique_name):
    """A fork in the middle of that would leave the child half a module, and a lock of importlib for ever."""
    assert run_python(LOADERS, valkey.url, unique_name).stdout == "{}\n"
