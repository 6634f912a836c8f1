"""How the replies to plain commands are read. One of another type than expected is a clear error."""

from __future__ import annotations

from typing import Any

import redis.exceptions as rx

from pyredisson._net.wire import unexpected_reply


def check_pong(reply: object) -> None:
    """Check the reply to ``PING``. Raises ``InvalidResponse``, as all functions here."""
    if reply != b"PONG":
        raise _unexpected("PING", reply)


def read_info_text(reply: object) -> bytes:
    """Return the reply to ``INFO``."""
    if not isinstance(reply, bytes):
        raise _unexpected("INFO", reply)
    return reply


def read_setting(name: str, reply: object) -> str | None:
    """Read the reply to ``CONFIG GET``: an array, or a map in RESP3; ``None`` if the server has no such setting."""
    parts = [part for pair in reply.items() for part in pair] if isinstance(reply, dict) else reply
    if not isinstance(parts, list) or len(parts) % 2 or not all(isinstance(part, bytes) for part in parts):
        raise _unexpected("CONFIG GET", reply)
    found = dict(zip(parts[::2], parts[1::2], strict=True)).get(name.encode())
    return None if found is None else found.decode(errors="replace")


def read_clock(reply: object) -> float:
    """Read the reply to ``TIME``: seconds since 1970."""
    match reply:
        case [bytes() as seconds, bytes() as micros] if seconds.isdigit() and micros.isdigit():
            return int(seconds) + int(micros) / 1e6
    raise _unexpected("TIME", reply)


def read_scan(command: str, reply: Any) -> tuple[bytes, list[bytes]]:
    """Read the reply to ``SCAN`` or ``HSCAN``: the next cursor, and what was found."""
    match reply:
        case [bytes() as cursor, [*found]] if cursor.isdigit() and all(isinstance(each, bytes) for each in found):
            return cursor, found
    raise _unexpected(command, reply)


def _unexpected(command: str, reply: object) -> rx.InvalidResponse:
    return unexpected_reply(command, reply, "Redis or Valkey")
