"""Programs that end, or are interrupted, while they hold a lock: each runs in a process of its own.

``python -m tests.real_servers.ending_programs NAME URL LOCK [ARGUMENTS]`` runs one; it fails by an exception, and
says nothing else on stderr.
"""

from __future__ import annotations

import _thread
import asyncio
import atexit
import logging
import signal
import subprocess
import sys
from collections.abc import Callable

import pyredisson
import pyredisson.asyncio
from pyredisson import Config

PROGRAMS: dict[str, Callable[..., object]] = {}


def start(name: str, *args: object) -> subprocess.Popen[str]:
    """Start a program."""
    return subprocess.Popen(
        # Interrupted between being made and being run, a coroutine of ours complains that it never was.
        [
            *(sys.executable, "-X", "faulthandler", "-W", "ignore:coroutine:RuntimeWarning"),
            *("-m", "tests.real_servers.ending_programs", name, *map(str, args)),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def program(function: Callable[..., object]) -> Callable[..., object]:
    PROGRAMS[function.__name__] = function
    return function


def refuse_threads(*_: object) -> None:
    """Do as CPython 3.12.1 does at exit."""
    raise RuntimeError("can't create new thread at interpreter shutdown")


@program
def end(url: str, name: str, how: str) -> None:
    """End while a lock is held."""
    client = pyredisson.Redisson.from_url(url, config=Config(lock_watchdog_timeout=0.8, timeout=8))
    lock = client.get_lock(name)
    lock.lock()
    if how.startswith("unlock"):
        atexit.register(lock.unlock)
    if how.startswith("close"):
        atexit.register(client.close)
    if how.endswith("without threads"):  # The handler that is registered last runs first.
        atexit.register(setattr, _thread, "start_new_thread", refuse_threads)
    print("ending", flush=True)
    if how == "exception":
        sys.excepthook = lambda *args: None
        raise RuntimeError("unhandled")
    sys.exit(0)


@program
def interrupted_asyncio(url: str, name: str, rounds: str) -> None:
    """Ctrl-C as asyncio has it: the main task is cancelled, and ``asyncio.run`` raises ``KeyboardInterrupt``."""
    interrupts = 0

    async def main() -> None:
        client = pyredisson.asyncio.Redisson.from_url(url, config=Config(timeout=2.0))
        print("interrupt me", flush=True)  # Once: a second Ctrl-C ends an event loop wherever it is.
        try:
            while True:
                async with client.get_lock(name):
                    await asyncio.sleep(0)
        finally:
            await client.close()

    while interrupts < int(rounds):
        try:
            asyncio.run(main())
        except KeyboardInterrupt:
            interrupts += 1


if __name__ == "__main__":
    logging.getLogger("pyredisson").addHandler(logging.NullHandler())
    logging.getLogger("pyredisson").propagate = False
    # What a shell starts in the background ignores it, and so does all that is started from there.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    PROGRAMS[sys.argv[1]](*sys.argv[2:])
