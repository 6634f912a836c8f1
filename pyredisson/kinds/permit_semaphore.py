"""The semaphore whose permits have an id each, and may expire.

Source: ``org.redisson.RedissonPermitExpirableSemaphore``. What differs on purpose: times are the server's, not the
clients'; expired permits become available in parts, however many there are; each request takes effect once at most.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pyredisson.core.deadline import lease_ms, wait_seconds
from pyredisson.core.diagnosis.wrong_type import explain_type
from pyredisson.core.failures import Failure
from pyredisson.core.names import SemaphoreNames
from pyredisson.core.outcomes import GRANTED, GRANTED_AND_MORE, Granted, NeverSet, Refused
from pyredisson.core.ownership.hold import Hold
from pyredisson.core.requests.connect_wait import unreached
from pyredisson.core.requests.idempotent_request import Operation, ScriptCall
from pyredisson.core.requests.replies import read_int, unusable
from pyredisson.core.runtime import PUBLISH
from pyredisson.core.stored import StoredKind
from pyredisson.errors import LockNotOwnedError
from pyredisson.kinds.numbered import count_of, number_in
from pyredisson.kinds.permit_block import Block
from pyredisson.kinds.permits import PermitsCore

if TYPE_CHECKING:
    from pyredisson.core.deadline import Seconds
    from pyredisson.core.driver import Progress
    from pyredisson.core.outcomes import PermitOutcome
    from pyredisson.core.runtime import Reply

ID_BYTES = 16
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")

#: The lease of a permit that does not expire.
NEVER: Final = -1


def read_acquire_permit(reply: Reply) -> PermitOutcome:
    """Read the reply of ``permit_acquire``. Raises ``Unusable``."""
    match reply:
        case [0, (int() | None) as left, int() as expires_ms]:
            retry_in_ms = expires_ms if expires_ms >= 0 else None
            return NeverSet(retry_in_ms) if left is None else Refused(retry_in_ms)
        case [int(), (int() | None) as left, int() as expires_ms]:
            if left is not None and left > 0:
                return GRANTED_AND_MORE
            return Granted(expires_ms + 1) if expires_ms >= 0 else GRANTED  # The server's clock has to be past the end.
    raise unusable(reply)


#: How it is stored, for inspections.
STORED = (StoredKind("permit_expirable_semaphore", "permits", "permits", SemaphoreNames, number="permits"),)


class PermitSemaphoreCore(PermitsCore):
    """One handle on a semaphore whose permits may expire."""

    __slots__ = ()

    word = "permit_expirable_semaphore"
    kind = "permit semaphore"

    def acquiring(self, permit: bytes, lease: int) -> Operation[PermitOutcome]:
        """Return the operation that acquires a permit of this id, for a lease in ms."""
        return Operation(
            "an acquire",
            ScriptCall("permit_acquire", (permit, PUBLISH, lease), (self.names.channel, self.names.taken)),
            read_acquire_permit,
            lambda number: self.releasing(permit).script,
            known_for=math.inf,  # The permit is known by its id, whatever the server has forgotten.
        )

    def releasing(self, permit: bytes) -> Operation[int]:
        """Return the operation that releases the permit of this id."""
        return Operation("a release", self._changing("permit_release", permit, PUBLISH), self.read_released)

    def _changing(self, name: str, *args: str | int | bytes) -> ScriptCall:
        """Return the call of a script that may make permits available."""
        return ScriptCall(name, args, (self.names.channel, self.names.taken, *self.wait_queue_keys()))

    def leave_keys(self) -> tuple[str, ...]:
        """See :meth:`PermitsCore.leave_keys`."""
        return self.names.waiting, self.names.taken

    # ---- acquiring and releasing ---------------------------------------------------------------------------------

    async def acquire(self, lease_time: Seconds | None) -> str:
        """Acquire a permit, waiting without end, and return its id."""
        permit = await self.try_acquire(None, lease_time)
        assert permit is not None
        return permit

    async def try_acquire(self, wait_time: Seconds | None, lease_time: Seconds | None) -> str | None:
        """Acquire a permit, waiting at most ``wait_time``, and return its id."""
        wait = wait_seconds(wait_time)
        lease = _lease_ms(lease_time)
        permit = self._new_permit()
        permit_id = permit.hex()  # Made before: once the permit is granted, nothing is left to interrupt.
        return permit_id if await self.acquire_for(self.begin(self.acquiring(permit, lease)), wait) else None

    def hold(self, wait_time: Seconds | None, lease_time: Seconds | None, *, skip: bool) -> Block:
        """Prepare a block that holds a permit; without a lease, the watchdog renews it."""
        lease = None if lease_time is None else lease_ms(lease_time)
        wait = wait_seconds(wait_time)
        permit = self._new_permit()
        hold = Hold(lease or self.client.watchdog.lease_ms, watchdog=lease is None, block=True)
        acquire, release = self.acquiring(permit, hold.lease_ms), self.releasing(permit)
        return Block(self, 1, hold, acquire, release, wait, skip=skip, permit=permit)

    def _new_permit(self) -> bytes:
        return self.client.runtime.random_bytes(ID_BYTES)

    async def release(self, permit_id: str, progress: Progress | None = None) -> None:
        """Release a permit, which has to exist. ``progress``: see ``run_to_the_end``."""
        if not await self.try_release(permit_id, progress):
            raise LockNotOwnedError(
                f"permit {permit_id} of {self.names.name!r} does not exist: it was released, has expired, or never "
                "existed",
                name=self.names.name,
            )

    async def try_release(self, permit_id: str, progress: Progress | None = None) -> bool:
        """Release a permit. Returns whether it existed and had not expired."""
        permit = _bytes_of(permit_id)
        call = self.begin(self.releasing(permit or b""))
        return permit is not None and await call.once(progress) == 1

    async def update_lease_time(self, permit_id: str, lease_time: Seconds | None) -> bool:
        """Let a permit expire ``lease_time`` from now. Returns whether it existed and had not expired."""
        permit = _bytes_of(permit_id)
        script = self._changing("permit_lease", permit or b"", PUBLISH, _lease_ms(lease_time))
        call = self.begin(Operation("an update_lease_time", script, read_int))
        return permit is not None and await call.once() == 1

    # ---- how many there are --------------------------------------------------------------------------------------

    async def set_permits(self, permits: int) -> None:
        """Set the number of permits in all, those acquired included."""
        value = count_of(permits, "permits")
        await self.change("a set_permits", self.resizing(value))

    def resizing(self, permits: int) -> ScriptCall:
        """See :meth:`PermitsCore.resizing`."""
        return self._changing("permit_set", permits, PUBLISH)

    def other_keys(self) -> tuple[str, ...]:
        """See :meth:`NumberedCore.other_keys`."""
        return (self.names.taken,)

    async def add_permits(self, permits: int, progress: Progress | None = None) -> None:
        """Make more permits available, or fewer. ``progress``: see ``run_to_the_end``."""
        more = count_of(permits, "permits", signed=True)
        await self.first_use()
        script = ScriptCall("permit_add", (more, PUBLISH), (self.names.channel, *self.wait_queue_keys()))
        await self.change("an add_permits", script, progress)

    async def available_permits(self) -> int:
        """Return how many permits are available."""
        available, _ = await self._count()
        return available or 0

    async def get_permits(self) -> int:
        """Return how many permits there are in all; 0 if none were ever set."""
        available, taken = await self._count()
        return 0 if available is None else available + taken

    async def acquired_permits(self) -> int:
        """Return how many permits are acquired."""
        return (await self._count())[1]

    async def _count(self) -> tuple[int | None, int]:
        """Return how many permits are available (``None``: the semaphore has none yet), and how many are acquired."""
        self.client.check_open()
        await self.first_use()
        return await self._count_now()

    async def known_total(self) -> tuple[int, bool]:
        """See :meth:`PermitsCore.known_total`."""
        available, taken = await self._count_now()
        return (available or 0) + taken, True

    async def _count_now(self) -> tuple[int | None, int]:
        client, names = self.client, self.names
        client.runtime.owner()  # The owner does not matter, but the client has to be of this event loop.
        try:
            reply = await client.perform(
                client.runtime.prepare(
                    "permit_count", (names.raw, names.taken, names.channel, *self.wait_queue_keys()), (PUBLISH,)
                )
            )
        except Failure as failure:
            # Nothing is in doubt: counting twice does no harm.
            error = await explain_type(client.finder, unreached(client, failure), names.name, self.kind)
            raise error from error.__cause__
        match reply:
            case [None, int() as taken]:
                return None, taken
            case [int() | bytes() as available, int() as taken]:
                return number_in(available, names), taken
        raise unusable(reply).cause


def _lease_ms(lease_time: Seconds | None) -> int:
    return NEVER if lease_time is None else lease_ms(lease_time)


def _bytes_of(permit_id: object) -> bytes | None:
    """Return the id as it is stored; ``None`` if no permit can have it."""
    if not isinstance(permit_id, str):
        raise TypeError(f"a permit's id is a str, not {type(permit_id).__name__}")
    known = len(permit_id) == 2 * ID_BYTES and _HEX_DIGITS.issuperset(permit_id)
    return bytes.fromhex(permit_id) if known else None
