"""The settings of a client: frozen dataclasses that check their values."""

# mypy: disable-error-code="assignment"
# pyright: reportAssignmentType=false
# They do not take a default for what a descriptor sets.

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Protocol, TypeAlias, TypeVar, final

from pyredisson._core.deadline import MAX_SECONDS, check_unit, check_watchdog_timeout, delay_seconds, seconds, shown
from pyredisson._core.event import Event as AnyEvent  # Not to be mistaken for the synchronizer.
from pyredisson._shared.callback import check_callback

T = TypeVar("T")

if TYPE_CHECKING:

    class Time(Generic[T]):
        """A setting in seconds: a ``timedelta`` may be given, of which it becomes the ``float``."""

        def __get__(self, instance: object, owner: object) -> T: ...
        def __set__(self, instance: object, value: T | timedelta) -> None: ...

else:

    class Time:
        """The type of that setting."""

        def __class_getitem__(cls, item):
            return item


__all__ = ["Backoff", "Config", "ConstantBackoff", "ExponentialBackoff", "LockLostCallback"]

LockLostCallback: TypeAlias = Callable[[str, int], Coroutine[Any, Any, None] | None]
"""A function, called with the lock's name and the number of the thread (or task) that lost the lock."""


@final
@dataclass(frozen=True, kw_only=True)
class Config:
    """The settings of a client, named as in Redisson. Times are in seconds; give more than a day as a ``timedelta``.

    Args:
        lock_watchdog_timeout: Lease of a lock acquired without ``lease_time``, from 0.1 to 3,600 seconds; give a longer
            one as a ``timedelta``. The watchdog renews it every third of this time.
        loss_margin: Seconds before its lease ends on the server at which a hold that was not renewed counts as lost, so
            that its work can end before another owner may begin; less than half of ``lock_watchdog_timeout``.
        timeout: Seconds for one request, including its retries.
        on_lock_lost: Callback for a lost lock; it runs on a thread of its own, or as a task. What it raises is logged,
            ``SystemExit`` too.
        client_name: What the application is called, in the names of the client's connections and in what it publishes
            of its locks. ``None``: what the URL or the redis-py client gives as ``client_name``.
        strict_server: Whether unsafe server settings raise an error instead of logging a warning.

    Connections:
        connect_timeout: Seconds that making a connection may take. A call waits for it until its own time ends: that is
            ``timeout``, or its wait time if that is longer.
        wait_while_unreachable: Whether an acquire keeps trying within its wait time if the server cannot be reached
            when it starts, as it does if the server becomes unreachable later. ``False``: raise the connection's error
            immediately.
        ping_interval: Seconds between the pings on an idle subscription.
        ping_timeout: Seconds that the server has to answer a ping.
        sharded_subscription_mode: Whether to use sharded publish/subscribe on a cluster: ``"AUTO"``, ``"ON"`` or
            ``"OFF"``.

    Locks:
        lock_watchdog_batch_size: Number of locks that one script renews.
        max_wait_without_check: Longest sleep, in seconds, before a waiter checks the server again, in case a
            notification was lost.
        fair_lock_wait_timeout: Seconds without a heartbeat after which a waiter in a fair lock's queue is dropped;
            sooner if its own wait time ends. It should be the same for all clients of a lock.
        fence_from_clock: Whether fencing tokens are taken from the server's clock, so that they keep growing if the
            server loses its data.
        prefix: What stands before every name in Redis, as a ``NameMapper`` of Redisson's puts it. Handles, errors and
            events carry the name without it.

    Replicas:
        check_lock_synced_slaves: Whether an acquire fails if replicas are connected, and past their first
            synchronisation, and none acknowledges it.
        slaves_sync_timeout: Seconds to wait for that acknowledgement.
        min_replicas: Number of replicas that must acknowledge an acquire, connected or not. 0: one, if any is connected
            and past its first synchronisation.

    Quorums:
        quorum_node_timeout: Seconds that one node of a quorum has to answer, and the same again for its replicas if
            ``min_replicas`` is set. ``None``: lease / 200, between 5 and 50 ms; for a node that is farther away, four
            round trips, but at most lease / 10.
        quorum_retry_timeout: Seconds for which ``lock()`` on a quorum tries to reach enough nodes.
        quorum_max_extensions: How often the watchdog extends a hold of a quorum, which is lost afterwards: a holder
            that hangs must not keep it indefinitely, as "Distributed Locks with Redis" demands. The default makes a day
            with the default ``lock_watchdog_timeout``. ``None``: no limit.
        restart_guard: Whether a recently restarted node of a quorum has no vote; a number sets the seconds. ``False``:
            it votes, and that a node keeps no data is not warned of.

    Reports:
        listeners: Callbacks for the events of ``pyredisson.events``. They run where the event occurs, so they must
            return quickly.
        presence: Whether the client writes to Redis what it holds and waits for, where others and the command line read
            it, and whether a call that failed asks the server who holds the lock.
        presence_after: Seconds after which a hold or a wait is written there.
        warn_held_longer_than: Seconds after which a hold is reported as ``HeldTooLong``, with the stack of its holder.
            ``None``: never.
        warn_waiting_longer_than: Seconds after which a wait is reported as ``WaitingTooLong``. ``None``: never.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A value is out of range.
    """

    lock_watchdog_timeout: Time[float] = 30.0
    loss_margin: Time[float] = 0.0
    timeout: Time[float] = 3.0
    on_lock_lost: LockLostCallback | None = None
    client_name: str | None = None
    strict_server: bool = False
    connect_timeout: Time[float] = 10.0
    wait_while_unreachable: bool = False
    ping_interval: Time[float] = 10.0
    ping_timeout: Time[float] = 5.0
    sharded_subscription_mode: Literal["AUTO", "ON", "OFF"] = "AUTO"
    lock_watchdog_batch_size: int = 100
    max_wait_without_check: Time[float] = 10.0
    fair_lock_wait_timeout: Time[float] = 300.0
    fence_from_clock: bool = False
    prefix: str = ""
    check_lock_synced_slaves: bool = True
    slaves_sync_timeout: Time[float] = 1.0
    min_replicas: int = 0
    quorum_node_timeout: Time[float | None] = None
    quorum_retry_timeout: Time[float] = 30.0
    quorum_max_extensions: int | None = 8640
    restart_guard: Time[bool | float] = True
    listeners: Iterable[Callable[[AnyEvent], object]] = ()
    presence: bool = True
    presence_after: Time[float] = 5.0
    warn_held_longer_than: Time[float | None] = None
    warn_waiting_longer_than: Time[float | None] = None

    def __post_init__(self) -> None:
        for name in _TIMES:
            value = getattr(self, name)
            if value is None and name in _MAY_BE_NONE:
                continue
            checked = seconds(value, name)
            if not 0 < checked <= MAX_SECONDS:
                raise ValueError(f"{name} must be positive (and at most {MAX_SECONDS:.0e} s), not {checked}")
            (check_watchdog_timeout if name == "lock_watchdog_timeout" else check_unit)(checked, name)
            object.__setattr__(self, name, checked)
        margin = seconds(self.loss_margin, "loss_margin")
        if not 0 <= margin < self.lock_watchdog_timeout / 2:
            raise ValueError(
                "loss_margin must be at least 0 and less than half of lock_watchdog_timeout, which is "
                f"{self.lock_watchdog_timeout:g} s, not {margin:g}"
            )
        object.__setattr__(self, "loss_margin", float(margin))
        for name, least in (("lock_watchdog_batch_size", 1), ("min_replicas", 0), ("quorum_max_extensions", 0)):
            value = getattr(self, name)
            if value is None and name in _MAY_BE_NONE:
                continue
            if isinstance(value, bool) or not isinstance(value, int):
                raise TypeError(f"{name} must be an int, not {type(value).__name__}")
            if value < least:
                raise ValueError(f"{name} must be at least {least}, not {value}")
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise TypeError(f"{name} must be True or False")
        if not isinstance(self.restart_guard, bool):
            object.__setattr__(self, "restart_guard", delay_seconds(self.restart_guard, "restart_guard"))
        _check_text("prefix", self.prefix)
        if self.client_name is not None:
            _check_text("client_name", self.client_name)
            if not self.client_name:
                raise ValueError("client_name must not be empty")
        if (mode := self.sharded_subscription_mode) not in ("AUTO", "ON", "OFF"):
            raise ValueError(f"sharded_subscription_mode is AUTO, ON or OFF, not {shown(mode)}")
        if self.on_lock_lost is not None:
            check_callback("on_lock_lost", self.on_lock_lost, "the lock's name", "the thread's number")
        listeners: object = self.listeners
        if isinstance(listeners, str) or not isinstance(listeners, Iterable):
            raise TypeError("listeners must be a tuple of functions: listeners=(listener,)")
        object.__setattr__(self, "listeners", tuple(listeners))
        for listener in self.listeners:
            check_callback("every listener", listener, "the event", awaited=False)


#: What other libraries call a setting, and what to write instead.
_INSTEAD: Final = {
    **dict.fromkeys(
        ("lease_time", "lease", "ttl", "expire"),
        "lock_watchdog_timeout is the lease of what is renewed; hold(lease_time=...) sets one that is not",
    ),
    **dict.fromkeys(("watchdog_timeout", "watchdog"), "use lock_watchdog_timeout"),
    **dict.fromkeys(("socket_timeout", "request_timeout"), "use timeout"),
    **dict.fromkeys(("wait_time", "blocking_timeout"), "pass wait_time to hold() or try_lock()"),
    **dict.fromkeys(("url", "host", "port", "db", "password"), "use Redisson.from_url(url, config=Config(...))"),
}


def _check_settings(made: Callable[..., None]) -> Callable[..., None]:
    """Say what to write instead of a setting that there is none of."""

    @functools.wraps(made)
    def init(self: Config, *args: Any, **settings: Any) -> None:
        if args:
            raise TypeError(f"settings are passed by name: Config(lock_watchdog_timeout={shown(args[0])}, ...)")
        for name in settings:
            if name not in Config.__dataclass_fields__:
                import difflib  # Slow to import.

                near = difflib.get_close_matches(name, Config.__dataclass_fields__, 1)
                instead = _INSTEAD.get(name) or (f"did you mean {near[0]}?" if near else "see the page on Config")
                raise TypeError(f"Config has no setting {name!r}: {instead}")
        made(self, **settings)

    return init


Config.__init__ = _check_settings(Config.__init__)

_TIMES = tuple(
    field.name
    for field in fields(Config)
    if field.name.endswith(("_timeout", "_interval", "_longer_than"))
    or field.name in ("timeout", "max_wait_without_check", "presence_after")
)
_MAY_BE_NONE = frozenset(
    {"quorum_max_extensions", "quorum_node_timeout", "warn_held_longer_than", "warn_waiting_longer_than"}
)
_FLAGS = ("check_lock_synced_slaves", "fence_from_clock", "presence", "strict_server", "wait_while_unreachable")


def _check_text(name: str, text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a str, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} must be encodable as UTF-8: {error.reason} at {error.start}") from None


class Backoff(Protocol):
    """The pauses between the attempts of a waiter for a ``SpinLock`` or a ``TokenLock``."""

    def delays(self) -> Iterable[float]:
        """Return the seconds to sleep after each failed attempt; the last value is repeated."""
        ...


@final
@dataclass(frozen=True)
class ExponentialBackoff:
    """A back-off whose delay is multiplied by ``multiplier`` after each attempt, up to ``maximum``, with random jitter.

    Source: Redisson's ``LockOptions.ExponentialBackOff``, whose jitter is at most one millisecond per failed attempt.

    Args:
        initial: The first delay, in seconds, or a ``timedelta``.
        maximum: The longest delay, likewise.
        multiplier: The ratio of a delay to the previous one.

    Raises:
        TypeError: A value is neither a number nor, for a delay, a ``timedelta``.
        ValueError: A value is not positive and finite, ``multiplier`` is below 1, or ``maximum`` below ``initial``.
    """

    initial: Time[float] = 0.001
    maximum: Time[float] = 0.128
    multiplier: float = 2

    def __post_init__(self) -> None:
        for name in ("initial", "maximum"):
            _take_seconds(self, name)
        multiplier: object = self.multiplier
        if isinstance(multiplier, timedelta):
            raise TypeError("multiplier must be a number, not timedelta")
        if seconds(multiplier, "multiplier") < 1:
            raise ValueError(f"multiplier must be at least 1, not {self.multiplier}")
        if self.maximum < self.initial:
            raise ValueError(f"maximum ({self.maximum}) must not be less than initial ({self.initial})")

    def delays(self, uniform: Callable[[float, float], float] = random.uniform) -> Iterator[float]:
        """Return the seconds to sleep after each failed attempt, without an end.

        Args:
            uniform: The source of random numbers between two bounds.
        """
        delay = float(self.initial)
        for failures in itertools.count():
            yield delay
            delay = min(self.maximum, delay * self.multiplier + uniform(0.0, failures / 1000))


@final
@dataclass(frozen=True)
class ConstantBackoff:
    """A back-off with a constant delay, or with a random one around it.

    Args:
        delay: The delay, in seconds, or a ``timedelta``.
        jitter: By how much a delay is shorter or longer at most, at random, likewise.

    Raises:
        TypeError: A value is neither a number nor a ``timedelta``.
        ValueError: The delay is not positive and finite, or ``jitter`` is negative or longer than it.
    """

    delay: Time[float] = 0.064
    jitter: Time[float] = 0.0

    def __post_init__(self) -> None:
        _take_seconds(self, "delay")
        object.__setattr__(self, "jitter", seconds(self.jitter, "jitter"))
        if not 0 <= self.jitter <= self.delay:
            raise ValueError(f"jitter must be at least 0 and at most the delay ({self.delay}), not {self.jitter}")

    def delays(self, uniform: Callable[[float, float], float] = random.uniform) -> Iterator[float]:
        """Return the seconds to sleep after each failed attempt, without an end.

        Args:
            uniform: The source of random numbers between two bounds.
        """
        while True:
            yield uniform(self.delay - self.jitter, self.delay + self.jitter)


def _take_seconds(backoff: object, name: str) -> None:
    """Turn a delay into seconds. Raises as :func:`seconds` does, and ``ValueError``: it is not positive."""
    value = seconds(getattr(backoff, name), name)
    if value <= 0:
        raise ValueError(f"{name} must be positive, not {value:g}")
    object.__setattr__(backoff, name, value)
