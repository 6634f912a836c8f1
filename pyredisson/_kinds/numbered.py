"""What the handles on what has no owner in Redis have in common, and how they wait for a number."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from pyredisson._core.deadline import DAY, Deadline, lease_ms
from pyredisson._core.failures import Failure, explain_type, no_number
from pyredisson._core.names import owner_field
from pyredisson._core.numbered import NumberedCall, Operation, ScriptCall
from pyredisson._core.requests import ACQUIRED, AT_ONCE, WITHOUT_END, passes, read_int
from pyredisson._core.runtime import PUBLISH
from pyredisson._core.subscriptions import ALL, Waiter, WaitGroup
from pyredisson._core.waiting import WaitingCall, wait_by_message

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.deadline import Seconds
    from pyredisson._core.kind import StoredKind
    from pyredisson._core.names import NumberedNames
    from pyredisson._core.presence import Wait
    from pyredisson._core.requests import Answer
    from pyredisson._core.runtime import Progress, Reply

T = TypeVar("T")

#: Lua does not count exactly beyond it.
MAX_COUNT = 2**53

#: The messages of a latch, or an event: its waiters can return; it was given a count.
OPENED: Final = "0"
CLOSED: Final = "1"


def opened_message(payload: bytes) -> int:
    """Return how many waiters a message notifies: one if they can return, whose answer serves the others."""
    return 1 if payload == OPENED.encode() else 0


def count_of(value: object, what: str, *, signed: bool = False) -> int:
    """Return ``value`` if it is a number of permits (or a count).

    Raises:
        TypeError: It is not an ``int``.
        ValueError: It is negative (unless ``signed``), or beyond what a script can count.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} must be an int, not {type(value).__name__}")
    if value < 0 and not signed:
        raise ValueError(f"{what} must not be negative, not {value}")
    if abs(value) > MAX_COUNT:
        raise ValueError(f"{what} must not be beyond {MAX_COUNT}, not {value}")
    return value


def number_in(reply: Reply, names: NumberedNames) -> int:
    """Return the number that the key of these names holds; 0 if there is none."""
    try:
        return int(reply) if isinstance(reply, (bytes, int)) else 0
    except ValueError:
        raise no_number(names.name, names.raw) from None


class NumberedCore:
    """One handle on something that has no owner in Redis. Cheap, without state of its own, and shared at will."""

    __slots__ = ("client", "names")

    #: How it is stored, for inspections.
    stored: ClassVar[StoredKind]
    #: What it is called in messages.
    kind: ClassVar[str]
    #: What to do about a change whose outcome stays unknown, in messages.
    check: ClassVar[str] = "check its value"

    def __init__(self, client: ClientCore, names: NumberedNames) -> None:
        self.client: ClientCore = client
        self.names: NumberedNames = names
        client.check_names(names)

    def describe(self) -> str:
        """Return its state as this client knows it, for ``repr``; asks no server."""
        waiting = self.client.subscriptions.waiting(self.names.channel)
        return f"{self.names.name!r}, {waiting} waiting here" if waiting else repr(self.names.name)

    def begin(self, operation: Operation[T], value: bytes = b"") -> NumberedCall[T]:
        """Prepare an operation of the caller. ``value``: see :class:`NumberedCall`."""
        client = self.client
        client.check_open()
        return NumberedCall(client, self.names, self.kind, operation, value, check=self.check)

    def begin_wait(self) -> Wait | None:
        """Note that the caller waits. Returns what to give to ``Presence.end_wait``."""
        client = self.client
        who = client.runtime.owner()
        return client.presence.begin_wait(self.stored.kind, self.names.name, owner_field(client.id, who.number), who)

    async def change(self, what: str, script: ScriptCall, progress: Progress | None = None) -> int:
        """Make a change at once, and return what its script replies. ``progress``: see ``run_to_the_end``."""
        return await self.begin(Operation(what, script, read_int)).once(progress)

    def setting(
        self, what: str, value: int, message: str, *waiting: str, ttl_ms: int | None = None, total: str | None = None
    ) -> Operation[int]:
        """Return the operation that sets the first value; its reply is 0 if there was one.

        ``message`` notifies the waiters; ``waiting`` is the list of the clients that wait, if there is one; ``total``
        is the key where the value is recorded, too.
        """
        recorded = () if total is None else (total,)
        args = value, PUBLISH, message, "" if ttl_ms is None else ttl_ms, len(recorded)
        return Operation(what, ScriptCall("counter_set", args, (self.names.channel, *recorded, *waiting)), read_int)

    # ---- how long it exists --------------------------------------------------------------------------------------

    #: The message that notifies the waiters when it is deleted, if they do not wait for what does not exist.
    deleted_message: ClassVar[str] = ""

    def other_keys(self) -> tuple[str, ...]:
        """Return the keys that exist as long as its own."""
        return ()

    async def first_use(self) -> None:
        """Set what the handle was made with, once, if that is anything."""

    async def expire(self, time: Seconds) -> bool:
        """Let it expire after a time, and return whether it exists."""
        time_ms = lease_ms(time, "seconds", DAY)
        await self.first_use()
        return await self._expire("an expire", time_ms)

    async def clear_expire(self) -> bool:
        """Let it not expire any more, and return whether it would have."""
        await self.first_use()
        return await self._expire("a clear_expire", -1)

    async def delete(self) -> bool:
        """Delete it, and return whether it existed."""
        return await self._expire("a delete", 0, self.deleted_message)

    async def exists(self) -> bool:
        """Return whether it exists."""
        return await self.client.query("EXISTS", self.names.raw) == 1

    async def _expire(self, what: str, time_ms: int, message: str = "") -> bool:
        script = ScriptCall("counter_expire", (time_ms, PUBLISH, message), (self.names.channel, *self.other_keys()))
        return await self.change(what, script) == 1


class NumberWaitCore(NumberedCore):
    """One handle on something whose number says when its waiters return.

    Its message goes to all clients that wait, which are on no list: then none of them asks in vain.
    """

    __slots__ = ()

    @abstractmethod
    def opens(self, number: int, first: int | None) -> bool:
        """Return whether a waiter returns at this number; ``first`` is the one that it has seen first, if any."""

    async def get_number(self) -> int:
        """Return the number; 0 if there is none."""
        return number_in(await self.client.query("GET", self.names.raw), self.names)

    async def wait_for_number(self, wait: float | None) -> bool:
        """Wait until the number says so, for at most ``wait`` seconds. Returns whether it did."""
        client, names = self.client, self.names
        client.check_open()
        client.runtime.owner()  # The owner does not matter, but the client has to be of this event loop.
        began = client.runtime.now()
        seen = client.subscriptions.messages_of(names.channel) if wait != 0 else None
        first: int | None = None
        refused = AT_ONCE
        # The loop below goes on while the server is unreachable, or refuses it for a reason that passes.
        if wait == 0 or not client.config.wait_while_unreachable:
            try:
                first = number_in(await client.read("GET", names.raw), names)
            except Failure as failure:
                if not wait or not passes(client, failure):
                    error = await client.explain_read(failure, names.raw)
                    raise error from error.__cause__
            else:
                if self.opens(first, None) or wait == 0:
                    return self.opens(first, None)
                refused = WITHOUT_END
        known = client.ledger.seen_numbers

        async def attempt() -> Answer:
            nonlocal first
            if names.raw in known and known[names.raw][0] >= began and self.opens(known[names.raw][1], first):
                return ACQUIRED  # Another waiter has seen it since this one began.
            sent = client.runtime.now()
            number = number_in(await client.runtime.execute(("GET", names.raw), client.config.timeout / 3), names)
            if not self.opens(number, first):
                first = number if first is None else first
                return WITHOUT_END
            known[names.raw] = sent, number
            client.subscriptions.hint(names.channel, self.kind, 0, ALL)
            return ACQUIRED

        waits = self.begin_wait()
        try:
            group: WaitGroup[Waiter] = WaitGroup(client.subscriptions, names.channel, self.kind, opened_message)
            deadline = Deadline.after(wait, began)
            if await wait_by_message(WaitingCall(client, names.name, attempt, refused, deadline), group, seen):
                return True
            return self.opens(await self.get_number(), first)  # There is no message when it expires.
        except Failure as failure:
            error = await explain_type(client.finder, failure.cause, names.name, self.kind)
            raise error from error.__cause__
        finally:
            client.presence.end_wait(waits)
            if not client.subscriptions.waiting(names.channel):
                known.pop(names.raw, None)
