"""What the commands that look at locks share: connecting, what they print, and how it fits the terminal."""

from __future__ import annotations

import errno
import json
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from typing import Any, TypeVar

import click
import redis.exceptions as rx
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from pyredisson._tools.common import ExitCode, duration_text, failure, inspector_at, plain, say
from pyredisson.inspection import NOT_UTF8, Inspector, LockView, WaiterView, Who, as_json, describe
from pyredisson.inspection.look import Look
from pyredisson.inspection.model import stored_kinds
from pyredisson.inspection.servers import answered

T = TypeVar("T")

Line = list[tuple[str, str]]
"""A line to print: its parts, each with a style of rich."""

NARROW = 60  # columns; a table that does not fit into fewer becomes a list
SMALLEST = 12  # columns of a cell that is cut
MOST_PADDED = 60  # columns to which cells are padded in a pipe, where none is cut
PROGRESS_AFTER = 0.5  # seconds


@contextmanager
def inspecting(url: str, prefix: str) -> Iterator[Inspector]:
    """Look at the servers of a URL. Ends the command if the URL is not valid, or no server answers."""
    inspector = inspector_at(url, prefix)
    try:
        with inspector:
            yield inspector
    except (rx.RedisError, OSError) as error:
        if isinstance(error, BrokenPipeError) or (isinstance(error, OSError) and error.errno == errno.ENOSPC):
            raise  # It is the output that failed, not the server.
        raise failure(error, inspector.url) from None


def views_with_progress(look: Look, *, quiet: bool) -> Iterator[LockView]:
    """Yield what a look finds, with a progress bar on a terminal if it takes long. Raises if nothing can be read."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield from look.views()
    else:
        yield from _with_bar(look, console)
    if look.is_blind:
        look.raise_errors()


def _with_bar(look: Look, console: Console) -> Iterator[LockView]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn  # Its import takes long.

    columns = TextColumn("searching"), BarColumn(), MofNCompleteColumn(), TextColumn("keys")
    bar = Progress(*columns, console=console, transient=True)
    task = bar.add_task("", total=None)
    began = time.monotonic()

    def show(done: int, total: int) -> None:
        if not bar.live.is_started and time.monotonic() - began > PROGRESS_AFTER:
            bar.start()
        bar.update(task, completed=done // 4, total=max(1, total // 4))

    look.progress = show
    # The default of the command line ends it without another word, and would leave the cursor hidden.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield from look.views()
    except KeyboardInterrupt:
        raise SystemExit(ExitCode.SIGNALLED + signal.SIGINT) from None
    finally:
        bar.stop()


def finish(look: Look, url: str, *, needed: Sequence[str] = ()) -> int:
    """Say what a look could not read, and return the exit code for that; 0: it could read everything.

    Args:
        look: It has ended.
        url: The server, password masked.
        needed: Which of the look's doubts leave the question of the command without an answer. Others are only said.
    """
    codes = [failure(each).exit_code for each in look.errors]
    for error in look.errors:
        say(failure(error, url).message if answered(error) != "not" else describe(error))
    for what, error in look.doubts.items():
        say(f"{UNKNOWN[what]} is not known: {failure(error, url).message}")
        codes += [ExitCode.REFUSED] if what in needed else []
    if look.unread:
        say(f"{look.unread:,} keys could not be read: they may be locks")
    if not look.complete:
        say("not all keys were searched")
        codes.append(ExitCode.FAILED)
    return max((code for code in codes if code != ExitCode.UNAVAILABLE), default=0)


#: What each doubt of a look is about.
UNKNOWN = {"connections": "who is connected", "waiters": "who waits", "owners": "what clients report of themselves"}


# ---- texts -----------------------------------------------------------------------------------------------------------


def quoted(text: str) -> str:
    """Return a name as a shell reads it, with nothing in it that a terminal acts on."""
    return shlex.quote(text) if text.isprintable() else f"$'{''.join(map(_escaped, text))}'"


def _escaped(character: str) -> str:
    """Return a character as a shell reads it between ``$'`` and ``'``: one that is not shown, by its bytes."""
    if character.isprintable():
        return f"\\{character}" if character in "'\\" else character
    if character.isascii():
        return plain(character)
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def shell_name(lock: LockView) -> str:
    """Return a lock's name as a shell reads it, also if it is no UTF-8."""
    if NOT_UTF8 not in lock.notes:
        return quoted(lock.name)
    name = plain(lock.name).replace("'", r"\'")
    return f"$'{name}'"


def ago(since: float | None, now: float) -> str:
    """Return for how long something has gone on; ``-`` if that is not known."""
    return "-" if since is None else duration_text(max(0.0, now - since))


def held_by(lock: LockView) -> str:
    """Return who holds a lock, in one cell of a table."""
    number = stored_kinds()[lock.kind].number
    if number == "count":
        return f"count {lock.count}" if lock.count is not None else "-"
    if number == "permits":
        taken = [] if lock.taken is None else [f"{lock.taken} taken"]
        # Another library's semaphore does not store how many are available.
        return ", ".join([*taken, *([] if taken and lock.permits is None else [f"{lock.permits or 0} available"])])
    if len(lock.holders) > 1:
        return f"{len(lock.holders)} {'readers' if lock.mode == 'read' else 'holders'}"
    return lock.holders[0].label if lock.holders else "-"


def waiting_text(lock: LockView) -> str:
    """Return who waits, in one cell of a table."""
    if not lock.waiters:
        count = lock.waiting_clients
        if not lock.waiters_known:
            return "?"
        return "" if not count else f"{count} client" + ("s" if count > 1 else "")
    waiters = [each for each in lock.waiters if not each.dead]
    queued = sum(each.place is not None for each in waiters)
    if queued and queued == len(waiters):
        return f"{queued} queued"
    clients = {each.who.client_id for each in waiters}
    return f"{len(waiters)} in {len(clients)} client" + ("s" if len(clients) > 1 else "")


#: What to say of a hash that never expires, and whose owners are of no known client.
MAY_BE_DATA = "never expires, as no lock does: it may be the data of a program"


def free_command(lock: LockView, prefix: str = "", permits: int | None = None) -> str:
    """Return the command that frees a lock if the same owner still holds it, or permits of a holder that is gone.

    ``permits``: how many, if no one is known to have them.
    """
    if permits is not None:
        return shell_command("permits", shell_name(lock), prefix, f"--free {permits}")
    if lock.permits is not None:
        gone = next(who for who in lock.holders if who.gone)
        force = gone.closed and lock.taken is None
        return unlock_command(shell_name(lock), gone.client_id or gone.owner, prefix, "--force" if force else "")
    ids = {who.client_id or who.owner for who in lock.holders}
    option = "--force" if lock.may_be_data else ""
    return unlock_command(shell_name(lock), ids.pop() if len(ids) == 1 else None, prefix, option)


def unlock_command(name: str, holder: str | None = None, prefix: str = "", option: str = "") -> str:
    """Return the command that frees a lock whose name is as a shell reads it."""
    return shell_command("unlock", name, prefix, option, "" if holder is None else f"--holder {holder}")


def shell_command(command: str, name: str, prefix: str, *options: str) -> str:
    """Return a command for a lock whose name is as a shell reads it; options may be empty."""
    words = [each for each in (*options, f"--prefix={quoted(prefix)}" if prefix else "") if each]
    # A name with a dash would be read as an option.
    words = [*words, "--", name] if name.lstrip("$'").startswith("-") else [name, *words]
    return " ".join(["pyredisson", command, *words])


def note_style(note: str) -> str:
    """Return the style of a note."""
    return "bold red" if "never expires" in note else "yellow"


# ---- output ----------------------------------------------------------------------------------------------------------


def print_json(report: dict[str, Any]) -> None:
    """Print a report as JSON."""
    click.echo(json.dumps({"schema": 1, **as_json(report)}, indent=2))


def print_json_list(key: str, batches: Iterable[Iterable[Any]], rest: Callable[[], dict[str, Any]]) -> None:
    """Print a report as JSON, an item a line as they are found, then what is known when all were."""
    items = chain.from_iterable(batches)
    first = list(islice(items, 1))  # Nothing is printed if no server answers.
    click.echo(f'{{\n  "schema": 1,\n  "{key}": [', nl=False)
    for number, item in enumerate(chain(first, items)):
        click.echo(f"{',' if number else ''}\n    {json.dumps(as_json(item))}", nl=False)
    end = json.dumps(as_json(rest()), indent=2).removeprefix("{")
    click.echo(f"\n  ],{end}")


def print_lines(lines: Sequence[Line]) -> None:
    """Print lines: wrapped by words on a terminal, as they are elsewhere."""
    console = _console()
    for line in lines:
        text = Text()
        for part, style in line:
            text.append(plain(part), style or None)
        if console.is_terminal:
            _print_wrapped(console, text)
        else:
            console.print(text, soft_wrap=True)


def _print_wrapped(console: Console, text: Text) -> None:
    """Print a text; the lines that follow its first are indented below it."""
    indent = len(text.plain) - len(text.plain.lstrip())
    first, *rest = text.wrap(console, console.width) or [Text()]
    console.print(first, soft_wrap=True)
    if rest:
        behind = text[len(first.plain.rstrip()) :]
        behind = behind[len(behind.plain) - len(behind.plain.lstrip()) :]
        for each in behind.wrap(console, max(10, console.width - indent - 2)):
            console.print(Text(" " * (indent + 2)) + each, soft_wrap=True)


def print_batches(
    titles: Sequence[str],
    batches: Iterable[Sequence[T]],
    row_of: Callable[[T], Sequence[str]],
    flexible: Sequence[int],
    notes: int = -1,
) -> None:
    """Print a table as its rows are found. Where it is too wide it is cut, and on a narrow terminal it becomes a list.

    Args:
        titles: The titles.
        batches: What it has a row for. The first batch decides how wide the columns are.
        row_of: Returns the cells of a row.
        flexible: The columns that can be cut.
        notes: The column whose cells are remarks.
    """
    console = _console()
    widths: dict[int, int] | None = None
    columns: list[int] = []
    as_list = False
    for batch in batches:
        cells = [[plain(cell) for cell in row_of(each)] for each in batch]
        if not cells:
            continue
        if widths is None:
            more = len(cells) >= 100  # Others may have what none of these has: each column is shown.
            used = [more or not at or any(row[at] for row in cells) for at in range(len(titles))]
            columns = [at for at in range(len(titles)) if used[at]]
            widths = {at: max(_width(titles[at]), *(_width(row[at]) for row in cells), 0) for at in columns}
            if not console.is_terminal:
                widths = {at: min(width, MOST_PADDED) for at, width in widths.items()}
            as_list = console.is_terminal and not _fit(widths, flexible, console.width)
            if not as_list:
                heading = _row([titles[at] for at in columns], [*widths.values()], ["dim"] * len(columns))
                console.print(heading, soft_wrap=True)
        if as_list:
            _print_list(console, titles, cells, columns, notes)
        elif console.is_terminal:
            for row in cells:
                styles = ["bold" if not at else note_style(row[at]) if at == notes else "" for at in columns]
                console.print(_row([row[at] for at in columns], [*widths.values()], styles), soft_wrap=True)
        else:
            click.echo("\n".join(_plain_row([row[at] for at in columns], [*widths.values()]) for row in cells))
    sys.stdout.flush()


def _width(text: str) -> int:
    """Return how many columns a text takes."""
    return len(text) if text.isascii() else cell_len(text)


def _plain_row(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [cell + " " * (width - _width(cell)) for cell, width in zip(cells, widths, strict=True)]
    return "  ".join(padded).rstrip()


def _fit(widths: dict[int, int], flexible: Sequence[int], width: int) -> bool:
    """Make columns narrower until they fit. Returns whether they do."""
    over = sum(widths.values()) + 2 * (len(widths) - 1) - width
    while over > 0:
        widest = max((at for at in flexible if at in widths), key=lambda at: widths[at], default=None)
        if widest is None or widths[widest] <= SMALLEST:
            return False
        widths[widest] -= 1
        over -= 1
    return width >= NARROW


def _row(cells: Sequence[str], widths: Sequence[int], styles: Sequence[str]) -> Text:
    parts = [Text(cell, style) for cell, style in zip(cells, styles, strict=True)]
    for part, width in zip(parts, widths, strict=True):
        part.truncate(width, overflow="ellipsis", pad=True)
    row = Text("  ").join(parts)
    row.rstrip()
    return row


def _print_list(
    console: Console, titles: Sequence[str], cells: Sequence[Sequence[str]], columns: Sequence[int], notes: int
) -> None:
    for row in cells:
        console.print(Text(row[columns[0]], "bold"), overflow="fold")
        for at in columns[1:]:
            if row[at] not in ("", "-"):
                line = Text.assemble(f"  {titles[at].lower()} ", (row[at], note_style(row[at]) if at == notes else ""))
                console.print(line, overflow="fold")


class Output(Console):
    """A console for which the end of its reader is an error, which the command line handles."""

    def on_broken_pipe(self) -> None:
        """Raise the error: rich would end the program, with the exit code of a failure."""
        raise BrokenPipeError


def _console() -> Console:
    return Output(file=sys.stdout, highlight=False, markup=False, emoji=False)


def stack_lines(who: Who, indent: int) -> Iterator[Line]:
    """Yield the stack of an owner: a call may have two lines, its place and its text."""
    for call in who.stack:
        yield from ([(f"{' ' * indent}{line}", "dim")] for line in call.splitlines())


def describe_waiter(waiter: WaiterView, now: float) -> str:
    """Return who waits and for how long, in a line."""
    since = "" if waiter.since is None else f" for {ago(waiter.since, now)}"
    dead = ", considered dead" if waiter.expired else ""  # One that is gone has that in its label.
    return f"{waiter.who.label}{since}{dead}"
