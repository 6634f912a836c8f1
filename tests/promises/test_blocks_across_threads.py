"""Locks in the worker threads of frameworks: what tells requests apart is the context, and blocks are left anywhere.

Frameworks run each call of a request in any free worker thread, in a copy of the request's context (Starlette, anyio,
asyncio.to_thread). ``Request`` does so here.
"""

from __future__ import annotations

import contextvars
import gc
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis

from pyredisson import LockError, LockLostError, LockNotOwnedError, OutcomeUnknownError
from pyredisson._core import releasing
from tests.promises.kinds import each_of, lock_of, make
from tests.worlds.base import KEPT, PATIENCE, Actor, Remote, World
from tests.worlds.environments import sync_and_async, threads_only

pytestmark = threads_only

KINDS = ["lock", "fair_lock", "spin_lock", "fenced_lock", "token_lock", "write_lock", "multi_lock", "red_lock"]
kind = each_of(*KINDS)


class Request:
    """What a framework runs piece by piece, on whatever thread is free, each time in a copy of its context.

    Like ``sync_to_async`` it takes over what the copy has changed, unless it ``forgets`` that, as a thread pool does.
    """

    def __init__(self, *, forgets: bool = False) -> None:
        self._context = contextvars.copy_context()
        self._forgets = forgets

    def run(self, actor: Actor, call: Callable[..., Any], *args: Any) -> Any:
        copy = self._context.run(contextvars.copy_context)
        if not self._forgets:
            self._context = copy
        return actor.do(copy.run, call, *args)

    def request(self) -> Request:
        """Return a request that begins with the context of this one."""
        return self._context.run(Request)


def free(world: World) -> bool:
    return not world.redis.command("EXISTS", "orders")


# ---- blocks of hold() ------------------------------------------------------------------------------------------------


@sync_and_async
@pytest.mark.parametrize("kind", [*KINDS, "read_lock"])
def test_a_block_may_be_left_by_another_thread_or_task(world, kind, alice, bob):
    lock = lock_of(world, kind)
    block = lock.hold()
    lease = alice.do(world.enter(block))
    bob.do(lease.ensure_held)
    if kind != "read_lock":
        assert bob.do(lock.try_lock) is False, "another owner does not join the block"
    bob.do(world.leave(block))
    assert lease.remaining() == 0
    assert bob.do(lock.try_lock) is True
    bob.do(lock.unlock)


@sync_and_async
def test_a_block_outlives_the_thread_or_task_that_entered_it(world, alice, bob):
    """Idle worker threads end: anyio's after ten seconds."""
    lock = world.client(lock_watchdog_timeout=KEPT).real.get_lock("orders")
    block = lock.hold()
    lease = alice.do(world.enter(block))
    alice.end()
    world.renewed("orders")
    assert lease.lost is False
    bob.do(world.leave(block))
    assert free(world)


@sync_and_async
@pytest.mark.parametrize("call", ["acquire", "release", "leave"])
@pytest.mark.parametrize("first", ["the owner", "the other"])
@pytest.mark.parametrize("kind", [kind for kind in [*KINDS, "read_lock"] if kind != "token_lock"])
def test_a_block_is_left_elsewhere_in_the_middle_of_a_call_of_its_owner(
    world, alice, bob, proxy, kind, first, call, caplog
):
    """Their requests are under way at the same time; each is counted once."""
    real = lock_of(world, kind) if kind == "red_lock" else make(world.through(proxy.port), kind)
    lock = Remote(real, alice)
    block, other = lock.hold(), lock.hold()
    block.enter()
    other.enter()
    lock.lock()
    act = {"acquire": lock.real.lock, "release": lock.real.unlock, "leave": world.leave(other.real)}[call]
    calls = [(alice, act), (bob, world.leave(block.real))]
    proxy.latency(0.05)
    with caplog.at_level(logging.WARNING, "pyredisson"):
        for each in [actor.start(act) for actor, act in (calls if first == "the owner" else reversed(calls))]:
            each.result()
    proxy.clear()
    assert [record.message for record in caplog.records] == []
    assert lock.get_hold_count() == {"acquire": 3, "release": 1, "leave": 1}[call]
    for _ in range({"acquire": 2, "release": 0, "leave": 1}[call]):
        lock.unlock()
    if call != "leave":
        alice.do(world.leave(other.real))
    assert lock.is_locked() is False


@sync_and_async
@pytest.mark.parametrize("kind", [*KINDS[:-2], "read_lock"])
def test_a_late_release_of_a_lost_block_leaves_the_next_hold_of_its_owner(world, alice, bob, carol, proxy, kind):
    lock = Remote(make(world.through(proxy.port), kind), alice)
    lock.lock()
    lock.unlock()  # The server knows the scripts now.
    block = lock.hold(lease_time=0.5)
    alice.do(world.enter(block.real))
    world.until(lambda: free(world), what="the lease has run out")
    late = proxy.hold_request("EVALSHA")
    leaving = bob.start(world.leave(block.real))
    world.until(lambda: late.hits == 1, what="its release is under way")
    lock.lock()
    assert late.release()
    assert isinstance(leaving.error(), LockLostError)
    lock.ensure_held()
    assert carol.do(lock_of(world, kind if kind != "read_lock" else "write_lock").try_lock) is False
    lock.unlock()
    assert free(world)


def test_a_block_of_a_request_is_left_in_any_thread(world, alice, bob, carol, kind):
    lock = lock_of(world, kind)
    request = Request(forgets=True)
    hold = lock.hold()
    lease = request.run(alice, hold.__enter__)
    assert Request().run(alice, lock.try_lock) is False, "another request on the same thread"
    assert request.run(carol, lock.try_lock) is False, "another thread"
    assert lease.remaining() > 0
    request.run(bob, hold.__exit__, None, None, None)
    assert carol.do(lock.try_lock)


def test_another_request_on_that_thread_waits_for_the_block_to_be_left(world, alice, bob):
    lock = lock_of(world, "lock")
    block, request = lock.hold(), Request(forgets=True)
    request.run(alice, block.__enter__)
    waiting = alice.start(contextvars.Context().run, lock.try_lock, PATIENCE)
    world.until(lambda: world.waiting(lock) == 1, what="it waits")
    request.run(bob, block.__exit__, None, None, None)
    assert waiting.result() is True


@pytest.mark.parametrize("kind", [*(kind for kind in KINDS if kind != "token_lock"), "read_lock"])
def test_nested_blocks_of_one_request_re_enter(world, kind):
    lock = lock_of(world, kind)

    def nested():
        with lock.hold(), lock, lock.hold():
            # A copy that is made within the block, as for a callback, is of the same request.
            return [lock.get_hold_count(), contextvars.copy_context().run(within)]

    def within():
        with lock.hold():
            return int(lock.get_hold_count())

    assert Request(forgets=True).run(world.actor(), nested) == [3, 4]
    assert free(world)


def test_blocks_may_be_left_in_another_order(world, alice):
    """Each lease is of its own block, whichever is left first."""
    lock = lock_of(world, "lock")
    outer, inner = lock.hold(), lock.hold()
    first, second = alice.do(outer.__enter__), alice.do(inner.__enter__)
    alice.do(outer.__exit__, None, None, None)
    assert first.remaining() == 0
    second.ensure_held()
    alice.do(inner.__exit__, None, None, None)
    assert free(world)


def test_a_block_is_released_behind_a_call_of_its_owner_that_begins_as_it_is_left(
    world, alice, bob, proxy, monkeypatch
):
    """The server does not answer that call, nor the end of the block in time."""
    lock = world.through(proxy.port, timeout=0.9).real.get_lock("orders")
    outer, inner = lock.hold(), lock.hold()
    for each in (outer, inner):
        alice.do(world.enter(each))
    begin, calls, held = releasing.begin_release, [], []

    def late(*args: Any, **options: Any) -> Any:
        if not held:
            held.append(proxy.hold_request("EVALSHA"))
            calls.append(alice.start(world.leave(inner)))
            held[0].wait()
            proxy.blackhole()
        return begin(*args, **options)

    monkeypatch.setattr(releasing, "begin_release", late)
    calls.append(bob.start(world.leave(outer)))
    world.until(lambda: len(calls) == 2)
    for each in calls:
        assert isinstance(each.error(within=PATIENCE), (OutcomeUnknownError, redis.exceptions.RedisError))
    proxy.heal()
    held[0].release()
    world.until(lambda: free(world))


def test_a_release_under_way_in_another_thread_is_not_disturbed(world, alice, bob, proxy):
    """The thread that acquired the lock runs another request meanwhile."""
    request = Request(forgets=True)
    lock = world.through(proxy.port).real.get_lock("orders")
    hold = lock.hold()
    request.run(alice, hold.__enter__)
    held = proxy.hold_request("EVALSHA")
    leaving = bob.start(hold.__exit__, None, None, None)
    held.wait()
    assert Request().run(alice, lock.try_lock) is False
    held.release()
    assert leaving.result() is None
    assert Request().run(alice, lock.try_lock) is True


# ---- requests that share a thread ------------------------------------------------------------------------------------


@pytest.mark.parametrize("used_before", [False, True])
def test_requests_that_share_a_thread_are_never_inside_at_once(world, kind, used_before):
    lock = lock_of(world, kind)
    thread, parent = world.actor(), Request()
    if used_before:  # They inherit the context of that use.
        parent.run(thread, lock.lock)
        parent.run(thread, lock.unlock)
    one, other = parent.request(), parent.request()
    one.run(thread, lock.lock)
    assert other.run(thread, lock.try_lock) is False
    assert one.run(thread, lock.get_hold_count) == 1
    assert other.run(thread, lock.get_hold_count) == 0
    if kind != "token_lock":
        one.run(thread, lock.lock)
        one.run(thread, lock.unlock)
    with pytest.raises(LockError, match=r"would never end.*hold\(\)"):
        other.run(thread, lock.lock)
    for who in (thread, world.actor()):
        with pytest.raises(LockNotOwnedError, match=r"held by thread 'actor' of this client.*hold\(\).*new_owner\(\)"):
            other.run(who, lock.unlock)
    one.run(thread, lock.unlock)
    assert other.run(thread, lock.try_lock) is True
    assert one.run(thread, lock.try_lock) is False
    other.run(thread, lock.unlock)


def test_a_lock_left_held_by_a_request_is_renewed_no_longer_and_logged(world, caplog):
    """As by ``asyncio.to_thread(lock.lock)``, whose context nobody has afterwards."""
    lock = lock_of(world, "lock", lock_watchdog_timeout=4.0)
    thread = world.actor()
    Request(forgets=True).run(thread, lock.lock)
    gc.collect()
    world.until(lambda: free(world))
    assert "its holder is gone" in caplog.text
    assert "hold()" in caplog.text
    assert thread.do(lock.try_lock), "the thread itself goes on"


def test_a_thread_that_continues_with_a_held_lock_is_logged_once(client, alice, caplog):
    orders, stock = make(client, "lock"), make(client, "lock", "stock")
    one, other = Request(), Request()
    block = make(client, "lock", "a block").hold()
    Request(forgets=True).run(alice, block.__enter__)
    other.run(alice, stock.lock)
    other.run(alice, stock.unlock)
    assert "from an earlier call" not in caplog.text, "a block may be left by another thread"
    block.__exit__(None, None, None)
    one.run(alice, orders.lock)
    for _ in range(3):
        other.run(alice, stock.lock)
        other.run(alice, stock.unlock)
    told = [record for record in caplog.records if "still holds it from an earlier call" in record.getMessage()]
    assert len(told) == 1
    assert told[0].levelno == logging.WARNING
    assert "'orders'" in told[0].getMessage()
    one.run(alice, orders.unlock)


def test_jobs_without_a_context_of_their_own_are_calls_of_one_thread(world):
    """As with ``threading.RLock``: docs/explanation/safety.md says so."""
    lock = lock_of(world, "lock", lock_watchdog_timeout=KEPT)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lock.lock).result()
        world.renewed("orders", times=1)
        assert pool.submit(lock.try_lock).result() is True
        assert pool.submit(lock.get_hold_count).result() == 2
        pool.submit(lock.unlock).result()
        pool.submit(lock.unlock).result()
    assert not lock.is_locked()
