"""How ``pyredisson top`` samples servers, and what that costs them.

* A search for all locks (SCAN) takes at most `LONG_SEARCH` seconds, and the next one begins when `SEARCH_SHARE` times
  as long has passed: searches take at most one part in twenty of the time, however many locks there are. But the first
  one, for which the user waits, is short, and if it does not find all, the second one follows immediately.
* The locks at the top, and the list of the clients, are read again each round, unless that takes long, too.
* Releases are counted by their messages, which the server sends to us as to any subscriber. If they are more than
  `MANY_MESSAGES` a second, they are counted in one round of ten.
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from typing import final

import redis.exceptions as rx

from pyredisson._tools.sampling.messages import RELEASES, Message, MessageReader, name_of
from pyredisson._tools.sampling.pace import Pace, in_daemon_thread
from pyredisson._tools.top.rounds import Record, round_of
from pyredisson.inspection import Inspector, LockView, Snapshot
from pyredisson.inspection.servers import Server, encode_name, glob_to_pattern

SHORT_SEARCH = 2.0  # seconds
LONG_SEARCH = 30.0
SEARCH_SHARE = 20.0
SEARCH_AGAIN = 5.0  # seconds, at least
READ_AGAIN = 10  # locks, each round
MANY_MESSAGES = 5000
SAMPLED = 10  # rounds

_CPU = re.compile(rb"^used_cpu_(?:sys|user):(\d+(?:\.\d+)?)\r?$", re.MULTILINE)


@final
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


@final
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
