"""Leader elections, for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, final

from pyredisson._asyncio.hold import Hold
from pyredisson._core.failures import is_contained
from pyredisson._shared.arguments import NotPortable
from pyredisson._shared.client import AnyTerm, Handle
from pyredisson._shared.runtime import (
    LOOK_EVERY,
    PAUSE,
    call_observer,
    check_callback,
    pause_after,
    report_callback,
    warn_dropped,
)

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
        check_callback(callback, awaited=True)
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
        check_callback(callback)
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
        super().__init__(lease, self._ends.set)

    async def wait(self, seconds: float | None = None) -> bool:
        """Sleep until the callback has to return, for at most ``seconds``, and return whether it has to.

        It has to when leadership was lost, and when the campaign is to stop or to resign.

        Example::

            async def lead(term: Term) -> None:
                while not await term.wait(1.0):
                    print("leading")
        """
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._ends.wait(), seconds)
        return self._ends.is_set()

    def _end(self) -> None:
        self._ends.set()
        if self._work is not None:
            self._work.cancel()


#: An event loop does not keep its tasks alive.
_running: set[asyncio.Task[None]] = set()


def _start(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    task = asyncio.get_running_loop().create_task(work, name=name)
    _running.add(task)
    task.add_done_callback(_running.discard)
    return task


def _ends(error: BaseException) -> bool:
    """Whether an error ends the task in which it is raised."""
    return isinstance(error, asyncio.CancelledError) or not is_contained(error)


async def _lead(callback: Callable[[Term], Awaitable[object]], term: Term) -> BaseException | None:
    """Await the callback. Returns what it raised: ``SystemExit`` would end the event loop if its task raised it."""
    try:
        await callback(term)
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
class _Candidacy:
    """Stands for election until it is ended, in the task that awaits :meth:`stand`.

    Attributes:
        name: The name of the election.
        term: The term, while its callback runs.
        ended: It is to end. Before Python 3.11 a cancellation may pass for that of a loss.
        error: What the callback raised, if that ends it.
    """

    def __init__(
        self, election: LeaderElection, callback: Callable[[Term], Awaitable[object]], ends_on_error: bool
    ) -> None:
        self._election = election
        self._callback = callback
        self._ends_on_error = ends_on_error
        self.name: str = election.name
        self.term: Term | None = None
        self.ended: bool = False
        self.error: BaseException | None = None

    def resign(self) -> None:
        """Ask the callback to return."""
        if self.term is not None:
            self.term._end()

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
            while pause is not None and not self.ended:
                await asyncio.sleep(pause)
                try:
                    pause = 0.0 if await self._stand_once() else PAUSE
                except BaseException as error:
                    if _ends(error):
                        raise
                    pause = pause_after(client, self.name, error)
        finally:
            client.when_closed.pop(self.end, None)

    async def _stand_once(self) -> bool:
        """Wait to be elected, and lead. Returns whether the callback raised nothing.

        The callback has a task of its own, which can be cancelled alone.
        """
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
            if error is not None and self._ends_on_error:
                self.error, self.ended = error, True
            elif error is not None:
                report_callback(self.name, error)
        return error is None


@final
class Campaign(NotPortable):
    """Stands for election until it is stopped. Made by :meth:`LeaderElection.start`.

    Example::

        async with election.start(lead) as campaign:
            print(campaign.leading)
    """

    def __init__(self, candidacy: _Candidacy) -> None:
        self._candidacy = candidacy
        self._task = _start(candidacy.stand(), f"election {candidacy.name}")

    def __repr__(self) -> str:
        state = "stopped" if self._task.done() else "leading" if self.leading else "standing"
        return f"<Campaign for {self._candidacy.name!r}: {state}>"

    def __del__(self) -> None:
        task = getattr(self, "_task", None)
        if task is not None and not task.done() and not self._candidacy.ended:
            warn_dropped(self._candidacy.name)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.stop()

    @property
    def leading(self) -> bool:
        """Whether the callback runs, and leads."""
        term = self._candidacy.term
        return term is not None and term.remaining() > 0.0

    async def resign(self) -> None:
        """Ask the callback to return; then others may lead, and this campaign stands again.

        Example::

            async with election.start(lead) as campaign:
                await campaign.resign()
        """
        self._candidacy.resign()

    async def stop(self, timeout: float | None = None) -> bool:
        """Stand no longer, ask the callback to return, and wait until it has, for at most ``timeout`` seconds.

        Example::

            campaign = election.start(lead)
            await campaign.stop(timeout=10)

        Returns:
            Whether it has returned, so that this campaign leads no longer.
        """
        self._candidacy.ended = True
        self._task.cancel()
        return await self.join(timeout)

    async def join(self, timeout: float | None = None) -> bool:
        """Wait until the campaign has ended, for at most ``timeout`` seconds: it was stopped, or its client was closed.

        Example::

            campaign = election.start(lead)
            print(await campaign.join(timeout=1))  # False: it goes on

        Returns:
            Whether it has ended.
        """
        await asyncio.wait([self._task], timeout=timeout)
        return self._task.done()


@final
class Observation(NotPortable):
    """Notifies a callback of who leads until it is stopped. Made by :meth:`LeaderElection.observe`.

    Example::

        observation = election.observe(print)
        await observation.stop()
    """

    def __init__(self, election: LeaderElection, callback: Callable[[Holder | None], object]) -> None:
        self._task = _start(self._observe(election, callback), f"observer {election.name}")

    async def stop(self) -> None:
        """Do not call the callback any more.

        Example::

            observation = election.observe(print)
            await observation.stop()
        """
        self._task.cancel()

    async def _observe(self, election: LeaderElection, callback: Callable[[Holder | None], object]) -> None:
        known: str | None = ""  # Neither the field of an owner, nor that there is none.
        pause: float | None = 0.0
        while pause is not None:
            await asyncio.sleep(pause)
            try:
                pause, found = 0.0, await election._core.leader_after(known, LOOK_EVERY)
                if found != known:
                    leader = None if found is None else await election.leader()
                    known = found
                    call_observer(election.name, callback, leader)
            except BaseException as error:
                if _ends(error):
                    raise
                pause = pause_after(election._core.client, election.name, error)
