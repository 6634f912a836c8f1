"""Output that goes on: whether it is still read, and how to end without a word when it is not."""

from __future__ import annotations

import os
import select
import sys


def is_without_reader() -> bool:
    """Return whether the reader of our output has gone, as ``head`` has when it has enough, without writing to it."""
    if sys.stdout is None:
        return True
    if not hasattr(select, "poll"):
        return False
    try:
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(events & (select.POLLERR | select.POLLNVAL) for _, events in poll.poll(0))
    except (OSError, ValueError):
        return False


def without_reader() -> int:
    """Return the exit code of a program whose output is not read any more, and drop the rest of its buffer."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        pass
    return 0
