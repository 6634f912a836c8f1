"""Callers; ``_shared/`` has the classes."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from pyredisson._core.ownership.ownership import Ownership

T = TypeVar("T")


class Caller(Protocol):
    """A caller: a thread, a task or an owner that the user made, by a number that is never used for another."""

    @property
    def number(self) -> int:
        """The number, as in ``<client id>:<number>``."""
        ...

    @property
    def shared(self) -> bool:
        """Whether call chains that have nothing to do with each other may run under it; see :class:`CallChains`."""
        ...

    @property
    def traced(self) -> bool:
        """Whether its holds are visible in the contexts in which they were acquired."""
        ...

    @property
    def name(self) -> str:
        """The name of the thread or task, as its program knows it."""
        ...

    def stack(self) -> tuple[str, ...]:
        """What it executes at this moment, in lines, the innermost call last; empty if that is not known."""
        ...

    def describe(self) -> str:
        """What to call it in a message."""
        ...

    def alive(self) -> bool:
        """Whether the thread or task still runs."""
        ...

    def gone_hint(self) -> str:
        """Describe one that ended while it held a lock."""
        ...

    @property
    def thread_number(self) -> int:
        """The number of the thread that it shares with other call chains; its own, if that cannot be."""
        ...

    def divide(self) -> Caller:
        """Return another call chain of the same thread, with a number of its own."""
        ...

    def left_behind(self, acquires: Ownership, now: float) -> Ownership | None:
        """Note what its thread acquires; return what that holds for another call chain, although it has gone on."""
        ...


class MadeCaller(Caller, Protocol):
    """An owner that the user made: it may be used from any thread or task, for one call at a time."""

    def alone(self, call: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Make a call in its name. Raises ``LockError`` if another one runs."""
        ...

    def check_open(self) -> None:
        """Raise ``LockError`` if it was closed: what it acquires would not be renewed."""
        ...
