"""``with semaphore.hold() as lease:``, for both kinds of semaphore.

A semaphore has no owners: permits belong to the block, which releases them in whatever thread or task it is left. The
permit of an expirable semaphore that was acquired without a lease is renewed by the client's watchdog, together with
those of other blocks; to the watchdog it is an ownership like that of a lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, final

from pyredisson._core.failures import gives_way
from pyredisson._core.hold import check_skip, lost_error
from pyredisson._core.kind import HeldKind
from pyredisson._core.names import SemaphoreNames, owner_field
from pyredisson._core.ownership import Ownership
from pyredisson._core.releasing import extend
from pyredisson.errors import LockError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyredisson._core.client import ClientCore
    from pyredisson._core.hold import Hold
    from pyredisson._core.numbered import NumberedCall, Operation
    from pyredisson._core.requests import PermitOutcome
    from pyredisson._core.runtime import Progress, Request, Runtime
    from pyredisson._kinds.permits import PermitsCore
    from pyredisson.lease import Lease

#: The reason for a loss that the server reported.
PERMIT_GONE = "it no longer exists in Redis: released by its id, or expired"


@final
class Block:
    """One ``hold()``: it acquires permits when it is entered, and releases them when it is left.

    Args:
        core: The semaphore.
        count: The number of permits.
        hold: Their lease, and whether they are renewed; watched unless they do not expire.
        acquire: The operation that acquires them.
        release: The operation that releases them.
        wait: Seconds to wait for them; ``None``: without end.
        skip: Whether the block runs without them if they are not available in time.
        permit: The id of a permit that has one.

    Attributes:
        entered: Whether it was entered.
        lease: The lease of the block; ``None`` before it is entered, and without permits.
        name: The semaphore's name.
    """

    def __init__(
        self,
        core: PermitsCore,
        count: int,
        hold: Hold,
        acquire: Operation[PermitOutcome],
        release: Operation[int],
        wait: float | None,
        *,
        skip: bool,
        permit: bytes = b"",
    ) -> None:
        check_skip(skip)
        self.name: str = core.names.name
        self.entered: bool = False
        self.lease: Lease[None] | None = None
        self._core = core
        self._count = count
        self._hold = hold
        self._permit = permit
        self._ownership: Ownership | None = None
        self._acquire = acquire
        self._release = release
        self._wait = wait
        self._skip = skip
        self._call: NumberedCall[PermitOutcome] | None = None
        self._client_id = ""
        self._loss: str | None = None

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
        core, client, hold = self._core, self._core.client, self._hold
        call = self._call = core.begin(self._acquire)
        self._client_id = client.id
        # Made before: once the permits are granted, nothing is left to interrupt.
        ownership = self._ownership = owned_by_block(client, self.name, core.word, self._count, self._permit)
        extending = partial(extend, client, ownership, hold=hold) if hold.watched else _never_ends
        self.lease = client.runtime.lease(ownership, hold, client.runtime, extending)
        if not self._count:
            self._acquired(ownership, call.begun)
            return self.lease
        if await core.acquire_for(call, self._wait, each=self._count, certain=hold.certain):
            self._acquired(ownership, call.begun)
            if hold.watched:
                client.watchdog.watch(ownership)
            else:
                client.presence.begin_block(ownership)
            return self.lease
        self.lease = None
        if self._skip:
            return None
        raise await core.timeout_error(self._count, self._wait)

    async def leave(self, error: BaseException | None, progress: Progress | None = None) -> None:
        """Release the permits. The ``error`` of the block's body goes before any error of ours.

        ``progress``: see ``run_to_the_end``.
        """
        if self.lease is not None:
            self.lease._end()
            if error is None:
                self.lease._check_process()
        core, call, ownership = self._core, self._call, self._ownership
        if error is None and core.client.id != self._client_id and ownership is not None and ownership.loss is not None:
            raise lost_error(ownership, ownership.loss)  # The client is another one since.
        # Unless they were given up meanwhile, or this is the child of a fork.
        if ownership is None or call is None or not call.granted or call.given_up or core.client.id != self._client_id:
            return
        self._end(ownership)
        try:
            existed = await core.leave_block(self._release, error, progress)
            if self._hold.watched:
                self._check_lost(ownership, existed=existed)
        except Exception as ours:
            if not gives_way(ours, error):
                raise
        call.granted = False

    def _acquired(self, ownership: Ownership, begun: float) -> None:
        """Note that the permits were granted to a request that was made at ``begun``."""
        ownership.granted(ownership.request_id, self._hold, begun)

    def _end(self, ownership: Ownership) -> None:
        """The block is being left: a later loss is not reported."""
        client = self._core.client
        client.report_lost(ownership, ownership.expire(client.runtime.now()))
        self._loss = ownership.loss
        ownership.clear()
        client.presence.end_block(ownership)
        client.watchdog.unwatch(ownership)

    def _check_lost(self, ownership: Ownership, *, existed: bool) -> None:
        """Raise ``LockLostError`` if the permit had been lost. ``existed``: what its release found."""
        if not existed and self._loss is None:
            self._loss = PERMIT_GONE
            self._core.client.report_lost(ownership, (self._hold,))
        if self._loss is not None:
            raise lost_error(ownership, self._loss)

    def forget(self) -> None:
        """Note that the block was dropped without leaving it; called by the garbage collector.

        The watchdog reports a permit that it renews, and stops that: the lease is gone with the block.
        """
        if self._ownership is not None:
            self._core.client.presence.end_block(self._ownership)


async def _never_ends(lease_ms: int) -> bool:
    """Extend permits that do not expire."""
    return True


# ---- what a block holds ----------------------------------------------------------------------------------------------


def renew_permits(runtime: Runtime, held: Sequence[tuple[str, str]], *, lease_ms: int) -> Request:
    """Make the request that renews many permits, given as (key of the semaphore, id in hex digits)."""
    keys = tuple(SemaphoreNames(key).taken for key, _ in held)
    return runtime.prepare("permit_renew", keys, (lease_ms, *(bytes.fromhex(permit) for _, permit in held)))


class PermitKind(HeldKind):
    """What the watchdog and the presence of a client ask of the kind of an ownership, for permits."""

    __slots__ = ("_permit", "permits", "word")

    layout = "permit"
    what = "a permit of"
    overlaps = "more holders than there are permits"
    gone = PERMIT_GONE
    renew: Callable[..., Request] = staticmethod(renew_permits)

    def __init__(self, client: ClientCore, word: str, count: int, permit: bytes) -> None:
        super().__init__(client)
        self.word: str = word
        self.permits: int = count
        self._permit = permit

    def new_state(self) -> str:
        """Return the id of the permit."""
        return self._permit.hex()

    def stored_as(self, ownership: Ownership) -> str:
        """Return the id of a permit."""
        permit: str = ownership.kind_state
        return permit


def owned_by_block(client: ClientCore, name: str, word: str, count: int, permit: bytes) -> Ownership:
    """Return the permits of a block, as its lease, the watchdog and the presence see them. They are in no table."""
    who = client.runtime.owner()
    ownership = Ownership((name, owner_field(client.id, who.number)), who, client.runtime)
    ownership.adopt(PermitKind(client, word, count, permit))
    return ownership
