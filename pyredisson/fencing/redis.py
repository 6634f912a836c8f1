"""Fencing guards for keys of Redis. The check and the write are one script, so they are atomic.

The greatest token seen for a string is kept in a second key (``pyredisson_fence:{key}``, which never expires); for a
hash it is one of its fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, final

from pyredisson._core.deadline import Seconds, whole_ms
from pyredisson._core.names import fence_key
from pyredisson._net.wire import script
from pyredisson.fencing.tokens import check_token, stale

if TYPE_CHECKING:
    import redis
    import redis.asyncio


__all__ = ["AsyncGuard", "Guard", "Value"]

Value: TypeAlias = str | bytes | int | float
"""The types that redis-py accepts as a value."""


def _prepare(name: str, keys: tuple[str, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of redis-py's ``eval()`` for a script."""
    return (script(name).text.decode(), len(keys), *keys, *args)


def _set(key: str, value: Value, token: int, ttl: Seconds | None) -> tuple[Any, ...]:
    args = check_token(token), value, "" if ttl is None else whole_ms(ttl)
    return _prepare("fence_set", (key, fence_key(key)), args)


def _hset(key: str, mapping: Mapping[str, Value], token: int, fence: str) -> tuple[Any, ...]:
    if fence in mapping:
        raise ValueError(f"{fence!r} is the field of the fencing token, which the guard sets")
    pairs = (each for pair in mapping.items() for each in pair)
    return _prepare("fence_hset", (key,), (check_token(token), fence, *pairs))


def _advance(key: str, token: int) -> tuple[Any, ...]:
    return _prepare("fence_advance", (fence_key(key),), (check_token(token),))


def _check(reply: str | bytes | None, key: str, token: int) -> None:
    if reply is not None:
        _refuse(key, token, int(reply))


def _refuse(key: str, token: int, seen: int) -> NoReturn:
    raise stale(key, token, seen)


@final
class Guard:
    """A guard that writes to Redis unless it has seen a greater fencing token for the same key.

    It orders the writes of different holders, not those of one: a request that redis-py repeats may be executed twice.

    Args:
        redis: A redis-py client of the server with the data.
    """

    def __init__(self, redis: redis.Redis) -> None:
        self._redis = redis

    def set(self, key: str, value: Value, *, token: int, ttl: Seconds | None = None) -> None:
        """``SET`` a key.

        Args:
            key: The key.
            value: The value.
            token: The fencing token of the caller's hold.
            ttl: Seconds until the value expires; the recorded token stays.

        Raises:
            StaleTokenError: A later holder has written to the key; nothing was written.
            TypeError, ValueError: The token is not valid.
        """
        _check(self._redis.eval(*_set(key, value, token, ttl)), key, token)

    def hset(self, key: str, mapping: Mapping[str, Value], *, token: int, fence: str = "fence") -> None:
        """``HSET`` fields of a hash. Raises as :meth:`set`.

        Args:
            key: The key.
            mapping: The fields and their values.
            token: The fencing token of the caller's hold.
            fence: The field that keeps the token; deleting the hash deletes it.
        """
        _check(self._redis.eval(*_hset(key, mapping, token, fence)), key, token)

    def advance(self, resource: str, *, token: int) -> None:
        """Record a token and write nothing, for data that is stored elsewhere. Raises as :meth:`set`."""
        _check(self._redis.eval(*_advance(resource, token)), resource, token)


@final
class AsyncGuard:
    """A guard that writes to Redis unless it has seen a greater fencing token for the same key.

    It orders the writes of different holders, not those of one: a request that redis-py repeats may be executed twice.

    Args:
        redis: A redis-py asyncio client of the server with the data.
    """

    def __init__(self, redis: redis.asyncio.Redis) -> None:
        self._redis: Any = redis

    async def set(self, key: str, value: Value, *, token: int, ttl: Seconds | None = None) -> None:
        """``SET`` a key.

        Args:
            key: The key.
            value: The value.
            token: The fencing token of the caller's hold.
            ttl: Seconds until the value expires; the recorded token stays.

        Raises:
            StaleTokenError: A later holder has written to the key; nothing was written.
            TypeError, ValueError: The token is not valid.
        """
        _check(await self._redis.eval(*_set(key, value, token, ttl)), key, token)

    async def hset(self, key: str, mapping: Mapping[str, Value], *, token: int, fence: str = "fence") -> None:
        """``HSET`` fields of a hash. Raises as :meth:`set`.

        Args:
            key: The key.
            mapping: The fields and their values.
            token: The fencing token of the caller's hold.
            fence: The field that keeps the token; deleting the hash deletes it.
        """
        _check(await self._redis.eval(*_hset(key, mapping, token, fence)), key, token)

    async def advance(self, resource: str, *, token: int) -> None:
        """Record a token and write nothing, for data that is stored elsewhere. Raises as :meth:`set`."""
        _check(await self._redis.eval(*_advance(resource, token)), resource, token)
