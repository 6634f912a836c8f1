"""Callers, and the marks by which a call chain knows its own holds again; ``shared/`` has the classes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Holding(Protocol):
    """What an owner holds, as far as its mark has to know."""

    name: str
    owner: str
    who: Caller
    mark: Callable[[], Any] | None

    def in_use(self) -> bool:
        """Whether anything is held, or in flight."""
        ...

    def bound(self) -> bool:
        """Whether any of it can only be released by the call chain that acquired it."""
        ...


class Caller(Protocol):
    """A caller: a thread, a task or an owner that the user made, by a number that is never used for another."""

    @property
    def number(self) -> int:
        """The number, as in ``<client id>:<number>``."""
        ...

    @property
    def shared(self) -> bool:
        """Whether call chains that have nothing to do with each other may run under it: see :meth:`acting`."""
        ...

    @property
    def divided(self) -> bool:
        """Whether that has happened."""
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

    def acting(self, names: tuple[str, ...], taken: Callable[[Caller], bool]) -> Caller:
        """Who the calling context is for these locks: the owner of its own hold, else one that holds none of them.

        Args:
            names: The locks.
            taken: Whether an owner holds, or asks for, one of them.
        """
        ...

    def mark(self, held: Holding, names: tuple[str, ...], report: Callable[[Holding], object]) -> None:
        """Note in the calling context, and in ``held.mark``, that something is about to be held.

        Args:
            held: What. Its ``mark`` returns the mark as long as that stands in a context, then ``None``.
            names: The locks that this is about.
            report: As for :meth:`check_left_behind`, which is done as well.
        """
        ...

    def has_mark(self, held: Holding, /) -> bool:
        """Whether the calling context has the mark of what is held, or was held last."""
        ...

    def check_left_behind(self, held: Holding, report: Callable[[Holding], object]) -> None:
        """Look whether this thread holds anything for another call chain, although it has gone on to this one.

        Args:
            held: What it is about to hold now.
            report: Called with what it has left held.
        """
        ...


class MadeCaller(Caller, Protocol):
    """An owner that the user made: it may be used from any thread or task, for one call at a time."""

    def alone(self, call: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Make a call in its name. Raises ``LockError`` if another one runs."""
        ...

    def check_open(self) -> None:
        """Raise ``LockError`` if it was closed: what it acquires would not be renewed."""
        ...
