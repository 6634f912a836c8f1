"""A client of HTTP that goes away in the middle of a response."""

from __future__ import annotations

import socket
import struct

from tests.frameworks.common import Site
from tests.servers import HOST


class Stream:
    """A response whose first row was read."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def go_away(self, *, reset: bool) -> None:
        """Close the connection; ``reset``: so that the server is told by an error, not by an end."""
        if reset:
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._connection.close()


def begin_to_read(site: Site, path: str) -> Stream:
    """Ask for a path, and wait for the first row of what it streams."""
    connection = socket.create_connection((HOST, site.port), timeout=30)
    received = b""
    try:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        while b"row 0" not in received:
            more = connection.recv(65536)
            assert more, f"no row came: {received!r}\n{site.output()[-3000:]}"
            received += more
    except BaseException:
        connection.close()
        raise
    return Stream(connection)
