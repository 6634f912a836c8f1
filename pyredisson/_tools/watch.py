"""``pyredisson watch``: read locks when the server announces that something happened, and now and then anyway.

What it costs the server: one subscription; one small request for all locks of a server at each message, at most 50 a
second; without notifications of keys one more each second, with them each five seconds; one at the moment a lock's
time to live ends; and if a hold ends without a message, at most once a second, one for the state of the server.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, NamedTuple, TypeAlias

import click
import redis.exceptions as rx

from pyredisson._core.holder_lookup import read_count
from pyredisson._core.kind import Form
from pyredisson._core.names import OBSERVERS, LockNames, SemaphoreNames, check_name, forced_channel, watched_channel
from pyredisson._core.server import ServerState
from pyredisson._tools import common, sampling
from pyredisson._tools.tables import inspecting
from pyredisson.inspection import Inspector, LockView, Who, as_json
from pyredisson.inspection.libraries import MAX_VALUE, foreign_text, read_token
from pyredisson.inspection.model import People, Stored, stored_kinds, usual_kind, view_of
from pyredisson.inspection.servers import Command, Server, decode_name, encode_name, read_numsub, read_setting

Meaning: TypeAlias = Literal["release", "forced", "key"]
"""Of a message about a lock: a release, a forced unlock, or a notification of its key."""

TIMEOUT = 2.0  # seconds for a subscription
READ_EVERY = 1.0  # seconds, without notifications of keys
READ_SELDOM = 5.0  # with them
READ_AGAIN = 0.02  # at the earliest
MOST_KNOWN = 10_000  # owners
REST = 20  # times as long as it takes to list clients pass until they may be listed again
AHEAD = 2.0  # seconds; a few lists at once, when several owners appear
KNOWN_WITHIN = 0.05  # seconds by which a time for which a lock was held may be wrong
KNOWN_TO = 0.1  # and the part of it

#: What is said of a subscription, by the kind of its message.
SAID = {
    "back": "connected again",
    "lost": "the connection was lost: {}",
    "refused": "the server refused a subscription: {}; releases are seen each second, when the locks are read",
}

#: What has to be switched on: keyspace events, for generic commands and expiry, and for the types of our keys.
NOTIFIED = set("Kgxh$z")


@click.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...", type=common.LockName())
@common.json_option("Print one JSON object for each event.")
@common.server_options
def watch(names: Sequence[str], *, url: str, prefix: str, as_json: bool) -> int:
    """Show when locks are acquired, released, expire, or are freed by force: a line each, until Ctrl-C. Only reads.

    \b
        pyredisson watch order:17 order:18
        pyredisson watch nightly-report --json | jq .event

    Releases and expiries are seen as they happen. Acquires too, if the server sends keyspace notifications; otherwise a
    hold of less than a second may be seen only by its release.

    \b
    Exit code:
       0  the reader of the output has gone
       2  wrong usage
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  the URL does not fit what answers there: its kind, its database, or it is no Redis
    """
    try:
        for name in names:
            check_name(prefix + name)
    except ValueError as error:
        raise common.BadUsage(str(error)) from None
    with inspecting(url, prefix) as inspector, closing(Watch(names, inspector)) as watching:
        if not as_json:
            common.say(watching.describe())
        for at, lock, change in watching.events():
            record = record_of(at, lock, change)
            print(json.dumps(record) if as_json else line_of(record, named=len(names) > 1), flush=True)
    return 0


class Since(NamedTuple):
    """When an owner acquired a lock, in Unix time, and by how many seconds that may be too late."""

    at: float
    error: float


class Watched:
    """One lock, and what was received about it since it was last read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind: str | None = None  # Known only of clients that publish what they hold.
        self.state: Glance | None = None
        self.read_at: float = 0.0
        self.due: float = 0.0
        self.since: dict[str, Since] = {}  # By owner
        self.stirred: float | None = None  # When the first message since then arrived
        self.received: sampling.Evidence = sampling.Evidence()

    def receive(self, at: float, means: Meaning, text: str) -> None:
        """Note a message, which makes it due."""
        self.stirred = at if self.stirred is None else self.stirred
        self.received = sampling.Evidence(
            self.received.messages + (means == "release"),
            self.received.forced or means == "forced",
            self.received.expired or (means == "key" and text == "expired"),
        )
        self.due = min(self.due, max(at, self.read_at + READ_AGAIN))

    def evidence(self, now: float) -> sampling.Evidence:
        """Return what was received since it was last read, and forget it."""
        free_in = None if self.state is None else self.state.lock.free_in
        kind = stored_kinds().get(self.kind or "")
        is_overdue, is_silent = free_in is not None and now >= self.read_at + free_in, kind and not kind.announces
        found = replace(self.received, overdue=is_overdue, silent=bool(is_silent))
        self.received, self.stirred = sampling.Evidence(), None
        return found


class Watch:
    """Reads locks again and again, and reports what happens to them.

    Args:
        names: The locks.
        inspector: Reads them.

    Raises:
        redis.exceptions.RedisError: The server is not available.
    """

    def __init__(self, names: Sequence[str], inspector: Inspector) -> None:
        self._locks = {name: Watched(name) for name in names}
        self._inspector = inspector
        self._servers = inspector.servers
        self._messages: queue.SimpleQueue[sampling.Message] = queue.SimpleQueue()
        self._meanings: dict[str, tuple[Watched, Meaning]] = {}  # By channel
        self._who: dict[str, Who] = {}
        self._lists = sampling.Pace(REST, ahead=AHEAD)
        self._states = ServerState(threading.Lock(), time.monotonic, complain=lambda _: None, strict=False)
        self._hidden: str | None = None  # Why it is not known whether keys are notified of.
        self._servers.masters()
        by_server: dict[Server, list[Watched]] = defaultdict(list)
        for name, lock in self._locks.items():
            by_server[self._servers.of(encode_name(inspector.prefix + name))].append(lock)
        self._notified = all(self._notifies(server) for server in by_server)
        for server in by_server:
            self._learn(server)
        self._subscriptions = [self._subscribe(server, them) for server, them in by_server.items()]
        for each in self._subscriptions:
            each.ready.wait(TIMEOUT)

    def _subscribe(self, server: Server, locks: Sequence[Watched]) -> sampling.MessageReader:
        """Receive what a server announces about some locks."""
        releases: list[str] = []
        others: list[str] = []
        watched: list[str] = []
        for lock in locks:
            key = self._inspector.prefix + lock.name
            released, forced = channels_of(key), forced_channel(key)
            notified = f"__keyspace@{server.settings.get('db') or 0}__:{key}"
            releases += released
            others += (forced, notified)
            watched.append(watched_channel(key))  # Else those who count the clients that wait would count us.
            self._meanings.update(dict.fromkeys(released, (lock, "release")))
            self._meanings.update({forced: (lock, "forced"), notified: (lock, "key")})
        sharded = self._servers.publishes_by(server) == "SPUBLISH"
        receive = self._messages.put
        return sampling.MessageReader(
            server, receive, beginnings=releases, channels=others, sharded=[*watched, *releases] if sharded else ()
        )

    def describe(self) -> str:
        """Return what is watched, and what may be missed."""
        what = f"watching {len(self._locks)} lock{'s' if len(self._locks) > 1 else ''}"
        if self._notified:
            return what
        if self._hidden is not None:
            return (
                f"{what}; whether keyspace notifications are on is not known ({self._hidden}): a hold of less than a "
                "second may not be seen"
            )
        return f"{what}; keyspace notifications are off: a hold of less than a second may not be seen (see the manual)"

    def events(self) -> Iterator[tuple[float, Watched, sampling.Change]]:
        """Yield what happens, with Unix times, until the reader of our output has gone.

        Raises:
            redis.exceptions.RedisError: The first look failed. Later the server may be away for a while.
        """
        yield from self.next_changes()
        failing = False
        while not common.is_without_reader():
            try:
                yield from self.next_changes()
                if failing:
                    failing = False
                    common.say("the server answers again")
            except (rx.RedisError, OSError) as error:
                if isinstance(error, BrokenPipeError):
                    raise
                if not failing:
                    failing = True
                    common.say(common.failure(error).message)
                time.sleep(READ_EVERY)
                with suppress(rx.RedisError, OSError):
                    self._servers.masters()  # Another one may be the master now.

    def next_changes(self) -> list[tuple[float, Watched, sampling.Change]]:
        """Wait for a message or until a lock is due, read it, and return what happened, with Unix times."""
        due = min(lock.due for lock in self._locks.values())
        try:
            self._receive(self._messages.get(timeout=max(0.0, due - time.monotonic())))
            while True:
                self._receive(self._messages.get_nowait())
        except queue.Empty:
            pass
        now = time.monotonic()
        names = [name for name, lock in self._locks.items() if lock.due <= now]
        found = zip(names, glance_at(names, self._inspector), strict=True)
        now = time.monotonic()  # The same for all, so that they are due together again.
        happened = [each for name, state in found for each in self._compare(self._locks[name], state, now)]
        # All new owners are known by now, so that one list of the clients names them.
        return [(at, lock, replace(each, who=each.who and self._whom(each.who))) for at, lock, each in happened]

    def close(self) -> None:
        """End the subscriptions. The inspector stays open."""
        for each in self._subscriptions:
            each.close()

    def _notifies(self, server: Server) -> bool:
        """Return whether a server notifies of keys; ``False``, too, if this user may not ask."""
        try:
            setting = "notify-keyspace-events"
            flags = read_setting(setting, server.ask("CONFIG", "GET", setting)) or ""
        except (rx.ResponseError, rx.InvalidResponse) as error:
            self._hidden = str(error)
            return False
        return set(flags.replace("A", "g$lshzxetd")) >= NOTIFIED

    def _receive(self, message: sampling.Message) -> None:
        if message.kind != "message":
            common.say(SAID[message.kind].format(message.text))
            for each in self._locks.values():
                each.due = min(each.due, message.at)
            return
        found = self._meanings.get(message.channel) or self._meanings.get(sampling.without_waiter(message.channel))
        if found is not None:
            lock, means = found
            lock.receive(message.at, means, message.text)

    def _compare(self, lock: Watched, state: Glance, now: float) -> Iterator[tuple[float, Watched, sampling.Change]]:
        read_at, stirred, before = lock.read_at, lock.stirred, lock.state
        evidence = lock.evidence(now)
        lock.state, lock.read_at = state, now
        error = 0.0 if evidence.overdue else now - (read_at if stirred is None else stirred)  # Of what ended.
        was = None if before is None else before.lock
        exclusive = was is not None and was.holders and was.mode is None and sampling.number_of(was) is None
        since = Since(time.time(), error if self._notified or exclusive else now - read_at)
        interval = READ_SELDOM if self._notified else READ_EVERY
        free_in = state.lock.free_in
        lock.due = now + (interval if free_in is None else min(interval, free_in + 0.01))
        for change in _first(state) if before is None else changes_between(before, state, evidence):
            held, cause = self._held(lock, change, since, error), None
            if change.event in ("ended", "expired") and was is not None and not evidence.expired:
                cause = self._cause(lock, was.node, read_at)
            yield since.at, lock, replace(change, held=held, cause=cause)

    def _learn(self, server: Server) -> None:
        """Ask a server whether it was restarted or flushed since it was asked the last time."""
        with suppress(rx.RedisError, OSError):
            self._states.inspect(server.ask("INFO", "everything"), node=server.node)

    def _cause(self, lock: Watched, former: str, read_at: float) -> str | None:
        """Return why a server no longer has what it, or the former master, had when it was read, if that is known."""
        server = self._servers.of(encode_name(self._inspector.prefix + lock.name))
        if self._states.may_inspect(server.node, time.monotonic()):
            self._learn(server)
        if server.node != former:
            return f"the master is {server.node} now (was {former}), which does not have it"
        return self._states.cause(server.node, read_at)

    def _held(self, lock: Watched, change: sampling.Change, now: Since, error: float) -> float | None:
        """Return for how many seconds the owner has held the lock, if that is known, and note when it acquired it.

        Args:
            lock: The lock.
            change: What happened.
            now: When it happened, if it began.
            error: By how many seconds that may be too late, if it ended.
        """
        if change.who is None:
            return None
        owner = sampling.owner_of(change.who)
        if change.event == "acquired":
            lock.since[owner] = now
            return None
        if change.event == "held" and (known := self._whom(change.who).since) is not None:
            lock.since[owner] = Since(known, 0.0)
        since = lock.since.get(owner)
        if change.event in ("held", "reentered"):
            error = 0.0
        else:
            lock.since.pop(owner, None)
        if since is None:
            return None
        held = max(0.0, now.at - since.at)
        return held if since.error + error <= max(KNOWN_WITHIN, KNOWN_TO * held) else None

    def _whom(self, who: Who) -> Who:
        """Return who an owner is, as far as its client reports. Clients are listed only for an owner that is new."""
        owner = _listed_as(who)
        if owner not in self._who and self._lists.is_due:
            self._list()
        return self._who.get(owner, who)

    def _list(self) -> None:
        """Learn who holds the locks of which not all holders are known. It takes a small part of the time."""
        began = time.monotonic()
        if len(self._who) > MOST_KNOWN:
            self._who.clear()
        new = [
            each
            for each in self._locks.values()
            if each.state is None or any(_listed_as(who) not in self._who for who in each.state.lock.holders)
        ]
        with suppress(rx.RedisError, OSError):
            views = {view.name: view for view in self._inspector.locks_named(each.name for each in new)}
            for each in new:
                view = views.get(each.name)
                each.kind = view.kind if view is not None else None
                self._who.update({sampling.owner_of(who): who for who in view.holders} if view is not None else {})
        self._lists.worked(time.monotonic() - began)


def _first(state: Glance) -> Iterator[sampling.Change]:
    """Yield what is shown of a lock when the watch begins."""
    for who in state.lock.holders:
        yield sampling.Change("held", who, holds=who.holds)
    if not state.lock.holders:
        yield sampling.Change("no_lock" if state.foreign else "free", number=sampling.number_of(state.lock))


def changes_between(before: Glance, after: Glance, evidence: sampling.Evidence) -> Iterator[sampling.Change]:
    """Yield what happened to a lock, or to a key that was or is none."""
    yield from sampling.changes(before.lock, after.lock, evidence)
    if before.foreign != after.foreign and not after.lock.holders:
        yield sampling.Change("free" if after.foreign is None else "no_lock")


def _listed_as(who: Who) -> str:
    """Return what the list of holders calls an owner: that of a token lock by the digits of its token alone."""
    return sampling.owner_of(who).removeprefix("token ")


# ---- glance ----------------------------------------------------------------------------------------------------------
# Reading a few locks by one small request to each server, often: holders as they are stored, not who they are.


MOST_HOLDERS = 50  # holders of one lock that are read


class Glance(NamedTuple):
    """A lock, semaphore or latch, as one small request shows it.

    Attributes:
        lock: What is stored of it. Its kind is the first of those that look the same. The owner of a string has
            ``"token "`` or ``"string "`` before it; each permit that is taken is a holder, ``"permit "`` and its id.
        queued: How many waiters its queue has; all others are clients.
        foreign: What the key is, in words, if it is no lock.
    """

    lock: LockView
    queued: int = 0
    foreign: str | None = None

    @property
    def waiting(self) -> int:
        """How many wait, as far as this shows."""
        return max(self.queued, self.lock.waiting_clients)


def channels_of(name: str) -> list[str]:
    """Return the channels on which the release of what has this name may be announced."""
    return list(dict.fromkeys(kind.names(name).channel for kind in stored_kinds().values()))


def glance_at(names: Sequence[str], inspector: Inspector) -> list[Glance]:
    """Return what is stored of some locks, also of one that is free.

    Args:
        names: Their names.
        inspector: Where they are; the masters of its servers are known.

    Raises:
        redis.exceptions.RedisError: A server does not answer, or not to this user.
        OSError: A server does not answer.
    """
    by_server: dict[Server, list[bytes]] = defaultdict(list)
    servers, prefix = inspector.servers, inspector.prefix
    keys = [encode_name(prefix + name) for name in names]
    for key in keys:
        by_server[servers.of(key)].append(key)
    found: dict[bytes, Glance] = {}
    for server, some in by_server.items():
        sharded = servers.publishes_by(server) == "SPUBLISH"
        asked = [questions(key, sharded=sharded) for key in some]
        replies = iter(server.ask_many([question for each in asked for question in each]))
        for key, each in zip(some, asked, strict=True):
            found[key] = read_glance(key, [next(replies) for _ in each], node=server.node, prefix=prefix)
    return [found[key] for key in keys]


def questions(key: bytes, *, sharded: bool = False) -> list[Command]:
    """Return the commands whose replies :func:`read_glance` reads; they belong together in one request."""
    text = key.decode("utf-8", "surrogateescape")
    lock = LockNames(text)
    return [
        ("PTTL", key),
        ("HSCAN", key, "0", "COUNT", str(MOST_HOLDERS)),
        ("GETRANGE", key, "0", str(MAX_VALUE)),
        ("ZRANGE", encode_name(SemaphoreNames(text).taken), "0", str(MOST_HOLDERS - 1)),
        ("GET", encode_name(lock.token)),
        ("LLEN", encode_name(lock.queue)),
        (
            "PUBSUB",
            "SHARDNUMSUB" if sharded else "NUMSUB",
            *map(encode_name, [*channels_of(text), watched_channel(text), lock.waiting]),
        ),
        ("ZCOUNT", encode_name(lock.waiting), "-inf", f"({OBSERVERS}"),
        ("TYPE", key),
    ]


def read_glance(key: bytes, replies: Sequence[Any], *, node: str = "", prefix: str = "") -> Glance:
    """Read the replies to the questions. One of another type than expected counts as missing.

    Raises:
        redis.exceptions.ResponseError: The server does not answer such questions now, or not to this user.
    """
    left, hashed, value, permits, token, queued, subscribed, listed, key_type = replies
    if isinstance(left, Exception):
        raise left
    fields: dict[bytes, bytes] = {}
    match hashed:
        case [_, [*parts]] if all(isinstance(each, bytes) for each in parts):
            fields = dict(list(zip(parts[::2], parts[1::2], strict=False))[:MOST_HOLDERS])
    taken = [each for each in permits if isinstance(each, bytes)] if isinstance(permits, list) else []
    value = value if isinstance(value, bytes) and value else None
    text = key.decode("utf-8", "surrogateescape")
    counts = dict(read_numsub(subscribed))
    watching = counts.pop(encode_name(watched_channel(text)), 0)
    # Of the clients in the wait queue some listen to the channel, too: the observers.
    observers = counts.pop(encode_name(LockNames(text).waiting), 0)
    subscribers = sum(max(0, count - watching) for count in counts.values()) - observers
    stored = Stored(
        key,
        usual_kind(_form_of(key, value, fields.get(b"mode"), taken)),
        left_ms=left if isinstance(left, int) else -2,
        fields=fields,
        token=read_count(token),
        value=value,
        taken=len(taken) if taken else None,
        subscribers=max(0, subscribers + (read_count(listed) or 0)),
    )
    lock = view_of(stored, People(), node, prefix, time.time())
    holders = lock.holders
    if stored.kind.form == "token" and (seen := read_token(key, value or b"", time.time())) is not None:
        # Only a program that uses another string knows whether that is a lock.
        holders = tuple(replace(who, owner=f"{'token' if seen.libraries else 'string'} {who.owner}") for who in holders)
    elif taken:
        holders = tuple(Who(owner=f"permit {permit.hex()}") for permit in taken)
    is_lock = bool(holders) or not isinstance(key_type, bytes) or key_type in (b"none", b"string")
    return Glance(
        replace(lock, holders=holders, free_in=stored.left_ms / 1000 if stored.left_ms >= 0 else None),
        queued=queued if isinstance(queued, int) else 0,
        foreign=None if is_lock else foreign_text(decode_name(key_type), key),
    )


def _form_of(key: bytes, value: bytes | None, mode: bytes | None, permits: Sequence[bytes]) -> Form:
    if permits:
        return "permits"
    if value is not None and read_count(value) is not None:
        return "number"
    if value is not None and read_token(key, value, 0.0) is not None:
        return "token"
    return "owners" if mode is None else "sides"


# ---- show ------------------------------------------------------------------------------------------------------------
# An event of a lock as JSON and as a line of text.


#: What needs attention is written in capitals.
SHOWN = {"expired": "EXPIRED", "forced": "FORCED", "reentered": "holds", "no_lock": "no lock"}

REMARKS = {
    "expired": "not renewed in time",
    "forced": "freed by pyredisson unlock",
    "ended": "its key is gone, without a message: a fair or spin lock was released, or it was removed by hand",
}


def record_of(at: float, lock: Watched, change: sampling.Change) -> dict[str, Any]:
    """Return an event as JSON can hold it."""
    state = lock.state or Glance(LockView("", "lock", ""))
    view = state.lock
    return {
        "schema": 1,
        "at_unix_ms": round(at * 1000),
        "name": lock.name,
        "event": change.event,
        "holder": None if change.who is None else as_json(change.who),
        "cause": change.cause,
        "held_ms": None if change.held is None else round(change.held * 1000),
        "count": change.count,
        "handed_over": change.handed_over,
        "holds": change.holds,
        "mode": view.mode,
        "token": view.token,
        "value": change.number,
        "waiting": state.waiting,
        "queued": state.queued,
        "foreign": state.foreign,
        "free_in_ms": None if view.free_in is None else round(view.free_in * 1000),
    }


def line_of(record: dict[str, Any], *, named: bool) -> str:
    """Return an event as a line: when, what, who, and what is known besides."""
    event = record["event"]
    at = datetime.fromtimestamp(record["at_unix_ms"] / 1000).strftime("%H:%M:%S.%f")[:-3]  # noqa: DTZ006  # The local time.
    parts = [at, *([record["name"]] if named else []), f"{SHOWN.get(event, event):<8}"]
    if record["holder"] is not None:
        parts.append(record["holder"]["label"])
    elif event == "released":
        holds = "a hold that was" if record["count"] == 1 else f"{record['count']} holds that were"
        parts.append(f"{holds} not seen")
    details = []
    if record["held_ms"] is not None:
        details.append(f"{'for' if event == 'held' else 'held'} {common.duration_text(record['held_ms'] / 1000)}")
    if event in ("held", "acquired"):
        details += [] if record["mode"] is None else [f"{record['mode']} side"]
        details += [] if record["token"] is None else [f"token {record['token']}"]
        details += ["handed over"] if record["handed_over"] else []
    if event == "reentered":
        details.append(f"×{record['holds']}")
    if record["value"] is not None:
        details.append(f"value {record['value']}")
    if event in REMARKS:
        details.append(record["cause"] or REMARKS[event])
    if event == "no_lock" and record["foreign"] is not None:
        details.append(record["foreign"].partition(": ")[2])
    if record["queued"] and record["queued"] == record["waiting"]:
        details.append(f"{record['queued']} queued")
    elif record["waiting"]:
        details.append(f"{record['waiting']} client{'s' if record['waiting'] > 1 else ''} waiting")
    return common.plain("  ".join([*parts, ", ".join(details)]).rstrip())
