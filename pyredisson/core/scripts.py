"""The scripts in ``pyredisson/lua``, each bound to one function that alone knows the order of its arguments.

A request is told apart by what makes it safe to send twice: the number of holds that the client counts, the owner's
epoch, and whether an earlier copy may have run (see ``docs/explanation/architecture.md``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from pyredisson.core.names import ReadWriteNames, SemaphoreNames, fence_key
from pyredisson.core.outcomes import ACQUIRED, LOST, Acquired, Lost, Outcome, Refused, SelfBlocked, Stale
from pyredisson.core.runtime import PUBLISH, Reply, Request, Unusable
from pyredisson.errors import RedissonError

if TYPE_CHECKING:
    from pyredisson.core.names import LatchNames, LockNames
    from pyredisson.core.runtime import Runtime

__all__ = [
    "CLOSED",
    "NEVER",
    "NOBODY",
    "OPENED",
    "Look",
    "Maker",
    "NumberedRequest",
    "Waiter",
    "acquire_fair",
    "acquire_fenced",
    "acquire_lock",
    "acquire_permit",
    "acquire_permits",
    "acquire_reading",
    "acquire_token",
    "acquire_writing",
    "add_permits",
    "add_to_expirable",
    "advance_fence",
    "count_down",
    "count_permits",
    "drain_permits",
    "extend_token",
    "force_unlock",
    "force_unlock_fair",
    "force_unlock_side",
    "force_unlock_token",
    "hset_fenced",
    "look_after_fair",
    "read_acquire",
    "read_acquire_fenced",
    "read_acquire_writing",
    "read_count",
    "read_extend_token",
    "read_look",
    "read_release",
    "read_renewed",
    "read_stale",
    "release_fair",
    "release_lock",
    "release_permit",
    "release_permits",
    "release_reading",
    "release_token",
    "release_writing",
    "renew_locks",
    "renew_permits",
    "renew_reading",
    "renew_tokens",
    "set_counter",
    "set_fenced",
    "set_permits",
    "undo_permits",
    "unusable",
    "update_permit",
]

UNLOCKED: Final = "0"
"""The message of an unlock: one waiter of each client may try. ``1`` would tell all of them to."""


NOBODY: Final = ""
"""In place of the word for publishing: nobody is told."""

ANY: Final = 0
"""In place of whether an earlier copy may have run, for scripts to which it makes no difference."""


def acquire_lock(
    runtime: Runtime, names: LockNames, owner: str, *, lease_ms: int, holds: int, epoch: int, repeat: bool
) -> Request:
    """``lock_acquire``: take the lock for ``owner``, who holds it ``holds`` times as yet."""
    return runtime.prepare(
        "lock_acquire", (names.raw, names.epoch(owner)), (owner, epoch, int(repeat), lease_ms, holds)
    )


def read_acquire(reply: Reply) -> Acquired | Refused | Lost | Stale:
    """Read the reply of ``lock_acquire``. Raises ``Unusable``."""
    if reply is None:
        return ACQUIRED
    if type(reply) is int:
        return Refused(reply if reply >= 0 else None)
    if reply == [b"lost"]:
        return LOST
    stale = read_stale(reply)
    if stale is None:
        raise unusable(reply)
    return stale


def unusable(reply: object) -> Unusable:
    """The failure for an answer that no script gives."""
    said = repr(reply)
    return Unusable(
        RedissonError(
            f"unexpected reply from the server: {said if len(said) <= 60 else said[:57] + '...'}; is something else "
            "than Redis or Valkey at this address, or in between?"
        )
    )


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
        (owner, epoch, int(repeat), lease_ms, holds, "" if joins is None else joins, int(from_clock)),
    )


def read_acquire_fenced(reply: Reply) -> Acquired | Refused | Lost | Stale:
    """Read the reply of ``fenced_acquire``: as of ``lock_acquire``, with the token if it was acquired."""
    if isinstance(reply, list) and len(reply) == 2 and reply[0] == b"token" and isinstance(reply[1], bytes):
        return Acquired(_int(reply, reply[1]))
    if reply is None:
        raise unusable(reply)  # Nobody acquires a fenced lock without a token.
    return read_acquire(reply)


def release_lock(
    runtime: Runtime,
    names: LockNames,
    owner: str,
    *,
    lease_ms: int,
    holds: int,
    epoch: int,
    repeat: bool,
    publish: str = PUBLISH,
) -> Request:
    """``lock_release``: take one of ``holds`` from ``owner``; ``holds=0`` gives up whatever stands there."""
    return runtime.prepare(
        "lock_release",
        (names.raw, names.epoch(owner), names.channel),
        (owner, epoch, int(repeat), lease_ms, holds, publish, UNLOCKED),
    )


def force_unlock(runtime: Runtime, names: LockNames, owner: str, *, epoch: int, publish: str = PUBLISH) -> Request:
    """``lock_force_unlock``: free the lock; ``owner`` is the one who asks."""
    return runtime.prepare(
        "lock_force_unlock", (names.raw, names.epoch(owner), names.channel), (owner, epoch, ANY, publish, UNLOCKED)
    )


def renew_locks(runtime: Runtime, held: Sequence[tuple[str, str]], *, lease_ms: int) -> Request:
    """``lock_renew``: renew many locks, given as (name, owner)."""
    return runtime.prepare("lock_renew", tuple(name for name, _ in held), (lease_ms, *(owner for _, owner in held)))


# ---- read-write locks ------------------------------------------------------------------------------------------------

WRITTEN: Final = "1"
"""The message when a write lock ends: all readers may try."""


def acquire_reading(
    runtime: Runtime, names: ReadWriteNames, owner: str, *, lease_ms: int, holds: int, epoch: int, repeat: bool
) -> Request:
    """``read_lock_acquire``: take the read side for ``owner``, who holds it ``holds`` times as yet."""
    return runtime.prepare(
        "read_lock_acquire",
        (names.raw, names.epoch(owner), names.read_hold(owner, holds + 1)),
        (owner, epoch, int(repeat), lease_ms, holds),
    )


def release_reading(
    runtime: Runtime, names: ReadWriteNames, owner: str, *, lease_ms: int, holds: int, epoch: int, repeat: bool
) -> Request:
    """``read_lock_release``: take one of ``holds`` from ``owner``; ``holds=0`` gives up whatever stands there."""
    return runtime.prepare(
        "read_lock_release",
        (names.raw, names.epoch(owner), names.channel, names.read_hold(owner, max(holds, 1))),
        (owner, epoch, int(repeat), lease_ms, holds, PUBLISH, UNLOCKED),
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
        (owner, epoch, int(repeat), lease_ms, holds, reader, leases_ms),
    )


def read_acquire_writing(reply: Reply) -> Outcome:
    """Read the reply of ``write_lock_acquire``: as of ``lock_acquire``, or that the owner reads."""
    return SelfBlocked() if reply == [b"upgrade"] else read_acquire(reply)


def release_writing(
    runtime: Runtime, names: ReadWriteNames, owner: str, *, lease_ms: int, holds: int, epoch: int, repeat: bool
) -> Request:
    """``write_lock_release``: take one of ``holds`` from ``owner``; ``holds=0`` gives up whatever stands there."""
    return runtime.prepare(
        "write_lock_release",
        (names.raw, names.epoch(owner), names.channel),
        (owner, epoch, int(repeat), lease_ms, holds, PUBLISH, WRITTEN),
    )


def force_unlock_side(runtime: Runtime, names: ReadWriteNames, owner: str, *, epoch: int, write: bool) -> Request:
    """``read_write_lock_force_unlock``: free the lock if that side is held; ``owner`` is the one who asks."""
    return runtime.prepare(
        "read_write_lock_force_unlock",
        (names.raw, names.epoch(owner), names.channel),
        (owner, epoch, ANY, PUBLISH, WRITTEN if write else UNLOCKED, "write" if write else "read"),
    )


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
        "token_acquire", (names.raw, names.epoch(owner)), (token, epoch, int(repeat), lease_ms, former)
    )


def release_token(runtime: Runtime, names: LockNames, owner: str, *, lease_ms: int, token: str, epoch: int) -> Request:
    """``token_release``: free the lock if it has this token."""
    return runtime.prepare("token_release", (names.raw, names.epoch(owner)), (token, epoch, ANY, lease_ms))


def force_unlock_token(runtime: Runtime, names: LockNames, owner: str, *, epoch: int) -> Request:
    """``token_force_unlock``: free the lock; ``owner`` is the one who asks."""
    return runtime.prepare("token_force_unlock", (names.raw, names.epoch(owner)), (owner, epoch, ANY))


def renew_tokens(runtime: Runtime, held: Sequence[tuple[str, str]], *, lease_ms: int) -> Request:
    """``token_renew``: renew many locks, given as (name, token)."""
    return runtime.prepare("token_renew", tuple(name for name, _ in held), (lease_ms, *(token for _, token in held)))


def extend_token(runtime: Runtime, names: LockNames, *, token: str, until: int) -> Request:
    """``token_extend``: let the hold end no sooner than at ``until``, ms of the server's clock; 0 only asks."""
    return runtime.prepare("token_extend", (names.raw,), (token, until))


def read_extend_token(reply: Reply) -> tuple[int, int] | None:
    """Read the reply of ``token_extend``: now, and when the hold ends (-1: without end); ``None``: it is not held.

    Raises ``Unusable``.
    """
    match reply:
        case None:
            return None
        case [int() as now, int() as ends]:
            return now, ends
    raise unusable(reply)


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


# ---- fair locks ------------------------------------------------------------------------------------------------------


class Waiter(NamedTuple):
    """One who waits for a fair lock, and is alive.

    Attributes:
        owner: Who.
        wait_ms: The wait with which it queued up.
        alive_ms: For how long it may be taken to be alive, should it not be heard of any more.
    """

    owner: str
    wait_ms: int
    alive_ms: int


class Look(NamedTuple):
    """What a look after the waiters for a fair lock found.

    Attributes:
        again_ms: Another look is worth while after so many ms (-1: only when told).
        next_owner: Whose turn it is, if the lock is free.
        missing: Those who do not stand in the queue.
    """

    again_ms: int
    next_owner: str | None
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
    alive_ms: int,
    queue: bool,
) -> Request:
    """``fair_acquire``: as ``lock_acquire``, in turn; read by :func:`read_acquire`.

    ``wait_ms`` is how long the owner means to wait; ``least_ms``, for how long any waiter's score says that it is
    believed in; ``alive_ms``, for how long it may be taken to be alive, should it not be heard of any more.
    """
    return runtime.prepare(
        "fair_acquire",
        (names.raw, names.epoch(owner), names.queue, names.timeouts, names.alive),
        (owner, epoch, int(repeat), lease_ms, holds, wait_ms, least_ms, int(queue), alive_ms),
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
    publish: str = PUBLISH,
) -> Request:
    """``fair_release``: as ``lock_release``; with ``queued_ms``, the owner's wait, its place in the queue goes too."""
    return runtime.prepare(
        "fair_release",
        (names.raw, names.epoch(owner), names.queue, names.timeouts, names.alive, names.channel),
        (owner, epoch, int(repeat), lease_ms, holds, publish, UNLOCKED, queued_ms),
    )


def force_unlock_fair(runtime: Runtime, names: LockNames, owner: str, *, epoch: int, publish: str = PUBLISH) -> Request:
    """``fair_force_unlock``: free the lock; ``owner`` is the one who asks."""
    return runtime.prepare(
        "fair_force_unlock",
        (names.raw, names.epoch(owner), names.queue, names.timeouts, names.alive, names.channel),
        (owner, epoch, ANY, publish, UNLOCKED),
    )


def look_after_fair(runtime: Runtime, names: LockNames, waiters: Sequence[Waiter], *, least_ms: int) -> Request:
    """``fair_look``: look after waiters of one client who are alive."""
    return runtime.prepare(
        "fair_look",
        (names.raw, names.queue, names.timeouts, names.alive),
        (least_ms, *(word for waiter in waiters for word in waiter)),
    )


def read_look(reply: Reply) -> Look:
    """Read the reply of ``fair_look``. Raises ``Unusable``."""
    match reply:
        case [int() as again_ms, bytes() as next_owner, *owners] if all(isinstance(owner, bytes) for owner in owners):
            missing = [owner.decode(errors="replace") for owner in owners if isinstance(owner, bytes)]
            return Look(again_ms, next_owner.decode(errors="replace") or None, missing)
    raise unusable(reply)


def read_stale(reply: Reply) -> Stale | None:
    """Return the stored epoch if the reply says that the request was overtaken. Raises ``Unusable``."""
    if reply is None or type(reply) is int:
        return None
    if type(reply) is not list or any(each is not None and type(each) not in (int, bytes) for each in reply):
        raise unusable(reply)
    if reply[:1] == [b"stale"]:
        return Stale(_int(reply, *reply[1:]))
    return None


def read_release(reply: Reply) -> Stale | None:
    """As :func:`read_stale`, for what says nothing else by an array: a release, a forced unlock."""
    stale = read_stale(reply)
    if stale is None and type(reply) is list:
        raise unusable(reply)
    return stale


def read_renewed(reply: Reply, count: int) -> list[bool]:
    """Read the reply to a renewal of so many: whether each is still held. Raises ``Unusable``."""
    if type(reply) is not list or len(reply) != count or any(each not in (0, 1) for each in reply):
        raise unusable(reply)
    return [each == 1 for each in reply]


def read_count(reply: Reply) -> int:
    """Read how often an owner holds something, as it stands in Redis. Raises the error to show."""
    if reply is None:
        return 0
    try:
        return _int(reply, reply)
    except Unusable as failure:
        raise failure.cause from None


#: No script counts further.
MAX_DIGITS = 16


def _int(reply: Reply, *number: Reply) -> int:
    match number:
        case [bytes() as digits] if digits.isdigit() and len(digits) <= MAX_DIGITS:
            return int(digits)
    raise unusable(reply)


# ---- semaphores and latches ------------------------------------------------------------------------------------------

NEVER: Final = -1
"""The lease of a permit that never expires."""

OPENED: Final = "0"
CLOSED: Final = "1"
"""The messages of a latch: its count reached zero; it was given one."""


class NumberedRequest(NamedTuple):
    """What a request that is told apart by its number is made with.

    Attributes:
        runtime: The world.
        owner: Who asks.
        number: Greater than those of all requests that this owner made before.
        publish: The word for publishing.
    """

    runtime: Runtime
    owner: str
    number: int
    publish: str = PUBLISH


def set_counter(by: NumberedRequest, names: SemaphoreNames | LatchNames, value: int, *, message: str) -> Request:
    """``counter_set``: give a semaphore or a latch its first value."""
    return by.runtime.prepare(
        "counter_set", (names.raw, names.done(by.owner), names.channel), (by.number, value, by.publish, message)
    )


def acquire_permits(by: NumberedRequest, names: SemaphoreNames, permits: int) -> Request:
    """``semaphore_acquire``: take so many permits, or none."""
    return by.runtime.prepare("semaphore_acquire", (names.raw, names.done(by.owner)), (by.number, permits))


def release_permits(by: NumberedRequest, names: SemaphoreNames, permits: int) -> Request:
    """``semaphore_release``: give so many permits back."""
    return by.runtime.prepare(
        "semaphore_release", (names.raw, names.done(by.owner), names.channel), (by.number, permits, by.publish)
    )


def add_permits(by: NumberedRequest, names: SemaphoreNames, permits: int) -> Request:
    """``semaphore_add``: make so many more available, or fewer."""
    return by.runtime.prepare(
        "semaphore_add", (names.raw, names.done(by.owner), names.channel), (by.number, permits, by.publish)
    )


def drain_permits(by: NumberedRequest, names: SemaphoreNames) -> Request:
    """``semaphore_drain``: take all that are available."""
    return by.runtime.prepare("semaphore_drain", (names.raw, names.done(by.owner)), (by.number,))


def undo_permits(by: NumberedRequest, names: SemaphoreNames, undone: int) -> Request:
    """``semaphore_undo``: give back what the request of number ``undone`` took, and let no late copy take it."""
    return by.runtime.prepare(
        "semaphore_undo", (names.raw, names.done(by.owner), names.channel), (by.number, undone, by.publish)
    )


def acquire_permit(by: NumberedRequest, names: SemaphoreNames, permit: bytes, *, lease_ms: int) -> Request:
    """``permit_acquire``: take one permit under this id."""
    return by.runtime.prepare(
        "permit_acquire",
        (names.raw, names.done(by.owner), names.channel, names.taken),
        (by.number, permit, by.publish, lease_ms),
    )


def release_permit(by: NumberedRequest, names: SemaphoreNames, permit: bytes) -> Request:
    """``permit_release``: give back the permit of this id."""
    return by.runtime.prepare(
        "permit_release",
        (names.raw, names.done(by.owner), names.channel, names.taken),
        (by.number, permit, by.publish),
    )


def update_permit(by: NumberedRequest, names: SemaphoreNames, permit: bytes, *, lease_ms: int) -> Request:
    """``permit_lease``: let the permit of this id expire at another time."""
    return by.runtime.prepare(
        "permit_lease",
        (names.raw, names.done(by.owner), names.channel, names.taken),
        (by.number, permit, by.publish, lease_ms),
    )


def renew_permits(runtime: Runtime, held: Sequence[tuple[str, str]], *, lease_ms: int) -> Request:
    """``permit_renew``: renew many permits, given as (name of the semaphore, id in hex digits)."""
    keys = tuple(SemaphoreNames(name).taken for name, _ in held)
    return runtime.prepare("permit_renew", keys, (lease_ms, *(bytes.fromhex(permit) for _, permit in held)))


def set_permits(by: NumberedRequest, names: SemaphoreNames, permits: int) -> Request:
    """``permit_set``: make it so many permits in all."""
    return by.runtime.prepare(
        "permit_set", (names.raw, names.done(by.owner), names.channel, names.taken), (by.number, permits, by.publish)
    )


def add_to_expirable(by: NumberedRequest, names: SemaphoreNames, permits: int) -> Request:
    """``permit_add``: as ``semaphore_add``, where permits expire; the message is what was added."""
    return by.runtime.prepare(
        "permit_add", (names.raw, names.done(by.owner), names.channel), (by.number, permits, by.publish)
    )


def count_permits(runtime: Runtime, names: SemaphoreNames, *, publish: str = PUBLISH) -> Request:
    """``permit_count``: how many are available (``None``: there is no such semaphore) and how many are taken."""
    return runtime.prepare("permit_count", (names.raw, names.taken, names.channel), (publish,))


def count_down(by: NumberedRequest, names: LatchNames) -> Request:
    """``latch_count_down``: take one from the count."""
    return by.runtime.prepare(
        "latch_count_down", (names.raw, names.done(by.owner), names.channel), (by.number, OPENED, by.publish)
    )
