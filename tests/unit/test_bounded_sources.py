"""Stand-ins for what redis-py reads from: they check every byte once, and leave a connection as it was."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import redis.asyncio
import redis.exceptions as rx
from redis._parsers import _AsyncHiredisParser, _AsyncRESP2Parser, _HiredisParser, _RESP2Parser

from pyredisson.net.bounded_sources import bounded_exchange
from pyredisson.net.bounds import MAX_BYTES

LIE = b"$%d\r\n" % (MAX_BYTES + 1)


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def connected(sock: socket.socket, parser: type[Any]) -> Any:
    """A connection of redis-py that has shaken hands."""
    connection: Any = redis.Connection(parser_class=parser, socket_timeout=5, protocol=2)
    connection._sock = sock
    connection._parser.on_connect(connection)
    return connection


def source_of(connection: Any) -> Any:
    parser = connection._parser
    return parser._buffer._sock if hasattr(parser._buffer, "_sock") else parser._sock


@pytest.mark.parametrize("parser", [_HiredisParser, _RESP2Parser])
def test_a_connection_is_as_it_was_after_an_exchange(
    sockets: tuple[socket.socket, socket.socket], parser: type[Any]
) -> None:
    ours, theirs = sockets
    connection = connected(ours, parser)
    theirs.sendall(b":1\r\n")
    with bounded_exchange(connection):
        assert source_of(connection) is not ours
        assert connection.can_read(1)
        assert connection.read_response() == 1
    assert source_of(connection) is ours


@pytest.mark.parametrize("parser", [_HiredisParser, _RESP2Parser])
def test_a_connection_that_lied_is_disconnected(
    sockets: tuple[socket.socket, socket.socket], parser: type[Any]
) -> None:
    ours, theirs = sockets
    connection = connected(ours, parser)
    theirs.sendall(LIE)
    with pytest.raises(rx.InvalidResponse, match="bytes"), bounded_exchange(connection):
        connection.read_response()
    assert connection._sock is None
    assert connection._parser._buffer is None or connection._parser._sock is None


@pytest.mark.parametrize("parser", [_HiredisParser, _RESP2Parser])
def test_bytes_that_a_parser_has_buffered_do_not_start_a_new_reply(
    sockets: tuple[socket.socket, socket.socket], parser: type[Any]
) -> None:
    ours, theirs = sockets
    connection = connected(ours, parser)
    theirs.sendall(b":1\r\n$9\r\n*9")
    assert connection.read_response() == 1
    theirs.sendall(b"9999999\r\n:2\r\n")
    with bounded_exchange(connection):
        assert connection.read_response() == b"*99999999"
        assert connection.read_response() == 2


@pytest.mark.parametrize("parser", [_HiredisParser, _RESP2Parser])
def test_the_end_of_a_reply_that_has_begun_already_is_bounded(
    sockets: tuple[socket.socket, socket.socket], parser: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyredisson.net.bounded_sources.MAX_BYTES", 1000)
    ours, theirs = sockets
    connection = connected(ours, parser)
    theirs.sendall(b":1\r\n$9999\r\nx")
    assert connection.read_response() == 1
    theirs.sendall(b"x" * 5000)
    with pytest.raises(rx.InvalidResponse, match="bytes"), bounded_exchange(connection):
        connection.read_response()


@pytest.mark.parametrize("parser", [_HiredisParser, _RESP2Parser])
def test_bytes_that_are_only_looked_at_are_counted_once(
    sockets: tuple[socket.socket, socket.socket], parser: type[Any]
) -> None:
    ours, theirs = sockets
    connection = connected(ours, parser)
    theirs.sendall(b"$3\r\n$99\r\n")
    with bounded_exchange(connection):
        assert source_of(connection).recv(4, socket.MSG_PEEK) == b"$3\r\n"
        assert connection.read_response() == b"$99"


@pytest.mark.parametrize("parser", [_AsyncHiredisParser, _AsyncRESP2Parser])
def test_an_asyncio_connection_is_as_it_was_after_an_exchange(parser: type[Any]) -> None:
    async def exchange() -> None:
        connection: Any = redis.asyncio.Connection(parser_class=parser, protocol=2)
        stream = connection._reader = asyncio.StreamReader()
        connection._parser.on_connect(connection)
        stream.feed_data(b"*2\r\n:1\r\n$2\r\nhi\r\n")
        with bounded_exchange(connection):
            assert connection._parser._stream is not stream
            assert await connection._parser.read_response(disable_decoding=True) == [1, b"hi"]
        assert connection._parser._stream is stream
        stream.feed_data(LIE)
        with pytest.raises(rx.InvalidResponse, match="bytes"), bounded_exchange(connection):
            await connection._parser.read_response()
        assert connection._parser._stream is stream

    asyncio.run(exchange())


def test_a_line_longer_than_a_stream_holds_is_no_reply() -> None:
    async def exchange() -> None:
        connection: Any = redis.asyncio.Connection(parser_class=_AsyncRESP2Parser, protocol=2)
        connection._reader = asyncio.StreamReader(limit=100)
        connection._parser.on_connect(connection)
        connection._reader.feed_data(b"+" + b"x" * 1000)
        with pytest.raises(rx.InvalidResponse, match="line"), bounded_exchange(connection):
            await connection._parser.read_response()

    asyncio.run(exchange())


def test_a_connection_of_an_unknown_kind_is_left_alone() -> None:
    class Fake:
        pass

    fake = Fake()
    with bounded_exchange(fake):
        assert vars(fake) == {}
