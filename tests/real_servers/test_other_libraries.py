"""What the README says of other libraries, as far as it is about what they do without a lock being lost in between."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest
import redis
from redis.exceptions import LockNotOwnedError, RedisError
from redis.lock import Lock as RedisPyLock

from pyredisson import Redisson
from pyredisson.compat.redis_py import Lock as DropIn
from tests.servers import Server
from tests.waiting import until

SHORT = 0.2  # seconds: a lease that ends within the test
LONG = 10.0


def needs(module: str, wanted: str) -> None:
    """Skip the test, or fail it under ``PYREDISSON_REQUIRE_ALL=1``, without this module."""
    if find_spec(module) is None:
        reason = f"no module {module}: {wanted}"
        if os.environ.get("PYREDISSON_REQUIRE_ALL") == "1":
            pytest.fail(f"PYREDISSON_REQUIRE_ALL=1: {reason}", pytrace=False)
        pytest.skip(reason)


class RedisPy:
    """A lock of redis-py."""

    def __init__(self, server: Server, direct: redis.Redis, name: str) -> None:
        self.key, self._make = name, lambda seconds: direct.lock(name, timeout=seconds)
        self.error: type[Exception] | None = LockNotOwnedError

    def acquire(self, seconds: float | None) -> Callable[[], object] | None:
        """Return the call that releases it, if it was acquired."""
        lock = self._make(seconds)
        return lock.release if lock.acquire(blocking=False) else None

    def close(self) -> None:
        """Nothing is left open."""


class Pottery(RedisPy):
    """A lock of pottery, whose key begins with ``redlock:``."""

    def __init__(self, server: Server, direct: redis.Redis, name: str) -> None:
        needs("pottery", "pip install pottery")
        from pottery import Redlock, ReleaseUnlockedLock

        self.key, self.error = f"redlock:{name}", ReleaseUnlockedLock
        self._make = lambda seconds: Redlock(
            key=name, masters={direct}, **({} if seconds is None else {"auto_release_time": seconds})
        )


class RedlockNg:
    """A lock of redlock-ng, whose release reports nothing."""

    error: type[Exception] | None = None

    def __init__(self, server: Server, direct: redis.Redis, name: str) -> None:
        needs("redlock", "pip install --no-deps redlock-ng, whose requirements exclude today's redis-py")
        needs("pydantic", "redlock-ng needs it: pip install pydantic")
        from redlock import Redlock, RedlockConfig

        self.key = name
        # Its own 100 ms are few on a machine at work.
        config = RedlockConfig(masters=[server.url], socket_timeout=2.0, socket_connect_timeout=2.0)
        self._made = Redlock(config, retry_count=0)

    def acquire(self, seconds: float) -> Callable[[], object] | None:
        lock = self._made.acquire(self.key, int(seconds * 1000))
        assert lock is None or lock.validity > 0
        return None if lock is None else lambda: self._made.release(lock)

    def close(self) -> None:
        for instance in self._made.client.instances:
            instance.close()


@pytest.fixture(params=[RedisPy, Pottery, RedlockNg], ids=lambda each: each.__name__)
def library(request: pytest.FixtureRequest, valkey: Server, direct: redis.Redis, unique_name: str) -> Iterator[Any]:
    """Each library in turn, with a lock of the test's name."""
    library = request.param(valkey, direct, unique_name)
    yield library
    library.close()


def test_a_lock_is_not_renewed_and_its_release_reports_that_or_nothing(library, direct):
    release = library.acquire(SHORT)
    until(lambda: not direct.exists(library.key), what="it expired, renewed by nothing")
    if library.error is None:
        release()
    else:
        with pytest.raises(library.error):
            release()


def test_a_lock_is_not_reentrant(library, direct):
    assert library.acquire(LONG)
    assert library.acquire(LONG) is None
    direct.delete(library.key)


def test_a_token_lock_excludes_it_and_is_excluded_by_it(library, valkey, direct):
    with Redisson.from_url(valkey.url) as client:
        mine = client.get_token_lock(library.key)
        release = library.acquire(LONG)
        assert release
        assert mine.try_lock() is False
        release()
        assert mine.try_lock() is True
        assert library.acquire(LONG) is None
        mine.unlock()
    assert library.acquire(LONG)
    direct.delete(library.key)


def test_a_lock_of_redis_py_never_expires_by_default(valkey, direct, unique_name):
    release = RedisPy(valkey, direct, unique_name).acquire(None)
    assert release is not None
    assert direct.pttl(unique_name) == -1
    release()


def test_a_lock_of_pottery_expires_after_ten_seconds_by_default(valkey, direct, unique_name):
    library = Pottery(valkey, direct, unique_name)
    release = library.acquire(None)
    assert release is not None
    assert 5_000 < direct.pttl(library.key) <= 10_000
    release()


def test_a_lost_reply_leaves_a_lock_of_redis_py_held_and_refused(proxy, direct, unique_name):
    """It repeats the request, and is refused by its own first one."""
    with redis.Redis(port=proxy.port) as client:
        client.ping()
        lost = proxy.drop_reply("SET", then="reset")
        acquired = client.lock(unique_name, timeout=10).acquire(blocking=False)
        assert lost.hits == 1
    assert not acquired
    assert direct.exists(unique_name)
    direct.delete(unique_name)


# ---- the drop-in for redis-py's lock ---------------------------------------------------------------------------------

#: What is called, and of how much time (in seconds) the lease is before.
DROP_IN_CALLS: dict[str, Callable[[Any], object]] = {
    "acquire again": lambda lock: lock.acquire(blocking=False),
    "acquire again, waiting": lambda lock: lock.acquire(blocking_timeout=0.1),
    "extend": lambda lock: lock.extend(10),
    "extend by a fraction": lambda lock: lock.extend(10.4),
    "extend, replacing": lambda lock: lock.extend(15, replace_ttl=True),
    "locked": lambda lock: lock.locked(),
    "owned": lambda lock: lock.owned(),
    "reacquire": lambda lock: lock.reacquire(),
    "release": lambda lock: lock.release(),
}


@pytest.mark.parametrize(
    "state", ["held", "taken away", "never acquired", "without a timeout", "another type", "replaced by another type"]
)
@pytest.mark.parametrize("call", DROP_IN_CALLS)
def test_the_drop_in_does_what_the_lock_of_redis_py_does(direct, unique_name, state, call):
    """The same results, errors and leases, but for those that the documentation names."""

    def outcome(kind):
        lock = kind(direct, unique_name, timeout=None if state == "without a timeout" else 20, sleep=0.01)
        if state not in ("never acquired", "another type"):
            assert lock.acquire(token="a token")
            direct.pexpire(unique_name, 5_000)
        if state == "taken away":
            direct.set(unique_name, "another", px=5_000)
        if "another type" in state:
            direct.delete(unique_name)
            direct.hset(unique_name, "another:1", "1")
            direct.pexpire(unique_name, 5_000)
        try:
            result = DROP_IN_CALLS[call](lock)
        except RedisError as error:
            result = type(error)
        left = direct.pttl(unique_name)
        mine = direct.type(unique_name) == "string" and direct.get(unique_name) == "a token"
        direct.delete(unique_name)
        return result, round(left / 1000), mine

    assert outcome(DropIn) == outcome(RedisPyLock)
