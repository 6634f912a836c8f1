"""Replies that several kinds read alike: the reply of a script as a value, or ``Unusable`` for what none replies."""

from __future__ import annotations

from pyredisson._core.failures import Unusable
from pyredisson._core.outcomes import ACQUIRED, LOST, HoldLost, LockAcquired, Refused, Stale
from pyredisson._core.runtime import Reply
from pyredisson.errors import RedissonError

#: No script counts further.
MAX_DIGITS = 16


def unusable(reply: object) -> Unusable:
    """The failure for an answer that no script gives."""
    said = repr(reply)
    return Unusable(
        RedissonError(
            f"unexpected reply from the server: {said if len(said) <= 60 else said[:57] + '...'}; is something else "
            "than Redis or Valkey at this address, or in between?"
        )
    )


def says(reply: list[Reply], word: bytes) -> bool:
    """Whether a reply begins with this word. It may begin with a number, and ``python -b`` lets no one compare them."""
    return bool(reply) and type(reply[0]) is bytes and reply[0] == word


def read_acquire(reply: Reply) -> LockAcquired | Refused | HoldLost | Stale:
    """Read the reply to an acquire of a lock."""
    if reply is None:
        return ACQUIRED
    if type(reply) is int:
        return Refused(read_left_ms(reply, reply))
    if type(reply) is list and len(reply) == 1 and says(reply, b"lost"):
        return LOST
    stale = read_stale(reply)
    if stale is None:
        raise unusable(reply)
    return stale


def read_stale(reply: Reply) -> Stale | None:
    """Return the number stored on the server if the reply says that the request arrived after a later one."""
    if reply is None or type(reply) is int:
        return None
    if type(reply) is not list or any(each is not None and type(each) not in (int, bytes) for each in reply):
        raise unusable(reply)
    if says(reply, b"stale"):
        return Stale(read_digits(reply, *reply[1:]))
    return None


def read_renewed(reply: Reply, count: int) -> list[bool]:
    """Read the reply to a renewal of ``count`` holds: whether each is still held."""
    if type(reply) is not list or len(reply) != count or reply.count(0) + reply.count(1) != count:
        raise unusable(reply)
    return [each == 1 for each in reply]


def read_left_ms(reply: Reply, left_ms: int) -> int | None:
    """Read a time to live that is part of a reply, in ms: -1 is without end, for which ``None`` stands.

    Anything less is no time to live: who waited for that would wait indefinitely.
    """
    if left_ms < -1:
        raise unusable(reply)
    return left_ms if left_ms >= 0 else None


def read_flag(reply: Reply) -> int:
    """Read a reply that is 1 or 0."""
    if type(reply) is not int or reply not in (0, 1):
        raise unusable(reply)
    return reply


def read_int(reply: Reply) -> int:
    """Read a reply that is a number."""
    if type(reply) is not int:
        raise unusable(reply)
    return reply


def read_count(reply: Reply) -> int:
    """Read the number of holds of an owner, as it is stored. Raises the error to show."""
    if reply is None:
        return 0
    try:
        return read_digits(reply, reply)
    except Unusable as failure:
        raise failure.cause from None


def read_digits(reply: Reply, *number: Reply) -> int:
    """Read a number that is part of a reply, as decimal digits."""
    match number:
        case [bytes() as digits] if digits.isdigit() and len(digits) <= MAX_DIGITS:
            return int(digits)
    raise unusable(reply)
