"""The bytes of an owner's two usual requests: its first acquire and its last release."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyredisson.core.runtime import Request

__all__ = ["PreparedRequests"]


class PreparedRequests:
    """Requests that are the same each time, under one epoch.

    Attributes:
        epoch: The epoch that they carry.
        acquire: The first acquire.
        acquire_lease_ms: Its lease; 0: there is none.
        release: The last release.
    """

    __slots__ = ("acquire", "acquire_lease_ms", "epoch", "release")

    def __init__(self) -> None:
        self.epoch: int = 0
        self.acquire: Request | None = None
        self.acquire_lease_ms: int = 0
        self.release: Request | None = None

    def forget(self) -> None:
        """They are of no use any more."""
        self.acquire = self.release = None
        self.acquire_lease_ms = 0

    def forget_acquire(self) -> None:
        """The acquire is of no use any more."""
        self.acquire = None
        self.acquire_lease_ms = 0

    def keep_acquire(self, request: Request, lease_ms: int, epoch: int) -> None:
        """Keep the acquire of that lease and epoch."""
        self._under(epoch)
        self.acquire, self.acquire_lease_ms = request, lease_ms

    def keep_release(self, request: Request, epoch: int) -> None:
        """Keep the release of that epoch."""
        self._under(epoch)
        self.release = request

    def _under(self, epoch: int) -> None:
        if self.epoch != epoch:
            self.epoch = epoch
            self.forget()
