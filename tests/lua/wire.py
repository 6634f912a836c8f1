"""A real server seen as closely as the model: raw replies, everything that is stored, every message published."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import hiredis

from pyredisson.testing.redis import Entry, ServerError
from tests.servers import HOST, Server

_END = b"end of messages"

_DUMP = b"""
local readers = {
    string = function(key) return redis.call('GET', key) end,
    hash = function(key) return redis.call('HGETALL', key) end,
    list = function(key) return redis.call('LRANGE', key, 0, -1) end,
    zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
}
local begun, found = redis.call('TIME'), {}
for i, key in ipairs(redis.call('KEYS', '*')) do
    local kind = redis.call('TYPE', key).ok
    found[i] = {key, kind, readers[kind](key), redis.call('PTTL', key)}
end
return {begun, found, redis.call('TIME')}
"""

DUMP: tuple[bytes, ...] = (b"EVAL", _DUMP, b"0")
"""The command whose reply ``Moment.of`` reads."""


class Message(NamedTuple):
    channel: bytes
    payload: bytes
    sharded: bool


class Moment(NamedTuple):
    """What a server stored at one time of its clock.

    Attributes:
        begun_us: When it began to look.
        ended_us: When it had looked; much later if the machine let it wait.
        keys: What it saw.
    """

    begun_us: int
    ended_us: int
    keys: dict[bytes, Entry]

    @classmethod
    def of(cls, reply: Any) -> Moment:
        assert isinstance(reply, list), reply
        begun, found, ended = reply
        return cls(
            microseconds(begun),
            microseconds(ended),
            {
                key: Entry(kind.decode(), _value(kind, value), None if ttl < 0 else ttl)
                for key, kind, value, ttl in found
            },
        )


def microseconds(time: list[bytes]) -> int:
    """A reply of TIME."""
    seconds, rest = time
    return int(seconds) * 1_000_000 + int(rest)


def _value(kind: bytes, value: Any) -> Any:
    if kind == b"hash":
        return dict(zip(value[::2], value[1::2], strict=True))
    if kind == b"zset":
        return {member: float(score) for member, score in zip(value[::2], value[1::2], strict=True)}
    return value


class Wire:
    """One connection. Errors are returned, not raised."""

    def __init__(self, server: Server) -> None:
        self._socket = socket.create_connection((HOST, server.port), timeout=30)
        self._reader = hiredis.Reader(replyError=ServerError.from_text)

    def call(self, *args: bytes | str | int) -> Any:
        return self.call_many([args])[0]

    def call_many(self, commands: Iterable[Sequence[bytes | str | int]]) -> list[Any]:
        """Send all, then read all replies."""
        packed = [hiredis.pack_command(tuple(command)) for command in commands]
        self._socket.sendall(b"".join(packed))
        return [self.read() for _ in packed]

    def read(self) -> Any:
        while (reply := self._reader.gets()) is False:
            data = self._socket.recv(65536)
            if not data:
                raise EOFError("the server closed the connection")
            self._reader.feed(data)
        return reply

    def close(self) -> None:
        self._socket.close()


class RealServer:
    """A real server of the test's own: it is emptied, and told to be out of memory, as needed."""

    def __init__(self, server: Server) -> None:
        self.version = server.build.version
        self.wire = Wire(server)
        self._ear = Wire(server)
        self._ear.call("PSUBSCRIBE", "*")
        self._heard_shards: set[bytes] = set()

    @property
    def has_sharded_pubsub(self) -> bool:
        return self.version != "6.2"

    def hear_shards(self, channels: Iterable[bytes]) -> None:
        """Listen to ``SPUBLISH`` as well, which has no patterns."""
        for channel in channels:
            if self.has_sharded_pubsub and channel not in self._heard_shards:
                self._ear.call("SSUBSCRIBE", channel)
                self._heard_shards.add(channel)

    def moment(self) -> Moment:
        return Moment.of(self.wire.call(*DUMP))

    def messages(self) -> list[Message]:
        """All messages since the last call."""
        self.wire.call("PUBLISH", _END, "")
        heard = []
        while True:
            kind, *rest = self._ear.read()
            *_, channel, payload = rest
            if channel == _END:
                return heard
            heard.append(Message(channel, payload, sharded=kind == b"smessage"))

    def close(self) -> None:
        self.wire.close()
        self._ear.close()


# What the builds say in different words, a line for each meaning.
_SAME_MEANING = [
    re.compile(pattern)
    for pattern in (
        r"Wrong number of args calling (Redis )?command (from|From Lua) script",
        r"Unknown (Redis )?command called from (Lua )?script",
        r"This (Redis|Valkey) command is not allowed from scripts?",
        r"(Lua redis(\(\)| lib) c|C)ommand arguments must be strings or integers",
        r"Please specify at least one argument for (redis.call\(\)|this (redis lib )?call)",
        r"(redis|server)\.log\(\) requires two arguments or more\.",
        r"Invalid (debug|log) level\.",
        r"Script attempted to create global variable '\w+'|Attempt to modify a readonly table",
        r"No matching script\.( Please use EVAL\.)?",
        r"unknown command [`'](.*?)['`], with args beginning with: .*",
        r"invalid expire time in (set|'set' command)",
        r"([Uu]nknown subcommand.*|wrong number of arguments for 'script\|\w+' command)",
    )
]


def comparable(error: ServerError, version: str) -> str:
    """The error's text; for builds other than Redis 7.0 without what they say in other words."""
    text = str(error)
    if version == "7.0":
        return text
    text = re.sub(r" script: (\w+, )?on @\w+:\d+\.$", "", text)
    text, wrapped = re.subn(r"^ERR Error running script \(call to f_\w+\): @\w+:\s?\d+: ", "", text)
    text, placed = re.subn(r"^@user_script: \d+: -?", "", text)
    if (wrapped or placed) and not re.match(r"[A-Z]{2,} ", text):
        text = f"ERR {text}"
    for number, pattern in enumerate(_SAME_MEANING):
        text = pattern.sub(f"<{number}>", text)
    return text
