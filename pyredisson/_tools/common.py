"""What the commands share: exit codes, connections, options and what users type in them, and text for a terminal."""

from __future__ import annotations

import functools
import json
import math
import os
import re
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from enum import IntEnum
from typing import Any, TypeVar

import click
import redis.exceptions as rx
from click.shell_completion import CompletionItem

from pyredisson import Config, Redisson
from pyredisson._core.deadline import HOUR, explicit
from pyredisson._core.failures import remedy_of
from pyredisson._core.names import check_name
from pyredisson._net.urls import DEFAULT_URL
from pyredisson._shared.process import is_posix
from pyredisson.inspection import DOUBTFUL, Inspector, LockView, Who, describe
from pyredisson.inspection.servers import answered, decode_name, encode_name, text_of

F = TypeVar("F", bound=Callable[..., Any])


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


# ---- options ---------------------------------------------------------------------------------------------------------
# Options that many commands have, and how they are read.


def json_option(text: str = "Print the report as JSON.") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add ``--json``, with this help. With it an error that ends the command is an object on stdout, too."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(command)
        def call(**options: Any) -> Any:
            try:
                return command(**options)
            except click.ClickException as error:
                if options["as_json"]:
                    said = {"schema": 1, "error": error.format_message(), "exit_code": error.exit_code}
                    click.echo(json.dumps(said))
                raise

        return click.option("--json", "as_json", is_flag=True, help=text)(call)

    return add


url_option = click.option(
    "--url",
    default=DEFAULT_URL,
    envvar="PYREDISSON_URL",
    show_envvar=True,
    help="A server (redis://, rediss:// or unix://), sentinels (redis+sentinel://) or a cluster (redis+cluster://).",
)


def server_options(command: F) -> F:
    """Add ``--url`` and ``--prefix``."""
    prefix = click.option(
        "--prefix", default="", show_default=False, metavar="TEXT", help="Config.prefix of the programs."
    )
    return url_option(prefix(command))


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


# ---- durations -------------------------------------------------------------------------------------------------------
# Durations as users type them: ``5s``, ``10m``, ``1h30m``. A plain number is seconds; one of more than an hour is
# refused, since it may be meant in milliseconds. A unit cannot be mistaken: the library accepts what has one.


#: Seconds of each unit, the largest first: the order in which they are written.
UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}

MAX_SECONDS = 100 * 365 * UNITS["d"]

_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
_PLAIN = re.compile(_NUMBER, re.ASCII)
_PARTS = re.compile("".join(rf"(?:{_NUMBER}{unit}\s*)?" for unit in UNITS), re.ASCII)

EXAMPLES = "such as 5s, 10m or 1h30m; a plain number is seconds, and at most 3600"


def parse_duration(text: str) -> float:
    """Return a duration in seconds: ``"90"``, ``"1.5m"``, ``"1h30m"``, ``"250ms"``; the largest unit first.

    Raises:
        ValueError: The text is not a duration, or one of more than a hundred years; or a plain number above 3,600.
    """
    text = text.strip()
    if is_plain := _PLAIN.fullmatch(text):
        total = float(text)
    else:
        parts = _PARTS.fullmatch(text)
        if not text or parts is None:
            raise ValueError(f"{text!r} is not a duration, {EXAMPLES}")
        # Rounded: 1.1 m is 66 s, although its binary fraction is a little more.
        total = round(
            sum(float(part or 0) * unit for part, unit in zip(parts.groups(), UNITS.values(), strict=True)), 9
        )
    if not total <= MAX_SECONDS:
        raise ValueError(f"{text!r} is longer than 100 years")
    if is_plain and total > HOUR:
        raise ValueError(f"{text!r} has no unit, and is more than an hour in seconds: write {text}s, or {text}ms")
    return explicit(total)


class Duration(click.ParamType):  # type: ignore[type-arg]  # Not generic before click 8.5.
    """An option's duration, in seconds for the command.

    Args:
        zero: Whether it may be 0.
        least: The seconds that it must last at least.
    """

    name = "time"

    def __init__(self, *, zero: bool = False, least: float = 0) -> None:
        self._zero = zero
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds, or fail with a message for the user."""
        try:
            seconds = value if isinstance(value, float) else parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if seconds <= 0 and not self._zero:
            self.fail(f"must be longer than 0, {EXAMPLES}", param, ctx)
        if seconds < self._least:
            self.fail(f"must be at least {duration_text(self._least)}", param, ctx)
        return seconds


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


# ---- completion of names ---------------------------------------------------------------------------------------------
# A shell waits while we look, and shows whatever we write. So the look has a bound in time and number, it is silent
# when it fails, and names that could move the terminal are left out.


COMPLETE_WITHIN = 0.5  # seconds
MOST_COMPLETED = 200  # names: more than that are not read

_INTERNAL = ("redisson_", "pyredisson_", "{redisson_", "{pyredisson_")


def complete_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return the names of locks that begin with what was typed; none if the server does not answer in time."""
    url = context.params.get("url") or os.environ.get("PYREDISSON_URL", DEFAULT_URL)
    prefix = context.params.get("prefix") or ""
    found: list[str] = []

    def look() -> None:
        try:
            lock_names(url if isinstance(url, str) else url[0], prefix + incomplete, found)
        except Exception:  # Whatever it is: there is no place to say it.
            pass

    # A thread, so that no server and no resolver of names can make the shell wait.
    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    looking.join(COMPLETE_WITHIN)
    return [CompletionItem(name.removeprefix(prefix)) for name in sorted(found[:MOST_COMPLETED])]


class LockName(click.ParamType):  # type: ignore[type-arg]  # Not generic before click 8.5.
    """The argument NAME of a command. Keys that are no UTF-8 have names, too."""

    name = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or fail with a message for the user."""
        try:
            check_name(decode_name(encode_name(value)))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Return the names of locks that begin with what was typed."""
        return complete_names(ctx, param, incomplete)


def complete_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Let the shell complete the name of a file."""
    return [CompletionItem(incomplete, type="file")]


def lock_names(url: str, prefix: str, found: list[str]) -> None:
    """Add the names of locks that are held to ``found``, by a search that has a bound in time and number."""
    ends = time.monotonic() + COMPLETE_WITHIN
    doubtful: list[str] = []  # Strings that may be locks or data.
    with Inspector(url, prefix=prefix, timeout=COMPLETE_WITHIN) as inspector:
        for lock in inspector.locks(seconds=COMPLETE_WITHIN):
            name = prefix + lock.name
            if lock.held and name.isprintable() and not name.startswith(_INTERNAL):
                (doubtful if DOUBTFUL in lock.notes else found).append(name)
            if len(found) >= MOST_COMPLETED or time.monotonic() > ends:
                break
    if len(doubtful) <= MOST_COMPLETED:
        found += doubtful


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
