"""Run by tests: a ``ProcessPoolExecutor`` whose parent has used the client that its children inherit, or make anew."""

from __future__ import annotations

import multiprocessing
import os
import sys
from concurrent.futures import ProcessPoolExecutor

import pyredisson
from tests.frameworks.apps.shared import NAME, URL, CriticalSection

client = pyredisson.Redisson.from_url(URL)


def work(number: int) -> tuple[int, str]:
    """What runs in the children."""
    with client.get_lock(NAME), CriticalSection():
        pass
    assert not client.get_lock(f"{NAME}-kept").try_lock(0)
    return os.getpid(), client.id


def main(method: str, count: int) -> None:
    """The parent holds a lock all the time, which no child has."""
    with client.get_lock(f"{NAME}-kept").hold(wait_time=0) as lease:
        with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context(method)) as executor:
            done = set(executor.map(work, range(count)))
        lease.ensure_held()
    assert len({pid for pid, _ in done}) == len({id for _, id in done})
    assert client.id not in {id for _, id in done}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
