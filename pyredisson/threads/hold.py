"""The context manager that ``hold()`` of a lock returns, for threads."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, final

from pyredisson.core.driver import run, run_to_the_end
from pyredisson.errors import LockError
from pyredisson.lease import Lease
from pyredisson.shared.arguments import check_times
from pyredisson.shared.handle import Handle
from pyredisson.shared.misuse import NotPortable, warn_never_entered

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from pyredisson.core.deadline import Seconds
    from pyredisson.core.driver import Progress

    LeaseT_co = TypeVar("LeaseT_co", bound="Lease | None", covariant=True, default="Lease")
else:  # typing_extensions is slow to import, and the default is for type checkers.
    from typing import TypeVar

    LeaseT_co = TypeVar("LeaseT_co", bound="Lease | None", covariant=True)


@final
class HoldContext(NotPortable, Generic[LeaseT_co]):
    """The context manager that ``lock.hold()`` returns; its value is a :class:`Lease`. Can be entered once.

    The hold belongs to the block, not to a thread: the block may be left, and the lock released, in another thread.

    Example::

        with lock.hold(wait_time=5) as lease:
            lease.ensure_held()
    """

    __slots__ = ("_entered", "_lease", "_lease_time", "_lock", "_skip", "_wait_time")

    def __init__(self, lock: Handle, wait_time: Seconds | None, lease_time: Seconds | None, skip: bool) -> None:
        check_times(wait_time, lease_time)
        self._lock = lock
        self._wait_time = wait_time
        self._lease_time = lease_time
        self._skip = skip
        self._entered = False
        self._lease: Lease[Any] | None = None

    def __repr__(self) -> str:
        return f"<Hold of {self._lock.name!r}>"

    def __del__(self) -> None:
        if not getattr(self, "_entered", True):
            warn_never_entered(self, self._lock.name)

    def __enter__(self) -> LeaseT_co:
        if self._entered:
            name = self._lock.name
            raise LockError(f"a hold() of {name!r} can be entered only once: call hold() again", name=name)
        self._entered = True
        self._lease = run(self._lock._core.hold(self._wait_time, self._lease_time, skip=self._skip))
        return self._lease  # type: ignore[return-value]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is not None:  # Else the block was run without the lock.
            run_to_the_end(self._leave, self._lease, error)

    def _leave(self, lease: Lease[Any], error: BaseException | None, progress: Progress) -> Coroutine[Any, Any, None]:
        lease._end()
        leave: Callable[..., Coroutine[Any, Any, None]] = self._lock._core.leave
        return leave(error, progress, lease)
