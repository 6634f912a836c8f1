"""The semaphores: one whose permits any owner may acquire and release; one whose permits have ids, and may expire."""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from pyredisson._core.deadline import certain_for, cut, lease_ms, timeout_seconds, wait_seconds
from pyredisson._core.failures import Failure, explain_type, gives_way
from pyredisson._core.hold import SingleHold, lost_error
from pyredisson._core.kind import StoredKind
from pyredisson._core.names import SemaphoreNames
from pyredisson._core.numbered import Operation, ScriptCall
from pyredisson._core.requests import (
    GRANTED,
    GRANTED_AND_MORE,
    OTHER_KIND,
    WITHOUT_END,
    Granted,
    NeverSet,
    Refused,
    read_flag,
    read_int,
    read_left_ms,
    unreached,
    unusable,
)
from pyredisson._core.runtime import PUBLISH
from pyredisson._kinds.numbered import MAX_COUNT, count_of, number_in
from pyredisson._kinds.permits import Block, PermitsCore, owned_by_block
from pyredisson.errors import LockNotOwnedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyredisson._core.client import ClientCore
    from pyredisson._core.deadline import Seconds
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.requests import PermitOutcome
    from pyredisson._core.runtime import Progress, Reply

    #: A block, and those around it that were entered by the same owner.
    Entered: TypeAlias = "tuple[Ownership, Entered | None]"


# ---- semaphore -------------------------------------------------------------------------------------------------------
# A number of permits, which any owner may acquire and release.
#
# Source: ``org.redisson.RedissonSemaphore``; ``threading.BoundedSemaphore``. What differs on purpose: each request
# takes effect once at most, despite lost replies, repeats and cancellations; waiters check again by themselves; a
# message of no permits wakes no waiter; of the clients of this library that wait, as many are woken as can acquire
# permits.


def read_semaphore_acquire(reply: Reply, wanted: int) -> PermitOutcome:
    """Read the reply of ``semaphore_acquire``. Raises ``Unusable``."""
    match reply:
        case [-1]:
            return OTHER_KIND
        case [0, None]:
            return NeverSet(None)
        case [0, int()]:
            return WITHOUT_END
        case [int() as taken, (int() | None) as left] if taken == wanted:
            return GRANTED_AND_MORE if left is not None and left >= wanted else GRANTED
    raise unusable(reply)


class SemaphoreCore(PermitsCore):
    """One handle on a semaphore.

    Attributes:
        value: How many permits may be available after a release, if the handle was made with permits.
    """

    __slots__ = ("_acquiring", "_entered", "_releasing")

    stored = StoredKind("semaphore", "semaphore", "number", SemaphoreNames, number="permits")

    value: int = 2 * MAX_COUNT

    kind = "semaphore"

    def __init__(self, client: ClientCore, name: str, permits: int | None = None, resize: bool = False) -> None:
        super().__init__(client, name, permits, resize)
        # The operations that were used last, and for what number of permits.
        self._acquiring: tuple[int, Operation[PermitOutcome]] | None = None
        self._releasing: tuple[tuple[int, bool, bool], Operation[int]] | None = None
        # What ``with semaphore`` holds, by the number of its owner, which a new id of the client does not change: its
        # innermost block, and those around it. To be listed alone: a block releases its permit wherever it is left,
        # whatever is found here.
        self._entered: dict[int, Entered] = {}

    def acquiring(self, wanted: int) -> Operation[PermitOutcome]:
        """Return the operation that acquires ``wanted`` permits, all or none."""
        last = self._acquiring
        if last is None or last[0] != wanted:
            script = ScriptCall("semaphore_acquire", (wanted,))
            read = partial(read_semaphore_acquire, wanted=wanted)
            last = self._acquiring = wanted, Operation("an acquire", script, read, self.undoing)
        return last[1]

    def releasing(self, permits: int) -> Operation[int]:
        """Return the operation that releases permits."""
        last, what = self._releasing, (permits, self._permits is None, self.client.subscriptions.may_queue)
        if last is None or last[0] != what:
            most = () if self._permits is None else (self.value,)
            script = self._giving("semaphore_release", permits, *most)
            last = self._releasing = what, Operation("a release", script, self.read_released, completes=True)
        return last[1]

    def undoing(self, number: int, value: bytes) -> ScriptCall:
        """Return the script that returns the permits of the request of this number, of which copies may come."""
        return self._giving("semaphore_undo", number)

    def _giving(self, script: str, number: int, *more: int) -> ScriptCall:
        """Return the call of a script that may make permits available."""
        return ScriptCall(script, (number, PUBLISH, *more), (self.names.channel, *self.wait_queue_keys()))

    async def acquire(self, permits: int, wait: float | None) -> bool:
        """Acquire permits, all or none, waiting at most ``wait`` seconds."""
        wanted = count_of(permits, "permits")
        if not wanted:
            self.client.check_open()
            return True
        call = self.begin(self.acquiring(wanted))
        if not await self.acquire_for(call, wait, each=wanted):
            return False
        self.client.presence.take(self.stored.kind, call, wanted)
        return True

    def hold(self, permits: int, wait_time: Seconds | None, *, skip: bool) -> Block:
        """Prepare a block that holds permits."""
        wanted = count_of(permits, "permits")
        wait = wait_seconds(wait_time)
        hold = SingleHold.endless()
        return Block(self, wanted, hold, self.acquiring(wanted), self.releasing(wanted), wait, skip=skip)

    async def release(self, permits: int, progress: Progress | None = None) -> None:
        """Release permits. ``progress``: see ``run_to_the_end``."""
        given = count_of(permits, "permits")
        if not given:
            self.client.check_open()
            return
        if self._first is not None:
            self.client.check_open()
            await self.first_use()
        call, presence = self.begin(self.releasing(given)), self.client.presence
        try:
            if not await call.once(progress):
                self.check_released()
        except BaseException:
            if call.given_up:
                presence.give(self.names.name, given)  # It is completed in the background, or by the next call.
            raise
        if not call.continued:
            presence.give(self.names.name, given)

    def check_released(self) -> None:
        """Raise an error for a release that released nothing; of this kind there is none."""

    async def enter(self) -> bool:
        """Acquire a permit for a block, and list it until that is left."""
        client, entered = self.client, self._entered
        client.check_open()
        block, hold = owned_by_block(client, self.names.name, self.stored.kind, 1, b""), SingleHold.endless()
        await self.acquire_for(self.begin(self.acquiring(1)), None)
        try:
            entered[block.who.number] = block, entered.get(block.who.number)
            block.granted(block.request_id, hold, client.runtime.now())
            client.presence.begin_block(block)
        except BaseException as error:  # Ctrl-C: the block will not be left.
            await self.leave(error)
            raise
        return True

    def _end_block(self) -> Ownership | None:
        """Return what is no longer listed: the caller's innermost block, or any if it was entered by another owner."""
        client, entered, found = self.client, self._entered, None
        number = 0
        with suppress(RuntimeError):  # A coroutine is closed where no event loop runs.
            number = client.runtime.owner().number
            found = entered.pop(number, None)
        with suppress(KeyError):
            if found is None:
                number, found = entered.popitem()
        if found is None:
            return None
        block, around = found
        if around is not None:
            entered[number] = around
        client.presence.end_block(block)
        return block

    async def leave(self, error: BaseException | None, progress: Progress | None = None) -> None:
        """Release a permit at the end of a block. Its own ``error`` takes precedence. See :meth:`leave_block`."""
        block = self._end_block()
        if block is not None and block.loss is not None:  # The client is another one since.
            if error is None:
                raise lost_error(block, block.loss)
            return
        try:
            if not await self.leave_block(self.releasing(1), error, progress):
                self.check_released()
        except Exception as ours:
            if not gives_way(ours, error):
                raise

    async def add_permits(self, permits: int, progress: Progress | None = None) -> None:
        """Make more permits available, or fewer. ``progress``: see ``run_to_the_end``."""
        more = count_of(permits, "permits", signed=True)
        await self.first_use(again=True)
        await self.change("an add_permits", self._changing("semaphore_add", more, PUBLISH), progress)

    async def drain_permits(self) -> int:
        """Acquire all permits that are available, and return how many."""
        await self.first_use(again=True)
        drain = Operation(
            "a drain_permits", ScriptCall("semaphore_drain", (), (self.names.total,)), read_int, self.undoing
        )
        await self._check_kind()
        call = self.begin(drain)
        drained = await call.once()
        if drained > 0:
            self.client.presence.take(self.stored.kind, call, drained)
        return drained

    async def delete(self) -> bool:
        """See :meth:`NumberedCore.delete`."""
        existed = await super().delete()
        self.client.presence.forget(self.names.name)
        return existed

    def total_key(self) -> str:
        """See :meth:`PermitsCore.total_key`. Which permits are acquired is not stored."""
        return self.names.total

    def other_keys(self) -> tuple[str, ...]:
        """See :meth:`NumberedCore.other_keys`."""
        return (self.names.total,)

    def resizing(self, permits: int) -> ScriptCall:
        """See :meth:`PermitsCore.resizing`. What the handle was made with counts if the number is not recorded."""
        before = "" if self._permits is None or self._resizes else self._permits
        return self._changing("semaphore_resize", permits, PUBLISH, before)

    def _changing(self, script: str, *args: int | str) -> ScriptCall:
        """Return the call of a script that changes the number of permits in all."""
        return ScriptCall(script, args, (self.names.channel, self.names.total, *self.wait_queue_keys()))

    other_kind = "expire"

    @property
    def key_of_other_kind(self) -> str:
        """See :meth:`PermitsCore.key_of_other_kind`."""
        return self.names.taken

    async def known_total(self) -> tuple[int, bool]:
        """See :meth:`PermitsCore.known_total`. There are never fewer permits than are available."""
        available = number_in(await self.client.query("GET", self.names.raw), self.names)
        recorded = await self.client.query("GET", self.names.total)
        return max(available, number_in(recorded, self.names)), recorded is not None

    async def available_permits(self) -> int:
        """Return how many permits are available."""
        await self.first_use()
        available = await self.client.query("GET", self.names.raw)
        if available is None and self.forgotten():
            await self.first_use()
            available = await self.client.query("GET", self.names.raw)
        return number_in(available, self.names)


class BoundedSemaphoreCore(SemaphoreCore):
    """One handle on a semaphore that refuses to be released more often than it was acquired."""

    __slots__ = ("value",)

    stored = StoredKind("bounded_semaphore", "semaphore", "number", SemaphoreNames, number="permits")

    def __init__(self, client: ClientCore, name: str, value: int) -> None:
        if count_of(value, "value") == 0:
            raise ValueError("value must be at least 1: of a bounded semaphore of 0 no permit can ever be acquired")
        super().__init__(client, name, value)
        self.value = value

    def check_released(self) -> None:
        """Raise ``ValueError`` for a release too many, which has changed nothing."""
        raise ValueError(f"semaphore {self.names.name!r} released too many times: its value is {self.value}")

    async def take(self, blocking: bool, timeout: Seconds | None) -> bool:
        """Acquire a permit, by the rules of ``threading.Semaphore.acquire``."""
        if not blocking and timeout is not None:
            raise ValueError("can't specify timeout for non-blocking acquire")
        return await self.acquire(1, timeout_seconds(timeout) if blocking else 0)

    async def give(self, n: int, progress: Progress | None = None) -> None:
        """Release permits. ``progress``: see ``run_to_the_end``."""
        if count_of(n, "n") == 0:
            raise ValueError("n must be one or more")
        await self.release(n, progress)

    async def locked(self) -> bool:
        """Return whether no permit is available."""
        return await self.available_permits() <= 0


# ---- permit semaphore ------------------------------------------------------------------------------------------------
# The semaphore whose permits have an id each, and may expire.
#
# Source: ``org.redisson.RedissonPermitExpirableSemaphore``. What differs on purpose: times are the server's, not the
# clients'; expired permits become available in parts, however many there are; each request takes effect once at most.


ID_BYTES = 16
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")

#: The lease of a permit that does not expire.
NEVER: Final = -1

#: The permits that one call acquires or releases at most: a server does nothing else meanwhile.
MAX_AT_ONCE: Final = 1000


def read_permit_acquire(reply: Reply, wanted: int) -> PermitOutcome:
    """Read the reply of ``permit_acquire``. Raises ``Unusable``."""
    match reply:
        case [-1]:
            return OTHER_KIND
        case [0, (int() | None) as left, int() as expires_ms]:
            retry_in_ms = read_left_ms(reply, expires_ms)
            return NeverSet(retry_in_ms) if left is None else Refused(retry_in_ms)
        case [int() as taken, (int() | None) as left, int() as expires_ms] if taken == wanted:
            next_ms = None if expires_ms == -1 else read_left_ms(reply, expires_ms)
            if left is not None and left >= wanted:
                return GRANTED_AND_MORE
            return GRANTED if next_ms is None else Granted(next_ms + 1)  # The server's clock has to be past the end.
    raise unusable(reply)


class PermitSemaphoreCore(PermitsCore):
    """One handle on a semaphore whose permits may expire."""

    __slots__ = ("_acquiring", "_releasing")

    stored = StoredKind("permit_expirable_semaphore", "permits", "permits", SemaphoreNames, number="permits")
    kind = "permit semaphore"
    announces_some = True

    def __init__(self, client: ClientCore, name: str, permits: int | None = None, resize: bool = False) -> None:
        super().__init__(client, name, permits, resize)
        # The operations that were used last, and for what number of permits.
        self._acquiring: tuple[tuple[int, int], Operation[PermitOutcome]] | None = None
        self._releasing: tuple[tuple[bool, bool], Operation[int]] | None = None

    def acquiring(self, wanted: int, lease: int) -> Operation[PermitOutcome]:
        """Return the operation that acquires permits, all or none, for a lease in ms. Its value is their ids."""
        last = self._acquiring
        if last is None or last[0] != (wanted, lease):
            operation = Operation(
                "an acquire",
                ScriptCall("permit_acquire", (PUBLISH, lease), (self.names.channel, self.names.taken)),
                partial(read_permit_acquire, wanted=wanted),
                self.undoing,
                known_for=math.inf,  # The permits are known by their ids, whatever the server has forgotten.
            )
            last = self._acquiring = (wanted, lease), operation
        return last[1]

    def undoing(self, number: int, permits: bytes) -> ScriptCall:
        """Return the script that releases what an acquire may have acquired."""
        script = self.releasing(several=len(permits) > ID_BYTES).script
        return script._replace(args=(permits, *script.args))

    def releasing(self, *, several: bool = False) -> Operation[int]:
        """Return the operation that releases one permit, or ``several``, all or none. Its value is their ids."""
        last, what = self._releasing, (several, self.client.subscriptions.may_queue)
        if last is None or last[0] != what:
            if several:
                script = self._changing("permit_release_all", PUBLISH)
            else:
                script = self._changing("permit_release", PUBLISH)
            last = self._releasing = what, Operation("a release", script, self.read_released, completes=True)
        return last[1]

    def _changing(self, name: str, *args: str | int | bytes) -> ScriptCall:
        """Return the call of a script that may make permits available."""
        return ScriptCall(name, args, (self.names.channel, self.names.taken, *self.wait_queue_keys()))

    def leave_keys(self) -> tuple[str, ...]:
        """See :meth:`PermitsCore.leave_keys`."""
        return self.names.waiting, self.names.taken

    # ---- acquiring and releasing ---------------------------------------------------------------------------------

    async def acquire(self, lease_time: Seconds | None, permits: int | None) -> str | list[str]:
        """Acquire permits, waiting without end. Returns as :meth:`try_acquire`."""
        acquired = await self.try_acquire(None, lease_time, permits)
        assert acquired is not None
        return acquired

    async def try_acquire(
        self, wait_time: Seconds | None, lease_time: Seconds | None, permits: int | None
    ) -> str | list[str] | None:
        """Acquire permits, all or none, waiting at most ``wait_time``, and return their ids; for ``None``, one id."""
        wait = None if wait_time is None else wait_seconds(wait_time)
        lease = NEVER if lease_time is None else lease_ms(lease_time)
        wanted = 1 if permits is None else _number_at_once(permits)
        new = self.client.runtime.random_bytes(ID_BYTES * wanted)
        # Made before: once the permits are granted, nothing is left to interrupt.
        ids = new.hex() if permits is None else [new[at : at + ID_BYTES].hex() for at in range(0, len(new), ID_BYTES)]
        call = self.begin(self.acquiring(wanted, lease), new)
        certain = certain_for(lease)  # Without the loss margin: no one is notified of its end. Of none it is negative.
        hold = SingleHold(lease, certain, watchdog=False) if certain > 0 else None
        return ids if await self.acquire_for(call, wait, each=wanted, hold=hold) else None

    def hold(
        self,
        wait_time: Seconds | None,
        lease_time: Seconds | None,
        *,
        skip: bool,
        on_loss: Callable[[], object] | None = None,
    ) -> Block:
        """Prepare a block that holds a permit; without a lease, the watchdog renews it."""
        lease = None if lease_time is None else lease_ms(lease_time)
        wait = wait_seconds(wait_time)
        permit = self.client.runtime.random_bytes(ID_BYTES)
        client = self.client
        if lease is not None:
            client.check_lease(lease)
        lease_or_usual = lease or client.watchdog.lease_ms
        hold = SingleHold(lease_or_usual, client.certain_for(lease_or_usual), watchdog=lease is None, block=True)
        acquire, release = self.acquiring(1, hold.lease_ms), self.releasing()
        return Block(self, 1, hold, acquire, release, wait, skip=skip, on_loss=on_loss, permit=permit)

    async def release(self, permit_id: str | list[str], progress: Progress | None = None) -> None:
        """Release permits, which have to exist, all or none. ``progress``: see ``run_to_the_end``."""
        missing = await self._release(permit_id, progress)
        if missing is not None:
            several = isinstance(permit_id, list)
            raise self._no_permit(missing, f"; none of the {len(permit_id)} permits was released" if several else "")

    async def try_release(self, permit_id: str | list[str], progress: Progress | None = None) -> bool:
        """Release permits, all or none. Returns whether they existed and had not expired."""
        return await self._release(permit_id, progress) is None

    async def _release(self, permit_id: str | list[str], progress: Progress | None) -> str | None:
        """Release permits, all or none. Returns the first id of which there is no permit, or ``None`` if it is done."""
        if not isinstance(permit_id, list):
            permit = _bytes_of(permit_id)
            one = self.begin(self.releasing(), permit or b"")
            return None if permit is not None and await one.once(progress) == 1 else permit_id
        permits = [_bytes_of(each) for each in permit_id]
        _check_several(permits)
        several = self.begin(self.releasing(several=True), b"".join(permit for permit in permits if permit))
        if None in permits:
            return permit_id[permits.index(None)]
        reply = await several.once(progress)
        return None if reply == 1 else permit_id[max(reply - 2, 0)]

    def _no_permit(self, permit_id: str, more: str = "") -> LockNotOwnedError:
        name = self.names.name
        reason = "it was released, has expired, or never existed"
        return LockNotOwnedError(f"permit {cut(permit_id)} of {name!r} does not exist: {reason}{more}", name=name)

    async def update_lease_time(self, permit_id: str, lease_time: Seconds | None) -> bool:
        """Let a permit expire ``lease_time`` from now. Returns whether it existed and had not expired."""
        permit = _bytes_of(permit_id)
        lease = NEVER if lease_time is None else lease_ms(lease_time)
        script = self._changing("permit_lease", permit or b"", PUBLISH, lease)
        call = self.begin(Operation("an update_lease_time", script, read_flag))
        return permit is not None and await call.once() == 1

    async def get_lease_time(self, permit_id: str) -> float:
        """Return for how many seconds a permit, which has to exist, is still acquired; infinite if it never expires."""
        permit = _bytes_of(permit_id)
        self.client.check_open()
        left_ms = None if permit is None else (await self._count_now(permit)).left_ms
        if left_ms is None:
            raise self._no_permit(permit_id)
        return math.inf if left_ms == NEVER else left_ms / 1000

    # ---- how many there are --------------------------------------------------------------------------------------

    def resizing(self, permits: int) -> ScriptCall:
        """See :meth:`PermitsCore.resizing`."""
        return self._changing("permit_set", permits, PUBLISH)

    def other_keys(self) -> tuple[str, ...]:
        """See :meth:`NumberedCore.other_keys`."""
        return (self.names.taken,)

    async def add_permits(self, permits: int, progress: Progress | None = None) -> None:
        """Make more permits available, or fewer. ``progress``: see ``run_to_the_end``."""
        more = count_of(permits, "permits", signed=True)
        await self.first_use(again=True)
        script = ScriptCall("permit_add", (more, PUBLISH), (self.names.channel, *self.wait_queue_keys()))
        await self.change("an add_permits", script, progress)

    async def available_permits(self) -> int:
        """Return how many permits are available."""
        return (await self._count()).available or 0

    async def get_permits(self) -> int:
        """Return how many permits there are in all; 0 if none were ever set."""
        available, taken, _ = await self._count()
        return 0 if available is None else available + taken

    async def acquired_permits(self) -> int:
        """Return how many permits are acquired."""
        return (await self._count()).taken

    async def _count(self) -> PermitCount:
        self.client.check_open()
        await self.first_use()
        count = await self._count_now()
        if count.available is None and self.forgotten():
            await self.first_use()
            count = await self._count_now()
        return count

    other_kind = "do not expire"

    @property
    def key_of_other_kind(self) -> str:
        """See :meth:`PermitsCore.key_of_other_kind`."""
        return self.names.total

    async def known_total(self) -> tuple[int, bool]:
        """See :meth:`PermitsCore.known_total`."""
        available, taken, _ = await self._count_now()
        return (available or 0) + taken, True

    async def _count_now(self, permit: bytes = b"") -> PermitCount:
        client, names = self.client, self.names
        client.runtime.owner()  # The owner does not matter, but the client has to be of this event loop.
        keys = names.raw, names.taken, names.channel, *self.wait_queue_keys()
        try:
            reply = await client.perform(client.runtime.prepare("permit_count", keys, (PUBLISH, permit)))
        except Failure as failure:
            # Nothing is in doubt: counting twice does no harm.
            error = await explain_type(client.finder, unreached(client, failure), names.name, self.kind)
            raise error from error.__cause__
        match reply:
            case [None, int() as taken, (int() | None) as left_ms]:
                return PermitCount(None, taken, left_ms)
            case [int() | bytes() as available, int() as taken, (int() | None) as left_ms]:
                return PermitCount(number_in(available, names), taken, left_ms)
        raise unusable(reply).cause


class PermitCount(NamedTuple):
    """What there is of a semaphore.

    Attributes:
        available: How many permits are available; ``None``: the semaphore has none yet.
        taken: How many are acquired.
        left_ms: In how many ms the permit that was asked for expires, or :data:`NEVER`; ``None``: there is none.
    """

    available: int | None
    taken: int
    left_ms: int | None


def _number_at_once(permits: object) -> int:
    """Return a number of permits to acquire at once. Raises as ``count_of``."""
    number = count_of(permits, "permits")
    if not 1 <= number <= MAX_AT_ONCE:
        raise ValueError(f"permits must be from 1 to {MAX_AT_ONCE} at once, not {number}")
    return number


def _check_several(permits: list[bytes | None]) -> None:
    """Raise ``ValueError`` if these cannot be released at once; ``None`` is an id of no permit."""
    if not 1 <= len(permits) <= MAX_AT_ONCE:
        raise ValueError(f"a list of permits to release must have from 1 to {MAX_AT_ONCE} ids, not {len(permits)}")
    for permit, times in Counter(permits).items():
        if permit is not None and times > 1:
            raise ValueError(f"permit {permit.hex()} is {times} times in the list of permits to release")


def _bytes_of(permit_id: object) -> bytes | None:
    """Return the id as it is stored; ``None`` if no permit can have it."""
    if not isinstance(permit_id, str):
        raise TypeError(f"a permit's id is a str, not {type(permit_id).__name__}")
    known = len(permit_id) == 2 * ID_BYTES and _HEX_DIGITS.issuperset(permit_id)
    return bytes.fromhex(permit_id) if known else None
