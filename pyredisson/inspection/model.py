"""What an inspection reports: locks, their holders and waiters, clients. Plain values, and the same as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeAlias, final, get_args

from pyredisson._core.holder_lookup import PresenceEntry
from pyredisson._core.kind import Form, StoredKind
from pyredisson._shared import kinds

Problem: TypeAlias = Literal["never_expires", "holder_gone", "dead_queue"]
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

    @property
    def held(self) -> bool:
        """Whether an owner holds it, or at least one permit."""
        return bool(self.holders) or bool(self.taken)

    @property
    def waiting(self) -> int:
        """How many wait: threads and tasks where they are known, else clients."""
        return max(len(self.waiters), self.waiting_clients)

    @property
    def remaining(self) -> float | None:
        """Seconds until it expires unless it is renewed; ``None``: it is free, or never expires."""
        return self.free_in

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What may keep it held, or its queue, although no one uses it; the worst first."""
        dead = [each for each in self.waiters if each.dead]
        found: dict[Problem, bool] = {
            "never_expires": self.never_expires,
            "holder_gone": any(each.gone and each.reason is None for each in self.holders),
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
