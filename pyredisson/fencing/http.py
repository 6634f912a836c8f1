"""A fencing token in a header of HTTP, for servers of any make: ASGI, WSGI, or whatever gives headers as a mapping."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, final

from pyredisson.errors import StaleTokenError
from pyredisson.fencing.tokens import MAX_TOKEN, check_token, stale

__all__ = ["HEADER", "Gate", "Headers", "Memory", "Seen", "Verdict", "header", "token_of"]

HEADER = "X-Fencing-Token"

Headers: TypeAlias = Mapping[str, Any] | Iterable[tuple[bytes | str, bytes | str]]
"""WSGI's environ, the ``headers`` of an ASGI scope, or any mapping from names to values."""


def header(token: int) -> dict[str, str]:
    """Return the header that a client sends along with a write."""
    return {HEADER: str(check_token(token))}


def token_of(headers: Headers) -> int | None:
    """Return the token that came with a request; ``None`` if none did.

    Raises:
        ValueError: What came is no token, or more than one came.
    """
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    found = [value for name, value in pairs if _is_ours(name)]
    if not found:
        return None
    text = _text(found[0])
    if len(found) > 1 or not re.fullmatch("[0-9]{1,19}", text) or int(text) > MAX_TOKEN:
        raise ValueError(f"{HEADER} must be one whole number of 63 bits, not {', '.join(map(_text, found))!r}")
    return int(text)


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _is_ours(name: object) -> bool:
    return _text(name).lower().replace("_", "-").removeprefix("http-") == HEADER.lower()


class Seen(Protocol):
    """Who remembers the greatest token of each resource: :class:`Memory`, or a ``pyredisson.fencing.redis.Guard``."""

    def advance(self, resource: str, *, token: int) -> None:
        """Note a token. Raises ``StaleTokenError`` if a greater one was noted before."""
        ...


@final
class Memory:
    """The greatest token of each resource, as long as this process lives: for a server of one process."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}
        self._mutex = threading.RLock()

    def advance(self, resource: str, *, token: int) -> None:
        """See :meth:`Seen.advance`."""
        check_token(token)
        with self._mutex:
            seen = self._seen.get(resource, 0)
            if seen > token:
                raise stale(resource, token, seen)
            self._seen[resource] = token


@final
@dataclass(frozen=True)
class Verdict:
    """What to do with a request.

    Attributes:
        status: 200 to go on; else what to answer: 400 (no such token), 412 (too late), 428 (there has to be one).
        reason: Why, for the answer's body.
        token: The token, if there was one.
    """

    status: int
    reason: str = ""
    token: int | None = None

    @property
    def passes(self) -> bool:
        """Whether to go on."""
        return self.status == 200


@final
class Gate:
    """Lets requests through whose token is not smaller than one seen before.

    Between the check and the write there is time: where the data has a guard of its own (a row, a script), hand the
    token on to it.

    Args:
        seen: Who remembers; ``None``: this process does.
        required: Whether a request without a token is refused.
    """

    def __init__(self, seen: Seen | None = None, *, required: bool = True) -> None:
        self._seen: Seen = Memory() if seen is None else seen
        self._required = required

    def check(self, resource: str, headers: Headers) -> Verdict:
        """Return what to do with a request that writes to this resource."""
        try:
            token = token_of(headers)
        except ValueError as error:
            return Verdict(400, str(error))
        if token is None:
            return Verdict(428, f"{HEADER} is missing") if self._required else Verdict(200)
        try:
            self._seen.advance(resource, token=token)
        except StaleTokenError as error:
            return Verdict(412, str(error), token)
        return Verdict(200, token=token)
