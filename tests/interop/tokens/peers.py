"""redsync and node-redlock with the interface of the other sides: their owners hold token locks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Final
from urllib.parse import urlsplit

from tests.interop.clients import Owner, ReadFuture, Side
from tests.interop.contention import Times
from tests.interop.peer import Jvm, quoted
from tests.interop.tokens.building import require

LEASE: Final = 20.0
"""Seconds, where the end of the lease is not the subject."""


class Peer(Jvm):
    """A program with one of the libraries; the protocol is that of the JVM's.

    Attributes:
        library: ``redsync`` or ``node-redlock``.
    """

    def __init__(self, library: str) -> None:
        super().__init__(require(library))
        self.library = library
        before = time.monotonic_ns()
        there = self.do("main", "clock")
        assert before <= there <= time.monotonic_ns(), f"{library} reads another clock than time.monotonic_ns()"


class PeerSide(Side):
    """One node, or a quorum of several."""

    def __init__(self, peer: Peer, urls: Sequence[str]) -> None:
        self.language = self.id = peer.library
        self._peer = peer
        self._addresses = [urlsplit(url).netloc for url in urls]

    def owner(self) -> Owner:
        return _PeerOwner(self._peer, self._addresses)


class _PeerOwner(Owner):
    def __init__(self, peer: Peer, addresses: Sequence[str]) -> None:
        self._peer, self._addresses = peer, addresses
        self.field = peer.new_name("owner")
        peer.do(self.field, "connect", *map(quoted, addresses))

    def waits(self) -> bool:
        return True

    def call(self, kind: str, name: str, method: str, *args: Any) -> Future[Any]:
        """Begin ``lock(lease_time)``, ``try_lock(lease_time)``, ``unlock()``, ``extend()`` or ``value()``.

        ``unlock()`` and ``extend()``, to the whole lease again, return whether the library says that it succeeded.
        """
        if method in ("lock", "try_lock"):
            args = (_milliseconds(*args),)
        return self._peer.start(self.field, method, quoted(name), *args)

    def contend(self, kind: str, name: str, counter: str, until: int, hold: float, rest: float) -> Future[Times]:
        place = (quoted(name), _milliseconds(LEASE), self._addresses[0], quoted(counter))
        future = self._peer.start(
            self.field, "contend", *place, *map(str, (until, round(hold * 1e9), round(rest * 1e9)))
        )
        return ReadFuture(future, lambda flat: list(zip(flat[::2], flat[1::2], strict=True)))


def _milliseconds(seconds: float = LEASE) -> str:
    return str(round(seconds * 1000))
