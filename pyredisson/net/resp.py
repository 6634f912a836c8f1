"""Requests as bytes, and error replies as what they mean. Shared by the runtimes that talk to real servers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import redis.exceptions as rx

from pyredisson.core.failures import Failure, NotNow, NotSent, Rejected, count_as_ours
from pyredisson.core.names import WAITING, prefixed
from pyredisson.lua import script_text

try:
    import hiredis
except ImportError as _error:
    if "subinterpreter" in str(_error):
        raise ImportError("pyredisson cannot run in an isolated subinterpreter: use threads or processes") from _error
    raise

count_as_ours(rx.RedisError)


class Script:
    """A script of ``pyredisson/lua``."""

    __slots__ = ("name", "sha", "text")

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.text: bytes = script_text(name).encode()
        self.sha: str = hashlib.sha1(self.text, usedforsecurity=False).hexdigest()


script: Callable[[str], Script] = cache(Script)


class Packed:
    """A script's call, ready to be sent.

    Attributes:
        data: ``EVALSHA sha numkeys key... arg...``.
        script: The script.
    """

    __slots__ = ("data", "script")

    def __init__(self, script: Script, rest: tuple[str | int | bytes, ...]) -> None:
        self.script: Script = script
        self.data: bytes = pack("EVALSHA", script.sha, *rest)

    def in_full(self) -> bytes:
        """Return the same call with the script's text, for a server that does not know it."""
        # Made of the bytes: to keep the arguments as well would take as much memory again, for each lock that is held.
        count, rest = self.data.split(b"\r\n", 1)[0], self.data.split(self.script.sha.encode() + b"\r\n", 1)[1]
        return b"%b\r\n$4\r\nEVAL\r\n$%d\r\n%b\r\n%b" % (count, len(self.script.text), self.script.text, rest)

    def without_list(self) -> Packed | None:
        """Return the same call without the list of waiting clients; ``None`` if it has none, or is all about it."""
        reader = new_reader()
        reader.feed(self.data)
        _, _, number, *rest = reader.gets()
        last = int(number) - 1
        is_list = rest[last].decode() == prefixed(WAITING, rest[0].decode())
        if not is_list or self.script.name.endswith("_waiting"):
            return None
        return Packed(self.script, (last, *rest[:last], *rest[last + 1 :]))


def prepare(name: str, keys: tuple[str, ...], args: tuple[str | int | bytes, ...]) -> Packed:
    """Pack the call of a script."""
    return Packed(script(name), (len(keys), *keys, *args))


#: Packs a command of strings.
pack_command: Callable[[tuple[str | bytes, ...]], bytes]
pack_command = hiredis.pack_command  # type: ignore[assignment]  # Its own types know tuples of one element only.


def pack(*args: str | int | bytes) -> bytes:
    """Pack a command."""
    # No numbers for hiredis: it asks for their repr(), which fails when a signal handler raises just then, and it would
    # dereference the null pointer that it gets (3.5).
    return pack_command(tuple([str(arg) if isinstance(arg, int) else arg for arg in args]))


ASKING = pack("ASKING")


def resent(requests: Sequence[Packed], replies: list[Any]) -> dict[int, bytes]:
    """What to send again because the server did not know the script: its text once, then the calls as before."""
    again: dict[int, bytes] = {}
    sent: set[Script] = set()
    for index, (request, reply) in enumerate(zip(requests, replies, strict=True)):
        if is_no_script(reply):
            again[index] = request.data if request.script in sent else request.in_full()
            sent.add(request.script)
    return again


_ERRORS: dict[str, type[rx.RedisError]] = {
    "NOSCRIPT": rx.NoScriptError,
    "LOADING": rx.BusyLoadingError,
    "READONLY": rx.ReadOnlyError,
    "OOM": rx.OutOfMemoryError,
    "NOPERM": rx.NoPermissionError,
    "NOAUTH": rx.AuthenticationError,
    "WRONGPASS": rx.AuthenticationError,
    "MASTERDOWN": rx.MasterDownError,
    "CLUSTERDOWN": rx.ClusterDownError,
    "TRYAGAIN": rx.TryAgainError,
}

#: The server could not take the request at this moment, and did not: as good as not sent. UNBLOCKED is what a ``WAIT``
#: is answered when its server becomes a replica meanwhile: that replicas cannot be waited for at all is not in it.
_NOT_NOW = frozenset({"LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "UNBLOCKED"})
#: Of these, what a server says that is not the master, or not yet.
_NO_MASTER = frozenset({"LOADING", "READONLY", "MASTERDOWN"})


#: How Redis before 7.0 wraps the error of a command in a script, whose code stands inside then.
_IN_SCRIPT = re.compile(
    r"(?:(?:ERR )?Error running script \(call to f_\w+\): @user_script:\s*\d+: )?(?:@user_script:\s*\d+: )?-?(.*)",
    re.DOTALL,
)
#: What a server says that has become a replica between what it was asked to do and ``WAIT``.
_NO_LONGER_MASTER = "ERR WAIT cannot be used with replica instances"
#: What servers say, without a code, of a command in a script that the user may not run.
_NOT_PERMITTED = re.compile(r"(?:ERR )?(?:ACL failure in script|The user executing the script can't run)")


def reply_error(text: str) -> rx.RedisError:
    """Make the redis-py error of an error reply; its code stays readable at the front of the message."""
    if "@user_script" in text and (inner := _IN_SCRIPT.fullmatch(text)):
        text = inner[1]
    code = "NOPERM" if _NOT_PERMITTED.match(text) else text.split(" ", 1)[0]
    return _ERRORS.get(code, rx.ResponseError)(text)


def failure_of(error: Any, *, found: bool = False) -> Failure:
    """Return what an error reply says of the request: it had no effect, temporarily or finally.

    ``found`` says that sentinels named this server as the master: one that is none, or is none yet, is replaced
    or ready soon, so that it is worth asking again.
    """
    if type(error) is rx.ResponseError:
        inner = reply_error(str(error))  # redis-py's own reader, which a borrowed connection has, does not look inside.
        error = error if type(inner) is rx.ResponseError and str(inner) == str(error) else inner
    code = str(error).split(" ", 1)[0]
    if found and (code in _NO_MASTER or isinstance(error, (rx.BusyLoadingError, rx.ReadOnlyError))):
        return NotNow(error)
    if code in _NOT_NOW or isinstance(error, (rx.BusyLoadingError, rx.ReadOnlyError)):
        return NotSent(error)
    if str(error).startswith(_NO_LONGER_MASTER):
        return NotSent(error)
    return Rejected(error)


def inspected(reply: Any, *, found: bool = False) -> Any:
    """What to make of the reply to ``INFO`` on a new connection: a server that cannot answer now is not there yet.

    ``found`` says that sentinels named it as the master: if it is none (any more), they are behind.

    Raises:
        NotSent: It is not to be used as yet. Where sentinels lead, ``NotNow``: they will name another soon.
    """
    if found and isinstance(reply, bytes) and b"\nrole:slave" in reply:
        raise NotNow(rx.ConnectionError("the master that the sentinels report is a replica: they are out of date"))
    if isinstance(reply, Exception) and isinstance(failure := failure_of(reply, found=found), NotSent):
        raise failure
    return reply


def new_reader() -> hiredis.Reader:
    """A parser whose errors are redis-py's, and whose strings are bytes."""
    return hiredis.Reader(protocolError=rx.InvalidResponse, replyError=reply_error)


def unexpected_reply(command: str, reply: object, expected: str) -> rx.InvalidResponse:
    """Return the error for a reply that is not of the type that it should be. ``expected``: what should be there."""
    shown = repr(reply)
    return rx.InvalidResponse(
        f"unexpected reply to {command}: {shown if len(shown) <= 60 else shown[:57] + '...'}; is something else than "
        f"{expected} at this address?"
    )


def is_push(reply: object) -> bool:
    """Whether this is a RESP3 push message: not the answer to anything."""
    return type(reply).__name__ == "PushNotification"


def is_no_script(reply: object) -> bool:
    """Whether the server says that it does not know the script."""
    return isinstance(reply, rx.ResponseError) and (
        isinstance(reply, rx.NoScriptError) or str(reply).startswith("NOSCRIPT")
    )


def as_redis_error(error: Exception) -> Exception:
    """Return an error of the system's as one of redis-py's, which is what callers catch."""
    if isinstance(error, rx.InvalidResponse):
        return rx.ConnectionError(f"Protocol error: {error}")
    return error if isinstance(error, rx.RedisError) else rx.ConnectionError(str(error) or type(error).__name__)


def not_opened(error: Exception) -> Failure:
    """Return why a connection could not be made: its server did not let us in, is full at this moment, or is not there.

    A full server lets others in soon; and we may have connections that come back from another request by then.
    """
    if isinstance(error, rx.AuthenticationError):
        return failure_of(error)
    full = str(error).startswith("max number of clients")
    return (NotNow if full else NotSent)(as_redis_error(error))
