"""Requests distinguished by number: how semaphores and latches, which have no owner in Redis, are changed exactly once.

Rules kept here:

1. A request has a number, greater than those of all earlier requests of its client. Its script records for a minute,
   for each owner, the last number and its outcome, a refusal included. A copy of that request is answered from the
   record, and an older request is refused. So a request is sent again, unchanged, until it is answered.
2. A request is *open* from before it is sent until its answer is known; one that was granted permits, until the caller
   has them. If the caller is interrupted meanwhile, or runs out of time, permits that may have been granted are given
   back under a later number, and any other request is completed: at once and shielded, else in the background, as long
   as the record lasts. That begins with the first copy that may have run: what was only refused is repeated until it
   has gone through.
3. The next request of an owner for the same name waits until its open requests are settled: it would overwrite the
   record.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar, final

from pyredisson._core import events
from pyredisson._core.failures import (
    ANOTHER,
    INTERRUPTED,
    Failure,
    Rejected,
    Unanswered,
    explain_type,
    is_interruption,
    of_earlier,
)
from pyredisson._core.names import left_field, owner_field
from pyredisson._core.replicas import NotAcknowledged
from pyredisson._core.requests import PERMITS, Granted, NeverSet, Refused, read_stale, unreached
from pyredisson.errors import ClientClosedError, LockError, OutcomeUnknownError

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.names import NumberedNames
    from pyredisson._core.owners import Caller
    from pyredisson._core.runtime import NumberedRequest, Progress, Reply, Request, Work

T = TypeVar("T")

#: Seconds after sending a request for which its script surely knows the outcome: the minute of the record, less the
#: time that the answer may take.
KNOWN_FOR = 55.0


class ScriptCall(NamedTuple):
    """The call of a script, without the number of the request.

    Attributes:
        name: The script.
        args: ARGV behind the number, and behind the value of the call if it has one.
        keys: KEYS behind the name's own key and the owner's last request.
    """

    name: str
    args: tuple[str | int | bytes, ...] = ()
    keys: tuple[str, ...] = ()


@final
@dataclass(slots=True)  # Not frozen: that would make each twice as slow to create.
class Operation(Generic[T]):
    """A change of a semaphore or a latch: its request, and what the reply means. It may be used by many calls.

    Attributes:
        what: Its name in messages, with an article.
        script: The script that makes the change.
        read: Reads the reply. Raises ``Unusable``.
        undo: Returns the script that undoes the request of a number and a value; ``None``: an abandoned request is
            completed.
        undone: What is done by that, in messages.
        known_for: Seconds after sending for which the same request is answered with its outcome.
        completes: Whether it is completed in the background if it was refused for a reason that passes. The same call
            of the same owner continues it.
        request: Makes its requests; made when it is first used.
    """

    what: str
    script: ScriptCall
    read: Callable[[Reply], T]
    undo: Callable[[int, bytes], ScriptCall] | None = None
    undone: str = "anything it acquired is being released"
    known_for: float = KNOWN_FOR
    completes: bool = False
    request: NumberedRequest | None = None


class NumberedCall(Generic[T]):
    """An operation of one caller, sent under one number until it is answered; if it was refused, under the next.

    Args:
        client: The client.
        names: The names of the semaphore or latch.
        kind: What that is called in messages.
        operation: The operation.
        value: What distinguishes this call of it from others: the ids of permits.
        check: What to do about an outcome that stays unknown, in messages.
        left: Whether the caller has left, so that it is made in the background, under the client's name.

    Attributes:
        key: The name and the owner.
        who: The owner; ``None`` in the background.
        begun: When the request of the last number was made.
        granted: Whether the last answer granted permits.
        never_set: Whether it said that there never were any.
        given_up: Whether it is, or was, settled without its caller.
        continued: Whether it has continued one that was refused and is completed in the background.
    """

    def __init__(
        self,
        client: ClientCore,
        names: NumberedNames,
        kind: str,
        operation: Operation[T],
        value: bytes = b"",
        *,
        check: str = "check its value",
        left: bool = False,
    ) -> None:
        self._client = client
        self._names = names
        self._kind = kind
        self._check = check
        self._operation = operation
        self._value = value
        who = None
        if left:
            owner = left_field(client.id)
        else:
            # First: on a new event loop the client gets a new id.
            who = client.runtime.owner()
            owner = owner_field(client.id, who.number)
        self.key: tuple[str, str] = (names.name, owner)
        self.who: Caller | None = who
        self._number = 0
        self._request: Request | None = None
        self._doubt: Unanswered | None = None
        self.begun: float = 0.0
        self.granted: bool = False
        self.never_set: bool = False
        self.given_up: bool = False
        self.continued: bool = False

    @property
    def script(self) -> ScriptCall:
        """The script that makes the change, as it is called here."""
        script = self._operation.script
        return script._replace(args=(self._value, *script.args)) if self._value else script

    async def send(self, script: ScriptCall | None = None) -> T:
        """Send it once, under the same number unless the last answer was a refusal.

        Args:
            script: What a new request calls instead of the operation's script.

        Raises:
            Failure: There was no usable answer.
            OutcomeUnknownError: It was sent so long ago that the server no longer knows the outcome.
            LockError: A signal handler asks in the middle of a call of its thread, whose request it would supersede.
        """
        client, operation, key, callers = self._client, self._operation, self.key, self._client.ledger.callers
        thread = client.runtime.thread()
        if thread and callers.get(key) == thread:
            raise LockError(INTERRUPTED, name=key[0])
        try:
            callers[key] = thread
            if self._request is None:
                self._begin(script)
            elif self._doubt is not None and client.runtime.now() >= self.begun + operation.known_for:
                raise self._unknown(self._doubt)
            if client.ledger.open:
                await self._settle_earlier()
            try:
                if not key[1].startswith(client.id):
                    raise Rejected(ClientClosedError(ANOTHER))
                reply = await client.perform(self._request, reader=PERMITS if operation.undo is not None else None)
                usual = type(reply) is int or (type(reply) is list and reply and type(reply[0]) is int)
                answer = operation.read(reply) if usual or read_stale(reply) is None else None
            except NotAcknowledged as short:
                raise await self._give_back(short) from short.cause
            except Failure as failure:
                if isinstance(failure, Unanswered):
                    self._doubt = failure
                elif self._doubt is None:
                    self._request = None  # It had no effect.
                raise
        finally:
            callers.pop(key, None)
        if answer is None:
            raise LockError(
                f"{operation.what} of {self._kind} {key[0]!r} was superseded by a later request of its owner",
                name=key[0],
            )
        self._doubt, outcome = None, type(answer)
        self.granted, self.never_set = outcome is Granted, outcome is NeverSet
        if outcome is Refused or self.never_set:
            self._request = None
        return answer

    async def _settle_earlier(self) -> None:
        try:
            await self._client.ledger.settle(self.key)
        except Failure as failure:
            if self._doubt is not None:
                raise
            self._request = None
            raise of_earlier(failure) from failure.cause

    def _begin(self, script: ScriptCall | None = None) -> Request:
        client, operation = self._client, self._operation
        self.begun = client.runtime.now()  # First: the time in which it can be settled is counted from here.
        self._number = client.ledger.number()
        if script is not None:
            self._request = self._prepare(script, self._number)
            return self._request
        if operation.request is None:
            names, own = self._names, operation.script
            keys = (names.raw, names.done(""), *own.keys)
            operation.request = client.runtime.prepare_numbered(own.name, keys, own.args)
        self._request = operation.request(self.key[1], self._number, self._value)
        return self._request

    def _prepare(self, script: ScriptCall, number: int) -> Request:
        names, owner = self._names, self.key[1]
        return self._client.runtime.prepare(
            script.name, (names.raw, names.done(owner), *script.keys), (number, *script.args)
        )

    async def once(self, progress: Progress | None = None, *, insist: bool = False) -> T:
        """Send it, and return the answer, for an operation that does not wait.

        Args:
            progress: See ``run_to_the_end``.
            insist: Whether it is made in the background if it surely was not made now.
        """
        ledger, operation = self._client.ledger, self._operation
        same = (*self.key, operation.script, self._value)
        left = ledger.take_refused(same) if ledger.refused and operation.completes and not insist else None
        try:
            if left is not None:
                self.continued = True
                await ledger.settle(self.key)
                return operation.read(left.reply)
            return await self.attempt(progress)
        except Failure as failure:
            if left is not None:
                ledger.note_refused(same, left)
            elif (
                self._doubt is None
                and not isinstance(failure, Rejected)
                and (insist or (operation.completes and failure.passes))
            ):
                left = self._settle_later()
                if not insist:
                    ledger.note_refused(same, left)
                raise self._unreached(failure) from None
            raise await self.explain(failure) from failure.cause

    async def attempt(self, progress: Progress | None = None) -> T:
        """Send it as :meth:`once` does. Raises as :meth:`send`."""
        try:
            if progress is not None:
                progress.begun = True
            return await self.send()
        except Failure:
            raise
        except GeneratorExit:
            self.leave_later()
            raise
        except BaseException as error:
            if is_interruption(error) and (progress is None or progress.begun):  # Else it is called again.
                await self.leave()
            raise

    async def _give_back(self, short: NotAcknowledged) -> Exception:
        """Undo what too few replicas know of, and return the error that says so."""
        client = self._client
        await client.finish(self.to_settle(), self._abandon().until, leaving=False)
        return client.replicas.error(self.key[0], short, given_back=client.ledger.first(self.key) is None)

    # ---- when the caller goes away -------------------------------------------------------------------------------

    async def leave(self) -> None:
        """Settle while the caller is being interrupted; what takes too long is done in the background."""
        if self._may_settle():
            until = self._abandon().until
            await self._client.finish(self.to_settle(), until)

    def leave_later(self) -> None:
        """Settle in the background, where nothing can be awaited."""
        if self._may_settle():
            try:
                self._settle_later()
            except RuntimeError:
                pass  # The event loop is gone, and its background with it.

    async def discard(self) -> None:
        """Release permits that were granted too late to be of use. :meth:`send` can be called again."""
        self.granted = False
        await self.leave()
        self.given_up = False

    def give_up(self) -> None:
        """Settle in the background if the outcome is not known."""
        if self._doubt is not None and self._may_settle():
            self._settle_later()

    def _may_settle(self) -> bool:
        """Whether there may be something to settle, which is not left to the client that this one was before."""
        mine = self.key[1].startswith(self._client.id)
        return mine and (self._request is not None or self._operation.undo is None)

    def _settle_later(self) -> Open:
        left = self._abandon()
        self._client.watchdog.do_later(self.to_settle(), left.until)
        return left

    async def explain(self, failure: Failure) -> Exception:
        """Return the error to show to the user. An unknown outcome is settled in the background from here on."""
        error = self._unreached(failure) if self._doubt is None else self._unknown(failure)
        return await explain_type(self._client.finder, error, self.key[0], self._kind)

    def _unreached(self, failure: Failure) -> Exception:
        return unreached(self._client, failure, f"{self._kind} {self.key[0]!r}")

    def _unknown(self, failure: Failure) -> OutcomeUnknownError:
        name, owner = self.key
        client, operation = self._client, self._operation
        client.emit(events.OutcomeUnknown(name, owner, operation.what, failure.cause))
        for_long = "for up to a minute" if operation.known_for < math.inf else "as long as this client is open"
        if client.runtime.now() >= self.begun + operation.known_for:
            then = f"that was too long ago to be settled: {self._check}"
        elif operation.undo is not None:
            then = (
                f"{operation.undone} in the background, {for_long}: treat it as failed. If the server is unreachable "
                f"for longer, {self._check}"
            )
        else:
            then = (
                f"it is being repeated in the background, {for_long}, and takes effect at most once: do not call it "
                f"again. If the server is unreachable for longer, {self._check}"
            )
        error = OutcomeUnknownError(
            f"{operation.what} of {self._kind} {name!r} was sent, and its outcome could not be determined "
            f"({type(failure.cause).__name__}: {failure.cause}); {then}",
            name=name,
        )
        error.__cause__ = failure.cause
        self.give_up()
        return error

    def _abandon(self) -> Open:
        """Enter what is to be settled into the ledger, and return it."""
        ledger, operation = self._client.ledger, self._operation
        until = self.begun + operation.known_for
        if operation.undo is None:
            if self._request is None:
                until = math.inf  # No copy has run: one can at any time. See Ledger.settle().
            request = self._request or self._begin()  # Interrupted before it had a number, it is wanted all the same.
        else:
            request = self._prepare(operation.undo(self._number, self._value), ledger.number())
        left = Open(request, until, operation.known_for, undoes=operation.undo is not None)
        ledger.note(self.key, left)
        self._request = self._doubt = None
        self.given_up = True
        return left

    def to_settle(self) -> Work:
        """Return what settles what this owner has left open."""
        return partial(self._client.ledger.settle, self.key)


# ---- ledger ----------------------------------------------------------------------------------------------------------
# What a client's owners have left open with things that have no owner in Redis, and the numbers of their requests.
#
# Plain tables but for :meth:`Ledger.settle`. The rules are those of ``_core/numbered.py``.


#: The number of things that are remembered, to be reported once.
REMEMBERED = 1000

Key: TypeAlias = tuple[str, str]
"""The name of a semaphore or latch, and the owner who asks: they share one record on the server."""


class Open:
    """A request whose caller has gone, or received an error that its outcome is unknown.

    Attributes:
        request: What settles it, sent as it is until it is answered.
        until: When it is no longer worth doing: the server may have forgotten what became of the original.
        known_for: Seconds after the first copy that may have run for which the server knows that.
        undoes: Whether it undoes the original. Else it is the original.
        reply: The reply that settled it.
    """

    __slots__ = ("known_for", "reply", "request", "undoes", "until")

    def __init__(self, request: Request, until: float, known_for: float, *, undoes: bool) -> None:
        self.request: Request = request
        self.until: float = until
        self.known_for: float = known_for
        self.reply: Reply = None
        self.undoes: bool = undoes


class Ledger:
    """The numbers and the open requests of one client.

    Attributes:
        open: The requests that are pending, by key.
        refused: What was refused, and is completed in the background, by call.
        callers: The thread that asks in an owner's name at present.
        seen_numbers: The last number at which waiters here return, and when it was asked for, by key.
        may_look: Whether the server's user may look for semaphores of the other kind, as far as is known.
    """

    def __init__(self, client: ClientCore) -> None:
        self._client = client
        self._mutex = client.runtime.mutex()
        #: Returns a number greater than all before it.
        self.number: Callable[[], int] = itertools.count(1).__next__
        self.open: dict[Key, list[Open]] = {}
        self.callers: dict[Key, int] = {}
        self.seen_numbers: dict[str, tuple[float, int]] = {}
        self.may_look: bool = True
        self._reported: set[tuple[object, ...]] = set()
        self.refused: dict[tuple[object, ...], Open] = {}

    def is_first_of(self, report: tuple[object, ...]) -> bool:
        """Return whether this was not asked before: what is to be reported once, and of which semaphore."""
        with self._mutex:
            if len(self._reported) >= REMEMBERED:
                self._reported.clear()
            known = report in self._reported
            self._reported.add(report)
            return not known

    def report_again(self, report: tuple[object, ...]) -> None:
        """Forget that this was asked."""
        self._reported.discard(report)

    def note_refused(self, call: tuple[object, ...], left: Open) -> None:
        """Note a call that was refused, and is completed in the background: the same call again continues it."""
        with self._mutex:
            while len(self.refused) >= REMEMBERED:
                del self.refused[next(iter(self.refused))]
            self.refused[call] = left

    def take_refused(self, call: tuple[object, ...]) -> Open | None:
        """Return what was noted for a call, once."""
        with self._mutex:
            return self.refused.pop(call, None)

    def note(self, key: Key, left: Open) -> None:
        """Something is left open. What has been given up is forgotten on this occasion."""
        now = self._client.runtime.now()
        with self._mutex:
            for each, opens in list(self.open.items()):
                self.open[each] = [other for other in opens if other.until > now]
                if not self.open[each]:
                    del self.open[each]
            self.open.setdefault(key, []).append(left)

    def first(self, key: Key) -> Open | None:
        """What has been open for the longest time and is worth settling."""
        if not self.open:
            return None
        now = self._client.runtime.now()
        with self._mutex:
            return next((left for left in self.open.get(key, ()) if left.until > now), None)

    def close(self, key: Key, left: Open) -> bool:
        """It is settled. Returns whether that is news."""
        with self._mutex:
            opens = self.open.get(key, [])
            if left not in opens:
                return False
            opens.remove(left)
            if not opens:
                del self.open[key]
            return True

    def count(self) -> int:
        """How many requests are open."""
        with self._mutex:
            return sum(map(len, self.open.values()))

    async def settle(self, key: Key, budget: float | None = None) -> None:
        """Settle what this owner has left open here. It does no harm if another caller does, too.

        Raises:
            Failure: It is open still.
        """
        while (left := self.first(key)) is not None:
            sent = self._client.runtime.now()
            try:
                reply = await self._client.perform(left.request, budget)
            except Unanswered:
                left.until = min(left.until, sent + left.known_for)
                raise
            left.reply = reply if left.reply is None else left.reply
            self._client.server.heard(name=key[0])
            # "Stale" can only mean that its owner has settled it, and gone on.
            if self.close(key, left) and left.undoes and isinstance(reply, int) and reply:
                self._client.emit(events.GivenBack(*key))
