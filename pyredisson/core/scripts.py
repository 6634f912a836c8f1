"""The scripts in ``pyredisson/lua``, each bound to one function that alone knows the order of its arguments.

A request is told apart by what makes it safe to send twice: the number of holds that the client counts, the owner's
epoch, and whether an earlier copy may have run (see ``docs/explanation/architecture.md``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from pyredisson.core.names import fence_key
from pyredisson.core.runtime import Reply, Request

if TYPE_CHECKING:
    from pyredisson.core.names import LockNames
    from pyredisson.core.runtime import Runtime

__all__ = [
    "LOST",
    "NOBODY",
    "Acquire",
    "Lost",
    "Maker",
    "Stale",
    "acquire_fenced",
    "acquire_lock",
    "acquire_token",
    "advance_fence",
    "extend_token",
    "force_unlock",
    "force_unlock_token",
    "hset_fenced",
    "read_acquire",
    "read_acquire_fenced",
    "read_extend_token",
    "read_stale",
    "release_lock",
    "release_token",
    "renew_locks",
    "renew_tokens",
    "set_fenced",
]

UNLOCKED: Final = "0"
"""The message of an unlock: one waiter of each client may try. ``1`` would tell all of them to."""


NOBODY: Final = ""
"""In place of ``PUBLISH``: nobody is told."""


class Lost(Enum):
    """The owner does not hold what the client counts."""

    LOST = "lost"


LOST: Final = Lost.LOST


class Stale(int):
    """The epoch that the server holds for an owner, when it is above that of the request."""


Acquire: TypeAlias = int | Lost | None
"""What became of an acquire: ``None`` taken; a number: another has it for so many ms (-1: no end); or ``LOST``."""


def acquire_lock(
    runtime: Runtime, names: LockNames, owner: str, *, lease_ms: int, holds: int, epoch: int, repeat: bool
) -> Request:
    """``lock_acquire``: take the lock for ``owner``, who holds it ``holds`` times as yet."""
    return runtime.prepare(
        "lock_acquire", (names.raw, names.epoch(owner)), (lease_ms, owner, holds, epoch, int(repeat))
    )


def read_acquire(reply: Reply) -> Acquire:
    """Read the reply of ``lock_acquire`` (not a stale one)."""
    if reply is None or isinstance(reply, int):
        return reply
    return LOST


def acquire_fenced(
    runtime: Runtime,
    names: LockNames,
    owner: str,
    *,
    lease_ms: int,
    holds: int,
    epoch: int,
    repeat: bool,
    joins: int | None,
    from_clock: bool,
) -> Request:
    """``fenced_acquire``: as ``lock_acquire``; ``joins`` is the token of the hold that this one joins, if any."""
    return runtime.prepare(
        "fenced_acquire",
        (names.raw, names.epoch(owner), names.token),
        (lease_ms, owner, holds, epoch, int(repeat), "" if joins is None else joins, int(from_clock)),
    )


def read_acquire_fenced(reply: Reply) -> tuple[Acquire, int | None]:
    """Read the reply of ``fenced_acquire`` (not a stale one): as of ``lock_acquire``, and the token if taken."""
    if isinstance(reply, list) and len(reply) == 2 and reply[0] == b"token" and isinstance(reply[1], bytes):
        return None, int(reply[1])
    return (reply if isinstance(reply, int) else LOST), None


def release_lock(
    runtime: Runtime,
    names: LockNames,
    owner: str,
    *,
    lease_ms: int,
    holds: int,
    epoch: int,
    repeat: bool,
    publish: str = "PUBLISH",
) -> Request:
    """``lock_release``: take one of ``holds`` from ``owner``; ``holds=0`` gives up whatever stands there."""
    return runtime.prepare(
        "lock_release",
        (names.raw, names.channel, names.epoch(owner)),
        (UNLOCKED, lease_ms, owner, holds, epoch, int(repeat), publish),
    )


def force_unlock(runtime: Runtime, names: LockNames, owner: str, *, epoch: int, publish: str = "PUBLISH") -> Request:
    """``lock_force_unlock``: free the lock; ``owner`` is the one who asks."""
    return runtime.prepare(
        "lock_force_unlock", (names.raw, names.channel, names.epoch(owner)), (UNLOCKED, epoch, publish)
    )


def renew_locks(runtime: Runtime, held: Sequence[tuple[str, str]], *, lease_ms: int) -> Request:
    """``lock_renew``: renew many locks, given as (name, owner)."""
    return runtime.prepare("lock_renew", tuple(name for name, _ in held), (lease_ms, *(owner for _, owner in held)))


# ---- the token lock --------------------------------------------------------------------------------------------------


def acquire_token(
    runtime: Runtime,
    names: LockNames,
    owner: str,
    *,
    lease_ms: int,
    token: str,
    former: str,
    epoch: int,
    repeat: bool,
) -> Request:
    """``token_acquire``: take the lock with ``token``; ``former`` is that of the owner's hold before, or ``''``."""
    return runtime.prepare(
        "token_acquire", (names.raw, names.epoch(owner)), (lease_ms, token, former, epoch, int(repeat))
    )


def release_token(runtime: Runtime, names: LockNames, owner: str, *, lease_ms: int, token: str, epoch: int) -> Request:
    """``token_release``: free the lock if it has this token."""
    return runtime.prepare("token_release", (names.raw, names.epoch(owner)), (lease_ms, token, epoch))


def force_unlock_token(runtime: Runtime, names: LockNames, owner: str, *, epoch: int) -> Request:
    """``token_force_unlock``: free the lock; ``owner`` is the one who asks."""
    return runtime.prepare("token_force_unlock", (names.raw, names.epoch(owner)), (epoch,))


def renew_tokens(runtime: Runtime, held: Sequence[tuple[str, str]], *, lease_ms: int) -> Request:
    """``token_renew``: renew many locks, given as (name, token)."""
    return runtime.prepare("token_renew", tuple(name for name, _ in held), (lease_ms, *(token for _, token in held)))


def extend_token(runtime: Runtime, names: LockNames, *, token: str, until: int) -> Request:
    """``token_extend``: let the hold end no sooner than at ``until``, ms of the server's clock; 0 only asks."""
    return runtime.prepare("token_extend", (names.raw,), (token, until))


def read_extend_token(reply: Reply) -> tuple[int, int] | None:
    """Read the reply of ``token_extend``: now, and when the hold ends (-1: without end); ``None``: it is not held."""
    match reply:
        case [int() as now, int() as ends]:
            return now, ends
    return None


# ---- guards with a fence ---------------------------------------------------------------------------------------------


class Maker(Protocol):
    """Makes a script's call ready: a runtime, or whoever asks the server in a way of its own."""

    def prepare(self, script: str, keys: tuple[str, ...], args: tuple[Any, ...], /) -> Request:
        """See :meth:`Runtime.prepare`."""
        ...


def set_fenced(maker: Maker, key: str, value: object, *, token: int, ttl_ms: int | None) -> Request:
    """``fence_set``: write a string, unless a greater token has been there."""
    return maker.prepare("fence_set", (key, fence_key(key)), (token, value, "" if ttl_ms is None else ttl_ms))


def hset_fenced(maker: Maker, key: str, mapping: Mapping[str, object], *, token: int, fence: str) -> Request:
    """``fence_hset``: write fields of a hash, unless a greater token has been there."""
    pairs = (each for pair in mapping.items() for each in pair)
    return maker.prepare("fence_hset", (key,), (token, fence, *pairs))


def advance_fence(maker: Maker, key: str, *, token: int) -> Request:
    """``fence_advance``: note a token, unless a greater one has been there."""
    return maker.prepare("fence_advance", (fence_key(key),), (token,))


def read_stale(reply: Reply) -> Stale | None:
    """Return the stored epoch if the reply says that the request was overtaken."""
    if isinstance(reply, list) and len(reply) == 2 and reply[0] == b"stale" and isinstance(reply[1], bytes):
        return Stale(reply[1])
    return None
