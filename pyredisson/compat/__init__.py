"""What the drop-in locks for threads and asyncio share: arguments, errors, and the client they use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import redis.exceptions as rx

from pyredisson._core.deadline import DoublingBackoff, explicit, seconds, whole_ms
from pyredisson._core.failures import is_wrong_type
from pyredisson._core.names import check_name
from pyredisson._kinds.token_lock import TokenLockCore
from pyredisson.errors import LockError, LockNotOwnedError, OutcomeUnknownError, RedissonError

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.owners import HandleOwner

LEAST_SLEEP = 0.001


class Place:
    """Where a lock object keeps its hold: ``lock.local``, as in redis-py."""

    _hold: TokenLockCore | None = None

    @property
    def hold(self) -> TokenLockCore | None:
        """The hold of the caller."""
        return self._hold

    @hold.setter
    def hold(self, hold: TokenLockCore | None) -> None:
        self._hold = hold

    @property
    def token(self) -> bytes | None:
        """The value in Redis, or ``None`` if nothing is held."""
        return None if self.hold is None else self.hold.token().encode()


@dataclass(frozen=True)
class Settings:
    """The arguments of a lock object, checked once.

    Raises:
        ValueError, TypeError: An argument is not valid.
    """

    name: str
    timeout: float | None
    sleep: float

    def __post_init__(self) -> None:
        check_name(self.name)
        seconds(self.sleep, "sleep")
        if self.timeout:
            whole_ms(self.timeout)

    def core(
        self,
        client: ClientCore,
        owner: HandleOwner | None = None,
        *,
        token: str | None = None,
        sleep: float | None = None,
    ) -> TokenLockCore:
        """Return the core of a possible hold, with an owner of its own and a token."""
        longest = max(seconds(self.sleep if sleep is None else sleep, "sleep"), LEAST_SLEEP)
        return TokenLockCore(client, self.name, DoublingBackoff(longest, longest), owner=owner, token=token)

    def milliseconds(self, time: float | None, do: str) -> int:
        """Return the time in milliseconds for ``extend`` or ``reacquire``.

        Raises:
            redis.exceptions.LockError: The lock has no timeout.
        """
        if self.timeout is None or time is None:
            raise rx.LockError(f"Cannot {do} a lock with no timeout", lock_name=self.name)
        return whole_ms(time)


RedisT = TypeVar("RedisT")
NameT = TypeVar("NameT", bound="str | bytes | memoryview")


class LockBase(ABC, Generic[RedisT, NameT]):
    """What the locks for threads and asyncio share: their arguments, and what they hold.

    Attributes:
        local: The hold, of each thread or task its own with ``thread_local``.
    """

    _places: ClassVar[type[Place]]

    def __init__(
        self,
        redis: RedisT,
        name: NameT,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> None:
        self.redis: RedisT = redis
        self.name: NameT = name
        self.timeout = timeout
        self.sleep = sleep
        self.blocking = blocking
        self.blocking_timeout = blocking_timeout
        self.thread_local: bool = bool(thread_local)
        self.raise_on_release_error = raise_on_release_error
        self.local: Place = self._places() if self.thread_local else Place()
        self._settings = Settings(text_of(name), timeout, sleep)
        self._core: ClientCore = self._core_of(redis)
        self._asking = self._settings.core(self._core)

    @staticmethod
    @abstractmethod
    def _core_of(redis: Any) -> ClientCore:
        """Return the core of the client that serves the locks of a redis-py client, or of this library's client."""

    def _wait(self, blocking: bool | None, longest: float | None) -> float | None:
        """Return the seconds to wait, by the arguments of ``acquire()``, or else of the lock."""
        return wait_of(
            self.blocking if blocking is None else blocking, self.blocking_timeout if longest is None else longest
        )

    def _held(self, what: str) -> TokenLockCore:
        hold = self.local.hold
        if hold is None:
            raise rx.LockError(f"Cannot {what}", lock_name=self._settings.name)
        return hold


async def acquire(core: TokenLockCore, wait: float | None, timeout: float | None, sleep: float) -> bool:
    """Acquire the lock. As for redis-py's ``SET NX``, a key of another type is in use: it is waited for."""
    runtime = core.client.runtime
    over = None if wait is None else runtime.now() + wait
    while True:
        left = None if over is None else max(0.0, over - runtime.now())
        try:
            return await core.try_lock(left, lease_of(timeout))
        except LockError as error:
            if error.__cause__ is None or not is_wrong_type(error.__cause__):
                raise
        if over is not None and over <= runtime.now():
            return False
        pause = max(sleep, LEAST_SLEEP)
        await runtime.sleep(pause if over is None else min(pause, max(0.0, over - runtime.now())))


async def stored_value(core: TokenLockCore) -> Any:
    """Return what is stored at the lock's key; as in redis-py it is an error if that is no string."""
    try:
        return await core.client.query("GET", core.names.raw)
    except RedissonError as error:
        raise translated(error, core.names.name) from error


def lease_of(timeout: float | None) -> float | None:
    """Return the lease for a redis-py ``timeout``, of any length; ``None``: the lock is renewed."""
    return explicit(seconds(timeout, "timeout")) if timeout else None


def wait_of(blocking: bool, longest: float | None) -> float | None:
    """Return the seconds to wait; ``None``: without a time limit. A negative time means one attempt."""
    if not blocking:
        return 0
    return None if longest is None else max(0.0, seconds(longest, "blocking_timeout"))


def text_of(value: Any) -> str:
    """Return a key or value, as redis-py accepts it, as text."""
    return value if isinstance(value, str) else bytes(value).decode()


def translated(error: RedissonError, name: str) -> Exception:
    """Return the error that redis-py would raise in this case."""
    if isinstance(error, OutcomeUnknownError):
        kind = rx.TimeoutError if isinstance(error.__cause__, rx.TimeoutError) else rx.ConnectionError
        return kind(str(error))
    if isinstance(error.__cause__, rx.ResponseError) and not isinstance(error, LockNotOwnedError):
        return error.__cause__  # What a key of another type is to redis-py.
    if isinstance(error, LockNotOwnedError):
        return rx.LockNotOwnedError(str(error), lock_name=name)
    if isinstance(error, LockError):
        return rx.LockError(str(error), lock_name=name)
    return error


Client = TypeVar("Client")


def client_behind(
    given: Any, kind: type[Client], known: MutableMapping[Any, Client], closed: Callable[[Client], bool]
) -> Client:
    """Return the client of this library for a redis-py client: one per connection pool, while the pool lives."""
    if isinstance(given, kind):
        return given
    pool = getattr(given, "connection_pool", None)
    client = None if pool is None else known.get(pool)
    if client is None or closed(client):
        client = kind(given)  # type: ignore[call-arg]
        known[pool] = client
    return client
