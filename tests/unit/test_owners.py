"""Owners are numbers that are never used twice, and everybody sees when one is gone."""

import _thread
import asyncio
import gc
import threading
import weakref

from pyredisson._shared import owners as task_owners
from pyredisson._shared import owners as thread_owners
from pyredisson._shared.owners import current_task_owner, current_thread_id, current_thread_owner
from tests.waiting import until


def test_no_number_is_used_again():
    """Unlike ``threading.get_ident()`` and ``id(task)``, which later threads and tasks have again."""

    async def in_a_task():
        numbers.append(current_thread_id())

    numbers = []
    for _ in range(30):
        asyncio.run(in_a_task())
        thread = threading.Thread(target=lambda: numbers.append(current_thread_id()))
        thread.start()
        thread.join()
    assert len(set(numbers)) == len(numbers) == 60


# ---- threads ---------------------------------------------------------------------------------------------------------


def test_a_thread_that_is_an_owner_in_the_middle_of_becoming_one_stays_alive(monkeypatch):
    """A signal handler uses a lock where the thread is about to use its first one."""
    found = []
    name = thread_owners._thread_name

    def interrupted():
        if not found:
            monkeypatch.undo()
            found.append(current_thread_owner())
        return name()

    monkeypatch.setattr(thread_owners, "_thread_name", interrupted)

    def use():
        found.extend((current_thread_owner(), current_thread_owner()))
        alive.extend(each.alive() for each in found)

    alive = []
    thread = threading.Thread(target=use)
    thread.start()
    thread.join()
    assert len(set(map(id, found))) == 1
    assert alive == [True] * 3


def test_a_thread_that_threading_does_not_know_is_an_owner_too():
    """As of ``_thread``, C extensions and embedding programs."""
    known = set(threading.enumerate())
    found = []
    go = _thread.allocate_lock()
    go.acquire()

    def work():
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


def test_an_owner_keeps_no_thread():
    thread = threading.Thread(target=lambda: found.append(current_thread_owner()))
    found = []
    thread.start()
    thread.join()
    gone = weakref.ref(thread)
    del thread
    gc.collect()
    assert gone() is None
    assert not found[0].alive()


# ---- tasks -----------------------------------------------------------------------------------------------------------


async def test_an_owner_keeps_no_task_and_is_not_kept():
    async def work():
        return current_task_owner()

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
