"""Servers that lie, for the tests of several files: the replies, and how to recognize the error for them."""

from __future__ import annotations

import contextlib
import socket
import threading

import redis.exceptions as rx

from tests.proxy import Cutter, parse_request
from tests.servers import HOST, free_port

LIES = {
    "a bulk of 65 MB": b"$%d\r\n" % (65 * 1024 * 1024),
    "a bulk of 10 GB": b"$10000000000\r\n",
    "an array of a trillion": b"*%d\r\n" % 2**40,
    "an array of four billion": b"*4294967295\r\n",
    "arrays nested 9 deep": b"*1\r\n" * 9 + b":1\r\n",
    "arrays nested 10,000 deep": b"*1\r\n" * 10_000 + b":1\r\n",
    "a length that is no number": b"$x\r\n",
}

ENDLESS = b"$10000000000\r\n"
#: More than the kernel's buffers of both ends hold, and much less than would be noticed as a growth of memory.
MOST_SENT = 24 * 1024 * 1024
MOST_GROWN_KIB = 100_000


class EndlessServer:
    """Answers ``+OK`` to everything, but a reply without end, of which it sends up to 300 MB, to one command."""

    def __init__(self, command: bytes) -> None:
        self.most_sent = 0  # Of one reply.
        self.lies = 0
        self._command = command
        self._listener = socket.create_server((HOST, free_port()))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        cutter = Cutter(parse_request)
        with contextlib.suppress(OSError), sock:
            while data := sock.recv(65536):
                for args, _ in cutter.feed(data):
                    if args[0].upper() == self._command:
                        self._lie(sock)
                    sock.sendall(b"+OK\r\n")

    def _lie(self, sock: socket.socket) -> None:
        self.lies += 1
        sock.sendall(ENDLESS)
        chunk = b"x" * 1024 * 1024
        for count in range(1, 301):
            sock.sendall(chunk)
            self.most_sent = max(self.most_sent, count * len(chunk))

    def __enter__(self) -> EndlessServer:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def is_protocol_error(error: BaseException | None) -> bool:
    """Whether this is a connection error that says what was wrong with a reply."""
    while error is not None:
        if isinstance(error, rx.ConnectionError) and "Protocol error" in str(error):
            return True
        error = error.__cause__
    return False
