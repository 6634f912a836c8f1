"""Why a request has no usable reply, and what counts as an error of this library's own."""

from __future__ import annotations

import copy
from typing import TypeVar

from pyredisson.errors import (
    LockLostError,
    NoSyncedSlavesError,
    OutcomeUnknownError,
    QuorumUnreachableError,
    RedissonError,
)

E = TypeVar("E", bound=Exception)
F = TypeVar("F", bound="Failure")

#: The flag of a coroutine's code: ``inspect.CO_COROUTINE``.
CO_COROUTINE = 0x80

#: Why a request is not repeated whose client has become another one: the parent or the original goes on with it.
ANOTHER = "this client has become another one, in the child of a fork or a restored copy of its process: call again"


class Failure(Exception):
    """A request without a usable reply. ``cause`` is the error to show to the user.

    Never let out of the core: callers see ``cause``, or an error that says what became of their request.

    Attributes:
        cause: That error.
        earlier: Whether this call has sent nothing whose outcome is unknown: an earlier request of its owner is in
            doubt, and stays so. Then the call ends with ``cause``, and not with ``OutcomeUnknownError``.
        passes: Whether the server refused the last copy of the request for a reason that passes.
    """

    earlier: bool = False
    passes: bool = False

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class NotSent(Failure):
    """The request surely had no effect: there was no connection, or the server could not take it at this moment."""


class Passing(NotSent):
    """The server refused the request for a reason that passes: waits go on, and what has to be done is done later."""

    passes = True


class NotNow(Passing):
    """The same, and it is worth asking again within the time of the call."""


class Connecting(NotNow):
    """There is no connection yet: one is being made, and may be of use when the request is repeated."""

    passes = False


class Dropped(NotNow):
    """The server ended each connection as soon as it was made."""

    passes = False


class Unanswered(Failure):
    """The request was sent, and no reply was received. It may have been executed, or may yet be."""


class Unusable(Unanswered):
    """The answer says nothing of use, and asking again will not help: whether it was executed is not known.

    Either an error, and an earlier copy may have been executed; or something that the script never says.
    """


class Rejected(Failure):
    """The server answered with an error: the request had no effect, and asking again will not help."""


def superseded(name: str) -> Unanswered:
    """Return the failure of a request about this lock that a later one of the same owner has overtaken."""
    return Unanswered(OutcomeUnknownError("superseded by a later request of the same owner", name=name))


def of_earlier(failure: F) -> F:
    """Return a failure as that of a call whose owner has an earlier request in doubt; see :attr:`Failure.earlier`."""
    mine = own_copy(failure)
    mine.earlier = True
    return mine


def without_effect(failure: Failure, repeat: bool, sent: bool = False) -> Failure:
    """Return what a copy of a request says of it that surely had no effect, after others that may have had one or not.

    Args:
        failure: Why that copy had no effect.
        repeat: Whether others may have had one.
        sent: Whether this call has sent one of those; else they are of an earlier call.

    Raises:
        Failure: Another copy is of no use.
    """
    if not repeat:
        if not isinstance(failure, NotNow):
            raise failure
        return failure
    if isinstance(failure, Rejected):
        unusable = Unusable(failure.cause)
        raise (unusable if sent else of_earlier(unusable)) from failure.cause
    unanswered = Unanswered(failure.cause)
    unanswered.passes = failure.passes
    return unanswered if sent else of_earlier(unanswered)


def replicas_appeared() -> Unanswered:
    """Return the failure for a plain answer on a connection that has just reported replicas: it is asked again."""
    return Unanswered(RedissonError("the server has replicas, which were not asked"))


#: See :func:`count_as_ours`.
OUR_ERRORS: list[type[BaseException]] = [Failure, RedissonError]


def count_as_ours(kind: type[E]) -> type[E]:
    """Let this kind of error be one of ours. Those of the connection are, which the core does not know."""
    OUR_ERRORS.append(kind)
    return kind


def is_interruption(error: BaseException) -> bool:
    """Whether a call was interrupted by this, and not ended by an error of ours, which says what became of it.

    ``KeyboardInterrupt`` and a cancellation are; and so is whatever else a signal handler raises, of any class, such as
    Celery's ``SoftTimeLimitExceeded`` or a ``TimeoutError``. An interrupted call sees to it that nothing is left
    behind. With a bad argument nothing has begun, so it does not matter that its error looks like one.
    """
    return not isinstance(error, tuple(OUR_ERRORS))


def cannot_wait(error: BaseException | None) -> bool:
    """Whether a block ends since its coroutine is being closed, and so can await nothing.

    An async generator that is being closed can: ``aclose()`` is awaited, also by ``asyncio.run()`` at its end. But not
    if it is only a part of a coroutine that is being closed, as that of ``asynccontextmanager`` may be.
    """
    if not isinstance(error, GeneratorExit):
        return False
    trace = error.__traceback__
    while trace is not None and not trace.tb_frame.f_code.co_flags & CO_COROUTINE:
        trace = trace.tb_next
    return trace is not None or error.__traceback__ is None


def is_cancellation(error: BaseException) -> bool:
    """Whether a task was cancelled by this, rather than ended by Ctrl-C, an exit or an error."""
    return not isinstance(error, (Exception, GeneratorExit, KeyboardInterrupt, SystemExit))


def as_failure(error: Exception) -> Failure:
    """Return what an error is to a request that the background makes: of a foreign class it says nothing."""
    return error if isinstance(error, Failure) else Unanswered(error)


def is_contained(error: BaseException) -> bool:
    """Whether an error of the user's code concerns that code alone, where it runs in a thread or task of ours.

    All do, ``SystemExit`` and what test frameworks raise as well: it is reported, and the loop that called goes on.
    Ctrl-C is meant for the program, wherever it is raised.
    """
    return not isinstance(error, (KeyboardInterrupt, GeneratorExit))


def own_copy(error: E) -> E:
    """Return a copy of an error that several waiters raise: each of them adds a traceback to its own."""
    mine = copy.copy(error)
    mine.__cause__ = error.__cause__
    if isinstance(mine, Failure):
        mine.cause = own_copy(mine.cause)
    return mine


def gives_way(ours: Exception, error: BaseException | None) -> bool:
    """Return whether an error on leaving a block gives way to the one that ended the block; a loss is noted on that.

    Args:
        ours: What was raised on leaving.
        error: What the block raised; ``None``: nothing.
    """
    if error is None or is_interruption(ours):
        return False
    add_note = getattr(error, "add_note", None)  # Python 3.11 and later.
    if add_note is not None and isinstance(ours, LockLostError):
        add_note(str(ours))
    return True


#: Why an acquire fails; see :class:`pyredisson.events.AcquireFailed`. The first is that of a time-out.
REASONS = ("timeout", "connection", "quorum", "unknown", "replicas", "refused", "error")

_CONNECTION = frozenset({"ConnectionError", "TimeoutError", "OSError"})


def reason_of(error: BaseException) -> str:
    """Return why an acquire failed with this error: one of :data:`REASONS`."""
    match error:
        case QuorumUnreachableError():
            return "quorum"
        case OutcomeUnknownError():
            return "unknown"
        case NoSyncedSlavesError():
            return "replicas"
        case RedissonError():
            return "error"
    # Those of redis-py have these names, too. The core does not know that library.
    return "connection" if _CONNECTION.intersection(each.__name__ for each in type(error).__mro__) else "refused"
