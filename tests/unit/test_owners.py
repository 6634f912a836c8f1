"""Owners are numbers that are never used twice, and everybody sees when one is gone."""

from __future__ import annotations

import _thread
import asyncio
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

from pyredisson import asyncio as pyredisson_asyncio
from pyredisson.shared import task_owners
from pyredisson.shared.owners import current_thread_id
from pyredisson.shared.task_owners import TaskOwner, current_task_id, current_task_owner
from pyredisson.shared.thread_owners import ThreadOwner, current_thread_owner
from tests.waiting import until


def in_a_thread(work: Callable[[], Any]) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    return results[0]


# ---- threads ---------------------------------------------------------------------------------------------------------


def test_a_thread_keeps_its_number() -> None:
    assert current_thread_id() == current_thread_id() == current_thread_owner().number
    assert current_thread_owner() is current_thread_owner()
    assert isinstance(current_thread_id(), int)
    assert current_thread_id() > 0


def test_no_number_is_used_again_by_200_threads_one_after_another() -> None:
    """``get_ident()`` is: the next thread often gets that of the one before."""
    numbers, idents = [], []
    for _ in range(200):
        number, ident = in_a_thread(lambda: (current_thread_id(), threading.get_ident()))
        numbers.append(number)
        idents.append(ident)
    assert len(set(numbers)) == 200
    assert numbers == sorted(numbers)
    assert len(set(idents)) < 200, "or else this test shows nothing"


def test_a_thread_is_alive_until_it_ends() -> None:
    go = threading.Event()
    found: list[ThreadOwner] = []

    def work() -> None:
        found.append(current_thread_owner())
        go.wait(30)

    thread = threading.Thread(target=work, name="worker-7")
    thread.start()
    owner = until(lambda: found)[0]
    assert owner.alive()
    assert current_thread_owner().alive()
    go.set()
    thread.join()
    until(lambda: not owner.alive())
    assert "worker-7" in owner.gone_hint()
    assert "worker-7" in repr(owner)
    assert str(owner.number) in repr(owner)


def test_a_thread_that_threading_does_not_know_is_an_owner_too() -> None:
    """As of ``_thread``, C extensions and embedding programs."""
    known = set(threading.enumerate())
    found: list[ThreadOwner] = []
    go = _thread.allocate_lock()
    go.acquire()

    def work() -> None:
        found.append(current_thread_owner())
        go.acquire()

    _thread.start_new_thread(work, ())
    owner = until(lambda: found)[0]
    assert owner.number != current_thread_id()
    assert owner.alive()
    assert set(threading.enumerate()) <= known, "no dummy thread was made"
    go.release()
    until(lambda: not owner.alive())
    assert "ended without releasing" in owner.gone_hint()


def test_an_owner_keeps_no_thread() -> None:
    thread = threading.Thread(target=lambda: found.append(current_thread_owner()))
    found: list[ThreadOwner] = []
    thread.start()
    thread.join()
    gone = weakref.ref(thread)
    del thread
    gc.collect()
    assert gone() is None
    assert not found[0].alive()


# ---- tasks -----------------------------------------------------------------------------------------------------------


def test_a_task_is_an_owner_apart_from_its_thread_its_parent_and_its_children() -> None:
    async def child() -> int:
        return current_task_id()

    async def main() -> None:
        mine = current_task_id()
        assert mine == current_task_owner().number == current_task_id()
        assert mine == current_thread_id(), "the locks of threads belong to the task, too"
        assert mine != current_thread_owner().number
        # A context variable would be inherited here.
        assert await asyncio.create_task(child()) != mine
        # And this runs in the task that awaits.
        assert await child() == mine
        assert pyredisson_asyncio.current_thread_id() == mine

    asyncio.run(main())


def test_threads_and_tasks_share_one_sequence() -> None:
    async def main() -> int:
        return current_task_id()

    numbers = [current_thread_id(), asyncio.run(main()), in_a_thread(current_thread_id), asyncio.run(main())]
    assert len(set(numbers)) == 4


def test_a_task_is_alive_until_it_is_done() -> None:
    async def work(go: asyncio.Event) -> TaskOwner:
        await go.wait()
        return current_task_owner()

    async def main() -> None:
        go = asyncio.Event()
        task = asyncio.create_task(work(go), name="job-7")
        go.set()
        owner = await task
        assert not owner.alive(), "done, although the task object is still there"
        assert current_task_owner().alive()
        assert "job-7" in owner.gone_hint()
        assert ("wait_for" in owner.gone_hint()) == (sys.version_info < (3, 12)), "later it runs in the same task"
        assert "job-7" in repr(owner)

    asyncio.run(main())


def test_an_owner_keeps_no_task_and_is_not_kept() -> None:
    async def work() -> TaskOwner:
        return current_task_owner()

    async def main() -> None:
        task = asyncio.create_task(work())
        owner = await task
        gone = weakref.ref(task)
        assert owner in task_owners._tasks.values()
        del task
        await asyncio.sleep(0)  # The loop itself has it in hand until here.
        gc.collect()
        assert gone() is None
        assert not owner.alive()
        assert owner not in task_owners._tasks.values()

    asyncio.run(main())
