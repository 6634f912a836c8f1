"""The lock can stand where a ``threading.RLock`` stood: the same names, and the very same rules for the arguments."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.worlds.base import World
from tests.worlds.environments import each_runtime, sync_and_async

ARGUMENTS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((True,), {}),
    ((False,), {}),
    ((1,), {}),
    ((0,), {}),
    ((2,), {}),
    ((None,), {}),
    (("yes",), {}),
    (([],), {}),
    ((1.5,), {}),
    ((True, -1), {}),
    ((True, -1.0), {}),
    ((True, 0), {}),
    ((True, 0.05), {}),
    ((True, True), {}),
    ((True, False), {}),
    ((True, -2), {}),
    ((True, -0.5), {}),
    ((True, math.nan), {}),
    ((True, math.inf), {}),
    ((True, -math.inf), {}),
    ((True, 1e20), {}),
    ((True, 10**30), {}),
    ((True, threading.TIMEOUT_MAX * 2), {}),
    ((True, None), {}),
    ((True, "5"), {}),
    ((True, 5j), {}),
    ((True, timedelta(seconds=5)), {}),
    ((False, -1), {}),
    ((False, 0), {}),
    ((False, 5), {}),
    ((False, math.nan), {}),
    ((0, 5), {}),
    ((), {"blocking": False}),
    ((), {"timeout": 0.05}),
    ((), {"timeout": -1}),
    ((), {"timeout": -3}),
    ((), {"blocking": True, "timeout": 0}),
    ((), {"blocking": False, "timeout": 1}),
    ((), {"wait": 1}),
    ((True, 1, 1), {}),
    ((True,), {"blocking": True}),
]


def outcome(acquire: Callable[..., object], args: tuple[Any, ...], kwargs: dict[str, Any]) -> object:
    try:
        return acquire(*args, **kwargs)
    except Exception as error:
        return type(error)


@sync_and_async
def test_acquire_of_a_free_lock_accepts_the_arguments_of_threadings(world: World) -> None:
    alice = world.actor()
    client = world.client()
    for number, (args, kwargs) in enumerate(ARGUMENTS):
        expected = outcome(threading.Lock().acquire, args, kwargs)
        lock = alice.lock(client, f"order-{number}")
        assert outcome(lock.acquire, args, kwargs) == expected, (args, kwargs)
        assert lock.locked() == (expected is True)


@sync_and_async
def test_acquire_of_a_held_lock_accepts_the_arguments_of_threadings(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    alice.lock(client).lock()
    theirs = bob.lock(client)
    held = threading.Lock()
    held.acquire()
    for args, kwargs in ARGUMENTS:
        if outcome(threading.Lock().acquire, args, kwargs) is True and waits_for_ever(*args, **kwargs):
            continue
        assert outcome(theirs.acquire, args, kwargs) == outcome(held.acquire, args, kwargs), (args, kwargs)
    assert alice.lock(client).is_held_by_current_thread()


def waits_for_ever(blocking: Any = True, timeout: Any = -1) -> bool:
    return bool(blocking) and (timeout == -1 or timeout > 1 or timeout is True)


def test_acquire_and_release(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine, theirs = alice.lock(client), bob.lock(client)
    assert mine.locked() is False
    assert mine.acquire() is True
    assert mine.acquire() is True
    assert mine.locked() is True
    assert theirs.locked() is True
    assert theirs.acquire(blocking=False) is False
    assert theirs.acquire(timeout=0.05) is False
    mine.release()
    assert theirs.acquire(blocking=False) is False
    assert mine.release() is None
    assert theirs.acquire(timeout=5) is True


def test_acquire_waits(world: World) -> None:
    client = world.client()
    alice, bob, carol = world.actors(3)
    mine, theirs, others = alice.lock(client), bob.lock(client), carol.lock(client)
    mine.acquire()
    for_ever, for_long = bob.start(theirs.acquire), carol.start(others.acquire, timeout=9)
    world.until(lambda: world.waiting(mine) == 2)
    assert not for_ever.done()
    mine.release()
    world.until(lambda: for_ever.done() or for_long.done())
    (theirs if for_ever.done() else others).release()
    assert for_ever.result() is True
    assert for_long.result() is True


def test_releasing_what_one_does_not_hold_is_a_runtime_error(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    with pytest.raises(RuntimeError):
        alice.lock(client).release()
    bob.lock(client).acquire()
    with pytest.raises(RuntimeError):
        alice.lock(client).release()


def test_a_block_holds_the_lock(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine, theirs = alice.lock(client), bob.lock(client)
    with mine as value:
        assert value is True  # As with threading's.
        assert mine.get_hold_count() == 1
        with mine:
            assert mine.get_hold_count() == 2
        assert not theirs.try_lock()
    assert theirs.try_lock()


def test_a_block_is_left_by_an_exception(world: World) -> None:
    mine = world.actor().lock(world.client())
    with pytest.raises(ZeroDivisionError), mine:
        raise ZeroDivisionError
    assert not mine.is_locked()


def test_a_block_waits(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine, theirs = alice.lock(client), bob.lock(client)
    mine.lock()
    entering = bob.start(theirs.enter)
    world.until(lambda: world.waiting(mine) == 1)
    mine.unlock()
    entering.result(within=5)
    assert theirs.is_held_by_current_thread()


@each_runtime
def test_the_state_can_be_printed(world: World) -> None:
    client = world.client()
    alice, bob = world.actors(2)
    mine = alice.lock(client)
    assert repr(mine) == "<Lock 'orders'>"
    mine.lock()
    mine.lock()
    waiting = bob.start(bob.lock(client).lock)
    world.until(lambda: world.waiting(mine) == 1)
    assert repr(mine) == f"<Lock 'orders' held by {client.id[:4]}…:{alice.number} ×2, 1 waiting here>"
    mine.unlock()
    mine.unlock()
    waiting.result()
