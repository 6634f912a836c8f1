"""``pyredisson metrics``: what a server shows of its locks, for Prometheus. It only reads."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, final

import click
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest

from pyredisson.inspection import LockView, Snapshot, wait_graph
from pyredisson.inspection.kinds import stored_kinds
from pyredisson.inspection.replies import encode_name, glob_to_pattern
from pyredisson.tools.common import ExitCode, failure, inspector_at, plain, say
from pyredisson.tools.sampling.pace import in_daemon_thread

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

#: What the names of all metrics begin with.
PREFIX = "pyredisson"

#: A scrape waits for at most this long for a scan: by default Prometheus gives up after ten seconds.
SCRAPE_SECONDS = 8.0


@final
@dataclass(frozen=True)
class Scan:
    """What the last scan found.

    Attributes:
        ended: When it ended, by ``time.monotonic()``.
        seconds: How long it took.
        snapshot: What it saw; ``None``: no server answered, or it refused.
        error: Why not.
        code: The exit code of a command for that.
    """

    ended: float
    seconds: float
    snapshot: Snapshot | None
    error: str | None = None
    code: int = 0

    @property
    def was_answered(self) -> bool:
        """Whether a server answered, if only by a refusal."""
        return self.code != ExitCode.UNAVAILABLE


@final
class Scanner:
    """Scans when it is asked to: one scan at a time, and no more than one in an interval, for all that wait for it.

    Args:
        scan: Looks at the server.
        interval: Seconds for which a scan is fresh.
    """

    def __init__(self, scan: Callable[[], Snapshot], interval: float) -> None:
        self._scan = scan
        self._interval = interval
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
        snapshot, error, code = None, None, 0
        try:
            snapshot = self._scan()
            if snapshot.unread:
                error, code, snapshot = f"the server refused: {snapshot.errors[0]}", ExitCode.REFUSED, None
            elif snapshot.errors and not snapshot.complete and not snapshot.keys_seen:
                error, code, snapshot = snapshot.errors[0], ExitCode.UNAVAILABLE, None
        except Exception as problem:  # Whatever it is, it must not end the exporter.
            code, error = failure(problem)
        now, before = time.monotonic(), self._last
        self._last = Scan(now, now - began, snapshot, error, code)
        self.scans += 1
        self.failures += snapshot is None
        self.refusals += code == ExitCode.REFUSED or bool(snapshot is not None and snapshot.doubts)
        was_away = before is not None and before.error is not None
        if error is not None and not was_away:
            say(error)
        elif error is None and was_away:
            say("the server answers again")


@final
class Exporter:
    """A collector of metrics for ``prometheus_client``.

    Args:
        scanner: Looks at the server.
        names: The pattern of the locks that have time series of their own, as for ``SCAN MATCH``; ``None``: no lock.
        limit: How many these are at most: those that are held for the longest time.
    """

    def __init__(self, scanner: Scanner, *, names: str | None = None, limit: int = 50) -> None:
        self._scanner = scanner
        self._names = None if names is None else glob_to_pattern(encode_name(names))
        self._limit = limit
        self._kinds = {"lock"}  # What was seen once stays, with 0: a sum of nothing would be no data.

    def collect(self) -> Iterator[Metric]:
        """Return the metrics."""
        scan = self._scanner.latest()
        snapshot = None if scan is None else scan.snapshot
        if scan is not None:
            yield GaugeMetricFamily(
                f"{PREFIX}_up", "Whether the server answered the last scan.", float(scan.was_answered)
            )
        yield CounterMetricFamily(f"{PREFIX}_server_scans", "Scans of the server.", self._scanner.scans)
        yield CounterMetricFamily(
            f"{PREFIX}_server_scan_failures",
            "Scans that no server answered, or that it refused.",
            self._scanner.failures,
        )
        yield CounterMetricFamily(
            f"{PREFIX}_server_scan_refusals", "Scans of which the server refused a part.", self._scanner.refusals
        )
        if scan is not None:
            yield _gauge("scan_seconds", "How long the last scan took.", scan.seconds)
            yield _gauge("scan_age_seconds", "How long ago the last scan ended.", time.monotonic() - scan.ended)
        if snapshot is not None:
            yield from _of_scan(snapshot)
            # Who waits for an event or a barrier waits for no holder, and often for long: no reason for an alert.
            locks = tuple(lock for lock in snapshot.locks if stored_kinds()[lock.kind].number != "changes")
            self._kinds.update(lock.kind for lock in locks)
            yield from _of_locks(replace(snapshot, locks=locks), sorted(self._kinds))
            if self._names is not None:
                yield from self._of_each(snapshot)

    def _of_each(self, snapshot: Snapshot) -> Iterator[Metric]:
        assert self._names is not None
        chosen = [each for each in snapshot.locks if self._names.fullmatch(encode_name(each.name))]
        chosen = [each for each in chosen if each.held or each.waiting]
        chosen.sort(key=lambda lock: _oldest(snapshot, lock), reverse=True)
        # The kind is no label here: it is known while a client publishes it, and a time series must not end with that.
        hold, waiters, free_in = (
            GaugeMetricFamily(f"{PREFIX}_server_{name}", text, labels=["lock"])
            for name, text in (
                ("lock_hold_seconds", "Since when this lock is held; 0 if that is not known."),
                ("lock_waiters", "How many wait for this lock."),
                ("lock_expires_in_seconds", "When this lock expires unless it is renewed."),
            )
        )
        seen = set()
        for lock in chosen[: self._limit]:
            name = plain(lock.name)
            if name in seen:
                continue  # Of two names that look the same once they are escaped, or stand on two servers.
            seen.add(name)
            hold.add_metric([name], _oldest(snapshot, lock))
            waiters.add_metric([name], lock.waiting)
            if lock.free_in is not None:
                free_in.add_metric([name], lock.free_in)
        yield from (hold, waiters, free_in)
        left_out = max(0, len(chosen) - self._limit)
        yield _gauge("locks_beyond_limit", "Matching locks without time series of their own.", left_out)


def _of_scan(snapshot: Snapshot) -> Iterator[Metric]:
    yield _gauge("scan_complete", "Whether the last scan saw all keys.", float(snapshot.complete))
    yield _gauge("scan_keys", "Keys that the last scan saw.", snapshot.keys_seen)
    yield _gauge("scan_errors", "What the last scan could not read.", len(snapshot.errors))


def _of_locks(snapshot: Snapshot, kinds: Sequence[str]) -> Iterator[Metric]:
    held = [lock for lock in snapshot.locks if lock.held]
    waits = [(waiter, lock) for lock in snapshot.locks for waiter in lock.waiters if not waiter.dead]
    counts, waiting = Counter(lock.kind for lock in held), Counter[str]()
    for lock in snapshot.locks:
        waiting[lock.kind] += lock.waiting
    yield _by_kind("locks", "Locks held, and semaphores of which permits are taken.", kinds, counts)
    if "waiters" not in snapshot.doubts:
        yield _by_kind("waiters", "Who waits: threads and tasks where they are known, else clients.", kinds, waiting)
    unlimited = sum(lock.never_expires for lock in held)
    yield _gauge("locks_without_expiry", "Locks held that never expire.", unlimited)
    if "connections" not in snapshot.doubts:
        gone = sum(any(who.gone for who in lock.holders) for lock in held)
        yield _gauge("locks_of_absent_clients", "Locks held by a client that is gone, certainly or probably.", gone)
        yield _gauge("clients", "Clients that are connected, or tell what they hold.", len(snapshot.clients))
    dead = sum(waiter.dead for lock in snapshot.locks for waiter in lock.waiters)
    yield _gauge("dead_waiters", "Waiters in queues that are considered dead.", dead)
    deadlocked = {edge.waiter.owner for cycle in wait_graph(snapshot.locks).cycles for edge in cycle}
    yield _gauge("deadlocked_owners", "Owners that wait for each other, in a deadlock.", len(deadlocked))
    longest = max((_oldest(snapshot, lock) for lock in held), default=0.0)
    yield _gauge("longest_hold_seconds", "The longest present hold, as far as it is known since when.", longest)
    longest = max((_lasted(snapshot, waiter.who.since) for waiter, _ in waits), default=0.0)
    yield _gauge("longest_wait_seconds", "The longest present wait, as far as it is known since when.", longest)


def _oldest(snapshot: Snapshot, lock: LockView) -> float:
    return max((_lasted(snapshot, who.since) for who in lock.holders), default=0.0)


def _lasted(snapshot: Snapshot, since: float | None) -> float:
    return 0.0 if since is None else max(0.0, snapshot.taken - since)


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
    return ExitCode.UNAVAILABLE if scan is None else scan.code


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
        say(f"cannot listen on {address[0]}:{address[1]}: {error}")
        return ExitCode.FAILED
    say(f"metrics on http://{address[0]}:{server.server_port}/metrics")
    ended.wait()
    server.shutdown()
    server.server_close()
    thread.join()
    return 0


def scan_of(url: str, *, prefix: str, seconds: float) -> Callable[[], Snapshot]:
    """Return a function that looks at a server once, with connections of its own.

    Raises:
        BadUsage: The URL is not valid. The message does not repeat it: it may contain a password.
    """
    inspector_at(url, prefix).close()

    def scan() -> Snapshot:
        with inspector_at(url, prefix) as inspector:
            return inspector.snapshot(seconds=seconds)

    return scan
