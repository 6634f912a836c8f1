"""Who is asking: one number for each thread and each task of this process, never used for another.

``threading.get_ident()`` and ``id(task)`` are used again as soon as their thread or task is gone: a new thread could
acquire a dead one's lock. And a context variable is inherited by child tasks, which could acquire their parent's.

In a thread whose event loop runs a task, that task is the owner, for the locks of threads too. What call chains hold
that share a thread is in :mod:`pyredisson._core.owners`.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Coroutine, Iterable
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from pyredisson._core.hold import CallNote
from pyredisson._core.names import check_name
from pyredisson._core.owners import Caller, HandleOwner
from pyredisson._kinds.lock import LockCore
from pyredisson._shared import process
from pyredisson._shared.arguments import NotPortable, no_event_loop
from pyredisson._shared.process import check_patched
from pyredisson.errors import LockError

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson._core.client import ClientCore
    from pyredisson._core.ownership import Ownership


_running_loop = asyncio._get_running_loop


def current_owner() -> ThreadOwner | TaskOwner:
    """The task that the calling thread's event loop runs; without one, the calling thread.

    In the child of a fork, clients are made anew before it is looked for.
    """
    if os.getpid() != process.pid:
        process.check_forked()
    loop = _running_loop()
    if loop is not None:
        task = asyncio.current_task(loop)
        if task is not None:
            return owner_of(task)
    known: ThreadOwner | None = getattr(local, "owner", None) if threading.local is _native else None
    return known or current_thread_owner()


def current_thread_id() -> int:
    """Return the number of the calling thread, or of the task that its event loop runs.

    It is the ``<thread_id>`` of ``<uuid>:<thread_id>`` in Redis.
    """
    return current_owner().number


# ---- thread owners ---------------------------------------------------------------------------------------------------
# Threads as owners, and the call chains that share one: :mod:`pyredisson._core.owners`.


class _Pulse:
    """Lives in a thread's local storage, and so exactly as long as the thread."""

    __slots__ = ("__weakref__",)


class ThreadOwner(Caller):
    """A thread, by its number; or one of several call chains that share a thread.

    Args:
        thread: Identifies the thread; all who share it have this very object.
    """

    __slots__ = ("_root", "call", "latest", "thread", "thread_number")

    is_shared = True
    traced = True

    def __init__(self, thread: weakref.ref[_Pulse], root: ThreadOwner | None = None) -> None:
        super().__init__(root.name if root is not None else _thread_name())
        self.thread: weakref.ref[_Pulse] = thread
        self._root = root
        self.thread_number: int = root.number if root is not None else self.number  # pyright: ignore
        self.call: CallNote = root.call if root is not None else CallNote(threading.get_ident())
        self.latest: Ownership | None = None  # What the thread acquired last, if it is not released yet.

    def __repr__(self) -> str:
        return f"<thread {self.number} {self.name!r}>"

    def stack(self) -> tuple[str, ...]:
        """See ``Caller.stack``."""
        return stack_of_thread(self.call.thread) if self.alive() else ()

    def describe(self) -> str:
        """What to call it in a message."""
        return f"thread {self.name!r}"

    def alive(self) -> bool:
        """Whether the thread still runs."""
        return self.thread() is not None

    def gone_hint(self) -> str:
        """Describe it, when it ended while it held a lock."""
        if self.alive():
            return (
                f"the call in which thread {self.name!r} acquired it has ended, and the thread runs other calls now. "
                "Use hold(), whose block may be left in any thread, or get_lock(name, owner=client.new_owner())"
            )
        return f"thread {self.name!r} ended without releasing it"

    def runs_here(self) -> bool:
        """Whether it is the calling thread."""
        return self.thread() is getattr(local, "pulse", None)

    def divide(self) -> ThreadOwner:
        """See ``Caller.divide``."""
        return ThreadOwner(self.thread, self._root or self)

    def left_behind(self, acquires: Ownership, now: float) -> Ownership | None:
        """See ``Caller.left_behind``. It is returned once."""
        root = self._root or self
        latest, root.latest = root.latest, acquires
        if latest is None or latest is acquires or not latest.remaining(now) or not latest.bound():
            return None
        # What is being released, its call has left.
        return None if latest.unclaimed() <= 0 or any(map(latest.sees, latest.holds)) else latest


def _thread_name() -> str:
    # Not current_thread(): for a thread that was not started by `threading` it makes an object that stays for good.
    ident = threading.get_ident()
    return next((thread.name for thread in threading.enumerate() if thread.ident == ident), f"foreign {ident}")


class _Local(threading.local):
    owner: ThreadOwner
    pulse: _Pulse


#: What each thread keeps for itself.
local: _Local = _Local()
_native = threading.local


def current_thread_owner() -> ThreadOwner | CellsOwner:
    """The calling thread, or greenlet; the cells, where IPython's shell runs those without an ``await``.

    Raises:
        RuntimeError: Greenlets run here that cannot be distinguished.
    """
    if threading.local is not _native:
        check_patched()
    try:
        return local.owner
    except AttributeError:
        check_patched()
        known = local.__dict__  # A signal handler may come in between, and use a lock: who is first, stays.
        pulse: _Pulse = known.setdefault("pulse", _Pulse())
        key = "owner"
        if _is_shell():
            if _running_loop() is None:
                return _cells_owner()
            key = "callbacks"  # Those of the loop are no cells.
        owner: ThreadOwner = known.setdefault(key, ThreadOwner(weakref.ref(pulse)))
        return owner


# ---- task owners -----------------------------------------------------------------------------------------------------
# Tasks as owners.


class TaskOwner(Caller):
    """A task, by its number. By what is visible it knows a hold that it releases for another task, which has ended."""

    __slots__ = ("task",)

    traced = True

    def __init__(self, task: asyncio.Task[Any]) -> None:
        super().__init__(task.get_name())
        self.task: Callable[[], asyncio.Task[Any] | None] = weakref.ref(task)

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
            f"fixtures of pytest-asyncio, middleware{wait_for}. Use hold(), whose block may be "
            "left in any task, or get_lock(name, owner=client.new_owner())"
        )

    def runs_in(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether it is a task of that event loop that has not ended."""
        task = self.task()
        return task is not None and not task.done() and task.get_loop() is loop


class CellsOwner(TaskOwner):
    """The cells of a notebook that one thread runs: IPython makes a task for each, and a user takes them for one."""

    __slots__ = ("_thread",)

    def __init__(self) -> None:
        self._thread = threading.current_thread()
        Caller.__init__(self, self._thread.name)
        self.task: Callable[[], asyncio.Task[Any] | None] = lambda: None  # Of the last cell that had one.

    def __repr__(self) -> str:
        return f"<cells {self.number} {self.name!r}>"

    def describe(self) -> str:
        """What to call it in a message."""
        return f"the notebook's thread {self.name!r}"

    def alive(self) -> bool:
        """Whether another cell may follow."""
        return self._thread.is_alive()

    def gone_hint(self) -> str:
        """Describe it, when it ended while it held a lock."""
        return f"{self.describe()} ended without releasing it"

    def runs_in(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether another cell would run in the thread of that event loop, the calling one."""
        return self._thread is threading.current_thread()


def _runs_cell(task: asyncio.Task[Any]) -> bool:
    """Whether a task runs a coroutine of IPython's or of the kernel of Jupyter, as that of a cell is."""
    frame = getattr(task.get_coro(), "cr_frame", None) if "IPython" in sys.modules else None
    return frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("IPython", "ipykernel")


def _is_shell() -> bool:
    """Whether the calling thread, in which no task runs, is that in which IPython runs cells without an ``await``."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", None)
    if shell is None or threading.get_ident() != threading.main_thread().ident:
        return False
    return type(shell()).__name__ not in ("NoneType", "InteractiveShellEmbed")  # What a program embeds is part of it.


def _cells_owner() -> CellsOwner:
    """Return the owner for the cells of the calling thread."""
    owner: CellsOwner | None = getattr(local, "cells", None)
    if owner is None:
        owner = local.cells = CellsOwner()
    return owner


_tasks: dict[int, TaskOwner] = {}


def current_task_owner() -> TaskOwner:
    """The running task.

    Raises:
        RuntimeError: No task is running.
    """
    process.check_forked()
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
        owner = _tasks[key] = _cells_owner() if _runs_cell(task) else TaskOwner(task)
        owner.task = weakref.ref(task)
        weakref.finalize(task, _forget, key, owner).atexit = False
    return owner


def _forget(key: int, owner: TaskOwner) -> None:
    if _tasks.get(key) is owner:
        del _tasks[key]


def current_task_id() -> int:
    """Return the number of the running task: the ``<thread_id>`` of ``<uuid>:<thread_id>`` in Redis."""
    return current_task_owner().number


# ---- stacks ----------------------------------------------------------------------------------------------------------
# What a thread or task executes at this moment, for warnings.


#: The most calls of a thread that are reported, the innermost ones.
CALLS = 50


def stack_of_thread(ident: int) -> tuple[str, ...]:
    """Return what the thread of this identifier executes, in lines; nothing for one that is gone, and for greenlets."""
    frame = sys._current_frames().get(ident)
    frames = [] if frame is None else [each for each, _ in itertools.islice(traceback.walk_stack(frame), CALLS)]
    return _lines(reversed(frames))


def stack_of_task(task: asyncio.Task[Any]) -> tuple[str, ...]:
    """Return where a task awaits something, in lines, from its own coroutine to the innermost that can be found."""
    frames: list[FrameType] = []
    awaited: Any = task.get_coro()
    while awaited is not None and len(frames) < CALLS:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is None:
            break
        frames.append(frame)
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return _lines(frames)


def _lines(frames: Iterable[FrameType]) -> tuple[str, ...]:
    summary = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames)
    return tuple(line.rstrip("\n") for line in summary.format())


# ---- made owners -----------------------------------------------------------------------------------------------------
# Owners that are neither a thread nor a task: objects that a user holds on to.


#: The number of names for which what their handles share is kept.
KEPT: Final = 1000

T = TypeVar("T")
CoreT = TypeVar("CoreT")


class MadeOwner(HandleOwner):
    """The owner of locks that a user made, by its number."""

    __slots__ = ("_busy",)

    def __init__(self, owner: Owner) -> None:
        super().__init__(owner, what="owner")
        self._busy: dict[int, threading.Lock] = {}  # By process: the child of a fork is in no call of its parent.

    async def alone(self, call: Coroutine[Any, Any, T]) -> T:
        """Make a call in its name, unless one is under way: two at once would be taken for one that is repeated.

        Raises:
            LockError: One is.
        """
        process.check_forked()
        busy = self._busy.setdefault(process.pid, threading.Lock())
        if not busy.acquire(blocking=False):
            call.close()
            raise LockError(f"owner {self.number} is in the middle of another call; it makes one call at a time")
        try:
            return await call
        finally:
            busy.release()


@final
class Owner(NotPortable):
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
        """Close the owner: it acquires nothing more, and its locks are no longer renewed and expire, as after a crash.

        Idempotent.

        Example::

            owner = client.new_owner()
            owner.close()
        """
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
    owner._identity.check_open()
    return owner._identity


def make_core(
    client: ClientCore, kind: Callable[..., CoreT], name: str, *args: object, owner: Owner | None = None
) -> CoreT:
    """Return the core of a handle, which acts for its caller, or for an owner that the user made.

    Raises:
        TypeError, ValueError: The name is not valid, or this is not an owner.
        LockError: The owner was closed.
        ClientClosedError: The client was closed.
    """
    client.check_open()
    core: Any = kind(client, check_name(name), *args)
    return core if owner is None else core.acting_for(caller_of(owner))  # type: ignore[no-any-return]


def lock_core(client: ClientCore, name: str, made_for: HandleOwner | None) -> LockCore:
    """Return the core of a handle: of those on one name that act for their caller, all share one.

    Raises:
        TypeError, ValueError: The name is not valid.
    """
    kept = client.lock_cores
    core = kept.get(name) if made_for is None and isinstance(name, str) else None
    if core is None:
        core = LockCore(client, check_name(name)).acting_for(made_for)
        if made_for is None:
            if len(kept) >= KEPT:
                kept.clear()
            kept[name] = core
    return core
