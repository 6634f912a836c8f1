"""The count-down latch: its waiters return when it has been counted down to zero.

Source: ``org.redisson.RedissonCountDownLatch``. What differs on purpose: each count is taken once at most, despite lost
replies, repeats and cancellations; waiters check again by themselves, one for all waiters of a client.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from pyredisson.core.deadline import Deadline, wait_seconds
from pyredisson.core.diagnosis.wrong_type import explain_type
from pyredisson.core.failures import Failure
from pyredisson.core.names import LatchNames
from pyredisson.core.outcomes import ACQUIRED, AT_ONCE, WITHOUT_END
from pyredisson.core.requests.idempotent_request import ScriptCall
from pyredisson.core.runtime import PUBLISH
from pyredisson.core.waiting.pubsub_wait import WaitingCall, wait_by_message
from pyredisson.core.waiting.wait_groups import ALL, Waiter, WaitGroup
from pyredisson.kinds.numbered import NumberedCore, count_of, number_in
from pyredisson.kinds.stored import StoredKind

if TYPE_CHECKING:
    from pyredisson.core.client import ClientCore
    from pyredisson.core.deadline import Seconds
    from pyredisson.core.driver import Progress
    from pyredisson.core.outcomes import Answer


#: The messages of a latch: its count has reached zero; it was given a count.
OPENED: Final = "0"
CLOSED: Final = "1"


def latch_message(payload: bytes) -> int:
    """Return how many waiters a message notifies: that of an open latch one, whose answer serves the others."""
    return 1 if payload == OPENED.encode() else 0


#: How it is stored, for inspections.
STORED = (StoredKind("count_down_latch", "latch", "number", LatchNames, number="count"),)


class LatchCore(NumberedCore):
    """One handle on a latch.

    Its message goes to all clients that wait, which are on no list: once it is open, none of them asks in vain.
    """

    __slots__ = ()

    word = "count_down_latch"
    kind = "latch"
    names: LatchNames  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, client: ClientCore, name: str) -> None:
        super().__init__(client, LatchNames(name, client.config.prefix))

    async def try_set_count(self, count: int) -> bool:
        """Set the count, unless the latch has one."""
        return await self.set_first("a try_set_count", count_of(count, "count"), message=CLOSED)

    async def count_down(self, progress: Progress | None = None) -> None:
        """Count down by one. ``progress``: see ``run_to_the_end``."""
        script = ScriptCall("latch_count_down", (OPENED, PUBLISH), (self.names.channel,))
        await self.change("a count_down", script, progress)

    async def get_count(self) -> int:
        """Return the count; 0 if there is none."""
        return number_in(await self.client.query("GET", self.names.raw), self.names)

    async def wait(self, timeout: Seconds | None) -> bool:
        """Wait until the count is 0, for at most ``timeout``. Returns whether it was."""
        wait = wait_seconds(timeout, "timeout")
        client, names = self.client, self.names
        client.check_open()
        client.runtime.owner()  # The owner does not matter, but the client has to be of this event loop.
        began = client.runtime.now()
        seen = client.subscriptions.messages_of(names.channel) if wait != 0 else None
        # The loop below goes on while the server is unreachable; a query does not.
        patient = client.config.wait_while_unreachable and wait != 0
        if not patient:
            if await self.get_count() <= 0:
                return True
            if wait == 0:
                return False

        async def attempt() -> Answer:
            if client.ledger.seen_open.get(names.raw, -math.inf) >= began:
                return ACQUIRED  # Another waiter has seen it open since this one began.
            asked = client.runtime.now()
            count = await client.runtime.ask(("GET", names.raw), client.config.timeout / 3)
            if number_in(count, names) > 0:
                return WITHOUT_END
            client.ledger.seen_open[names.raw] = asked
            client.subscriptions.hint(names.channel, self.kind, 0, ALL)
            return ACQUIRED

        waits = self.begin_wait()
        try:
            group: WaitGroup[Waiter] = WaitGroup(client.subscriptions, names.channel, self.kind, latch_message)
            refused, deadline = AT_ONCE if patient else WITHOUT_END, Deadline.after(wait, began)
            return await wait_by_message(WaitingCall(client, names.name, attempt, refused, deadline), group, seen)
        except Failure as failure:
            error = await explain_type(client.finder, failure.cause, names.name, self.kind)
            raise error from error.__cause__
        finally:
            client.presence.end_wait(waits)
            if not client.subscriptions.waiting(names.channel):
                client.ledger.seen_open.pop(names.raw, None)
