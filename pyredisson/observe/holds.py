"""What is held and waited for by the clients of this process, as far as their events show."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

#: The name of a lock, and its owner.
Key = tuple[str, str]

#: Entries that have expired are looked for when there are that many; then when there are twice as many as stayed.
FIRST_SWEEP = 1024


class Entries(Generic[T]):
    """Holds, or waits, by lock and owner, each with what the listener needs when it ends.

    A hold with a fixed lease may end without any event, so an entry may have a time at which it expires. In the child
    of a fork there are none: its clients are new ones.

    Args:
        expired: Called with an entry that has expired, and when it did (``time.monotonic()``).
    """

    def __init__(self, expired: Callable[[T, float], object] | None = None) -> None:
        #: When each began, how long its lease is, and its value.
        self.all: dict[Key, tuple[float, float | None, T]] = {}
        self._expired = expired
        self._sweep_at = FIRST_SWEEP
        entries = weakref.ref(self)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: _forget(entries()))

    def begin(self, key: Key, lease: float | None, value: T) -> T | None:
        """Enter one that begins now. Returns that of the same key whose end was not noticed, if there is one."""
        before = self.all.get(key)
        self.all[key] = (time.monotonic(), lease, value)
        self.sweep_if_many()
        return None if before is None else before[2]

    def sweep_if_many(self) -> None:
        """Remove what has expired, if there is much. Who enters something into ``all`` calls this now and then."""
        if len(self.all) >= self._sweep_at:
            self.sweep()
            self._sweep_at = max(FIRST_SWEEP, 2 * len(self.all))

    def end(self, key: Key) -> T | None:
        """Remove one, and return its value; ``None`` if it is not there."""
        entry = self.all.pop(key, None)
        return None if entry is None else entry[2]

    def get(self, key: Key) -> T | None:
        """Return the value of one; ``None`` if it is not there."""
        entry = self.all.get(key)
        return None if entry is None else entry[2]

    def end_all(self, client_id: str) -> list[T]:
        """Remove those of a client, and return their values."""
        prefix = f"{client_id}:"
        values = [self.end(key) for key in self.all.copy() if key[1].startswith(prefix)]
        return [value for value in values if value is not None]

    def sweep(self) -> None:
        """Remove what has expired."""
        now = time.monotonic()
        for key, entry in self.all.copy().items():
            since, lease, value = entry
            if lease is not None and since + lease <= now and self.all.get(key) is entry:
                self.end(key)
                if self._expired is not None:
                    self._expired(value, since + lease)

    def now(self) -> list[tuple[float, T]]:
        """Return for how many seconds each has lasted, and its value."""
        self.sweep()
        now = time.monotonic()
        return [(now - since, value) for since, _, value in self.all.copy().values()]

    def clear(self) -> None:
        """Forget all."""
        self.all.clear()


def _forget(entries: Entries[T] | None) -> None:
    if entries is not None:
        entries.clear()
