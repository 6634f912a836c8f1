"""Callers who leave in the middle: Ctrl-C at random moments, cancellation at random moments."""

from __future__ import annotations

import asyncio
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
import redis

import pyredisson.asyncio
from pyredisson import Config
from tests.proxy import Proxy
from tests.real import programs
from tests.real.looking import ANY_SCRIPT, held, nothing_left
from tests.real.worlds import TasksWorld, ThreadsWorld
from tests.servers import Server
from tests.waiting import until


@contextmanager
def contention(url: str, name: str) -> Iterator[None]:
    """Somebody else takes the lock all the time, and lets it go again."""
    world = ThreadsWorld()
    lock = world.client(url).get_lock(name)
    over = threading.Event()

    def take_turns() -> None:
        while not over.is_set():
            with lock:
                over.wait(random.uniform(0, 0.004))
            over.wait(random.uniform(0, 0.004))

    turns = world.actor().start(take_turns)
    try:
        yield
    finally:
        over.set()
        turns.result(10)
        world.close()


def hammered(url: str, name: str, how: str, rounds: int) -> list[str]:
    """Run ``interrupted`` under a hail of SIGINTs, and return what it found stranded."""
    process = programs.start("interrupted", url, name, how, rounds)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    killer = threading.Thread(target=hail, args=(process,))
    killer.start()
    out, err = process.communicate(timeout=100)
    killer.join()
    assert process.returncode == 0, f"{out}\n{err}"
    assert not err
    *stranded, done = out.splitlines()
    assert done == "done"
    return stranded


def hail(process: Any) -> None:
    while process.poll() is None:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGINT)
        time.sleep(random.uniform(0, 0.002))


@pytest.mark.parametrize("contended", [False, True], ids=["free", "contended"])
@pytest.mark.parametrize("how", ["with", "hold", "nested", "lock", "try_lock", "unlock"])
def test_interrupted_at_random(
    valkey: Server, direct: redis.Redis, unique_name: str, volume: Callable[[int], int], how: str, contended: bool
) -> None:
    rounds = volume(500)
    with contention(valkey.url, unique_name) if contended else suppress():
        stranded = hammered(valkey.url, unique_name, how, rounds)
    until(lambda: not direct.exists(unique_name), what="free")
    assert not stranded, "\n".join(stranded)
