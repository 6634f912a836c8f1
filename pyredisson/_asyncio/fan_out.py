"""Requests to several servers at once, for an event loop: all are sent, then all replies are received."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import redis.exceptions as rx

from pyredisson._asyncio.tasks import look_at
from pyredisson._core.failures import Connecting, Failure, NotSent, Unanswered, as_failure
from pyredisson._core.runtime import Ask, Reply
from pyredisson._net.link import CONNECTING, ServerLink

if TYPE_CHECKING:
    from pyredisson._net.link import Pool
    from pyredisson._net.urls import Link

AskT = TypeVar("AskT", bound=Ask)


async def _receive(ask: Ask, begun: asyncio.Future[Any]) -> Reply:
    """Return the reply. Raises as ``Runtime.eval`` does, at its timeout at the latest."""
    if isinstance(begun, asyncio.Task):
        await asyncio.wait({begun})  # Not the task itself: it could swallow a cancellation, see tasks.py.
        error = None if begun.cancelled() else begun.exception()
        if isinstance(error, Exception):  # Of any class: it is about this server alone.
            raise as_failure(error)
        return begun.result()  # type: ignore[no-any-return]
    link: ServerLink = ask.runtime.link  # type: ignore[attr-defined]
    try:
        reply = await begun
    except Unanswered:
        link.away = True
        raise
    link.away = False
    if isinstance(reply, Exception):
        return await link.answer(reply, ask.request, ask.timeout)
    return reply  # type: ignore[no-any-return]


async def _when_connected(link: ServerLink, pool: Pool, ask: Ask) -> Reply:
    try:
        # A server that was away a moment ago is not waited for longer than one that does not answer.
        pipe: Any = await pool.connect(ask.timeout if link.away else max(ask.timeout, CONNECTING))
    except Failure:
        link.away = True
        raise
    ask.connected()
    return await _receive(ask, pipe.call(ask.request.data, ask.timeout))


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


def _begin(ask: Ask) -> asyncio.Future[Any]:
    """Send a request now; in a task of its own, if its connection has to be made first, or is borrowed."""
    link: Link = ask.runtime.link  # type: ignore[attr-defined]
    if not isinstance(link, ServerLink) or link.pool is None or ask.sync is not None:
        return asyncio.ensure_future(_in_time(link, ask))
    pipe: Any = link.pool.get()
    if pipe is None:
        return asyncio.ensure_future(_when_connected(link, link.pool, ask))
    return pipe.call(ask.request.data, ask.timeout)  # type: ignore[no-any-return]


async def fan_out(asks: Iterable[AskT]) -> list[AskT]:
    """See ``Runtime.fan_out``: send everything, then receive the replies.

    In any order: while one is waited for, the others' arrive, and their time runs too.
    """
    made: list[AskT] = []
    begun: list[asyncio.Future[Any]] = []
    try:
        for ask in asks:
            made.append(ask)
            begun.append(_begin(ask))
        for ask, each in zip(made, begun, strict=True):
            try:
                ask.answer = await _receive(ask, each)
            except Connecting as failure:
                ask.answer = NotSent(failure.cause)  # One of several is not waited for.
            except Failure as failure:
                ask.answer = failure
    except BaseException:
        for each in begun:
            each.cancel()  # A reply that comes later is ignored.
            each.add_done_callback(look_at)
        raise
    return made
