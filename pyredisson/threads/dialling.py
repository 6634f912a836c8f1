"""Connect in a thread of its own, so that a caller can go on before that has ended."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

import redis.exceptions as rx

from pyredisson.core.driver import run
from pyredisson.core.failures import Connecting
from pyredisson.shared.clock import monotonic
from pyredisson.threads.inherited import BackgroundThread, end_inherited_thread
from pyredisson.threads.interruption import Flag


class ThreadDial:
    """See :class:`pyredisson.net.transport.Dial`: a connection made in a thread of its own."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.began: float = monotonic()
        self.failure: BaseException | None = None
        self._work = work
        self._done = Flag()
        try:
            BackgroundThread(self._run, "pyredisson-connecting").start()
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
    over = Flag()
    outcome: list[Any] = []
    state: list[None] = [None]  # Popped once: by the caller that waits no longer, or by the work that is done.

    def work() -> None:
        error: BaseException | None = None
        result = None
        try:
            result = call()
        except BaseException as raised:
            error = raised
        outcome[:] = [result, error]
        try:
            state.pop()
        except IndexError:  # No caller waits any more.
            if error is None:
                with contextlib.suppress(Exception):
                    unwanted(result)
        over.set()

    BackgroundThread(work, "pyredisson-connecting").start()
    try:
        done = over.wait(timeout)
    except BaseException:
        _give_up(state, outcome, unwanted)
        raise
    if not done and _give_up(state, outcome, None):
        raise Connecting(rx.TimeoutError(f"no connection within {timeout:.3g} s; it is still being made"))
    over.wait(1.0)
    result, error = outcome
    if error is not None:
        raise error
    return result


def _give_up(state: list[None], outcome: list[Any], unwanted: Callable[[Any], object] | None) -> bool:
    """Wait no longer. Returns whether that was in time; else the result is here, and ``unwanted`` maybe."""
    try:
        state.pop()
    except IndexError:
        if unwanted is not None and outcome and outcome[1] is None:
            unwanted(outcome[0])
        return False
    return True
