"""Let go of what the child of a fork has inherited: sockets, and the threads that greenlets run in.

Nothing is sent: the connections are the parent's.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterable

__all__ = ["close_inherited", "end_inherited", "end_inherited_thread"]


def close_inherited(sock: socket.socket) -> None:
    """Close this process's descriptor of a socket that nobody uses here. A farewell over TLS would reach the server."""
    with contextlib.suppress(OSError):
        socket.close(sock.detach())


def end_inherited(socks: Iterable[socket.socket]) -> None:
    """Let whoever still uses these sockets here find them at their end, without a word to the server.

    A descriptor that a greenlet waits for must not be closed under it, since the number could be used for something
    else: another file is put in its place, one that can be read at once and at whose end it is.
    """
    descriptors = [sock.fileno() for sock in socks]
    if not any(descriptor >= 0 for descriptor in descriptors):
        return
    end, other = os.pipe()
    os.close(other)
    try:
        for descriptor in descriptors:
            if descriptor >= 0:
                with contextlib.suppress(OSError):
                    os.dup2(end, descriptor, inheritable=False)
    finally:
        os.close(end)


def end_inherited_thread(thread: threading.Thread) -> None:
    """Let the calling greenlet, which is this thread, end quietly if it is the copy of one of the parent's.

    ``threading`` forgets all threads but one in the child of a fork. One that goes on, as a greenlet does, fails at its
    end with a ``KeyError`` that is printed.
    """
    threads: dict[int, threading.Thread] = getattr(threading, "_active", {})
    threads.setdefault(threading.get_ident(), thread)
