"""Requests as bytes, and replies as values. Shared by the runtimes that talk to real servers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import redis.exceptions as rx

from pyredisson._core.failures import count_as_ours
from pyredisson._core.names import WAITING, prefixed
from pyredisson._lua import script_text
from pyredisson._net.refusals import reply_error

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
