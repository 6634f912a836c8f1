"""Who is asking: one number for each thread and each task of this process, never used for another.

``threading.get_ident()`` and ``id(task)`` are handed out again as soon as their bearer is gone: a new thread would walk
into a dead one's lock. And a context variable is inherited by child tasks, which would walk into their parent's.

Rules kept here:

1. In a thread whose event loop runs a task, that task is the owner, for the locks of threads too.
2. Frameworks run many requests in one thread, one after another or by turns (thread pools, ``sync_to_async``), each in
   a :mod:`contextvars` context of its own. So a thread's hold leaves a :class:`Mark` in the context in which it was
   acquired. What runs in the same thread without that mark is another call chain, and gets a number of its own.
3. A mark lives as long as its context. When that is gone, the hold cannot be released: it is no longer renewed.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import threading
import weakref
from collections.abc import Callable, Coroutine, Iterator
from contextvars import ContextVar
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, TypeVar, final

from pyredisson.errors import LockError
from pyredisson.shared import process
from pyredisson.shared.misuse import no_event_loop
from pyredisson.shared.patching import check_patched
from pyredisson.shared.pool_jobs import job_of, worker_frame

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson.core.callers import Caller, Holding

__all__ = [
    "AnyOwner",
    "HandleOwner",
    "MadeOwner",
    "Mark",
    "Owner",
    "TaskOwner",
    "ThreadOwner",
    "caller_of",
    "current_owner",
    "current_task_id",
    "current_task_owner",
    "current_thread_id",
    "current_thread_owner",
]

T = TypeVar("T")

_running_loop = asyncio._get_running_loop

_numbers = itertools.count(1)


# ---- marks -----------------------------------------------------------------------------------------------------------


class Mark:
    """Stands in a context for a hold that was acquired there.

    Attributes:
        held: What is held.
        names: The locks that this is about.
        outer: The hold within which this one was acquired.
        job: The job of a thread pool that acquired it; ``None`` outside of pools.
    """

    __slots__ = ("__weakref__", "held", "job", "names", "outer")

    def __init__(
        self, held: Holding, names: frozenset[str], outer: Mark | None, job: weakref.ref[object] | None = None
    ) -> None:
        self.held: Holding = held
        self.names: frozenset[str] = names
        self.outer: Mark | None = outer
        self.job: weakref.ref[object] | None = job

    def live(self) -> bool:
        """Whether that very hold is still held."""
        known = self.held.mark
        return known is not None and known() is self and self.held.in_use()


_innermost: ContextVar[Mark | None] = ContextVar("pyredisson.innermost_hold", default=None)


def _live_marks() -> Iterator[Mark]:
    mark = _innermost.get()
    while mark is not None:
        if mark.live():
            yield mark
        mark = mark.outer


class AnyOwner:
    """What all owners have in common.

    Attributes:
        number: Never used for another owner of this process.
        shared: Whether call chains that have nothing to do with each other may come along under this owner.
        divided: Whether that has happened.
        pooled: Whether it is a thread that a pool gives its jobs.
    """

    __slots__ = ("number",)

    shared = False
    divided = False
    pooled = False

    def __init__(self) -> None:
        self.number: int = next(_numbers)

    def acting(self, names: frozenset[str], taken: Callable[[Caller], bool]) -> Caller:
        """See ``Caller.acting``: no other call runs under this owner."""
        return self  # type: ignore[return-value]  # Its kinds are what has the rest.

    #: See ``Caller.innermost``.
    innermost: Callable[[], Mark | None] = staticmethod(_innermost.get)

    def mark(self, held: Holding, names: frozenset[str], tell: Callable[[Holding], object]) -> None:
        """See ``Caller.mark``."""
        while True:
            outer = _innermost.get()
            # What is only about to be held has left no mark that is still live; and this is the hot path.
            while outer is not None and (outer.held is held or not outer.live()):
                outer = outer.outer
            mark = Mark(held, names, outer, self._current_job())
            _innermost.set(mark)
            held.marked(weakref.ref(mark))
            if _innermost.get() is mark:  # Else a signal handler has held it meanwhile, and left a mark of its own.
                return

    def _current_job(self) -> weakref.ref[object] | None:
        return None

    def marks(self) -> Iterator[Mark]:
        """The holds of the calling context, innermost first."""
        return _live_marks()

    def look_behind(self, held: Holding, tell: Callable[[Holding], object]) -> None:
        """See ``Caller.look_behind``."""


# ---- threads ---------------------------------------------------------------------------------------------------------


class _Pulse:
    """Lives in a thread's local storage, and so exactly as long as the thread."""

    __slots__ = ("__weakref__",)


class ThreadOwner(AnyOwner):
    """A thread, by its number; or one of several call chains that share a thread.

    Args:
        thread: Tells the thread; all who share it have this very object.
    """

    __slots__ = ("_job", "_latest", "_name", "_pool", "_root", "divided", "pooled", "thread")

    shared = True

    def __init__(self, thread: weakref.ref[_Pulse], root: ThreadOwner | None = None) -> None:
        super().__init__()
        self.thread: weakref.ref[_Pulse] = thread
        self.divided: bool = False  # pyright: ignore[reportIncompatibleVariableOverride]
        self._root = root or self
        self._name: str = root._name if root is not None else _thread_name()
        self._latest: Holding | None = None
        self._pool: FrameType | None = worker_frame() if root is None else root._pool
        self.pooled: bool = self._pool is not None  # pyright: ignore[reportIncompatibleVariableOverride]
        self._job: weakref.ref[object] | None = None

    def __repr__(self) -> str:
        return f"<thread {self.number} {self._name!r}>"

    def describe(self) -> str:
        """What to call it in a message."""
        return f"thread {self._name!r}"

    def alive(self) -> bool:
        """Whether the thread still runs."""
        return self.thread() is not None

    def gone_hint(self) -> str:
        """What to tell of it, when it ended with a lock in its hands."""
        if self.alive():
            return (
                f"the call in which thread {self._name!r} acquired it has ended, and the thread runs other calls now. "
                "Use hold(), whose block may be left in any thread, or get_lock(name, owner=client.new_owner())"
            )
        return f"thread {self._name!r} ended without releasing it"

    def runs_here(self) -> bool:
        """Whether it is the calling thread."""
        return self.thread() is getattr(_local, "pulse", None)

    def acting(self, names: frozenset[str], taken: Callable[[Caller], bool]) -> Caller:
        """See ``Caller.acting``."""
        for mark in self.marks():
            if not names.isdisjoint(mark.names) and not self._is_of_another_job(mark):
                return mark.held.who
        if not taken(self):
            return self
        self.divided = True
        return ThreadOwner(self.thread, self._root)

    def marks(self) -> Iterator[Mark]:
        """The holds that were acquired in the calling context by this thread, innermost first."""
        for mark in _live_marks():
            if getattr(mark.held.who, "thread", None) is self.thread:
                yield mark

    def mark(self, held: Holding, names: frozenset[str], tell: Callable[[Holding], object]) -> None:
        """See ``Caller.mark``."""
        if self._root._latest is not held or self.pooled:
            self.look_behind(held, tell)
        super().mark(held, names, tell)

    def look_behind(self, held: Holding, tell: Callable[[Holding], object]) -> None:
        """See ``Caller.look_behind``. It tells once."""
        root = self._root
        latest, root._latest = root._latest, held
        another_job = root._pool is not None and root._is_another_job(root._pool)
        if latest is None or (latest is held and not another_job) or not latest.in_use() or not latest.bound():
            return
        if another_job or all(mark.held is not latest for mark in self.marks()):
            tell(latest)

    def _current_job(self) -> weakref.ref[object] | None:
        return self._root._job

    def _is_of_another_job(self, mark: Mark) -> bool:
        """Whether it marks a block of ``hold()`` that another job of this thread's pool has entered.

        What ``lock()`` acquired belongs to the thread, whatever job it runs; a block belongs to its call chain.
        """
        if mark.job is None or self._root._pool is None or mark.held.bound():
            return False
        job = job_of(self._root._pool)
        return job is not None and job is not mark.job()

    def _is_another_job(self, pool: FrameType) -> bool:
        """Whether the thread has begun another job of its pool since this was asked last."""
        before = self._job() if self._job is not None else None
        job = job_of(pool)
        first, self._job = self._job is None, None if job is None else weakref.ref(job)
        return job is not None and job is not before and not first


def _thread_name() -> str:
    # Not current_thread(): for a thread that was not started by `threading` it makes an object that stays for good.
    ident = threading.get_ident()
    return next((thread.name for thread in threading.enumerate() if thread.ident == ident), f"foreign {ident}")


class _Local(threading.local):
    owner: ThreadOwner
    pulse: _Pulse


_local = _Local()
_native = threading.local


def current_thread_owner() -> ThreadOwner:
    """The calling thread, or greenlet.

    Raises:
        RuntimeError: Greenlets run here that cannot be distinguished.
    """
    if threading.local is not _native:
        check_patched()
    try:
        return _local.owner
    except AttributeError:
        check_patched()
        _local.pulse = _Pulse()
        _local.owner = ThreadOwner(weakref.ref(_local.pulse))
        return _local.owner


def current_owner() -> ThreadOwner | TaskOwner:
    """The task that the calling thread's event loop runs; without one, the calling thread.

    In the child of a fork, clients are made anew before it is looked for.
    """
    process.check()
    loop = _running_loop()
    if loop is not None:
        task = asyncio.current_task(loop)
        if task is not None:
            return _owner_of(task)
    return current_thread_owner()


def current_thread_id() -> int:
    """Return the number of the calling thread, or of the task that its event loop runs.

    It is the ``<thread_id>`` of ``<uuid>:<thread_id>`` in Redis.
    """
    return current_owner().number


# ---- objects ---------------------------------------------------------------------------------------------------------


class HandleOwner(AnyOwner):
    """An object that owns the locks acquired through it; any caller that has the object may release them.

    Args:
        handle: The object.
        thread: The thread that alone may, if there is one.
        what: What the object is called in messages.
    """

    __slots__ = ("_handle", "_thread", "_what")

    def __init__(self, handle: object, thread: ThreadOwner | None = None, what: str = "the lock object") -> None:
        super().__init__()
        self._handle = weakref.ref(handle)
        self._thread = thread
        self._what = what

    def __repr__(self) -> str:
        return f"<handle {self.number} {self._handle()!r}>"

    def describe(self) -> str:
        """What to call it in a message."""
        return f"{self._what} {self.number}"

    def alone(self, call: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """See ``MadeCaller.alone``: who has the object sees to that."""
        return call

    def alive(self) -> bool:
        """Whether there is still a caller that could release it."""
        handle = self._handle()
        if handle is None or getattr(handle, "closed", False):
            return False
        return self._thread is None or self._thread.alive()

    def gone_hint(self) -> str:
        """What to tell of it, when it ended with a lock in its hands."""
        if self._thread is not None and not self._thread.alive():
            return self._thread.gone_hint()
        if self._handle() is not None:
            return f"{self._what} was closed without releasing it"
        return f"{self._what} was dropped without releasing it"


class MadeOwner(HandleOwner):
    """The owner of locks that a user made, by its number."""

    __slots__ = ("_busy",)

    def __init__(self, owner: Owner) -> None:
        super().__init__(owner, what="owner")
        self._busy = threading.Lock()

    async def alone(self, call: Coroutine[Any, Any, T]) -> T:
        """Make a call in its name, unless one is under way: two at once would be taken for one that is repeated.

        Raises:
            LockError: One is.
        """
        if not self._busy.acquire(blocking=False):
            call.close()
            raise LockError(f"owner {self.number} is in the middle of another call; it makes one call at a time")
        try:
            return await call
        finally:
            self._busy.release()


@final
class Owner:
    """An owner of locks that is independent of threads and tasks. Made by :meth:`Redisson.new_owner`.

    A handle from ``client.get_lock(name, owner=owner)`` acts for it from any thread or task, one call at a time. Its
    locks are renewed until they are released, until the owner is closed or garbage-collected, or until the client is
    closed.

    Example::

        owner = client.new_owner()
        lock = client.get_lock("orders", owner=owner)
        lock.lock()  # in one thread
        lock.unlock()  # in another
    """

    __slots__ = ("__weakref__", "_closed", "_identity")

    def __init__(self) -> None:
        self._closed = False
        self._identity = MadeOwner(self)

    def __repr__(self) -> str:
        return f"<Owner {self.number}{' closed' if self._closed else ''}>"

    @property
    def number(self) -> int:
        """The owner's number: the ``<thread_id>`` of ``<uuid>:<thread_id>`` in Redis."""
        return self._identity.number

    @property
    def closed(self) -> bool:
        """Whether the owner was closed."""
        return self._closed

    def close(self) -> None:
        """Close the owner: its locks are no longer renewed and expire, as after a crash. Idempotent."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def caller_of(owner: Owner | None) -> MadeOwner | None:
    """Return the owner for which a handle acts; ``None``: its caller.

    Raises:
        TypeError: It is not an :class:`Owner`.
        LockError: The owner was closed.
    """
    if owner is None:
        return None
    if not isinstance(owner, Owner):
        raise TypeError(f"owner must be made by client.new_owner(), not {type(owner).__name__}")
    if owner.closed:
        raise LockError(f"owner {owner.number} was closed; make another with client.new_owner()")
    return owner._identity


# ---- tasks -----------------------------------------------------------------------------------------------------------


class TaskOwner(AnyOwner):
    """A task, by its number."""

    __slots__ = ("_name", "_task")

    def __init__(self, task: asyncio.Task[Any]) -> None:
        super().__init__()
        self._task = weakref.ref(task)
        self._name = task.get_name()

    def __repr__(self) -> str:
        return f"<task {self.number} {self._name!r}>"

    def describe(self) -> str:
        """What to call it in a message."""
        return f"task {self._name!r}"

    def alive(self) -> bool:
        """Whether the task still runs."""
        task = self._task()
        return task is not None and not task.done()

    def gone_hint(self) -> str:
        """What to tell of it, when it ended with a lock in its hands."""
        wait_for = ", asyncio.wait_for() (use try_lock(5) or acquire(timeout=5))" if sys.version_info < (3, 12) else ""
        return (
            f"task {self._name!r} ended without releasing it. These run what they call in a task of its own: the "
            f"fixtures of pytest-asyncio, cells of a notebook, middleware{wait_for}. Use hold(), whose block may be "
            "left in any task, or get_lock(name, owner=client.new_owner())"
        )

    def is_of(self, task: asyncio.Task[Any]) -> bool:
        """Whether this stands for that very task, not for an earlier one at the same address."""
        return self._task() is task

    def runs_in(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether it is a task of that event loop that has not ended."""
        task = self._task()
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
    return _owner_of(task)


def _owner_of(task: asyncio.Task[Any]) -> TaskOwner:
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
