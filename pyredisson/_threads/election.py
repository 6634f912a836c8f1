"""Leader elections, for threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, final

from pyredisson._core.deadline import Deadline, wait_seconds
from pyredisson._core.failures import is_contained
from pyredisson._core.runtime import run
from pyredisson._shared.arguments import NotPortable
from pyredisson._shared.callback import check_callback
from pyredisson._shared.client import Handle
from pyredisson._shared.election import LOOK_EVERY, AnyCampaign, AnyCandidacy, AnyTerm, observe
from pyredisson._threads.background import Flag
from pyredisson._threads.hold import Hold

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson._core.deadline import Seconds
    from pyredisson._kinds.election import ElectionCore
    from pyredisson.holders import Holder
    from pyredisson.lease import Lease


@final
class LeaderElection(Handle):
    """One of several processes leads; when it ends or resigns, another one does. Made by
    :meth:`Redisson.get_leader_election`.

    Each term has a token that is greater than those of all terms before: pass it to what the leader changes. Two never
    lead at once within the certain time of their terms (:meth:`Lease.remaining`).

    Example::

        election = client.get_leader_election("scheduler")
        with election.term() as term:
            print("leading with token", term.token)
    """

    __slots__ = ()

    _core: ElectionCore

    def term(self, wait_time: Seconds | None = None) -> Hold[Lease[int]]:
        """Return a context manager that leads for its block: a :class:`Lease` with the token of the term.

        Example::

            with election.term(wait_time=60) as term:
                term.ensure_held()

        Args:
            wait_time: Seconds to wait at most to be elected. ``None``: wait without a time limit.

        Raises:
            LockTimeoutError: On entering: it was not elected in time.
            LockLostError: On leaving: it led no longer, as after a pause longer than the watchdog's timeout.
        """
        return Hold(self, wait_time, None, False)

    def run(self, callback: Callable[[Term], object]) -> None:
        """Stand for election, and call ``callback(term)`` while leading, again and again, until Ctrl-C ends it.

        A cancellation of its task, and :meth:`Redisson.close`, end it, too. When the callback returns, it resigns and
        stands again. It has to return soon after :meth:`Term.wait` has; it is never called again before. What it raises
        ends this and is raised, once it has resigned. To stand in a thread of its own, use :meth:`start`.

        Example::

            def lead(term: Term) -> None:
                while not term.wait(1.0):
                    print("leading with token", term.token)

            election.run(lead)
        """
        candidacy = self._candidacy(callback, ends_on_error=True)
        run(candidacy.stand())
        if candidacy.error is not None:
            raise candidacy.error

    def start(self, callback: Callable[[Term], object]) -> Campaign:
        """Stand for election in a thread, and call ``callback(term)`` there while leading, again and again.

        As :meth:`run`, but what the callback raises is logged, and it stands again.

        Example::

            with election.start(lead):
                ...  # what else the program does

        Returns:
            The campaign, which ends with its block, or by :meth:`Campaign.stop`.
        """
        return Campaign(self._candidacy(callback))

    def _candidacy(self, callback: Callable[[Term], object], *, ends_on_error: bool = False) -> _Candidacy:
        self._core.client.check_open()
        check_callback("callback", callback, "the term", awaited=False)
        return _Candidacy(self, callback, ends_on_error)

    def leader(self) -> Holder | None:
        """Return who leads, as far as the server knows within a moment; ``None`` if no one does.

        Example::

            print(election.leader())

        Raises:
            ClientClosedError: The client was closed.
            redis.exceptions.RedisError: The server could not be reached, or refused the request.
        """
        return run(self._core.leader())

    def observe(self, callback: Callable[[Holder | None], object]) -> Observation:
        """Call ``callback(leader)`` in a thread now, and whenever another one leads, or no one.

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

    Example::

        def lead(term: Term) -> None:
            while not term.wait(1.0):
                print("leading with token", term.token)
    """

    def __init__(self, lease: Lease[int]) -> None:
        self._ends = Flag()
        super().__init__(lease, self._ends.set)

    def wait(self, seconds: Seconds | None = None) -> bool:
        """Sleep until the callback has to return, for at most ``seconds``, and return whether it has to.

        It has to when leadership was lost, and when the campaign is to stop or to resign.

        Example::

            def lead(term: Term) -> None:
                while not term.wait(1.0):
                    print("leading")
        """
        over = Deadline.after(wait_seconds(seconds, "seconds"), time.monotonic())
        while not self._ends.wait(min(self.remaining(), over.left(time.monotonic()))):
            if self.remaining() <= 0.0:  # No one notifies it of a loss after its client was closed.
                return True
            if over.passed(time.monotonic()):
                return False
        return True

    def _end(self) -> None:
        self._ends.set()


def _ends(error: BaseException) -> bool:
    return not is_contained(error)


@final
class _Candidacy(AnyCandidacy):
    """Stands for election in the thread that runs :meth:`stand`."""

    term: Term | None = None
    _ends = staticmethod(_ends)

    def __init__(self, election: LeaderElection, callback: Callable[[Term], object], ends_on_error: bool) -> None:
        super().__init__(election, callback, ends_on_error)
        self._woken = Flag()

    def end(self) -> None:
        super().end()
        self._woken.set()

    async def _ended_within(self, seconds: float) -> bool:
        return self.ended or self._woken.wait(seconds)

    async def _stand_once(self) -> bool:
        hold: Hold[Lease[int] | None] = Hold(self._election, LOOK_EVERY, None, True)
        try:
            with hold as lease:
                if lease is None:
                    return True
                self.term = term = Term(lease)
                if self.ended:  # Looked at last: who ends it later asks the term to end.
                    return True
                try:
                    self._callback(term)
                except BaseException as error:
                    if _ends(error):
                        raise
                    self._callback_raised(error)
                    return False
        finally:
            self.term = None  # Not before it has resigned: its client may be closed as soon as it has stopped.
        return True


#: Seconds between two looks at whether a campaign has ended. A signal handler may end it in the middle of a wait.
JOIN_EVERY = 0.05


@final
class Campaign(AnyCampaign):
    """Stands for election until it is stopped. Made by :meth:`LeaderElection.start`.

    Example::

        with election.start(lead) as campaign:
            print(campaign.leading)
    """

    def __init__(self, candidacy: _Candidacy) -> None:
        name = f"election {candidacy.name}"
        self._thread = threading.Thread(target=lambda: run(candidacy.stand()), name=name, daemon=True)
        self._candidacy = candidacy
        try:
            self._thread.start()
        except BaseException:  # Ctrl-C, just now: it may have begun, and no one has the campaign.
            candidacy.end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def resign(self) -> None:
        """Ask the callback to return; then others may lead, and this campaign stands again.

        Example::

            with election.start(lead) as campaign:
                campaign.resign()
        """
        self._candidacy.resign()

    def stop(self, timeout: Seconds | None = None) -> bool:
        """Stand no longer, ask the callback to return, and wait until it has, for at most ``timeout`` seconds.

        Example::

            campaign = election.start(lead)
            campaign.stop(timeout=10)

        Returns:
            Whether it has returned, so that this campaign leads no longer.
        """
        left = wait_seconds(timeout, "timeout")
        self._candidacy.end()
        return self.join(left) if self._thread is not threading.current_thread() else self._has_ended()

    def join(self, timeout: Seconds | None = None) -> bool:
        """Wait until the campaign has ended, for at most ``timeout`` seconds: it was stopped, or its client was closed.

        Example::

            campaign = election.start(lead)
            print(campaign.join(timeout=1))  # False: it goes on

        Returns:
            Whether it has ended.
        """
        over = Deadline.after(wait_seconds(timeout, "timeout"), time.monotonic())
        while not self._has_ended() and not over.passed(now := time.monotonic()):
            self._thread.join(min(JOIN_EVERY, over.left(now)))
        return self._has_ended()

    def _has_ended(self) -> bool:
        """Whether it leads no longer. Its thread may wait for an election yet that it would decline."""
        candidacy = self._candidacy
        return not self._thread.is_alive() or (candidacy.ended and candidacy.term is None)


@final
class Observation(NotPortable):
    """Notifies a callback of who leads until it is stopped. Made by :meth:`LeaderElection.observe`.

    Example::

        observation = election.observe(print)
        observation.stop()
    """

    def __init__(self, election: LeaderElection, callback: Callable[[Holder | None], object]) -> None:
        self._stopped = stopped = threading.Event()

        async def stopped_within(seconds: float) -> bool:
            return stopped.wait(seconds)

        def work() -> None:
            run(observe(election, callback, stopped_within, _ends))

        try:
            threading.Thread(target=work, name=f"observer {election.name}", daemon=True).start()
        except BaseException:  # As that of a campaign.
            stopped.set()
            raise

    def stop(self) -> None:
        """Do not call the callback any more.

        Example::

            observation = election.observe(print)
            observation.stop()
        """
        self._stopped.set()
