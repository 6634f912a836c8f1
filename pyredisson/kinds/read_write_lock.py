"""The read-write lock: many readers, or one writer. Two locks on one hash, each counted, renewed and waited for apart.

Source: ``org.redisson.RedissonReadLock`` and ``RedissonWriteLock``. What differs on purpose: an upgrade is an error,
not a wait for oneself; each reader's lease is its own, and a renewal brings back none; a writer who becomes a reader
tells those who wait; a reader gives way to a writer of the same client.

Rules kept here:

1. A writer may take the read side as well, and gives back the two in any order. Nobody else gets in between.
2. A reader may not take the write side: it would wait for itself.
3. Readers and writers wait on one channel, on benches of their own. A reader that got in lets the next one look at
   once, a writer does not.
4. While a writer waits in this client, a reader that holds nothing yet waits, too, but not for longer than ``YIELD``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyredisson.core import scripts
from pyredisson.core.attempt import attempt, check_layout, expire
from pyredisson.core.by_message import Attempt, ByMessage
from pyredisson.core.calls import ReleaseCall
from pyredisson.core.holder import lost_error
from pyredisson.core.kind import LockKind
from pyredisson.core.names import ReadWriteNames, owner_field, writer_field
from pyredisson.core.outcomes import Refused
from pyredisson.core.runtime import Failure
from pyredisson.core.settling import settle
from pyredisson.core.waiters import lock_message
from pyredisson.core.waiting import until_taken
from pyredisson.errors import LockError
from pyredisson.kinds.lock import LockCore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

    from pyredisson.core.client import ClientCore
    from pyredisson.core.deadline import Deadline
    from pyredisson.core.kind import OwnRival, Waiting
    from pyredisson.core.outcomes import Answer, Outcome
    from pyredisson.core.ownership import Hold, Ownership
    from pyredisson.core.runtime import Caller, MadeCaller, Reply, Request
    from pyredisson.core.yielding import Yielding

__all__ = ["ReadKind", "ReadLockCore", "ReadWriteLockCore", "WriteKind", "WriteLockCore"]

#: For how long, in seconds, a reader yields to writers who wait in its client; at most half of its own wait. As long
#: as reads take less, those under way end meanwhile, and a writer gets its turn however many readers come.
YIELD = 0.5

#: Who waits on the one channel.
READERS = "read"
WRITERS = "write"


class ReadWriteLockCore:
    """One handle on a read-write lock: it makes handles on its two sides."""

    __slots__ = ("_caller", "client", "names")

    def __init__(self, client: ClientCore, name: str) -> None:
        self.client: ClientCore = client
        self.names: ReadWriteNames = ReadWriteNames(name)
        self._caller: MadeCaller | None = None
        client.check_names(self.names)

    def acting_for(self, caller: MadeCaller | None) -> Self:
        """See :meth:`LockCore.acting_for`; of both sides."""
        self._caller = caller
        return self

    def read_lock(self) -> ReadLockCore:
        """A handle on the read side."""
        return ReadLockCore(self.client, self.names).acting_for(self._caller)

    def write_lock(self) -> WriteLockCore:
        """A handle on the write side."""
        return WriteLockCore(self.client, self.names).acting_for(self._caller)

    def describe(self) -> str:
        """Its state as this client knows it, for ``repr``; asks no server."""
        reading, writing = self.read_lock().state(" for reading"), self.write_lock().state(" for writing")
        return f"{self.names.raw!r}{reading}{writing}"


# ---- what the sides say to the server --------------------------------------------------------------------------------


class SideKind(LockKind):
    """What both sides have in common."""

    __slots__ = ()

    names: ReadWriteNames  # pyright: ignore[reportIncompatibleVariableOverride]
    layout = "read-write lock"
    one_sided = True
    writes = False

    def of_side(self) -> list[Ownership]:
        """This client's ownerships on this side."""
        field = writer_field if self.writes else owner_field
        listed = self.client.ownerships.of(self.names.raw)
        return [each for each in listed if each.owner == field(self.client.id, each.who.number)]

    def force(self, ownership: Ownership, epoch: int) -> Request:
        """See :meth:`LockKind.force`; if this side is held."""
        return scripts.force_unlock_side(
            self.client.runtime, self.names, ownership.owner, epoch=epoch, write=self.writes
        )


class PoliteAttempt(Attempt):
    """An attempt of a reader, once there is no more need to yield: the wake-ups until then are for the writer."""

    __slots__ = ()

    async def __call__(self) -> Answer:
        left: float = self.ownership.kind_state.until - self.client.runtime.now()
        if left > 0 and _writer_waits(self.client, self.kind):
            return Refused(int(1000 * left))
        return await attempt(self.client, self.kind, self.ownership, self.hold)


class Politely(ByMessage):
    """As by message; while a writer of the same client waits, readers yield to it."""

    def yields(
        self, client: ClientCore, kind: LockKind, ownership: Ownership, wait: float | None, now: float
    ) -> Refused | None:
        """See :meth:`Waiting.yields`."""
        yielding: Yielding = ownership.kind_state
        if _writer_waits(client, kind) and not _writes(client, ownership):
            return yielding.yield_for(YIELD if wait is None else min(YIELD, wait / 2), now)
        return super().yields(client, kind, ownership, wait, now)

    async def wait(
        self,
        client: ClientCore,
        kind: LockKind,
        ownership: Ownership,
        hold: Hold,
        refused: Refused,
        seen: int | None,
        deadline: Deadline,
    ) -> bool:
        """See :meth:`Waiting.wait`."""
        try:
            return await until_taken(
                PoliteAttempt(client, kind, ownership, hold),
                refused,
                runtime=client.runtime,
                wakeups=client.wakeups,
                lock=ownership.name,
                channel=kind.names.channel,
                kind=kind.label,
                message=lock_message,
                seen=seen,
                deadline=deadline,
                free_after=0.0,  # Where one reader gets in, the next one does.
            )
        finally:
            ownership.kind_state.stop()
            ownership.kind_state.waited(client.runtime.now())


def _writer_waits(client: ClientCore, kind: LockKind) -> bool:
    return client.wakeups.anybody(kind.names.channel, WRITERS)


def _writes(client: ClientCore, ownership: Ownership) -> bool:
    """Whether the owner holds the write side: then there are no others who would come first."""
    own = client.ownerships.find((ownership.name, writer_field(client.id, ownership.who.number)))
    return own is not None and bool(own.holds)


class ReadKind(SideKind):
    """What the read side says."""

    __slots__ = ()

    label = READERS
    renew: Callable[..., Request] = staticmethod(scripts.renew_reading)
    waiting: Waiting = Politely()

    def holders(self) -> Sequence[Ownership]:
        """The ownerships of this client that keep readers out: a writer's, and those of other kinds."""
        return [
            each
            for each in super().holders()
            if each.owner == writer_field(self.client.id, each.who.number)
            or (each.kind is not None and each.kind.layout != self.layout)
        ]

    def ended_by_force(self) -> Sequence[Ownership]:
        """See :meth:`LockKind.ended_by_force`."""
        return self.of_side()

    def acquire(self, ownership: Ownership, hold: Hold, count: int, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.acquire`."""
        return scripts.acquire_reading(
            self.client.runtime,
            self.names,
            ownership.owner,
            lease_ms=hold.lease_ms,
            holds=count,
            epoch=epoch,
            repeat=repeat,
        )

    def release(self, ownership: Ownership, lease_ms: int, count: int, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.release`."""
        return scripts.release_reading(
            self.client.runtime, self.names, ownership.owner, lease_ms=lease_ms, holds=count, epoch=epoch, repeat=repeat
        )

    def reads(self, reply: Reply) -> Outcome:
        """See :meth:`LockKind.reads`."""
        return scripts.read_acquire(reply)


def writers_message(payload: bytes) -> int:
    """How many writers a message wakes: only one can have it, and its answer serves the others."""
    return min(abs(lock_message(payload)), 1)


class OwnRead:
    """A reader may not acquire the write side: it would wait for itself."""

    async def refuse(self, client: ClientCore, kind: LockKind, ownership: Ownership) -> None:
        """Raise ``LockError`` for a reader, as far as this client knows; the server looks again."""
        client.check_open()
        own = client.ownerships.find((ownership.name, owner_field(client.id, ownership.who.number)))
        if own is None:
            return
        client.refuse_interrupter(own)
        if own.pending is not None:
            try:
                await settle(client, own, behind=True)
            except Failure as failure:
                lease = client.watchdog.lease_ms
                raise client.explain(failure, own, "an earlier request", lease) from failure.cause
        expire(client, own)
        if own.loss is not None:
            raise lost_error(own)
        if own.holds:
            check_layout(kind, own)
            raise LockError(
                f"{own.owner} holds the read lock of {own.name!r} and cannot acquire its write lock: it would wait for "
                "itself. Release the read lock first, or acquire the write lock first and the read lock inside it",
                name=own.name,
            )

    async def give_up(self, client: ClientCore, kind: LockKind, ownership: Ownership) -> None:
        """The server says that this owner reads. If this client knows better, what stands there is left over.

        As a rule from a hold whose time was up here, by the drift that is taken off, and not yet there.
        """
        await self.refuse(client, kind, ownership)
        reader = ReadLockCore(client, ReadWriteNames(ownership.name))
        own = reader.ownership_of(ownership.who)
        request_id, epoch = own.begin_force()
        call = ReleaseCall(reader.kind, own, request_id, client.watchdog.lease_ms, 0)
        await client.exchange(call, epoch)


class WriteKind(SideKind):
    """What the write side says."""

    __slots__ = ()

    label = WRITERS
    writes = True
    renew: Callable[..., Request] = staticmethod(scripts.renew_locks)
    own_rival: ClassVar[OwnRival | None] = OwnRead()
    waiting: Waiting = ByMessage(writers_message)

    def field(self, number: int) -> str:
        """What stands for a writer in Redis."""
        return writer_field(self.client.id, number)

    def acquire(self, ownership: Ownership, hold: Hold, count: int, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.acquire`."""
        return scripts.acquire_writing(
            self.client.runtime,
            self.names,
            ownership.owner,
            reader=owner_field(self.client.id, ownership.who.number),
            lease_ms=hold.lease_ms,
            leases_ms=hold.lease_ms + sum(each.lease_ms for each in ownership.holds),
            holds=count,
            epoch=epoch,
            repeat=repeat,
        )

    def release(self, ownership: Ownership, lease_ms: int, count: int, epoch: int, repeat: bool) -> Request:
        """See :meth:`LockKind.release`."""
        return scripts.release_writing(
            self.client.runtime, self.names, ownership.owner, lease_ms=lease_ms, holds=count, epoch=epoch, repeat=repeat
        )

    def reads(self, reply: Reply) -> Outcome:
        """See :meth:`LockKind.reads`."""
        return scripts.read_acquire_writing(reply)


# ---- handles ---------------------------------------------------------------------------------------------------------


class SideCore(LockCore):
    """What handles on both sides have in common."""

    __slots__ = ()

    names: ReadWriteNames  # pyright: ignore[reportIncompatibleVariableOverride]
    kind: SideKind  # pyright: ignore[reportIncompatibleVariableOverride]

    def describe(self) -> str:
        """Its state as this client knows it, for ``repr``; asks no server."""
        return f"{self.names.raw!r} for {'writing' if self.kind.writes else 'reading'}{self.state()}"

    def state(self, what: str = "") -> str:
        """Who of this client holds this side, and how many wait for it."""
        text = ""
        for ownership in self.kind.of_side():
            if ownership.holds:
                held = f"{'lost' if ownership.loss else 'held'}{what}"
                text += f" {held} by {ownership.owner[:4]}…:{ownership.who.number} ×{len(ownership.holds)}"
        waiting = self.waiting()
        return f"{text}, {waiting} waiting here{what}" if waiting else text

    def waiting(self) -> int:
        """How many wait for this side in this client."""
        return self.client.wakeups.waiting(self.names.channel, self.kind.label)

    def taken(self, who: Caller) -> bool:
        """Whether this owner has anything open, on either side."""
        client = self.client
        fields = owner_field(client.id, who.number), writer_field(client.id, who.number)
        ownerships = [client.ownerships.find((self.names.raw, field)) for field in fields]
        return any(ownership is not None and ownership.in_use() for ownership in ownerships)

    async def remain_time_to_live(self) -> float | None:
        """For how long this side is locked, in seconds; infinite without a TTL; ``None`` if it is free."""
        return await super().remain_time_to_live() if await self.is_locked() else None


class ReadLockCore(SideCore):
    """One handle on the read side."""

    __slots__ = ()

    def __init__(self, client: ClientCore, names: ReadWriteNames) -> None:
        super().__init__(client, names, ReadKind(client, names))

    async def is_locked(self) -> bool:
        """Whether anybody reads; a writer that reads as well is one."""
        fields = await self.client.query("HKEYS", self.names.raw)
        if type(fields) is not list:
            raise scripts.unusable(fields).cause
        return b"mode" in fields and any(
            each != b"mode" and b":write" not in each for each in fields if isinstance(each, bytes)
        )

    async def is_held_by_thread(self, thread_id: int) -> bool:
        """Whether that thread or task of this client reads."""
        return await super().is_held_by_thread(thread_id) and await self._count(thread_id) > 0

    async def get_hold_count(self) -> int:
        """How often the calling thread or task holds the read side."""
        return await self._count(self.caller().number)

    async def _count(self, number: int) -> int:
        """The holds of an owner, unless all of them have ended, and only others keep the lock alive."""
        field = self.kind.field(number)
        count = scripts.read_count(await self.client.query("HGET", self.names.raw, field))
        names = [self.names.read_hold(field, each) for each in range(1, count + 1)]
        return count if names and await self.client.query("EXISTS", *names) else 0


class WriteLockCore(SideCore):
    """One handle on the write side."""

    __slots__ = ()

    def __init__(self, client: ClientCore, names: ReadWriteNames) -> None:
        super().__init__(client, names, WriteKind(client, names))

    async def is_locked(self) -> bool:
        """Whether anybody writes."""
        return await self.client.query("HGET", self.names.raw, "mode") == b"write"
