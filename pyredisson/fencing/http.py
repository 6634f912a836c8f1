"""Fencing tokens in an HTTP header, for ASGI, WSGI, or any server that passes headers as a mapping."""

from __future__ import annotations

import hashlib
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, final

from pyredisson.errors import LockError, StaleTokenError
from pyredisson.fencing.tokens import MAX_TOKEN, check_token, stale

__all__ = ["HEADER", "Gate", "Headers", "Memory", "Seen", "Verdict", "header", "token_of"]

HEADER = "X-Fencing-Token"

Headers: TypeAlias = Mapping[str, Any] | Iterable[tuple[bytes | str, bytes | str]]
"""WSGI's environ, the ``headers`` of an ASGI scope, or any mapping from names to values."""


def header(token: int) -> dict[str, str]:
    """Return the header that a client sends with a write."""
    return {HEADER: str(check_token(token))}


def token_of(headers: Headers) -> int | None:
    """Return the fencing token of a request; ``None`` if it has none.

    Raises:
        ValueError: The header is not a valid token, or occurs more than once.
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
    """A record of the greatest token of each resource: :class:`Memory`, or a ``pyredisson.fencing.redis.Guard``."""

    def advance(self, resource: str, *, token: int) -> None:
        """Record a token. Raises ``StaleTokenError`` if a greater token was recorded before."""
        ...


@final
class Memory:
    """A record of the greatest token of each resource in this process, for a server of one process.

    It forgets none, since a late write would pass then. So it is full at some time: check a request after its route was
    found, or paths that do not exist fill it.

    Args:
        max_resources: How many resources it records; some 200 bytes each.
    """

    def __init__(self, max_resources: int = 100_000) -> None:
        self._seen: dict[bytes, int] = {}
        self._max_resources = max_resources
        self._mutex = threading.RLock()

    def advance(self, resource: str, *, token: int) -> None:
        """Record a token.

        Raises:
            StaleTokenError: A greater token was recorded before.
            LockError: The record is full, and has none of this resource.
        """
        check_token(token)
        key = hashlib.blake2b(resource.encode("utf-8", "surrogatepass"), digest_size=16).digest()  # Paths may be long.
        with self._mutex:
            seen = self._seen.get(key, 0)
            if seen > token:
                raise stale(resource, token, seen)
            if key not in self._seen and len(self._seen) >= self._max_resources:
                raise _Full(
                    f"the write to {resource} was refused: this process has fencing tokens of {self._max_resources} "
                    "resources, and records no more; check requests after their route was found, or use a Guard"
                )
            self._seen[key] = token


class _Full(LockError):
    """A record has no place for another resource."""


@final
@dataclass(frozen=True)
class Verdict:
    """The decision on a request.

    Attributes:
        status: 200: process the request. Otherwise the status of the response: 400 (invalid token), 412 (stale
            token), 428 (token required), 503 (no place to record its token).
        reason: The reason, for the body of the response.
        token: The token, if the request has one.
    """

    status: int
    reason: str = ""
    token: int | None = None

    @property
    def passes(self) -> bool:
        """Whether to process the request."""
        return self.status == 200


@final
class Gate:
    """A gate that accepts a request unless its token is smaller than one seen before.

    A request may be delayed between the check and the write: if the data has a guard of its own (a row, a script),
    pass the token on to it.

    Args:
        seen: The record of tokens. ``None``: the memory of this process.
        required: Whether a request without a token is refused.
    """

    def __init__(self, seen: Seen | None = None, *, required: bool = True) -> None:
        self._seen: Seen = Memory() if seen is None else seen
        self._required = required

    def check(self, resource: str, headers: Headers) -> Verdict:
        """Return the decision on a request that writes to this resource."""
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
        except _Full as error:
            return Verdict(503, str(error), token)
        return Verdict(200, token=token)
