"""How ``pyredisson top`` looks at servers, and what that costs them.

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
from contextlib import closing
from typing import Any, final

import redis.exceptions as rx

from pyredisson.core.names import LockNames, ReadWriteNames, SemaphoreNames
from pyredisson.inspection import Inspector, LockView, Snapshot
from pyredisson.inspection.look import Look
from pyredisson.inspection.replies import encode_name, glob_to_pattern
from pyredisson.inspection.servers import Server, Servers
from pyredisson.tools.top.rounds import TopRound, round_of
from pyredisson.tools.watch.news import pubsub_of

SHORT_SEARCH = 2.0  # seconds
LONG_SEARCH = 30.0
SEARCH_SHARE = 20.0
SEARCH_AGAIN = 5.0  # seconds, at least
READ_AGAIN = 10  # locks, each round
READ_FOR = 0.2  # seconds until a thread looks whether it is to end
MANY_MESSAGES = 5000
SAMPLED = 10  # rounds

#: What stands before the names in the channels of releases.
PREFIXES = [kind("x").channel.partition("{")[0] for kind in (LockNames, ReadWriteNames, SemaphoreNames)]
_CHANNEL = re.compile(rf"(?:{'|'.join(map(re.escape, PREFIXES))})(.*)", re.DOTALL)
_WAITER = re.compile(r":[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+$")
_CPU = re.compile(rb"^used_cpu_(?:sys|user):(\d+(?:\.\d+)?)\r?$", re.MULTILINE)


def name_of(channel: str) -> str | None:
    """Return the lock whose release is announced on a channel."""
    found = _CHANNEL.fullmatch(_WAITER.sub("", channel))
    if found is None:
        return None
    name = found[1]
    return name[1:-1] if name.startswith("{") and name.find("}") == len(name) - 1 else name


@final
class Releases:
    """Counts the release messages of all locks of a server, in a thread of its own."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._counts: Counter[str] = Counter()
        self._mutex = threading.Lock()
        self._wanted = threading.Event()
        self._wanted.set()
        self._closed = False
        self.counting: threading.Event = threading.Event()
        self._thread = threading.Thread(target=self._count_on, name="pyredisson top", daemon=True)
        self._thread.start()

    def want(self, wanted: bool) -> None:
        """Begin or stop to count."""
        if wanted:
            self._wanted.set()
        else:
            self._wanted.clear()

    def take(self) -> Counter[str]:
        """Return what was counted since the last call, by channel."""
        with self._mutex:
            taken, self._counts = self._counts, Counter()
        return taken

    def close(self) -> None:
        """Stop counting."""
        self._closed = True
        self._wanted.set()
        self._thread.join(2 * READ_FOR)

    def _count_on(self) -> None:
        while not self._closed:
            self._wanted.wait()
            try:
                with closing(pubsub_of(self._server)) as pubsub:
                    pubsub.psubscribe(*(f"{prefix}*" for prefix in PREFIXES))
                    while self._wanted.is_set() and not self._closed:
                        self._read(pubsub.get_message(timeout=READ_FOR))
            except (rx.RedisError, OSError):
                self.counting.clear()
                time.sleep(1.0)

    def _read(self, message: Any) -> None:
        match message:
            case {"type": "psubscribe"}:
                self.counting.set()
            case {"type": "pmessage", "channel": bytes() as channel}:
                with self._mutex:
                    self._counts[channel.decode(errors="replace")] += 1


@final
class Sampler:
    """Looks at servers, one round after another.

    Args:
        servers: The servers.
        inspector: Looks at them.
        prefix: What stands before all names.
        pattern: Which locks; ``None``: all.
        rows: How many locks to list.

    Raises:
        redis.exceptions.RedisError: The server is not available.
    """

    def __init__(
        self, servers: Servers, inspector: Inspector, pattern: str | None = None, *, prefix: str = "", rows: int = 20
    ) -> None:
        self.rows = rows
        self._pattern = pattern
        self._wanted = None if pattern is None else glob_to_pattern(encode_name(prefix + pattern))
        self._prefix = prefix
        self._servers = servers
        self._inspector = inspector
        self._masters = self._servers.masters()
        for server in self._masters:
            server.ask("PING")
        self._snapshot: Snapshot = self._inspector.snapshot(pattern, seconds=SHORT_SEARCH)
        self._search_at = self._next_search() if self._snapshot.complete else 0.0
        self._search: threading.Thread | None = None
        self._found: Snapshot | None = None
        self._fresh: Mapping[str, LockView | None] = {}
        self._read_at = 0.0
        sharded = self._servers.publishes_by(self._masters[0]) == "SPUBLISH"  # There are no patterns for those.
        self._releases = [] if sharded else [Releases(server) for server in self._masters]
        self._counted_at = time.monotonic()
        self._rates: Mapping[str, float] | None = None
        self._sampled = 0
        self._cpu: tuple[float, float] | None = None
        self._read_cpu()

    def round(self) -> TopRound:
        """Look, and return what is seen.

        Raises:
            redis.exceptions.RedisError: The server does not answer.
        """
        if self._search is not None and not self._search.is_alive():
            self._search = None
            self._snapshot, self._found = self._found or self._snapshot, None
            self._search_at = self._next_search()
            self._fresh = {}
        elif self._search is None and time.monotonic() >= self._search_at:
            # It may take long, and must not keep the process from ending.
            self._search = threading.Thread(target=self._search_all, name="pyredisson top search", daemon=True)
            self._search.start()
        if time.monotonic() >= self._read_at:
            self._fresh = self._read_again()
        self._count()
        return round_of(
            self._snapshot,
            self._fresh,
            self._rates,
            now=time.time(),
            rows=self.rows,
            cpu=self._read_cpu(),
            sampled=self._sampled > 0,
        )

    def close(self) -> None:
        """Close all connections."""
        for each in self._releases:
            each.close()
        self._servers.close()
        self._inspector.close()

    def __enter__(self) -> Sampler:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _is_wanted(self, key: str) -> bool:
        return self._wanted is None or self._wanted.fullmatch(encode_name(key)) is not None

    def _search_all(self) -> None:
        try:
            self._found = self._inspector.snapshot(self._pattern, seconds=LONG_SEARCH)
        except (rx.RedisError, OSError):
            pass  # The round says so, when it reads the locks at the top.

    def _next_search(self) -> float:
        return time.monotonic() + max(SEARCH_AGAIN, SEARCH_SHARE * self._snapshot.seconds)

    def _read_again(self) -> dict[str, LockView | None]:
        """Read the first few locks again."""
        began = time.monotonic()
        rows = round_of(self._snapshot, self._fresh, self._rates, now=time.time(), rows=min(self.rows, READ_AGAIN)).rows
        look = Look(self._servers, self._prefix)
        look.meet()
        fresh = {row.name: look.one(encode_name(self._prefix + row.name)) for row in rows}
        look.raise_errors()
        self._read_at = began + SEARCH_SHARE * (time.monotonic() - began)
        return fresh

    def _count(self) -> None:
        now = time.monotonic()
        seconds, self._counted_at = now - self._counted_at, now
        counted: Counter[str] = Counter()
        for each in self._releases:
            for channel, count in each.take().items():
                name = name_of(channel)
                if name is not None and name.startswith(self._prefix) and self._is_wanted(name):
                    counted[name.removeprefix(self._prefix)] += count
        if self._sampled > 1:  # Nothing was counted: the last rates stand.
            self._sampled -= 1
            if self._sampled == 1:
                for each in self._releases:
                    each.want(True)
            return
        if any(each.counting.is_set() for each in self._releases) and seconds > 0:
            self._rates = {name: count / seconds for name, count in counted.items()}
            if counted.total() > MANY_MESSAGES * seconds:
                self._sampled = SAMPLED
                for each in self._releases:
                    each.want(False)
            else:
                self._sampled = 0

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
