"""The client's one subscriber thread: it hears the messages of all channels, on one connection."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

import redis.exceptions as rx

from pyredisson.core import events
from pyredisson.core.runtime import Failure, Refused
from pyredisson.pubsub import Conversation

if TYPE_CHECKING:
    from pyredisson.config import Config
    from pyredisson.core.events import Event
    from pyredisson.core.wakeups import Wakeups
    from pyredisson.threads.connections import Link, Stream

__all__ = ["Subscriber"]

RETRY_FIRST = 0.05
RETRY_MAX = 1.0


class Subscriber:
    """Starts with the first waiter; reconnects, resubscribes and lets everybody look again, by itself."""

    def __init__(
        self,
        link: Link,
        wakeups: Wakeups,
        config: Config,
        now: Callable[[], float],
        emit: Callable[[Event], None],
    ) -> None:
        self._link = link
        self._wakeups = wakeups
        self._config = config
        self._now = now
        self._emit = emit
        # Orders what is sent: a farewell to a channel must not overtake, or be overtaken by, its next subscription.
        self._sending = threading.Lock()
        self._stream: Stream | None = None
        self._conversation: Conversation | None = None
        self._thread: threading.Thread | None = None
        self._wanted = threading.Event()
        self._closed = False

    def subscribe(self, channel: str) -> None:
        """Send for a channel's messages, now or as soon as there is a connection."""
        with self._sending:
            if self._closed:
                return
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="pyredisson-subscriber", daemon=True)
                self._thread.start()
            if self._stream is not None and self._conversation is not None:
                try:
                    self._stream.send(self._conversation.subscribe([channel], self._now()))
                except (OSError, rx.RedisError):
                    pass  # The reader will see it, and subscribe to everything on the next connection.
                self._stream.wake()
            self._wanted.set()

    def unsubscribe(self, channel: str) -> None:
        """Say farewell to a channel in a while, if nobody comes back to it."""
        stream = self._stream
        if stream is not None:
            stream.wake()

    def close(self) -> None:
        """End the thread and its connection."""
        with self._sending:
            self._closed = True
            self._wanted.set()
            if self._stream is not None:
                self._stream.wake()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(2.0)

    def _run(self) -> None:
        retry_in = RETRY_FIRST
        while not self._closed:
            try:
                stream = self._link.stream(min(self._config.timeout, self._config.ping_timeout))
            except Failure as failure:
                self._down(failure)
                self._wait(retry_in)
                retry_in = min(2 * retry_in, RETRY_MAX)
                continue
            try:
                if self._listen(stream):
                    retry_in = RETRY_FIRST
            finally:
                with self._sending:
                    self._stream = self._conversation = None
                stream.close()
            if not self._closed:
                self._wakeups.lost_connection(rx.ConnectionError("the subscriber's connection was lost"))
                self._emit(events.ConnectionDown(rx.ConnectionError("the subscriber's connection was lost")))
                self._wait(retry_in)
                retry_in = min(2 * retry_in, RETRY_MAX)

    def _down(self, failure: Failure) -> None:
        self._emit(events.ConnectionDown(failure.cause))
        if isinstance(failure, Refused):
            self._wakeups.refuse(failure)
        else:
            self._wakeups.lost_connection(failure.cause)

    def _wait(self, seconds: float) -> None:
        """Pause before the next connection; without end while nobody waits for anything."""
        self._wanted.clear()
        if self._wakeups.wanted():
            self._wanted.wait(seconds)
        else:
            self._wanted.wait()

    def _listen(self, stream: Stream) -> bool:
        """Hear messages until the connection ends. Returns whether it was ever of use."""
        useful = False
        conversation = Conversation(
            self._wakeups,
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
        while not self._closed:
            now = self._now()
            with self._sending:
                due = conversation.due(now)
                if due:
                    try:
                        stream.send(due)
                    except (OSError, rx.RedisError):
                        return useful
            if conversation.dead(now):
                return useful
            replies = stream.read(conversation.next_due(now))
            if replies is None:
                return useful
            if replies:
                if not useful:
                    useful = True
                    self._emit(events.ConnectionUp(len(self._wakeups.wanted())))
                conversation.heard(replies, self._now())
        return useful
