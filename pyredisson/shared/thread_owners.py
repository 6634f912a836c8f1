"""Threads as owners, and the call chains that share one.

Frameworks run many requests in one thread, one after another or by turns (thread pools, ``sync_to_async``), each in
a :mod:`contextvars` context of its own. What runs in a thread without the mark of its hold is another call chain, and
gets a number of its own.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable

from pyredisson.core.ownership.owned import CallNote
from pyredisson.core.ownership.owner_protocols import Caller, Holding
from pyredisson.shared.marks import AnyOwner, leave_mark, live_marks
from pyredisson.shared.patching import check_patched
from pyredisson.shared.stacks import stack_of_thread


class _Pulse:
    """Lives in a thread's local storage, and so exactly as long as the thread."""

    __slots__ = ("__weakref__",)


class ThreadOwner(AnyOwner):
    """A thread, by its number; or one of several call chains that share a thread.

    Args:
        thread: Identifies the thread; all who share it have this very object.
    """

    __slots__ = ("_root", "call", "divided", "latest", "thread")

    shared = True

    def __init__(self, thread: weakref.ref[_Pulse], root: ThreadOwner | None = None) -> None:
        super().__init__(root.name if root is not None else _thread_name())
        self.thread: weakref.ref[_Pulse] = thread
        self.divided: bool = False  # pyright: ignore[reportIncompatibleVariableOverride]
        self._root = root or self
        self.call: CallNote = root.call if root is not None else CallNote(threading.get_ident())
        self.latest: Holding | None = None

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

    def acting(self, names: tuple[str, ...], taken: Callable[[Caller], bool]) -> Caller:
        """See ``Caller.acting``."""
        for name in names:
            for mark in live_marks((name, self._root.number)):
                held = mark.held()
                if held is not None:
                    return held.who
        if not taken(self):
            return self
        self.divided = True
        return ThreadOwner(self.thread, self._root)

    def mark(self, held: Holding, names: tuple[str, ...], report: Callable[[Holding], object]) -> None:
        """See ``Caller.mark``."""
        if self._root.latest is not held:
            self.check_left_behind(held, report)
        leave_mark(held, names, self._root.number)

    def check_left_behind(self, held: Holding, report: Callable[[Holding], object]) -> None:
        """See ``Caller.check_left_behind``. It is called once."""
        latest, self._root.latest = self._root.latest, held
        if latest is None or latest is held or not latest.in_use() or not latest.bound():
            return
        if not self.has_mark(latest):
            report(latest)


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


def current_thread_owner() -> ThreadOwner:
    """The calling thread, or greenlet.

    Raises:
        RuntimeError: Greenlets run here that cannot be distinguished.
    """
    if threading.local is not _native:
        check_patched()
    try:
        return local.owner
    except AttributeError:
        check_patched()
        local.pulse = _Pulse()
        local.owner = ThreadOwner(weakref.ref(local.pulse))
        return local.owner
