"""Packing of commands and parsing of replies in Python, for installations without hiredis.

A parser keeps what it has read of a reply, so that each byte is looked at once, however the reply is cut. What hiredis
refuses is refused here; in addition a bulk string that does not end where it says. The bounds are kept by
``bounds.Framing``, which reads the framing before either parser does.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

__all__ = ["Parser", "PushNotification", "pack_command"]

_INTEGER: Final = re.compile(rb"0|-?[1-9][0-9]{0,18}")
_BIG_INTEGER: Final = re.compile(rb"[+-]?[0-9]+")
_DOUBLE: Final = re.compile(rb"[+-]?(?:[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?|inf|nan)")
_LEAST: Final = -(2**63)
_MOST: Final = 2**63 - 1

#: An incomplete reply. hiredis says it so.
_INCOMPLETE: Final = False

#: So much may be read of a buffer before that part is dropped.
_DROP: Final = 65_536


class PushNotification(list[Any]):
    """A RESP3 push message."""


def pack_command(words: tuple[str | bytes, ...]) -> bytes:
    """Pack a command."""
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word.encode() if isinstance(word, str) else word
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


class _Aggregate:
    """An array, a map or the like, of which elements are still to come."""

    __slots__ = ("items", "kind", "left")

    def __init__(self, kind: int, left: int) -> None:
        self.kind = kind
        self.left = left
        self.items: list[Any] = []

    def value(self) -> Any:
        """Return it, complete."""
        if self.kind == _MAP:
            return dict(zip(self.items[::2], self.items[1::2], strict=True))
        return PushNotification(self.items) if self.kind == _PUSH else self.items


_STRING, _ERROR, _NUMBER, _NULL, _BOOLEAN, _FLOAT, _BIG_NUMBER = b"+-:_#,("
_BULK, _BULK_ERROR, _VERBATIM = b"$!="
_ARRAY, _MAP, _SET, _PUSH, _ATTRIBUTE = b"*%~>|"
_BULKS: Final = (_BULK, _BULK_ERROR, _VERBATIM)
_AGGREGATES: Final = (_ARRAY, _MAP, _SET, _PUSH, _ATTRIBUTE)


class Parser:
    """A parser with the interface of ``hiredis.Reader``.

    Args:
        protocolError: Makes the error that is raised for anything that is no reply.
        replyError: Makes the error that is returned for an error reply.
    """

    __slots__ = (
        "_at",
        "_broken",
        "_buffer",
        "_bulk",
        "_length",
        "_open",
        "_protocol_error",
        "_reply_error",
        "_searched",
    )

    def __init__(
        self,
        protocolError: Callable[[str], Exception] = ValueError,  # As hiredis names it.
        replyError: Callable[[str], Exception] = RuntimeError,
    ) -> None:
        self._protocol_error = protocolError
        self._reply_error = replyError
        self._buffer = bytearray()
        self._at = 0  # Of the buffer, so much was read.
        self._searched = 0  # Up to there it has no end of a line.
        self._bulk = 0  # The type of the bulk string whose bytes are to come; 0: none.
        self._length = 0
        self._open: list[_Aggregate] = []
        self._broken: Exception | None = None

    def feed(self, data: bytes) -> None:
        """Take what was received."""
        self._buffer += data

    def gets(self) -> Any:
        """Return the next reply; ``False`` if it is not complete."""
        if self._broken is not None:
            raise self._broken
        try:
            return self._next()
        except Exception as error:
            self._broken = error
            raise

    def _next(self) -> Any:
        while True:
            value = self._value()
            if value is _MORE:
                continue
            if value is _NOTHING:
                self._drop()
                return _INCOMPLETE
            open_ = self._open
            while open_:
                top = open_[-1]
                top.items.append(value)
                top.left -= 1
                if top.left:
                    break
                open_.pop()
                if top.kind == _ATTRIBUTE:  # It says something of the value behind it, which is none of ours.
                    break
                value = top.value()
            else:
                self._drop()
                return value

    def _drop(self) -> None:
        at = self._at
        if at == len(self._buffer) or at > _DROP:
            del self._buffer[:at]
            self._searched -= at
            self._at = 0

    def _value(self) -> Any:
        """Read one value without elements, or the beginning of one with elements."""
        if self._bulk:
            return self._bulk_value()
        buffer, at = self._buffer, self._at
        end = buffer.find(b"\n", max(self._searched, at))
        if end < 0:
            self._searched = len(buffer)
            return _NOTHING
        if end == at or buffer[end - 1] != 13 or buffer.find(b"\r", at, end - 1) >= 0:
            raise self._protocol_error("the server's reply has a line that does not end in CR LF")
        kind, line = buffer[at], bytes(buffer[at + 1 : end - 1])
        self._at = end + 1
        if kind in _AGGREGATES:
            return self._begin(kind, self._integer(line))
        if kind in _BULKS:
            length = self._integer(line)
            if length == -1:
                return None
            if length < 0:
                raise self._protocol_error(f"the server's reply has a string of {length} bytes")
            self._bulk, self._length = kind, length
            return self._bulk_value()
        return self._line_value(kind, line)

    def _begin(self, kind: int, count: int) -> Any:
        if count < -1:
            raise self._protocol_error(f"the server's reply has an array of {count} elements")
        if count == -1:
            return None
        elements = 2 * count if kind in (_MAP, _ATTRIBUTE) else count
        if elements:
            self._open.append(_Aggregate(kind, elements))
            return _MORE
        return _MORE if kind == _ATTRIBUTE else _Aggregate(kind, 0).value()

    def _line_value(self, kind: int, line: bytes) -> Any:
        if kind == _NUMBER:
            return self._integer(line)
        if kind == _STRING:
            return line
        if kind == _ERROR:
            return self._reply_error(line.decode(errors="replace"))
        if kind == _NULL and not line:
            return None
        if kind == _BOOLEAN and line in (b"t", b"f"):
            return line == b"t"
        if kind == _FLOAT and _DOUBLE.fullmatch(line):
            return float(line)
        if kind == _BIG_NUMBER and _BIG_INTEGER.fullmatch(line):
            return line
        raise self._protocol_error(f"the server's reply is not valid: {chr(kind)!r} and {line[:20]!r}")

    def _integer(self, line: bytes) -> int:
        if _INTEGER.fullmatch(line) and _LEAST <= (number := int(line)) <= _MOST:
            return number
        raise self._protocol_error(f"the server's reply has a number that is none: {line[:20]!r}")

    def _bulk_value(self) -> Any:
        buffer, at, length = self._buffer, self._at, self._length
        if len(buffer) < at + length + 2:
            return _NOTHING
        data, end = bytes(buffer[at : at + length]), at + length + 2
        if buffer[end - 2 : end] != b"\r\n":
            raise self._protocol_error("the server's reply has a string that does not end where it says")
        self._at = end
        kind, self._bulk = self._bulk, 0
        if kind == _BULK:
            return data
        if kind == _BULK_ERROR:
            return self._reply_error(data.decode(errors="replace"))
        if data[3:4] != b":":
            raise self._protocol_error("the server's reply has a verbatim string without a type")
        return data[4:]


#: What `Parser._value` returns if there is no value yet: the buffer has to grow, or an array began.
_NOTHING: Final = object()
_MORE: Final = object()
