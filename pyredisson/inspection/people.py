"""Who is who: owners in Redis matched with connections and presence entries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeAlias, final

from pyredisson._core.holder_lookup import (
    Connection,
    PresenceEntry,
    StoredOwner,
    StoredPresence,
    read_runner,
    token_id,
)
from pyredisson.inspection.kinds import labels, stored_kinds
from pyredisson.inspection.libraries import TokenView
from pyredisson.inspection.model import ClientView, Who
from pyredisson.inspection.servers import TOOL_NAME

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


@final
class People:
    """The clients that one look found.

    Args:
        connections: All connections to all servers.
        complete: Whether every server listed its connections.
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
