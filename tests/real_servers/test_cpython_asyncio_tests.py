"""CPython's own tests of ``asyncio``'s ``Event``, ``Condition``, ``Semaphore`` and ``Barrier``, run against ours.

What ``asyncio`` answers at once, ours asks the server, so the tests are rewritten before they run: those calls are
awaited, and where a test lets the other tasks of its loop run once, all requests that follow from it are made.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import sys
import threading
import unittest
from typing import Any

import pytest
import redis.asyncio

import pyredisson.asyncio
from pyredisson import Config
from tests.real_servers.test_cpython_lock_tests import MISSING, unique
from tests.servers import Server

theirs: Any = None
if sys.version_info[:2] == (3, 11):
    try:
        from test.test_asyncio import test_locks as theirs
    except ImportError:
        pass

LEFT_OUT = MISSING if sys.version_info[:2] == (3, 11) else "the tests of other versions of Python are others"

PATIENCE = 20.0

AWAITED_CALLS = {"set", "clear", "is_set", "notify", "notify_all", "release", "locked"}
AWAITED_PROPERTIES = {"n_waiting", "broken"}

PRIVATE = "it reads private attributes of asyncio's classes"
SHOWN = (
    "a repr says '<... object at ...>' and a state there; ours names the object, and an open barrier is not 'draining'"
)
OUTSIDE = "it calls without a running event loop, where ours cannot ask its server"
BOUND = "a lock of asyncio may be acquired and released by any task; ours by its holder only"
ORDER = "it counts on the order in which tasks go on that are woken together, or that begin together"
OPENED = (
    "it resets or aborts a barrier of asyncio before all have left it; the parties of ours have passed once it is open"
)

#: What of CPython's tests does not apply to us, and why.
NOT_OURS = {
    "EventTests": {
        "test_repr": SHOWN,
        "test_wait": ORDER,
        "test_wait_cancel": PRIVATE,
        "test_clear_with_waiters": PRIVATE,
    },
    "ConditionTests": {
        "test_repr": SHOWN,
        "test_wait": BOUND,
        "test_wait_cancel": BOUND,
        "test_wait_cancel_contested": BOUND,
        "test_notify": ORDER,
        "test_notify_all": ORDER,
        "test_ambiguous_loops": PRIVATE,
        "test_timeout_in_block": "wait_for() of Python 3.11 waits in another task, which does not hold the lock",
        "test_notify_unacquired": OUTSIDE,
        "test_notify_all_unacquired": OUTSIDE,
    },
    "SemaphoreTests": {
        "test_repr": SHOWN,
        "test_initial_value_zero": OUTSIDE,
        "test_semaphore": PRIVATE,
        "test_acquire": PRIVATE,
        "test_acquire_cancel": PRIVATE,
        "test_acquire_cancel_before_awoken": "it begins with no permits and releases; ours is bounded",
        "test_acquire_hang": "as test_acquire_cancel_before_awoken",
        "test_acquire_fifo_order": ORDER,
        "test_acquire_fifo_order_2": ORDER,
        "test_acquire_fifo_order_3": ORDER,
        "test_release_not_acquired": OUTSIDE,
    },
    "BarrierTests": {
        "test_repr": SHOWN,
        "test_barrier": SHOWN,
        "test_barrier_parties": "it asks for the type of asyncio's barrier; clients make ours",
        "test_filling_task_by_task": SHOWN,
        "test_draining_state": SHOWN,
        "test_reset_barrier_when_tasks_half_draining": PRIVATE,
        "test_reset_barrier_when_tasks_half_draining_half_blocking": OPENED,
        "test_reset_barrier_while_tasks_draining": OPENED,
        "test_abort_barrier_when_tasks_half_draining_half_blocking": OPENED,
        "test_reset_barrier_while_tasks_waiting_and_waiting_again": ORDER,
    },
}


class Awaiting(ast.NodeTransformer):
    """Awaits what ours asks the server, in coroutine functions."""

    def __init__(self) -> None:
        self._in_coroutine = False

    def _inside(self, node: Any, in_coroutine: bool) -> Any:
        before, self._in_coroutine = self._in_coroutine, in_coroutine
        try:
            return self.generic_visit(node)
        finally:
            self._in_coroutine = before

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> Any:
        return self._inside(node, True)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        return self._inside(node, False)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        return self._inside(node, False)

    def visit_Call(self, node: ast.Call) -> Any:
        self.generic_visit(node)
        awaited = isinstance(node.func, ast.Attribute) and node.func.attr in AWAITED_CALLS
        return ast.Await(node) if awaited and self._in_coroutine else node

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        self.generic_visit(node)
        return ast.Await(node) if node.attr in AWAITED_PROPERTIES and self._in_coroutine else node


class OnRedis:
    """Stands for the module ``asyncio`` in their tests: its types make objects of ours, with names of their own."""

    BrokenBarrierError = threading.BrokenBarrierError

    def __init__(self) -> None:
        self.client: Any = None
        self.probe: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)

    def Lock(self) -> Any:
        return self.client.get_lock(unique())

    def Event(self) -> Any:
        return self.client.get_event(unique())

    def Condition(self, lock: Any = None) -> Any:
        return self.client.get_condition(unique() if lock is None else lock)

    def BoundedSemaphore(self, value: int = 1) -> Any:
        return self.client.get_bounded_semaphore(unique(), value)

    def Barrier(self, parties: int) -> Any:
        return self.client.get_barrier(unique(), parties)

    Semaphore = BoundedSemaphore

    async def sleep(self, seconds: float) -> None:
        """Sleep; for no time, until the server has answered all that the tasks of the loop ask."""
        await (asyncio.sleep(seconds) if seconds else asyncio.wait_for(self._quiet(), PATIENCE))

    async def _quiet(self) -> None:
        quiet, expected = 0, None
        while quiet < 3:
            for _ in range(10):
                await asyncio.sleep(0)
            commands = (await self.probe.info("stats"))["total_commands_processed"]
            quiet = quiet + 1 if commands == expected else 0
            expected = commands + 1


on_redis = OnRedis()


def rewritten() -> dict[str, Any]:
    """Return the names of their module, rewritten for ours."""
    tree = ast.fix_missing_locations(Awaiting().visit(ast.parse(inspect.getsource(theirs))))
    names: dict[str, Any] = {"__name__": theirs.__name__}
    exec(compile(tree, str(theirs.__file__), "exec"), names)
    names["asyncio"] = on_redis
    return names


class Connected(unittest.IsolatedAsyncioTestCase):
    """A mixin: connects a client in the event loop of each test."""

    @pytest.fixture(autouse=True)
    def _url(self, valkey: Server) -> None:
        self.url = valkey.url

    async def asyncSetUp(self) -> None:
        await super().asyncSetUp()
        on_redis.client = pyredisson.asyncio.Redisson.from_url(self.url, config=Config(presence=False))
        on_redis.probe = redis.asyncio.Redis.from_url(self.url)

    async def asyncTearDown(self) -> None:
        await on_redis.client.close()
        await on_redis.probe.aclose()


@pytest.mark.parametrize("kind", NOT_OURS)
def test_what_is_left_out_exists(kind):
    if theirs is None:
        pytest.skip(LEFT_OUT)
    assert [name for name in NOT_OURS[kind] if not hasattr(getattr(theirs, kind), name)] == []


if theirs is not None:
    names = rewritten()
    for kind, left_out in NOT_OURS.items():
        case = type(f"Test{kind.removesuffix('Tests')}", (Connected, names[kind]), dict.fromkeys(left_out))
        globals()[case.__name__] = case
    del case
