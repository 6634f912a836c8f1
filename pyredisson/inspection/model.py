"""What an inspection reports of locks, their holders and waiters, and clients; how that is put together; and as JSON.

Plain values and pure functions: nothing here asks a server.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache, cached_property
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Any, Literal, TypeAlias, final, get_args

from pyredisson import _kinds as kinds
from pyredisson._core.holder_lookup import (
    Connection,
    PresenceEntry,
    StoredOwner,
    StoredPresence,
    read_count,
    read_owner,
    read_runner,
    token_id,
)
from pyredisson._core.kind import Form, StoredKind
from pyredisson._core.names import LockNames, NumberedNames, SemaphoreNames
from pyredisson._core.presence import RECORDED
from pyredisson.inspection.libraries import TokenView, foreign_text, keys_of_lock, read_token
from pyredisson.inspection.servers import TOOL_NAME, decode_name, encode_name

Problem: TypeAlias = Literal["never_expires", "permits_missing", "holder_gone", "dead_queue"]
"""Why a lock may stay held, or its queue stay, although no one uses it."""


@final
@dataclass(frozen=True)
class Who:
    """An owner: a thread or task of a client. What is not known is ``None``.

    Attributes:
        client_id: The client's id.
        thread_id: The number of its thread or task.
        app: ``Config.client_name``.
        host: The machine.
        pid: The process.
        thread: The name of the thread or task.
        runtime: The library: ``"pyredisson"``, ``"redisson"``, the name of another one, or ``"unknown"``.
        connected: Whether the client is connected; ``None`` if that cannot be known.
        probably_gone: Whether that cannot be known, and its client has not reported for too long.
        since: Since when it holds or waits, in Unix seconds.
        holds: How many nested holds it has.
        remaining: Seconds until its hold expires.
        owner: How it is stored in Redis: a hash field, or the first digits of the SHA-256 of a token.
        watchdog: Whether its watchdog renews the hold.
        stack: Its stack, if it was recorded.
        reason: Why it holds the lock, if it was held by ``pyredisson lock``.
        ran: Whether it has run what runs once, and the name stays taken.
        closed: Whether its client was closed in the middle of a block, which may release its permits yet.
    """

    client_id: str | None = None
    thread_id: int | None = None
    app: str | None = None
    host: str | None = None
    pid: int | None = None
    thread: str | None = None
    runtime: str = "unknown"
    connected: bool | None = None
    probably_gone: bool = False
    since: float | None = None
    holds: int = 1
    remaining: float | None = None
    owner: str = ""
    watchdog: bool | None = None
    stack: tuple[str, ...] = ()
    reason: str | None = None
    ran: bool = False
    closed: bool = False

    @property
    def gone(self) -> bool:
        """Whether its client has ended, certainly or probably."""
        return self.connected is False or self.probably_gone

    @property
    def label(self) -> str:
        """Who it is in a few words: ``web@web-3 pid 4711 t12``."""
        if self.host is not None:
            words = [f"{self.app}@{self.host}" if self.app else self.host]
            words += [] if self.pid is None else [f"pid {self.pid}"]
            words += [] if self.thread_id is None else [f"t{self.thread_id}"]
        elif self.runtime not in ("pyredisson", "redisson", "unknown"):
            words = [f"{self.runtime} {self.owner}"]
        elif self.client_id is None:
            words = [f"?{self.owner}" if self.owner else "?"]
        else:
            number = "" if self.thread_id is None else f":{self.thread_id}"
            before = {"redisson": "Redisson ", "pyredisson": "pyredisson "}.get(self.runtime, "?")
            words = [f"{before}{self.client_id[:4]}…{number}"]
        if self.ran:
            words.append("(has run)")
        elif self.probably_gone:
            words.append("(probably gone)")
        elif self.connected is False:
            words.append("(no such client)" if self.host is None else "(not connected)")
        return " ".join(words)


@final
@dataclass(frozen=True)
class WaiterView:
    """An owner that waits for a lock.

    Attributes:
        who: The owner.
        kind: What it waits for: the word of ``get_*``.
        since: Since when, in Unix seconds; ``None`` if unknown.
        place: Its place in the queue of a fair lock, from 1.
        expired: Whether the queue considers it dead.
    """

    who: Who
    kind: str
    since: float | None = None
    place: int | None = None
    expired: bool = False

    @property
    def dead(self) -> bool:
        """Whether its place in the queue is that of a client that has ended."""
        return self.expired or (self.place is not None and self.who.gone)


@final
@dataclass(frozen=True)
class LockView:
    """A lock, semaphore or latch.

    Attributes:
        name: Its name, without the inspector's prefix.
        kind: The word of ``get_*``; where kinds look the same in Redis, that of the first.
        node: The server on which it is stored.
        holders: Who holds it.
        mode: ``"read"`` or ``"write"``, of a read-write lock.
        free_in: Seconds until it expires unless it is renewed; ``None``: it is free, or never expires.
        never_expires: Whether it is held without an expiry.
        waiting_clients: How many clients are subscribed to its channel.
        waiters: Who waits, as far as it is known.
        token: The fencing token that was issued last.
        permits: How many permits of a semaphore are available.
        count: What is still to be counted down.
        notes: Remarks.
        keys: Its keys in Redis, its own first.
        taken: How many permits of a semaphore are taken, if that is stored.
        total: How many permits a semaphore has in all, if that is known.
        waiters_known: Whether the server lets this user see who waits.
        missing: How many permits of a semaphore are taken although no client says that it has them; ``None`` if that
            is not known. It is known of a search, for a :class:`Semaphore` whose total is recorded, unless the
            semaphore was used within the last minute.
    """

    name: str
    kind: str
    node: str
    holders: tuple[Who, ...] = ()
    mode: str | None = None
    free_in: float | None = None
    never_expires: bool = False
    waiting_clients: int = 0
    waiters: tuple[WaiterView, ...] = ()
    token: int | None = None
    permits: int | None = None
    count: int | None = None
    notes: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    taken: int | None = None
    total: int | None = None
    waiters_known: bool = True
    missing: int | None = None

    @property
    def held(self) -> bool:
        """Whether an owner holds it, or at least one permit."""
        return bool(self.holders) or bool(self._taken)

    @property
    def _taken(self) -> int | None:
        """How many permits are taken, if that is known."""
        if self.taken is None and self.permits is not None and stored_kinds()[self.kind].form == "permits":
            return 0  # Else they would be stored.
        return self.taken if self.taken is not None or self.total is None else max(0, self.total - (self.permits or 0))

    @property
    def waiting(self) -> int:
        """How many wait: threads and tasks where they are known, else clients."""
        return max(len(self.waiters), self.waiting_clients)

    @property
    def remaining(self) -> float | None:
        """Seconds until it expires unless it is renewed; ``None``: it is free, or never expires."""
        return self.free_in

    @property
    def may_be_data(self) -> bool:
        """Whether it is a hash that may be no lock: it never expires, and no client is known that could hold it."""
        of_owners = self.never_expires and stored_kinds()[self.kind].form == "owners"
        return of_owners and all(each.runtime != "pyredisson" for each in self.holders)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What may keep it held, or its queue, although no one uses it; the worst first."""
        dead = [each for each in self.waiters if each.dead]
        all_live = self._taken is not None and self._taken <= sum(each.holds for each in self.holders if not each.gone)
        found: dict[Problem, bool] = {
            "never_expires": self.never_expires,
            "permits_missing": bool(self.missing),
            "holder_gone": not all_live and any(each.gone and each.reason is None for each in self.holders),
            "dead_queue": bool(dead) and (len(dead) == len(self.waiters) or not self.holders),
        }
        return tuple(problem for problem, there in found.items() if there)


@final
@dataclass(frozen=True)
class ClientView:
    """A client, by its connections and its presence entry.

    Attributes:
        client_id: Its id; ``None`` for one that has none, such as one of another library.
        app: ``Config.client_name``.
        host: The machine.
        pid: The process.
        connections: How many connections it has.
        addresses: Where they come from.
        version: Of the library.
        presence: Whether it has written a presence entry.
        holds: What it reports to hold.
        waits: What it reports to wait for.
        age_seconds: The age of its oldest connection.
        more: How many entries did not fit into its presence.
        runtime: The library, as far as it can be recognised.
    """

    client_id: str | None
    app: str | None = None
    host: str | None = None
    pid: int | None = None
    connections: int = 0
    addresses: tuple[str, ...] = ()
    version: str | None = None
    presence: bool = False
    holds: tuple[PresenceEntry, ...] = ()
    waits: tuple[PresenceEntry, ...] = ()
    age_seconds: float | None = None
    more: int = 0
    runtime: str = "pyredisson"


@final
@dataclass(frozen=True)
class Snapshot:
    """All that one look saw.

    Attributes:
        taken: When it ended, in Unix seconds.
        locks: The locks, in the order of their names.
        clients: The clients.
        keys_seen: How many keys the servers listed.
        complete: Whether all keys were searched.
        seconds: How long it took.
        errors: What could not be read, and why.
        strings_left_out: Whether strings that may be locks or data are not among the locks: there are too many.
        unread: How many keys the server did not let this user read: whether they are locks is not known.
        doubts: What is not known of the locks, since the server refused it, and why: ``"connections"``, ``"waiters"``.
    """

    taken: float
    locks: tuple[LockView, ...] = ()
    clients: tuple[ClientView, ...] = ()
    keys_seen: int = 0
    complete: bool = True
    seconds: float = 0.0
    errors: tuple[str, ...] = ()
    strings_left_out: bool = False
    unread: int = 0
    doubts: Mapping[str, str] = field(default_factory=dict)


#: Times carry their unit in JSON: the name there, and by what they are multiplied.
_IN_JSON: dict[str, tuple[str, int | None]] = {
    "since": ("since_unix_ms", 1000),
    "remaining": ("remaining_ms", 1000),
    "free_in": ("free_in_ms", 1000),
}
_PLAIN = frozenset({str, int, bool, type(None)})


def as_json(value: Any) -> Any:
    """Return a value as JSON can hold it, with units in the names of times."""
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if kind is float:
        return round(value, 3)
    if kind in (tuple, list):
        return [as_json(inner) for inner in value]
    if (names := _names_in_json(kind)) is not None:
        made: dict[str, Any] = {}
        for attribute, name, factor in names:
            inner = getattr(value, attribute)
            made[name] = as_json(inner) if factor is None or inner is None else round(inner * factor)
        return made
    if isinstance(value, Mapping):
        return {key: as_json(inner) for key, inner in value.items()}
    return value


@cache
def _names_in_json(kind: type) -> list[tuple[str, str, int | None]] | None:
    """Return the attributes of a class, their names in JSON, and by what they are multiplied."""
    if not is_dataclass(kind):
        return None
    times = {**_IN_JSON, "taken": ("taken_unix_ms", 1000)} if kind is Snapshot else _IN_JSON
    shown = [name for name in ("label", "waiting") if kind in (Who, LockView) and hasattr(kind, name)]
    names = [*(each.name for each in fields(kind)), *shown]
    found = [(each, times.get(each, (each, None))) for each in names]
    return [(each, name, factor) for each, (name, factor) in found]


# ---- stored ----------------------------------------------------------------------------------------------------------
# What is stored of a lock in Redis, before it is known who is who.


MAX_OWNERS = 1000  # of one read-write lock that are read


@dataclass
class Stored:
    """What is stored of one lock.

    Attributes:
        key: Its key.
        kind: As what it is stored.
        left_ms: Its time to live: -1 if it has none, -2 if there is no such key.
        fields: Those of its hash, and their values.
        queue: Who waits for a fair lock, in order, and until when each is considered alive, in ms since 1970.
        queued: How many do.
        listed: How many clients are on the list of those that wait for it.
        subscribers: How many clients are on that list, or subscribed to its channel or to those of its waiters.
        reads: Until when the holds of a reader last, in ms from now.
        token: The fencing token.
        value: The string of a token lock, the permits or the count.
        taken: How many permits are taken.
        ended: How many of those that were taken have expired, and are not available yet.
        recorded: How many permits there are in all, if that is recorded.
        now_ms: The server's clock, in ms since 1970.
        waiters_known: Whether the server let us see who waits.
        in_use: Whether permits were acquired or released within the last minute; ``None``: not known.
    """

    key: bytes
    kind: StoredKind
    left_ms: int = -2
    fields: dict[bytes, bytes] = field(default_factory=dict)
    queue: dict[bytes, int] = field(default_factory=dict)
    queued: int = 0
    listed: int = 0
    subscribers: int = 0
    reads: dict[bytes, int] = field(default_factory=dict)
    token: int | None = None
    value: bytes | None = None
    taken: int | None = None
    ended: int = 0
    recorded: int | None = None
    now_ms: float = 0.0
    waiters_known: bool = True
    in_use: bool | None = None

    @property
    def exists(self) -> bool:
        """Whether the key is there, and holds what a lock of this kind does."""
        return self.left_ms != -2 and (self.value is not None or bool(self.owners))

    @cached_property
    def owners(self) -> list[tuple[bytes, bytes]]:
        """The fields of its hash that name owners, and their values."""
        return [(field, value) for field, value in self.fields.items() if read_owner(field) is not None]

    @property
    def ran(self) -> bool:
        """Whether who held it has run, and its name stays taken."""
        return any(owner.ran for field, _ in self.owners if (owner := read_owner(field)))

    @property
    def mode(self) -> bytes | None:
        """The mode of a read-write lock."""
        return self.fields.get(b"mode")

    @cached_property
    def names(self) -> LockNames | NumberedNames:
        """Its names. One that is no UTF-8 survives in them."""
        return self.kind.names(self.key.decode("utf-8", "surrogateescape"))


# ---- kinds -----------------------------------------------------------------------------------------------------------
# What all kinds say of themselves: how they are stored, and what lists call them.


@cache
def stored_kinds() -> Mapping[str, StoredKind]:
    """Return all kinds by their words: of each form the first is what it is taken for. This loads them all."""
    cores = [getattr(kinds, name) for name, module in kinds.MODULES.items() if module.startswith("_kinds.")]
    return {core.stored.kind: core.stored for core in cores}


@cache
def usual_kind(form: Form) -> StoredKind:
    """Return what something of this form is taken for if nothing says more."""
    return next(each for each in stored_kinds().values() if each.form == form)


@cache
def numbered_kinds() -> Mapping[str, StoredKind]:
    """Return those that have no owner, by their words."""
    return {word: each for word, each in stored_kinds().items() if each.number is not None}


def shown_kinds() -> Sequence[str]:
    """Return the words for those that an inspection recognizes by what is stored."""
    usual = [usual_kind(form) for form in get_args(Form)]
    return [word for word, each in stored_kinds().items() if each in usual or each.shown_by or each.number]


@cache
def labels() -> Mapping[str, str]:
    """Return what lists call the kinds and their sides, by their words."""
    return {
        word: label for each in stored_kinds().values() for word, label in {each.kind: each.label, **each.sides}.items()
    }


# ---- views -----------------------------------------------------------------------------------------------------------
# Making a view of what is stored and of who is who. Pure.


#: Notes that mean something to others.
NEVER_EXPIRES = "never expires"
WAITERS_UNKNOWN = "who waits is not known"
NOT_UTF8 = "its name is not UTF-8"
DOUBTFUL = "a string: a lock only if a program uses it as one"
ANY_NUMBER = "a number that no client uses now: a semaphore, a latch or any counter"


def view_of(stored: Stored, people: People, node: str, prefix: str, now: float) -> LockView:
    """Return the view of one lock.

    Args:
        stored: What is stored.
        people: Who is who.
        node: Where it is stored.
        prefix: What stands before all names.
        now: The time, in Unix seconds.
    """
    key = decode_name(stored.key)
    holders = tuple(_holders(stored, people, key, now))
    waiters = tuple(_waiters(stored, people, key, holders, now))
    numbered, number = stored.kind.number is not None, read_count(stored.value)
    held = bool(holders)
    never = held and not numbered and stored.left_ms == -1
    total = _total(stored, number)
    missing = None
    if total is not None and stored.in_use is False and people.tell_all:
        missing = max(0, total - (number or 0) - sum(each.holds for each in holders))
    return LockView(
        name=key.removeprefix(prefix),
        kind=_kind(stored, people, key),
        node=node,
        holders=holders,
        mode=stored.mode.decode("ascii", "replace") if held and stored.mode in (b"read", b"write") else None,
        free_in=stored.left_ms / 1000 if held and not numbered and stored.left_ms >= 0 else None,
        never_expires=never,
        waiting_clients=stored.subscribers,
        waiters=waiters,
        token=stored.token,
        permits=number if stored.kind.number == "permits" else None,
        count=number if stored.kind.number == "count" else None,
        notes=(*_notes(stored, people, holders, waiters, never), *_doubts(stored, people, holders, key, now)),
        keys=_keys(stored),
        taken=stored.taken,
        total=total,
        waiters_known=stored.waiters_known,
        missing=missing,
    )


def _total(stored: Stored, available: int | None) -> int | None:
    """Return how many permits there are in all, if that is known: never fewer than are available."""
    if available is None or stored.kind.number != "permits":
        return None
    if stored.taken is not None:
        return available + stored.taken + stored.ended
    return None if stored.recorded is None else max(available, stored.recorded)


def _kind(stored: Stored, people: People, key: str) -> str:
    reported = people.kind_of(key)
    if reported is not None and reported in numbered_kinds() and stored.kind.number and stored.taken is None:
        return reported
    shown = [each for each in _alike(stored) if each.shown_by and getattr(stored, each.shown_by)]
    return refine((shown or [stored.kind])[0].kind, reported)


def _alike(stored: Stored) -> list[StoredKind]:
    return [each for each in stored_kinds().values() if each.form == stored.kind.form]


def _holders(stored: Stored, people: People, key: str, now: float) -> Iterable[Who]:
    left = stored.left_ms / 1000 if stored.left_ms >= 0 else None
    if stored.kind.form == "token":
        seen = None if stored.value is None else read_token(stored.key, stored.value, now)
        if stored.value is not None and seen is not None:  # Otherwise another value was written since it was found.
            yield replace(people.token_holder(key, stored.value, seen), remaining=left)
    elif stored.kind.number is not None:
        for presence, entry in people.holds_of(key):
            yield people.person(presence.client_id, entry.thread_id, entry)
    else:
        for field, count in stored.owners[:MAX_OWNERS]:
            if (owner := read_owner(field)) is not None:
                until = stored.reads[field] / 1000 if field in stored.reads else left
                holds = max(1, read_count(count) or 1)
                stored_of_it = {"owner": field.decode(), "holds": holds, "remaining": until}
                if owner.ran:
                    yield people.runner(owner, count, **stored_of_it)
                else:
                    yield people.holder(key, owner, **stored_of_it)


def _waiters(stored: Stored, people: People, key: str, holders: tuple[Who, ...], now: float) -> Iterable[WaiterView]:
    queued = set()
    for place, (member, until) in enumerate(stored.queue.items(), 1):
        owner = read_owner(member)
        if owner is None:
            continue
        queued.add((owner.client_id, owner.thread_id))
        who = people.waiter(key, owner)
        yield WaiterView(who, _queued_for(stored, people.kind_of(key)), who.since, place, until <= stored.now_ms)
    holding = {(who.client_id, who.thread_id) for who in holders} if stored.kind.form == "owners" else set()
    for presence, entry in people.waits_of(key):
        owner_id = (presence.client_id, entry.thread_id)
        # What a client reports is as old as a period: an owner that holds the lock by now waits no longer.
        kind = stored_kinds().get(entry.kind)
        has_acquired = owner_id in holding and (kind is None or kind.reentrant)
        if owner_id not in queued and not has_acquired:
            yield WaiterView(people.person(presence.client_id, entry.thread_id, entry), entry.kind, entry.since)


def _queued_for(stored: Stored, reported: str | None) -> str:
    """Return as what those in its queue want something."""
    kind = stored_kinds().get(reported or "")
    in_queue = next(each for each in _alike(stored) if each.shown_by == "queued")
    return kind.kind if kind is not None and kind.label == in_queue.label else in_queue.kind


def _keys(stored: Stored) -> tuple[str, ...]:
    names = stored.names
    found = [names.raw]
    if stored.kind.form == "token":
        return tuple(map(decode_name, keys_of_lock(stored.key)))
    if isinstance(names, SemaphoreNames) and stored.kind.form == "permits" and stored.taken is not None:
        found.append(names.taken)
    if isinstance(names, SemaphoreNames) and stored.recorded is not None:
        found.append(names.total)
    if stored.kind.form == "owners" and isinstance(names, LockNames):
        found += [names.queue, names.timeouts] if stored.queued else []
        found += [names.token] if stored.token is not None else []
    return tuple(decode_name(encode_name(each)) for each in found)


def _notes(
    stored: Stored, people: People, holders: tuple[Who, ...], waiters: tuple[WaiterView, ...], never: bool
) -> Iterable[str]:
    if never:
        yield NEVER_EXPIRES
    if not stored.waiters_known:
        yield WAITERS_UNKNOWN
    yield from (f"by hand: {each.reason}" for each in holders[:1] if each.reason)
    absent = sum(each.connected is False for each in holders), "not connected"
    silent = sum(each.probably_gone for each in holders), "probably gone"
    for gone, what in (absent, silent):
        if gone:
            yield f"holder {what}" if len(holders) == 1 else f"{gone} of {len(holders)} holders {what}"
    dead = sum(each.dead for each in waiters)
    if dead:
        yield f"{dead} dead in the queue"
    if stored.queued > len(stored.queue):
        yield f"{stored.queued} in the queue, {len(stored.queue)} read"
    if stored.queued and not holders:
        yield "free, with a queue"
    for owner, count in stored.owners[:10]:
        if (read_count(count) or 0) <= 0 and not stored.ran:
            yield f"broken: hold count {decode_name(count[:20])} of {decode_name(owner)}"
    if len(stored.owners) > MAX_OWNERS:
        yield f"only {MAX_OWNERS} owners were read"
    if decode_name(stored.key).encode() != stored.key:
        yield NOT_UTF8


def _names(seen: TokenView | None) -> str:
    names = [] if seen is None else [each.name for each in seen.libraries]
    return " or ".join([*([", ".join(names[:-1])] if names[:-1] else []), *names[-1:]]) or "another library"


def _doubts(stored: Stored, people: People, holders: tuple[Who, ...], key: str, now: float) -> Iterable[str]:
    """Say if only a program that uses a key knows whether it is a lock."""
    if stored.kind.form == "token" and holders and holders[0].client_id is None and stored.value is not None:
        seen = read_token(stored.key, stored.value, now)
        if seen is not None and not seen.is_likely(expires=stored.left_ms >= 0):
            yield DOUBTFUL
        elif holders[0].runtime == "pyredisson":
            yield "only its value looks like a token: it may be no lock"
        elif holders[0].runtime == "unknown":
            yield f"{'a' if seen is not None and seen.is_known else 'a string that may be a'} lock of {_names(seen)}"
        if (copies := len(keys_of_lock(stored.key))) > 1:
            yield f"{copies} keys, one lock"
    elif stored.kind.form == "number" and stored.taken:
        yield foreign_text("zset", stored.key)
    elif stored.recorded is not None:
        return
    elif stored.kind.form == "number" and stored.exists and not stored.subscribers and people.kind_of(key) is None:
        yield ANY_NUMBER


# ---- people ----------------------------------------------------------------------------------------------------------
# Who is who: owners in Redis matched with connections and presence entries.


#: Libraries that name themselves, and whose connections hold no lock whose owner is a UUID of a client.
_OTHERS = ("jedis", "lettuce", "ioredis", "node-redis", "go-redis", "rueidis", "se.redis", "phpredis", "predis")

#: Flags of connections that are no client's: a replica, a master, one that watches.
_NOT_CLIENTS = frozenset("SMO")


def could_be_anyone(connection: Connection) -> bool:
    """Whether a connection may be that of a client whose id it does not show: Redisson's, or one from a pool."""
    return (
        connection.client_id is None
        and connection.name != TOOL_NAME
        and not _NOT_CLIENTS.intersection(connection.kind)
        and not connection.library.lower().startswith(_OTHERS)
    )


Reported: TypeAlias = "list[tuple[StoredPresence, PresenceEntry]]"
"""What clients report of one lock."""

_UNKNOWN = StoredPresence("")
_NO_ENTRY = PresenceEntry("", "")


class People:
    """The clients that one look found.

    Args:
        connections: All connections to all servers.
        complete: Whether every server listed its connections.

    Attributes:
        others_report: Whether clients report under another prefix, which is not read here.
    """

    def __init__(self, connections: Iterable[Connection] = (), complete: bool = False) -> None:
        self.connections: dict[str, list[Connection]] = defaultdict(list)
        self.strangers: list[Connection] = []
        for each in connections:
            if each.client_id is not None:
                self.connections[each.client_id].append(each)
            elif could_be_anyone(each):
                self.strangers.append(each)
        self._complete = complete
        self.others_report: bool = False
        self._presence: dict[str, StoredPresence | None] = {}
        self._holds: dict[str, Reported] = defaultdict(list)
        self._waits: dict[str, Reported] = defaultdict(list)

    def add(self, client_id: str, presence: StoredPresence | None) -> None:
        """Add the presence entry of a client; ``None``: it has none."""
        if client_id in self._presence:
            return
        self._presence[client_id] = presence
        if presence is not None:
            for entry in presence.holds:
                self._holds[entry.name].append((presence, entry))
            for entry in presence.waits:
                self._waits[entry.name].append((presence, entry))

    def unknown_among(self, client_ids: Iterable[str]) -> list[str]:
        """Return those clients whose presence was not looked for yet."""
        return [each for each in dict.fromkeys(client_ids) if each not in self._presence]

    def connected(self, client_id: str) -> bool | None:
        """Whether a client is connected; ``None`` if that cannot be known."""
        if client_id in self.connections:
            return True
        # It may be one of the strangers: a pool of the user's keeps the names of its connections.
        return None if self.strangers or not self._complete else False

    def probably_gone(self, client_id: str) -> bool:
        """Whether a client has not reported for too long, where its connections do not show it."""
        presence = self._presence.get(client_id)
        return presence is not None and presence.overdue and self.connected(client_id) is None

    @property
    def tell_all(self) -> bool:
        """Whether the clients report all that they have, and do it here, soon after they acquired it.

        None has more than it could write, reports too rarely or under another prefix, and none is Redisson's.
        """
        reports = [each for each in self._presence.values() if each is not None and not self.is_gone(each.client_id)]
        if self.others_report or any(each.more or each.period > RECORDED for each in reports):
            return False
        return not any(each.library.lower().startswith("redisson") for each in self.strangers)

    def is_gone(self, client_id: str) -> bool:
        """Whether a client has ended, certainly or probably."""
        return self.connected(client_id) is False or self.probably_gone(client_id)

    def names_in_use(self) -> list[str]:
        """Return the names of all that clients report to hold or to wait for."""
        return list(dict.fromkeys((*self._holds, *self._waits)))

    def kind_of(self, name: str) -> str | None:
        """Return as what clients report to use a name."""
        return next((entry.kind for _, entry in (*self._holds.get(name, ()), *self._waits.get(name, ()))), None)

    def holds_of(self, name: str) -> Reported:
        """Return who reports to hold something."""
        return self._holds.get(name, [])

    def waits_of(self, name: str) -> Reported:
        """Return who reports to wait for something: what a client reported that is gone has ended."""
        return [each for each in self._waits.get(name, ()) if not self.probably_gone(each[0].client_id)]

    def holder(self, name: str, of: StoredOwner, **stored: Any) -> Who:
        """Return who a field of a lock's hash names; ``stored``: what else is stored of it, by attribute."""
        return self.person(of.client_id, of.thread_id, _entry_of(of, self.holds_of(name)), **stored)

    def runner(self, of: StoredOwner, value: bytes, **stored: Any) -> Who:
        """Return who has run what runs once: its client may have ended, as it should."""
        where = read_runner(value)
        return Who(of.client_id, of.thread_id, *where, runtime="pyredisson", watchdog=False, ran=True, **stored)

    def waiter(self, name: str, owner: StoredOwner) -> Who:
        """Return who a member of a queue is."""
        return self.person(owner.client_id, owner.thread_id, _entry_of(owner, self._waits.get(name, [])))

    def token_holder(self, name: str, token: bytes, seen: TokenView) -> Who:
        """Return whose token is stored; ``seen``: what it says by itself."""
        called = token_id(token)
        for presence, entry in self.holds_of(name):
            if entry.token_id == called:
                return replace(self.person(presence.client_id, entry.thread_id, entry), owner=called)
        return Who(host=seen.host, runtime=seen.runtime, since=seen.made, owner=called)

    def person(self, client_id: str, thread_id: int | None, entry: PresenceEntry | None, **stored: Any) -> Who:
        """Return what is known of an owner; ``stored``: what the server says, which goes before what it reports."""
        known, entry = self._known(client_id), entry or _NO_ENTRY
        by_hand = entry.reason is not None  # What is held by hand needs no client.
        return Who(
            client_id=client_id,
            thread_id=thread_id,
            app=known.app,
            host=known.host,
            pid=known.pid,
            thread=entry.thread,
            runtime="pyredisson" if client_id in self.connections or self._presence.get(client_id) else self._stranger,
            connected=None if by_hand else self.connected(client_id),
            probably_gone=not by_hand and self.probably_gone(client_id),
            since=entry.since,
            watchdog=entry.watchdog,
            stack=entry.stack,
            reason=entry.reason,
            closed=(self._presence.get(client_id) or _UNKNOWN).closed,
            **(stored or {"holds": entry.holds, "owner": f"{client_id}:{thread_id}"}),
        )

    def views(self) -> list[ClientView]:
        """Return the clients: ours, and those who may be Redisson's by address."""
        reporting = [each for each, said in self._presence.items() if said is not None and not said.overdue]
        views = [self._view(each) for each in dict.fromkeys((*self.connections, *reporting))]
        return sorted(views, key=lambda view: (view.app or "", view.host or "", view.pid or 0, view.client_id or ""))

    def _view(self, client_id: str) -> ClientView:
        known, presence = self._known(client_id), self._presence.get(client_id) or _UNKNOWN
        connections = self.connections.get(client_id, [])
        return ClientView(
            client_id=client_id,
            app=known.app,
            host=known.host,
            pid=known.pid,
            connections=len(connections),
            addresses=tuple(dict.fromkeys(each.address for each in connections)),
            version=presence.version or next((each.version or None for each in connections), None),
            presence=presence is not _UNKNOWN,
            holds=presence.holds,
            waits=presence.waits,
            age_seconds=max((each.age_seconds for each in connections), default=None),
            more=presence.more,
        )

    def _known(self, client_id: str) -> StoredPresence | Connection:
        """Return what says whose client this is: its presence entry, or the name of a connection."""
        presence = self._presence.get(client_id)
        return presence if presence and presence.host else self.connections.get(client_id, [_UNKNOWN])[0]

    @property
    def _stranger(self) -> str:
        """The library of a client that has neither a name nor a presence entry."""
        known = self._complete and bool(self.strangers)
        return "redisson" if known and all("redisson" in each.library.lower() for each in self.strangers) else "unknown"


def _entry_of(owner: StoredOwner, reported: Reported) -> PresenceEntry | None:
    mine = [
        entry for said, entry in reported if (said.client_id, entry.thread_id) == (owner.client_id, owner.thread_id)
    ]
    fitting = [each for each in mine if owner.writes == (labels().get(each.kind) == "write")]
    return next(iter(fitting or mine), None)


def refine(kind: str, reported: str | None) -> str:
    """Return the kind that clients report, if what is stored can be that."""
    other = stored_kinds().get(reported or "")
    return kind if other is None or other.form != stored_kinds()[kind].form else other.kind


# ---- graph -----------------------------------------------------------------------------------------------------------
# Who waits for whom, across processes, and in a circle: a deadlock. Pure.


MAX_EDGES = 100_000
MAX_CYCLES = 100

_Node: TypeAlias = tuple[str, int]


@final
@dataclass(frozen=True)
class Edge:
    """An owner waits for another, who holds a lock.

    Attributes:
        waiter: Who waits.
        lock: The name of the lock.
        kind: As what the waiter wants it.
        holder: Who holds it.
        since: Since when the waiter waits, in Unix seconds.
    """

    waiter: Who
    lock: str
    kind: str
    holder: Who
    since: float | None = None


@final
@dataclass(frozen=True)
class WaitGraph:
    """All waits, and the deadlocks among them.

    Attributes:
        edges: Who waits for whom.
        cycles: Waits in a circle: each edge's holder is the next one's waiter.
    """

    edges: tuple[Edge, ...] = ()
    cycles: tuple[tuple[Edge, ...], ...] = ()


def wait_graph(locks: Iterable[LockView]) -> WaitGraph:
    """Return who waits for whom, and one cycle of each group of owners that wait for each other."""
    edges: list[Edge] = []
    for lock in locks:
        for waiter in lock.waiters:
            for holder in _blocking(lock, waiter):
                if len(edges) < MAX_EDGES:
                    edges.append(Edge(waiter.who, lock.name, waiter.kind, holder, waiter.since))
    return WaitGraph(tuple(edges), tuple(_cycles(edges)))


def _blocking(lock: LockView, waiter: WaiterView) -> list[Who]:
    """Return the holders for whom a waiter has to wait."""
    kind = stored_kinds().get(lock.kind)
    if kind is None or kind.force_unlock is None or waiter.dead:  # Permits and counts may come from any client.
        return []
    if waiter.kind == kind.shared and lock.mode == kind.sides[waiter.kind]:
        return []
    return list(lock.holders)


def _node(who: Who) -> _Node | None:
    return None if who.client_id is None or who.thread_id is None else (who.client_id, who.thread_id)


def _cycles(edges: list[Edge]) -> list[tuple[Edge, ...]]:
    between: dict[tuple[_Node, _Node], Edge] = {}
    waits: dict[_Node, list[_Node]] = defaultdict(list)
    for edge in edges:
        waiter, holder = _node(edge.waiter), _node(edge.holder)
        if waiter is not None and holder is not None:
            between[waiter, holder] = edge
            waits[waiter].append(holder)
    found: list[tuple[Edge, ...]] = []
    while len(found) < MAX_CYCLES:
        try:
            TopologicalSorter(waits).prepare()
        except CycleError as error:
            owners: list[_Node] = error.args[1][::-1]  # The first is the last, too.
            found.append(tuple(between[pair] for pair in pairwise(owners)))
            for owner in owners[1:]:
                del waits[owner]  # Of these one cycle is enough.
        else:
            break
    return found
