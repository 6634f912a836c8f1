"""A subscriber: it receives the messages of all channels, on one connection. On a cluster there is one for each node.

Written once for threads and asyncio, as the core is: ``async`` means "may block". A thread runs it through
:func:`pyredisson._core.runtime.run`, an event loop as a task.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import redis.exceptions as rx

from pyredisson._core import events
from pyredisson._core.deadline import RETRY
from pyredisson._core.failures import INTERRUPTED, Failure, NotSent, Rejected
from pyredisson._net.topology import QUERY_AGAIN
from pyredisson._net.wire import LEAVES, failure_of, pack
from pyredisson.errors import LockError

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.subscriptions import SubscriberConnection, Subscriptions
    from pyredisson._net.link import Stream


class Subscriber:
    """Starts with the first waiter; reconnects, resubscribes and lets everybody look again, by itself.

    Args:
        open_stream: Makes a connection within a timeout in seconds, or raises a ``Failure``.
        start: Runs :meth:`run` in a thread or task of its own.
        client: The client whose waiters the messages are for.
        connection: Which channels are received here; ``None``: all.
        sharded: Whether messages are those of a cluster's shards.
        find_again: Sees to it that displaced channels are received where they belong.
        follow: Asks whether the server is the right one still, and calls :meth:`move` if not.
        server: The node of a cluster, for events; see :class:`pyredisson.events.ConnectionDown`.
    """

    def __init__(
        self,
        open_stream: Callable[[float], Awaitable[Stream]],
        start: Callable[[Subscriber], None],
        client: ClientCore,
        *,
        connection: SubscriberConnection | None = None,
        sharded: bool = False,
        find_again: Callable[[], Awaitable[None]] | None = None,
        follow: Callable[[], Awaitable[bool]] | None = None,
        server: str = "",
    ) -> None:
        # The present ones: the child of a fork has others.
        self._subscriptions = client.subscriptions
        self.connection: SubscriberConnection = connection or self._subscriptions.connection
        self._sharded = sharded
        self._find_again = find_again
        self._follow = follow
        self._server = server
        self._moves = 0  # How often it had to hear messages elsewhere.
        self._open_stream = open_stream
        self._start = start
        self._now = client.runtime.now
        self._inside = client.runtime.inside
        self._config = client.config
        self._emit = client.emit
        # Orders what is sent: a farewell to a channel must not overtake, or be overtaken by, its next subscription.
        self._sending = client.runtime.mutex()
        self._ticket = client.runtime.ticket()
        self._open: tuple[Stream, Conversation] | None = None
        self._started = False
        self._failed = 0
        self.closed: bool = False

    def subscribe(self, channel: str) -> None:
        """Send for a channel's messages, now or as soon as there is a connection.

        Raises:
            LockError: A signal handler is in the middle of another command, whose bytes must stay together.
        """
        if self._inside(self._sending):
            raise LockError(INTERRUPTED)
        with self._sending:
            if self.closed:
                return
            if not self._started:
                self._start(self)
                self._started = True
            if self._open is not None:
                stream, conversation = self._open
                _sent(stream, conversation.subscribe([channel], self._now()))
            self._wake()

    def leave(self, channel: str) -> None:
        """A channel is received elsewhere from now on."""
        with self._sending:
            if self._open is not None:
                stream, conversation = self._open
                _sent(stream, conversation.farewell([channel], self._now()))

    def unsubscribe(self, channel: str) -> None:
        """A channel may have lost its last waiter: let the reader see what is due now."""
        self._wake()

    def _wake(self) -> None:
        """Let :meth:`run` go on, whether it reads or pauses."""
        open_ = self._open
        if open_ is not None:
            open_[0].wake()
        self._ticket.notify()

    def move(self) -> None:
        """The server is another by now: leave the one that is listened to, however sound the connection is."""
        with self._sending:
            self._moves += 1
            self._wake()

    def close(self) -> None:
        """Let :meth:`run` end."""
        # Not within `_sending`: its holder may wait for what a call keeps that a signal handler interrupted to close.
        self.closed = True
        self._wake()

    def abandon(self) -> None:
        """Let :meth:`run` end in the child of a fork, if it goes on there, without a word to the server."""
        self.closed = True
        self._ticket.notify()

    async def run(self) -> None:
        """Hear messages until closed."""
        while not self.closed:
            moves = self._moves
            try:
                error = await self._connect_and_listen(moves)
            except Exception as surprise:  # Without its subscriber a client's waiters learn of nothing any more.
                error = surprise
            if not self.closed:
                self._subscriptions.lost_connection(error, self.connection)
                self._failed += 1
                self._emit(events.ConnectionDown(error, self._failed, self._server))
                if self._find_again is not None and self.connection.channels:
                    with suppress(Exception):  # It is searched for anew after each failure.
                        await self._find_again()
                await self._pause(RETRY.longest(self._failed - 1), moves)

    async def _connect_and_listen(self, moves: int) -> Exception:
        """Hear messages on one connection. Returns why there is none, or why it has ended."""
        try:
            stream = await self._open_stream(min(self._config.timeout, self._config.ping_timeout))
        except Failure as failure:
            if isinstance(failure, Rejected):
                self._subscriptions.refuse(failure, self.connection)
            return failure.cause
        try:
            await self._listen(stream, moves)
        finally:
            with self._sending:
                self._open = None
            stream.close()
        if self._moves != moves:
            return rx.ConnectionError("the subscriber was connected to a master that was replaced")
        return rx.ConnectionError("the subscriber's connection was lost")

    async def _pause(self, seconds: float, moves: int) -> None:
        """Pause before the next connection; without end while there is no waiter."""
        over = self._now() + seconds
        while not self.closed:
            wanted = bool(self.connection.channels)
            left = over - self._now() if wanted else math.inf
            if left <= 0 or (wanted and self._moves != moves):
                return
            await self._ticket.wait(left)

    async def _listen(self, stream: Stream, moves: int) -> None:
        """Hear messages until the connection ends, or its server is the wrong one: ``moves`` counts those before it."""
        useful = False
        follow_at = math.inf if self._follow is None else self._now() + QUERY_AGAIN
        conversation = self._begin(stream)
        while conversation is not None and not self.closed:
            now = self._now()
            found = b""
            if conversation.searches(now):
                if self._find_again is not None:
                    await self._find_again()
                    now = self._now()
                found = conversation.searched_elsewhere(now)
            with self._sending:
                if not _sent(stream, found + conversation.due(now)):
                    break
            if conversation.left or conversation.dead(now):
                break
            follow_in = math.inf
            if self._follow is not None and self.connection.channels:
                if now >= follow_at:  # A master that was replaced, and is cut off from all who know, answers pings.
                    follow_at = self._now() + QUERY_AGAIN if await self._follow() else math.inf
                    now = self._now()
                follow_in = max(0.0, follow_at - now)
            if self._moves != moves:
                break
            replies = await stream.read(min(conversation.next_due(now), follow_in))
            if replies is None:
                break
            if replies:
                conversation.heard(replies, self._now())
                if not (useful or conversation.left):
                    useful = True
                    self._failed = 0
                    self._emit(events.ConnectionUp(len(self._subscriptions.wanted(self.connection)), self._server))
            del replies  # A thousand confirmations, maybe; the next message may be long in coming.

    def _begin(self, stream: Stream) -> Conversation | None:
        """Subscribe, on a new connection, to all that is wanted. ``None``: it has ended already."""
        conversation = Conversation(
            self._subscriptions,
            self.connection,
            sharded=self._sharded,
            ping_interval=self._config.ping_interval,
            ping_timeout=self._config.ping_timeout,
            now=self._now(),
        )
        with self._sending:
            if not _sent(stream, conversation.begin(self._now())):
                return None
            self._open = stream, conversation
        return conversation


def _sent(stream: Stream, command: bytes) -> bool:
    """Send what there is to send. Returns whether the connection stands: its reader sees its end, too."""
    try:
        if command:
            stream.send(command)
    except (OSError, rx.RedisError):
        return False
    return True


# ---- conversation ----------------------------------------------------------------------------------------------------
# One connection of a subscriber: what is sent and received on it, from its first SUBSCRIBE to its end.


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
        self._sent_at: float | None = None
        self.left: bool = False
        self._unanswered: deque[str] = deque()  # The channel of each command that subscribes, in order.
        self._leaving: set[str] = set()  # The channels of farewells without an answer.

    def begin(self, now: float) -> bytes:
        """The command to open with: subscribe to all that is wanted."""
        channels = self._subscriptions.wanted(self._connection)
        return self.subscribe(channels, now) if channels else b""

    def subscribe(self, channels: list[str], now: float) -> bytes:
        """The commands that subscribe."""
        self._sent_at = self._sent_at if self._sent_at is not None else now
        self._unanswered.extend(channels)
        self._leaving.difference_update(channels)
        word = "SSUBSCRIBE" if self._sharded else "SUBSCRIBE"
        return b"".join([pack(word, channel) for channel in channels])

    def farewell(self, channels: list[str], now: float) -> bytes:
        """The command that unsubscribes."""
        self._sent_at = self._sent_at if self._sent_at is not None else now
        self._leaving.update(channels)
        if not self._sharded:
            return pack("UNSUBSCRIBE", *channels)
        return b"".join([pack("SUNSUBSCRIBE", channel) for channel in channels])

    def heard(self, replies: list[Any], now: float) -> None:
        """Process what was received."""
        self._heard = now
        self._sent_at = None
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
        if self._sent_at is None and now >= self._heard + self._ping_interval and self._connection.channels:
            self._sent_at = now
            out = pack("PING")
        return self.farewell(gone, now) + out if gone else out

    def dead(self, now: float) -> bool:
        """Whether the server has been silent for too long."""
        return self._sent_at is not None and now >= self._sent_at + self._ping_timeout  # As next_due() counts it.

    def next_due(self, now: float) -> float:
        """Seconds until something may be due."""
        again = min(self._subscriptions.idle_due(self._connection), self._search_at)
        if self._sent_at is not None:
            return max(0.0, min(again, self._sent_at + self._ping_timeout) - now)
        if not self._connection.channels:
            return math.inf if again == math.inf else max(0.0, again - now)
        return max(0.0, min(again, self._heard + self._ping_interval) - now)


def _may_be_said_again(error: rx.RedisError) -> bool:
    return str(error).startswith("ASK ") or isinstance(failure_of(error), NotSent)
