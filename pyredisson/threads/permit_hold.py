"""The context manager that ``hold()`` of a semaphore returns, for threads."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Generic, final

from pyredisson.core.driver import run, run_to_the_end
from pyredisson.lease import Lease
from pyredisson.shared.misuse import NotPortable, warn_never_entered

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    from pyredisson.kinds.permit_block import Block

    EnteredT_co = TypeVar("EnteredT_co", bound="Lease[None] | None", covariant=True, default="Lease[None]")
else:  # typing_extensions is slow to import, and the default is for type checkers.
    from typing import TypeVar

    EnteredT_co = TypeVar("EnteredT_co", bound="Lease[None] | None", covariant=True)


@final
class PermitHold(NotPortable, Generic[EnteredT_co]):
    """The context manager that ``hold()`` of a semaphore returns; its value is a :class:`Lease`. Can be entered once.

    The permits belong to the block, not to a thread: the block may be left, and they released, in another thread.

    Example::

        with semaphore.hold(wait_time=5):
            ...
    """

    __slots__ = ("_block", "_client")

    def __init__(self, client: object, block: Block) -> None:
        self._client = client  # It lives as long as its block.
        self._block = block

    def __repr__(self) -> str:
        return f"<PermitHold of {self._block.name!r}>"

    def __enter__(self) -> EnteredT_co:
        try:
            return run(self._block.enter())  # type: ignore[return-value]  # None only if it may skip.
        except BaseException as error:  # Ctrl-C, just after it was acquired: the block will not be left.
            run_to_the_end(self._block.leave, error)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run_to_the_end(self._block.leave, error)

    def __del__(self) -> None:
        block = getattr(self, "_block", None)
        if block is not None and block.entered:
            block.forget()
        elif block is not None:
            warn_never_entered(self, block.name)
