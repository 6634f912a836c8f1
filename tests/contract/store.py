"""What a test can see and do in Redis itself, past the library."""

from __future__ import annotations

import math
import uuid
from typing import Any

import redis

#: Where the release of the lock called "orders" is announced.
CHANNEL = "redisson_lock__channel:{orders}"


class Store:
    """The database as anybody could look at it, over a connection of the test's own."""

    def __init__(self, client: redis.Redis) -> None:
        self._redis = client

    def command(self, *words: str | int | float) -> Any:
        """Run any command."""
        return self._redis.execute_command(*words)

    def hash(self, key: str) -> dict[str, str]:
        """A hash; empty if there is none."""
        return {field.decode(): value.decode() for field, value in self._redis.hgetall(key).items()}

    def ttl(self, key: str) -> float | None:
        """Seconds; infinite without a TTL, ``None`` without a key."""
        left = self._redis.pttl(key)
        return None if left == -2 else math.inf if left == -1 else left / 1000

    def everything(self) -> dict[str, tuple[str, Any]]:
        """The whole database: the type and the content of each key."""
        found: dict[str, tuple[str, Any]] = {}
        for raw in self._redis:
            key, kind = raw.decode(), self._redis.type(raw).decode()
            found[key] = (kind, self.hash(key) if kind == "hash" else self._redis.get(raw).decode())
        return found

    def delete(self, key: str) -> None:
        """Take a key away without a word to anybody."""
        assert self._redis.delete(key) == 1, f"there was no {key}"

    def expire(self, key: str, seconds: float) -> None:
        """Set a TTL."""
        assert self._redis.pexpire(key, round(seconds * 1000)), f"there was no {key}"

    def subscribers(self, channel: str) -> int:
        """How many connections listen to a channel."""
        return int(dict(self._redis.pubsub_numsub(channel))[channel.encode()])

    def publish(self, channel: str, payload: str) -> int:
        """Say something on a channel. Returns how many heard it."""
        return int(self._redis.publish(channel, payload))

    def calls(self, *commands: str) -> int:
        """How often a real server was asked to run such a command since it started."""
        stats = self._redis.info("commandstats")
        return sum(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"] for command in commands)

    def messages(self, channel: str) -> Messages:
        """Listen to a channel from now on."""
        return Messages(self._redis, channel)


class Messages:
    """What was said on a channel."""

    def __init__(self, client: redis.Redis, channel: str) -> None:
        self._redis = client
        self._marks = f"marks:{uuid.uuid4()}"
        self._pubsub = client.pubsub()
        self._heard: list[bytes] = []
        self._pubsub.subscribe(channel, self._marks)
        for _ in range(2):
            assert self._next()["type"] == "subscribe"

    def received(self) -> list[bytes]:
        """Everything up to now. Certain: messages come in order, so a mark of our own comes after all of them."""
        self._redis.publish(self._marks, "here")
        while (message := self._next())["channel"] != self._marks.encode():
            self._heard.append(message["data"])
        return self._heard

    def close(self) -> None:
        """Listen no more."""
        self._pubsub.close()

    def _next(self) -> dict[str, Any]:
        message = self._pubsub.get_message(timeout=10.0)
        assert message is not None, "a message is missing"
        return message
