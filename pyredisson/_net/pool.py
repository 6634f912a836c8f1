"""Which connection a request takes, which of them stay, and how long one may take to be made.

A connection is made in the background, within ``Config.connect_timeout``. A request waits for it as long as it has
time itself; the next request goes on waiting for the same one, so that a slow server is not asked again and again.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

import redis.exceptions as rx

from pyredisson._core.failures import Connecting, NotSent
from pyredisson.errors import ClientClosedError

if TYPE_CHECKING:
    from pyredisson._net.wire import Connect, Dial, Dialler, Wire

#: A connection that has been idle for longer is looked at before it is used: its server may have closed it.
FRESH = 1.0

#: Beyond this many, connections that have been idle for so long (seconds) are closed when another one comes back.
KEEP_IDLE = 8
IDLE_FOR = 60.0

#: After this share of its time a connection that is still being made has company: its packets may have been lost.
PATIENCE = 0.25


class Pool:
    """Connections to one server that carry one request at a time: the one used last is taken first.

    Args:
        dialler: Makes them.
        connect: Makes one, within a timeout in seconds.
        connect_timeout: How long that may take.

    Attributes:
        idle: Those on which nothing is under way; the one used last is the last.
    """

    limited = True

    def __init__(self, dialler: Dialler, connect: Connect, connect_timeout: float) -> None:
        self._dialler = dialler
        self._now = dialler.now
        self._make = connect
        self._connect_timeout = connect_timeout
        self.idle: list[Wire] = []
        self._dials: list[Dial] = []  # Those that no request waits for.
        self._closed = False

    def get(self) -> Wire | None:
        """Take a connection; ``None`` if none is idle."""
        idle = self.idle
        while True:
            try:
                wire = idle.pop()
            except IndexError:
                return None
            if self._now() - wire.used <= FRESH or wire.usable():
                return wire
            wire.close()

    def put_back(self, wire: Wire) -> Awaitable[object] | None:
        """Let others have a connection on which nothing is under way. Returns what to await for that, if anything."""
        wire.used = self._now()
        self.idle.append(wire)
        if self._closed or len(self.idle) > KEEP_IDLE:
            self.tidy()
        return None

    def tidy(self) -> None:
        """Close one of those that were not used for long; any, once the pool is closed."""
        idle = self.idle
        if self._closed or (len(idle) > KEEP_IDLE and self._now() - idle[0].used > IDLE_FOR):
            self._trim()

    def discard(self, wire: Wire) -> None:
        """Close a connection whose request failed: what comes on it later would be taken for the next reply."""
        wire.close()

    def leave(self, wire: Wire | None = None) -> None:
        """Let go of a connection to a server that is the wrong one by now, and of all that are idle."""
        if wire is not None:
            wire.retire()
        idle, self.idle[:] = list(self.idle), []
        for each in idle:
            each.retire()

    async def connect(self, timeout: float) -> Wire:
        """Wait for a new connection.

        Raises:
            Connecting: It was not made within ``timeout``, and is still being made; or its server has closed it again.
            NotSent, Rejected: It could not be made, or this is the child of a fork now.
        """
        until = self._now() + timeout
        idle = self.idle
        for _ in range(2):
            while self.limited and not await self._dialler.room(until - self._now()):
                if (wire := self.get()) is not None:
                    return wire
            dial = self.dial()
            try:
                over = await dial.wait(max(0.0, until - self._now()))
            finally:
                self.leave_dial(dial)
            if self.idle is not idle:  # A greenlet of the parent: its request is not the child's.
                raise NotSent(rx.ConnectionError("the process was forked while the connection was made"))
            if not over:
                raise Connecting(rx.TimeoutError("no connection yet; it is still being made"))
            if dial.failure is not None:
                raise dial.failure
            if (wire := self.get()) is not None:  # Unless another caller was quicker, or its server has closed it.
                return wire
        raise Connecting(rx.ConnectionError("the connection was closed as soon as it was made, or is used already"))

    def dial(self) -> Dial:
        """Return a connection being made that is not waited for. Raises ``NotSent`` if the client was closed."""
        if self._closed:
            raise NotSent(ClientClosedError("this client was closed meanwhile"))
        while True:
            try:
                dial = self._dials.pop()
            except IndexError:
                return self._dialler.dial(self._fill)
            if not dial.done() and self._now() - dial.began < PATIENCE * self._connect_timeout:
                return dial

    def leave_dial(self, dial: Dial) -> None:
        """Wait for it no longer: it goes on, for the next one."""
        if not (dial.done() or dial in self._dials):
            self._dials.append(dial)

    async def _fill(self) -> None:
        Pool.put_back(self, await self._make(self._connect_timeout))

    def _trim(self) -> None:
        try:
            (self.idle.pop() if self._closed else self.idle.pop(0)).close()
        except IndexError:
            pass

    def close(self) -> None:
        """Close all that are idle, and each one as it comes back."""
        self._closed = True
        while self.idle:
            self._trim()

    def abandon(self) -> None:
        """Let go of all that are idle, in the child of a fork."""
        idle, self.idle = self.idle, []
        self._dials = []
        for wire in idle:
            wire.abandon()


class SharedPool(Pool):
    """The one connection that carries the requests of all at once. The arguments are those of :class:`Pool`."""

    limited = False

    def get(self) -> Wire | None:
        """Return the connection, if there is one."""
        idle = self.idle
        while idle:
            if idle[-1].usable():
                return idle[-1]
            idle.pop()
        return None

    def put_back(self, wire: Wire) -> None:
        """Do nothing: others have it already."""

    def discard(self, wire: Wire) -> None:
        """Do nothing: it recognizes late replies, and its own end from a request that failed."""

    def dial(self) -> Dial:
        """Return the connection being made: all who need it wait for the same one."""
        dial = super().dial()
        self._dials.append(dial)
        return dial

    async def _fill(self) -> None:
        wire = await self._make(self._connect_timeout)
        if self._closed or self.get() is not None:  # An earlier attempt has come to its end meanwhile.
            wire.close()
        else:
            self.idle[:] = [wire]
