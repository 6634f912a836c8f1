"""What the commands share: exit codes, connecting to a URL that a user typed, and text for a terminal."""

from __future__ import annotations

import os
import signal
import sys
from enum import IntEnum
from typing import TYPE_CHECKING

import click

from pyredisson import Config, Redisson
from pyredisson._owners.forks import is_posix

if TYPE_CHECKING:
    from pyredisson.inspection import Inspector


class ExitCode(IntEnum):
    """Exit codes of our own, as in ``sysexits.h`` and ``sh``. All others are those of the command that is run."""

    FAILED = 1
    UNAVAILABLE = 69
    NOT_LOCKED = 75
    LOST = 76
    REFUSED = 77
    """This user may not do that, or the server does not know the command: trying again will not help."""
    BAD_SERVER = 78
    """What answers there is one node of a cluster, or no Redis at all."""
    NOT_EXECUTABLE = 126
    NOT_FOUND = 127
    SIGNALLED = 128
    """Plus the signal's number."""


class BadUsage(click.UsageError):
    """The command line is not valid. The message says why, and contains no password. Click prints it."""


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
    from pyredisson.inspection import Inspector  # Here: `run` does without it, mostly.

    try:
        return Inspector(url, prefix=prefix)
    except (ValueError, TypeError) as error:
        raise bad_url(url, error) from None


def read_address(text: str) -> tuple[str, int]:
    """Read ``HOST:PORT``, ``:PORT`` (all addresses) or ``[IPV6]:PORT``.

    Raises:
        BadUsage: It is none of these.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not (port.isascii() and port.isdigit() and int(port) < 65_536):
        raise BadUsage("--listen must be HOST:PORT, such as 127.0.0.1:8379; an IPv6 address is put in brackets")
    return host or "0.0.0.0", int(port)


def plain(text: str) -> str:
    """Return a text with control characters escaped: in the error of a server they could control the terminal."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)


def failure(error: Exception, url: str | None = None) -> tuple[ExitCode, str]:
    """Return the exit code of every command that a server did not answer or refused, and what it says then.

    Args:
        error: What happened.
        url: The server, its password masked.
    """
    from pyredisson._core.messages import remedy_of
    from pyredisson.inspection.servers import answered, describe, text_of

    server = f"the server{f' at {url}' if url else ''}"
    hint = f"; {remedy}" if (remedy := remedy_of(str(error))) else ""
    match answered(error):
        case "refused":
            return ExitCode.REFUSED, f"{server} refused: {text_of(error)}{hint}"
        case "not now":
            return ExitCode.UNAVAILABLE, f"{server} is there, and cannot do this now: {error}"
        case "elsewhere":
            return ExitCode.BAD_SERVER, f"{server} is not the one to ask: {error}"
        case _:
            if not hint and url is not None and url.startswith("rediss"):
                hint = "; does it speak TLS? Without, it is redis://"
            return ExitCode.UNAVAILABLE, f"{server} is not available: {describe(error)}{hint}"


def say(text: str) -> None:
    """Write a line to stderr, unbuffered: a buffer that cannot be flushed at exit would change the exit code."""
    try:
        os.write(sys.stderr.fileno(), f"pyredisson: {plain(text)}\n".encode(errors="backslashreplace"))
    except (OSError, AttributeError):
        pass  # The reader is gone, or stderr was closed before we started. The command goes on.
