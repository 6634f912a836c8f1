# Generated from _asyncio/run_once.py by `make facade`: change that file, and run it.

"""What ``client.run_once()`` returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, final

from pyredisson._shared.synchronized import RunOnce as Base
from pyredisson._threads.locks import Lock

if TYPE_CHECKING:
    from pyredisson.lease import Lease
    from pyredisson.runs import Ran, Skipped

P = ParamSpec("P")
R = TypeVar("R")


@final
class RunOnce(Base):
    """A block, or a decorator of functions, for what runs once; see :meth:`Redisson.run_once`.

    Example::

        with client.run_once("report", at_most=600, at_least=60) as run:
            if run is not None:
                print("it is ours")
    """

    _lock_class = Lock

    def __enter__(self) -> Lease[None] | None:
        lease: Lease[None] | None = self._enter_once().__enter__()
        return lease

    def __exit__(self, *exc: Any) -> None:
        self._entered.__exit__(*exc)

    def __call__(self, function: Callable[P, R]) -> Callable[P, Ran[R] | Skipped]:
        """Decorate a function: each call returns ``Ran(value)`` or ``Skipped(holder)``.

        Raises:
            TypeError, ValueError: As :meth:`Redisson.synchronized`.
        """
        return self._guard().function(function)

    @property
    def lock(self) -> Lock:
        """The lock behind it: ``force_unlock()`` frees the name before ``at_least`` has passed."""
        lock: Lock = self._lock_of(self._key)
        return lock
