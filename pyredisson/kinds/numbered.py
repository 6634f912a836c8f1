"""Requests told apart by number: how semaphores and latches, which have no owner in Redis, are asked exactly once.

Rules kept here:

1. A request has a number, greater than all before it of its client. Its script records for a minute, for each owner,
   the number of the last one and what came of it (that it was refused, too). A copy of that one is answered from the
   record, and an older one is refused. So a request is sent again, as it is, until it is answered.
2. A request is *open* from before it is sent until its answer is known; one that took something, until the caller has
   it. If the caller is interrupted meanwhile, or the time is over, what may have been taken is undone under a later
   number, and anything else is finished: at once and shielded, else in the background, for as long as the record tells.
3. An owner's next request of the same name comes after what it left open: it would overwrite the record.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from pyredisson import events
from pyredisson.core import first_contact, scripts
from pyredisson.core.calls import PERMITS
from pyredisson.core.deadline import Deadline
from pyredisson.core.ledger import Open
from pyredisson.core.messages import INTERRUPTED
from pyredisson.core.names import left_field, owner_field
from pyredisson.core.outcomes import AT_ONCE, Acquired, Refused
from pyredisson.core.replicas import NotAcknowledged
from pyredisson.core.runtime import Failure, Rejected, Unanswered, Unusable, is_interruption
from pyredisson.core.scripts import NumberedRequest
from pyredisson.core.settling import CLEANUP_BUDGET
from pyredisson.core.waiting import until_taken
from pyredisson.core.wrong_type import explain_type, no_number
from pyredisson.errors import LockError, OutcomeUnknownError

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.names import LatchNames, SemaphoreNames
    from pyredisson.core.outcomes import Answer
    from pyredisson.core.runtime import Progress, Reply, Request
    from pyredisson.core.waiters import Message

__all__ = ["MAX_COUNT", "Asking", "Make", "NumberedCore", "count_of", "number_in", "permits_message"]

#: For so many seconds after a request was sent, its script surely knows whether it has run (the record's minute, less
#: the time that the answer may take).
KNOWN_FOR = 55.0

#: Beyond it Lua does not count exactly.
MAX_COUNT = 2**53

Make: TypeAlias = Callable[[NumberedRequest], "Request"]
Undo: TypeAlias = Callable[[NumberedRequest, int], "Request"]


def count_of(value: object, what: str, *, signed: bool = False) -> int:
    """Return ``value`` if it is a number of permits (or a count).

    Raises:
        TypeError: It is no ``int``.
        ValueError: It is negative (unless ``signed``), or beyond what a script can count.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {type(value).__name__}")
    if value < 0 and not signed:
        raise ValueError(f"{what} must not be negative, not {value}")
    if abs(value) > MAX_COUNT:
        raise ValueError(f"{what} must not be beyond {MAX_COUNT}, not {value}")
    return value


def permits_message(payload: bytes, each: int) -> int:
    """How many waiters, each of whom wants so many permits, a message about permits wakes."""
    try:
        return max(int(payload) // each, 0)
    except ValueError:
        return 0


def number_in(reply: Reply, name: str) -> int:
    """The number that a key holds; 0 if there is none."""
    try:
        return int(reply) if isinstance(reply, (bytes, int)) else 0
    except ValueError:
        raise no_number(name) from None


class NumberedCore:
    """One handle on something that has no owner in Redis. Cheap, without state, and shared at will."""

    __slots__ = ("client", "names")

    #: What it is called in messages.
    kind = ""

    def __init__(self, client: ClientCore, names: SemaphoreNames | LatchNames) -> None:
        self.client: ClientCore = client
        self.names: SemaphoreNames | LatchNames = names
        client.check_names(names)

    def describe(self) -> str:
        """Its state as this client knows it, for ``repr``; asks no server."""
        waiting = self.client.wakeups.waiting(self.names.channel)
        return f"{self.names.raw!r}, {waiting} waiting here" if waiting else repr(self.names.raw)

    def ask(
        self, what: str, make: Make, undo: Undo | None = None, *, known_for: float = KNOWN_FOR, left: bool = False
    ) -> Asking:
        """Prepare what the calling owner wants to be done.

        Args:
            what: What that is called in messages.
            make: Makes the request.
            undo: Makes the one that undoes the request of a number. ``None``: it is not undone, but finished.
            known_for: For so many seconds after it was sent, asking again tells what became of it.
            left: Whether the calling owner has left, so that it is asked in the background, under the client's name.
        """
        self.client.check_open()
        return Asking(self, what, make, undo, known_for, left=left)

    async def take(
        self, asking: Asking, attempt: Callable[[], Awaitable[Answer]], wait: float | None, *, kind: str, each: int
    ) -> bool:
        """Make attempts until one takes what is wanted, or until ``wait`` seconds are over (``None``: never).

        Args:
            asking: What the attempts ask.
            attempt: See :func:`until_taken`.
            wait: Seconds.
            kind: See :func:`until_taken`.
            each: How many permits each of this kind wants.
        """
        client = self.client
        channel = self.names.channel
        deadline = Deadline.after(wait, began := client.runtime.now())
        taken = False
        try:
            seen = client.wakeups.glance(channel) if wait != 0 else None
            try:
                answer = await attempt()
            except Failure as failure:
                if not await first_contact.waits_through(client, failure, wait, began):
                    raise
                answer = AT_ONCE
            taken = isinstance(answer, Acquired)
            if isinstance(answer, Refused) and wait != 0:
                taken = await until_taken(
                    attempt,
                    answer,
                    runtime=client.runtime,
                    wakeups=client.wakeups,
                    lock=self.names.raw,
                    channel=channel,
                    kind=kind,
                    message=message_for(each),
                    seen=seen,
                    deadline=deadline,
                    free_after=math.inf,
                )
            if not taken:
                asking.give_up()
            return taken
        except Failure as failure:
            raise await explain_type(client, asking.explain(failure), self.names.raw, self.kind) from failure.cause
        except GeneratorExit:
            asking.leave_later()  # A coroutine that is being closed can wait for nothing any more.
            raise
        except BaseException as error:
            if is_interruption(error):
                await asking.leave()
            else:
                asking.give_up()
            raise


def message_for(each: int) -> Message:
    """How many waiters who want so many permits each a message wakes."""
    return partial(permits_message, each=each)


class Asking:
    """What one caller wants, asked under one number until that is answered; if it was refused, under the next.

    Attributes:
        begun: When the request of the last number was made.
        given_up: Whether it is (being) settled although its caller does not wait for it.
    """

    __slots__ = (
        "_core",
        "_doubt",
        "_key",
        "_known_for",
        "_make",
        "_number",
        "_request",
        "_undo",
        "_what",
        "begun",
        "given_up",
    )

    def __init__(
        self, core: NumberedCore, what: str, make: Make, undo: Undo | None, known_for: float, *, left: bool = False
    ) -> None:
        client = core.client
        self._core = core
        self._what = what
        self._make = make
        self._undo = undo
        self._known_for = known_for
        if left:
            self._key = (core.names.raw, left_field(client.id))
        else:
            who = client.runtime.owner()  # First: on a new event loop the client gets a new id.
            self._key = (core.names.raw, owner_field(client.id, who.number))
        self._number = 0
        self._request: Request | None = None
        self.begun: float = 0.0
        self.given_up: bool = False
        self._doubt: Unanswered | None = None

    async def ask(self) -> Reply:
        """Ask once more: under the same number, unless that was :meth:`refused`.

        Raises:
            Failure: There was no answer of use.
            OutcomeUnknownError: It was sent so long ago that nobody knows any more whether it was executed.
            LockError: A signal handler asks in the middle of a call of its thread, whose request it would outrank.
        """
        asking = self._core.client.ledger.asking
        other = asking.get(self._key)
        if other is not None and self._core.client.runtime.interrupts(other):
            raise LockError(INTERRUPTED, name=self._key[0])
        asking[self._key] = self
        try:
            return await self._ask()
        finally:
            asking.pop(self._key, None)

    async def _ask(self) -> Reply:
        client = self._core.client
        if self._request is None:
            self._begin()
        elif self._doubt is not None and client.runtime.now() >= self.begun + self._known_for:
            raise self._unknown(self._doubt)
        try:
            await client.ledger.settle(self._key)
        except Failure:
            if self._doubt is None:
                self._request = None
            raise
        try:
            reply = await client.perform(self._request, reader=PERMITS if self._undo is not None else None)
        except NotAcknowledged as short:
            raise await self._give_back(short) from short.cause
        except Failure as failure:
            if isinstance(failure, Unanswered):
                self._doubt = failure
            elif self._doubt is None:
                self._request = None  # It had no effect.
            raise
        try:
            stale = scripts.read_stale(reply)
        except Unusable as failure:
            self._doubt = failure
            raise
        if stale is not None:
            raise LockError(
                f"{self._what} of {self._core.kind} {self._key[0]!r} was superseded by a later request of its owner",
                name=self._key[0],
            )
        self._doubt = None
        return reply

    def _begin(self) -> Request:
        client = self._core.client
        self.begun = client.runtime.now()  # First: how long it is worth settling is counted from here.
        self._number = client.ledger.number()
        self._request = self._make(NumberedRequest(client.runtime, self._key[1], self._number))
        return self._request

    def unusable(self, reply: Reply) -> Unusable:
        """The failure for an answer that this request is never given; it is in doubt then."""
        self._doubt = failure = scripts.unusable(reply)
        return failure

    def refused(self) -> None:
        """The answer was that nothing was taken."""
        self._request = None

    async def once(self, progress: Progress | None = None, *, insist: bool = False) -> int:
        """Ask, and return the answer. For all but what waits.

        Args:
            progress: See ``run_to_the_end``.
            insist: Whether it is to be done in the background, if it surely was not done now.
        """
        try:
            if progress is not None:
                progress.begun = True
            reply = await self.ask()
            if type(reply) is not int:
                raise self.unusable(reply)
            return reply
        except Failure as failure:
            if insist and self._doubt is None and not isinstance(failure, Rejected):
                self._later()
                raise failure.cause from None
            core = self._core
            raise await explain_type(core.client, self.explain(failure), self._key[0], core.kind) from failure.cause
        except GeneratorExit:
            self.leave_later()
            raise
        except BaseException as error:
            if is_interruption(error) and (progress is None or progress.begun):  # Else it is called again.
                await self.leave()
            raise

    async def _give_back(self, short: NotAcknowledged) -> Exception:
        """It was taken, and too few replicas know of it: undo it. Returns what to say of it."""
        client = self._core.client
        await client.finish(self._settling(), self._note(), leaving=False)
        return client.replicas.error(self._key[0], short, given_back=client.ledger.first(self._key) is None)

    # ---- when the caller goes away -------------------------------------------------------------------------------

    async def leave(self) -> None:
        """Settle although the caller is being interrupted; what cannot be done at once is done in the background."""
        if self._request is not None or self._undo is None:
            until = self._note()
            await self._core.client.finish(self._settling(), until)

    def leave_later(self) -> None:
        """As :meth:`leave`, where nothing can be waited for: all of it is done in the background."""
        if self._request is not None or self._undo is None:
            try:
                self._later()
            except RuntimeError:
                pass  # The event loop is gone, and its background with it.

    def give_up(self) -> None:
        """Settle in the background, if it is in doubt."""
        if self._doubt is not None:
            self._later()

    def _later(self) -> None:
        until = self._note()
        self._core.client.watchdog.do_later(self._settling(), until)

    def explain(self, failure: Failure) -> Exception:
        """Return the error to show to the user; what is in doubt is settled in the background from here on."""
        if self._doubt is None:
            return failure.cause
        return self._unknown(failure)

    def _unknown(self, failure: Failure) -> OutcomeUnknownError:
        name, owner = self._key
        client = self._core.client
        client.emit(events.OutcomeUnknown(name, owner, self._what, failure.cause))
        for_long = "for up to a minute" if self._known_for < math.inf else "as long as this client is open"
        if client.runtime.now() >= self.begun + self._known_for:
            then = "that was too long ago to be settled: compare its value with what is in use"
        elif self._undo is not None:
            then = (
                f"anything it acquired is being released in the background, {for_long}: treat it as failed. If the "
                "server is unreachable for longer, compare the available permits with those in use"
            )
        else:
            then = (
                f"it is being repeated in the background, {for_long}, and takes effect at most once: do not call it "
                "again. If the server is unreachable for longer, check its value then"
            )
        error = OutcomeUnknownError(
            f"{self._what} of {self._core.kind} {name!r} was sent, and its outcome could not be determined "
            f"({type(failure.cause).__name__}: {failure.cause}); {then}",
            name=name,
        )
        error.__cause__ = failure.cause
        self.give_up()
        return error

    def _note(self) -> float:
        """Enter what is to be settled into the ledger, and return until when that is worth while."""
        client = self._core.client
        if self._undo is None:
            request = self._request or self._begin()  # Interrupted before it had a number, it is wanted all the same.
        else:
            request = self._undo(NumberedRequest(client.runtime, self._key[1], client.ledger.number()), self._number)
        until = self.begun + self._known_for
        client.ledger.note(self._key, Open(request, until, undoes=self._undo is not None))
        self._request = self._doubt = None
        self.given_up = True
        return until

    def _settling(self) -> Callable[[], Coroutine[Any, Any, object]]:
        return partial(self._core.client.ledger.settle, self._key, CLEANUP_BUDGET)
