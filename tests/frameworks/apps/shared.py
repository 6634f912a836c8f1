"""What the programs of this folder have in common: where Redis is, what their keys are called, who is inside.

A program gets all of it by environment variables; see ``tests.frameworks.common.Surroundings``. Nothing of pytest is
imported here, and nothing that would start a thread before a framework patches or forks.
"""

from __future__ import annotations

import fcntl
import os

#: Where Redis is. The connections made with it carry the test's name, so that the test can find them.
URL = os.environ["PYREDISSON_TEST_URL"]

#: What every name of a program begins with, so that the test can find what is left.
NAME = os.environ["PYREDISSON_TEST_NAME"]

#: The file that stands for the critical section.
SECTION = os.environ["PYREDISSON_TEST_SECTION"]


class CriticalSection:
    """A block that notes when another thread, task, greenlet or process is inside at the same time.

    The check is a non-blocking ``flock`` on a file opened for this entry, so that it neither waits nor lets another
    greenlet or task run, and works between processes. Each entry appends a line to a file that the test reads:
    ``in``, or ``overlap``.
    """

    def __init__(self, name: str = "") -> None:
        self._path = f"{SECTION}{name}"
        self._descriptor = -1

    def __enter__(self) -> bool:
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note("overlap")
            return False
        note("in")
        return True

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)  # This ends the flock.


def note(line: str) -> None:
    """Append a line to the file that the test reads as ``Surroundings.notes()``."""
    descriptor = os.open(f"{SECTION}.notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC)
    try:
        os.write(descriptor, f"{line}\n".encode())  # One write to the end of a file is not torn.
    finally:
        os.close(descriptor)


def notes() -> list[str]:
    """What this program and the others of the test have noted."""
    with open(f"{SECTION}.notes", encoding="utf-8") as file:
        return file.read().splitlines()
