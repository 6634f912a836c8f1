"""Errors for uses of the library that cannot work."""

from __future__ import annotations

import sys
import warnings
from typing import Any, NoReturn, SupportsIndex

#: Stands for an argument that only a client gives.
BY_HAND: Any = None


class NotPortable:
    """Of use only in its process and through its client: pickling it raises an error that says what to do instead."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        kind = type(self).__name__
        name = getattr(self, "name", None)
        url = getattr(getattr(self, "_client", self), "url", None)
        if url is None:
            raise TypeError(
                f"a {kind} cannot be pickled or copied: it belongs to this process. Another process makes a client of "
                "its own, and acquires the lock itself"
            )
        masked = ", with the password in place of ***" if ":***@" in url else ""
        made = f".get_{_snake_case(kind)}({name!r})" if isinstance(name, str) else ""
        raise TypeError(
            f"a {kind} cannot be pickled or copied: it belongs to its client in this process. In another process make "
            f"a client from its URL{masked}: Redisson.from_url({url!r}){made}"
        )


def core_of(core: Any, handle: object, client: object) -> Any:
    """Return the core that a client made for a handle.

    Raises:
        TypeError: The handle was made by hand.
    """
    if hasattr(core, "describe"):
        return core
    name = next((repr(each) for each in (core, client) if isinstance(each, str)), "name")
    made = type(handle).__name__
    raise TypeError(
        f"a {made} is made by a client: client = Redisson.from_url(url), then client.get_{_snake_case(made)}({name})"
    )


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def no_event_loop() -> RuntimeError:
    """Return the error for an await of ``pyredisson.asyncio`` where no event loop of asyncio runs."""
    if _in_trio():
        return RuntimeError(
            "pyredisson.asyncio needs the event loop of asyncio, and this is trio: use a client of pyredisson (for "
            "threads), and await trio.to_thread.run_sync(...) for a function that acquires and releases the lock; or "
            "run the program with asyncio"
        )
    return RuntimeError(
        "pyredisson.asyncio needs a running event loop, and there is none: call it in a coroutine under asyncio.run(), "
        "or use pyredisson.Redisson, the client for threads"
    )


def _in_trio() -> bool:
    trio = sys.modules.get("trio")
    try:
        return trio is not None and trio.lowlevel.current_task() is not None
    except (AttributeError, RuntimeError):
        return False


def warn_never_entered(block: object, name: str) -> None:
    """Warn that the object which ``hold()`` returned was thrown away, and nothing was ever held."""
    if not sys.is_finalizing():
        warnings.warn(
            f"hold() of {name!r} was never entered, so nothing was held: write `with ....hold():` "
            "(`async with` for asyncio)",
            ResourceWarning,
            stacklevel=2,
            source=block,
        )
