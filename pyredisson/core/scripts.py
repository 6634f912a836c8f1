"""The scripts in ``pyredisson/lua``, each bound to one function that alone knows the order of its arguments.

A request is told apart by what makes it safe to send twice: the number of holds that the client counts, the owner's
epoch, and whether an earlier copy may have run (see ``docs/explanation/architecture.md``).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from pyredisson.core.names import ReadWriteNames
from pyredisson.core.runtime import Reply, Request

if TYPE_CHECKING:
    from pyredisson.core.names import LockNames
    from pyredisson.core.runtime import Runtime

__all__ = [
    "LOST",
    "NOBODY",
    "UPGRADE",
    "Acquire",
    "Lost",
    "Stale",
    "acquire_fenced",
    "acquire_lock",
    "acquire_reading",
    "acquire_writing",
    "force_unlock",
    "force_unlock_side",
    "read_acquire",
    "read_acquire_fenced",
    "read_acquire_writing",
    "read_stale",
    "release_lock",
    "release_reading",
    "release_writing",
    "renew_locks",
    "renew_reading",
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


# ---- read-write locks ------------------------------------------------------------------------------------------------

WRITTEN: Final = "1"
"""The message when a write lock ends: all readers may try."""

UPGRADE: Final = -2
"""In place of a time: the owner reads, and would wait for itself."""


def acquire_reading(
    runtime: Runtime, names: ReadWriteNames, owner: str, *, lease_ms: int, holds: int, epoch: int, repeat: bool
) -> Request:
    """``read_lock_acquire``: take the read side for ``owner``, who holds it ``holds`` times as yet."""
    return runtime.prepare(
        "read_lock_acquire",
        (names.raw, names.epoch(owner), names.read_hold(owner, holds + 1)),
        (lease_ms, owner, holds, epoch, int(repeat)),
    )


def release_reading(
    runtime: Runtime, names: ReadWriteNames, owner: str, *, lease_ms: int, holds: int, epoch: int, repeat: bool
) -> Request:
    """``read_lock_release``: take one of ``holds`` from ``owner``; ``holds=0`` gives up whatever stands there."""
    return runtime.prepare(
        "read_lock_release",
        (names.raw, names.channel, names.epoch(owner), names.read_hold(owner, max(holds, 1))),
        (UNLOCKED, lease_ms, owner, holds, epoch, int(repeat), "PUBLISH"),
    )


def renew_reading(runtime: Runtime, held: Sequence[tuple[str, str]], *, lease_ms: int) -> Request:
    """``read_lock_renew``: renew many readers, given as (name, owner)."""
    return runtime.prepare(
        "read_lock_renew",
        tuple(key for name, owner in held for key in (name, ReadWriteNames(name).read_hold(owner, 1))),
        (lease_ms, *(owner for _, owner in held)),
    )


def acquire_writing(
    runtime: Runtime,
    names: ReadWriteNames,
    owner: str,
    *,
    reader: str,
    lease_ms: int,
    leases_ms: int,
    holds: int,
    epoch: int,
    repeat: bool,
) -> Request:
    """``write_lock_acquire``: take the write side for ``owner``, who is called ``reader`` on the read side.

    A re-entry adds its lease to what is left, up to ``leases_ms``, that of all its holds.
    """
    return runtime.prepare(
        "write_lock_acquire",
        (names.raw, names.epoch(owner), names.read_hold(reader, 1)),
        (lease_ms, owner, holds, epoch, int(repeat), reader, leases_ms),
    )


def read_acquire_writing(reply: Reply) -> Acquire:
    """Read the reply of ``write_lock_acquire`` (not a stale one): as of ``lock_acquire``, or ``UPGRADE``."""
    return UPGRADE if reply == [b"upgrade"] else read_acquire(reply)


def release_writing(
    runtime: Runtime, names: ReadWriteNames, owner: str, *, lease_ms: int, holds: int, epoch: int, repeat: bool
) -> Request:
    """``write_lock_release``: take one of ``holds`` from ``owner``; ``holds=0`` gives up whatever stands there."""
    return runtime.prepare(
        "write_lock_release",
        (names.raw, names.channel, names.epoch(owner)),
        (WRITTEN, lease_ms, owner, holds, epoch, int(repeat), "PUBLISH"),
    )


def force_unlock_side(runtime: Runtime, names: ReadWriteNames, owner: str, *, epoch: int, write: bool) -> Request:
    """``read_write_lock_force_unlock``: free the lock if that side is held; ``owner`` is the one who asks."""
    return runtime.prepare(
        "read_write_lock_force_unlock",
        (names.raw, names.channel, names.epoch(owner)),
        (WRITTEN if write else UNLOCKED, epoch, "PUBLISH", "write" if write else "read"),
    )


def read_stale(reply: Reply) -> Stale | None:
    """Return the stored epoch if the reply says that the request was overtaken."""
    if isinstance(reply, list) and len(reply) == 2 and reply[0] == b"stale" and isinstance(reply[1], bytes):
        return Stale(reply[1])
    return None
