"""What ``client.run_once()`` returns."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, final

from pyredisson._asyncio.locks import Lock
from pyredisson._shared.synchronized import RunOnce as Base

if TYPE_CHECKING:
    from pyredisson.lease import AsyncLease as Lease
    from pyredisson.runs import Ran, Skipped

P = ParamSpec("P")
R = TypeVar("R")


@final
class RunOnce(Base):
    """A block, or a decorator of coroutine functions, for what runs once; see :meth:`Redisson.run_once`.

    Example::

        async with client.run_once("report", at_most=600, at_least=60) as run:
            if run is not None:
                print("it is ours")
    """

    _lock_class = Lock

    async def __aenter__(self) -> Lease[None] | None:
        lease: Lease[None] | None = await self._enter_once().__aenter__()
        return lease

    async def __aexit__(self, *exc: Any) -> None:
        await self._entered.__aexit__(*exc)

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]]
    ) -> Callable[P, Coroutine[Any, Any, Ran[R] | Skipped]]:
        """Decorate a coroutine function: each call returns ``Ran(value)`` or ``Skipped(holder)``.

        Raises:
            TypeError, ValueError: As :meth:`Redisson.synchronized`.
        """
        return self._guard().task(function)

    @property
    def lock(self) -> Lock:
        """The lock behind it: ``force_unlock()`` frees the name before ``at_least`` has passed."""
        lock: Lock = self._lock_of(self._key)
        return lock
