"""A proxy on a Unix socket between clients and the server of a test, which loses replies and cuts connections.

It passes on one request of a connection at a time and waits for the reply, so it always knows which reply answers which
request. A connection that subscribes is copied in both directions from then on.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, final

from pyredisson.embedded import private_directory

#: Commands that run a script. All that changes a lock is one.
SCRIPTS = frozenset({b"EVAL", b"EVALSHA"})

#: Commands after which messages arrive that answer no request.
STREAMS = frozenset({b"SUBSCRIBE", b"PSUBSCRIBE", b"SSUBSCRIBE", b"MONITOR"})


def read_value(stream: BinaryIO) -> bytes:
    """Read one RESP value and return its bytes.

    Raises:
        EOFError: The connection was closed.
    """
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise EOFError
    kind, length = line[:1], line[1:-2]
    if kind in b"$=!" and int(length) >= 0:
        line += stream.read(int(length) + 2)
    elif kind in b"*~>%|" and int(length) > 0:
        items = int(length) * (2 if kind in b"%|" else 1) + (kind == b"|")  # An attribute precedes its value.
        line += b"".join(read_value(stream) for _ in range(items))
    return line


def command_of(request: bytes) -> bytes:
    """Return the name of a request's command, in capitals."""
    return request.split(b"\r\n", 3)[2].upper()


@final
class LostReply:
    """A reply that is lost once it is sent.

    Attributes:
        happened: Whether the request was executed and its reply lost by now.
    """

    def __init__(self) -> None:
        self.happened = False

    def __repr__(self) -> str:
        return f"<LostReply {'happened' if self.happened else 'pending'}>"


@final
class Proxy:
    """Listens on a Unix socket of its own and passes requests on to the server, until it is closed.

    Args:
        server_path: The server's Unix socket.

    Attributes:
        path: The proxy's Unix socket.
    """

    def __init__(self, server_path: str) -> None:
        self._server_path = server_path
        self._directory = private_directory()
        self.path = os.path.join(self._directory, "redis.sock")
        self._mutex = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._to_lose: deque[LostReply] = deque()
        self._partitions: list[bool] = []  # Whether each is silent.
        self._reachable = threading.Event()
        self._reachable.set()
        self._closed = False
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen(512)
        self._thread = threading.Thread(target=self._accept, name="pyredisson-test-proxy", daemon=True)
        self._thread.start()

    def lose_next_reply(self) -> LostReply:
        """Lose the reply to the next script that the server executes, and close its connection."""
        lost = LostReply()
        self._to_lose.append(lost)
        return lost

    @contextmanager
    def partition(self, *, silent: bool) -> Iterator[None]:
        """Let nothing through while the block runs: close all connections, or keep what is sent until its end."""
        with self._mutex:
            self._partitions.append(silent)
            self._reachable.clear()
            if not silent:
                self._shut_all()
        try:
            yield
        finally:
            with self._mutex:
                self._partitions.remove(silent)
                if not self._partitions:
                    self._reachable.set()

    def close(self) -> None:
        """Close all connections and stop listening."""
        with self._mutex:
            self._closed = True
            self._reachable.set()
            self._shut_all()
        with socket.socket(socket.AF_UNIX) as waker, suppress(OSError):
            waker.connect(self.path)  # accept() does not notice on every system that its socket was closed.
        self._thread.join()
        self._listener.close()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _shut_all(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._closed:
            client, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(client,), name=self._thread.name, daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        with self._mutex:
            self._sockets |= {client, server}
            if self._closed:
                self._shut_all()
        try:
            server.connect(self._server_path)
            self._pass_on(client, server)
        except (OSError, EOFError, ValueError):
            pass
        finally:
            with self._mutex:  # So that no descriptor is shut down that is another socket's by now.
                self._sockets -= {client, server}
                for each in (client, server):
                    with suppress(OSError):
                        each.shutdown(socket.SHUT_RDWR)  # A forked child may have a copy.
                    each.close()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with client.makefile("rb") as requests, server.makefile("rb") as replies:
            self._await_passage()
            while True:
                request = read_value(requests)
                self._await_passage()
                server.sendall(request)
                command = command_of(request)
                if command in STREAMS:
                    self._copy_both_ways(client, requests, server, replies)
                    return
                reply = read_value(replies)
                while reply.startswith(b">"):  # A push answers nothing.
                    client.sendall(reply)
                    reply = read_value(replies)
                if self._is_lost(command, reply):
                    return
                self._await_passage()
                client.sendall(reply)

    def _is_lost(self, command: bytes, reply: bytes) -> bool:
        if command not in SCRIPTS or reply.startswith(b"-NOSCRIPT"):
            return False
        try:
            self._to_lose.popleft().happened = True
        except IndexError:
            return False
        return True

    def _await_passage(self) -> None:
        """Delay what is passed on until a silent partition has ended, as TCP does; in any other, end the connection."""
        if not self._reachable.is_set():
            if not all(self._partitions):
                raise EOFError
            self._reachable.wait()

    def _copy_both_ways(
        self, client: socket.socket, requests: BinaryIO, server: socket.socket, replies: BinaryIO
    ) -> None:
        upward = threading.Thread(target=self._copy, args=(requests, server), name=self._thread.name, daemon=True)
        upward.start()
        self._copy(replies, client)
        client.shutdown(socket.SHUT_RDWR)
        upward.join()

    def _copy(self, source: BinaryIO, target: socket.socket) -> None:
        try:
            while data := source.read1(65536):  # type: ignore[attr-defined]
                self._await_passage()
                target.sendall(data)
        except (OSError, EOFError):
            pass
        finally:
            with suppress(OSError):
                target.shutdown(socket.SHUT_RDWR)
