"""The semaphore: a number of permits, which any owner may acquire and release.

Source: ``org.redisson.RedissonSemaphore``; ``threading.BoundedSemaphore``. What differs on purpose: each request takes
effect once at most, despite lost replies, repeats and cancellations; waiters check again by themselves; a message of no
permits wakes no waiter; of the clients of this library that wait, as many are woken as can acquire permits.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from pyredisson._core.deadline import timeout_seconds, wait_seconds
from pyredisson._core.failures import gives_way
from pyredisson._core.hold import SingleHold, lost_error
from pyredisson._core.kind import StoredKind
from pyredisson._core.names import SemaphoreNames
from pyredisson._core.numbered import Operation, ScriptCall
from pyredisson._core.requests import (
    GRANTED,
    GRANTED_AND_MORE,
    OTHER_KIND,
    WITHOUT_END,
    NeverSet,
    read_int,
    unusable,
)
from pyredisson._core.runtime import PUBLISH
from pyredisson._kinds.numbered import MAX_COUNT, count_of, number_in
from pyredisson._kinds.permits import Block, PermitsCore, owned_by_block

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.deadline import Seconds
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.requests import PermitOutcome
    from pyredisson._core.runtime import Progress, Reply

    #: A block, and those around it that were entered by the same owner.
    Entered: TypeAlias = "tuple[Ownership, Entered | None]"


def read_acquire_permits(reply: Reply, wanted: int) -> PermitOutcome:
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
            read = partial(read_acquire_permits, wanted=wanted)
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
