"""What users type: options that many commands have, how they are read, and how shells complete names of locks."""

from __future__ import annotations

import functools
import json
import os
import re
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import click
from click.shell_completion import CompletionItem

from pyredisson._core.deadline import HOUR, explicit
from pyredisson._core.names import check_name
from pyredisson._net.urls import DEFAULT_URL
from pyredisson._tools.common import BadUsage, duration_text
from pyredisson.inspection import DOUBTFUL, Inspector
from pyredisson.inspection.servers import decode_name, encode_name

F = TypeVar("F", bound=Callable[..., Any])


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
