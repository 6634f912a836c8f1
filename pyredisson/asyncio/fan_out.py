"""Requests to several servers at once, for an event loop: all are sent, then all replies are received."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import redis.exceptions as rx

from pyredisson.asyncio.tasks import look_at
from pyredisson.core.failures import Connecting, Failure, NotSent, Unanswered
from pyredisson.core.runtime import Ask, Reply
from pyredisson.net.link import CONNECTING
from pyredisson.net.server_link import ServerLink

if TYPE_CHECKING:
    from pyredisson.net.link import Link
    from pyredisson.net.pool import Pool
    from pyredisson.net.resp import Packed

AskT = TypeVar("AskT", bound=Ask)


class Begun(Protocol):
    """A request under way."""

    async def receive(self) -> Reply:
        """Return the reply. Raises as ``Runtime.eval`` does, at its timeout at the latest."""
        ...

    def drop(self) -> None:
        """Forget it: its reply is not of interest any more."""
        ...


class Gathering:
    """One that waits for several requests: it is woken once, when all of them have come to something.

    Attributes:
        left: How many have not.
        all_done: Done when none is left.
    """

    __slots__ = ("all_done", "left")

    def __init__(self, left: int) -> None:
        self.all_done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.left: int = left


class Sent:
    """A request that was sent on the shared connection; an :class:`Outcome`.

    Attributes:
        link: Where it was sent.
        reply: The reply, if ``failure`` is ``None``.
        failure: Why there is no reply.
        gathering: Who waits for it and others.
    """

    __slots__ = ("_done", "_request", "_timeout", "failure", "gathering", "link", "reply")

    def __init__(self, link: ServerLink, request: Packed, timeout: float) -> None:
        self.link: ServerLink = link
        self._request = request
        self._timeout = timeout
        self._done = False
        self.reply: Any = None
        self.failure: Failure | None = None
        self.gathering: Gathering | None = None

    def done(self) -> bool:
        return self._done

    def set_result(self, reply: Any) -> None:
        self.reply = reply
        self._done = True
        gathering = self.gathering
        if gathering is not None:
            gathering.left -= 1
            if not gathering.left and not gathering.all_done.done():
                gathering.all_done.set_result(None)

    def set_exception(self, failure: Failure) -> None:
        self.failure = failure
        self.set_result(None)

    async def receive(self) -> Reply:
        if not self._done:
            self.gathering = Gathering(1)
            await self.gathering.all_done
        link, reply = self.link, self.reply
        if self.failure is not None:
            link.away = link.away or isinstance(self.failure, Unanswered)
            raise self.failure
        link.away = False
        if isinstance(reply, Exception):
            return await link.answer(reply, self._request, self._timeout)
        return reply  # type: ignore[no-any-return]

    def drop(self) -> None:
        pass  # Its reply is ignored.


class InTask:
    """A request in a task of its own: its connection has to be made first, or is borrowed."""

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._task = asyncio.ensure_future(work)

    async def receive(self) -> Reply:
        await asyncio.wait({self._task})  # Not the task itself: it could swallow a cancellation, see tasks.py.
        return self._task.result()  # type: ignore[no-any-return]

    def drop(self) -> None:
        self._task.cancel()
        self._task.add_done_callback(look_at)


async def _when_connected(link: ServerLink, pool: Pool, ask: Ask) -> Reply:
    try:
        # A server that was away a moment ago is not waited for longer than one that does not answer.
        pipe: Any = await pool.connect(ask.timeout if link.away else max(ask.timeout, CONNECTING))
    except Failure:
        link.away = True
        raise
    ask.connected()
    sent = Sent(link, ask.request, ask.timeout)
    pipe.post(ask.request.data, ask.timeout, sent)
    return await sent.receive()


async def _in_time(link: Link, ask: Ask) -> Any:
    within = ask.timeout
    if ask.sync is None:
        work: Any = link.eval(ask.request, ask.timeout)
    else:
        within *= 2
        work = link.eval_synced(ask.request, ask.timeout, ask.sync, ask.timeout)
    try:
        # It may have to connect, for which there is no time of its own here.
        return await asyncio.wait_for(work, max(within, CONNECTING))
    except asyncio.TimeoutError:
        raise Unanswered(rx.TimeoutError(f"no reply from the server within {within:.3g} s")) from None


def _begin(ask: Ask) -> Begun:
    link: Link = ask.runtime.link  # type: ignore[attr-defined]
    pool = link.pool if isinstance(link, ServerLink) and ask.sync is None else None
    if pool is None:
        return InTask(_in_time(link, ask))
    assert isinstance(link, ServerLink)
    pipe: Any = pool.get()
    if pipe is None:
        return InTask(_when_connected(link, pool, ask))
    sent = Sent(link, ask.request, ask.timeout)
    pipe.post(ask.request.data, ask.timeout, sent)
    return sent


async def fan_out(asks: Iterable[AskT]) -> list[AskT]:
    """See ``Runtime.fan_out``: send everything, then receive the replies.

    In any order: while one is waited for, the others' arrive, and their time runs too.
    """
    made: list[AskT] = []
    begun: list[Begun] = []
    sent: list[Sent] = []
    received = 0
    try:
        for ask in asks:
            made.append(ask)
            each = _begin(ask)
            begun.append(each)
            if type(each) is Sent:
                sent.append(each)
        if len(sent) > 1:
            # None of them is done: there was no turn of the loop since.
            gathering = Gathering(len(sent))
            for one in sent:
                one.gathering = gathering
            await gathering.all_done
        for ask, each in zip(made, begun, strict=True):
            try:
                answer: Any = await each.receive()
            except Connecting as failure:
                answer = NotSent(failure.cause)  # One of several is not waited for.
            except Failure as failure:
                answer = failure
            received += 1
            ask.answer = answer
    except BaseException:
        for each in begun[received:]:
            each.drop()
        raise
    return made
