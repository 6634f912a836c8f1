"""The read-write lock: many readers, or one writer. Two locks in one hash; each has its own holds, leases and waiters.

Source: ``org.redisson.RedissonReadLock`` and ``RedissonWriteLock``. What differs on purpose: an upgrade is an error,
not a deadlock; each reader has a lease of its own, and a renewal restores no expired one; a writer that becomes a
reader notifies the waiters; a reader yields to a writer of the same client.

Rules kept here:

1. A writer may acquire the read side as well, and releases the two in any order. No other owner acquires in between.
2. A reader may not acquire the write side: it would wait for itself.
3. Readers and writers of a client are a wait group each, and stand in the wait queue as two. A reader that has
   acquired lets the next one check at once, a writer does not.
4. While a writer waits in this client, a new reader waits, too, but not for longer than ``YIELD``. Until then it is not
   on the list; when the writer waits no longer, it checks.
5. When the lock becomes free, the client that has waited longest is notified; if it is a reader, all readers are. All
   readers are notified, too, when a writer becomes a reader, and by any waiter that finds that the lock is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from pyredisson._core.acquiring import Attempt, check_layout, expire, settle
from pyredisson._core.failures import Failure, of_earlier
from pyredisson._core.hold import lost_error
from pyredisson._core.kind import LockKind, OwnRival, StoredKind
from pyredisson._core.names import WRITERS, ReadWriteNames, owner_field, writer_field
from pyredisson._core.ownership import Ownership
from pyredisson._core.requests import SELF_BLOCKED, Refused, ReleaseCall, read_count, says, unusable
from pyredisson._core.runtime import PUBLISH, Reply, Request, Runtime
from pyredisson._core.subscriptions import ALL
from pyredisson._core.waiting import ByMessage, lock_message
from pyredisson._kinds.lock import UNLOCKED, LockCore, renew_locks
from pyredisson.errors import LockError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

    from pyredisson._core.client import ClientCore
    from pyredisson._core.deadline import Deadline
    from pyredisson._core.owners import HandleOwner
    from pyredisson._core.requests import AcquireCall, Answer, Exchange, Outcome
    from pyredisson._core.waiting import Fairness, QueueUpdate, Waiting

# ---- read write waiting ----------------------------------------------------------------------------------------------
# How the owners of the two sides of a read-write lock wait: readers yield to the writers of their client.


#: Seconds for which a reader yields to waiting writers of its client; at most half of its own wait. As long as reads
#: take less, the current ones end meanwhile, and a writer acquires the lock however many readers there are.
YIELD = 0.5

#: The sides as they are stored, and the labels of their waiters on the one channel.
READ_SIDE: Final = "read"
WRITE_SIDE: Final = "write"


class YieldToWriters(ByMessage):
    """Waiting by message; readers yield to a waiting writer of the same client."""

    def yields(self, kind: LockKind, ownership: Ownership, wait: float | None, now: float) -> Refused | None:
        """See :meth:`Waiting.yields`."""
        fairness: Fairness = ownership.kind_state
        if _writer_waits(kind) and not _writes(kind, ownership):
            return fairness.yield_for(YIELD if wait is None else min(YIELD, wait / 2), now)
        return super().yields(kind, ownership, wait, now)

    async def wait(self, attempt: Attempt, refused: Refused, seen: int | None, deadline: Deadline) -> bool:
        """See :meth:`Waiting.wait`."""
        client, fairness = attempt.client, attempt.ownership.kind_state
        try:
            return await super().wait(attempt, refused, seen, deadline)
        finally:
            fairness.stop()
            fairness.waited(client.runtime.now())

    async def attempt(self, attempt: Attempt, update: QueueUpdate | None = None) -> Answer:
        """See :meth:`ByMessage.attempt`; as long as a reader yields, wake-ups are for the writer, and it makes none."""
        left: float = attempt.ownership.kind_state.until - attempt.client.runtime.now()
        notified = update is not None and update.notified  # Its client is in the queue for another reader.
        if left > 0 and not notified and _writer_waits(attempt.kind):
            return Refused(int(1000 * left), asked=False)
        return await super().attempt(attempt, update)


class BeforeReaders(ByMessage):
    """Waiting by message; readers of the same client yield to a waiting writer."""

    async def wait(self, attempt: Attempt, refused: Refused, seen: int | None, deadline: Deadline) -> bool:
        """See :meth:`Waiting.wait`."""
        kind = attempt.kind
        try:
            return await super().wait(attempt, refused, seen, deadline)
        finally:
            # Readers that yield are not in the queue: the next release would not notify them.
            if not _writer_waits(kind) and _any_yields(kind):
                kind.client.subscriptions.hint(_own_channel(kind, READ_SIDE), READ_SIDE, 0)


def side_of(client: ClientCore, label: str) -> str:
    """Return what stands for one side's waiters of a client in the wait queue."""
    return f"{client.id}.{label}"


def _own_channel(kind: LockKind, label: str) -> str:
    return kind.names.own_channel(side_of(kind.client, label))


def _writer_waits(kind: LockKind) -> bool:
    has_waiters = kind.client.subscriptions.has_waiters
    return has_waiters(_own_channel(kind, WRITE_SIDE), WRITE_SIDE) or has_waiters(kind.names.channel, WRITE_SIDE)


def _any_yields(kind: LockKind) -> bool:
    client = kind.client
    now, own = client.runtime.now(), client.ownerships.of(kind.names.name)
    return any(each.kind_state.until > now for each in own if each.kind is not None and each.kind.layout == kind.layout)


def _writes(kind: LockKind, ownership: Ownership) -> bool:
    """Return whether the owner holds the write side, so that no other owner could acquire the lock first."""
    client = kind.client
    own = client.ownerships.find((ownership.name, writer_field(client.id, ownership.who.number)))
    return own is not None and bool(own.holds)


#: How far writers stand behind readers in the wait queue; see ``_lua/shared/sides.lua``.
BEHIND_READERS_MS: Final = int(float(WRITERS))

#: The message of a writer's release, which wakes all readers.
WRITTEN: Final = "1"


def renew_readers(runtime: Runtime, held: Sequence[tuple[str, str]], *, lease_ms: int) -> Request:
    """Make the request that renews many readers, given as (key, owner)."""
    keys = tuple(each for key, owner in held for each in (key, ReadWriteNames(key).read_hold(owner, 1)))
    return runtime.prepare("read_lock_renew", keys, (lease_ms, *(owner for _, owner in held)))


class ReadWriteLockCore:
    """One handle on a read-write lock: it makes handles on its two sides."""

    __slots__ = ("_caller", "client", "names")

    #: How it is stored, for inspections.
    stored: ClassVar[StoredKind] = StoredKind(
        "read_write_lock",
        "rw",
        "sides",
        ReadWriteNames,
        sides={"read_lock": "read", "write_lock": "write"},
        shared="read_lock",
        force_unlock="read_write_lock_force_unlock",
        title="read-write lock",
    )

    def __init__(self, client: ClientCore, name: str) -> None:
        self.client: ClientCore = client
        self.names: ReadWriteNames = ReadWriteNames(name, client.config.prefix)
        self._caller: HandleOwner | None = None
        client.check_names(self.names)

    def acting_for(self, caller: HandleOwner | None) -> Self:
        """See :meth:`LockCore.acting_for`; for both sides."""
        self._caller = caller
        return self

    def read_lock(self) -> ReadLockCore:
        """Return a handle on the read side."""
        return ReadLockCore(self.client, self.names).acting_for(self._caller)

    def write_lock(self) -> WriteLockCore:
        """Return a handle on the write side."""
        return WriteLockCore(self.client, self.names).acting_for(self._caller)

    def describe(self) -> str:
        """Return its state as this client knows it, for ``repr``; asks no server."""
        reading, writing = self.read_lock().state(" for reading"), self.write_lock().state(" for writing")
        return f"{self.names.name!r}{reading}{writing}"


# ---- the kinds -------------------------------------------------------------------------------------------------------


class SideKind(LockKind):
    """What the kinds of both sides have in common."""

    __slots__ = ()

    names: ReadWriteNames  # pyright: ignore[reportIncompatibleVariableOverride]
    layout = "read-write lock"
    one_sided = True
    may_hinder = True
    writes = False
    has_wait_queue = True
    #: The message of a release.
    released: ClassVar[str]

    def listed(self) -> list[Ownership]:
        """See :meth:`LockKind.listed`; on this side."""
        return [each for each in super().listed() if each.owner == self.field(each.who.number)]

    def force(self, ownership: Ownership, epoch: int) -> Request:
        """See :meth:`LockKind.force`; the other side stays held."""
        args, keys = (PUBLISH, self.released, self.label), (self.names.channel, *self.wait_queue_keys())
        return self.request("read_write_lock_force_unlock", ownership, args, keys, epoch=epoch)

    def queued_as(self) -> str:
        """See :meth:`LockKind.queued_as`."""
        return side_of(self.client, self.label)

    def leave_queue(self, member: str) -> Request:
        """See :meth:`LockKind.leave_queue`."""
        keys = self.names.raw, self.names.waiting
        return self.client.runtime.prepare("read_write_lock_stop_waiting", keys, (member, PUBLISH))


class ReadKind(SideKind):
    """The read side."""

    __slots__ = ()

    word = "read_lock"
    label = READ_SIDE
    released = UNLOCKED
    renew: Callable[..., Request] = staticmethod(renew_readers)
    waiting: Waiting = YieldToWriters(turn=ALL, free_after=0.0)

    def hinders(self, ownership: Ownership) -> bool:
        """See :meth:`LockKind.hinders`: readers yield to a waiting writer."""
        return bool(self.client.subscriptions.channels) and _writer_waits(self)

    def holders(self) -> Sequence[Ownership]:
        """See :meth:`LockKind.holders`: the writer, and holders of other layouts."""
        return [
            each
            for each in super().holders()
            if each.owner == writer_field(self.client.id, each.who.number)
            or (each.kind is not None and each.kind.layout != self.layout)
        ]

    def ended_by_force(self) -> Sequence[Ownership]:
        """See :meth:`LockKind.ended_by_force`."""
        return self.listed()

    def acquire(self, call: AcquireCall, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.acquire`."""
        own, count, update = call.ownership, call.count, call.update
        args, keys = (call.lease_ms, count), (self.names.read_hold(own.owner, count + 1),)
        return self.request("read_lock_acquire", own, args, keys, epoch=epoch, repeat=repeat, update=update)

    def release(self, call: ReleaseCall, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.release`."""
        own, count = call.ownership, call.count
        args = call.lease_ms, count, PUBLISH, self.released
        keys = self.names.channel, self.names.read_hold(own.owner, max(count, 1)), *self.wait_queue_keys()
        return self.request("read_lock_release", own, args, keys, epoch=epoch, repeat=repeat)


def writers_message(payload: bytes) -> int:
    """Return how many writers a message notifies: at most one, whose answer serves the others."""
    return min(abs(lock_message(payload)), 1)


class OwnRead:
    """A hold of the read side: its owner would wait for itself if it acquired the write side."""

    def __init__(self, client: ClientCore) -> None:
        self._client = client

    async def refuse(self, kind: LockKind, ownership: Ownership, exchange: Exchange | None = None) -> None:
        """See :meth:`OwnRival.refuse`. The server checks it again."""
        client = self._client
        client.check_open()
        own = client.ownerships.find((ownership.name, owner_field(client.id, ownership.who.number)))
        if own is None:
            return
        if own.call is not ownership.call:  # Else it is this very call: a multi-lock is about both sides.
            client.refuse_interrupter(own)
        if own.pending is not None:
            try:
                await settle(client, own, behind=True, exchange=exchange)
            except Failure as failure:
                lease = client.watchdog.lease_ms
                raise client.explain(of_earlier(failure), own, "an earlier request", lease) from failure.cause
        expire(client, own)
        if own.loss is not None:
            raise lost_error(own)
        if own.holds:
            check_layout(kind, own)
            raise LockError(
                f"{own.who.describe()} holds the read lock of {own.name!r} and cannot acquire its write lock: it would "
                "wait for itself. Release the read lock first, or acquire the write lock first and the read lock in it",
                name=own.name,
            )

    async def give_up(self, kind: LockKind, ownership: Ownership, exchange: Exchange | None) -> None:
        """See :meth:`OwnRival.give_up`.

        As a rule it is a hold that has expired here, where clock drift is subtracted, and not yet on the server.
        """
        client = self._client
        await self.refuse(kind, ownership, exchange)
        key = ownership.name, owner_field(client.id, ownership.who.number)
        own = client.ownerships.enter(Ownership(key, ownership.who, client.runtime))
        request_id, _ = own.begin_force()
        epoch = own.outrank(request_id)
        reader = ReadKind(client, ReadWriteNames(ownership.name, client.config.prefix))
        call = ReleaseCall(reader, own, request_id, client.watchdog.lease_ms, 0)
        await (exchange or client.exchange)(call, epoch)


class WriteKind(SideKind):
    """The write side."""

    __slots__ = ("own_rival",)

    word = "write_lock"
    label = WRITE_SIDE
    released = WRITTEN
    writes = True
    renew: Callable[..., Request] = staticmethod(renew_locks)
    waiting: Waiting = BeforeReaders(writers_message)

    def __init__(self, client: ClientCore, names: ReadWriteNames) -> None:
        super().__init__(client, names)
        self.own_rival: OwnRival | None = OwnRead(client)

    def hinders(self, ownership: Ownership) -> bool:
        """See :meth:`LockKind.hinders`: its owner may hold the read side."""
        client = self.client
        own = client.ownerships.find((ownership.name, owner_field(client.id, ownership.who.number)))
        return own is not None and (own.in_use() or own.loss is not None or own.call.thread != 0)

    def field(self, number: int) -> str:
        """See :meth:`LockKind.field`."""
        return writer_field(self.client.id, number)

    def acquire(self, call: AcquireCall, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.acquire`. A re-entry adds its lease to the time left, up to the leases of all holds."""
        own, update = call.ownership, call.update
        reader = owner_field(self.client.id, own.who.number)
        leases_ms = call.lease_ms + sum(each.lease_ms for each in own.holds)
        args = call.lease_ms, call.count, reader, leases_ms
        keys = (self.names.read_hold(reader, 1),)
        if update is not None:
            rest_ms = None if update.rest_ms is None else update.rest_ms - BEHIND_READERS_MS
            update = update._replace(waited_ms=update.waited_ms - BEHIND_READERS_MS, rest_ms=rest_ms)
        return self.request("write_lock_acquire", own, args, keys, epoch=epoch, repeat=repeat, update=update)

    def release(self, call: ReleaseCall, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.release`."""
        args, keys = (call.lease_ms, call.count, PUBLISH, self.released), (self.names.channel, *self.wait_queue_keys())
        return self.request("write_lock_release", call.ownership, args, keys, epoch=epoch, repeat=repeat)

    def reads(self, reply: Reply) -> Outcome:
        """See :meth:`LockKind.reads`; or the owner is a reader itself."""
        return SELF_BLOCKED if type(reply) is list and says(reply, b"upgrade") else super().reads(reply)


# ---- handles ---------------------------------------------------------------------------------------------------------


class SideCore(LockCore):
    """What the handles on both sides have in common."""

    __slots__ = ()

    names: ReadWriteNames  # pyright: ignore[reportIncompatibleVariableOverride]
    kind: SideKind  # pyright: ignore[reportIncompatibleVariableOverride]

    def describe(self) -> str:
        """Return its state as this client knows it, for ``repr``; asks no server."""
        return f"{self.names.name!r} for {'writing' if self.kind.writes else 'reading'}{self.state()}"

    def waiting(self) -> int:
        """See :meth:`LockCore.waiting`; for this side."""
        return self.client.subscriptions.waiting(self.names.channel, self.kind.label)

    async def remain_time_to_live(self) -> float | None:
        """See :meth:`LockCore.remain_time_to_live`; ``None`` if this side is free."""
        return await super().remain_time_to_live() if await self.is_locked() else None


class ReadLockCore(SideCore):
    """One handle on the read side."""

    __slots__ = ()

    kind_type = ReadKind

    def locked_command(self) -> tuple[str, ...]:
        """See :meth:`LockCore.locked_command`."""
        return "HKEYS", self.names.raw

    def read_locked(self, reply: Reply) -> bool:
        """See :meth:`LockCore.read_locked`; the read side may be held by the writer."""
        if type(reply) is not list:
            raise unusable(reply)
        return b"mode" in reply and any(
            each != b"mode" and b":write" not in each for each in reply if isinstance(each, bytes)
        )

    async def is_held_by_thread(self, thread_id: int) -> bool:
        """Return whether that thread or task of this client holds the read side."""
        return await super().is_held_by_thread(thread_id) and await self._count(thread_id) > 0

    async def get_hold_count(self) -> int:
        """Return the number of holds of the calling thread or task."""
        return await self._count(self.caller().number)

    async def _count(self, number: int) -> int:
        """Return the number of holds of an owner; 0 if all have expired, and only others keep the lock alive."""
        field = self.kind.field(number)
        count = read_count(await self.client.query("HGET", self.names.raw, field))
        names = [self.names.read_hold(field, each) for each in range(1, count + 1)]
        return count if names and await self.client.query("EXISTS", *names) else 0


class WriteLockCore(SideCore):
    """One handle on the write side."""

    __slots__ = ()

    kind_type = WriteKind

    def locked_command(self) -> tuple[str, ...]:
        """See :meth:`LockCore.locked_command`."""
        return "HGET", self.names.raw, "mode"

    def read_locked(self, reply: Reply) -> bool:
        """See :meth:`LockCore.read_locked`."""
        return reply == b"write"
