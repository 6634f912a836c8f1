"""Wait until sockets can be read, with whatever this process has for that."""

from __future__ import annotations

import math
import select
import socket


class Readiness:
    """Finds out which of some sockets can be read.

    Args:
        socks: The sockets.
    """

    def __init__(self, *socks: socket.socket) -> None:
        self._socks = socks
        # eventlet removes poll(). Its select() has no limit on descriptors, unlike the one of the C library.
        self._poll = select.poll() if hasattr(select, "poll") else None
        if self._poll is not None:
            for sock in socks:
                self._poll.register(sock, select.POLLIN)

    def wait(self, seconds: float) -> list[socket.socket]:
        """Wait at most ``seconds`` (may be infinite), and return the sockets that can be read or have ended."""
        if self._poll is not None:
            ready = {
                fd for fd, _ in self._poll.poll(None if seconds == math.inf else max(0, math.ceil(seconds * 1000)))
            }
            return [sock for sock in self._socks if sock.fileno() in ready]
        return select.select(self._socks, (), (), None if seconds == math.inf else max(0.0, seconds))[0]
