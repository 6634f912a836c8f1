"""Why a request has no usable reply, what counts as an error of this library's own, and what errors say."""

from __future__ import annotations

import copy
import re
from typing import TYPE_CHECKING, Final, TypeVar

from pyredisson._core.names import WAITING, prefixed
from pyredisson.errors import (
    LockError,
    LockLostError,
    LockNotOwnedError,
    NoSyncedSlavesError,
    OutcomeUnknownError,
    QuorumUnreachableError,
    RedissonError,
)

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.holder_lookup import Finder
    from pyredisson._core.owners import Caller


E = TypeVar("E", bound=Exception)
F = TypeVar("F", bound="Failure")

#: The flag of a coroutine's code: ``inspect.CO_COROUTINE``.
CO_COROUTINE = 0x80

#: Why a request is not repeated whose client has become another one: the parent or the original goes on with it.
ANOTHER = (
    "this client has become another one, in the child of a fork, in a restored copy of its process or by "
    "renew_identity(): call again"
)


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


# ---- what errors say -------------------------------------------------------------------------------------------------
# Of a lock: who holds it, and why waiting for it may be in vain.


#: The error of a signal handler that needs what the call it interrupted keeps to itself.
INTERRUPTED = (
    "used by a signal handler (or a finalizer) in the middle of a call of the same thread, which cannot continue "
    "before the handler returns. The handler should only set a flag or an event; do the rest after it"
)


def held_here(holder: Caller, layout: str = "", wanted: str = "") -> str:
    """Say who of this client holds a lock and, if it is not of the ``wanted`` layout, as what."""
    text = f"held by {holder.describe()} of this client"
    return text if layout == wanted else f"{text} as a {layout} (a {wanted} needs another name)"


def never_expires(name: str, others: str) -> str:
    """Say that a key has no time to live, although that of a lock has one. ``others``: what may be stored there."""
    return (
        f"the key {name!r} never expires, so it may not be a lock of pyredisson or Redisson, but {others}. Use another "
        "name, or delete the key"
    )


def timed_out(what: str, name: str, wait: float | None, why: str | None, tries: int | None = None) -> str:
    """The message for an owner that did not acquire a lock in time. ``why``: what is known of that, or ``None``."""
    if wait != 0:
        attempts = "" if tries is None else f"{tries} attempt{'s' * (tries > 1)}"
        after = " or ".join(filter(None, ("" if wait is None else f"{wait} s", attempts)))
        return f"timed out after {after} waiting for {what} {name!r}{f'; {why}' if why else ''}"
    if why is not None and why.startswith("held by "):
        return f"{what} {name!r} is {why}"
    return f"{what} {name!r} is held by another owner{f'; {why}' if why else ''}"


def ended_inside(what: str, name: str) -> LockNotOwnedError:
    """Return the error for a block that is left, and holds nothing any more. ``what`` it held, in words."""
    text = f"{what} {name!r} is no longer held by this block: it was released or force-unlocked inside it"
    return LockNotOwnedError(text, name=name)


def not_held(what: str, name: str, who: Caller, held: str | None, *, free: bool = False, releases: bool = True) -> str:
    """The message for who releases, or uses, a lock that it does not hold.

    Args:
        what: What kind of lock it is.
        name: The lock.
        who: Its caller.
        held: That another owner of this client holds it.
        free: Whether it is known that no one holds it.
        releases: Whether it was to be released.
    """
    start = f"{what} {name!r} is not held by {who.describe()} (number {who.number})"
    if free:
        return f"{start}: no one holds it (released twice, or never acquired?)"
    if not releases:
        return f"{start}: it is {held}" if held else f"{start}: acquire it first, in the same thread or task"
    there = f" it is {held}, and" if held else ""
    return (
        f"{start}:{there} only the thread or task that "
        "acquired it can release it. To release it elsewhere use hold(), whose block may be left in any thread or "
        "task, or get_lock(name, owner=client.new_owner())"
    )


# ---- remedies --------------------------------------------------------------------------------------------------------
# What to do about an error of a server or a connection, by what it says: tables, read from the top.


#: Of a server that the URL does not fit: asking it again will not help.
_WRONG_URL: Final = (
    (
        "MOVED |.*SELECT is not allowed in cluster mode",
        "it is one node of a cluster: connect by redis+cluster://host:port",
    ),
    (".*cluster support disabled", "it is no node of a cluster: connect by redis://host:port"),
    (".*unknown command .?SENTINEL", "it is no sentinel: connect by redis://host:port, or name the port of a sentinel"),
    (".*DB index is out of range", "the server has no database of this number: name another one in the URL"),
    ("Protocol error", "what answers is no Redis or Valkey: check the host and the port"),
)

_TABLE: Final = (
    *_WRONG_URL,
    (
        ".*unknown command .?HELLO|NOPROTO",
        "the server, or a proxy before it, does not know HELLO: add ?protocol=2 to its URL",
    ),
    (".*unknown command", "the server, or a proxy before it, does not have this command, or has renamed it"),
    (
        "OOM ",
        "the server's memory is full, so it stores no lock (releases are still accepted): raise maxmemory, "
        "or give locks a server of their own",
    ),
    (
        "WRONGPASS|.*invalid username-password|.*invalid password",
        "the server refuses this user or password: if it was changed, make the client with the new one, or with a "
        "credential_provider",
    ),
    (
        "LOADING ",
        "the server was started and reads its data: a call with a wait time waits until it has",
    ),
    (
        "NOPERM |.*no permissions to",
        "this user may not do that: allow what the page 'Connect' lists under 'What the server must allow'; "
        "`pyredisson doctor` names what is missing",
    ),
    (
        "READONLY ",
        "it is a replica: connect to its master, or by redis+sentinel://host:port/service, which follows failovers",
    ),
    ("MASTERDOWN ", "it is a replica whose master is away: connect to the master, or by redis+sentinel://"),
    ("MISCONF ", "its last save failed, so it refuses to write: see its log, and give it room on its disk"),
    (
        "NOREPLICAS ",
        "fewer replicas follow it than min-replicas-to-write demands: start them, or lower that number",
    ),
    ("BUSY ", "a script or function has run for too long there: SCRIPT KILL or FUNCTION KILL ends it"),
    ("CLUSTERDOWN ", "the cluster, or this slot of it, is not served: see CLUSTER INFO on its nodes"),
    (
        ".*(?:hostname mismatch|is not valid for|doesn't match)",
        "its certificate is that of another name: connect by a name that it has",
    ),
    (
        ".*certificate.verify.failed",
        "its certificate is not trusted: name the file of its CA with ssl_ca_certs=/path/to/ca.pem",
    ),
    (
        ".*(?:wrong.version.number|record.layer.failure|packet.length.too.long)",
        "no TLS is spoken at this port: use redis://, or the server's port for TLS",
    ),
)


def remedy_of(text: str) -> str | None:
    """Return what to do about an error with this text; ``None`` if that is not known."""
    return next((remedy for pattern, remedy in _TABLE if re.match(pattern, text, re.IGNORECASE)), None)


def is_wrong_url(text: str) -> bool:
    """Whether an error with this text says that the URL does not fit what answers there."""
    return any(re.match(pattern, text, re.IGNORECASE) for pattern, _ in _WRONG_URL)


# ---- wrong type ------------------------------------------------------------------------------------------------------
# A key that holds something else: the error that says what, and what fits. Asked only after the server complained.


#: What of ours is stored as what, under its own name.
FITS = {
    "string": "get_token_lock() (and redis-py's Lock), get_semaphore() and get_count_down_latch() store strings",
    "hash": "get_lock(), get_fair_lock(), get_fenced_lock() and get_spin_lock() store such hashes",
    "read-write hash": "get_read_write_lock() stores such hashes, with a field 'mode'",
}
NOTHING = "no lock of pyredisson or Redisson is stored like that"


#: What a server says of a string that is to be counted with. It may have put "ERR" before it, and the script behind it.
NO_NUMBER = "value is not an integer or out of range"


def is_wrong_type(error: BaseException) -> bool:
    """Whether the server says that a key holds something of another type."""
    return str(error).startswith("WRONGTYPE")


def no_number(name: str, key: str) -> LockError:
    """The error for a string that is to be counted with, and is no number."""
    return LockError(
        f"the value of key {key!r} is not an integer: another program uses this key. get_token_lock() (and "
        "redis-py's Lock) stores such strings. Use this, or another name",
        name=name,
    )


async def explain_type(
    finder: Finder, error: Exception, name: str, kind: str = "", where: str = "", *, key: str | None = None
) -> Exception:
    """Return the error to show for one that the server gave to a request about this key; itself, if it is another one.

    Args:
        finder: That of the client whose request it was.
        error: The server's error.
        name: The name of the lock, semaphore or latch.
        kind: What was asked for, in words; empty if it was only looked at.
        where: Where the key is, in words, if others have its name.
        key: The key, if it is not that of the name.
    """
    client = finder.client
    key = client.key_of(name) if key is None else key
    if str(error).removeprefix("ERR ").startswith(NO_NUMBER) and await _is_text(client, key):
        explained = no_number(name, key)
    elif is_wrong_type(error):
        explained = LockError(await _wrong_type(finder, error, name, kind, where, key), name=name)
    else:
        return error
    explained.__cause__ = error
    return explained


async def _wrong_type(finder: Finder, error: Exception, name: str, kind: str, where: str, key: str) -> str:
    client = finder.client
    held = await _type_of(client, waiting := prefixed(WAITING, key))
    if held not in ("", "none", "sorted set"):
        return (
            f"the key {waiting!r} holds a {held}, but the clients that wait for {name!r} are listed there: {NOTHING}. "
            "Delete this key, or use another name"
        )
    held = await _type_of(client, key)
    wanted = f", but a {kind} is stored differently" if kind else ""
    if not held:
        return f"the key {key!r}{where} holds something of another type{wanted}. Use another name"
    if held == "none":
        return f"a key that belongs to {name!r}{where} is of another type: {error}"
    what = "a hash of a read-write lock" if held == "read-write hash" else f"a {held}"
    fits = f"{FITS[held]}. Use one of these, or another name" if held in FITS else f"{NOTHING}. Use another name"
    text = f"the key {key!r}{where} holds {what}{wanted}: {fits}"
    if key == client.key_of(name) and (found := await finder.find(name)).holder is not None:
        text += f". It is {found.describe()}"
    return text


async def _is_text(client: ClientCore, key: str) -> bool:
    """Whether a key holds a string that is no number."""
    try:
        held = await client.runtime.execute(("GET", key), client.config.timeout / 3)
        int(held if isinstance(held, bytes) else 0)
    except Failure:
        return False
    except ValueError:
        return True
    return False


async def _type_of(client: ClientCore, key: str) -> str:
    """What a key holds, in Redis's word; empty if the server does not say."""
    patience = client.config.timeout / 3
    try:
        held = await client.runtime.execute(("TYPE", key), patience)
        if held == b"hash" and await client.runtime.execute(("HGET", key, "mode"), patience) in (b"read", b"write"):
            return "read-write hash"
    except Failure:
        return ""
    return {b"zset": "sorted set"}.get(held, held.decode(errors="replace")) if isinstance(held, bytes) else ""
