"""What ten thousand repetitions leave in memory."""

from __future__ import annotations

import asyncio
import gc
import itertools
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from .report import Claim, at_most

__all__ = ["HOW", "memory_claims"]

WARM, REPETITIONS = 4_000, 10_000
MOST_KB = 100

HOW = (
    f"Memory is the largest traced heap of {REPETITIONS:,} repetitions beyond that of the {WARM:,} before, while what "
    "is kept of names for their next use grows up to its bound."
)

_names = itertools.count()


def _new_name() -> str:
    return f"repeated-{next(_names)}"


def _handle(client: Any) -> Any:
    client.get_lock(_new_name())
    return nullcontext()


#: What is repeated, and must leave nothing: blocks, sync and async.
REPEATED: Mapping[str, Callable[[Any], Any]] = {
    "pairs on one name": lambda client: client.get_lock("growth").hold(),
    "pairs on new names": lambda client: client.get_lock(_new_name()).hold(),
    "handles": _handle,
    "permits": lambda client: client.get_permit_expirable_semaphore("growth-permits", permits=1).hold(),
}


def sync_growth_kb(url: str, block: Callable[[Any], Any]) -> float:
    """What ``REPETITIONS`` blocks add to the largest heap that ``WARM`` blocks needed, in KB.

    The largest: what is kept of names for their next use grows up to a bound, and begins anew.
    """
    from pyredisson import Redisson

    def repeat(times: int) -> int:
        largest = 0
        for number in range(1, times + 1):
            with block(client):
                pass
            largest = max(largest, heap_bytes(number))
        return largest

    with Redisson.from_url(url) as client, traced():
        return -(repeat(WARM) - repeat(REPETITIONS)) / 1024


def async_growth_kb(url: str, block: Callable[[Any], Any]) -> float:
    """The same, in asyncio."""
    import pyredisson.asyncio

    async def measure() -> float:
        async with pyredisson.asyncio.Redisson.from_url(url) as client:

            async def repeat(times: int) -> int:
                largest = 0
                for number in range(1, times + 1):
                    async with block(client):
                        pass
                    largest = max(largest, heap_bytes(number))
                return largest

            with traced():
                return -(await repeat(WARM) - await repeat(REPETITIONS)) / 1024

    return asyncio.run(measure())


def heap_bytes(number: int) -> int:
    """The traced heap without garbage, after each 100th repetition; else 0.

    So often that one is shortly before the table of names is swept, which it is at each 1,000th new one or so.
    """
    if number % 100:
        return 0
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@contextmanager
def traced() -> Iterator[None]:
    """Trace what is allocated meanwhile."""
    gc.collect()
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def memory_claims(url: str) -> list[Claim]:
    """Measure each, and compare it with the bound."""
    return [
        at_most(f"memory after {REPETITIONS:,} {name} ({form})", growth_kb(url, block), MOST_KB, "KB")
        for name, block in REPEATED.items()
        for form, growth_kb in (("threads", sync_growth_kb), ("asyncio", async_growth_kb))
    ]
