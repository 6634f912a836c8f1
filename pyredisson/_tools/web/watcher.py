"""Looking at the server: one loop for all viewers, at most once an interval, and not at all while no page is open."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import final

from pyredisson._tools.sampling import Pace, in_daemon_thread
from pyredisson._tools.web.rows import History, SeenRow, SeenState, Waits, see, shorten
from pyredisson.inspection import Snapshot, describe

#: Pauses are at least this many times as long as the look before: however many keys there are, the server has a rest.
REST = 4

#: A page without events (its first seconds, or without JavaScript) counts as a viewer for that long.
LINGER_SECONDS = 5.0


@final
@dataclass(frozen=True)
class Trouble:
    """The server does not answer.

    Attributes:
        since: The Unix time of the first attempt that failed.
        error: Why the last one failed.
    """

    since: float
    error: str


@final
class Watcher:
    """The last snapshot, what changed before, and the loop that takes the next one.

    Attributes:
        seen: The last snapshot that was taken; ``None`` before the first.
        interval: Seconds from one look to the next, at least.
        always: Whether it looks without viewers, too.
        trouble: Why there is no newer one; ``None`` if the last attempt succeeded.
        history: The events of each lock.
        waits: Waits over the last hour.
        started: When this process started to look, in Unix time.
        version: Grows with each attempt.
        closing: Whether the program is about to end; streams end then.
    """

    def __init__(self, take: Callable[[], Snapshot], *, interval: float, always: bool = False) -> None:
        self._take = take
        self._pace = Pace(REST)
        self.interval: float = interval
        self.always: bool = always
        self.seen: SeenState | None = None
        self.trouble: Trouble | None = None
        self.history: History = History()
        self.waits: Waits = Waits()
        self.started: float = time.time()
        self.version: int = 0
        self.viewers: int = 0
        self.closing: bool = False
        self._known: Mapping[str, SeenRow] | None = None
        self._wanted_until, self._rests = 0.0, False
        self._looked_at = float("-inf")
        self._wanted, self._hurry, self._news = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @property
    def resting(self) -> bool:
        """Whether no one looks, and so the loop waits."""
        return self._rests

    # ---- for viewers -------------------------------------------------------------------------------------------------

    @contextmanager
    def viewing(self) -> Iterator[None]:
        """Keep the loop running for the duration of a block."""
        self.viewers += 1
        self._wanted.set()
        try:
            yield
        finally:
            self.viewers -= 1

    def look_now(self) -> None:
        """Take the next snapshot without a pause: something was changed here."""
        self._hurry.set()

    async def look_soon(self, within: float) -> None:
        """Wait until there is a snapshot that is not old, but at most ``within`` seconds."""
        if time.monotonic() - self._looked_at <= 2 * self.interval:
            return
        self._wanted_until = time.monotonic() + LINGER_SECONDS
        self._wanted.set()
        await self.news(self.version, within)

    async def news(self, version: int, within: float) -> None:
        """Wait until there is a later version than this one, or the program ends, but at most ``within`` seconds."""
        if self.version == version and not self.closing:
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._news.wait(), within)

    # ---- the loop ----------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Look at the server, again and again, until cancelled."""
        while True:
            while not (self.always or self.viewers or time.monotonic() < self._wanted_until):
                self._wanted.clear()
                self._rests = True
                await self._wanted.wait()
                self._rests = False
            began = time.monotonic()
            await self.look()
            took = time.monotonic() - began
            # A server that does not answer needs no rest, and its return is to be seen soon.
            pause = self.interval if self.trouble else max(self.interval - took, self._pace.pause_after(took))
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._hurry.wait(), pause)
            self._hurry.clear()

    async def look(self) -> None:
        """Take one snapshot and publish it, or why there is none."""
        before = self.seen
        try:
            seen = await asyncio.wrap_future(in_daemon_thread(lambda: see(self._take(), before), "pyredisson-web-look"))
        except Exception as error:
            self._fail(describe(error))
        else:
            self._accept(before, seen)
        self._looked_at = time.monotonic()
        self.publish()

    def _accept(self, before: SeenState | None, seen: SeenState) -> None:
        snapshot = seen.snapshot
        if snapshot.errors and not (snapshot.complete or snapshot.keys_seen):
            self._fail(snapshot.errors[0])  # No server replied: what was seen before is worth more.
        else:
            self._remember(before, seen)
            self.seen, self.trouble = seen, None

    def _fail(self, error: str) -> None:
        since = self.trouble.since if self.trouble else time.time()
        self.trouble = Trouble(since, shorten(error))

    def _remember(self, before: SeenState | None, seen: SeenState) -> None:
        taken = seen.snapshot.taken
        within = taken - before.snapshot.taken if before else 0.0
        after = seen.rows
        if self._known is not None and not seen.snapshot.complete:
            after = {**self._known, **after}  # What an incomplete snapshot lacks may well be there.
        self.history.compare(self._known, after, taken, within)
        self._known = after
        self.waits.add(seen.rows.values(), taken)

    def publish(self) -> None:
        """Wake all streams."""
        self.version += 1
        self._news.set()
        self._news = asyncio.Event()

    def close(self) -> None:
        """End all streams."""
        self.closing = True
        self.publish()
