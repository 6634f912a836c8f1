"""Leader elections, for asyncio."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, final

from pyredisson._asyncio.hold import Hold, in_running_loop
from pyredisson._core.deadline import wait_seconds
from pyredisson._core.failures import is_contained
from pyredisson._shared.arguments import NotPortable, no_event_loop
from pyredisson._shared.callback import check_callback
from pyredisson._shared.client import Handle
from pyredisson._shared.election import AnyCampaign, AnyCandidacy, AnyTerm, check_awaitable, not_awaitable, observe

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson._core.deadline import Seconds
    from pyredisson._kinds.election import ElectionCore
    from pyredisson.holders import Holder
    from pyredisson.lease import AsyncLease as Lease


@final
class LeaderElection(Handle):
    """One of several processes leads; when it ends or resigns, another one does. Made by
    :meth:`Redisson.get_leader_election`.

    Each term has a token that is greater than those of all terms before: pass it to what the leader changes. Two never
    lead at once within the certain time of their terms (:meth:`Lease.remaining`).

    Example::

        election = client.get_leader_election("scheduler")
        async with election.term() as term:
            print("leading with token", term.token)
    """

    __slots__ = ()

    _core: ElectionCore

    def term(self, wait_time: Seconds | None = None) -> Hold[Lease[int]]:
        """Return a context manager that leads for its block: a :class:`Lease` with the token of the term.

        Example::

            async with election.term(wait_time=60) as term:
                term.ensure_held()

        Args:
            wait_time: Seconds to wait at most to be elected. ``None``: wait without a time limit.

        Raises:
            LockTimeoutError: On entering: it was not elected in time.
            LockLostError: On leaving: it led no longer, as after a pause longer than the watchdog's timeout.
        """
        return Hold(self, wait_time, None, False, False)

    async def run(self, callback: Callable[[Term], Awaitable[object]]) -> None:
        """Stand for election, and call ``callback(term)`` while leading, again and again, until Ctrl-C ends it.

        A cancellation of its task, and :meth:`Redisson.close`, end it, too. When the callback returns, it resigns and
        stands again. It has to return soon after :meth:`Term.wait` has; it is never called again before. What it raises
        ends this and is raised, once it has resigned. To stand in a task of its own, use :meth:`start`.

        Example::

            async def lead(term: Term) -> None:
                while not await term.wait(1.0):
                    print("leading with token", term.token)

            await election.run(lead)
        """
        candidacy = self._candidacy(callback, ends_on_error=True)
        await candidacy.stand()
        if candidacy.error is not None:
            raise candidacy.error

    def start(self, callback: Callable[[Term], Awaitable[object]]) -> Campaign:
        """Stand for election in a task, and call ``callback(term)`` there while leading, again and again.

        As :meth:`run`, but what the callback raises is logged, and it stands again.

        Example::

            async with election.start(lead):
                ...  # what else the program does

        Returns:
            The campaign, which ends with its block, or by :meth:`Campaign.stop`.
        """
        return Campaign(self._candidacy(callback))

    def _candidacy(self, callback: Callable[[Term], Awaitable[object]], *, ends_on_error: bool = False) -> _Candidacy:
        self._core.client.check_open()
        check_callback("callback", callback, "the term")
        check_awaitable(callback)
        return _Candidacy(self, callback, ends_on_error)

    async def leader(self) -> Holder | None:
        """Return who leads, as far as the server knows within a moment; ``None`` if no one does.

        Example::

            print(await election.leader())

        Raises:
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        return await self._core.leader()

    def observe(self, callback: Callable[[Holder | None], object]) -> Observation:
        """Call ``callback(leader)`` in a task now, and whenever another one leads, or no one.

        That is at once for one that is elected or resigns. For one that died, it is when another one is elected, or
        within ten seconds of the end of its lease.

        Example::

            observation = election.observe(print)
        """
        self._core.client.check_open()
        check_callback("callback", callback, "the leader", awaited=False)
        return Observation(self, callback)


@final
class Term(AnyTerm):
    """A time of leadership, for the callback of :meth:`LeaderElection.run` and :meth:`~LeaderElection.start`.

    The callback is cancelled when it has to return, wherever it waits.

    Example::

        async def lead(term: Term) -> None:
            while not await term.wait(1.0):
                print("leading with token", term.token)
    """

    def __init__(self, lease: Lease[int]) -> None:
        self._ends = asyncio.Event()
        self._work: asyncio.Future[Any] | None = None
        super().__init__(lease, in_running_loop(self._ends.set))

    async def wait(self, seconds: Seconds | None = None) -> bool:
        """Sleep until the callback has to return, for at most ``seconds``, and return whether it has to.

        It has to when leadership was lost, and when the campaign is to stop or to resign.

        Example::

            async def lead(term: Term) -> None:
                while not await term.wait(1.0):
                    print("leading")
        """
        left = wait_seconds(seconds, "seconds")
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._ends.wait(), left)
        return self._ends.is_set()

    def _end(self) -> None:
        self._ends.set()
        if self._work is not None:
            self._work.cancel()


#: An event loop does not keep its tasks alive.
_running: set[asyncio.Task[None]] = set()


def _start(work: Callable[[], Coroutine[Any, Any, None]], name: str) -> asyncio.Task[None]:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise no_event_loop() from None
    task = loop.create_task(work(), name=name)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task


def _ends(error: BaseException) -> bool:
    """Whether an error ends the task in which it is raised."""
    return isinstance(error, asyncio.CancelledError) or not is_contained(error)


async def _pause(seconds: float) -> bool:
    """Pause. A task is stopped by its cancellation."""
    await asyncio.sleep(seconds)
    return False


async def _lead(callback: Callable[[Term], Awaitable[object]], term: Term) -> BaseException | None:
    """Await the callback. Returns what it raised: ``SystemExit`` would end the event loop if its task raised it."""
    try:
        work: object = callback(term)
        if not inspect.isawaitable(work):
            raise not_awaitable(callback)
        await work
    except BaseException as error:
        if _ends(error):
            raise
        return error
    return None


async def _until_returned(term: Term, work: asyncio.Future[Any]) -> None:
    """Ask the callback to return, and wait until it has, however often its campaign is cancelled meanwhile."""
    cancelled: asyncio.CancelledError | None = None
    while not work.done():
        term._end()
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


@final
class _Candidacy(AnyCandidacy):
    """Stands for election in the task that awaits :meth:`stand`.

    The callback has a task of its own, which can be cancelled alone.
    """

    term: Term | None = None
    _ends = staticmethod(_ends)

    async def _ended_within(self, seconds: float) -> bool:
        if not self.ended:
            await asyncio.sleep(seconds)
        return self.ended

    async def _stand_once(self) -> bool:
        hold: Hold[Lease[int]] = Hold(self._election, None, None, False, True)
        async with hold as lease:
            self.term = term = Term(lease)
            try:
                term._work = work = asyncio.ensure_future(_lead(self._callback, term))
                try:
                    # No one notifies it of a loss after its client was closed.
                    while not work.done() and (left := term.remaining()) > 0.0:
                        await asyncio.wait([work], timeout=min(left, 1.0))
                finally:
                    await _until_returned(term, work)
            finally:
                self.term = None
            error = None if work.cancelled() else work.exception() or work.result()
            if error is not None:
                self._callback_raised(error)
        return error is None


@final
class Campaign(AnyCampaign):
    """Stands for election until it is stopped. Made by :meth:`LeaderElection.start`.

    ``await campaign`` waits until it has ended, as :meth:`join` does.

    Example::

        async with election.start(lead) as campaign:
            print(campaign.leading)
    """

    def __init__(self, candidacy: _Candidacy) -> None:
        self._task = _start(candidacy.stand, f"election {candidacy.name}")
        self._candidacy = candidacy

    def _has_ended(self) -> bool:
        return self._task.done()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    async def resign(self) -> None:
        """Ask the callback to return; then others may lead, and this campaign stands again.

        Example::

            async with election.start(lead) as campaign:
                await campaign.resign()
        """
        self._candidacy.resign()

    async def stop(self, timeout: Seconds | None = None) -> bool:
        """Stand no longer, ask the callback to return, and wait until it has, for at most ``timeout`` seconds.

        Example::

            campaign = election.start(lead)
            await campaign.stop(timeout=10)

        Returns:
            Whether it has returned, so that this campaign leads no longer.
        """
        left = wait_seconds(timeout, "timeout")
        self._candidacy.ended = True
        self._task.cancel()
        return await self.join(left)

    async def join(self, timeout: Seconds | None = None) -> bool:
        """Wait until the campaign has ended, for at most ``timeout`` seconds: it was stopped, or its client was closed.

        Example::

            campaign = election.start(lead)
            print(await campaign.join(timeout=1))  # False: it goes on

        Returns:
            Whether it has ended.
        """
        await asyncio.wait([self._task], timeout=wait_seconds(timeout, "timeout"))
        return self._task.done()

    def __await__(self) -> Generator[Any, None, bool]:
        return self.join().__await__()


@final
class Observation(NotPortable):
    """Notifies a callback of who leads until it is stopped. Made by :meth:`LeaderElection.observe`.

    Example::

        observation = election.observe(print)
        await observation.stop()
    """

    def __init__(self, election: LeaderElection, callback: Callable[[Holder | None], object]) -> None:
        self._task = _start(partial(observe, election, callback, _pause, _ends), f"observer {election.name}")

    async def stop(self) -> None:
        """Do not call the callback any more.

        Example::

            observation = election.observe(print)
            await observation.stop()
        """
        self._task.cancel()
