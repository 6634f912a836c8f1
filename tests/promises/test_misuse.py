"""Uses that cannot work say so at once, and say what to do instead."""

import copy
import gc
import inspect
import pickle
import warnings

import pytest
import redis

from tests.promises.kinds import handle, single
from tests.worlds.environments import sync_and_async

pytestmark = sync_and_async

KINDS = ["Lock", "FairLock", "SpinLock", "FencedLock", "TokenLock", "NonReentrantLock", "NonReentrantFairLock"]
KINDS += ["ReadWriteLock", "Semaphore", "PermitExpirableSemaphore", "CountDownLatch"]


@pytest.mark.parametrize("kind", KINDS)
def test_constructing_an_object_directly_raises_naming_the_method_to_use(world, kind):
    made = getattr(world.api, kind)
    users = redis.Redis()
    for arguments in [("orders",), (users, "orders"), (world.client().real, "orders")]:
        with pytest.raises(TypeError, match=r"client\.get_\w+\('orders'\)") as refusal:
            made(*arguments)
        method = str(refusal.value).split("client.")[1].split("(")[0]
        assert type(getattr(world.client().real, method)("orders")) is made
    with pytest.raises(TypeError, match=r"client\.get_"):
        made()
    users.close()


GETTERS = ["lock", "fair_lock", "fenced_lock", "token_lock", "read_write_lock"]
GETTERS += ["semaphore", "permit_expirable_semaphore", "count_down_latch"]


@pytest.mark.parametrize("make_copy", [pickle.dumps, copy.copy, copy.deepcopy], ids=lambda each: each.__name__)
def test_nothing_can_be_pickled_or_copied(world, make_copy, client):
    for kind in GETTERS:
        with pytest.raises(TypeError, match="cannot be pickled or copied") as refusal:
            make_copy(getattr(client.real, f"get_{kind}")("orders"))
        assert f"Redisson.from_url('{client.url}').get_{kind}('orders')" in str(refusal.value)
    with pytest.raises(TypeError, match=r"cannot be pickled or copied.*Redisson\.from_url\("):
        make_copy(client.real)
    lock = world.actor().lock(client)
    hold = lock.hold()
    with hold as lease:
        for thing in (hold.real, lease, world.api.MultiLock(lock.real)):
            with pytest.raises(TypeError, match=r"cannot be pickled or copied.*acquires the lock itself") as refusal:
                make_copy(thing)
            assert "from_url" not in str(refusal.value)
    client = world.api.Redisson.from_url("redis://:hunter2@localhost:1/0")
    for thing in (client, client.get_lock("orders")):
        with pytest.raises(TypeError, match="password") as refusal:
            make_copy(thing)
        assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("kind", ["lock", "fenced_lock", "semaphore", "permit_expirable_semaphore"])
def test_a_hold_that_is_never_entered_is_warned_of(world, alice, kind):
    mine = single(alice, world.client(), kind)

    def forget():
        mine.hold()
        alice.do(gc.collect)

    with pytest.warns(ResourceWarning, match=r"hold\(\) of 'orders' was never entered"):
        forget()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with mine.hold():
            pass
        alice.do(gc.collect)


def test_synchronized_without_parentheses_is_refused_at_once(world):
    client = world.client().real

    def ship(): ...

    async def ship_async(): ...

    for function in (ship, ship_async):
        with pytest.raises(TypeError, match=r"@client\.synchronized\(\"ship"):
            client.synchronized(function)
    with pytest.raises(TypeError, match=r"@client\.synchronized\("):
        client.synchronized(7)


@pytest.mark.parametrize(
    ("kind", "call", "wrong", "right"),
    [
        ("lock", "Lock.try_lock", "timeout", "use wait_time"),
        ("fair_lock", "FairLock.hold", "blocking_timeout", "use wait_time"),
        ("fenced_lock", "FencedLock.lock_and_get_token", "ttl", "use lease_time"),
        ("lock", "Lock.acquire", "lease_time", "it takes blocking and timeout; try_lock() and hold() take lease_time"),
        ("lock", "Lock.lock", "timeout", "it takes lease_time; try_lock()"),
        ("lock", "Lock.try_lock", "patience", "it takes wait_time and lease_time"),
        ("multi_lock", "MultiLock.try_lock", "timeout", "use wait_time"),
        ("semaphore", "Semaphore.acquire", "wait_time", "use timeout"),
        ("semaphore", "Semaphore.hold", "timeout", "use wait_time"),
        ("permit_expirable_semaphore", "PermitExpirableSemaphore.try_acquire", "timeout", "use wait_time"),
        (
            "permit_expirable_semaphore",
            "PermitExpirableSemaphore.acquire",
            "timeout",
            "it takes lease_time and permits",
        ),
        ("count_down_latch", "CountDownLatch.wait", "wait_time", "use timeout"),
    ],
)
def test_a_wrong_keyword_names_the_right_one(world, kind, call, wrong, right):
    method = getattr(handle(world.actor(), world.client(), kind), call.partition(".")[2])
    with pytest.raises(TypeError) as refusal:
        method(**{wrong: 5})
    assert str(refusal.value).startswith(f"{call}() has no keyword argument {wrong!r}: {right}")
    assert "unknown" not in str(inspect.signature(method.method))


def test_a_wrong_keyword_of_a_client_says_where_it_belongs(world):
    with pytest.raises(TypeError, match=r"Redisson\(\) has no keyword argument 'url': use Redisson\.from_url\(url\)"):
        world.api.Redisson(url="redis://h")
    with pytest.raises(TypeError, match=r"use config=Config\(timeout=\.\.\.\)"):
        world.api.Redisson(timeout=5)
