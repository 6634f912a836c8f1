"""What a client can be told: frozen dataclasses that check themselves."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal, Protocol, TypeAlias, final

from pyredisson.core.deadline import MAX_SECONDS, check_meant, seconds
from pyredisson.events import Event

__all__ = ["Backoff", "Config", "ConstantBackoff", "ExponentialBackoff", "LockLostCallback"]

LockLostCallback: TypeAlias = Callable[[str, int], Coroutine[Any, Any, None] | None]
"""Called with the lock's name and the thread (or task) number of the holder that lost it."""


@final
@dataclass(frozen=True)
class Config:
    """The settings of a client, named as Redisson's, in seconds; more than a day of them only as a ``timedelta``.

    Args:
        lock_watchdog_timeout: The lease of a lock taken without one; it is renewed every third of it.
        lock_watchdog_batch_size: Locks renewed by one script.
        fair_lock_wait_timeout: How long a fair lock's queue believes in a waiter that it does not hear of, if its own
            patience is not over before. Should be the same for all clients of a lock.
        check_lock_synced_slaves: Fail an acquire that no replica acknowledged, where there are replicas.
        slaves_sync_timeout: How long replicas have for that.
        min_replicas: How many must acknowledge, connected or not; 0: one, if any is connected.
        timeout: The budget of one request, repeats included.
        connect_timeout: How long a connection may take to be made. A call waits for it until its own time is over: that
            is ``timeout``, or its wait if that is longer.
        wait_while_unreachable: Whether the wait of an acquire covers a server that cannot be reached from the first
            moment on, as it covers one that goes away later. ``False``: that raises the connection's error at once.
        max_wait_without_check: The longest a waiter relies on being told.
        quorum_node_timeout: What one node of a quorum gets to answer, and once more its replicas, if ``min_replicas``
            demands some; ``None``: lease / 200, within 5 to 50 ms.
        quorum_retry_timeout: How long ``lock()`` on a quorum tries to reach enough nodes.
        quorum_max_extensions: How often a hold of a multi-lock is prolonged by the watchdog; ``None``: without end.
        restart_guard: Whether a node that restarted lately has no vote; a number sets the seconds.
        fence_from_clock: Draw fencing tokens from the server's clock, so that they grow through its loss of data.
        sharded_subscription_mode: ``"AUTO"``, ``"ON"`` or ``"OFF"``: sharded publish/subscribe on a cluster.
        strict_server: Make an error of server settings that are otherwise a warning.
        on_lock_lost: Called when a holder lost its lock, on a worker thread of the client, or as a task.
        listeners: Called with each event of ``pyredisson.events``, where it happens: be quick.
        ping_interval: How often an idle subscription asks the server for a sign of life.
        ping_timeout: How long the server has to give it.

    Raises:
        TypeError: A value of the wrong type.
        ValueError: A value out of range.
    """

    lock_watchdog_timeout: float = 30.0
    lock_watchdog_batch_size: int = 100
    fair_lock_wait_timeout: float = 300.0
    check_lock_synced_slaves: bool = True
    slaves_sync_timeout: float = 1.0
    min_replicas: int = 0
    timeout: float = 3.0
    connect_timeout: float = 10.0
    wait_while_unreachable: bool = False
    max_wait_without_check: float = 10.0
    quorum_node_timeout: float | None = None
    quorum_retry_timeout: float = 30.0
    quorum_max_extensions: int | None = None
    restart_guard: bool | float = True
    fence_from_clock: bool = False
    sharded_subscription_mode: Literal["AUTO", "ON", "OFF"] = "AUTO"
    strict_server: bool = False
    on_lock_lost: LockLostCallback | None = None
    listeners: tuple[Callable[[Event], None], ...] = ()
    ping_interval: float = 10.0
    ping_timeout: float = 5.0

    def __post_init__(self) -> None:
        for name in _TIMES:
            value = getattr(self, name)
            if value is None and name == "quorum_node_timeout":
                continue
            checked = seconds(value, name)
            if not 0 < checked <= MAX_SECONDS:
                raise ValueError(f"{name} must be positive (and at most {MAX_SECONDS:.0e} s), not {checked}")
            check_meant(checked, name)
            object.__setattr__(self, name, checked)
        for name, least in (("lock_watchdog_batch_size", 1), ("min_replicas", 0)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} must be an int, not {type(value).__name__}")
            if value < least:
                raise ValueError(f"{name} must be at least {least}, not {value}")
        bound = self.quorum_max_extensions
        if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int)):
            raise TypeError(f"quorum_max_extensions must be an int or None, not {type(bound).__name__}")
        if bound is not None and bound < 0:
            raise ValueError(f"quorum_max_extensions must not be negative, not {bound}")
        for name in ("check_lock_synced_slaves", "fence_from_clock", "strict_server", "wait_while_unreachable"):
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False")
        if not isinstance(self.restart_guard, bool):
            guard = seconds(self.restart_guard, "restart_guard")
            if guard < 0:
                raise ValueError(f"restart_guard must not be negative, not {guard}")
            check_meant(guard, "restart_guard")
        if self.sharded_subscription_mode not in ("AUTO", "ON", "OFF"):
            raise ValueError(f"sharded_subscription_mode is AUTO, ON or OFF, not {self.sharded_subscription_mode!r}")
        if self.on_lock_lost is not None and not callable(self.on_lock_lost):
            raise TypeError("on_lock_lost must be callable")
        object.__setattr__(self, "listeners", tuple(self.listeners))
        if not all(callable(listener) for listener in self.listeners):
            raise TypeError("every listener must be callable")


_TIMES = tuple(
    field.name
    for field in fields(Config)
    if field.name.endswith(("_timeout", "_interval")) or field.name in ("timeout", "max_wait_without_check")
)


class Backoff(Protocol):
    """How a waiter for a :class:`pyredisson.SpinLock` paces its attempts."""

    def delays(self) -> Iterable[float]:
        """Return the seconds to sleep after each failed attempt; the last one goes on when they end."""
        ...


@final
@dataclass(frozen=True)
class ExponentialBackoff:
    """Each delay is ``multiplier`` times the one before, up to ``maximum``, with some chance in it.

    Source: ``LockOptions.ExponentialBackOff``, which adds up to as many milliseconds as attempts have failed.

    Args:
        initial: The first delay, in seconds.
        maximum: The longest delay, in seconds.
        multiplier: By how much a delay exceeds the one before.

    Raises:
        TypeError: Not a number.
        ValueError: Not positive and finite, or a multiplier below 1, or a maximum below the first delay.
    """

    initial: float = 0.001
    maximum: float = 0.128
    multiplier: float = 2

    def __post_init__(self) -> None:
        for name in ("initial", "maximum"):
            _check_positive(name, getattr(self, name))
        if seconds(self.multiplier, "multiplier") < 1:
            raise ValueError(f"multiplier must be at least 1, not {self.multiplier}")
        if self.maximum < self.initial:
            raise ValueError(f"maximum ({self.maximum}) must not be less than initial ({self.initial})")

    def delays(self) -> Iterator[float]:
        """See :meth:`Backoff.delays`."""
        return self._drawn(random.uniform)

    def _drawn(self, between: Callable[[float, float], float], /) -> Iterator[float]:
        """The delays, with the chance in them ``between`` two numbers of seconds; see ``core.spin_lock.Drawn``."""
        delay = float(self.initial)
        for failures in itertools.count():
            yield delay
            delay = min(self.maximum, delay * self.multiplier + between(0.0, failures / 1000))


@final
@dataclass(frozen=True)
class ConstantBackoff:
    """The same delay each time.

    Args:
        delay: In seconds.

    Raises:
        TypeError: Not a number.
        ValueError: Not positive and finite.
    """

    delay: float = 0.064

    def __post_init__(self) -> None:
        _check_positive("delay", self.delay)

    def delays(self) -> Iterator[float]:
        """See :meth:`Backoff.delays`."""
        return itertools.repeat(float(self.delay))


def _check_positive(name: str, value: object) -> None:
    if not 0 < seconds(value, name) < math.inf:
        raise ValueError(f"{name} must be positive, not {value}")
