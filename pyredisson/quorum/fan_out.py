"""Many servers asked at once, by code that was written for one.

The members of a multi-lock are locks like any other, each with a client of its own. To ask them side by side, each
member's coroutine runs over a :class:`Polled` runtime, whose requests do not block: they surface here, where
:func:`together` gathers those of all members, sends them in one go, and hands each its reply.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from pyredisson.core import scripts
from pyredisson.core.client import ClientCore
from pyredisson.core.outcomes import Stale
from pyredisson.core.replicas import NodeReplicas
from pyredisson.core.runtime import (
    Acknowledging,
    Ask,
    AskSynced,
    Failure,
    Pause,
    Unanswered,
    count_as_ours,
    is_interruption,
)
from pyredisson.errors import OutcomeUnknownError
from pyredisson.quorum.decisions import node_timeout

if TYPE_CHECKING:
    from pyredisson.core.calls import Call
    from pyredisson.core.ownership import Ownership
    from pyredisson.core.runtime import Reply, Request, Runtime

__all__ = ["MemberCore", "NodeCore", "NotReached", "together"]


class Polled:
    """A client's runtime, but for what may block: that is handed over to :func:`together`."""

    def __init__(self, real: Runtime) -> None:
        self.real = real
        self.now = real.now
        self.prepare = real.prepare

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def eval(self, request: Request, timeout: float) -> Ask:
        """A request, to be sent together with those of the other members."""
        return Ask(self.real, request, timeout)

    def eval_synced(self, request: Request, timeout: float, sync: Acknowledging, sync_timeout: float) -> AskSynced:
        """The same, of one that replicas are to acknowledge."""
        return AskSynced(self.real, request, timeout, sync, sync_timeout)

    def sleep(self, seconds: float) -> Pause:
        """A pause."""
        return Pause(seconds)


@count_as_ours
class NotReached(Exception):
    """A member could not be asked, or what became of a request is not known. ``cause`` is the error to show."""

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class MemberCore(ClientCore):
    """A client as its member of a multi-lock sees it: that is asked in the multi-lock's name, which tells of it itself.

    OwnershipTable, watchdog and waiters are the client's own.
    """

    # Not initialised as a client: whatever is not said here is the real one's, and asked for each time, since the child
    # of a fork begins anew.

    def __init__(self, real: ClientCore) -> None:
        self.real = real
        self.runtime = real.runtime
        self.config = real.config
        self.talkative = _silent

    closed = property(attrgetter("real.closed"))  # pyright: ignore[reportAssignmentType]
    id = property(attrgetter("real.id"))  # pyright: ignore[reportAssignmentType]
    ownerships = property(attrgetter("real.ownerships"))  # pyright: ignore[reportAssignmentType]
    wakeups = property(attrgetter("real.wakeups"))  # pyright: ignore[reportAssignmentType]
    watchdog = property(attrgetter("real.watchdog"))  # pyright: ignore[reportAssignmentType]
    sync = property(attrgetter("real.sync"))  # pyright: ignore[reportAssignmentType]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def tell_lost(self, ownership: Ownership) -> None:
        """Only of holds that are not the multi-lock's."""
        if any(level.watched for level in ownership.holds):
            self.real.tell_lost(ownership)

    def explain(self, failure: Failure, ownership: Ownership, what: str, lease_ms: int) -> Exception:
        """The error of one member, for those who count them. What is in doubt is settled in the background."""
        if isinstance(failure, Unanswered):
            ownership.settle_until(self.runtime.now() + lease_ms / 1000)
            self.watchdog.settle(ownership)
        return NotReached(failure.cause)


class NodeCore(MemberCore):
    """A client as one node of several: asked once, and beside the others.

    Args:
        real: The client.
        quick: Whether it gets but the small timeout of one node among many.
    """

    explains_types = False  # That takes more requests: the multi-lock does it when all have been asked.
    sync = None  # The other nodes are what replicas are elsewhere, unless a number of them is demanded.

    def __init__(self, real: ClientCore, *, quick: bool) -> None:
        super().__init__(real)
        self._quick = quick
        polled = Polled(real.runtime)
        self.runtime = polled  # type: ignore[assignment]
        if real.config.min_replicas:
            self.sync = NodeReplicas(real.replicas, polled.eval_synced)
        self._timeouts = (0, 0.0)  # The lease of the last time, and what it gives.

    def attempt_timeout(self, lease_ms: int) -> float:
        """A node that does not answer at once must not keep the others waiting."""
        lease, timeout = self._timeouts
        if lease != lease_ms:
            if self._quick:
                timeout = node_timeout(lease_ms, self.config.quorum_node_timeout)
            else:
                timeout = self.real.attempt_timeout(lease_ms)
            self._timeouts = (lease_ms, timeout)
        return timeout

    async def persist(
        self,
        call: Call,
        repeat: bool,
        sent: float,
        setback: Failure | Stale,
        budget: float | None = None,
    ) -> tuple[Reply, float, bool]:
        """A node is asked once: only one that knows a later epoch of ours is asked again, under the next one."""
        ownership, request_id = call.ownership, call.request_id
        if isinstance(setback, Stale):
            ownership.raise_epoch(request_id, above=setback.epoch)
            epoch = ownership.epoch_of(request_id)
            if epoch is None:
                raise Unanswered(
                    OutcomeUnknownError("superseded by a later request of the same owner", name=ownership.name)
                )
            sent = self.runtime.now()
            try:
                reply = await self.send(call.request(epoch, repeat), self.attempt_timeout(call.lease_ms), call.reader)
            except Failure as failure:
                setback = failure
            else:
                if scripts.read_stale(reply) is None:
                    return reply, sent, repeat
                setback = Unanswered(
                    OutcomeUnknownError("a later epoch of the same owner is known", name=ownership.name)
                )
        if isinstance(setback, Unanswered):
            ownership.doubt(request_id)
            raise setback
        if repeat:  # This copy had no effect; an earlier one may have had.
            raise Unanswered(setback.cause) from setback.cause
        raise setback


def _silent() -> bool:
    return False


async def together(runtime: Runtime, works: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Step coroutines over :class:`Polled` runtimes to their ends, with their requests side by side.

    Returns:
        What each returned, or the ``Exception`` that it raised.

    Whatever else comes up (Ctrl-C, a cancellation) ends all of them where they are; their ownerships say what is open.
    """
    results: list[Any] = [None] * len(works)
    under_way: list[tuple[int, Ask]] = []
    pausing: list[tuple[int, Pause]] = []

    def step(index: int, answer: Reply | Failure) -> None:
        try:
            surfaced = works[index].send(answer)
        except StopIteration as done:
            results[index] = done.value
        except Exception as error:
            if is_interruption(error):
                raise
            results[index] = error
        else:
            if isinstance(surfaced, Ask):
                under_way.append((index, surfaced))
            elif type(surfaced) is Pause:
                pausing.append((index, surfaced))
            else:
                raise RuntimeError(f"a member of a multi-lock awaited something foreign: {surfaced!r}")

    try:
        for index in range(len(works)):
            step(index, None)
        while under_way or pausing:
            asked, under_way = under_way, []
            paused, pausing = pausing, []
            if asked:
                answers = await runtime.fan_out([ask for _, ask in asked])
                for (index, _), answer in zip(asked, answers, strict=True):
                    step(index, answer)
            else:
                await runtime.sleep(max(pause.seconds for _, pause in paused))
            for index, _ in paused:
                step(index, None)
    except BaseException:
        for work in works:
            work.close()
        raise
    return results
