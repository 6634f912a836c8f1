"""Leader elections, for threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, final

from pyredisson._core.deadline import Deadline
from pyredisson._core.failures import is_contained
from pyredisson._core.runtime import run
from pyredisson._shared.arguments import NotPortable
from pyredisson._shared.client import AnyTerm, Handle
from pyredisson._shared.runtime import LOOK_EVERY, PAUSE, call_observer, check_callback, pause_after, report_callback
from pyredisson._threads.hold import Hold

if TYPE_CHECKING:
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

    def run(self, callback: Callable[[Term], object]) -> Campaign:
        """Stand for election in a thread, and call ``callback(term)`` there while leading, again and again.

        When the callback returns, it resigns and stands again. It has to return soon after :meth:`Term.wait` has; it is
        never called again before. What it raises is logged.

        Example::

            campaign = election.run(lead)
            campaign.stop()

        Returns:
            The campaign, which :meth:`Campaign.stop` ends.
        """
        self._core.client.check_open()
        check_callback(callback)
        return Campaign(self, callback)

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
        check_callback(callback)
        return Observation(self, callback)


@final
class Term(AnyTerm):
    """A time of leadership, for the callback of :meth:`LeaderElection.run`.

    Example::

        def lead(term: Term) -> None:
            while not term.wait(1.0):
                print("leading with token", term.token)
    """

    def __init__(self, lease: Lease[int]) -> None:
        self._ends = threading.Event()
        super().__init__(lease, self._ends.set)

    def wait(self, seconds: float | None = None) -> bool:
        """Sleep until the callback has to return, for at most ``seconds``, and return whether it has to.

        It has to when leadership was lost, and when the campaign is to stop or to resign.

        Example::

            def lead(term: Term) -> None:
                while not term.wait(1.0):
                    print("leading")
        """
        over = Deadline.after(seconds, time.monotonic())
        while not self._ends.wait(min(self.remaining(), over.left(time.monotonic()))):
            if self.remaining() <= 0.0:  # No one notifies it of a loss after its client was closed.
                return True
            if over.passed(time.monotonic()):
                return False
        return True

    def _end(self) -> None:
        self._ends.set()


@final
class Campaign(NotPortable):
    """Stands for election until it is stopped. Made by :meth:`LeaderElection.run`.

    Example::

        campaign = election.run(lead)
        print(campaign.leading)
        campaign.stop()
    """

    def __init__(self, election: LeaderElection, callback: Callable[[Term], object]) -> None:
        self._election = election
        self._callback = callback
        self._stopped = threading.Event()
        self._mutex = threading.RLock()  # A signal handler may close the client in the middle.
        self._term: Term | None = None
        self._thread = threading.Thread(target=self._stand, name=f"election {election.name}", daemon=True)
        self._when_closed = election._core.client.when_closed
        self._when_closed[self._end] = None
        self._thread.start()

    def __repr__(self) -> str:
        stands = self._thread.is_alive() and not self._stopped.is_set()  # Not after its client was closed.
        state = "stopped" if not stands else "leading" if self.leading else "standing"
        return f"<Campaign for {self._election.name!r}: {state}>"

    @property
    def leading(self) -> bool:
        """Whether the callback runs, and leads."""
        term = self._term
        return term is not None and term.remaining() > 0.0

    def resign(self) -> None:
        """Ask the callback to return; then others may lead, and this campaign stands again.

        Example::

            campaign = election.run(lead)
            campaign.resign()
            campaign.stop()
        """
        with self._mutex:
            if self._term is not None:
                self._term._end()

    def stop(self, timeout: float | None = None) -> bool:
        """Stand no longer, ask the callback to return, and wait until it has, for at most ``timeout`` seconds.

        Example::

            campaign = election.run(lead)
            campaign.stop(timeout=10)

        Returns:
            Whether it has returned, so that this campaign leads no longer.
        """
        self._end()
        if self._term is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)
        return self._term is None

    def _end(self) -> None:
        self._stopped.set()
        self.resign()

    def _stand(self) -> None:
        try:
            self._stand_until_stopped()
        finally:
            self._when_closed.pop(self._end, None)

    def _stand_until_stopped(self) -> None:
        pause: float | None = 0.0
        while pause is not None and not self._stopped.wait(pause):
            try:
                pause = 0.0 if self._stand_once() else PAUSE
            except BaseException as error:
                if not is_contained(error):
                    raise
                pause = pause_after(self._election._core.client, self._election.name, error)

    def _stand_once(self) -> bool:
        """Wait to be elected for a time, and lead. Returns whether the callback, if it was called, raised nothing."""
        hold: Hold[Lease[int] | None] = Hold(self._election, LOOK_EVERY, None, True)
        try:
            with hold as lease:
                if lease is None:
                    return True
                with self._mutex:
                    if self._stopped.is_set():
                        return True
                    self._term = term = Term(lease)
                try:
                    self._callback(term)
                except BaseException as error:
                    if not is_contained(error):
                        raise
                    report_callback(self._election.name, error)
                    return False
        finally:
            self._term = None  # Not before it has resigned: its client may be closed as soon as it has stopped.
        return True


@final
class Observation(NotPortable):
    """Notifies a callback of who leads until it is stopped. Made by :meth:`LeaderElection.observe`.

    Example::

        observation = election.observe(print)
        observation.stop()
    """

    def __init__(self, election: LeaderElection, callback: Callable[[Holder | None], object]) -> None:
        self._stopped = threading.Event()
        name = f"observer {election.name}"
        threading.Thread(target=self._observe, args=(election, callback), name=name, daemon=True).start()

    def stop(self) -> None:
        """Do not call the callback any more.

        Example::

            observation = election.observe(print)
            observation.stop()
        """
        self._stopped.set()

    def _observe(self, election: LeaderElection, callback: Callable[[Holder | None], object]) -> None:
        known: str | None = ""  # Neither the field of an owner, nor that there is none.
        pause: float | None = 0.0
        while pause is not None and not self._stopped.wait(pause):
            try:
                pause, found = 0.0, run(election._core.leader_after(known, LOOK_EVERY))
                if found != known and not self._stopped.is_set():
                    leader = None if found is None else election.leader()
                    known = found
                    call_observer(election.name, callback, leader)
            except BaseException as error:
                if not is_contained(error):
                    raise
                pause = pause_after(election._core.client, election.name, error)
