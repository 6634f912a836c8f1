"""What a test can see and do in Redis itself, past the library."""

from __future__ import annotations

import math
import re
import uuid
from abc import ABC, abstractmethod
from typing import Any, Protocol

import redis

from pyredisson._lua import script_names, script_text

#: Where the release of the lock called "orders" is announced.
CHANNEL = "redisson_lock__channel:{orders}"

#: A permit's id in its sorted set: bytes, where all others are text.
PERMIT_BYTES = 16


class Messages(Protocol):
    """What is said on a channel."""

    def received(self) -> list[bytes]:
        """Everything up to now."""
        ...


class Store(ABC):
    """The database as anybody could look at it."""

    @abstractmethod
    def command(self, *words: str | int) -> Any:
        """Run any command, and return its reply as RESP2 has it."""

    @abstractmethod
    def subscribers(self, channel: str) -> int:
        """How many connections listen to a channel."""

    @abstractmethod
    def messages(self, channel: str) -> Messages:
        """Listen to a channel from now on."""

    def hash(self, key: str) -> dict[str, str]:
        """A hash; empty if there is none."""
        words = [word.decode() for word in self.command("HGETALL", key)]
        return dict(zip(words[::2], words[1::2], strict=True))

    def ttl(self, key: str) -> float | None:
        """Seconds; infinite without a TTL, ``None`` without a key."""
        left: int = self.command("PTTL", key)
        return None if left == -2 else math.inf if left == -1 else left / 1000

    def everything(self) -> dict[str, tuple[str, Any]]:
        """The whole database: the type and the content of each key."""
        found: dict[str, tuple[str, Any]] = {}
        for key in [raw.decode() for raw in self.command("KEYS", "*")]:
            kind = _text(self.command("TYPE", key))
            if kind != "none":  # It has expired meanwhile.
                found[key] = (kind, self._content(kind, key))
        return found

    def _content(self, kind: str, key: str) -> Any:
        if kind == "hash":
            return self.hash(key)
        if kind == "list":
            return self.list(key)
        if kind == "zset":
            words = self.command("ZRANGE", key, 0, -1, "WITHSCORES")
            members = [word if len(word) == PERMIT_BYTES else word.decode() for word in words[::2]]
            return dict(zip(members, map(float, words[1::2]), strict=True))
        return self.command("GET", key).decode()

    def list(self, key: str) -> list[str]:
        """A list; empty if there is none."""
        return [word.decode() for word in self.command("LRANGE", key, 0, -1)]

    def scores(self, key: str) -> dict[str, float]:
        """A sorted set; empty if there is none."""
        words = [word.decode() for word in self.command("ZRANGE", key, 0, -1, "WITHSCORES")]
        return {member: float(score) for member, score in zip(words[::2], words[1::2], strict=True)}

    def time(self) -> float:
        """The server's clock, in seconds."""
        seconds, microseconds = self.command("TIME")
        return int(seconds) + int(microseconds) / 1e6

    def delete(self, key: str) -> None:
        """Take a key away without a word to anybody."""
        assert self.command("DEL", key) == 1, f"there was no {key}"

    def expire(self, key: str, seconds: float) -> None:
        """Set a TTL."""
        assert self.command("PEXPIRE", key, round(seconds * 1000)) == 1, f"there was no {key}"

    def publish(self, channel: str, payload: str) -> int:
        """Say something on a channel. Returns how many heard it."""
        return int(self.command("PUBLISH", channel, payload))


class ServerStore(Store):
    """A server's, or a fake's, over a connection of the test's own."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client
        client.response_callbacks.clear()

    def command(self, *words: str | int) -> Any:
        return self._redis.execute_command(*words)

    def subscribers(self, channel: str) -> int:
        return int(self.command("PUBSUB", "NUMSUB", channel)[1])

    def messages(self, channel: str) -> ServerMessages:
        return ServerMessages(self._redis, channel)

    def learn_scripts(self) -> None:
        """Let the server know all of them, so that each request of a script is one: where requests are counted."""
        for name in script_names():
            self.command("SCRIPT", "LOAD", script_text(name))

    def calls(self, *commands: str) -> int:
        """How often a real server was asked to run such commands since it started."""
        stats = _text(self.command("INFO", "commandstats"))
        return sum(int(count) for name, count in re.findall(r"cmdstat_(\w+):calls=(\d+)", stats) if name in commands)


class ServerMessages:
    """Messages, heard over a connection of the test's own."""

    def __init__(self, client: redis.Redis, channel: str) -> None:
        self._redis = client
        self._marks = f"marks:{uuid.uuid4()}"
        self._pubsub = client.pubsub()
        self._heard: list[bytes] = []
        self._pubsub.subscribe(channel, self._marks)
        for _ in range(2):
            assert self._next()["type"] == "subscribe"

    def received(self) -> list[bytes]:
        # Messages come in order: a mark of our own comes after all that was said before.
        self._redis.publish(self._marks, "here")
        while (message := self._next())["channel"] != self._marks.encode():
            self._heard.append(message["data"])
        return self._heard

    def close(self) -> None:
        """Listen no more."""
        self._pubsub.close()

    def _next(self) -> dict[str, Any]:
        message: dict[str, Any] | None = self._pubsub.get_message(timeout=10.0)
        assert message is not None, "a message is missing"
        return message


def _text(word: str | bytes) -> str:
    return word.decode() if isinstance(word, bytes) else word
