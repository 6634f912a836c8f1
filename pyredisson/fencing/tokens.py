"""Checks of fencing tokens, and the error for a stale one."""

from __future__ import annotations

from pyredisson.errors import StaleTokenError

#: The greatest value of ``INCR`` and of a ``BIGINT``.
MAX_TOKEN = 2**63 - 1


def check_token(token: object) -> int:
    """Return the token if it is valid.

    Raises:
        TypeError: The token is not an ``int``; ``lease.token`` is ``None`` for a lock without tokens.
        ValueError: The token is negative or has more than 63 bits.
    """
    if token is None:
        raise TypeError("there is no fencing token: hold a lock of client.get_fenced_lock()")
    if isinstance(token, bool) or not isinstance(token, int):
        raise TypeError(f"a fencing token is an int, not {type(token).__name__}")
    if not 0 <= token <= MAX_TOKEN:
        raise ValueError(f"a fencing token must be between 0 and 2**63 - 1, not {token}")
    return token


def stale(what: str, token: int, seen: int) -> StaleTokenError:
    """Return the error for a stale write."""
    return StaleTokenError(
        f"the write to {what} with fencing token {token} was refused: a later holder has written with token {seen}",
        name=what,
        token=token,
        seen=seen,
    )
