"""What the runtimes of threads and of asyncio do alike: time, randomness, and where a name is."""

from __future__ import annotations

import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pyredisson.core.diagnosis.identity import Identity
from pyredisson.net.introduction import VERSION, introduction
from pyredisson.net.resp import prepare
from pyredisson.net.slots import prepare_call, slot_of
from pyredisson.shared import living, process
from pyredisson.shared.callbacks import Callbacks
from pyredisson.shared.clock import monotonic

if TYPE_CHECKING:
    from pyredisson.config import Config
    from pyredisson.core.client import ClientCore
    from pyredisson.core.runtime import Request
    from pyredisson.net.node_subscribers import NodeSubscribers
    from pyredisson.net.subscriber import Subscriber


class BaseRuntime:
    """The plain part of a :class:`pyredisson.core.runtime.Runtime`.

    Args:
        config: The client's settings.
        scattered: Whether names are on several servers, by their slots.

    Attributes:
        callbacks: Those of the client's user that are still to be called.
    """

    def __init__(self, config: Config, *, scattered: bool) -> None:
        self._config = config
        self._scattered = scattered
        self.prepare: Callable[[str, tuple[str, ...], tuple[str | int | bytes, ...]], Request] = (
            prepare_call if scattered else prepare
        )
        self.callbacks: Callbacks = Callbacks()
        self._subscriber: Subscriber | NodeSubscribers | None = None

    now: staticmethod[[], float] = staticmethod(monotonic)
    check_process: staticmethod[[], None] = staticmethod(process.check)

    def jitter(self, low: float, high: float) -> float:
        return random.uniform(low, high)

    unix_time: staticmethod[[], float] = staticmethod(time.time)
    clients: staticmethod[[], list[ClientCore]] = staticmethod(living.clients)

    def identity_of(self, app: str | None) -> Identity:
        """Return what identifies this process; ``app``: what the user's own settings call connections."""
        return Identity(self._config.client_name or app, socket.gethostname(), os.getpid(), VERSION)

    def introduction(self, app: str | None, client_id: str) -> Sequence[bytes]:
        """Return the commands by which a new connection says whose it is."""
        named = app is not None and self._config.client_name is None
        return introduction(self.identity_of(app), client_id, named=named)

    def new_id(self) -> str:
        return str(uuid.uuid4())

    def random_bytes(self, count: int) -> bytes:
        return os.urandom(count)

    def mutex(self) -> AbstractContextManager[Any]:
        return threading.RLock()  # Under asyncio never contended; but a signal handler may ask for a handle's ``repr``.

    def place(self, name: str) -> int | None:
        return slot_of(name) if self._scattered else None

    def unsubscribe(self, channel: str) -> None:
        if self._subscriber is not None:
            self._subscriber.unsubscribe(channel)
