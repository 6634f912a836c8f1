"""What a fencing token may be, and the error for one that comes too late."""

from __future__ import annotations

from pyredisson.errors import StaleTokenError

__all__ = ["MAX_TOKEN", "check_token", "stale"]

#: What ``INCR`` and a ``BIGINT`` can count to.
MAX_TOKEN = 2**63 - 1


def check_token(token: object) -> int:
    """Return the token if it is one.

    Raises:
        TypeError: No ``int``. ``None`` is what ``lease.token`` is for a lock that has none.
        ValueError: Negative, or beyond 63 bits.
    """
    if token is None:
        raise TypeError("there is no fencing token: hold a lock of client.get_fenced_lock()")
    if isinstance(token, bool) or not isinstance(token, int):
        raise TypeError(f"a fencing token is an int, not {type(token).__name__}")
    if not 0 <= token <= MAX_TOKEN:
        raise ValueError(f"a fencing token has 63 bits, and is not negative: {token}")
    return token


def stale(what: str, token: int, seen: int) -> StaleTokenError:
    """The error for a write that came too late."""
    return StaleTokenError(
        f"a write to {what} with fencing token {token} was refused: a later holder has written there with {seen}",
        name=what,
        token=token,
        seen=seen,
    )
