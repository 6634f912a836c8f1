"""``with semaphore.hold() as lease:``, for both kinds of semaphore.

A semaphore has no owners: permits belong to the block, which releases them in whatever thread or task it is left. The
permit of an expirable semaphore that was acquired without a lease is renewed by the client's watchdog, together with
those of other blocks; to the watchdog it is an ownership like that of a lock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, final

from pyredisson.core.failures import gives_way
from pyredisson.core.names import SemaphoreNames, owner_field
from pyredisson.core.ownership.hold import Hold
from pyredisson.core.ownership.liveness import GONE, lost_error
from pyredisson.core.ownership.ownership import Ownership
from pyredisson.errors import LockError
from pyredisson.lease import Lease

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyredisson.core.client import ClientCore
    from pyredisson.core.diagnosis.presence import Presence
    from pyredisson.core.driver import Progress
    from pyredisson.core.kind import LockKind
    from pyredisson.core.outcomes import PermitOutcome
    from pyredisson.core.ownership.owner_protocols import Caller
    from pyredisson.core.requests.idempotent_request import NumberedCall, Operation
    from pyredisson.core.runtime import Request, Runtime
    from pyredisson.kinds.permits import PermitsCore

#: What ``get_*`` calls the semaphore whose permits are renewed.
PERMIT = "permit_expirable_semaphore"

#: The reason for a loss that the server reported.
PERMIT_GONE = "it no longer exists in Redis: released by its id, or expired"


class HeldPermits(Protocol):
    """The permits of a block.

    Attributes:
        count: Their number.
        certain: Seconds after sending the acquire for which they are certain.
    """

    count: int
    certain: float

    def lease(self, client: ClientCore) -> Lease[None]:
        """Return the lease of the block that is being entered."""
        ...

    def granted(self, client: ClientCore, begun: float) -> None:
        """Note that they were granted to a request that was made at ``begun``."""
        ...

    def end(self, client: ClientCore) -> None:
        """Note that the block is being left: a later loss is not reported."""
        ...

    def released(self, client: ClientCore, existed: bool) -> None:
        """Raise ``LockLostError`` if they had been lost. ``existed``: what their release found."""
        ...

    def drop(self) -> None:
        """Note that the block can no longer be left; called by the garbage collector."""
        ...


@final
class Block:
    """One ``hold()``: it acquires permits when it is entered, and releases them when it is left.

    Args:
        core: The semaphore.
        held: The permits.
        acquire: The operation that acquires them.
        release: The operation that releases them.
        wait: Seconds to wait for them; ``None``: without end.
        skip: Whether the block runs without them if they are not available in time.

    Attributes:
        entered: Whether it was entered.
        lease: The lease of the block; ``None`` before it is entered, and without permits.
        name: The semaphore's name.
    """

    __slots__ = (
        "_acquire",
        "_call",
        "_client_id",
        "_core",
        "_held",
        "_release",
        "_skip",
        "_wait",
        "entered",
        "lease",
        "name",
    )

    def __init__(
        self,
        core: PermitsCore,
        held: HeldPermits,
        acquire: Operation[PermitOutcome],
        release: Operation[int],
        wait: float | None,
        *,
        skip: bool,
    ) -> None:
        if not isinstance(skip, bool):
            raise TypeError(f"skip must be True or False, not {type(skip).__name__}")
        self.name: str = core.names.name
        self.entered: bool = False
        self.lease: Lease[None] | None = None
        self._core = core
        self._held = held
        self._acquire = acquire
        self._release = release
        self._wait = wait
        self._skip = skip
        self._call: NumberedCall[PermitOutcome] | None = None
        self._client_id = ""

    async def enter(self) -> Lease[None] | None:
        """Acquire the permits.

        Returns:
            The lease; ``None`` if they were not available in time, and the block runs without them (``skip``).

        Raises:
            LockTimeoutError: They were not available in time.
            LockError: The block was entered before.
        """
        if self.entered:
            raise LockError(f"a hold() of {self.name!r} can be entered only once: call hold() again", name=self.name)
        self.entered = True
        core, client, held = self._core, self._core.client, self._held
        call = self._call = core.begin(self._acquire)
        self._client_id = client.id
        # Made before: once the permits are granted, nothing is left to interrupt.
        self.lease = held.lease(client)
        if not held.count:
            return self.lease
        if await core.acquire_for(call, self._wait, each=held.count, certain=held.certain):
            held.granted(client, call.begun)
            return self.lease
        self.lease = None
        if self._skip:
            return None
        raise await core.timeout_error(held.count, self._wait)

    async def leave(self, error: BaseException | None, progress: Progress | None = None) -> None:
        """Release the permits. The ``error`` of the block's body goes before any error of ours.

        ``progress``: see ``run_to_the_end``.
        """
        if self.lease is not None:
            self.lease._end()
            if error is None:
                self.lease._check_process()
        core, call, held = self._core, self._call, self._held
        # Unless they were given up meanwhile, or this is the child of a fork.
        if call is None or not call.granted or call.given_up or core.client.id != self._client_id:
            return
        held.end(core.client)
        try:
            held.released(core.client, await core.leave_block(self._release, error, progress))
        except Exception as ours:
            if not gives_way(ours, error):
                raise
        call.granted = False

    def forget(self) -> None:
        """Note that the block was dropped without leaving it; called by the garbage collector."""
        self._held.drop()


# ---- permits without an id -------------------------------------------------------------------------------------------


@final
class PlainPermits:
    """Permits that do not expire, as their block and its :class:`pyredisson.Lease` see them: their own only hold."""

    __slots__ = ("_presence", "block", "count", "loss", "name", "owner")

    what = "permits of"
    overlaps = "others"
    token = None
    certain: float = math.inf

    def __init__(self, name: str, count: int) -> None:
        self.name: str = name
        self.count: int = count
        self.owner: str = "its block"
        self._presence: Presence | None = None  # That knows of them.
        self.block: Callable[[], object | None] | None = None
        self.loss: str | None = None

    def lease(self, client: ClientCore) -> Lease[None]:
        """See :meth:`HeldPermits.lease`."""
        return Lease(self, self, client.runtime)

    def granted(self, client: ClientCore, begun: float) -> None:
        """There is nothing to renew."""
        who = client.runtime.owner()
        self._presence = client.presence
        self._presence.begin_block(self, "semaphore", self.name, owner_field(client.id, who.number), who, begun)

    def end(self, client: ClientCore) -> None:
        """They cannot be lost."""
        client.presence.end_block(self)

    def released(self, client: ClientCore, existed: bool) -> None:
        """They cannot be lost."""

    def drop(self) -> None:
        """There is nothing to renew."""
        if self._presence is not None:
            self._presence.end_block(self)

    def move_to_top(self, hold: object) -> None:
        """It is the only hold."""

    def call_when_lost(self, callback: Callable[[], None]) -> None:
        """They cannot be lost."""

    def call_no_more(self, callback: Callable[[], None]) -> None:
        """They cannot be lost."""

    def has(self, hold: object) -> bool:
        """Only the end of the block ends it."""
        return True

    def remaining(self, now: float) -> float:
        """They do not expire."""
        return math.inf


# ---- permits that are renewed ----------------------------------------------------------------------------------------


def renew_permits(runtime: Runtime, held: Sequence[tuple[str, str]], *, lease_ms: int) -> Request:
    """Make the request that renews many permits, given as (key of the semaphore, id in hex digits)."""
    keys = tuple(SemaphoreNames(key).taken for key, _ in held)
    return runtime.prepare("permit_renew", keys, (lease_ms, *(bytes.fromhex(permit) for _, permit in held)))


class PermitRenewal:
    """What the watchdog asks of the kind of an ownership, for permits."""

    word = PERMIT
    renew: Callable[..., Request] = staticmethod(renew_permits)

    @staticmethod
    def token_id(ownership: Ownership) -> None:
        """Return nothing: a permit is no token lock."""

    @staticmethod
    def stored_as(ownership: Ownership) -> str:
        """Return the id of a permit."""
        permit: str = ownership.kind_state
        return permit


class BlockOwner:
    """The holder of a permit: a block, under the number of the thread or task that entered it."""

    __slots__ = ("_entered_by", "gone", "number")

    def __init__(self, entered_by: Caller) -> None:
        self._entered_by = entered_by
        self.number: int = entered_by.number
        self.gone: bool = False

    @property
    def name(self) -> str:
        """The name of the thread or task that entered it."""
        return self._entered_by.name

    def stack(self) -> tuple[str, ...]:
        """Return what that executes."""
        return self._entered_by.stack()

    def alive(self) -> bool:
        """Return whether the block can still be left."""
        return not self.gone

    def gone_hint(self) -> str:
        """Return what to say of a block that ended with a permit."""
        return "the object that hold() returned was dropped without leaving its block"


class PermitOwnership(Ownership):
    """One permit of a block, as the watchdog and the block's lease see it. It is in no table."""

    __slots__ = ()

    generation: int
    loss: str | None

    what = "a permit of"
    overlaps = "more holders than there are permits"

    def __init__(self, client: ClientCore, name: str, permit: bytes, who: BlockOwner) -> None:
        super().__init__(
            (name, owner_field(client.id, who.number)),
            who,  # type: ignore[arg-type]  # It is only asked whether it is alive.
            client.runtime,
        )
        self.kind: LockKind | None = PermitRenewal()  # type: ignore[assignment]  # It is only asked how to renew.
        self.kind_state: str = permit.hex()

    def lose(self, reason: str, generation: int | None = None) -> bool:
        """See :meth:`Ownership.lose`."""
        return super().lose(PERMIT_GONE if reason is GONE else reason, generation)

    def found_gone(self) -> None:
        """Note that the permit no longer existed when it was released."""
        self.loss = PERMIT_GONE

    def end(self) -> None:
        """Note that the block is being left: a later loss is not reported."""
        with self.mutex:
            self.generation += 1
            self.holds.clear()


@final
class RenewedPermit:
    """A permit of an expirable semaphore.

    Args:
        name: The semaphore's name.
        permit: The id.
        hold: Its lease, and whether it is renewed.
    """

    __slots__ = ("_hold", "_name", "_ownership", "_permit", "certain")

    count = 1

    def __init__(self, name: str, permit: bytes, hold: Hold) -> None:
        self.certain: float = hold.certain
        self._name = name
        self._permit = permit
        self._hold = hold
        self._ownership: PermitOwnership | None = None

    def lease(self, client: ClientCore) -> Lease[None]:
        """See :meth:`HeldPermits.lease`."""
        owner = BlockOwner(client.runtime.owner())
        self._ownership = PermitOwnership(client, self._name, self._permit, owner)
        return Lease(self._ownership, self._hold, client.runtime)

    def granted(self, client: ClientCore, begun: float) -> None:
        """See :meth:`HeldPermits.granted`; the watchdog renews it from now on."""
        ownership = self._ownership
        assert ownership is not None
        ownership.granted(ownership.request_id, self._hold, begun + self.certain)
        client.watchdog.watch(ownership)

    def end(self, client: ClientCore) -> None:
        """See :meth:`HeldPermits.end`."""
        ownership = self._ownership
        assert ownership is not None
        if ownership.expire(client.runtime.now()):
            client.report_lost(ownership)
        ownership.end()
        client.watchdog.unwatch(ownership)

    def released(self, client: ClientCore, existed: bool) -> None:
        """See :meth:`HeldPermits.released`."""
        ownership = self._ownership
        assert ownership is not None
        if not existed and ownership.loss is None:
            ownership.found_gone()
            client.report_lost(ownership)
        if ownership.loss is not None:
            raise lost_error(ownership, ownership.loss)

    def drop(self) -> None:
        """See :meth:`HeldPermits.drop`. The watchdog reports it, and stops the renewal."""
        if self._ownership is not None:
            self._ownership.who.gone = True  # type: ignore[attr-defined]
