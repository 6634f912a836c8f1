"""Addresses that servers name in their replies. What cannot be one is refused before anything connects to it."""

from __future__ import annotations

from typing import TypeAlias

import redis.exceptions as rx

__all__ = ["Address", "read_address", "unexpected_reply"]

Address: TypeAlias = tuple[str, int]
"""Host and port."""


def read_address(host: object, port: object) -> Address | None:
    """Read a host and a port as they are in a reply; ``None`` if no server can be there."""
    try:
        name = host.decode() if isinstance(host, bytes) else host
        if not isinstance(name, str) or not name.isprintable() or not name.encode("idna"):
            return None
    except UnicodeError:  # Not UTF-8, or nothing that the resolver takes.
        return None
    number = _number(port)
    return (name, number) if 0 < number < 65_536 else None


def _number(port: object) -> int:
    if type(port) is int:
        return port
    digits = port if isinstance(port, (bytes, str)) else b""
    return int(digits) if digits.isdigit() and len(digits) <= 5 and digits.isascii() else 0


def unexpected_reply(command: str, reply: object, expected: str) -> rx.InvalidResponse:
    """Return the error for a reply that is not of the type that it should be. ``expected``: what should be there."""
    said = repr(_shortened(reply))
    return rx.InvalidResponse(
        f"unexpected reply to {command}: {said if len(said) <= 60 else said[:57] + '...'}; is something else than "
        f"{expected} at this address?"
    )


def _shortened(reply: object) -> object:
    """Return as much of a reply as is shown of it: all of a large one would take as much memory again, and more."""
    if isinstance(reply, (bytes, str)):
        return reply[:60]
    return [_shortened(each) for each in reply[:3]] if isinstance(reply, list) else reply
