"""The lock can stand where a ``threading.RLock`` stood: the same names, and the very same rules for the arguments."""

import math
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pyredisson import LockLostError
from tests.promises.kinds import handle, raises_lost
from tests.worlds.base import Remote
from tests.worlds.environments import each_runtime, sync_and_async

pytestmark = each_runtime

BLOCKING = [True, False, 1, 0, 2, None, "yes", [], 1.5]
TIMEOUTS = [-1, -1.0, 0, 0.05, True, False, -2, -0.5, math.nan, math.inf, -math.inf, 1e20, 10**30]
TIMEOUTS += [threading.TIMEOUT_MAX * 2, "5", 5j, timedelta(seconds=5), 5]
NAMED = [{"blocking": False}, {"timeout": 0.05}, {"timeout": -1}, {"timeout": -3}, {"blocking": True, "timeout": 0}]
ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    *(((blocking,), {}) for blocking in BLOCKING),
    *(((blocking, timeout), {}) for blocking in (True, False, 0) for timeout in TIMEOUTS),
    *(((), names) for names in (*NAMED, {"blocking": False, "timeout": 1}, {"wait": 1})),
    ((True, 1, 1), {}),
    ((True,), {"blocking": True}),
]


def outcome(acquire: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    try:
        return acquire(*args, **kwargs)
    except Exception as error:
        return type(error)


@sync_and_async
def test_acquire_accepts_the_arguments_of_threadings(client, alice, bob):
    alice.lock(client, "held").lock()
    theirs, held = bob.lock(client, "held"), threading.Lock()
    held.acquire()
    for number, (args, kwargs) in enumerate(ARGUMENTS):
        expected = outcome(threading.Lock().acquire, args, kwargs)
        lock = alice.lock(client, f"free-{number}")
        assert outcome(lock.acquire, args, kwargs) == expected, (args, kwargs)
        assert lock.locked() == (expected is True)
        if not (expected is True and waits_for_ever(*args, **kwargs)):
            assert outcome(theirs.acquire, args, kwargs) == outcome(held.acquire, args, kwargs), (args, kwargs)
    assert alice.lock(client, "held").is_held_by_current_thread()


def test_acquire_waits_without_a_limit_for_none_as_other_methods_do(world, bob, mine, theirs):
    assert mine.acquire(timeout=None)
    assert theirs.acquire(False, None) is False
    waiting = bob.start(theirs.acquire, timeout=None)
    world.until(lambda: world.waiting(theirs) == 1)
    mine.release()
    assert waiting.result() is True


@pytest.mark.parametrize("kind", ["lock", "fair_lock", "token_lock", "read_lock", "multi_lock"])
def test_a_block_gives_the_handle(world, client, alice, kind):
    if kind == "multi_lock":
        lock = Remote(client.real.get_multi_lock(client.real.get_lock("a"), client.real.get_lock("b")), alice)
    else:
        lock = handle(alice, client, kind)
    with lock as held:
        assert getattr(held, "real", held) is lock.real
        assert lock.extend(90)
        assert 80 < (world.redis.ttl("a" if kind == "multi_lock" else "orders") or 0) <= 90


def waits_for_ever(blocking: Any = True, timeout: Any = -1) -> bool:
    return bool(blocking) and (timeout == -1 or timeout > 1 or timeout is True)


def test_the_state_can_be_printed(world, client, alice, bob, mine):
    assert repr(mine) == "<Lock 'orders'>"
    mine.lock()
    mine.lock()
    waiting = bob.start(bob.lock(client).lock)
    world.until(lambda: world.waiting(mine) == 1)
    assert repr(mine) == f"<Lock 'orders' held by {client.id[:4]}…:{alice.number} ×2, 1 waiting here>"
    mine.unlock()
    mine.unlock()
    waiting.result()


@pytest.mark.parametrize("kind", ["lock", "multi_lock"])
def test_what_has_ended_is_not_printed_as_held(world, client, alice, kind):
    mine = handle(alice, client, kind)
    mine.lock(1)
    assert " held by " in repr(mine.real)
    world.pass_time(1)
    assert " by " not in repr(mine.real), "it is in no one's way"
    raises_lost(mine.unlock)
    with pytest.raises(LockLostError), mine.hold(lease_time=1):
        world.pass_time(1)
        assert " lost by " in repr(mine.real)
