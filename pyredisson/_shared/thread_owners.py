"""Threads as owners, and the call chains that share one: :mod:`pyredisson._core.owners`."""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING

from pyredisson._core.hold import CallNote
from pyredisson._shared.any_owner import AnyOwner
from pyredisson._shared.patching import check_patched
from pyredisson._shared.stacks import stack_of_thread

if TYPE_CHECKING:
    from pyredisson._core.ownership import Ownership


class _Pulse:
    """Lives in a thread's local storage, and so exactly as long as the thread."""

    __slots__ = ("__weakref__",)


class ThreadOwner(AnyOwner):
    """A thread, by its number; or one of several call chains that share a thread.

    Args:
        thread: Identifies the thread; all who share it have this very object.
    """

    __slots__ = ("_root", "call", "latest", "thread", "thread_number")

    shared = True
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
        return None if any(map(latest.sees, latest.holds)) else latest


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
        known = local.__dict__  # A signal handler may come in between, and use a lock: who is first, stays.
        pulse: _Pulse = known.setdefault("pulse", _Pulse())
        owner: ThreadOwner = known.setdefault("owner", ThreadOwner(weakref.ref(pulse)))
        return owner
