"""A fence before keys of Redis. The check and the write are one script, so that nobody comes in between.

The greatest token seen for a string is in a key beside it (``pyredisson_fence:{key}``, which never ends); for a hash it
is one of its fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, final

from pyredisson.core import scripts
from pyredisson.core.deadline import whole_ms
from pyredisson.fencing.tokens import check_token, stale
from pyredisson.net.resp import script

if TYPE_CHECKING:
    import redis
    import redis.asyncio

    from pyredisson.core.deadline import Seconds

__all__ = ["AsyncGuard", "Guard", "Value"]

Value: TypeAlias = str | bytes | int | float
"""What redis-py takes for a value."""


class _Maker:
    """Makes a script's call for redis-py's ``eval()``."""

    def prepare(self, name: str, keys: tuple[str, ...], args: tuple[Any, ...]) -> tuple[Any, ...]:
        return (script(name).text.decode(), len(keys), *keys, *args)


_maker = _Maker()


def _set(key: str, value: Value, token: int, ttl: Seconds | None) -> tuple[Any, ...]:
    made: tuple[Any, ...] = scripts.set_fenced(
        _maker, key, value, token=check_token(token), ttl_ms=None if ttl is None else whole_ms(ttl)
    )
    return made


def _hset(key: str, mapping: Mapping[str, Value], token: int, fence: str) -> tuple[Any, ...]:
    if fence in mapping:
        raise ValueError(f"{fence!r} is the field of the token, which is not yours to set")
    made: tuple[Any, ...] = scripts.hset_fenced(_maker, key, mapping, token=check_token(token), fence=fence)
    return made


def _advance(key: str, token: int) -> tuple[Any, ...]:
    made: tuple[Any, ...] = scripts.advance_fence(_maker, key, token=check_token(token))
    return made


def _check(reply: str | bytes | None, key: str, token: int) -> None:
    if reply is not None:
        _refuse(key, token, int(reply))


def _refuse(key: str, token: int, seen: int) -> NoReturn:
    raise stale(key, token, seen)


@final
class Guard:
    """Writes to Redis, unless a greater fencing token has been there before.

    A fence keeps holders apart, not the writes of one: a request that redis-py repeats may be executed twice.

    Args:
        redis: The client of redis-py for where the data is.
    """

    def __init__(self, redis: redis.Redis) -> None:
        self._redis = redis

    def set(self, key: str, value: Value, *, token: int, ttl: Seconds | None = None) -> None:
        """``SET`` a key.

        Args:
            key: The key.
            value: What is written.
            token: The token of the hold under which this is written.
            ttl: Seconds until the value ends; the fence stays.

        Raises:
            StaleTokenError: A later holder has written there; nothing was written now.
            TypeError, ValueError: The token is none.
        """
        _check(self._redis.eval(*_set(key, value, token, ttl)), key, token)

    def hset(self, key: str, mapping: Mapping[str, Value], *, token: int, fence: str = "fence") -> None:
        """``HSET`` fields of a hash; ``fence`` is the one for the token. Raises as :meth:`set`.

        Whoever deletes the hash deletes the fence.
        """
        _check(self._redis.eval(*_hset(key, mapping, token, fence)), key, token)

    def advance(self, resource: str, *, token: int) -> None:
        """Note a token and write nothing, for data that is somewhere else. Raises as :meth:`set`."""
        _check(self._redis.eval(*_advance(resource, token)), resource, token)


@final
class AsyncGuard:
    """The asyncio twin of :class:`Guard`."""

    def __init__(self, redis: redis.asyncio.Redis) -> None:
        self._redis: Any = redis

    async def set(self, key: str, value: Value, *, token: int, ttl: Seconds | None = None) -> None:
        """See :meth:`Guard.set`."""
        _check(await self._redis.eval(*_set(key, value, token, ttl)), key, token)

    async def hset(self, key: str, mapping: Mapping[str, Value], *, token: int, fence: str = "fence") -> None:
        """See :meth:`Guard.hset`."""
        _check(await self._redis.eval(*_hset(key, mapping, token, fence)), key, token)

    async def advance(self, resource: str, *, token: int) -> None:
        """See :meth:`Guard.advance`."""
        _check(await self._redis.eval(*_advance(resource, token)), resource, token)
