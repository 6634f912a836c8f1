"""Running the coroutines of the core where nothing suspends: under threads."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from pyredisson.core.failures import OUR_ERRORS, is_interruption

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Step a coroutine that never suspends, and return its result.

    This is how threads use the core: their runtime blocks inside, so one step is all there is.
    """
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    coroutine.close()
    raise RuntimeError("a coroutine of the core suspended under threads: an await of something foreign")


class Progress:
    """How far a call is that gives back a hold.

    Attributes:
        begun: Whether it sees to its own end from here on, whatever interrupts it. Set before it does anything.
    """

    begun = False  # Not set by an __init__(), in which an interruption would find nothing begun, and nothing to end it.


def run_to_the_end(call: Callable[..., Coroutine[Any, Any, None] | None], *args: object) -> None:
    """Run what gives back a hold, although Ctrl-C may come at any moment, or another interruption.

    ``call`` gets a :class:`Progress` as its last argument, and returns what is left to run. Interrupted before that has
    begun, it is called again here. A second Ctrl-C is meant.
    """
    progress: Progress | None = None
    try:
        progress = Progress()
        if (rest := call(*args, progress)) is not None:
            run(rest)
    except BaseException as error:
        if is_interruption(error) and (progress is None or not progress.begun):
            with suppress(type(error), *OUR_ERRORS):  # What interrupted it is raised, whatever comes of it now.
                if (rest := call(*args, Progress())) is not None:
                    run(rest)
        raise
