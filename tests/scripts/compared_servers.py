"""A real server and the simulated one behind one interface: raw replies, everything stored, every published message."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import hiredis

from tests.servers import HOST, Server
from tests.simulated.engine.redis import Entry, ServerError, SimulatedRedis
from tests.waiting import until

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


def timeless(payload: bytes) -> bytes:
    """A message without the milliseconds in which a permit expires: those of two servers are never the same."""
    return re.sub(rb"\Ain \d+\Z", b"in", payload)


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

    def call(self, *args: bytes | str | int) -> Any:
        """Run a command. An error is returned, not raised."""
        return self.wire.call(*args)

    def out_of_memory(self, out: bool) -> None:
        self.wire.call("CONFIG", "SET", "maxmemory", int(out))

    def empty(self) -> None:
        """No keys, enough memory, nothing heard."""
        self.out_of_memory(False)
        self.wire.call("FLUSHALL")
        self.messages()

    def expire(self, key: bytes) -> None:
        """Let the time of a key run out."""
        self.wire.call("PEXPIRE", key, 1)
        until(lambda: self.wire.call("PTTL", key) == -2, what=f"{key!r} has expired")

    def state(self) -> dict[bytes, Entry]:
        """Everything that is stored."""
        return Moment.of(self.wire.call(*DUMP)).keys

    def messages(self) -> list[Message]:
        """All messages since the last call."""
        self.wire.call("PUBLISH", _END, "")
        heard: list[Message] = []
        while True:
            kind, *rest = self._ear.read()
            *_, channel, payload = rest
            if channel == _END:
                return heard
            heard.append(Message(channel, timeless(payload), sharded=kind == b"smessage"))

    def close(self) -> None:
        self.wire.close()
        self._ear.close()


class Model:
    """The simulated server; what it does not have is what :class:`RealServer` needs the network for.

    Attributes:
        now_us: Its clock.
    """

    version = "7.0"
    has_sharded_pubsub = True

    def __init__(self) -> None:
        self.now_us = 1_785_000_000_000_000
        self._heard: list[Message] = []
        self._heard_shards: set[bytes] | None = None  # None: all
        self.server = SimulatedRedis(lambda: self.now_us, on_message=self._hear)

    def hear_shards(self, channels: Iterable[bytes]) -> None:
        """Listen to no other channels of ``SPUBLISH``."""
        self._heard_shards = set(channels)

    def _hear(self, channel: bytes, payload: bytes, sharded: bool) -> int:
        if sharded and self._heard_shards is not None and channel not in self._heard_shards:
            return 0
        self._heard.append(Message(channel, timeless(payload), sharded))
        return 1

    def call(self, *args: bytes | str | int) -> Any:
        """Run a command. An error is returned, not raised."""
        try:
            return self.server.command(*args)
        except ServerError as error:
            return error

    def out_of_memory(self, out: bool) -> None:
        self.server.maxmemory_reached = out

    def empty(self) -> None:
        """No keys, enough memory, nothing heard."""
        self.out_of_memory(False)
        self.server.command("FLUSHALL")
        self.messages()

    def expire(self, key: bytes) -> None:
        """Let the time of a key run out."""
        self.call("PEXPIRE", key, 1)
        self.now_us += 2_000

    def state(self) -> dict[bytes, Entry]:
        """Everything that is stored."""
        return self.server.dump()

    def messages(self) -> list[Message]:
        """All messages since the last call."""
        heard, self._heard = self._heard, []
        return heard


_NO_TEXT = re.compile(r"(Lua redis(\(\)| lib) c|C)ommand arguments must be strings or integers")


def comparable(error: ServerError) -> str:
    """The error's text, without the place in the script and the words that differ from build to build."""
    text = re.sub(r" script: (\w+, )?on @\w+:\d+\.$", "", str(error))
    text, wrapped = re.subn(r"^ERR Error running script \(call to f_\w+\): @\w+:\s?\d+: ", "", text)
    text, placed = re.subn(r"^@user_script: \d+: -?", "", text)
    if (wrapped or placed) and not re.match(r"[A-Z]{2,} ", text):
        text = f"ERR {text}"
    return _NO_TEXT.sub("arguments must be strings", text)
