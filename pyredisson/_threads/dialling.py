"""Connect in a thread of its own, so that a caller can go on before that has ended."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import redis.exceptions as rx

from pyredisson._core.failures import Connecting
from pyredisson._core.runtime import run
from pyredisson._shared.clock import monotonic
from pyredisson._threads.inherited import BackgroundThread, end_inherited_thread
from pyredisson._threads.interruption import Flag


class ThreadDial:
    """Work in a thread of its own: making a connection, as a rule; see :class:`pyredisson._net.wire.Dial`."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]], name: str = "pyredisson-connecting") -> None:
        self.began: float = monotonic()
        self.failure: BaseException | None = None
        self._work = work
        self._done = Flag()
        try:
            BackgroundThread(self._run, name).start()
        except RuntimeError:  # There can be no more threads; the interpreter is about to end, maybe.
            self._run()

    def _run(self) -> None:
        try:
            run(self._work())
        except BaseException as error:
            self.failure = error
        self._done.set()
        end_inherited_thread()

    def done(self) -> bool:
        return self._done.is_set()

    async def wait(self, seconds: float) -> bool:
        return self._done.wait(seconds)


def in_time(call: Callable[[], Any], timeout: float, unwanted: Callable[[Any], object]) -> Any:
    """Make a call that may take as long as it likes, and wait for it only so long; a late result is ``unwanted``.

    Raises:
        Connecting: It is not over yet.
    """
    results: list[Any] = []
    turn: list[None] = [None]  # Popped once: by the caller that waits no longer, or by the call that has returned.

    async def work() -> None:
        results.append(call())
        if not _is_first(turn):  # No caller waits any more.
            unwanted(results[0])

    dial = ThreadDial(work)
    try:
        over = run(dial.wait(timeout))
    except BaseException:
        if not _is_first(turn):
            unwanted(results[0])
        raise
    if not over and _is_first(turn):
        raise Connecting(rx.TimeoutError(f"no connection within {timeout:.3g} s; it is still being made"))
    run(dial.wait(1.0))
    if dial.failure is not None:
        raise dial.failure
    return results[0]


def _is_first(turn: list[None]) -> bool:
    try:
        turn.pop()
    except IndexError:
        return False
    return True
