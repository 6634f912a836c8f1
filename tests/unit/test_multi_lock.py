"""What multi-locks refuse before there is any server."""

from __future__ import annotations

import pytest

import pyredisson
import pyredisson.asyncio


def test_locks_of_the_other_colour_are_refused() -> None:
    threads = pyredisson.Redisson.from_url("redis://localhost:1")
    tasks = pyredisson.asyncio.Redisson.from_url("redis://localhost:1")
    with pytest.raises(TypeError, match=r"of pyredisson\.threads"):
        pyredisson.MultiLock(threads.get_lock("a"), tasks.get_lock("a"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"pyredisson\.asyncio"):
        pyredisson.asyncio.MultiLock(tasks.get_lock("a"), threads.get_lock("a"))  # type: ignore[arg-type]
