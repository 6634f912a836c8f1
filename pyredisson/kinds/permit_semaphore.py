"""The semaphore whose permits are told by an id each, and may expire.

Source: ``org.redisson.RedissonPermitExpirableSemaphore``. What differs on purpose: times are the server's, not the
clients'; what has expired is made available in parts, however much it is; each request takes effect once at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from pyredisson.core import scripts
from pyredisson.core.deadline import lease_ms, wait_seconds
from pyredisson.core.outcomes import ACQUIRED, AT_ONCE, Refused
from pyredisson.core.runtime import Failure
from pyredisson.core.wrong_type import explain_type
from pyredisson.errors import LockNotOwnedError
from pyredisson.kinds.numbered import Asking, count_of, number_in
from pyredisson.kinds.permit_block import PermitBlock
from pyredisson.kinds.permits import PermitsCore

if TYPE_CHECKING:
    from pyredisson.core.deadline import Seconds
    from pyredisson.core.outcomes import Answer
    from pyredisson.core.ownership import Ownership
    from pyredisson.core.runtime import Progress, Request

__all__ = ["PermitSemaphoreCore"]

ID_BYTES = 16
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


class PermitSemaphoreCore(PermitsCore):
    """One handle on a semaphore whose permits may expire."""

    __slots__ = ()

    kind = "permit semaphore"
    #: What the watchdog asks for the permits of many blocks at once; see ``scripts.renew_permits``.
    renew: Callable[..., Request] = staticmethod(scripts.renew_permits)

    @staticmethod
    def stored_as(ownership: Ownership) -> str:
        """What stands for the permit of a block in a renewal: its id."""
        permit: str = ownership.kind_state
        return permit

    # ---- taking and giving back ----------------------------------------------------------------------------------

    async def acquire(self, lease_time: Seconds | None) -> str:
        """Take a permit, however long it takes, and return its id."""
        permit = await self.try_acquire(None, lease_time)
        assert permit is not None
        return permit

    async def try_acquire(self, wait_time: Seconds | None, lease_time: Seconds | None) -> str | None:
        """Take a permit if there is one within ``wait_time``, and return its id."""
        wait = wait_seconds(wait_time)
        lease = _lease_ms(lease_time)
        permit = self.new_permit()
        permit_id = permit.hex()  # Made before: once it is taken, nothing is left to interrupt.
        return permit_id if await self.take_permit(self.acquiring(permit, lease), wait) else None

    def hold(self, wait_time: Seconds | None, lease_time: Seconds | None, *, skip: bool) -> PermitBlock:
        """Prepare a block that takes a permit; without a lease, the watchdog renews it."""
        lease = None if lease_time is None else lease_ms(lease_time)
        return PermitBlock(self, wait_seconds(wait_time), lease, skip=skip)

    def new_permit(self) -> bytes:
        """The id of a new permit."""
        return self.client.runtime.random_bytes(ID_BYTES)

    def acquiring(self, permit: bytes, lease: int) -> Asking:
        """Prepare to take a permit of that id, for a lease in ms."""
        return self.ask(
            "an acquire",
            lambda by: scripts.acquire_permit(by, self.names, permit, lease_ms=lease),
            lambda by, _: scripts.release_permit(by, self.names, permit),
            known_for=math.inf,  # It is told by its id, whatever the server has forgotten.
        )

    async def take_permit(
        self, asking: Asking, wait: float | None, granted: Callable[[float], bool] = lambda begun: True
    ) -> bool:
        """Take what was prepared, within ``wait`` seconds.

        Args:
            asking: What was prepared.
            wait: Seconds.
            granted: Told when the request was made that took it. Returns whether that is of any use still.
        """
        wait = await self.first_use(wait)

        async def attempt() -> Answer:
            reply = await asking.ask()
            match reply:
                case [int() as taken, (int() | None) as left, int() as expires]:
                    pass
                case _:
                    raise asking.unusable(reply)
            if not taken:
                asking.refused()
                self.note_refusal(left, wait)
                return Refused(expires if expires >= 0 else None)
            if not granted(asking.begun):
                await asking.leave()  # It came when its lease was over: that is no hold, so look again.
                asking.given_up = False
                return AT_ONCE
            # There is more, so the next one may look, too; or there will be when the next of those taken expires.
            more = isinstance(left, int) and left > 0
            look_in = 0 if more else math.inf if expires < 0 else (expires + 1) / 1000
            self.client.wakeups.hint(self.names.channel, self.kind, look_in)
            return ACQUIRED

        return await self.take(asking, attempt, wait, kind=self.kind, each=1)

    async def release(self, permit_id: str, progress: Progress | None = None) -> None:
        """Give a permit back, which has to be there. ``progress``: see ``run_to_the_end``."""
        if not await self.try_release(permit_id, progress):
            raise LockNotOwnedError(
                f"permit {permit_id} of {self.names.raw!r} does not exist: it was released, has expired, or never "
                "existed",
                name=self.names.raw,
            )

    async def try_release(self, permit_id: str, progress: Progress | None = None) -> bool:
        """Give a permit back. Returns whether it was there and had not expired."""
        permit = _bytes_of(permit_id)
        asking = self.releasing(permit or b"")
        return permit is not None and await asking.once(progress) == 1

    def releasing(self, permit: bytes, *, left: bool = False) -> Asking:
        """Prepare to give a permit back. ``left``: see :meth:`ask`."""
        return self.ask("a release", lambda by: scripts.release_permit(by, self.names, permit), left=left)

    async def update_lease_time(self, permit_id: str, lease_time: Seconds | None) -> bool:
        """Let a permit expire so long from now. Returns whether it was there and had not expired."""
        permit = _bytes_of(permit_id)
        lease = _lease_ms(lease_time)
        asking = self.ask(
            "an update_lease_time", lambda by: scripts.update_permit(by, self.names, permit or b"", lease_ms=lease)
        )
        return permit is not None and await asking.once() == 1

    # ---- how many there are --------------------------------------------------------------------------------------

    async def set_permits(self, permits: int) -> None:
        """Make it so many permits in all, those taken included."""
        value = count_of(permits, "permits")
        await self.ask("a set_permits", lambda by: scripts.set_permits(by, self.names, value)).once()

    async def add_permits(self, permits: int, progress: Progress | None = None) -> None:
        """Make so many more permits available, or fewer. ``progress``: see ``run_to_the_end``."""
        more = count_of(permits, "permits", signed=True)
        await self.first_use()
        await self.ask("an add_permits", lambda by: scripts.add_to_expirable(by, self.names, more)).once(progress)

    async def available_permits(self) -> int:
        """How many permits are available."""
        available, _ = await self._count()
        return available or 0

    async def get_permits(self) -> int:
        """How many permits there are in all; 0 if nobody has set any."""
        available, taken = await self._count()
        return 0 if available is None else available + taken

    async def acquired_permits(self) -> int:
        """How many permits are taken."""
        return (await self._count())[1]

    async def _count(self) -> tuple[int | None, int]:
        client = self.client
        client.check_open()
        await self.first_use()
        client.runtime.owner()  # Nobody is asked in its name, but it has to be of this event loop.
        try:
            reply = await client.perform(scripts.count_permits(client.runtime, self.names))
        except Failure as failure:
            # Nothing is in doubt: to count twice does no harm.
            error = await explain_type(client, failure.cause, self.names.raw, self.kind)
            raise error from error.__cause__
        match reply:
            case [None, int() as taken]:
                return None, taken
            case [int() | bytes() as available, int() as taken]:
                return number_in(available, self.names.raw), taken
        raise scripts.unusable(reply).cause


def _lease_ms(lease_time: Seconds | None) -> int:
    return scripts.NEVER if lease_time is None else lease_ms(lease_time)


def _bytes_of(permit_id: object) -> bytes | None:
    """The id as it stands in Redis; ``None`` if no permit can have it."""
    if not isinstance(permit_id, str):
        raise TypeError(f"a permit's id is a str, not {type(permit_id).__name__}")
    known = len(permit_id) == 2 * ID_BYTES and _HEX_DIGITS.issuperset(permit_id)
    return bytes.fromhex(permit_id) if known else None
