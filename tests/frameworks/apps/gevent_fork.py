"""Forks of a patched process whose client is in full use: greenlets of the parent live on in the child.

One holds a lock that is renewed, one waits for a lock that somebody else holds, one does both at a great pace.
"""

from __future__ import annotations

from gevent import monkey  # isort: skip

monkey.patch_all()

import gc
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable

import gevent
import redis

import pyredisson
from pyredisson._threads.sockets import Connection
from tests.frameworks.apps.shared import NAME, URL, CriticalSection, note

server = redis.Redis.from_url(URL)
client = pyredisson.Redisson.from_url(URL, config=pyredisson.Config(lock_watchdog_timeout=1.8))
mine, theirs, busy = (client.get_lock(f"{NAME}-{name}") for name in ("mine", "theirs", "busy"))
parent = os.getpid()
waited: list[object] = []
stop = threading.Event()
parent_id = client.id.encode()
exchange = Connection.exchange


def watched_exchange(self: Connection, data: bytes | None, timeout: float) -> object:
    """Exchange a request, and note one that a child makes as its parent."""
    if os.getpid() != parent and data is not None and b"EVAL" in data and parent_id in data:
        note(f"child as its parent: {data!r}\n{''.join(traceback.format_stack())}")
    return exchange(self, data, timeout)


Connection.exchange = watched_exchange


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for a condition, with a bound."""
    over = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < over, f"pid {os.getpid()}: not {what} in time"
        gevent.sleep(0.005)


def renewed(key: str) -> bool:
    """Whether its time to live has grown within a moment."""
    before = server.pttl(key)
    gevent.sleep(0.02)
    return bool(server.pttl(key) > before)


def wait_for_theirs() -> None:
    """Wait for a lock that somebody else holds."""
    try:
        theirs.lock()
    except pyredisson.RedissonError as error:
        waited.append(type(error).__name__)
    else:
        waited.append("acquired")
        theirs.unlock()


def be_busy() -> None:
    """Take a lock at a great pace, until the process is another one."""
    while not stop.is_set() and os.getpid() == parent:
        try:
            with busy:  # No critical section: a child would inherit its flock.
                gevent.sleep(0)
        except Exception:
            if os.getpid() == parent:
                note(f"busy: {traceback.format_exc()}")


def background() -> list[gevent.Greenlet]:
    """The greenlets of this library that have not ended."""
    greenlets = [each for each in gc.get_objects() if isinstance(each, gevent.Greenlet) and not each.dead]
    return [each for each in greenlets if "pyredisson-" in str(each)]


def in_child(before: str, inherited: list[gevent.Greenlet]) -> None:
    """See that the child is another client, which works and has none of its parent's greenlets."""
    assert client.id != before
    until(lambda: waited, "the parent's waiter is told")
    assert waited == ["ClientClosedError"], waited
    until(lambda: all(each.dead for each in inherited), "the parent's greenlets have ended")
    assert not mine.is_held_by_current_thread()
    own = client.get_lock(f"{NAME}-own-{os.getpid()}")
    with own:
        until(lambda: renewed(own.name), "the child renews its own")
        waiter = gevent.spawn(lambda: own.try_lock(20) and own.unlock())
        until(lambda: "1 waiting here" in repr(own), "somebody waits in the child")
    waiter.join(5)
    assert waiter.successful()
    for _ in range(20):
        with busy, CriticalSection():
            gevent.sleep(0)


server.hset(theirs.name, "somebody:1", 1)
server.pexpire(theirs.name, 120_000)
mine.lock()
gevent.spawn(wait_for_theirs)
busy_ones = [gevent.spawn(be_busy) for _ in range(3)]
until(lambda: "1 waiting here" in repr(theirs), "somebody waits")

children = []
for _ in range(4):
    # Its subscriber and its watchdog; a connection that is being made is not waited for by any call, and ends.
    until(lambda: len(background()) == 2, "the only greenlets of the parent")
    before, inherited = client.id, background()
    child = os.fork()
    if child == 0:
        try:
            in_child(before, inherited)
            client.close()
        except BaseException:
            note(f"child: {traceback.format_exc()}")
            os._exit(1)
        os._exit(0)
    children.append(child)
    gevent.sleep(0.02)
statuses = [os.waitpid(child, 0)[1] for child in children]
assert statuses == [0] * len(children), statuses
assert mine.get_hold_count() == 1
until(lambda: renewed(mine.name), "the parent goes on to renew")
assert waited == []
stop.set()
server.delete(theirs.name)
heard = server.publish(f"redisson_lock__channel:{{{theirs.name}}}", "0")
assert heard == 1, "only the parent's subscriber is there"
began = time.monotonic()
until(lambda: waited, "the waiter has it")
assert waited == ["acquired"], waited
assert time.monotonic() - began < 5, "it heard the message"
mine.unlock()
until(lambda: all(each.dead for each in busy_ones), "all have stopped")
client.close()
sys.exit(0)
