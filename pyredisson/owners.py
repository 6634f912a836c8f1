"""Who is asking: one number for each thread and each task of this process, never used for another.

``threading.get_ident()`` and ``id(task)`` are handed out again as soon as their bearer is gone: a new thread would walk
into a dead one's lock. And a context variable is inherited by child tasks, which would walk into their parent's.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import weakref
from typing import Any

from pyredisson.misuse import no_event_loop

__all__ = [
    "HandleOwner",
    "TaskOwner",
    "ThreadOwner",
    "current_task_id",
    "current_task_owner",
    "current_thread_id",
    "current_thread_owner",
]

_numbers = itertools.count(1)


class _Pulse:
    """Lives in a thread's local storage, and so exactly as long as the thread."""

    __slots__ = ("__weakref__",)


class ThreadOwner:
    """A thread, by its number."""

    __slots__ = ("_name", "_pulse", "number")

    def __init__(self, pulse: _Pulse) -> None:
        self.number = next(_numbers)
        self._pulse = weakref.ref(pulse)
        self._name = _thread_name()

    def __repr__(self) -> str:
        return f"<thread {self.number} {self._name!r}>"

    def alive(self) -> bool:
        """Whether the thread still runs."""
        return self._pulse() is not None

    def gone_hint(self) -> str:
        """What to tell of it, when it ended with a lock in its hands."""
        return f"thread {self._name!r} ended without releasing it"


def _thread_name() -> str:
    # Not current_thread(): for a thread that was not started by `threading` it makes an object that stays for good.
    ident = threading.get_ident()
    return next((thread.name for thread in threading.enumerate() if thread.ident == ident), f"foreign {ident}")


class _Local(threading.local):
    owner: ThreadOwner
    pulse: _Pulse


_local = _Local()


def current_thread_owner() -> ThreadOwner:
    """The calling thread."""
    try:
        return _local.owner
    except AttributeError:
        _local.pulse = _Pulse()
        _local.owner = ThreadOwner(_local.pulse)
        return _local.owner


def current_thread_id() -> int:
    """Return the number of the calling thread: the ``<thread_id>`` of ``<uuid>:<thread_id>`` in Redis."""
    return current_thread_owner().number


class HandleOwner:
    """An object: it owns what was taken through it, and whoever has it in hand may release that.

    Args:
        handle: The object.
        thread: The thread that alone may, if there is one.
    """

    __slots__ = ("_handle", "_thread", "number")

    def __init__(self, handle: object, thread: ThreadOwner | None = None) -> None:
        self.number = next(_numbers)
        self._handle = weakref.ref(handle)
        self._thread = thread

    def __repr__(self) -> str:
        return f"<handle {self.number} {self._handle()!r}>"

    def alive(self) -> bool:
        """Whether anybody is there who could release it."""
        return self._handle() is not None and (self._thread is None or self._thread.alive())

    def gone_hint(self) -> str:
        """What to tell of it, when it ended with a lock in its hands."""
        if self._thread is not None and not self._thread.alive():
            return self._thread.gone_hint()
        return "the lock object was thrown away without a release"


class TaskOwner:
    """A task, by its number."""

    __slots__ = ("_name", "_task", "number")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.number = next(_numbers)
        self._task = weakref.ref(task)
        self._name = task.get_name()

    def __repr__(self) -> str:
        return f"<task {self.number} {self._name!r}>"

    def alive(self) -> bool:
        """Whether the task still runs."""
        task = self._task()
        return task is not None and not task.done()

    def gone_hint(self) -> str:
        """What to tell of it, when it ended with a lock in its hands."""
        return (
            f"task {self._name!r} ended without releasing it. Was the lock taken through asyncio.wait_for()? Before "
            "Python 3.12 that runs it in a task of its own: use try_lock(5) or acquire(timeout=5) instead"
        )

    def is_of(self, task: asyncio.Task[Any]) -> bool:
        """Whether this stands for that very task, not for an earlier one at the same address."""
        return self._task() is task


_tasks: dict[int, TaskOwner] = {}


def current_task_owner() -> TaskOwner:
    """The running task.

    Raises:
        RuntimeError: No task is running.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        raise no_event_loop() from None
    if task is None:
        raise RuntimeError("a lock of pyredisson.asyncio belongs to a task: call it from within one")
    key = id(task)
    owner = _tasks.get(key)
    if owner is None or not owner.is_of(task):
        owner = _tasks[key] = TaskOwner(task)
        weakref.finalize(task, _forget, key, owner).atexit = False
    return owner


def _forget(key: int, owner: TaskOwner) -> None:
    if _tasks.get(key) is owner:
        del _tasks[key]


def current_task_id() -> int:
    """Return the number of the running task: the ``<thread_id>`` of ``<uuid>:<thread_id>`` in Redis."""
    return current_task_owner().number
