"""What is written once for both forms: as a coroutine, which in a thread is stepped to its end, and never suspends."""

import inspect
from collections.abc import Callable
from typing import Any

from pyredisson._core.runtime import run
from pyredisson.asyncio import Campaign


async def ended(result: Any) -> Any:
    """Return the result of a call of either form: that of threads is there at once, that of asyncio is awaited."""
    return await result if inspect.isawaitable(result) and not isinstance(result, Campaign) else result


def made_at_once(call: Callable[[], Any]) -> Any:
    """Make a call in a thread, also one of a coroutine function."""
    result = call()
    return run(result) if inspect.iscoroutine(result) else result


def enter_of(block: Any) -> Callable[[], Any]:
    """Return the call that enters a block of either form."""
    enter: Callable[[], Any] = getattr(block, "__aenter__", None) or block.__enter__
    return enter


def exit_of(block: Any) -> Callable[..., Any]:
    """Return the call that leaves it, with the three arguments of ``__exit__``."""
    leave: Callable[..., Any] = getattr(block, "__aexit__", None) or block.__exit__
    return leave
