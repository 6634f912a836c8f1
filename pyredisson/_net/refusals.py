"""What error replies mean: the one table of refusals, for every server, connection and proxy.

Rules kept here:

1. A refusal that passes ("not now") is no answer. A call without a wait time raises it; waiters and acquires with a
   wait time go on, renewals are repeated, and releases of blocks are completed in the background.
2. A server that is the wrong one ("not here") is left: see ``server_link.py``. The request is repeated on a connection
   that is made anew, within ``Config.timeout``.
3. A refused credential passes, too, since credentials are rotated; only a new connection can use another one.
4. What a proxy says of a server that it has lost may concern a request that was executed.
5. Everything else is final.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import Any, Final

import redis.exceptions as rx

from pyredisson._core.failures import Failure, NotNow, NotSent, Passing, Rejected, Unanswered


class Meaning(Enum):
    """What a refusal says of its request."""

    PASSES = "not now"  # it had no effect
    NOT_HERE = "not here"  # another server is the master, or this one is not ready yet; it had no effect
    CREDENTIAL = "not with this credential"  # a stale one, maybe; it had no effect
    LOST = "lost"  # the proxy cannot know whether it had an effect
    FINAL = "no"  # it had no effect, and asking again will not help


_TABLE: Final[dict[str, tuple[type[rx.RedisError], Meaning]]] = {
    "BUSY": (rx.ResponseError, Meaning.PASSES),
    "CLUSTERDOWN": (rx.ClusterDownError, Meaning.PASSES),
    "LOADING": (rx.BusyLoadingError, Meaning.NOT_HERE),
    "MASTERDOWN": (rx.MasterDownError, Meaning.NOT_HERE),
    "MISCONF": (rx.ResponseError, Meaning.PASSES),
    "NOAUTH": (rx.AuthenticationError, Meaning.CREDENTIAL),
    "NOPERM": (rx.NoPermissionError, Meaning.FINAL),
    "NOREPLICAS": (rx.ResponseError, Meaning.PASSES),
    "NOSCRIPT": (rx.NoScriptError, Meaning.FINAL),
    "OOM": (rx.OutOfMemoryError, Meaning.PASSES),
    "READONLY": (rx.ReadOnlyError, Meaning.NOT_HERE),
    "TRYAGAIN": (rx.TryAgainError, Meaning.PASSES),
    # What a WAIT is answered when its server becomes a replica meanwhile.
    "UNBLOCKED": (rx.ResponseError, Meaning.PASSES),
    "WRONGPASS": (rx.AuthenticationError, Meaning.CREDENTIAL),
}

_FULL: Final = "(?:ERR )?max number of clients"

#: Replies without a code of their own: of servers, and of proxies (Envoy, twemproxy, Predixy) that have none.
_TEXTS: Final = tuple(
    (rf"(?i)(?:ERR )?(?:{pattern})", meaning)
    for pattern, meaning in (
        ("max number of clients", Meaning.NOT_HERE),
        # Its server has become a replica between what it was asked to do and WAIT.
        ("WAIT cannot be used with replica instances", Meaning.PASSES),
        ("invalid password", Meaning.CREDENTIAL),
        (r"no upstream host|no server (?:connection )?ava\w+|connection refused|host is down", Meaning.PASSES),
        (r"no route to host|network is unreachable|upstream connection limit", Meaning.PASSES),
        (r"upstream (?:failure|protocol error)|server connection close|connection (?:timed out|reset)", Meaning.LOST),
        ("broken pipe|deliver request fail", Meaning.LOST),
    )
)

#: The codes that redis-py's own reader has taken off the front.
_CODES: Final[dict[type[Exception], str]] = {
    kind: code for code, (kind, _) in _TABLE.items() if kind not in (rx.ResponseError, rx.AuthenticationError)
}

#: The classes of the errors after which a connection is of no use any more: a new one may lead elsewhere, or have
#: another credential.
LEAVES: Final = frozenset(
    kind for kind, meaning in _TABLE.values() if meaning in (Meaning.NOT_HERE, Meaning.CREDENTIAL)
)

#: How Redis before 7.0 wraps the error of a command in a script, whose code stands inside then.
_IN_SCRIPT: Final = (
    r"(?s)(?:(?:ERR )?Error running script \(call to f_\w+\): @user_script:\s*\d+: )?(?:@user_script:\s*\d+: )?-?(.*)"
)
#: What servers say, without a code, of a command in a script that the user may not run.
_NOT_PERMITTED: Final = r"(?:ERR )?(?:ACL failure in script|The user executing the script can't )"


def reply_error(text: str) -> rx.RedisError:
    """Make the redis-py error of an error reply; its code stays readable at the front of the message."""
    if "@user_script" in text and (inner := re.fullmatch(_IN_SCRIPT, text)):
        text = inner[1]
    code = "NOPERM" if re.match(_NOT_PERMITTED, text) else text.split(" ", 1)[0]
    return _TABLE[code][0](text) if code in _TABLE else rx.ResponseError(text)


def as_reply(error: rx.RedisError) -> rx.RedisError:
    """Return the error that redis-py's own reader has made of an error reply, as :func:`reply_error` makes it."""
    text = str(error)
    code = _CODES.get(type(error))
    if code is not None and not text.startswith(code) and not re.match(_NOT_PERMITTED, text):
        return type(error)(f"{code} {text}")
    return reply_error(text) if type(error) is rx.ResponseError else error


def meaning_of(error: Exception) -> Meaning:
    """Return what an error reply says of its request."""
    if isinstance(error, rx.AuthenticationError):
        return Meaning.CREDENTIAL
    text = str(error)
    code = _CODES.get(type(error)) or text.split(" ", 1)[0]
    if code in _TABLE:
        return _TABLE[code][1]
    if not isinstance(error, rx.ResponseError) and not re.match(_FULL, text):
        return Meaning.FINAL  # No reply at all.
    return next((meaning for pattern, meaning in _TEXTS if re.match(pattern, text)), Meaning.FINAL)


def failure_of(error: Any) -> Failure:
    """Return what an error reply says of the request, as the failure that the core knows."""
    error = as_reply(error)
    match meaning_of(error):
        case Meaning.PASSES | Meaning.CREDENTIAL:
            return Passing(error)
        case Meaning.NOT_HERE:
            return NotNow(error)
        case Meaning.LOST:
            return Unanswered(error)
    return Rejected(error)


def inspected(reply: Any, *, found: bool = False) -> Any:
    """What to make of the reply to ``INFO`` on a new connection: a server that cannot answer now is not there yet.

    ``found`` says that sentinels named it as the master: if it is none (any more), they are behind.

    Raises:
        NotSent: It is not to be used as yet. Where sentinels lead, ``NotNow``: they will name another soon.
    """
    if found and isinstance(reply, bytes) and b"\nrole:slave" in reply:
        raise NotNow(rx.ConnectionError("the master that the sentinels report is a replica: they are out of date"))
    if isinstance(reply, Exception) and isinstance(failure := failure_of(reply), NotSent):
        raise failure
    return reply


def is_wrong_server(info: object) -> bool:
    """Return whether the reply to ``INFO`` is that of a replica, or of a server that is not ready."""
    return isinstance(info, bytes) and (b"\nrole:slave" in info or b"\nloading:1" in info)


def as_redis_error(error: Exception) -> Exception:
    """Return an error of the system's as one of redis-py's, which is what callers catch."""
    if isinstance(error, rx.InvalidResponse):
        return rx.ConnectionError(f"Protocol error: {error}")
    return error if isinstance(error, rx.RedisError) else rx.ConnectionError(str(error) or type(error).__name__)


def not_opened(error: Exception) -> Failure:
    """Return why a connection could not be made: its server refused the handshake, or is not there.

    Whatever it was, the request that needed the connection was not sent.
    """
    error = as_redis_error(error)
    failure = failure_of(error)
    return failure if isinstance(failure, Passing) else NotSent(error)
