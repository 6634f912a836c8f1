"""The scripts in ``pyredisson/lua``, each bound to one function that alone knows the order of its arguments.

A request is told apart by what makes it safe to send twice: the number of holds that the client counts, the owner's
epoch, and whether an earlier copy may have run (see ``docs/explanation/architecture.md``).
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from pyredisson.core.runtime import Reply, Request

if TYPE_CHECKING:
    from pyredisson.core.names import LockNames
    from pyredisson.core.runtime import Runtime

__all__ = [
    "LOST",
    "NOBODY",
    "Acquire",
    "Look",
    "Lost",
    "Stale",
    "acquire_fair",
    "acquire_fenced",
    "acquire_lock",
    "force_unlock",
    "force_unlock_fair",
    "look_after_fair",
    "read_acquire",
    "read_acquire_fenced",
    "read_look",
    "read_stale",
    "release_fair",
    "release_lock",
    "renew_locks",
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


# ---- fair locks ------------------------------------------------------------------------------------------------------


class Look(NamedTuple):
    """What a look after the waiters for a fair lock found.

    Attributes:
        again_ms: Another look is worth while after so many ms (-1: only when told).
        turn: Whose turn it is, if the lock is free.
        missing: Those who do not stand in the queue.
    """

    again_ms: int
    turn: str | None
    missing: list[str]


def acquire_fair(
    runtime: Runtime,
    names: LockNames,
    owner: str,
    *,
    lease_ms: int,
    holds: int,
    epoch: int,
    repeat: bool,
    wait_ms: int,
    least_ms: int,
    queue: bool,
) -> Request:
    """``fair_acquire``: as ``lock_acquire``, in turn; read by :func:`read_acquire`.

    ``wait_ms`` is how long the owner means to wait; ``least_ms``, for how long any waiter is believed in.
    """
    return runtime.prepare(
        "fair_acquire",
        (names.raw, names.epoch(owner), names.queue, names.timeouts),
        (lease_ms, owner, holds, epoch, int(repeat), wait_ms, least_ms, int(queue)),
    )


def release_fair(
    runtime: Runtime,
    names: LockNames,
    owner: str,
    *,
    lease_ms: int,
    holds: int,
    epoch: int,
    repeat: bool,
    queued_ms: int,
    publish: str = "PUBLISH",
) -> Request:
    """``fair_release``: as ``lock_release``; with ``queued_ms``, the owner's wait, its place in the queue goes too."""
    return runtime.prepare(
        "fair_release",
        (names.raw, names.channel, names.epoch(owner), names.queue, names.timeouts),
        (UNLOCKED, lease_ms, owner, holds, epoch, int(repeat), publish, queued_ms),
    )


def force_unlock_fair(
    runtime: Runtime, names: LockNames, owner: str, *, epoch: int, publish: str = "PUBLISH"
) -> Request:
    """``fair_force_unlock``: free the lock; ``owner`` is the one who asks."""
    return runtime.prepare(
        "fair_force_unlock",
        (names.raw, names.channel, names.epoch(owner), names.queue, names.timeouts),
        (UNLOCKED, epoch, publish),
    )


def look_after_fair(
    runtime: Runtime, names: LockNames, waiters: Sequence[tuple[str, int]], *, least_ms: int
) -> Request:
    """``fair_look``: look after waiters who are alive, given as (owner, its wait in ms)."""
    return runtime.prepare(
        "fair_look",
        (names.raw, names.queue, names.timeouts),
        (least_ms, *(word for waiter in waiters for word in waiter)),
    )


def read_look(reply: Reply) -> Look:
    """Read the reply of ``fair_look``."""
    assert isinstance(reply, list)
    again_ms, *owners = reply
    assert isinstance(again_ms, int)
    turn, *missing = [owner.decode() for owner in owners if isinstance(owner, bytes)]
    return Look(again_ms, turn or None, missing)


def read_stale(reply: Reply) -> Stale | None:
    """Return the stored epoch if the reply says that the request was overtaken."""
    if isinstance(reply, list) and len(reply) == 2 and reply[0] == b"stale" and isinstance(reply[1], bytes):
        return Stale(reply[1])
    return None
