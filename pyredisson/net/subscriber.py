"""A subscriber: it hears the messages of all channels, on one connection. On a cluster there is one for each node.

Written once for both colours, as the core is: ``async`` means "may block". A thread runs it through
:func:`pyredisson.core.running.run`, an event loop as a task.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import redis.exceptions as rx

from pyredisson import events
from pyredisson.core.failures import Failure, NotSent, Rejected
from pyredisson.core.messages import INTERRUPTED
from pyredisson.core.runtime import Runtime
from pyredisson.errors import LockError
from pyredisson.net.resp import failure_of, pack
from pyredisson.net.sentinel import ASK_AGAIN

if TYPE_CHECKING:
    from pyredisson.config import Config
    from pyredisson.core.waiters import Line
    from pyredisson.core.wakeups import Wakeups
    from pyredisson.events import Event
    from pyredisson.net.link import Stream

__all__ = ["Subscriber"]

RETRY_FIRST = 0.05
RETRY_MAX = 1.0


class Conversation:
    """One subscriber's connection, from its first SUBSCRIBE to its end.

    A connection on which a command has been without an answer for ``ping_timeout`` is dead, whatever its socket says.

    On a cluster a channel may go *astray*: the node says that another one serves it, or hears it no more. Those that
    are not found elsewhere are asked for here again, at intervals that grow.
    """

    def __init__(
        self, wakeups: Wakeups, line: Line, *, sharded: bool, ping_interval: float, ping_timeout: float, now: float
    ) -> None:
        self._wakeups = wakeups
        self._line = line
        self._sharded = sharded
        self._astray_at = math.inf
        self._astray_again = RETRY_FIRST
        self._ping_interval = ping_interval
        self._ping_timeout = ping_timeout
        self._heard = now
        self._asked: float | None = None

    def begin(self, now: float) -> bytes:
        """The command to open with: subscribe to all that is wanted."""
        channels = self._wakeups.wanted(self._line)
        return self.subscribe(channels, now) if channels else b""

    def subscribe(self, channels: list[str], now: float) -> bytes:
        """The command that subscribes."""
        self._asked = self._asked if self._asked is not None else now
        if not self._sharded:
            return pack("SUBSCRIBE", *channels)
        return b"".join([pack("SSUBSCRIBE", channel) for channel in channels])  # One command is about one slot.

    def farewell(self, channels: list[str], now: float) -> bytes:
        """The command that unsubscribes."""
        self._asked = self._asked if self._asked is not None else now
        if not self._sharded:
            return pack("UNSUBSCRIBE", *channels)
        return b"".join([pack("SUNSUBSCRIBE", channel) for channel in channels])

    def heard(self, replies: list[Any], now: float) -> None:
        """Deal with what came."""
        self._heard = now
        self._asked = None
        for reply in replies:
            if isinstance(reply, rx.RedisError):
                self._refused(reply, now)
            elif isinstance(reply, list) and len(reply) == 3:
                kind, channel, content = reply
                if kind in (b"message", b"smessage"):
                    self._wakeups.rang(channel.decode(), content, self._line)
                elif kind in (b"subscribe", b"ssubscribe"):
                    self._wakeups.confirmed(channel.decode(), self._line)
                    self._astray_again = RETRY_FIRST
                elif kind == b"sunsubscribe" and self._wakeups.dropped(channel.decode(), self._line):
                    self._go_astray(now)  # Nobody asked for that: its slot moves to another node.

    def _refused(self, error: rx.RedisError, now: float) -> None:
        if str(error).startswith("MOVED ") or isinstance(failure_of(error), NotSent):
            if self._wakeups.unconfirmed(self._line):  # Else it is what became of a farewell.
                self._go_astray(now)
        else:
            self._wakeups.refuse(Rejected(error), self._line)

    def _go_astray(self, now: float) -> None:
        if self._astray_at == math.inf:
            self._astray_at = now if self._astray_again == RETRY_FIRST else now + self._astray_again

    def astray(self, now: float) -> bool:
        """Whether it is time to look for channels elsewhere."""
        return now >= self._astray_at

    def looked_elsewhere(self, now: float) -> bytes:
        """The command that asks here again for what was not found elsewhere."""
        self._astray_at = math.inf
        left = self._wakeups.unconfirmed(self._line)
        self._astray_again = min(2 * self._astray_again, RETRY_MAX) if left else RETRY_FIRST
        return self.subscribe(left, now) if left else b""

    def due(self, now: float) -> bytes:
        """The commands that are due now: farewells to channels without waiters, and a ping."""
        gone = self._wakeups.take_idle(now, self._line)
        out = b""
        if self._asked is None and now >= self._heard + self._ping_interval and self._wakeups.wanted(self._line):
            self._asked = now
            out = pack("PING")
        return self.farewell(gone, now) + out if gone else out

    def dead(self, now: float) -> bool:
        """Whether the server has been silent for too long."""
        return self._asked is not None and now >= self._asked + self._ping_timeout  # As next_due() counts it.

    def next_due(self, now: float) -> float:
        """Seconds until something may be due."""
        again = min(self._wakeups.idle_due(self._line), self._astray_at)
        if self._asked is not None:
            return max(0.0, min(again, self._asked + self._ping_timeout) - now)
        if not self._wakeups.wanted(self._line):
            return math.inf if again == math.inf else max(0.0, again - now)
        return max(0.0, min(again, self._heard + self._ping_interval) - now)


class Subscriber:
    """Starts with the first waiter; reconnects, resubscribes and lets everybody look again, by itself.

    Args:
        open_stream: Makes a connection within so many seconds, or raises a ``Failure``.
        start: Runs :meth:`run` in a thread or task of its own.
        runtime: The world.
        config: The client's settings.
        wakeups: Whom messages are for.
        emit: Who wants to know of the connection.
        line: Which channels are heard here; ``None``: all.
        sharded: Whether messages are those of a cluster's shards.
        find_again: Sees to it that channels which went astray are heard where they belong.
        follow: Asks whether the server is the right one still, and calls :meth:`move` if not; see ``Link.follow``.
    """

    def __init__(
        self,
        open_stream: Callable[[float], Awaitable[Stream]],
        start: Callable[[Subscriber], None],
        runtime: Runtime,
        config: Config,
        wakeups: Wakeups,
        emit: Callable[[Event], None],
        *,
        line: Line | None = None,
        sharded: bool = False,
        find_again: Callable[[], Awaitable[None]] | None = None,
        follow: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self.line: Line = wakeups.line if line is None else line
        self._sharded = sharded
        self._find_again = find_again
        self._follow = follow
        self._moves = 0  # So often it was told to hear messages elsewhere.
        self._open_stream = open_stream
        self._start = start
        self._now = runtime.now
        self._inside = runtime.inside
        self._config = config
        self._wakeups = wakeups
        self._emit = emit
        # Orders what is sent: a farewell to a channel must not overtake, or be overtaken by, its next subscription.
        self._sending = runtime.mutex()
        self._bell = runtime.ticket()
        self._stream: Stream | None = None
        self._conversation: Conversation | None = None
        self._started = False
        self._failed = 0
        self.closed: bool = False

    def subscribe(self, channel: str) -> None:
        """Send for a channel's messages, now or as soon as there is a connection.

        Raises:
            LockError: A signal handler came in the middle of another command, whose bytes must not be torn apart.
        """
        if self._inside(self._sending):
            raise LockError(INTERRUPTED)
        with self._sending:
            if self.closed:
                return
            if not self._started:
                self._start(self)
                self._started = True
            if self._stream is not None and self._conversation is not None:
                try:
                    self._stream.send(self._conversation.subscribe([channel], self._now()))
                except (OSError, rx.RedisError):
                    pass  # The reader will see it, and subscribe to everything on the next connection.
                self._stream.wake()
            else:
                self._bell.ring()

    def leave(self, channel: str) -> None:
        """A channel is heard elsewhere from now on."""
        with self._sending:
            if self._stream is not None and self._conversation is not None:
                try:
                    self._stream.send(self._conversation.farewell([channel], self._now()))
                except (OSError, rx.RedisError):
                    pass  # With the connection all that was heard on it ends.

    def unsubscribe(self, channel: str) -> None:
        """A channel may have lost its last waiter: let the reader see what is due now."""
        stream = self._stream
        if stream is not None:
            stream.wake()

    def move(self) -> None:
        """The server is another by now: leave the one that is listened to, however sound the connection is."""
        with self._sending:
            self._moves += 1
            if self._stream is not None:
                self._stream.wake()
            self._bell.ring()  # Nor is a pause of use any longer.

    def close(self) -> None:
        """Let :meth:`run` end."""
        # Not within `_sending`: its holder may wait for what a call keeps that a signal handler interrupted to close.
        self.closed = True
        self._bell.ring()
        stream = self._stream
        if stream is not None:
            stream.wake()

    def abandon(self) -> None:
        """Let :meth:`run` end in the child of a fork, if it goes on there, without a word to the server."""
        self.closed = True
        self._bell.ring()

    async def run(self) -> None:
        """Hear messages until closed."""
        retry_in = RETRY_FIRST
        while not self.closed:
            moves = self._moves
            try:
                stream = await self._open_stream(min(self._config.timeout, self._config.ping_timeout))
            except Failure as failure:
                error = failure.cause
                if isinstance(failure, Rejected):
                    self._wakeups.refuse(failure, self.line)
            else:
                error = rx.ConnectionError("the subscriber's connection was lost")
                try:
                    if await self._listen(stream, moves):
                        retry_in = RETRY_FIRST
                    if self._moves != moves:
                        error = rx.ConnectionError("the subscriber was connected to a master that was replaced")
                finally:
                    with self._sending:
                        self._stream = self._conversation = None
                    stream.close()
            if not self.closed:
                self._wakeups.lost_connection(error, self.line)
                self._failed += 1
                self._emit(events.ConnectionDown(error, self._failed))
                if self._find_again is not None and self._wakeups.wanted(self.line):
                    await self._find_again()
                await self._pause(retry_in, moves)
                retry_in = min(2 * retry_in, RETRY_MAX)

    async def _pause(self, seconds: float, moves: int) -> None:
        """Pause before the next connection; without end while nobody waits for anything."""
        over = self._now() + seconds
        while not self.closed:
            wanted = bool(self._wakeups.wanted(self.line))
            left = over - self._now() if wanted else math.inf
            if left <= 0 or (wanted and self._moves != moves):
                return
            await self._bell.wait(left)

    async def _listen(self, stream: Stream, moves: int) -> bool:
        """Hear messages until the connection ends, or its server is the wrong one: it was made after so many moves.

        Returns whether it was ever of use.
        """
        useful = False
        follow_at = math.inf if self._follow is None else self._now() + ASK_AGAIN
        conversation = Conversation(
            self._wakeups,
            self.line,
            sharded=self._sharded,
            ping_interval=self._config.ping_interval,
            ping_timeout=self._config.ping_timeout,
            now=self._now(),
        )
        with self._sending:
            try:
                opening = conversation.begin(self._now())
                if opening:
                    stream.send(opening)
            except (OSError, rx.RedisError):
                return False
            self._stream, self._conversation = stream, conversation
        while not self.closed:
            now = self._now()
            found = b""
            if self._find_again is not None and conversation.astray(now):
                await self._find_again()
                now = self._now()
                found = conversation.looked_elsewhere(now)
            with self._sending:
                due = found + conversation.due(now)
                if due:
                    try:
                        stream.send(due)
                    except (OSError, rx.RedisError):
                        return useful
            if conversation.dead(now):
                return useful
            follow_in = math.inf
            if self._follow is not None and self._wakeups.wanted(self.line):
                if now >= follow_at:  # A master that was replaced, and is cut off from all who know, answers pings.
                    follow_at = self._now() + ASK_AGAIN if await self._follow() else math.inf
                    now = self._now()
                follow_in = max(0.0, follow_at - now)
            if self._moves != moves:
                return useful
            replies = await stream.read(min(conversation.next_due(now), follow_in))
            if replies is None:
                return useful
            if replies:
                if not useful:
                    useful = True
                    self._failed = 0
                    self._emit(events.ConnectionUp(len(self._wakeups.wanted(self.line))))
                conversation.heard(replies, self._now())
            del replies  # A thousand confirmations, maybe; the next message may be long in coming.
        return useful
