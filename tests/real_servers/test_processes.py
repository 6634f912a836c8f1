"""Processes that end while they hold a lock, and event loops that Ctrl-C ends."""

from __future__ import annotations

import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.real_servers import ending_programs
from tests.waiting import until
from tests.worlds.threads import ThreadsWorld


@pytest.mark.parametrize(
    "how",
    ["sys.exit", "exception", "unlock at exit", "unlock without threads", "close at exit", "close without threads"],
)
def test_a_process_that_holds_ends_at_once_and_so_does_its_hold(valkey, direct, unique_name, how):
    process = ending_programs.start("end", valkey.url, unique_name, how)
    assert process.stdout is not None
    assert process.stdout.readline() == "ending\n"
    began = time.monotonic()
    try:
        out, err = process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    # No lease, round of the watchdog or time-out is waited for; the interpreter's own end takes 2.2 s on busy cores.
    assert time.monotonic() - began < 5.0
    assert process.returncode == (1 if how == "exception" else 0), err
    assert not out
    assert not err
    if how.startswith("unlock"):
        assert not direct.exists(unique_name)
    until(lambda: not direct.exists(unique_name), what="free")  # Its lease is of 0.8 s.
    until(lambda: direct.pubsub_numsub(f"redisson_lock__channel:{{{unique_name}}}")[0][1] == 0, what="nobody listens")


@contextmanager
def contention(url: str, name: str) -> Iterator[None]:
    """Let another client acquire and release the lock all the time."""
    world = ThreadsWorld()
    lock = world.from_url(url).get_lock(name)
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


def test_interrupted_event_loops(valkey, direct, unique_name, volume):
    with contention(valkey.url, unique_name):
        process = ending_programs.start("interrupted_asyncio", valkey.url, unique_name, volume(4, full=200))
        assert process.stdout is not None
        for line in process.stdout:
            assert line == "interrupt me\n"
            time.sleep(random.uniform(0, 0.02))
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0, err
    assert not err
    until(lambda: not direct.exists(unique_name), what="free")
