"""Running the coroutines of the core: where nothing suspends, under threads; and several at once, in any form."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from pyredisson._core.failures import OUR_ERRORS, Failure, is_interruption
from pyredisson.errors import RedissonError

if TYPE_CHECKING:
    from pyredisson._core.runtime import Ask, Runtime

T = TypeVar("T")

Asking: TypeAlias = Coroutine["Ask", None, T]
"""A coroutine that asks servers by yielding each :class:`Ask`, whose answer is there when it is resumed."""


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


async def together(runtime: Runtime, coroutines: Iterable[Asking[T]]) -> list[T | Failure | RedissonError]:
    """Run coroutines side by side: each up to its next request, and these requests are sent together.

    Args:
        runtime: What sends them.
        coroutines: Each is begun when the request of the one before was sent. None waits for anything but a server.

    Returns:
        The results, in order; the error in place of the result of one that failed.
    """
    results: dict[int, Any] = {}
    running: dict[int, Asking[Any]] = {}

    def step(each: Iterable[tuple[int, Asking[Any]]]) -> Iterator[Ask]:
        for index, coroutine in each:
            results[index], running[index] = None, coroutine
            try:
                ask = coroutine.send(None)
            except StopIteration as done:
                results[index] = done.value
            except (Failure, RedissonError) as error:
                results[index] = error
            else:
                yield ask
                continue
            del running[index]

    try:
        await runtime.fan_out(step(enumerate(coroutines)))
        while running:
            await runtime.fan_out(step(list(running.items())))
    except BaseException:
        for coroutine in running.values():
            coroutine.close()
        raise
    return [*results.values()]


class Progress:
    """How far a call is that releases a hold.

    Attributes:
        begun: Whether it sees to its own end from here on, whatever interrupts it. Set before it does anything.
    """

    begun = False  # Not set by an __init__(), in which an interruption would find nothing begun, and nothing to end it.


def run_to_the_end(call: Callable[..., Coroutine[Any, Any, None] | None], *args: object) -> None:
    """Run what releases a hold, although Ctrl-C may come at any moment, or another interruption.

    ``call`` receives a :class:`Progress` as its last argument, and returns the rest to run. Interrupted before that has
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
