"""What the elections of both forms share: terms, who stands for election, campaigns, and who observes.

``async`` means "may block" here, as in the core.
"""

from __future__ import annotations

import inspect
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from pyredisson._core import events
from pyredisson._core.failures import is_contained
from pyredisson._shared.arguments import NotPortable
from pyredisson.errors import ClientClosedError, LockLostError

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson.lease import AnyLease

_log = logging.getLogger("pyredisson")

#: Seconds after which one who stands for election, or observes one, looks whether it was stopped.
LOOK_EVERY = 10.0

#: Seconds until it goes on after an error.
PAUSE = 1.0


class AnyTerm(NotPortable, shown="Term"):
    """A time of leadership."""

    def __init__(self, lease: AnyLease[int], end: Callable[[], None]) -> None:
        self._lease = lease
        lease._when_lost(end)

    def __repr__(self) -> str:
        return f"<Term {self.token}: {'lost' if self.lost else f'{self.remaining():.3f} s'}>"

    @property
    def token(self) -> int:
        """The fencing token of this term, greater than those of all terms before."""
        return self._lease.token

    @property
    def lost(self) -> bool:
        """Whether it leads no longer, although it did not resign."""
        return self._lease.lost

    def remaining(self) -> float:
        """Return the seconds for which it is certain that it leads; renewal extends them.

        Example::

            def lead(term: Term) -> None:
                print(term.remaining())
        """
        return self._lease.remaining()

    def ensure_held(self) -> None:
        """Raise ``LockLostError`` unless it is certain at this moment that it leads.

        Example::

            def lead(term: Term) -> None:
                term.ensure_held()  # right before what only a leader may do
        """
        self._lease.ensure_held()


class AnyCandidacy(ABC):
    """Stands for election until it is ended, in the thread or task that runs :meth:`stand`.

    Attributes:
        name: The name of the election.
        term: The term, while its callback runs.
        ended: It is to end. Before Python 3.11 a cancellation may pass for that of a loss.
        error: What the callback raised, if that ends it.
    """

    term: Any = None
    ended: bool = False
    error: BaseException | None = None

    def __init__(self, election: Any, callback: Callable[[Any], Any], ends_on_error: bool) -> None:
        self._election = election
        self._callback = callback
        self._ends_on_error = ends_on_error
        self.name: str = election.name

    def resign(self) -> None:
        """Ask the callback to return."""
        if (term := self.term) is not None:
            term._end()

    def end(self) -> None:
        """Ask the callback to return, and stand no longer. Who waits to be elected is notified by its closed client."""
        self.ended = True
        self.resign()

    async def stand(self) -> None:
        """Stand for election, and lead."""
        client = self._election._core.client
        client.when_closed[self.end] = None
        pause: float | None = 0.0
        try:
            while pause is not None and not await self._ended_within(pause):
                try:
                    pause = 0.0 if await self._stand_once() else PAUSE
                except BaseException as error:
                    if self._ends(error):
                        raise
                    pause = pause_after(client, self.name, error)
        finally:
            client.when_closed.pop(self.end, None)

    def _callback_raised(self, error: BaseException) -> None:
        """Note what the callback raised."""
        if self._ends_on_error:
            self.error, self.ended = error, True
            return
        report_callback(self.name, error)
        self.ended = self.ended or isinstance(error, NotAwaitableError)

    @abstractmethod
    async def _stand_once(self) -> bool:
        """Wait to be elected, and lead. Returns whether the callback, if it was called, raised nothing."""

    @abstractmethod
    async def _ended_within(self, seconds: float) -> bool:
        """Pause. Returns whether it is to end."""

    @staticmethod
    @abstractmethod
    def _ends(error: BaseException) -> bool:
        """Return whether an error ends the thread or task in which it is raised."""


class AnyCampaign(NotPortable, shown="Campaign"):
    """Stands for election until it is stopped."""

    _candidacy: AnyCandidacy

    def __repr__(self) -> str:
        state = "stopped" if self._has_ended() else "leading" if self.leading else "standing"
        return f"<Campaign for {self._candidacy.name!r}: {state}>"

    def __del__(self) -> None:
        candidacy = getattr(self, "_candidacy", None)
        if candidacy is not None and not (candidacy.ended or self._has_ended()):
            warn_dropped(candidacy.name)

    @property
    def leading(self) -> bool:
        """Whether the callback runs, and leads."""
        term = self._candidacy.term
        return term is not None and term.remaining() > 0.0

    @abstractmethod
    def _has_ended(self) -> bool:
        """Return whether it leads no longer, and will not."""


async def observe(
    election: Any,
    callback: Callable[[Any], object],
    stopped_within: Callable[[float], Awaitable[bool]],
    ends: Callable[[BaseException], bool],
) -> None:
    """Call back with the leader of an election, now and whenever another one leads, or no one.

    Args:
        election: The election.
        callback: What to call.
        stopped_within: Pauses for some seconds. Returns whether the callback is to be called no more.
        ends: Whether an error ends the thread or task in which it is raised.
    """
    known: str | None = ""  # Neither the field of an owner, nor that there is none.
    pause: float | None = 0.0
    while pause is not None and not await stopped_within(pause):
        try:
            pause, found = 0.0, await election._core.leader_after(known, LOOK_EVERY)
            if found != known and not await stopped_within(0.0):
                leader = None if found is None else await election._core.leader()
                known = found
                _call_observer(election.name, callback, leader)
        except BaseException as error:
            if ends(error):
                raise
            pause = pause_after(election._core.client, election.name, error)


def _call_observer(name: str, callback: Callable[[Any], object], leader: object) -> None:
    try:
        callback(leader)
    except BaseException as error:
        if not is_contained(error):
            raise
        report_callback(name, error)


def check_awaitable(callback: Callable[..., object]) -> None:
    """Raise ``TypeError`` for a callback that says of itself that it cannot be awaited."""
    plain = not any(map(inspect.iscoroutinefunction, (callback, inspect.unwrap(callback))))
    if plain and getattr(callback, "__annotations__", {}).get("return", ...) in (None, "None"):
        raise not_awaitable(callback)


def not_awaitable(callback: object) -> NotAwaitableError:
    """Return the error for a callback that cannot be awaited."""
    return NotAwaitableError(f"callback must be a coroutine function, which {callback!r} is not: write `async def`")


class NotAwaitableError(TypeError):
    """A callback that is to be awaited has returned what cannot be."""


def report_callback(name: str, error: BaseException) -> None:
    """Log the error of a callback."""
    _log.error("pyredisson: the callback of the election %r failed", name, exc_info=error)


def warn_dropped(name: str) -> None:
    """Log that no one can stop a campaign any more."""
    if not sys.is_finalizing():
        _log.warning(
            "pyredisson: the campaign for the election %r was dropped, and goes on until its client is closed: keep "
            "what start() returns, use it in a with block, or call run(), which blocks",
            name,
        )


def pause_after(client: ClientCore, name: str, error: BaseException) -> float | None:
    """Return for how many seconds one who stands or observes pauses after an error; ``None``: its client was closed."""
    if isinstance(error, ClientClosedError):
        return None
    if not isinstance(error, LockLostError):  # The client has reported a loss.
        client.emit(events.CampaignFailed(name, error))
    return 0.0 if isinstance(error, LockLostError) else PAUSE
