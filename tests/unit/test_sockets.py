"""Among many connections, a request leaves by one call into C that never waits; what that cannot take as usual."""

import socket
import threading

import pytest

from pyredisson._core.failures import NotSent
from pyredisson._threads.sockets import Connection, Sockets


@pytest.fixture(params=[False, True], ids=["few connections", "many connections"])
def sockets(request: pytest.FixtureRequest) -> Sockets:
    made = Sockets()
    made.crowded = request.param
    return made


def test_a_request_larger_than_the_buffer_leaves_in_full(sockets):
    ours, theirs = socket.socketpair()
    request = bytes(range(256)) * 4096
    received = bytearray()

    def serve():
        while len(received) < len(request):
            received.extend(theirs.recv(65536))
        theirs.sendall(b":1\r\n")

    server = threading.Thread(target=serve)
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        server.start()
        assert Connection(sockets, ours, 0.0).exchange(request, 10.0) == 1
        server.join()
    assert received == request


def test_a_request_to_a_server_that_has_gone_was_not_sent(sockets):
    ours, theirs = socket.socketpair()
    theirs.close()
    with pytest.raises(NotSent, match="Broken pipe"):
        Connection(sockets, ours, 0.0).exchange(b"*1\r\n$4\r\nPING\r\n", 10.0)
    assert ours.fileno() == -1, "nothing that comes later may be taken for a reply"
