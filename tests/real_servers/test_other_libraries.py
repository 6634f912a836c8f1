"""What the README says of other libraries, as far as it is about what they do without a lock being lost in between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import redis
from redis.exceptions import LockNotOwnedError

from tests.proxy import Proxy
from tests.real_servers.test_quorum_peers import needs
from tests.servers import Server
from tests.waiting import until

SHORT = 0.2  # seconds: a lease that ends within the test


def is_gone(direct: redis.Redis, key: str) -> None:
    """Wait until a lock that nothing renews has expired."""
    until(lambda: not direct.exists(key), what=f"{key} expired, renewed by nothing")


# ---- redis-py --------------------------------------------------------------------------------------------------------


def test_a_lock_of_redis_py_never_expires_by_default(direct: redis.Redis, unique_name: str) -> None:
    lock = direct.lock(unique_name)
    assert lock.acquire(blocking=False)
    assert direct.pttl(unique_name) == -1
    lock.release()


def test_a_lock_of_redis_py_is_not_renewed_and_reports_that_at_its_release(
    direct: redis.Redis, unique_name: str
) -> None:
    lock = direct.lock(unique_name, timeout=SHORT)
    assert lock.acquire(blocking=False)
    is_gone(direct, unique_name)
    with pytest.raises(LockNotOwnedError):
        lock.release()


def test_a_lock_of_redis_py_is_not_reentrant(direct: redis.Redis, unique_name: str) -> None:
    lock = direct.lock(unique_name, timeout=10)
    assert lock.acquire(blocking=False)
    assert not lock.acquire(blocking=False)
    lock.release()


def test_a_lost_reply_leaves_a_lock_of_redis_py_held_and_refused(
    proxy: Proxy, direct: redis.Redis, unique_name: str
) -> None:
    """It repeats the request, and is refused by its own first one."""
    with redis.Redis(port=proxy.port) as client:
        client.ping()
        lost = proxy.drop_reply("SET", then="reset")
        acquired = client.lock(unique_name, timeout=10).acquire(blocking=False)
        assert lost.hits == 1
    assert not acquired
    assert direct.exists(unique_name)
    direct.delete(unique_name)


# ---- pottery ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def pottery_lock(direct: redis.Redis, unique_name: str) -> Any:
    """Makes locks of the test's name, with the key ``redlock:<name>``."""
    needs("pottery", "pip install pottery")
    from pottery import Redlock

    return lambda **settings: Redlock(key=unique_name, masters={direct}, **settings)


def test_a_lock_of_pottery_expires_after_ten_seconds_by_default(
    pottery_lock: Any, direct: redis.Redis, unique_name: str
) -> None:
    lock = pottery_lock()
    assert lock.acquire(blocking=False)
    assert 5_000 < direct.pttl(f"redlock:{unique_name}") <= 10_000
    lock.release()


def test_a_lock_of_pottery_is_not_renewed_and_reports_that_at_its_release(
    pottery_lock: Any, direct: redis.Redis, unique_name: str
) -> None:
    from pottery import ReleaseUnlockedLock

    lock = pottery_lock(auto_release_time=SHORT)
    assert lock.acquire(blocking=False)
    is_gone(direct, f"redlock:{unique_name}")
    with pytest.raises(ReleaseUnlockedLock):
        lock.release()


def test_a_lock_of_pottery_is_not_reentrant(pottery_lock: Any, direct: redis.Redis, unique_name: str) -> None:
    lock = pottery_lock()
    assert lock.acquire(blocking=False)
    assert not lock.acquire(blocking=False)
    direct.delete(f"redlock:{unique_name}")  # Its second attempt has replaced the id by which it could release it.


# ---- redlock-ng ------------------------------------------------------------------------------------------------------


@pytest.fixture
def redlock_ng(valkey: Server) -> Iterator[Any]:
    """Makes locks on one server."""
    needs("redlock", "pip install --no-deps redlock-ng, whose requirements exclude today's redis-py")
    needs("pydantic", "redlock-ng needs it: pip install pydantic")
    from redlock import Redlock, RedlockConfig

    # Its own 100 ms are few on a machine at work.
    config = RedlockConfig(masters=[valkey.url], socket_timeout=2.0, socket_connect_timeout=2.0)
    made = Redlock(config, retry_count=0)
    yield made
    for instance in made.client.instances:
        instance.close()


def test_a_lock_of_redlock_ng_is_not_renewed_and_its_release_reports_nothing(
    redlock_ng: Any, direct: redis.Redis, unique_name: str
) -> None:
    lock = redlock_ng.acquire(unique_name, int(SHORT * 1000))
    assert lock is not None
    assert lock.validity > 0
    is_gone(direct, unique_name)
    redlock_ng.release(lock)


def test_a_lock_of_redlock_ng_is_not_reentrant(redlock_ng: Any, unique_name: str) -> None:
    lock = redlock_ng.acquire(unique_name, 10_000)
    assert lock is not None
    assert redlock_ng.acquire(unique_name, 10_000) is None
    redlock_ng.release(lock)
