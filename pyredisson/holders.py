"""Who holds a lock, as far as can be found out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

__all__ = ["Holder"]


@final
@dataclass(frozen=True)
class Holder:
    """Who holds a lock, as errors report it. What is not known is ``None``.

    Attributes:
        client_id: The holder's client: the ``<uuid>`` of ``<uuid>:<thread id>`` in Redis.
        thread_id: The number of its thread or task: the ``<thread id>``.
        app: What its application is called: ``Config.client_name``.
        host: The name of its host.
        pid: The number of its process there.
        thread: The name of its thread or task.
        since: When it acquired the lock, in seconds since the epoch, as ``time.time()`` counts.
        remaining: Seconds until its lease ends if it is not renewed. Infinite: the lock never expires.
        reason: Why it holds the lock, if ``pyredisson lock --reason`` acquired it.
    """

    client_id: str | None = None
    thread_id: int | None = None
    app: str | None = None
    host: str | None = None
    pid: int | None = None
    thread: str | None = None
    since: float | None = None
    remaining: float | None = None
    reason: str | None = None

    def __str__(self) -> str:
        return self._name() + ("" if self.reason is None else f" (by hand: {self.reason!r})")

    def _name(self) -> str:
        place = "@".join(part for part in (self.app, self.host) if part)
        if place or self.pid is not None or self.thread is not None:
            pid = "" if self.pid is None else f"pid {self.pid}"
            thread = f"thread {self.thread!r}" if self.thread is not None else self._number()
            return " ".join(part for part in (place, pid, thread) if part)
        if self.client_id is None:
            return "an unknown holder"
        return f"client {self.client_id} {self._number()}".rstrip()

    def _number(self) -> str:
        return "" if self.thread_id is None else f"thread {self.thread_id}"
