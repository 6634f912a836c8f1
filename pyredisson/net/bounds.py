"""How much of a server's reply is believed. All that is asked here is answered by little; more is an attack or a fault.

A parser makes room for what a reply says that it will be. So its framing is read along, before the parser sees it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import redis.exceptions as rx

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_ELEMENTS", "Framing", "Reader", "pack_command"]

try:
    import hiredis
except ImportError as _error:
    if "subinterpreter" in str(_error):
        raise ImportError("pyredisson cannot run in an isolated subinterpreter: use threads or processes") from _error
    raise

#: Packs a command.
pack_command: Callable[[tuple[str | bytes, ...]], bytes]
pack_command = hiredis.pack_command  # type: ignore[assignment]  # Its own types know tuples of one element only.

#: The largest reply.
MAX_BYTES: Final = 64 * 1024 * 1024

#: So deep arrays may be in arrays.
MAX_DEPTH: Final = 8

#: The longest array.
MAX_ELEMENTS: Final = 1024 * 1024

#: Nearly all replies: numbers, nulls, short words.
_SIMPLE: Final = re.compile(rb"(?::-?\d+\r\n|_\r\n|\$-1\r\n|\+[ -~]*\r\n)+")

#: An array of numbers, if its length is right: the reply to a renewal, which says one of each lock.
_NUMBERS: Final = re.compile(rb"\*(\d{1,4})\r\n(?::-?\d+\r\n)+")

#: A message of a channel, if both lengths are right: what waiters are woken by, so that time counts.
_MESSAGE: Final = re.compile(
    rb"[*>]3\r\n(?:\$7\r\n|\$8\r\ns)message\r\n\$(\d{1,4})\r\n([^\r\n]*)\r\n\$(\d{1,4})\r\n([^\r\n]*)\r\n"
)

_BULKS: Final = b"$=!"
_ARRAYS: Final = b"*~>%|"


class Framing:
    """Reads the framing of replies along, and refuses what is out of bounds."""

    __slots__ = ("_bytes", "_keyed", "_left", "_line", "_skip")

    def __init__(self) -> None:
        self._left: list[int] = []  # How many elements are to come, of each array that is open.
        self._keyed: list[bool] = []  # Whether it is a map.
        self._line = b""  # What has come of a line.
        self._skip = 0  # What is to come of a bulk.
        self._bytes = 0  # What has come of this reply.

    def read_along(self, data: bytes) -> None:
        """Check what was received, before a parser gets it.

        Raises:
            redis.exceptions.InvalidResponse: No reply can be so large, or is like this.
        """
        if not self._bytes and _only_numbers(data):
            return
        try:
            self._read_along(data)
        except ValueError:
            raise rx.InvalidResponse("the server's reply has a length that is not a number") from None

    def _read_along(self, data: bytes) -> None:
        at, size = 0, len(data)
        while at < size:
            if self._skip:
                step = min(self._skip, size - at)
                at += step
                self._skip -= step
                self._bytes += step
                if not self._skip:
                    self._ended()
                continue
            end = data.find(b"\n", at) + 1
            self._line += data[at : end or size]
            self._bytes += (end or size) - at
            self._check(self._bytes, MAX_BYTES, "bytes")
            if not end:
                return
            at = end
            line, self._line = self._line, b""
            self._begun(line)

    def _begun(self, line: bytes) -> None:
        if line[0] in _BULKS:
            length = int(line[1:])
            if length >= 0:
                self._check(self._bytes + length, MAX_BYTES, "bytes")
                self._skip = length + 2
                return
        elif line[0] in _ARRAYS:
            count = int(line[1:]) * (2 if line[:1] in b"%|" else 1) + (line[:1] == b"|")
            if count >= 0 and self._left and self._keyed[-1] and not self._left[-1] % 2:
                raise rx.InvalidResponse("the server's reply has a map with an array for a key")
            if count > 0:
                self._check(count, MAX_ELEMENTS, "elements")
                self._left.append(count)
                self._keyed.append(line[:1] == b"%")
                self._check(len(self._left), MAX_DEPTH, "levels")
                return
        self._ended()

    def _ended(self) -> None:
        """One value is complete, and with it every array of which it was the last element."""
        left = self._left
        while left:
            left[-1] -= 1
            if left[-1]:
                return
            left.pop()
            self._keyed.pop()
        self._bytes = 0

    @staticmethod
    def _check(number: int, most: int, what: str) -> None:
        if number > most:
            raise rx.InvalidResponse(f"the server's reply has more than {most} {what}")


class Reader(Framing):
    """A parser of replies, within bounds.

    Args:
        **settings: As for ``hiredis.Reader``.
    """

    __slots__ = ("_feed", "gets")

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        parser = hiredis.Reader(**settings)
        self._feed: Callable[[bytes], object] = parser.feed
        self.gets: Callable[..., Any] = parser.gets

    def feed(self, data: bytes) -> None:
        """Take what was received. Raises as :meth:`read_along` does."""
        if self._bytes or not (_SIMPLE.fullmatch(data) or _only_messages(data)):
            self.read_along(data)
        self._feed(data)


def _only_numbers(data: bytes) -> bool:
    found = _NUMBERS.fullmatch(data)
    return found is not None and data.count(b"\n") == int(found[1]) + 1


def _only_messages(data: bytes) -> bool:
    at = 0
    while at < len(data):
        found = _MESSAGE.match(data, at)
        if found is None or len(found[2]) != int(found[1]) or len(found[4]) != int(found[3]):
            return False
        at = found.end()
    return True
