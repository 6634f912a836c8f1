"""Who is asking: one number for each thread and each task of this process, never used for another.

``threading.get_ident()`` and ``id(task)`` are handed out again as soon as their bearer is gone: a new thread would walk
into a dead one's lock. And a context variable is inherited by child tasks, which would walk into their parent's.

In a thread whose event loop runs a task, that task is the owner, for the locks of threads too. What call chains hold
that share a thread is in :mod:`pyredisson._core.owners`.
"""

from __future__ import annotations

import asyncio

from pyredisson._shared import process
from pyredisson._shared.task_owners import TaskOwner, owner_of
from pyredisson._shared.thread_owners import ThreadOwner, current_thread_owner

_running_loop = asyncio._get_running_loop


def current_owner() -> ThreadOwner | TaskOwner:
    """The task that the calling thread's event loop runs; without one, the calling thread.

    In the child of a fork, clients are made anew before it is looked for.
    """
    process.check()
    loop = _running_loop()
    if loop is not None:
        task = asyncio.current_task(loop)
        if task is not None:
            return owner_of(task)
    return current_thread_owner()


def current_thread_id() -> int:
    """Return the number of the calling thread, or of the task that its event loop runs.

    It is the ``<thread_id>`` of ``<uuid>:<thread_id>`` in Redis.
    """
    return current_owner().number
