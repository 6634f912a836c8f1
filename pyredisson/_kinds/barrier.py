"""The barrier: a number of parties wait for each other, again and again.

Source: ``threading.Barrier``. Each wait is a member in Redis, which counts for as long as its client checks; who dies
soon counts no longer. A generation ends when the barrier is opened, broken or reset.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pyredisson._core.deadline import Deadline, timeout_seconds
from pyredisson._core.failures import Failure, is_interruption
from pyredisson._core.kind import StoredKind
from pyredisson._core.names import BarrierNames
from pyredisson._core.numbered import NumberedCall, Operation, ScriptCall
from pyredisson._core.requests import ACQUIRED, GRANTED, WITHOUT_END, Refused, read_int, unusable
from pyredisson._core.runtime import PUBLISH
from pyredisson._core.subscriptions import Waiter, WaitGroup
from pyredisson._core.waiting import WaitingCall, wait_by_message
from pyredisson._kinds.numbered import NumberedCore, count_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyredisson._core.client import ClientCore
    from pyredisson._core.deadline import Seconds
    from pyredisson._core.requests import Answer, Granted
    from pyredisson._core.runtime import Reply

#: How it is stored, for inspections.
STORED = (StoredKind("barrier", "barrier", "number", BarrierNames, number="changes"),)

#: How many checks a waiter may miss until it no longer counts.
MISSED_CHECKS = 3


class Visit:
    """One wait at a barrier.

    Attributes:
        number: Its number among the waiters.
        last: Whether it was the last to join.
        ended: Whether its generation has ended: the barrier was opened, broken or reset.
        opened: Whether it was opened.
    """

    def __init__(self, barrier: BarrierCore) -> None:
        self._barrier = barrier
        self._member = f"{barrier.client.id}:{barrier.client.ledger.number()}"
        self._generation: int | str = ""
        self.number: int = 0
        self.last: bool = False
        self.ended: bool = False
        self.opened: bool = False

    def script(self, mode: str, opens: str = "never") -> ScriptCall:
        """Return the script for it, in its present state."""
        return self._barrier.script(mode, self._member, self._generation, opens)

    def joining(self) -> Operation[Refused | Granted]:
        """Return the operation that joins, and is undone if its caller leaves."""
        return Operation("a wait", self.script("wait"), self.read, lambda number: self.script("leave"))

    def leaving(self) -> Operation[int]:
        """Return the operation that ends it."""
        return Operation("a wait", self.script("leave"), read_int)

    def read(self, reply: Reply) -> Refused | Granted:
        """Note what the server replied; a refusal says that it waits on. Raises ``Unusable``."""
        state, parties = read_int(reply), self._barrier.parties
        if state < -3 - parties:
            raise unusable(reply)
        if state >= 0:
            self.last = state % 2 == 1
            self._generation, self.number = divmod(state // 2, parties)
            return WITHOUT_END
        if state == -2 - parties:
            return WITHOUT_END
        self.ended, self.opened = True, self.opened or state < -1
        if -2 - parties < state < -1:  # Its own attempt opened it; its number may be another one by now.
            self.number = -2 - state
        return GRANTED

    def notified(self, payload: bytes) -> int:
        """Note what a message says of its generation: then it need not ask. Returns that this waiter is notified."""
        how, _, generation = payload.decode().partition(" ")
        if generation == str(self._generation):
            self.ended, self.opened = True, how == "wait"
        return 1


class BarrierCore(NumberedCore):
    """One handle on a barrier.

    Args:
        client: The client.
        name: Its name.
        error: The error of those who wait at a barrier that is broken.
        parties: How many wait for each other.
        action: What the last of them calls before the others go on; what it returns is awaited if need be.
        timeout: Seconds that a wait may take unless it says otherwise; ``None``: without end.
    """

    __slots__ = ("_action", "_error", "_timeout", "parties")

    word = "barrier"
    kind = "barrier"

    def __init__(
        self,
        client: ClientCore,
        name: str,
        error: type[Exception],
        parties: int,
        action: Callable[[], Any] | None = None,
        timeout: Seconds | None = None,
    ) -> None:
        super().__init__(client, BarrierNames(name, client.config.prefix))
        if count_of(parties, "parties") == 0:
            raise ValueError("parties must be > 0")
        self.parties: int = parties
        self._error = error
        self._action = action
        self._timeout = timeout_seconds(timeout)

    def script(self, mode: str, member: str = "", generation: int | str = "", opens: str = "never") -> ScriptCall:
        """Return the script that does one thing at the barrier."""
        counts_ms = int(1000 * MISSED_CHECKS * self.client.config.max_wait_without_check)
        args = PUBLISH, mode, self.parties, member, generation, counts_ms, opens
        return ScriptCall("barrier_visit", args, (self.names.channel,))

    async def wait(self, timeout: Seconds | None) -> int:
        """Wait for the others. Returns its number among them. Raises the error of a broken one."""
        wait = self._timeout if timeout is None else timeout_seconds(timeout)
        client, visit = self.client, Visit(self)
        call = self.begin(visit.joining())
        seen, began = client.subscriptions.messages_of(self.names.channel), client.runtime.now()
        try:
            if await self._check(visit, call) is not ACQUIRED:
                await self._until_ended(visit, call, seen, Deadline.after(wait, began))
        except Failure as failure:
            raise await call.explain(failure) from failure.cause
        except GeneratorExit:
            self.begin(visit.leaving()).leave_later()
            raise
        except BaseException as error:
            if is_interruption(error):
                await self.begin(visit.leaving()).leave()
            raise
        if not visit.opened:
            raise self._error(f"barrier {self.names.name!r} is broken, or was reset")
        return visit.number

    async def _check(self, visit: Visit, call: NumberedCall[Refused | Granted]) -> Answer:
        """Join, or check whether it was opened. The last one calls the action for all; then it opens the barrier."""
        if not visit.ended:
            await call.send(visit.script("wait", "last" if self._action is None else "never"))
        if visit.last and not visit.ended and self._action is not None:
            try:
                result = self._action()
                if hasattr(result, "__await__"):
                    await result
            except BaseException:
                await self.abort()
                raise
            await call.send(visit.script("wait", "now"))
        return ACQUIRED if visit.ended else WITHOUT_END

    async def _until_ended(
        self, visit: Visit, call: NumberedCall[Refused | Granted], seen: int | None, deadline: Deadline
    ) -> None:
        """Check until the barrier is opened or broken; break it when the time has elapsed."""
        client, names = self.client, self.names
        group: WaitGroup[Waiter] = WaitGroup(client.subscriptions, names.channel, str(id(visit)), visit.notified)
        waiting = WaitingCall(client, names.name, partial(self._check, visit, call), WITHOUT_END, deadline)
        waits = self.begin_wait()
        try:
            if not await wait_by_message(waiting, group, seen):
                await call.send(visit.script("break"))
        finally:
            client.presence.end_wait(waits)

    async def abort(self) -> None:
        """Break the barrier: all who wait, or come until it is reset, receive an error."""
        await self.change("an abort", self.script("break"))

    async def reset(self) -> None:
        """Make the barrier empty and whole; those who wait receive an error."""
        await self.change("a reset", self.script("reset"))

    async def n_waiting(self) -> int:
        """Return how many wait."""
        return await self.change("a count", self.script("count"))

    async def broken(self) -> bool:
        """Return whether it is broken."""
        return await self.client.query("HEXISTS", self.names.channel, "broken") == 1
