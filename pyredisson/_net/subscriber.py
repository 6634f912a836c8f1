"""A subscriber: it receives the messages of all channels, on one connection. On a cluster there is one for each node.

Written once for threads and asyncio, as the core is: ``async`` means "may block". A thread runs it through
:func:`pyredisson._core.runtime.run`, an event loop as a task.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

import redis.exceptions as rx

from pyredisson._core import events
from pyredisson._core.failures import Failure, Rejected
from pyredisson._core.messages import INTERRUPTED
from pyredisson._net.conversation import RETRY, Conversation
from pyredisson._net.sentinel import ASK_AGAIN
from pyredisson.errors import LockError

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.subscriptions import SubscriberConnection
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
        self._bell = client.runtime.ticket()
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
        self._bell.ring()

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
        self._bell.ring()

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
            await self._bell.wait(left)

    async def _listen(self, stream: Stream, moves: int) -> None:
        """Hear messages until the connection ends, or its server is the wrong one: ``moves`` counts those before it."""
        useful = False
        follow_at = math.inf if self._follow is None else self._now() + ASK_AGAIN
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
                    follow_at = self._now() + ASK_AGAIN if await self._follow() else math.inf
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
