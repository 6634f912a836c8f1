"""One connection to one server: how one comes to be made, what is sent on it, and what error replies mean.

``async`` means "may block" here, as in the core: under threads these methods block, and never suspend.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, Final, Protocol, TypeAlias

import redis.exceptions as rx

from pyredisson._core.failures import Failure, NotNow, NotSent, Passing, Rejected, Unanswered, count_as_ours
from pyredisson._core.names import WAITING, prefixed
from pyredisson._core.presence import Identity
from pyredisson._core.runtime import NumberedRequest
from pyredisson._lua import script_text

Address: TypeAlias = tuple[str, int]
"""Host and port."""


class Wire(Protocol):
    """One connection to one server.

    Attributes:
        address: Where the server is, if it may be elsewhere for the next connection.
        used: When a request was answered on it last.
    """

    address: Address | None
    used: float

    def call(self, data: bytes, timeout: float, /) -> Awaitable[Any]:
        """Send a request and return the reply, or the error that was one.

        Raises:
            NotSent: Nothing that the server could execute has left.
            Unanswered: It has, and no reply was received.
        """
        ...

    def call_many(self, requests: Sequence[bytes], timeout: float, /) -> Awaitable[list[Any]]:
        """Send several requests at once and return the reply of each, or the error that was one, or a ``Failure``.

        Raises:
            NotSent, Unanswered: For all of them.
        """
        ...

    def usable(self) -> bool:
        """Whether it stands, as far as can be seen without asking the server."""
        ...

    def retire(self) -> None:
        """Close it as soon as nothing is in flight on it; nothing more is sent."""
        ...

    def close(self) -> None:
        """Close it."""
        ...

    def abandon(self) -> None:
        """Close it in the child of a fork, without a word to the server."""
        ...


Connect: TypeAlias = Callable[[float], Coroutine[Any, Any, Wire]]


class Dial(Protocol):
    """A connection being made, in the background.

    Attributes:
        began: When that began.
    """

    began: float

    @property
    def failure(self) -> BaseException | None:
        """Why it could not be made; ``None`` as long as it is being made, or if it was."""
        ...

    def done(self) -> bool:
        """Whether it has come to an end."""
        ...

    async def wait(self, seconds: float) -> bool:
        """Wait for the end at most so long. Returns whether it has come."""
        ...


# ---- resp ------------------------------------------------------------------------------------------------------------
# Requests as bytes, and replies as values. Shared by the runtimes that talk to real servers.


try:
    import hiredis
except ImportError as _error:
    if "subinterpreter" in str(_error):
        raise ImportError("pyredisson cannot run in an isolated subinterpreter: use threads or processes") from _error
    raise

count_as_ours(rx.RedisError)


class Script:
    """A script of ``pyredisson/_lua``."""

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

    script: Script
    data: bytes

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
        return _packed(self.script, pack("EVALSHA", self.script.sha, last, *rest[:last], *rest[last + 1 :]))


def _packed(known: Script, data: bytes) -> Packed:
    request = Packed()
    request.script, request.data = known, data
    return request


def prepare(name: str, keys: tuple[str, ...], args: tuple[str | int | bytes, ...]) -> Packed:
    """Pack the call of a script."""
    known = script(name)
    return _packed(known, pack("EVALSHA", known.sha, len(keys), *keys, *args))


class PackedCommand(Packed):
    """A command that calls no script, ready to be sent."""

    __slots__ = ()

    def __init__(self, command: tuple[str, ...]) -> None:
        self.data = pack(*command)

    def in_full(self) -> bytes:
        """See :meth:`Packed.in_full`; it always is."""
        return self.data

    def without_list(self) -> None:
        """See :meth:`Packed.without_list`."""


def prepare_numbered(name: str, keys: tuple[str, ...], args: tuple[str | int | bytes, ...]) -> NumberedRequest:
    """See ``Runtime.prepare_numbered``."""
    known = script(name)
    before = _body("EVALSHA", known.sha, len(keys), keys[0])
    record, more, after = keys[1].encode(), _body(*keys[2:]), _body(*args)

    def request(owner: str, number: int, value: bytes) -> Packed:
        key, digits, packed = record + owner.encode(), b"%d" % number, Packed()
        count = len(keys) + len(args) + 4
        if value:
            count, digits = count + 1, b"%b\r\n$%d\r\n%b" % (digits, len(value), value)
        packed.script = known
        packed.data = b"*%d\r\n%b$%d\r\n%b\r\n%b$%d\r\n%b\r\n%b" % (
            count,
            before,
            len(key),
            key,
            more,
            len(b"%d" % number),
            digits,
            after,
        )
        return packed

    return request


def _body(*args: str | int | bytes) -> bytes:
    """Pack a part of a command."""
    return pack(*args).split(b"\r\n", 1)[1]


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


# ---- introduction ----------------------------------------------------------------------------------------------------
# How our connections introduce themselves, so that ``CLIENT LIST`` says whose they are.
#
# A server that is too old for it, or a user that may not, refuses that, and nothing else depends on it.


#: This library's. It is imported before all of its parts, which therefore do not import it.
VERSION: Final[str] = sys.modules["pyredisson"].__version__

#: So long may a part of a connection's name be.
LONGEST: Final = 64

#: What separates the parts, and what no name of a connection may contain.
_NOT_IN_NAMES: Final = r"[^!-9;-~]"


def connection_name(identity: Identity, client_id: str) -> str:
    """Return the name of a connection: ``pyredisson:<app>:<host>:<pid>:<client id>``."""
    return f"pyredisson:{_part(identity.app or '-')}:{_part(identity.host)}:{identity.pid}:{client_id}"


def _part(text: str) -> str:
    return re.sub(_NOT_IN_NAMES, "_", text[:LONGEST])


def introduction(identity: Identity, client_id: str, *, named: bool) -> Sequence[bytes]:
    """Return the commands by which a new connection says whose it is. Whatever they are answered is of no interest.

    Args:
        identity: The process.
        client_id: The client.
        named: Whether the connection has a name already that its user has chosen, and keeps.
    """
    library = (
        pack("CLIENT", "SETINFO", "LIB-NAME", "pyredisson"),
        pack("CLIENT", "SETINFO", "LIB-VER", identity.version),
    )
    return library if named else (pack("CLIENT", "SETNAME", connection_name(identity, client_id)), *library)


def app_in(settings: Mapping[str, Any]) -> str | None:
    """Return what a user calls the connections of redis-py, from their settings: ``client_name``, if it is a name."""
    name = settings.get("client_name")
    return name if isinstance(name, str) and name else None


# ---- refusals --------------------------------------------------------------------------------------------------------
# What error replies mean: the one table of refusals, for every server, connection and proxy.
#
# Rules kept here:
#
# 1. A refusal that passes ("not now") is no answer. A call without a wait time raises it; waiters and acquires with a
#    wait time go on, renewals are repeated, and releases of blocks are completed in the background.
# 2. A server that is the wrong one ("not here") is left: see ``link.py``. The request is repeated on a connection
#    that is made anew, within ``Config.timeout``.
# 3. A refused credential passes, too, since credentials are rotated; only a new connection can use another one.
# 4. What a proxy says of a server that it has lost may concern a request that was executed.
# 5. Everything else is final.


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


def no_reply(timeout: float) -> rx.TimeoutError:
    """Return the error for a reply that was not received in time."""
    return rx.TimeoutError(f"no reply from the server within {timeout:.3g} s")
