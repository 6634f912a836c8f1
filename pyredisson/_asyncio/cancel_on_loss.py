"""Cancels the body of ``hold(cancel_on_loss=True)``, and takes back that cancellation and no other.

Source: ``asyncio.timeout``, which counts the cancellations of its task likewise.
"""

from __future__ import annotations

import asyncio
import sys


class OurMessage(str):
    """The message of a cancellation that a loss has asked for: each is an object of its own."""

    __slots__ = ()


class CancelOnLoss:
    """The cancellation of one task, the running one, for the loss of one lock."""

    __slots__ = ("_before", "_message", "_requested", "_task")

    def __init__(self) -> None:
        task = asyncio.current_task()
        assert task is not None, "a hold belongs to a task"
        self._task = task
        self._before = _cancelling(task)  # Others may have cancelled it before, and never taken that back.
        self._message = OurMessage("the lock was lost")
        self._requested = False

    def cancel(self) -> None:
        """Cancel the task, because its lock was lost."""
        if asyncio.current_task() is self._task:
            return  # Its own call has found the loss, and raises it.
        self._requested = self._task.cancel(self._message)

    def take_back(self, error: BaseException | None) -> BaseException | None:
        """Take our cancellation back, if there was one, now that the body has ended with ``error``.

        Returns:
            ``error``, or ``None`` if that is our cancellation and no other was asked for.
        """
        if not self._requested:
            return error
        self._requested = False
        if sys.version_info >= (3, 11):
            if self._task.cancelling() > self._before:  # Else the body has taken it back itself.
                self._task.uncancel()
            only_ours = self._task.cancelling() <= self._before
        else:  # A later cancellation of the same turn leaves no trace there.
            only_ours = _carries(error, self._message)
        return None if only_ours and isinstance(error, asyncio.CancelledError) else error


def _cancelling(task: asyncio.Task[object]) -> int:
    if sys.version_info >= (3, 11):
        return task.cancelling()
    return 0


def _carries(error: BaseException | None, message: OurMessage) -> bool:
    """Whether a cancellation is the one of that message. Passed on by another task, it is but the context of one."""
    while isinstance(error, asyncio.CancelledError):
        if error.args and error.args[0] is message:
            return True
        if error.args:
            return False
        error = error.__context__
    return False
