"""What the commands share: exit codes, connecting to a URL that a user typed, and text for a terminal."""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import time
from enum import IntEnum
from typing import Any

import click
import redis.exceptions as rx

from pyredisson import Config, Redisson
from pyredisson._core.failures import remedy_of
from pyredisson._shared.process import is_posix
from pyredisson.inspection import Inspector, LockView, Who, describe
from pyredisson.inspection.servers import answered, text_of


class ExitCode(IntEnum):
    """Exit codes of our own, as in ``sysexits.h`` and ``sh``. All others are those of the command that is run."""

    FAILED = 1
    UNAVAILABLE = 69
    NOT_LOCKED = 75
    LOST = 76
    REFUSED = 77
    """This user may not do that, or the server does not know the command: trying again will not help."""
    BAD_SERVER = 78
    """The URL does not fit what answers there: its kind, its database, or it is no Redis."""
    NOT_EXECUTABLE = 126
    NOT_FOUND = 127
    SIGNALLED = 128
    """Plus the signal's number."""


class BadUsage(click.UsageError):
    """The command line is not valid. The message says why, and contains no password. Click prints it."""


class Stopped(click.ClickException):
    """A command ends with an exit code of ours, after the reason was printed."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.exit_code = code  # type: ignore[misc]  # One for each error, not for each class.

    def show(self, file: Any = None) -> None:
        """Say why. Called by click."""
        say(self.message)


def check_posix(command: str) -> None:
    """Raise ``BadUsage`` for a command that needs what Windows does not have."""
    if not is_posix():
        raise BadUsage(f"pyredisson {command} needs a POSIX system, such as Linux or macOS: signals and process groups")


def signals(*names: str) -> tuple[signal.Signals, ...]:
    """Return the signals with these names, of those that this system has."""
    return tuple(signal.Signals[name] for name in names if name in signal.Signals.__members__ and hasattr(signal, name))


def bad_url(url: str, error: Exception) -> BadUsage:
    """Return the error for a URL that is not valid: why not, and no part of it."""
    if len(url.split()) > 1:
        return BadUsage(
            f"this command takes the URL of one server, not of {len(url.split())}: see --url, PYREDISSON_URL"
        )
    return BadUsage(f"the URL (--url, PYREDISSON_URL) is not valid: {error}")


def connect(url: str, config: Config) -> Redisson:
    """Return a client for a URL that a user typed. It sends nothing yet.

    Raises:
        BadUsage: The URL is not valid. The message does not repeat it: a part that failed to parse may be a password.
    """
    try:
        return Redisson.from_url(url, config=config)
    except (ValueError, TypeError) as error:
        raise bad_url(url, error) from None


def inspector_at(url: str, prefix: str) -> Inspector:
    """Return an inspector for a URL that a user typed. It sends nothing yet. Raises as :func:`connect` does."""
    try:
        return Inspector(url, prefix=prefix)
    except (ValueError, TypeError) as error:
        raise bad_url(url, error) from None


def plain(text: str) -> str:
    """Return a text with control characters escaped: in the error of a server they could control the terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def failure(error: Exception, url: str | None = None) -> Stopped:
    """Return how every command ends that a server did not answer or refused.

    Args:
        error: What happened.
        url: The server, its password masked.
    """
    server = f"the server{f' at {url}' if url else ''}"
    remedy = remedy_of(str(error))
    hint = f"; {remedy}" if remedy and remedy not in str(error) else ""  # Most errors say it themselves.
    match answered(error):
        case "refused":
            return Stopped(ExitCode.REFUSED, f"{server} refused: {text_of(error)}{hint}")
        case "not now":
            return Stopped(ExitCode.UNAVAILABLE, f"{server} is there, and cannot do this now: {error}{hint}")
        case "elsewhere":
            return Stopped(ExitCode.BAD_SERVER, f"{server} is not the one to ask: {error}{hint}")
        case _:
            if not hint and url is not None and url.startswith("rediss"):
                hint = "; does it speak TLS? Without, it is redis://"
            return Stopped(ExitCode.UNAVAILABLE, f"{server} is not available: {describe(error)}{hint}")


def say(text: str) -> None:
    """Write a line to stderr, unbuffered: a buffer that cannot be flushed at exit would change the exit code."""
    try:
        os.write(sys.stderr.fileno(), f"pyredisson: {plain(text)}\n".encode(errors="backslashreplace"))
    except (OSError, AttributeError):
        pass  # The reader is gone, or stderr was closed before we started. The command goes on.


# ---- output ----------------------------------------------------------------------------------------------------------
# Output that goes on: whether it is still read, and how to end without a word when it is not.


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


# ---- texts -----------------------------------------------------------------------------------------------------------


def duration_text(seconds: float) -> str:
    """Return a duration for people, in one or two units: ``0.25 s``, ``41 s``, ``6 m 2 s``, ``3 d 4 h``."""
    seconds = max(0.0, seconds)
    if not math.isfinite(seconds):
        return "forever"
    if seconds < 9.95:
        return f"{seconds:.2g} s" if seconds >= 0.001 else "0 s"
    left = round(seconds)
    if left < 60:
        return f"{left} s"
    if left >= 10 * 3600:
        left = round(left / 60) * 60  # No seconds are shown; do not cut them off.
    pairs = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)]
    first = next(index for index, (_, size) in enumerate(pairs) if left >= size)
    (unit, size), (lower, lower_size) = pairs[first : first + 2]
    rest = left % size // lower_size
    return f"{left // size} {unit}" + (f" {rest} {lower}" if rest else "")


# ---- held by ---------------------------------------------------------------------------------------------------------
# Who holds a lock, in half a sentence for a person who waits for it or was refused.


TIMEOUT = 1.0  # seconds for each answer


def held_by(url: str, name: str, prefix: str = "") -> str:
    """Return by whom a lock is held, since when and until when, or that it is no lock; empty if it is free."""
    try:
        with Inspector(url, prefix=prefix, timeout=TIMEOUT) as inspector:
            return _state_of(inspector, name)
    except (ValueError, rx.RedisError, OSError) as error:
        return f"held by an owner that is not known ({plain(describe(error))})"


def _state_of(inspector: Inspector, name: str) -> str:
    view = inspector.lock(name)
    if view is None or (view.taken and view.permits is None):
        return inspector.foreign(name) or ""
    return f"held by {holders}" if (holders := describe_holders(view, time.time())) else ""


def describe_holders(view: LockView, now: float) -> str:
    """Return who holds a lock: ``"web@web-3 pid 4711 t12 for 3 m; it expires in 22 s unless it is renewed"``."""
    if not view.holders:
        return ""
    first, *others = view.holders
    text = describe_who(first, now, clock=True) + (f" and {len(others)} more" if others else "")
    if view.never_expires:
        return f"{text}; it never expires"
    if view.free_in is None:
        return text
    renewal = "" if first.watchdog is False else " unless it is renewed"
    return f"{text}; it expires in {duration_text(view.free_in)}{renewal}"


def describe_who(who: Who, now: float, *, clock: bool = False) -> str:
    """Return who it is and for how long, in a line; with ``clock`` also since when."""
    since = "" if who.since is None else f" for {duration_text(now - who.since)}"
    if who.since is not None and clock:
        since += f" (since {time.strftime('%H:%M:%S', time.localtime(who.since))})"
    by_hand = "" if who.reason is None else f", by hand: {who.reason}"
    return f"{who.label}{since}{by_hand}"
