"""Tasks as owners."""

from __future__ import annotations

import asyncio
import sys
import weakref
from typing import Any

from pyredisson._shared import process
from pyredisson._shared.any_owner import AnyOwner
from pyredisson._shared.misuse import no_event_loop
from pyredisson._shared.stacks import stack_of_task


class TaskOwner(AnyOwner):
    """A task, by its number. By what is visible it knows a hold that it releases for another task, which has ended."""

    __slots__ = ("task",)

    traced = True

    def __init__(self, task: asyncio.Task[Any]) -> None:
        super().__init__(task.get_name())
        self.task: weakref.ref[asyncio.Task[Any]] = weakref.ref(task)

    def __repr__(self) -> str:
        return f"<task {self.number} {self.name!r}>"

    def stack(self) -> tuple[str, ...]:
        """See ``Caller.stack``."""
        task = self.task()
        return stack_of_task(task) if task is not None and not task.done() else ()

    def describe(self) -> str:
        """What to call it in a message."""
        return f"task {self.name!r}"

    def alive(self) -> bool:
        """Whether the task still runs."""
        task = self.task()
        return task is not None and not task.done()

    def gone_hint(self) -> str:
        """Describe it, when it ended while it held a lock."""
        wait_for = ", asyncio.wait_for() (use try_lock(5) or acquire(timeout=5))" if sys.version_info < (3, 12) else ""
        return (
            f"task {self.name!r} ended without releasing it. These run what they call in a task of its own: the "
            f"fixtures of pytest-asyncio, cells of a notebook, middleware{wait_for}. Use hold(), whose block may be "
            "left in any task, or get_lock(name, owner=client.new_owner())"
        )

    def runs_in(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether it is a task of that event loop that has not ended."""
        task = self.task()
        return task is not None and not task.done() and task.get_loop() is loop


_tasks: dict[int, TaskOwner] = {}


def current_task_owner() -> TaskOwner:
    """The running task.

    Raises:
        RuntimeError: No task is running.
    """
    process.check()
    try:
        task = asyncio.current_task()
    except RuntimeError:
        raise no_event_loop() from None
    if task is None:
        raise RuntimeError(
            "a lock of pyredisson.asyncio must be used in a task: call it in a coroutine that runs as a task"
        )
    return owner_of(task)


def owner_of(task: asyncio.Task[Any]) -> TaskOwner:
    """Return the owner that stands for a task."""
    key = id(task)
    owner = _tasks.get(key)
    if owner is None or owner.task() is not task:  # An earlier task at the same address.
        owner = _tasks[key] = TaskOwner(task)
        weakref.finalize(task, _forget, key, owner).atexit = False
    return owner


def _forget(key: int, owner: TaskOwner) -> None:
    if _tasks.get(key) is owner:
        del _tasks[key]


def current_task_id() -> int:
    """Return the number of the running task: the ``<thread_id>`` of ``<uuid>:<thread_id>`` in Redis."""
    return current_task_owner().number
