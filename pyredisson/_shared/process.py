"""Notice that this process is the child of a fork, also where CPython does not run its after-fork hooks.

uWSGI, and other programs that embed Python, fork with ``fork(2)`` and tell the interpreter nothing: functions given to
``os.register_at_fork`` are not called, and a worker would go on as the same client as its parent, on the same sockets.
So the process id is compared wherever a client is used; that costs about 50 ns.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T", bound=Callable[[], object])

_log = logging.getLogger("pyredisson")

_callbacks: list[Callable[[], object]] = []

#: The process whose callbacks have run, and the one whose callbacks have begun to run.
pid: int = os.getpid()
_begun = pid

#: One for each process, since a lock that is inherited may be held by a thread that is not here.
_mutexes: dict[int, threading.RLock] = {}


def origin() -> tuple[int, str, str]:
    """Return the process id, and what differs in a restored copy of this process: the machine's start, and its own.

    The two are empty where the system does not say them. In a copy of the whole machine, they are the same.
    """
    try:
        with open("/proc/sys/kernel/random/boot_id") as boot, open("/proc/self/stat") as stat:
            return os.getpid(), boot.read(), stat.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return os.getpid(), "", ""


def is_posix() -> bool:
    """Return whether this system has forks, process groups and their signals; Windows has not."""
    return hasattr(os, "fork") and hasattr(os, "killpg")


def on_fork(callback: T) -> T:
    """Call ``callback`` once in each child of a fork, before anything of this library is used there. A decorator."""
    _callbacks.append(callback)
    return callback


def check() -> None:
    """Run the callbacks of :func:`on_fork` if this process is a new one and they have not run in it."""
    if os.getpid() != pid:
        _run_callbacks()


def _run_callbacks() -> None:
    global _begun, pid
    here = os.getpid()
    with _mutexes.setdefault(here, threading.RLock()):  # Other threads of the child wait here until it is done.
        if _begun == here:
            return  # Done, or called by one of the callbacks.
        before, _begun = _begun, here
        try:
            for callback in tuple(_callbacks):
                try:
                    callback()
                except Exception:
                    _log.exception("pyredisson: %r failed in the child of a fork", callback)
        except BaseException:
            _begun = before  # Interrupted: the next check does it again.
            raise
        pid = here
        for each in list(_mutexes):
            if each != here:
                del _mutexes[each]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_run_callbacks)
