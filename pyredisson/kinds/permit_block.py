"""``with semaphore.hold() as lease:``, for both kinds of semaphore.

A semaphore has no owners: permits belong to the block, and whoever leaves it gives them back, in whatever thread or
task that is. The permit of an expirable semaphore that was acquired without a lease is renewed by the client's
watchdog, in the requests that renew locks of one kind; to the watchdog it looks like the ownership of a lock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyredisson.core.holder import GONE, lost_error
from pyredisson.core.names import owner_field
from pyredisson.core.ownership import Hold, Ownership
from pyredisson.errors import LockError, LockTimeoutError
from pyredisson.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyredisson.core.runtime import Progress
    from pyredisson.kinds.numbered import Asking
    from pyredisson.kinds.permit_semaphore import PermitSemaphoreCore
    from pyredisson.kinds.semaphore import SemaphoreCore

__all__ = ["Block", "PermitBlock", "PermitClaim", "SemaphoreBlock"]

#: How the loss of a permit is explained that the server told us of.
PERMIT_GONE = "it no longer exists in Redis: released by its id, or expired"


class Block:
    """One ``hold()``: what it acquires when it is entered, and gives back when it is left.

    Attributes:
        entered: Whether it was entered.
        name: The semaphore's name.
    """

    __slots__ = ("_asking", "_client", "_skip", "_taken", "_wait", "entered", "lease", "name")

    def __init__(self, name: str, wait: float | None, *, skip: bool) -> None:
        if not isinstance(skip, bool):
            raise TypeError(f"skip must be True or False, not {type(skip).__name__}")
        self.name: str = name
        self.entered: bool = False
        self.lease: Lease[None] | None = None
        self._wait = wait
        self._skip = skip
        self._taken = False
        self._client = ""
        self._asking: Asking | None = None

    async def enter(self) -> Lease[None] | None:
        """Acquire what the block is for.

        Returns:
            Its lease; ``None`` if it was not available in time, and the block is to run all the same (``skip``).

        Raises:
            LockTimeoutError: It was not available in time.
            LockError: It was entered before.
        """
        if self.entered:
            raise LockError(f"a hold() of {self.name!r} can be entered only once: call hold() again", name=self.name)
        self.entered = True
        if await self._acquire():
            return self.lease
        self.lease = None
        if self._skip:
            return None
        raise LockTimeoutError(f"timed out after {self._wait} s waiting for permits of {self.name!r}", name=self.name)

    async def leave(self, error: BaseException | None, progress: Progress | None = None) -> None:
        """Give back what is held; the ``error`` of the block's body goes before any error of ours.

        ``progress`` is as for ``run_to_the_end``.
        """
        if self.lease is not None:
            self.lease._end()
        if self._is_held():
            await self._release(error, progress)
            self._taken = False

    def _is_held(self) -> bool:
        """Whether it has to be given back: it was acquired, by this client, and not undone since."""
        asking = self._asking
        return self._taken and (asking is None or not asking.given_up) and self._client == self._id()

    def forget(self) -> None:
        """The block was thrown away; called by the garbage collector, so this only takes note."""

    def _id(self) -> str:
        raise NotImplementedError

    async def _acquire(self) -> bool:
        raise NotImplementedError

    async def _release(self, error: BaseException | None, progress: Progress | None) -> None:
        raise NotImplementedError


# ---- permits without an id -------------------------------------------------------------------------------------------


class Taken:
    """Permits that do not expire, as a :class:`pyredisson.Lease` sees them. They are their own only hold."""

    __slots__ = ("block", "loss", "name", "owner")

    what = "permits of"
    beside = "others"
    token = None

    def __init__(self, name: str) -> None:
        self.name: str = name
        self.owner: str = "its block"
        self.block: Callable[[], object | None] | None = None
        self.loss: str | None = None

    def bring_up(self, hold: object) -> None:
        """It is the only one."""

    def call_when_lost(self, told: Callable[[], None]) -> None:
        """It cannot be lost."""

    def call_no_more(self, told: Callable[[], None]) -> None:
        """It cannot be lost."""

    def has(self, hold: object) -> bool:
        """Nothing but the end of the block ends it."""
        return True

    def remaining(self, now: float) -> float:
        """It has no end."""
        return float("inf")


class SemaphoreBlock(Block):
    """Holds so many permits of a plain semaphore."""

    __slots__ = ("_core", "_permits")

    def __init__(self, core: SemaphoreCore, permits: int, wait: float | None, *, skip: bool) -> None:
        super().__init__(core.names.raw, wait, skip=skip)
        self._core = core
        self._permits = permits

    def _id(self) -> str:
        return self._core.client.id

    async def _acquire(self) -> bool:
        core = self._core
        taken = Taken(self.name)
        self.lease: Lease[None] | None = Lease(taken, taken, core.client.runtime)
        core.client.check_open()
        if not self._permits:
            return True
        asking = self._asking = core.acquiring(self._permits)
        self._client = core.client.id
        return await core.take_permits(asking, self._permits, self._wait, self._granted)

    def _granted(self) -> None:
        self._taken = True

    async def _release(self, error: BaseException | None, progress: Progress | None) -> None:
        await self._core.leave(error, progress, permits=self._permits)


# ---- permits that are renewed ----------------------------------------------------------------------------------------


class BlockOwner:
    """Who holds a permit: a block, under the number of the thread or task that entered it."""

    __slots__ = ("gone", "number")

    def __init__(self, number: int) -> None:
        self.number: int = number
        self.gone: bool = False

    def alive(self) -> bool:
        """Whether the block can still be left."""
        return not self.gone

    def gone_hint(self) -> str:
        """What to tell of it, when it ended with a permit in its hands."""
        return "the object that hold() returned was dropped without leaving its block"


class PermitClaim(Ownership):
    """One permit of a block, as the watchdog and the block's lease see it. It is in no table."""

    __slots__ = ()

    generation: int
    loss: str | None

    what = "a permit of"
    beside = "more holders than there are permits"

    def __init__(self, core: PermitSemaphoreCore, permit: bytes, who: BlockOwner) -> None:
        client = core.client
        super().__init__(
            (core.names.raw, owner_field(client.id, who.number)),
            who,  # type: ignore[arg-type]  # All that is asked of it is whether it is there.
            client.runtime,
        )
        self.kind = core  # type: ignore[assignment]  # All that is asked of it is how to renew.
        self.kind_state: str = permit.hex()

    def lose(self, reason: str, generation: int | None = None) -> bool:
        """See :meth:`Ownership.lose`."""
        return super().lose(PERMIT_GONE if reason is GONE else reason, generation)

    def found_gone(self) -> str:
        """The server did not know the permit any more when it was given back. Returns how it was lost."""
        self.loss = PERMIT_GONE
        return PERMIT_GONE

    def end(self) -> str | None:
        """The block is being left: nobody need be told of anything any more. Returns how it was lost, if it was."""
        with self.mutex:
            self.generation += 1
            self.holds.clear()
            return self.loss


class PermitBlock(Block):
    """Holds a permit of an expirable semaphore; ``lease`` is in ms, ``None``: renewed."""

    __slots__ = ("_core", "_hold", "_ownership", "_permit")

    def __init__(self, core: PermitSemaphoreCore, wait: float | None, lease: int | None, *, skip: bool) -> None:
        super().__init__(core.names.raw, wait, skip=skip)
        self._core = core
        self._permit = core.new_permit()
        self._hold = Hold(lease or core.client.watchdog.lease_ms, watchdog=lease is None, block=True)
        self._ownership: PermitClaim | None = None

    def _id(self) -> str:
        return self._core.client.id

    async def _acquire(self) -> bool:
        core, client = self._core, self._core.client
        asking = core.acquiring(self._permit, self._hold.lease_ms)
        ownership = self._ownership = PermitClaim(core, self._permit, BlockOwner(client.runtime.owner().number))
        self.lease: Lease[None] | None = Lease(ownership, self._hold, client.runtime)
        self._asking = asking
        self._client = client.id
        try:
            return await core.take_permit(asking, self._wait, self._granted)
        finally:
            if asking.given_up:  # Interrupted just after it was granted.
                ownership.end()
                client.watchdog.unwatch(ownership)

    def _granted(self, begun: float) -> bool:
        """The server gave a permit to a request that was made then. Returns whether its lease is not over yet."""
        client, ownership = self._core.client, self._ownership
        assert ownership is not None
        deadline = begun + self._hold.certain
        if client.runtime.now() >= deadline:
            return False
        self._taken = True
        ownership.granted(ownership.request_id, self._hold, deadline)
        client.watchdog.watch(ownership)
        return True

    async def _release(self, error: BaseException | None, progress: Progress | None) -> None:
        core, client, ownership = self._core, self._core.client, self._ownership
        assert ownership is not None
        if ownership.expire(client.runtime.now()):
            client.tell_lost(ownership)
        loss = ownership.end()
        client.watchdog.unwatch(ownership)
        closed = isinstance(error, GeneratorExit) and progress is None  # As for SemaphoreCore.leave().
        try:
            asking = core.releasing(self._permit, left=closed)
            if closed:
                asking.leave_later()
            elif await asking.once(progress, insist=True) != 1 and loss is None:
                loss = ownership.found_gone()
                client.tell_lost(ownership)
            if loss is not None:
                raise lost_error(ownership, loss)
        except Exception:
            if error is None:
                raise

    def forget(self) -> None:
        """See :meth:`Block.forget`. The watchdog says so, and renews the permit no longer."""
        if self._ownership is not None:
            self._ownership.who.gone = True  # type: ignore[attr-defined]
