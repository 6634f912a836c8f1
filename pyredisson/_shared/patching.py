"""Refuse a monkey patch by gevent or eventlet that is too late, or leaves threads alone.

Owners are distinguished by ``threading.local``, and waiters sleep on ``threading.Lock``. Patched before this library is
imported, both know greenlets, and a greenlet is an owner like a thread. Patched later, all greenlets of a thread would
be one owner, any number of them inside a lock at once, and what was made before would block them all.
"""

from __future__ import annotations

import socket
import threading

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
