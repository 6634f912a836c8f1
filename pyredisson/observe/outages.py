"""Which failures and losses are worth a line at ``WARNING``: one for each outage, not one for each call.

Rules kept here, for each client, and each server that it uses:

1. The first failure begins an outage, and is logged. Those that follow are counted, and logged at ``DEBUG``.
2. It ends when the server has answered since the last failure, and none has followed for a while. One line says then
   how long it took, and how often what failed. Nothing is asked of the server to find that out: a new connection, the
   subscriber's messages, renewals and settled requests tell.
3. A server that fails again soon is believed later each time: the while doubles. So there are at most five lines
   in ten seconds, whatever happens and however many threads call.
4. Losses are reported at once, and to each holder, by events and callbacks. Of many, one after the other, the first
   is logged, and then lines that come more and more rarely name the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore

#: Seconds without a failure after which an outage has ended, or other losses are logged: at first, and at most.
QUIET_AT_FIRST = 2.0
QUIET_AT_MOST = 60.0

#: How many locks one line names.
NAMED = 20


class DoublingPause:
    """A time to wait that doubles each time, until it was not needed for :data:`QUIET_AT_MOST`."""

    def __init__(self) -> None:
        self._seconds = QUIET_AT_FIRST / 2
        self._used = 0.0

    def next(self, now: float) -> float:
        """Return the seconds to wait this time."""
        again = now - self._used < self._seconds + QUIET_AT_MOST and self._used > 0
        self._seconds = min(self._seconds * 2, QUIET_AT_MOST) if again else QUIET_AT_FIRST
        self._used = now
        return self._seconds


class Outage:
    """What one server has failed to do, from the first failure on.

    Attributes:
        counts: How often what failed.
    """

    def __init__(self, now: float, quiet: float) -> None:
        self.counts: Counter[str] = Counter()
        self._began = self._failed = now
        self._answered = -1.0
        self._quiet = quiet

    def failed(self, what: str, now: float) -> None:
        """Count a failure."""
        self.counts[what] += 1
        self._failed = now

    def answered(self, now: float) -> None:
        """Note that the server has answered."""
        if self._answered <= self._failed:
            self._answered = now

    def over(self, now: float) -> float | None:
        """Return how long it took, if it has ended; ``None`` if it goes on."""
        if self._answered <= self._failed or now < self._failed + self._quiet:
            return None
        return self._answered - self._began

    def summary(self) -> str:
        """Say how often what failed."""
        return ", ".join(f"{what} {count} time{'s' * (count > 1)}" for what, count in self.counts.items())


class Outages:
    """The outages of the servers of one client, and the losses that are to be logged together.

    Args:
        core: The client.
        ended: Logs that the outage of a server has ended: which, after how many seconds, and what failed.
        lost: Logs losses, each a lock and its owner, in one line, and within how many seconds.
    """

    def __init__(
        self,
        core: ClientCore,
        ended: Callable[[str, float, str], None],
        lost: Callable[[list[tuple[str, str]], float], None],
    ) -> None:
        self._core = core
        self._now = core.runtime.now
        self._ended = ended
        self._lost = lost
        self._begin()
        core.on_begin.append(self._begin)

    def _begin(self) -> None:
        self._mutex = self._core.runtime.mutex()
        self._open: dict[str, Outage] = {}
        self._paces: dict[str, DoublingPause] = {}
        self._losses: list[tuple[str, str]] | None = None
        self._loss_pace = DoublingPause()
        self._core.when_closed[self._tell_losses] = None

    def begins(self, server: str, what: str) -> bool:
        """Count a failure of a server. Returns whether an outage begins with it."""
        now = self._now()
        with self._mutex:
            outage = self._open.get(server)
            if new := outage is None:
                pace = self._paces.setdefault(server, DoublingPause())
                outage = self._open[server] = Outage(now, pace.next(now))
            outage.failed(what, now)
        if new:
            self._do_later(self._check, QUIET_AT_FIRST / 2)
        return new

    def any(self) -> bool:
        """Whether a server is in an outage."""
        return bool(self._open)

    def answered(self, server: str) -> None:
        """Note that a server has answered."""
        with self._mutex:
            if (outage := self._open.get(server)) is not None:
                outage.answered(self._now())

    def is_first_loss(self, lock: str, owner: str) -> bool:
        """Note a loss. Returns whether it is to be logged now; else it is logged with others, soon."""
        with self._mutex:
            if self._losses is not None:
                self._losses.append((lock, owner))
                return False
            self._losses = []
        self._tell_losses_later()
        return True

    def _tell_losses_later(self) -> None:
        self._loss_seconds = self._loss_pace.next(self._now())

        async def tell() -> None:
            self._tell_losses()

        try:
            if self._core.closed:  # It has no background any more.
                self._core.runtime.call_later(self._loss_seconds, self._tell_losses)
            else:
                self._do_later(tell, self._loss_seconds)
        except RuntimeError:
            pass  # As in _do_later().

    def _tell_losses(self) -> None:
        with self._mutex:
            losses, self._losses = self._losses, None
            if losses:
                self._losses = []
        if losses:
            self._lost(losses, self._loss_seconds)
            self._tell_losses_later()

    async def _check(self) -> None:
        now = self._now()
        over = []
        with self._mutex:
            for name, outage in list(self._open.items()):
                if (seconds := outage.over(now)) is not None:
                    over.append((name, seconds, self._open.pop(name)))
        for name, seconds, outage in over:
            self._ended(name, seconds, outage.summary())
        if self._open and not self._core.closed:
            self._do_later(self._check, QUIET_AT_FIRST / 2)

    def _do_later(self, work: Callable[[], Coroutine[Any, Any, object]], seconds: float) -> None:
        try:
            now = self._now()
            self._core.watchdog.do_later(work, now + 10 * QUIET_AT_MOST, now + seconds)
        except RuntimeError:
            pass  # The event loop is gone, or no thread can be started: then no line tells the end.
