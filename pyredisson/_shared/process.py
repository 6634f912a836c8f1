"""This process: whether it is the child of a fork, or was patched too late; and the clock that leases are measured by.

uWSGI, and other programs that embed Python, fork with ``fork(2)`` and tell the interpreter nothing: functions given to
``os.register_at_fork`` are not called, and a worker would go on as the same client as its parent, on the same sockets.
So the process id is compared wherever a client is used; that costs about 50 ns.
"""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
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


def check_forked() -> None:
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

# ---- patching --------------------------------------------------------------------------------------------------------
# Refuse a monkey patch by gevent or eventlet that is too late, or leaves threads alone.
#
# Owners are distinguished by ``threading.local``, and waiters sleep on ``threading.Lock``. Patched before this library
# is imported, both know greenlets, and a greenlet is an owner like a thread. Patched later, all greenlets of a thread
# would be one owner, any number of them inside a lock at once, and what was made before would block them all.


_local = threading.local

#: What was there when it was last looked at whether all is well.
_checked: type[socket.socket] | None = None

_WHAT_TO_DO = (
    "Call gevent.monkey.patch_all() (or eventlet.monkey_patch()) before anything else is imported, threads included; "
    "with gunicorn --preload that is at the top of gunicorn.conf.py"
)


def check_patched() -> None:
    """See that greenlets, if there are any, can be distinguished.

    Raises:
        RuntimeError: gevent or eventlet has patched ``threading`` after this library was imported, or has patched
            ``socket`` without ``threading``.
    """
    # Where all is well this is all there is to do; it is called wherever an owner is looked up.
    if socket.socket is _checked and threading.local is _local:
        return
    _look()


def is_patched() -> bool:
    """Whether threads are greenlets in this process."""
    return _patcher(_local) is not None


def _look() -> None:
    global _checked
    if threading.local is not _local:
        raise RuntimeError(
            f"{_patcher(threading.local) or 'another library'} patched threading after pyredisson was imported, so "
            f"greenlets cannot be distinguished and many could hold one lock at the same time. {_WHAT_TO_DO}"
        )
    green = socket.socket
    if _patcher(green) is not None and not is_patched():
        raise RuntimeError(
            f"{_patcher(green)} patched socket, but not threading, so greenlets cannot be distinguished and many could "
            f"hold one lock at the same time. {_WHAT_TO_DO}"
        )
    _checked = green


def _patcher(of: type) -> str | None:
    """Return the library that a class is of, if that is one of greenlets."""
    package = of.__module__.partition(".")[0]
    return package if package in ("gevent", "eventlet") else None


# ---- clock -----------------------------------------------------------------------------------------------------------


def _clock_that_counts_sleep() -> Callable[[], float]:
    if hasattr(time, "CLOCK_BOOTTIME"):
        return partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":  # There it counts sleep, and ``time.monotonic()`` does not.
        return partial(time.clock_gettime, time.CLOCK_MONOTONIC)
    return time.monotonic


#: Monotonic seconds that go on while the machine sleeps, where the system has such a clock: leases go on too.
monotonic: Callable[[], float] = _clock_that_counts_sleep()
