"""``pyredisson metrics``: what a server shows of its locks, for Prometheus. It only reads."""

from __future__ import annotations

import math
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from functools import partial
from heapq import nsmallest
from importlib.util import find_spec
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import click

from pyredisson._tools import common
from pyredisson._tools.sampling import in_daemon_thread
from pyredisson.inspection import LockView, Snapshot, Who, wait_graph
from pyredisson.inspection.inspector import Keep
from pyredisson.inspection.model import stored_kinds
from pyredisson.inspection.servers import encode_name, glob_to_pattern

if TYPE_CHECKING or find_spec("prometheus_client"):  # Without it, ``metrics()`` says so.
    from prometheus_client import CollectorRegistry, Metric, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.openmetrics.exposition import generate_latest

#: What the names of all metrics begin with.
PREFIX = "pyredisson"

#: A scrape waits for at most this long for a scan: by default Prometheus gives up after ten seconds.
SCRAPE_SECONDS = 8.0


class Tally:
    """What the metrics say of locks, counted as they are found: there may be more than fit into memory.

    Args:
        names: The pattern of the locks that have time series of their own; ``None``: no lock.
        limit: How many of these are kept at most: those that are held for the longest time.
    """

    def __init__(self, names: re.Pattern[bytes] | None = None, limit: int = 50) -> None:
        self.names: re.Pattern[bytes] | None = names
        self._limit = limit
        self.kinds: set[str] = set()
        self.held: Counter[str] = Counter()
        self.waiting: Counter[str] = Counter()
        self.unlimited: int = 0
        self.absent: int = 0
        self.dead: int = 0
        self.deadlocked: int = 0
        self.matching: int = 0
        self.held_since: float = math.inf
        self.waited_since: float = math.inf
        self._matching: list[tuple[float, str, LockView]] = []

    def count(self, locks: Iterable[LockView]) -> tuple[LockView, ...]:
        """Count all of them. Returns none: they are not kept."""
        graph = wait_graph(filter(self._count, locks))
        self.deadlocked = len({edge.waiter.owner for cycle in graph.cycles for edge in cycle})
        return ()

    def longest(self) -> list[LockView]:
        """Return those that have time series of their own."""
        self._matching = nsmallest(self._limit, self._matching, key=lambda each: each[:2])
        return [lock for _, _, lock in self._matching]

    def _count(self, lock: LockView) -> bool:
        """Count a lock. Returns whether it may be part of a deadlock."""
        since, wanted = _earliest(lock.holders), lock.held or lock.waiting
        if wanted and self.names is not None and self.names.fullmatch(encode_name(lock.name)):
            self.matching += 1
            self._matching.append((since, lock.name, lock))
            if len(self._matching) > 10 * self._limit:
                self.longest()
        # Who waits for an event or a barrier waits for no holder, and often for long: no reason for an alert.
        if stored_kinds()[lock.kind].number == "changes":
            return False
        self.kinds.add(lock.kind)
        self.waiting[lock.kind] += lock.waiting
        if lock.held:
            self.held[lock.kind] += 1
            self.unlimited += lock.never_expires
            self.absent += any(who.gone for who in lock.holders)
            self.held_since = min(self.held_since, since)
        if not lock.waiters:
            return False
        alive = [each.who for each in lock.waiters if not each.dead]
        self.dead += len(lock.waiters) - len(alive)
        self.waited_since = min(self.waited_since, _earliest(alive))
        return True


class Scan(NamedTuple):
    """What the last scan found.

    Attributes:
        ended: When it ended, by ``time.monotonic()``.
        seconds: How long it took.
        snapshot: What it saw, without the locks; ``None``: no server answered, or it refused.
        tally: The locks, counted.
        error: Why not.
        code: The exit code of a command for that.
    """

    ended: float
    seconds: float
    snapshot: Snapshot | None
    tally: Tally
    error: str | None = None
    code: int = 0

    @property
    def was_answered(self) -> bool:
        """Whether a server answered, if only by a refusal."""
        return self.code != common.ExitCode.UNAVAILABLE


class Scanner:
    """Scans when it is asked to: one scan at a time, and no more than one in an interval, for all that wait for it.

    Args:
        scan: Looks at the server, and calls what it is given with all locks as they are found.
        interval: Seconds for which a scan is fresh.
        names: The pattern of the locks that have time series of their own, as for ``SCAN MATCH``; ``None``: no lock.
        limit: How many these are at most: those that are held for the longest time.
    """

    def __init__(
        self, scan: Callable[[Keep], Snapshot], interval: float, *, names: str | None = None, limit: int = 50
    ) -> None:
        self._scan = scan
        self._interval = interval
        pattern = None if names is None else glob_to_pattern(encode_name(names))
        self._new_tally = partial(Tally, pattern, limit)
        self._mutex = threading.Lock()
        self._scanning: Future[None] | None = None
        self._last: Scan | None = None
        self.scans: int = 0
        self.failures: int = 0
        self.refusals: int = 0

    def latest(self, within: float | None = SCRAPE_SECONDS) -> Scan | None:
        """Return a fresh scan; an earlier one, or ``None``, if there is no fresh one in ``within`` seconds.

        ``None``: wait for it, however long it takes.
        """
        with self._mutex:
            if self._last is not None and time.monotonic() < self._last.ended + self._interval:
                return self._last
            if self._scanning is None or self._scanning.done():
                self._scanning = in_daemon_thread(self._run, "pyredisson-scan")
        wait([self._scanning], within)
        return self._last

    def _run(self) -> None:
        began = time.monotonic()
        snapshot, tally, error, code = None, self._new_tally(), None, 0
        try:
            snapshot = self._scan(tally.count)
            if snapshot.unread:
                error, code, snapshot = f"the server refused: {snapshot.errors[0]}", common.ExitCode.REFUSED, None
            elif snapshot.errors and not snapshot.complete and not snapshot.keys_seen:
                error, code, snapshot = snapshot.errors[0], common.ExitCode.UNAVAILABLE, None
        except Exception as problem:  # Whatever it is, it must not end the exporter.
            failed = common.failure(problem)
            code, error = failed.exit_code, failed.message
        now, before = time.monotonic(), self._last
        self._last = Scan(now, now - began, snapshot, tally, error, code)
        self.scans += 1
        self.failures += snapshot is None
        self.refusals += code == common.ExitCode.REFUSED or bool(snapshot is not None and snapshot.doubts)
        was_away = before is not None and before.error is not None
        if error is not None and not was_away:
            common.say(error)
        elif error is None and was_away:
            common.say("the server answers again")


class Exporter:
    """A collector of metrics for ``prometheus_client``.

    Args:
        scanner: Looks at the server.
    """

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._kinds = {"lock"}  # What was seen once stays, with 0: a sum of nothing would be no data.

    def collect(self) -> Iterator[Metric]:
        """Return the metrics."""
        scan = self._scanner.latest()
        if scan is not None:
            answered = float(scan.was_answered)
            yield GaugeMetricFamily(f"{PREFIX}_up", "Whether the server answered the last scan.", answered)
        for name, text, count in (
            ("scans", "Scans of the server.", self._scanner.scans),
            ("scan_failures", "Scans that no server answered, or that it refused.", self._scanner.failures),
            ("scan_refusals", "Scans of which the server refused a part.", self._scanner.refusals),
        ):
            yield CounterMetricFamily(f"{PREFIX}_server_{name}", text, count)
        if scan is not None:
            yield _gauge("scan_seconds", "How long the last scan took.", scan.seconds)
            yield _gauge("scan_age_seconds", "How long ago the last scan ended.", time.monotonic() - scan.ended)
        if scan is not None and scan.snapshot is not None:
            yield _gauge("scan_complete", "Whether the last scan saw all keys.", float(scan.snapshot.complete))
            yield _gauge("scan_keys", "Keys that the last scan saw.", scan.snapshot.keys_seen)
            yield _gauge("scan_errors", "What the last scan could not read.", len(scan.snapshot.errors))
            self._kinds.update(scan.tally.kinds)
            yield from _of_locks(scan.snapshot, scan.tally, sorted(self._kinds))
            if scan.tally.names is not None:
                yield from self._of_each(scan.snapshot, scan.tally)

    @staticmethod
    def _of_each(snapshot: Snapshot, tally: Tally) -> Iterator[Metric]:
        # The kind is no label here: it is known while a client publishes it, and a time series must not end with that.
        hold, waiters, free_in = (
            GaugeMetricFamily(f"{PREFIX}_server_{name}", text, labels=["lock"])
            for name, text in (
                ("lock_hold_seconds", "Since when this lock is held; 0 if that is not known."),
                ("lock_waiters", "How many wait for this lock."),
                ("lock_expires_in_seconds", "When this lock expires unless it is renewed."),
            )
        )
        seen, chosen = set(), tally.longest()
        for lock in chosen:
            name = common.plain(lock.name)
            if name in seen:
                continue  # Of two names that look the same once they are escaped, or stand on two servers.
            seen.add(name)
            hold.add_metric([name], max(0.0, snapshot.taken - _earliest(lock.holders)))
            waiters.add_metric([name], lock.waiting)
            if lock.free_in is not None:
                free_in.add_metric([name], lock.free_in)
        yield from (hold, waiters, free_in)
        left_out = tally.matching - len(chosen)
        yield _gauge("locks_beyond_limit", "Matching locks without time series of their own.", left_out)


def _of_locks(snapshot: Snapshot, tally: Tally, kinds: Sequence[str]) -> Iterator[Metric]:
    yield _by_kind("locks", "Locks held, and semaphores of which permits are taken.", kinds, tally.held)
    if "waiters" not in snapshot.doubts:
        text = "Who waits: threads and tasks where they are known, else clients."
        yield _by_kind("waiters", text, kinds, tally.waiting)
    yield _gauge("locks_without_expiry", "Locks held that never expire.", tally.unlimited)
    if "connections" not in snapshot.doubts:
        text = "Locks held by a client that is gone, certainly or probably."
        yield _gauge("locks_of_absent_clients", text, tally.absent)
        yield _gauge("clients", "Clients that are connected, or tell what they hold.", len(snapshot.clients))
    yield _gauge("dead_waiters", "Waiters in queues that are considered dead.", tally.dead)
    yield _gauge("deadlocked_owners", "Owners that wait for each other, in a deadlock.", tally.deadlocked)
    longest = max(0.0, snapshot.taken - tally.held_since)
    yield _gauge("longest_hold_seconds", "The longest present hold, as far as it is known since when.", longest)
    longest = max(0.0, snapshot.taken - tally.waited_since)
    yield _gauge("longest_wait_seconds", "The longest present wait, as far as it is known since when.", longest)


def _earliest(whos: Iterable[Who]) -> float:
    """Return since when the first of them holds or waits, as far as that is known."""
    return min((who.since for who in whos if who.since is not None), default=math.inf)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}_server_{name}", text, value)


def _by_kind(name: str, text: str, kinds: Iterable[str], counts: Counter[str]) -> Metric:
    family = GaugeMetricFamily(f"{PREFIX}_server_{name}", text, labels=["kind"])
    for kind in kinds:
        family.add_metric([kind], counts[kind])
    return family


# ---- the command -----------------------------------------------------------------------------------------------------


def write_once(exporter: Exporter, scanner: Scanner) -> int:
    """Scan once, and write the metrics to stdout. Returns the exit code."""
    scan = scanner.latest(within=None)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(exporter)
    click.echo(generate_latest(registry).decode(), nl=False)  # type: ignore[no-untyped-call]
    return common.ExitCode.UNAVAILABLE if scan is None else scan.code


def serve(exporter: Exporter, address: tuple[str, int]) -> int:
    """Answer scrapes until SIGTERM or Ctrl-C. Returns the exit code."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(exporter)
    ended = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, end)
    try:
        server, thread = start_http_server(address[1], address[0], registry)
    except OSError as error:
        raise common.Stopped(common.ExitCode.FAILED, f"cannot listen on {address[0]}:{address[1]}: {error}") from None
    common.say(f"metrics on http://{address[0]}:{server.server_port}/metrics")
    ended.wait()
    server.shutdown()
    server.server_close()
    thread.join()
    return 0


def scan_of(url: str, *, prefix: str, seconds: float) -> Callable[[Keep], Snapshot]:
    """Return a function that looks at a server once, with connections of its own.

    Raises:
        BadUsage: The URL is not valid. The message does not repeat it: it may contain a password.
    """
    common.inspector_at(url, prefix).close()

    def scan(keep: Keep) -> Snapshot:
        with common.inspector_at(url, prefix) as inspector:
            return inspector.snapshot(seconds=seconds, keep=keep)

    return scan


SECONDS = click.FloatRange(min=0.0, min_open=True)


@click.command()
@click.option(
    "--listen",
    default=":9464",
    metavar="[ADDRESS]:PORT",
    help="Where Prometheus asks for /metrics. Without an address: on all interfaces.",
)
@click.option("--once", is_flag=True, help="Scan once, write the metrics to stdout as OpenMetrics, and exit.")
@click.option(
    "--interval",
    type=SECONDS,
    default=15.0,
    metavar="S",
    help="Scan at most once in S seconds, however often the metrics are read.",
)
@click.option(
    "--scan-time",
    type=SECONDS,
    default=5.0,
    metavar="S",
    help="Search the keys for at most S seconds; what was found until then is exported.",
)
@click.option(
    "--names",
    metavar="PATTERN",
    help="Export time series of each lock whose name matches, such as 'order:*'.  [default: of none]",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=50,
    help="With --names: how many locks have time series of their own, those held for the longest time first.",
)
@common.server_options
def metrics(
    listen: str, once: bool, interval: float, scan_time: float, names: str | None, limit: int, prefix: str, url: str
) -> int:
    """Export metrics of the locks that a server stores, seen from outside, to Prometheus. Changes nothing.

    \b
        pyredisson metrics --listen :9464 --url redis://redis.example.com:6379
        pyredisson metrics --once

    Locks of Redisson (Java) and of redis-py are counted, too. A scan runs when the metrics are read and the last one is
    older than --interval; never two at a time. While no server answers, pyredisson_up is 0.

    \b
    Exit code:
       0  ended by SIGTERM or Ctrl-C; with --once: written
       1  cannot listen there
       2  wrong usage, or the extra is missing: pip install "pyredisson[cli,prometheus]"
      69  with --once: no server answers
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  the URL does not fit what answers there: its kind, its database, or it is no Redis
    """
    if find_spec("prometheus_client") is None:
        raise common.BadUsage('this command needs prometheus-client: pip install "pyredisson[cli,prometheus]"')
    address = common.read_address(listen)
    scanner = Scanner(scan_of(url, prefix=prefix, seconds=scan_time), interval, names=names, limit=limit)
    exporter = Exporter(scanner)
    return write_once(exporter, scanner) if once else serve(exporter, address)
