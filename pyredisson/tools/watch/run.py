"""``pyredisson watch``: look at locks when the server says that something happened, and now and then anyway.

What it costs the server: one subscription; a look (one small request for all locks of a server) at each message, at
most 50 a second; without notifications of keys one more each second, with them each five seconds; and one at the moment
a lock's time to live ends.
"""

from __future__ import annotations

import json
import queue
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple, final

import redis.exceptions as rx

from pyredisson.core.names import check_name
from pyredisson.inspection import Inspector, Who, describe
from pyredisson.inspection.kinds import stored_kinds
from pyredisson.inspection.servers import Server, Servers
from pyredisson.tools.common import BadUsage, ExitCode, say, unavailable
from pyredisson.tools.output import is_without_reader, without_reader
from pyredisson.tools.watch.news import News, NewsSubscription, servers_at
from pyredisson.tools.watch.show import line_of, record_of
from pyredisson.tools.watch.states import Change, Evidence, State, changes, look_at, read_look

TIMEOUT = 2.0  # seconds for each answer
LOOK_EVERY = 1.0  # seconds, without notifications of keys
LOOK_SELDOM = 5.0  # with them
LOOK_AGAIN = 0.02  # at the earliest
MOST_KNOWN = 10_000  # owners
REST = 20  # times as long as it takes to list clients pass until they may be listed again
AHEAD = 2.0  # seconds; a few lists at once, when several owners appear
KNOWN_WITHIN = 0.05  # seconds by which a time for which a lock was held may be wrong
KNOWN_TO = 0.1  # and the part of it

#: What has to be switched on: keyspace events, for generic commands and expiry, and for the types of our keys.
NOTIFIED = set("Kgxh$z")


def run_watch(names: Sequence[str], *, url: str, prefix: str, as_json: bool) -> int:
    """Watch locks until it is interrupted, and return the exit code.

    Raises:
        BadUsage: The URL or a name is not valid.
    """
    try:
        for name in names:
            check_name(prefix + name)
    except ValueError as error:
        raise BadUsage(str(error)) from None
    servers = servers_at(url, TIMEOUT)
    try:
        with Watch(names, servers, Inspector(url, prefix=prefix, timeout=TIMEOUT), prefix=prefix) as watch:
            if not as_json:
                say(watch.describe())
            for at, lock, change in watch.events():
                record = record_of(at, lock, change, watch.whom(lock, change.owner))
                print(json.dumps(record) if as_json else line_of(record, named=len(names) > 1), flush=True)
    except BrokenPipeError:
        return without_reader()
    except (rx.RedisError, OSError) as error:
        say(unavailable(describe(error), servers.url))
        return ExitCode.UNAVAILABLE
    return 0


class Since(NamedTuple):
    """When an owner acquired a lock, in Unix time, and by how many seconds that may be too late."""

    at: float
    error: float


@final
class Watched:
    """One lock, and what was received about it since the last look."""

    def __init__(self, name: str, key: str) -> None:
        self.name = name
        self.key = key
        self.kind: str | None = None
        self.state: State | None = None
        self.looked: float = 0.0
        self.due: float = 0.0
        self.since: dict[str, Since] = {}  # By owner
        self.stirred: float | None = None  # When the first news since the last look arrived
        self.messages: int = 0
        self.forced: bool = False
        self.expired: bool = False

    def evidence(self, now: float) -> Evidence:
        """Return what was received since the last look, and forget it."""
        ends = None if self.state is None or self.state.ends is None else self.looked + self.state.ends
        found = Evidence(self.messages, self.forced, self.expired, ends is not None and now >= ends)
        self.messages, self.forced, self.expired, self.stirred = 0, False, False, None
        return found


@final
class Watch:
    """Looks at locks, and says what happens to them.

    Args:
        names: The locks.
        servers: Where they are.
        inspector: Says who is who there.
        prefix: What stands before all names.

    Raises:
        redis.exceptions.RedisError: The server is not available.
    """

    def __init__(self, names: Sequence[str], servers: Servers, inspector: Inspector, *, prefix: str = "") -> None:
        self._locks = {prefix + name: Watched(name, prefix + name) for name in names}
        self._servers = servers
        self._inspector = inspector
        self._news: queue.SimpleQueue[News] = queue.SimpleQueue()
        self._who: dict[str, Who] = {}
        self._list_at = 0.0
        servers.masters()
        by_server: dict[Server, list[str]] = {}
        for key in self._locks:
            by_server.setdefault(self._servers.of(key.encode()), []).append(key)
        self._sharded = self._servers.publishes_by(next(iter(by_server))) == "SPUBLISH"
        self._notified = all(_notifies(server) for server in by_server)
        self._subscriptions = [
            NewsSubscription(server, them, sharded=self._sharded, news=self._news) for server, them in by_server.items()
        ]
        for each in self._subscriptions:
            each.ready.wait(TIMEOUT)

    def describe(self) -> str:
        """Return what is watched, and what may be missed."""
        what = f"watching {len(self._locks)} lock{'s' if len(self._locks) > 1 else ''}"
        if self._notified:
            return what
        return f"{what}; keyspace notifications are off: a hold of less than a second may not be seen (see the manual)"

    def events(self) -> Iterator[tuple[float, Watched, Change]]:
        """Yield what happens, with Unix times, until the reader of our output has gone.

        Raises:
            redis.exceptions.RedisError: The first look failed. Later the server may be away for a while.
        """
        yield from self.next_changes()
        failing = False
        while not is_without_reader():
            try:
                yield from self.next_changes()
                if failing:
                    failing = False
                    say("the server answers again")
            except (rx.RedisError, OSError) as error:
                if isinstance(error, BrokenPipeError):
                    raise
                if not failing:
                    failing = True
                    say(unavailable(describe(error)))
                time.sleep(LOOK_EVERY)
                with suppress(rx.RedisError, OSError):
                    self._servers.masters()  # Another one may be the master now.

    def next_changes(self) -> list[tuple[float, Watched, Change]]:
        """Wait for news or for the time of the next look, look, and return what happened, with Unix times."""
        now = time.monotonic()
        due = min(lock.due for lock in self._locks.values())
        try:
            self._note(self._news.get(timeout=max(0.0, due - now)))
            while True:
                self._note(self._news.get_nowait())
        except queue.Empty:
            pass
        now = time.monotonic()
        return list(self._look([lock for lock in self._locks.values() if lock.due <= now]))

    def close(self) -> None:
        """Close all connections."""
        for each in self._subscriptions:
            each.close()
        self._servers.close()
        self._inspector.close()

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _note(self, news: News) -> None:
        lock = self._locks.get(news.name)
        if lock is None:
            say("connected again" if news.kind == "back" else f"the connection was lost: {news.text}")
            for each in self._locks.values():
                each.due = min(each.due, news.at)
            return
        lock.stirred = news.at if lock.stirred is None else lock.stirred
        lock.messages += news.kind == "message"
        lock.forced |= news.kind == "forced"
        lock.expired |= news.kind == "key" and news.text == "expired"
        lock.due = min(lock.due, max(news.at, lock.looked + LOOK_AGAIN))

    def _look(self, due: Sequence[Watched]) -> Iterable[tuple[float, Watched, Change]]:
        by_server: dict[Server, list[Watched]] = {}
        for lock in due:
            by_server.setdefault(self._servers.of(lock.key.encode()), []).append(lock)
        for server, locks in by_server.items():
            commands = [command for lock in locks for command in look_at(lock.key, sharded=self._sharded)]
            replies = server.ask_many(commands)
            each = len(commands) // len(locks)
            for index, lock in enumerate(locks):
                yield from self._compare(lock, read_look(replies[index * each : (index + 1) * each]))

    def _compare(self, lock: Watched, state: State) -> Iterable[tuple[float, Watched, Change]]:
        now, looked, stirred = time.monotonic(), lock.looked, lock.stirred
        evidence = lock.evidence(now)
        before, lock.state, lock.looked = lock.state, state, now
        error = now - (looked if stirred is None else stirred)  # Of what ended.
        if evidence.overdue:
            error = 0.0
        exclusive = before is not None and before.holders and before.mode is None and before.number is None
        since = Since(time.time(), error if self._notified or exclusive else now - looked)
        interval = LOOK_SELDOM if self._notified else LOOK_EVERY
        lock.due = now + (interval if state.ends is None else min(interval, state.ends + 0.01))
        kind = stored_kinds().get(lock.kind or "")  # Known only of clients that publish what they hold.
        if before is not None and kind is not None and not kind.announces:
            before = replace(before, silent=True)
        if before is None:
            found = [Change("held", owner, holds=holds) for owner, holds in state.holders.items()]
            found = found or [Change("no_lock" if state.foreign else "free", number=state.number)]
        else:
            found = list(changes(before, state, evidence))
        for change in found:
            yield since.at, lock, replace(change, held=self._held(lock, change, since, error))

    def _held(self, lock: Watched, change: Change, now: Since, error: float) -> float | None:
        """Return for how many seconds the owner has held the lock, if that is known, and note when it acquired it.

        Args:
            lock: The lock.
            change: What happened.
            now: When it happened, if it began.
            error: By how many seconds that may be too late, if it ended.
        """
        if change.owner is None:
            return None
        if change.event == "acquired":
            lock.since[change.owner] = now
            return None
        if change.event == "held" and (known := self.whom(lock, change.owner).since) is not None:
            lock.since[change.owner] = Since(known, 0.0)
        since = lock.since.get(change.owner)
        if change.event in ("held", "reentered"):
            error = 0.0
        else:
            lock.since.pop(change.owner, None)
        if since is None:
            return None
        held = max(0.0, now.at - since.at)
        return held if since.error + error <= max(KNOWN_WITHIN, KNOWN_TO * held) else None

    def whom(self, lock: Watched, owner: str | None) -> Who:
        """Return who an owner is, as far as its client says. The clients are listed only for an owner that is new."""
        if owner is None:
            return Who()
        if _listed_as(owner) not in self._who and time.monotonic() >= self._list_at:
            self._list()
        client_id, _, number = owner.partition(":")
        known = self._who.get(_listed_as(owner))
        return known or (Who(client_id, int(number), owner=owner) if number else Who(owner=owner))

    def _list(self) -> None:
        """Learn who holds the locks of which not all holders are known. It takes a small part of the time."""
        began = time.monotonic()
        if len(self._who) > MOST_KNOWN:
            self._who.clear()
        new = [
            each
            for each in self._locks.values()
            if each.state is None or any(_listed_as(owner) not in self._who for owner in each.state.holders)
        ]
        with suppress(rx.RedisError, OSError):
            views = {view.name: view for view in self._inspector.locks_named(each.name for each in new)}
            for each in new:
                view = views.get(each.name)
                each.kind = view.kind if view is not None else None
                for who in view.holders if view is not None else ():
                    self._who[who.owner.removesuffix(":write")] = who
        now = time.monotonic()
        self._list_at = max(self._list_at, now - AHEAD) + REST * (now - began)


def _listed_as(owner: str) -> str:
    """Return what the list of holders calls an owner: that of a token lock by the digits of its token alone."""
    return owner.removeprefix("token ")


def _notifies(server: Server) -> bool:
    """Return whether a server notifies of keys; ``False`` if this user may not ask."""
    try:
        reply = server.ask("CONFIG", "GET", "notify-keyspace-events")
    except rx.ResponseError:
        return False
    parts = [part for pair in reply.items() for part in pair] if isinstance(reply, dict) else reply
    flags = parts[1].decode(errors="replace") if isinstance(parts, list) and len(parts) == 2 else ""
    return set(flags.replace("A", "g$lshzxetd")) >= NOTIFIED
