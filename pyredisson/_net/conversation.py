"""One connection of a subscriber: what is sent and received on it, from its first SUBSCRIBE to its end."""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING, Any

import redis.exceptions as rx

from pyredisson._core.deadline import DoublingBackoff
from pyredisson._core.failures import NotSent, Rejected
from pyredisson._net.refusals import LEAVES, failure_of
from pyredisson._net.resp import pack

if TYPE_CHECKING:
    from pyredisson._core.subscriptions import SubscriberConnection, Subscriptions

#: Between two connections, and between two searches for displaced channels.
RETRY = DoublingBackoff(first=0.05, maximum=1.0)


class Conversation:
    """One subscriber's connection, from its first SUBSCRIBE to its end.

    A connection on which a command has been without an answer for ``ping_timeout`` is dead, whatever its socket says.

    On a cluster a channel may be *displaced*: the node says that another one serves it, or drops it. Those that
    are not found elsewhere are asked for here again, at intervals that grow; so is a farewell that Redis 8 answers with
    ``ASK`` while the slot moves, although it lets clients subscribe there.

    A refusal does not say which channel it concerns. It answers the first command that has no answer yet, and each
    command is about one channel, so what waits for other channels goes on.

    Attributes:
        left: Whether the server is the wrong one, or refuses the credential: another connection is needed.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        connection: SubscriberConnection,
        *,
        sharded: bool,
        ping_interval: float,
        ping_timeout: float,
        now: float,
    ) -> None:
        self._subscriptions = subscriptions
        self._connection = connection
        self._sharded = sharded
        self._search_at = math.inf
        self._searches = 0  # How often displaced channels were searched for since.
        self._ping_interval = ping_interval
        self._ping_timeout = ping_timeout
        self._heard = now
        self._asked: float | None = None
        self.left: bool = False
        self._unanswered: deque[str] = deque()  # The channel of each command that subscribes, in order.
        self._leaving: set[str] = set()  # The channels of farewells without an answer.

    def begin(self, now: float) -> bytes:
        """The command to open with: subscribe to all that is wanted."""
        channels = self._subscriptions.wanted(self._connection)
        return self.subscribe(channels, now) if channels else b""

    def subscribe(self, channels: list[str], now: float) -> bytes:
        """The commands that subscribe."""
        self._asked = self._asked if self._asked is not None else now
        self._unanswered.extend(channels)
        self._leaving.difference_update(channels)
        word = "SSUBSCRIBE" if self._sharded else "SUBSCRIBE"
        return b"".join([pack(word, channel) for channel in channels])

    def farewell(self, channels: list[str], now: float) -> bytes:
        """The command that unsubscribes."""
        self._asked = self._asked if self._asked is not None else now
        self._leaving.update(channels)
        if not self._sharded:
            return pack("UNSUBSCRIBE", *channels)
        return b"".join([pack("SUNSUBSCRIBE", channel) for channel in channels])

    def heard(self, replies: list[Any], now: float) -> None:
        """Process what was received."""
        self._heard = now
        self._asked = None
        for reply in replies:
            if isinstance(reply, rx.RedisError):
                self._refused(reply, now)
            elif isinstance(reply, list) and len(reply) == 3:
                kind, channel, content = reply
                if kind in (b"message", b"smessage"):
                    self._subscriptions.received(channel.decode(), content, self._connection)
                elif kind in (b"subscribe", b"ssubscribe"):
                    self._answered(channel.decode())
                    self._subscriptions.confirmed(channel.decode(), self._connection)
                    self._searches = 0
                elif kind in (b"unsubscribe", b"sunsubscribe"):
                    self._leaving.discard(channel.decode())
                    if self._subscriptions.dropped(channel.decode(), self._connection):
                        self._displaced(now)  # That was not asked for: its slot moves to another node.

    def _answered(self, channel: str) -> None:
        if channel in self._unanswered:
            while self._unanswered.popleft() != channel:
                pass  # Answers come in order: that one was an error.

    def _refused(self, error: rx.RedisError, now: float) -> None:
        if type(error) in LEAVES:
            self.left = True
        elif (moved := str(error).startswith("MOVED ")) or _may_be_said_again(error):
            self._unanswered.clear()  # It may as well answer a farewell.
            if moved:
                self._leaving.clear()  # What another node serves is not sent from here any more.
            if self._leaving or self._subscriptions.unconfirmed(self._connection):
                self._displaced(now)
        else:
            channels = [self._unanswered.popleft()] if self._unanswered else None
            self._subscriptions.refuse(Rejected(error), self._connection, channels)

    def _displaced(self, now: float) -> None:
        if self._search_at == math.inf:
            self._search_at = now + (RETRY.longest(self._searches) if self._searches else 0)

    def searches(self, now: float) -> bool:
        """Whether it is time to look for channels elsewhere."""
        return now >= self._search_at

    def searched_elsewhere(self, now: float) -> bytes:
        """The commands that say here again what was not found elsewhere, or refused for a reason that passes."""
        self._search_at = math.inf
        again = self._subscriptions.unconfirmed(self._connection)
        leaving = [each for each in self._leaving if each not in again]
        self._searches = self._searches + 1 if again or leaving else 0
        out = self.subscribe(again, now) if again else b""
        return self.farewell(leaving, now) + out if leaving else out

    def due(self, now: float) -> bytes:
        """The commands that are due now: farewells to channels without waiters, and a ping."""
        gone = self._subscriptions.take_idle(now, self._connection)
        out = b""
        if self._asked is None and now >= self._heard + self._ping_interval and self._connection.channels:
            self._asked = now
            out = pack("PING")
        return self.farewell(gone, now) + out if gone else out

    def dead(self, now: float) -> bool:
        """Whether the server has been silent for too long."""
        return self._asked is not None and now >= self._asked + self._ping_timeout  # As next_due() counts it.

    def next_due(self, now: float) -> float:
        """Seconds until something may be due."""
        again = min(self._subscriptions.idle_due(self._connection), self._search_at)
        if self._asked is not None:
            return max(0.0, min(again, self._asked + self._ping_timeout) - now)
        if not self._connection.channels:
            return math.inf if again == math.inf else max(0.0, again - now)
        return max(0.0, min(again, self._heard + self._ping_interval) - now)


def _may_be_said_again(error: rx.RedisError) -> bool:
    return str(error).startswith("ASK ") or isinstance(failure_of(error), NotSent)
