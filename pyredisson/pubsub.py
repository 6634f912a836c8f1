"""What a subscriber has to do, in either colour: which commands are due, and what a message means. No I/O here."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import redis.exceptions as rx

from pyredisson.core.runtime import Refused
from pyredisson.wire import pack

if TYPE_CHECKING:
    from pyredisson.core.wakeups import Wakeups

__all__ = ["Conversation"]


class Conversation:
    """One subscriber's connection, from its first SUBSCRIBE to its end.

    A connection on which a command has been without an answer for ``ping_timeout`` is dead, whatever its socket says.
    """

    def __init__(self, wakeups: Wakeups, *, ping_interval: float, ping_timeout: float, now: float) -> None:
        self._wakeups = wakeups
        self._ping_interval = ping_interval
        self._ping_timeout = ping_timeout
        self._heard = now
        self._asked: float | None = None

    def begin(self, now: float) -> bytes:
        """The command to open with: subscribe to all that is wanted."""
        channels = self._wakeups.wanted()
        return self.subscribe(channels, now) if channels else b""

    def subscribe(self, channels: list[str], now: float) -> bytes:
        """The command that subscribes."""
        self._asked = self._asked if self._asked is not None else now
        return pack("SUBSCRIBE", *channels)

    def heard(self, replies: list[Any], now: float) -> None:
        """Deal with what came."""
        self._heard = now
        self._asked = None
        for reply in replies:
            if isinstance(reply, rx.RedisError):
                self._wakeups.refuse(Refused(reply))
            elif isinstance(reply, list) and len(reply) == 3:
                kind, channel, content = reply
                if kind == b"message":
                    self._wakeups.rang(channel.decode(), content)
                elif kind == b"subscribe":
                    self._wakeups.confirmed(channel.decode())

    def due(self, now: float) -> bytes:
        """The commands that are due now: farewells to channels without waiters, and a ping."""
        gone = self._wakeups.take_idle(now)
        out = pack("UNSUBSCRIBE", *gone) if gone else b""
        if self._asked is None and now - self._heard >= self._ping_interval and self._wakeups.wanted():
            self._asked = now
            out += pack("PING")
        elif gone:
            self._asked = self._asked if self._asked is not None else now
        return out

    def dead(self, now: float) -> bool:
        """Whether the server has been silent for too long."""
        return self._asked is not None and now - self._asked >= self._ping_timeout

    def next_due(self, now: float) -> float:
        """Seconds until something may be due."""
        again = self._wakeups.idle_due()
        if self._asked is not None:
            return max(0.0, min(again, self._asked + self._ping_timeout) - now)
        if not self._wakeups.wanted():
            return math.inf if again == math.inf else max(0.0, again - now)
        return max(0.0, min(again, self._heard + self._ping_interval) - now)
