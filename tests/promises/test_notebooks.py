"""In IPython and Jupyter each cell may be a task of its own; the cells of one kernel are one owner all the same."""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from types import ModuleType
from typing import Any

import pytest

import pyredisson
import pyredisson.asyncio
from pyredisson import LockError
from pyredisson._shared.owners import local
from tests.promises.kinds import not_owned
from tests.servers import Server
from tests.worlds.base import KEPT
from tests.worlds.environments import threads_only

#: How the kernel runs a cell: in a coroutine of its own package, which stands for a task.
KERNEL = """
async def run_cell(cell):
    result = cell()
    return await result if hasattr(result, "__await__") else result
"""


@pytest.fixture(params=["IPython.core.interactiveshell", "ipykernel.kernelbase"])
def run_cell(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return what makes the coroutine of a cell, as a module of that name does."""
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    namespace: dict[str, Any] = {"__name__": request.param}
    exec(KERNEL, namespace)
    return namespace["run_cell"]


def in_cells(run_cell: Callable[..., Coroutine[Any, Any, Any]], *cells: Callable[[], Any]) -> list[Any]:
    """Run cells one after the other, each in a task. Returns what they return."""

    async def kernel() -> list[Any]:
        return [await asyncio.create_task(run_cell(cell)) for cell in cells]

    return asyncio.run(kernel())


def test_the_cells_of_a_kernel_share_a_lock_for_threads(run_cell, server: Server):
    with pyredisson.Redisson.from_url(server.url) as client:
        lock = client.get_lock("notebook")
        lock.force_unlock()
        cells = (lock.acquire, lock.acquire, lock.get_hold_count, lock.release, lock.release, lock.locked)
        assert in_cells(run_cell, *cells) == [True, True, 2, None, None, False]


def test_the_cells_of_a_kernel_share_a_lock_for_asyncio(run_cell, server: Server):
    client = pyredisson.asyncio.Redisson.from_url(server.url)
    lock = client.get_lock("notebook")
    cells = (lock.force_unlock, lock.acquire, lock.acquire, lock.get_hold_count, lock.release, lock.release)
    results = in_cells(run_cell, *cells, lock.locked, client.close)
    assert results[1:] == [True, True, 2, None, None, False, None]


def test_what_a_cell_holds_lasts_after_its_task(run_cell, server: Server, caplog):
    config = pyredisson.Config(lock_watchdog_timeout=KEPT)
    with pyredisson.Redisson.from_url(server.url, config=config) as client:
        lock = client.get_lock("notebook")
        lock.force_unlock()

        async def pause() -> None:
            await asyncio.sleep(KEPT / 2)

        assert in_cells(run_cell, lock.lock, pause, lock.is_held_by_current_thread, lock.unlock)[2] is True
    assert "its holder is gone" not in caplog.text


def test_cells_without_an_await_are_of_the_same_owner(run_cell, server: Server, monkeypatch):
    """The shell of IPython in a terminal runs these outside of any event loop."""
    sys.modules["IPython"].get_ipython = object  # type: ignore[attr-defined]
    for each in ("owner", "cells"):
        monkeypatch.delattr(local, each, raising=False)
    with pyredisson.Redisson.from_url(server.url) as client:
        lock = client.get_lock("notebook")
        lock.force_unlock()
        lock.lock()
        assert in_cells(run_cell, lock.is_held_by_current_thread, lock.acquire, lock.unlock) == [True, True, None]
        lock.unlock()
        in_cells(run_cell, lock.lock)
        assert lock.get_hold_count() == 1

        async def other() -> None:
            with pytest.raises(LockError, match="cannot continue"):
                lock.lock()

        in_cells(run_cell, lambda: asyncio.create_task(other()))
        later: list[bool] = []

        def call_later() -> Any:
            loop = asyncio.get_running_loop()
            loop.call_soon(lambda: later.append(lock.try_lock()))
            return asyncio.sleep(0.01)

        in_cells(run_cell, call_later)
        assert later == [False], "a callback of the loop is no cell"
        lock.unlock()


def test_a_task_that_a_cell_starts_is_an_owner_of_its_own(run_cell, server: Server):
    with pyredisson.Redisson.from_url(server.url) as client:
        lock = client.get_lock("notebook")
        lock.force_unlock()

        async def other() -> None:
            assert not lock.try_lock()
            not_owned(lock.unlock, match="the notebook's thread 'MainThread'")
            with pytest.raises(LockError, match="the notebook's thread 'MainThread' holds it, and cannot continue"):
                lock.lock()

        in_cells(run_cell, lock.lock, lambda: asyncio.create_task(other()), lock.unlock)


@threads_only
async def test_other_tasks_are_no_cells_where_ipython_is_imported(world, client, monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", ModuleType("IPython"))
    lock = client.real.get_lock("orders")

    await asyncio.create_task(asyncio.to_thread(int))

    async def acquire() -> None:
        lock.lock()

    await asyncio.create_task(acquire())
    not_owned(lock.unlock)
