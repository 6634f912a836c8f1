"""Requests to several servers at once, under threads: all are sent, then all replies are received."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import redis.exceptions as rx

from pyredisson._core.failures import Connecting, Failure, NotSent, Unanswered
from pyredisson._core.runtime import Ask, Reply, run
from pyredisson._net.link import CONNECTING, ServerLink
from pyredisson._shared.clock import monotonic
from pyredisson._threads.dialling import ThreadDial
from pyredisson._threads.socket_errors import raise_if_foreign
from pyredisson._threads.sockets import Connection

if TYPE_CHECKING:
    from pyredisson._net.link import Pool
    from pyredisson._net.urls import Link
    from pyredisson._net.wire import Dial

AskT = TypeVar("AskT", bound=Ask)


class Dialled:
    """A request for which a connection has to be made first."""

    def __init__(self, link: ServerLink, pool: Pool, ask: Ask) -> None:
        self._link = link
        self._pool = pool
        self._ask = ask
        # A server that was away a moment ago is not waited for longer than one that does not answer.
        self._until = monotonic() + (ask.timeout if link.away else max(ask.timeout, CONNECTING))
        self._dial: Dial = pool.dial()

    def receive(self) -> Reply:
        """Return the reply. Raises as ``Runtime.eval`` does, at its timeout at the latest."""
        dial = self._dial
        over = run(dial.wait(max(0.0, self._until - monotonic())))
        if not over:
            self._pool.leave_dial(dial)
            self._link.away = True
            raise NotSent(rx.TimeoutError("no connection in time; it is still being made"))
        if dial.failure is not None:
            self._link.away = True
            raise dial.failure if isinstance(dial.failure, Failure) else NotSent(rx.ConnectionError(str(dial.failure)))
        self._ask.connected()
        begun = _begin(self._ask)
        if isinstance(begun, Connection):
            return _receive(self._ask, begun)
        begun.close()  # Another caller was quicker, and the next one is being made.
        raise NotSent(rx.ConnectionError("the connection was used for something else"))

    def close(self) -> None:
        """Forget it: its reply is not of interest any more."""
        self._pool.leave_dial(self._dial)  # The connection stays, for the next one.


class InThread:
    """A request in a thread of its own, over a link that only blocks; its replicas are waited for there, too."""

    def __init__(self, link: Link, ask: Ask) -> None:
        self._timeout = ask.timeout if ask.sync is None else 2 * ask.timeout
        self._until = monotonic() + max(self._timeout, CONNECTING)
        self._answer: Any = None
        self._link = link
        self._ask = ask
        self._dial = ThreadDial(self._work, "pyredisson-request")

    async def _work(self) -> None:
        link, ask = self._link, self._ask
        if ask.sync is None:
            self._answer = await link.eval(ask.request, ask.timeout)
        else:
            self._answer = await link.eval_synced(ask.request, ask.timeout, ask.sync, ask.timeout)

    def receive(self) -> Reply:
        """See :meth:`Dialled.receive`."""
        if not run(self._dial.wait(max(0.0, self._until - monotonic()))):
            raise Unanswered(rx.TimeoutError(f"no reply from the server within {self._timeout:.3g} s"))
        failure = self._dial.failure
        if isinstance(failure, Exception) and not isinstance(failure, Failure):
            raise Unanswered(failure)
        if failure is not None:
            raise failure
        return self._answer  # type: ignore[no-any-return]

    def close(self) -> None:
        """Do nothing: its thread ends by itself."""


def _begin(ask: Ask) -> Connection | Dialled | InThread:
    """Send a request now, or begin to connect for it."""
    link: Link = ask.runtime.link  # type: ignore[attr-defined]
    if not isinstance(link, ServerLink) or link.pool is None or ask.sync is not None:
        return InThread(link, ask)
    while True:
        wire: Any = link.pool.get()
        if wire is None:
            return Dialled(link, link.pool, ask)
        try:
            wire.post(ask.request.data, ask.timeout)
        except OSError as error:
            wire.close()
            raise_if_foreign(error, wire.sock)
            continue
        except BaseException:
            wire.close()
            raise
        return wire  # type: ignore[no-any-return]


def _receive(ask: Ask, wire: Connection) -> Reply:
    """Return the reply to a request that was sent on this connection."""
    link: Any = ask.runtime.link  # type: ignore[attr-defined]
    timeout, left = ask.timeout, wire.until - monotonic()
    try:
        # The socket's own timeout begins only now. For those that are taken while it has hardly run, that will do.
        reply = wire.exchange(None, timeout) if left > 0.9 * timeout else wire.receive_late(left, timeout)
    except BaseException as error:
        wire.close()
        link.away = link.away or isinstance(error, Unanswered)
        raise
    link.away = False
    link.pool.put_back(wire)
    if isinstance(reply, Exception):
        return run(link.answer(reply, ask.request, timeout))  # type: ignore[no-any-return]
    return reply  # type: ignore[no-any-return]


async def fan_out(asks: Iterable[AskT]) -> list[AskT]:
    """See ``Runtime.fan_out``: send everything, then receive the replies.

    In any order: while one is waited for, the others' arrive, and their time runs too.
    """
    made: list[AskT] = []
    begun: list[Connection | Dialled | InThread] = []
    received = 0
    try:
        for ask in asks:
            made.append(ask)
            begun.append(_begin(ask))
        for ask, each in zip(made, begun, strict=True):
            try:
                answer: Any = _receive(ask, each) if isinstance(each, Connection) else each.receive()
            except Connecting as failure:
                answer = NotSent(failure.cause)  # One of several is not waited for.
            except Failure as failure:
                answer = failure
            received += 1
            ask.answer = answer
    except BaseException:
        for each in begun[received:]:
            each.close()  # A reply that comes later would be taken for the answer to something else.
        raise
    return made
