"""Functions that users pass in: whether they can be called as they will be."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from pyredisson._core.deadline import shown

CallbackT = TypeVar("CallbackT", bound=Callable[..., Any])


def check_callback(name: str, callback: CallbackT, *args: str, awaited: bool = True) -> CallbackT:
    """Return what is to be called with these arguments. Raise ``TypeError`` if it cannot be, as far as that is known.

    ``name`` and ``args`` are what a message calls them. Only what is ``awaited`` may be a coroutine function.
    """
    how = f"with {len(args)} argument{'s'[: len(args) != 1]}, {' and '.join(args)}" if args else "without arguments"
    if not callable(callback):
        raise TypeError(f"{name} must be a function, called {how}, not {shown(callback)}")
    if not awaited and inspect.iscoroutinefunction(callback):
        raise TypeError(f"{name} must not be a coroutine function, as {shown(callback)} is: no one would await it")
    try:
        signature = inspect.signature(callback, follow_wrapped=False)  # A decorator may pass further arguments.
    except (TypeError, ValueError):
        return callback  # Some that are written in C have none.
    try:
        signature.bind(*args)
    except TypeError:
        raise TypeError(f"{name} is called {how}: {shown(callback)} takes {signature}") from None
    return callback
