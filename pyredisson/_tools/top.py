"""``pyredisson top``: a table that is drawn once a second, or a record a round where no one looks at a terminal."""

from __future__ import annotations

import json
import math
import os
import re
import select
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from importlib import import_module
from types import FrameType
from typing import Any, TypeAlias

import click
import redis.exceptions as rx
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pyredisson._shared.process import is_posix
from pyredisson._tools import common
from pyredisson._tools.sampling import RELEASES, Message, MessageReader, Pace, in_daemon_thread, name_of
from pyredisson._tools.tables import inspecting
from pyredisson.inspection import Inspector, LockView, Snapshot
from pyredisson.inspection.servers import Server, encode_name, glob_to_pattern

INTERVAL = 1.0  # seconds
ROWS = 20  # in a record


@click.command()
@click.argument("pattern", required=False, shell_complete=common.complete_names)
@common.json_option("Print one JSON object a round.")
@click.option(
    "--rounds", type=click.IntRange(min=1), metavar="N", help="End after N rounds.  [default: at q or Ctrl-C]"
)
@common.server_options
def top(pattern: str | None, *, url: str, prefix: str, as_json: bool, rounds: int | None) -> int:
    """Show the locks with the most waiters, releases and the longest holds, once a second. Only reads.

    \b
        pyredisson top
        pyredisson top 'order:*' --json --rounds 60

    PATTERN is one of SCAN, such as 'order:*'. In a pipe a record is printed each round, and no table is drawn. Releases
    are counted by their messages: those of spin locks and token locks send none. Waits are those that go on and that
    clients report, which they do after a few seconds. Locks are searched for less often than once a second, so that the
    search takes at most a twentieth of the time.

    \b
    Exit code:
       0  it was ended by q, after N rounds, or by the reader of its output
       2  wrong usage
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  the URL does not fit what answers there: its kind, its database, or it is no Redis
    """
    with inspecting(url, prefix) as inspector, closing(Sampler(inspector, pattern, rows=ROWS)) as sampler:
        if as_json or not _is_terminal():
            return _print_rounds(sampler, as_json=as_json, rounds=rounds)
        return _draw_rounds(sampler, rounds=rounds)


def _is_terminal() -> bool:
    try:
        return os.environ.get("TERM", "dumb") != "dumb" and os.isatty(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return False


def _rounds(sampler: Sampler, rounds: int | None, wait: Callable[[float], bool]) -> Iterator[Record]:
    """Yield the rounds, a second from one to the next; a server that is away for a while ends nothing."""
    count = 0
    failing = False
    due = time.monotonic() + INTERVAL  # What happens in a second is counted: there is nothing to count before.
    while wait(max(0.0, due - time.monotonic())):
        due = time.monotonic() + INTERVAL
        try:
            seen = sampler.round()
        except (rx.RedisError, OSError) as error:
            if not failing:
                common.say(common.failure(error).message)
            failing = True
            continue
        failing = False
        yield seen
        count += 1
        if count == rounds:
            return


def _print_rounds(sampler: Sampler, *, as_json: bool, rounds: int | None) -> int:
    def wait(seconds: float) -> bool:
        time.sleep(seconds)
        return not common.is_without_reader()

    for seen in _rounds(sampler, rounds, wait):
        for line in [json.dumps(seen)] if as_json else text_of(seen):
            print(line, flush=True)
    return 0


def _draw_rounds(sampler: Sampler, *, rounds: int | None) -> int:
    console = Console()
    with _keys() as wait, Live(Text("looking ..."), console=console, screen=True, auto_refresh=False) as live:
        for seen in _rounds(sampler, rounds, wait):
            live.update(screen_of(seen, console), refresh=True)
            sampler.rows = max(1, console.height)
    return 0


class _Ended(BaseException):
    """A signal that would leave the terminal as we have set it."""

    def __init__(self, signum: int) -> None:
        self.signum = signum


@contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Read keys one by one. Gives a function that waits, and returns whether to go on.

    After the block the terminal is as it was, also when Ctrl-C or SIGTERM ends it: then the process ends by that, too.
    """

    def end(signum: int, frame: FrameType | None) -> None:
        raise _Ended(signum)

    before = {signum: signal.signal(signum, end) for signum in common.signals("SIGINT", "SIGTERM", "SIGHUP")}
    termios = import_module("termios") if is_posix() and os.isatty(0) else None  # Windows has none.
    settings = None if termios is None else termios.tcgetattr(0)
    ended: int | None = None
    try:
        if termios is not None:
            import_module("tty").setcbreak(0)
        yield _wait if termios is None else _wait_for_key
    except _Ended as error:
        ended = error.signum
    finally:
        if termios is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, settings)
        for signum, handler in before.items():
            signal.signal(signum, handler)
    if ended is not None:
        signal.signal(ended, signal.SIG_DFL)
        os.kill(os.getpid(), ended)


def _wait(seconds: float) -> bool:
    time.sleep(seconds)
    return True


def _wait_for_key(seconds: float) -> bool:
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        if select.select([0], [], [], left)[0] and os.read(0, 1) in (b"q", b"Q", b""):
            return False
    return True


# ---- rounds ----------------------------------------------------------------------------------------------------------
# What ``pyredisson top`` shows in one round, worked out of what was seen. Pure: it asks no server.


Record: TypeAlias = "dict[str, Any]"
"""A round, or one of its locks, as JSON has it: with units in its names, and ``None`` where something is not known."""


def _ms(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the sorted values does not exceed."""
    return values[max(0, math.ceil(share * len(values)) - 1)]


def round_of(
    snapshot: Snapshot,
    fresh: Mapping[str, LockView | None],
    rates: Mapping[str, float] | None,
    *,
    now: float,
    rows: int,
    cpu: float | None = None,
    sampled: bool = False,
) -> Record:
    """Return a round: numbers of all locks, and the most contended ones.

    Args:
        snapshot: The last search.
        fresh: Views of single locks that are newer; ``None``: it is gone.
        rates: Releases a second by name; ``None``: they are not counted.
        now: Unix time.
        rows: How many locks to list.
        cpu: What share of a core the servers use.
        sampled: Whether releases are counted only now and then.
    """
    views = [view for old in snapshot.locks if (view := fresh.get(old.name, old)) is not None]
    shown = [view for view in views if view.held or view.waiting]
    known = {view.name for view in shown}
    # A lock that is released often may be free whenever it is looked at.
    shown += [
        LockView(name, "lock", "")
        for name, rate in sorted((rates or {}).items(), key=lambda pair: -pair[1])[:rows]
        if name not in known and rate > 0
    ]
    locks = [_lock(view, rates, now) for view in shown]
    locks.sort(
        key=lambda row: (-row["waiting"], -(row["releases_per_second"] or 0), -(row["held_ms"] or 0), row["name"])
    )
    waits = sorted(now - each.since for view in views for each in view.waiters if each.since is not None)
    return {
        "schema": 1,
        "at_unix_ms": _ms(now),
        "held": sum(view.held for view in views),
        "contended": sum(view.waiting > 0 for view in views),
        "waiting": sum(view.waiting for view in views),
        "releases_per_second": None if rates is None else round(sum(rates.values()), 1),
        "releases_sampled": sampled,
        "waits_p50_ms": _ms(percentile(waits, 0.5)) if waits else None,
        "waits_p99_ms": _ms(percentile(waits, 0.99)) if waits else None,
        "waits_known": len(waits),
        "searched_ms_ago": _ms(max(0.0, now - snapshot.taken)),
        "search_ms": _ms(snapshot.seconds),
        "complete": snapshot.complete,
        "server_cpu_percent": None if cpu is None else round(cpu * 100, 1),
        "errors": list(snapshot.errors),
        "locks": locks[:rows],
    }


def _lock(view: LockView, rates: Mapping[str, float] | None, now: float) -> Record:
    since = min((who.since for who in view.holders if who.since is not None), default=None)
    waits = [now - each.since for each in view.waiters if each.since is not None]
    return {
        "name": view.name,
        "kind": view.kind,
        "holders": [who.label for who in view.holders],
        "held_ms": None if since is None else _ms(max(0.0, now - since)),
        "free_in_ms": _ms(view.free_in),
        "never_expires": view.never_expires,
        "waiting": view.waiting,
        "longest_wait_ms": _ms(max(waits, default=None)),
        "releases_per_second": None if rates is None else round(rates.get(view.name, 0.0), 1),
    }


# ---- sampler ---------------------------------------------------------------------------------------------------------
# How ``pyredisson top`` samples servers, and what that costs them.
# * A search for all locks (SCAN) takes at most `LONG_SEARCH` seconds, and the next one begins when `SEARCH_SHARE` times
#   as long has passed: searches take at most one part in twenty of the time, however many locks there are. But the
#   first one, for which the user waits, is short, and if it does not find all, the second one follows immediately.
# * The locks at the top, and the list of the clients, are read again each round, unless that takes long, too.
# * Releases are counted by their messages, which the server sends to us as to any subscriber. If they are more than
#   `MANY_MESSAGES` a second, they are counted in one round of ten.


SHORT_SEARCH = 2.0  # seconds
LONG_SEARCH = 30.0
SEARCH_SHARE = 20.0
SEARCH_AGAIN = 5.0  # seconds, at least
READ_AGAIN = 10  # locks, each round
MANY_MESSAGES = 5000
SAMPLED = 10  # rounds

_CPU = re.compile(rb"^used_cpu_(?:sys|user):(\d+(?:\.\d+)?)\r?$", re.MULTILINE)


class Releases:
    """Counts the release messages of all locks, by channel, in some rounds only if they are many."""

    def __init__(self, servers: list[Server]) -> None:
        self._servers = servers
        self._counts: Counter[str] = Counter()
        self._mutex = threading.Lock()
        self._skip = 0  # rounds
        self._subscribe()

    @property
    def is_sampled(self) -> bool:
        """Whether they are counted only now and then."""
        return self._skip > 0

    def counted(self, seconds: float) -> Mapping[str, int] | None:
        """Return what was counted in the seconds since the last call; ``None`` if it was not counted."""
        with self._mutex:
            counts, self._counts = self._counts, Counter()
        if self._skip > 1:
            self._skip -= 1
            if self._skip == 1:
                self._subscribe()
            return None
        if not any(each.ready.is_set() for each in self._subscriptions):
            return None
        self._skip = SAMPLED if counts.total() > MANY_MESSAGES * seconds else 0
        if self._skip:
            for each in self._subscriptions:
                each.end()
        return counts

    def close(self) -> None:
        """Stop counting."""
        for each in self._subscriptions:
            each.close()

    def _subscribe(self) -> None:
        self._subscriptions = [MessageReader(each, self._receive, beginnings=RELEASES) for each in self._servers]

    def _receive(self, message: Message) -> None:
        if message.kind == "message":
            with self._mutex:
                self._counts[message.channel] += 1


class Sampler:
    """Reads locks, one round after another.

    Args:
        inspector: Reads the locks.
        pattern: Which locks; ``None``: all.
        rows: How many locks to list.

    Raises:
        redis.exceptions.RedisError: The server is not available.
    """

    def __init__(self, inspector: Inspector, pattern: str | None = None, *, rows: int = 20) -> None:
        self.rows = rows
        self._pattern = pattern
        self._wanted = glob_to_pattern(encode_name(pattern or "*"))
        self._inspector = inspector
        self._masters = inspector.servers.masters()
        for server in self._masters:
            server.ask("PING")
        self._snapshot: Snapshot = self._inspector.snapshot(pattern, seconds=SHORT_SEARCH)
        self._searches = Pace(SEARCH_SHARE, least=SEARCH_AGAIN)
        if self._snapshot.complete:
            self._searches.worked(self._snapshot.seconds)
        self._search: Future[Snapshot] | None = None
        self._fresh: Mapping[str, LockView | None] = {}
        self._reads = Pace(SEARCH_SHARE)
        sharded = inspector.servers.publishes_by(self._masters[0]) == "SPUBLISH"  # There are no patterns for those.
        self._releases = Releases([] if sharded else self._masters)
        self._counted_at = time.monotonic()
        self._rates: Mapping[str, float] | None = None
        self._cpu: tuple[float, float] | None = None
        self._read_cpu()

    def round(self) -> Record:
        """Read what is due, and return what is known.

        Raises:
            redis.exceptions.RedisError: The server does not answer.
        """
        if self._search is not None and self._search.done():
            if self._search.exception() is None:  # The round shows an error when it reads the locks at the top.
                self._snapshot = self._search.result()
            self._search, self._fresh = None, {}
            self._searches.worked(self._snapshot.seconds)
        elif self._search is None and self._searches.is_due:
            self._search = in_daemon_thread(
                lambda: self._inspector.snapshot(self._pattern, seconds=LONG_SEARCH), "pyredisson top search"
            )
        if self._reads.is_due:
            self._fresh = self._read_again()
        self._count()
        return self._round(self.rows, cpu=self._read_cpu())

    def close(self) -> None:
        """Stop counting. The inspector stays open."""
        self._releases.close()

    def _round(self, rows: int, cpu: float | None = None) -> Record:
        return round_of(
            self._snapshot,
            self._fresh,
            self._rates,
            now=time.time(),
            rows=rows,
            cpu=cpu,
            sampled=self._releases.is_sampled,
        )

    def _read_again(self) -> dict[str, LockView | None]:
        """Read the first few locks again."""
        began = time.monotonic()
        names = [row["name"] for row in self._round(min(self.rows, READ_AGAIN))["locks"]]
        found = {view.name: view for view in self._inspector.locks_named(names)}
        self._reads.worked(time.monotonic() - began)
        return {name: found.get(name) for name in names}

    def _count(self) -> None:
        now = time.monotonic()
        seconds, self._counted_at = now - self._counted_at, now
        counted = self._releases.counted(seconds)
        if counted is None or seconds <= 0:
            return  # The last rates stand.
        rates: Counter[str] = Counter()
        for channel, count in counted.items():
            key = name_of(channel)
            if key is not None and key.startswith(self._inspector.prefix):
                name = key.removeprefix(self._inspector.prefix)
                if self._wanted.fullmatch(encode_name(name)):
                    rates[name] += count
        self._rates = {name: count / seconds for name, count in rates.items()}

    def _read_cpu(self) -> float | None:
        """Return what share of a core the servers have used since the last call."""
        used, now = 0.0, time.monotonic()
        try:
            for server in self._masters:
                reply = server.ask("INFO", "cpu")
                used += sum(map(float, _CPU.findall(reply if isinstance(reply, bytes) else b"")))
        except (rx.RedisError, OSError):
            return None
        before, self._cpu = self._cpu, (used, now)
        if before is None or now <= before[1]:
            return None
        return max(0.0, (used - before[0]) / (now - before[1]))


# ---- show ------------------------------------------------------------------------------------------------------------
# How a round of ``pyredisson top`` looks: on a terminal of any width, and as text.


#: From how many columns on each column is shown.
COLUMNS = {"LOCK": 0, "WAITING": 0, "REL/s": 50, "HELD BY": 0, "FOR": 62, "FREE IN": 76, "LONGEST WAIT": 92}
RIGHT = {"WAITING", "REL/s", "FOR", "FREE IN", "LONGEST WAIT"}


def summary_of(seen: Record) -> str:
    """Return the numbers of all locks."""
    rate = seen["releases_per_second"]
    rate = "?" if rate is None else f"{'~' if seen['releases_sampled'] else ''}{rate:.0f}"
    parts = [f"{seen[name]} {name}" for name in ("held", "contended", "waiting")] + [f"{rate} releases/s"]
    if seen["server_cpu_percent"] is not None:
        parts.append(f"server {seen['server_cpu_percent']:.0f}% of a core")
    return " · ".join(parts)


def honesty_of(seen: Record) -> str:
    """Return where the numbers come from, and how old they are."""
    waits = "no wait of more than a few seconds is reported"
    if seen["waits_known"]:
        p50, p99 = _time(seen["waits_p50_ms"]), _time(seen["waits_p99_ms"])
        waits = f"waits so far p50 {p50}, p99 {p99}, of {seen['waits_known']} that their clients report"
    search = f"searched {_time(seen['searched_ms_ago'])} ago in {_time(seen['search_ms'])}"
    return f"{waits} · {search}{'' if seen['complete'] else ', not all keys'}"


def _time(ms: int | None) -> str:
    return "" if ms is None else common.duration_text(ms / 1000)


def cells_of(lock: Record) -> dict[str, str]:
    """Return what each column shows of a lock."""
    holders, rate = lock["holders"], lock["releases_per_second"]
    more = f" (+{len(holders) - 1})" if len(holders) > 1 else ""
    return {
        "LOCK": common.plain(lock["name"]),
        "WAITING": str(lock["waiting"] or ""),
        "REL/s": "" if not rate else f"{rate:.1f}" if rate < 10 else f"{rate:.0f}",
        "HELD BY": common.plain(holders[0]) + more if holders else "",
        "FOR": _time(lock["held_ms"]),
        "FREE IN": "never" if lock["never_expires"] else _time(lock["free_in_ms"]),
        "LONGEST WAIT": _time(lock["longest_wait_ms"]),
    }


def screen_of(seen: Record, console: Console) -> RenderableType:
    """Return what fits on a terminal."""
    width = console.width
    table = Table(box=None, expand=False, pad_edge=False, show_edge=False)
    columns = [name for name, least in COLUMNS.items() if width >= least]
    for name in columns:
        table.add_column(
            name,
            justify="right" if name in RIGHT else "left",
            no_wrap=True,
            overflow="ellipsis",
            max_width=max(8, width * 2 // 5) if name in ("LOCK", "HELD BY") else None,
        )
    notes = [Text(common.plain(error), style="red") for error in seen["errors"][:1]]
    header = Group(Text(summary_of(seen), style="bold"), Text(honesty_of(seen), style="dim"), *notes, Text())
    above_and_below = len(console.render_lines(header)) + 2
    for row in seen["locks"][: max(1, console.height - above_and_below)]:
        cells = cells_of(row)
        table.add_row(*(Text(cells[name], style=_style_of(name, row)) for name in columns))
    return Group(header, table, Text("q quits", style="dim"))


def _style_of(column: str, lock: Record) -> str:
    if column == "FREE IN" and lock["never_expires"]:
        return "red"
    return "yellow" if column == "WAITING" else ""


def text_of(seen: Record) -> Iterator[str]:
    """Yield the lines of a round for a pipe."""
    yield summary_of(seen)
    yield honesty_of(seen)
    yield from (common.plain(error) for error in seen["errors"])
    for row in seen["locks"]:
        cells = cells_of(row)
        known = {
            "WAITING": "waiting {}",
            "REL/s": "{}/s",
            "HELD BY": "held by {}",
            "FOR": "for {}",
            "FREE IN": "free in {}",
        }
        yield "  ".join(
            [f"  {cells['LOCK']}", *(form.format(cells[name]) for name, form in known.items() if cells[name])]
        )
    yield ""
