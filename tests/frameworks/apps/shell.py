"""Run by tests: IPython, which runs each cell with `await` in a task of its own, others in the main thread."""

from __future__ import annotations

from IPython.core.interactiveshell import InteractiveShell

CELLS = [
    "import contextlib, pyredisson, pyredisson.asyncio",
    "from tests.frameworks.apps.shared import NAME, URL, CriticalSection",
    # Sync cells: one thread, the main one.
    "client = pyredisson.Redisson.from_url(URL); lock = client.get_lock(NAME)",
    "lock.lock()",
    "assert lock.get_hold_count() == 1; lock.unlock()",
    # Whole blocks in one cell with await.
    "aclient = pyredisson.asyncio.Redisson.from_url(URL); alock = aclient.get_lock(NAME)",
    "async with alock:\n    with CriticalSection():\n        assert await alock.get_hold_count() == 1",
    "import asyncio\nwith lock:\n    with CriticalSection():\n        await asyncio.sleep(0)",
    # Over several cells with await: a block on a stack, an owner.
    "stack = contextlib.AsyncExitStack(); lease = await stack.enter_async_context(alock.hold(wait_time=5))",
    "lease.ensure_held(); assert not lock.try_lock()",
    "await stack.aclose(); assert not lock.locked()",
    "owner = aclient.new_owner(); mine = aclient.get_lock(NAME, owner=owner)",
    "await mine.lock()",
    "assert await mine.get_hold_count() == 1; await mine.unlock()",
    # A cell's own lock is not the next one's.
    "await alock.lock()",
    "try:\n    await alock.unlock()\nexcept pyredisson.LockNotOwnedError as error:\n    said = str(error)",
    "assert 'hold()' in said and 'owner=' in said, said",
    "assert await alock.force_unlock()",
    # A generator that a cell gives up.
    "def rows():\n    with lock:\n        yield from range(5)",
    "for row in rows():\n    break",
    "assert not lock.locked()",
    "await aclient.close(); client.close()",
]

if __name__ == "__main__":
    shell = InteractiveShell.instance()
    for cell in CELLS:
        shell.run_cell(cell, store_history=True).raise_error()
