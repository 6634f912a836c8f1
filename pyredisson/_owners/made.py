"""Owners that are neither a thread nor a task: objects that a user holds on to."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

from pyredisson._core.names import check_name
from pyredisson._kinds.lock import LockCore
from pyredisson._owners.owners import AnyOwner, ThreadOwner
from pyredisson._shared.arguments import NotPortable
from pyredisson.errors import LockError

if TYPE_CHECKING:
    from typing_extensions import Self

    from pyredisson._core.client import ClientCore
    from pyredisson._core.owners import MadeCaller

#: The number of names for which what their handles share is kept.
KEPT: Final = 1000

T = TypeVar("T")
CoreT = TypeVar("CoreT")


class HandleOwner(AnyOwner):
    """An object that owns the locks acquired through it; any caller that has the object may release them.

    Args:
        handle: The object.
        thread: The thread that alone may, if there is one.
        what: What the object is called in messages.
    """

    __slots__ = ("_handle", "_thread", "_what")

    def __init__(self, handle: object, thread: ThreadOwner | None = None, what: str = "the lock object") -> None:
        super().__init__(what)
        self.name: str = f"{what} {self.number}"
        self._handle = weakref.ref(handle)
        self._thread = thread
        self._what = what

    def __repr__(self) -> str:
        return f"<handle {self.number} {self._handle()!r}>"

    def describe(self) -> str:
        """What to call it in a message."""
        return self.name

    def alone(self, call: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """See ``MadeCaller.alone``: who has the object sees to that."""
        return call

    def check_open(self) -> None:
        """See ``MadeCaller.check_open``."""
        if getattr(self._handle(), "closed", False):
            raise LockError(f"{self.name} was closed; make another with client.new_owner()")

    def alive(self) -> bool:
        """Whether there is still a caller that could release it."""
        handle = self._handle()
        if handle is None or getattr(handle, "closed", False):
            return False
        return self._thread is None or self._thread.alive()

    def gone_hint(self) -> str:
        """Describe it, when it ended while it held a lock."""
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


def lock_core(client: ClientCore, name: str, made_for: MadeCaller | None) -> LockCore:
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
