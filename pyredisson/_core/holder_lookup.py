"""Who holds a lock: looked up after a call has failed, to say so in its error. Nothing else depends on it.

Rules kept here:

1. It is one attempt, of :data:`BUDGET` seconds in all, and raises nothing: what is not found out in time is not known.
2. With ``Config(presence=False)`` nothing is asked, unless the program asks itself; and for errors at most
   :data:`MOST_SEARCHES` times a second. Callers look at this client's own owners first.
3. An answer that cannot be read ends the search: what was found before it counts.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple, final

from pyredisson._core.event import Record, record
from pyredisson._core.failures import Failure
from pyredisson._core.names import OBSERVERS, LockNames, ReadWriteNames, presence_key
from pyredisson._core.presence import Entry, Identity
from pyredisson.holders import Holder

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.ownership import Ownership
    from pyredisson._core.runtime import Reply

#: Seconds that a search may take.
BUDGET: Final = 0.25

#: The most searches of a client in a second: a program may use time-outs as a way to ask.
MOST_SEARCHES: Final = 20

#: Seconds between two requests for the names of all connections, and the most connections of a server that is asked.
NAMES_EVERY: Final = 5.0
MOST_NAMES: Final = 2000

#: The most clients whose presence is read to find the token of a token lock.
MOST_READ: Final = 32

#: The most fields of a hash that are read: a read-write lock has one for each reader.
FIELDS: Final = "64"

#: Patterns are compiled when they are first used, which is after a failure, and not when this is imported.
_CONNECTED: Final = rb"(?m)connected_clients:(\d{1,9})\r?$"


class Found(NamedTuple):
    """What was found out about a lock.

    Attributes:
        holder: Who holds it; ``None``: no one, or it is not known.
        held_for: Seconds since it was acquired; ``None``: not known.
        waiting: How many clients wait for it (of a fair lock, how many calls); ``None``: not known.
        foreign: Whether no connected client of pyredisson is the holder's.
        free: Whether it is known that no one holds it.
        fixed: Whether its lease is known to be fixed: no watchdog renews it.
        ran: Whether the holder has run it, and the name stays taken.
    """

    holder: Holder | None = None
    held_for: float | None = None
    waiting: int | None = None
    foreign: bool = False
    free: bool = False
    fixed: bool = False
    ran: bool = False

    def describe(self) -> str | None:
        """Say it, for the message of an error; ``None`` if there is nothing to say."""
        parts = []
        if self.holder is not None and self.ran:
            parts.append(f"it was run by {self.holder}, and is free in {self.holder.remaining or 0.0:.1f} s")
        elif self.holder is not None:
            since = "" if self.held_for is None else f" for {self.held_for:.1f} s"
            kind = ", a client of Redisson or one that has ended" if self.foreign else ""
            parts.append(f"held by {self.holder}{kind}{since}")
            if self.holder.remaining == math.inf:
                parts.append("it never expires")
            elif self.holder.remaining is not None:
                renewal = "" if self.fixed else " unless it is renewed"
                parts.append(f"its lease ends in {self.holder.remaining:.1f} s{renewal}")
        if self.waiting:
            parts.append(f"{self.waiting} others wait for it" if self.waiting > 1 else "1 other waits for it")
        return "; ".join(parts) or None


def found_here(client: ClientCore, ownership: Ownership) -> Found:
    """Return the holder that an ownership of a client of this process stands for."""
    now = client.runtime.now()
    outermost = ownership.holds[:1]
    held_for = now - outermost[0].since if outermost else None
    holder = Holder(
        client.id,
        ownership.who.number,
        *client.runtime.identity()[:3],
        ownership.who.name,
        None if held_for is None else client.runtime.unix_time() - held_for,
        max(0.0, ownership.deadline - now),
    )
    return Found(holder, held_for, fixed=not any(hold.watchdog for hold in ownership.holds))


class Finder:
    """Finds out who holds a lock, for one client.

    Args:
        client: The client, which is one of its attributes.
        clients: Returns the clients of this process.
    """

    def __init__(self, client: ClientCore, clients: Callable[[], Iterable[ClientCore]]) -> None:
        self.client: ClientCore = client
        self.clients: Callable[[], Iterable[ClientCore]] = clients
        self._names: dict[str, Connection] | None = None
        self._names_at = -math.inf
        self._began: deque[float] = deque(maxlen=MOST_SEARCHES)  # When the last searches did.

    async def find(self, name: str, *, by_user: bool = False) -> Found:
        """Look who holds the lock of this name. Raises no error of ours, nor one of the server's.

        Args:
            name: The name.
            by_user: Whether the user asks; else it is to explain an error.
        """
        search = Search(self, self.client.key_of(name))
        await self._run(search.run, by_user)
        return search.found

    async def find_permits(self, name: str) -> tuple[int | None, list[Holder]]:
        """Look how many permits of a semaphore are available (``None``: not known), and which blocks hold some.

        Raises as little as :meth:`find`.
        """
        search = Search(self, self.client.key_of(name))
        await self._run(search.read_permits)
        return search.available, search.holders

    async def _run(self, search: Callable[[], Awaitable[None]], by_user: bool = False) -> None:
        if self._may_search(by_user):
            with suppress(Exception):  # It would hide the error that is about to be raised.
                await search()

    def _may_search(self, by_user: bool) -> bool:
        if self.client.closed or not (by_user or self.client.config.presence):
            return False
        now, began = self.client.runtime.now(), self._began
        if not by_user and len(began) == MOST_SEARCHES and now - began[0] < 1:
            return False
        began.append(now)
        return True

    async def names(self, search: Search) -> dict[str, Connection] | None:
        """Return the clients that are connected, by their ids; ``None``: not known."""
        if self.client.runtime.now() >= self._names_at + NAMES_EVERY:
            self._names_at, self._names = self.client.runtime.now(), None
            info = await search.query("INFO", "clients")
            connected = re.search(_CONNECTED, info) if isinstance(info, bytes) else None
            if connected is not None and int(connected[1]) <= MOST_NAMES:
                listed = await search.query("CLIENT", "LIST")
                if isinstance(listed, bytes):
                    found = read_client_list(listed)
                    self._names = {each.client_id: each for each in found if each.client_id is not None}
        return self._names


class Search:
    """One search, for one lock.

    Attributes:
        found: What is known so far.
        available: The permits of a semaphore that are available.
        holders: Those of its permits.
    """

    def __init__(self, finder: Finder, key: str) -> None:
        self._finder = finder
        self._client = client = finder.client
        self._runtime = client.runtime
        self._key = key
        self._over = client.runtime.now() + BUDGET
        self._one_server = client.runtime.place("") is None
        self.found: Found = Found()
        self.available: int | None = None
        self.holders: list[Holder] = []

    async def query(self, *command: str) -> Reply:
        """Ask the server; ``None`` if it refuses. Raises ``Failure`` if there is no time left, or no answer."""
        left = self._over - self._runtime.now()
        if left <= 0:
            raise Failure(TimeoutError())
        try:
            return await self._runtime.execute(command, left)
        except Failure as failure:
            if self._runtime.now() < self._over and "timeout" not in type(failure.cause).__name__.lower():
                return None
            raise

    async def run(self) -> None:
        """Find out what there is to find, the most important first."""
        kind = await self.query("TYPE", self._key)
        self.found = Found(free=kind == b"none")
        if kind == b"hash":
            scanned: Any = await self.query("HSCAN", self._key, "0", "COUNT", FIELDS)
            fields = dict(zip(scanned[1][::2], scanned[1][1::2], strict=True))
            field, owner = next(((each, owner) for each in fields if (owner := read_owner(each))), (b"", None))
            if owner is not None:
                runner = read_runner(fields[field] if owner.ran else b"")
                self.found = Found(Holder(owner.client_id, owner.thread_id, *runner), ran=owner.ran)
                await self._left()
                if not owner.ran:
                    await self._who(owner)
            await self._count(ReadWriteNames(self._key) if b"mode" in fields else LockNames(self._key))
        elif kind == b"string":
            token = await self.query("GET", self._key)
            if isinstance(token, bytes) and read_count(token) is None:
                self.found = Found(Holder())
                await self._left()
                await self._by_token(token_id(token))

    async def read_permits(self) -> None:
        """Find out how many permits are available, and which blocks hold some."""
        available: Any = await self.query("GET", self._key)
        self.available = int(available or 0)
        here = [client for client in self._finder.clients() if client.address == self._client.address]
        for client, entry in self._held_by(here):
            self.holders.append(Holder(client.id, entry.who.number, *client.runtime.identity()[:3], entry.who.name))
        for each in await self._published(except_for={client.id for client in here}):
            said = self._read(*each)
            for hold in self._holds_in(said):
                self.holders.append(Holder(said.client_id, hold.thread_id, said.app, said.host, said.pid, hold.thread))

    async def _left(self) -> None:
        left = await self.query("PTTL", self._key)
        if isinstance(left, int) and left != -2:
            self._learn(remaining=math.inf if left == -1 else left / 1000)

    async def _who(self, owner: StoredOwner) -> None:
        """Learn who the holder is of which this is the field."""
        client_id, number = owner.client_id, owner.thread_id
        for client, entry in self._held_by(self._finder.clients()):
            if client.id == client_id and entry.who.number == number:
                self._learn_from(client, entry)
                return
        published = await self.query("GET", presence_key(client_id, self._client.config.prefix))
        if published is not None:
            self._learn_whose(self._read(client_id, published))
            await self._learn_published(client_id, published, lambda hold: hold.thread_id == number)
        elif self._one_server and (names := await self._finder.names(self)) is not None:
            if client_id in names:
                self._learn_whose(names[client_id])
            else:
                self.found = self.found._replace(foreign=True)

    async def _by_token(self, wanted: str) -> None:
        """Learn who has the token of a token lock."""
        for client, entry in self._held_by(self._finder.clients()):
            if entry.token_id == wanted:
                self._learn(client_id=client.id, thread_id=entry.who.number)
                self._learn_from(client, entry)
                return
        for client_id, published in await self._published():
            if await self._learn_published(client_id, published, lambda hold: hold.token_id == wanted):
                return

    def _held_by(self, clients: Iterable[ClientCore]) -> Iterator[tuple[ClientCore, Entry]]:
        """Yield the holds of these clients of this process that have the key of this search."""
        return ((client, entry) for client in clients for entry in client.presence.held(self._key))

    async def _published(self, except_for: Collection[str] = ()) -> list[tuple[str, Reply]]:
        """Return what the clients connected to the server publish, except for these, by their ids."""
        names = await self._finder.names(self) if self._one_server else None
        ids = [each for each in names or () if each not in except_for][:MOST_READ]
        if not ids:
            return []
        replies: Any = await self.query("MGET", *(presence_key(each, self._client.config.prefix) for each in ids))
        return [(each, said) for each, said in zip(ids, replies, strict=True) if said is not None]

    def _read(self, client_id: str, published: Reply, left: Reply = None) -> StoredPresence:
        """Read what a client has published of itself. Raises ``ValueError`` if another program wrote that."""
        if (said := read_presence(client_id, published, left, self._runtime.unix_time())) is None:
            raise ValueError("this is not what a client publishes of itself")
        return said

    def _holds_in(self, said: StoredPresence) -> list[PresenceEntry]:
        return [hold for hold in said.holds if hold.name == self._key]

    async def _learn_published(self, client_id: str, published: Reply, meant: Callable[[PresenceEntry], bool]) -> bool:
        """Learn what a client has published of the hold that is meant. Returns whether it has."""
        said = self._read(client_id, published)
        if (hold := next(filter(meant, self._holds_in(said)), None)) is None:
            return False
        self._learn_whose(said)
        self._learn(client_id=client_id, thread_id=hold.thread_id, thread=hold.thread, reason=hold.reason)
        self.found = self.found._replace(fixed=not hold.watchdog)
        left = await self.query("PTTL", presence_key(client_id, self._client.config.prefix))
        hold = next(filter(meant, self._holds_in(self._read(client_id, published, left))))
        if hold.since is not None:
            self._learn_age(self._runtime.unix_time() - hold.since)
        return True

    def _learn_whose(self, client: StoredPresence | Connection | Identity) -> None:
        self._learn(app=client.app, host=client.host, pid=client.pid)

    def _learn_from(self, client: ClientCore, entry: Entry) -> None:
        self._learn_whose(client.runtime.identity())
        self._learn(thread=entry.who.name)
        self.found = self.found._replace(fixed=not entry.watchdog)
        self._learn_age(self._runtime.now() - entry.since)

    def _learn_age(self, held_for: float) -> None:
        self.found = self.found._replace(held_for=held_for)
        self._learn(since=self._runtime.unix_time() - held_for)

    def _learn(self, **more: Any) -> None:
        self.found = self.found._replace(holder=replace(self.found.holder or Holder(), **more))

    async def _count(self, names: LockNames) -> None:
        """Learn how many wait: of a fair lock those in the queue, else the clients on its list or its channel."""
        queued = await self.query("LLEN", names.queue)
        if isinstance(queued, int) and queued > 0:
            self.found = self.found._replace(waiting=queued)
        elif self._one_server:
            heard: Any = await self.query("PUBSUB", "NUMSUB", names.channel, names.waiting)
            listed: Any = await self.query("ZCOUNT", names.waiting, "-inf", f"({OBSERVERS}")
            if heard is not None:
                count_of = self._client.subscriptions.messages_of
                own = (count_of(names.channel) is not None) - (count_of(names.waiting) is not None)
                # Of the clients in the wait queue some listen to the channel as well: the observers.
                self.found = self.found._replace(waiting=max(0, heard[1] - heard[3] - own + (listed or 0)))


# ---- replies ---------------------------------------------------------------------------------------------------------
# How Redis's answers about owners and clients are read: everywhere, by these functions alone. Pure.
#
# What is stored may be anything: broken, huge, or made to harm. A reader takes what it can use, leaves the rest, and
# raises nothing.


MAX_PRESENCE_BYTES: Final = 64 * 1024
MAX_ENTRIES: Final = 1000  # of one presence entry
MAX_PERIODS: Final = 3  # without a report, after which a client is probably gone
MAX_TEXT: Final = 256  # characters of a name of a thread, an application, a machine
MAX_STACK: Final = 64  # lines

CLIENT_ID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_OWNER: Final = rf"({CLIENT_ID}):(-?\d{{1,20}})(:write|:ran)?(?::[0-9a-f]{{32}})?".encode()
_CLIENT_NAME: Final = rf"pyredisson:([!-9;-~]{{1,64}}):([!-9;-~]{{1,64}}):(\d{{1,10}}):({CLIENT_ID})"
_WORD: Final = rf"(?<![^ ])(id|addr|name|age|flags|lib-name|lib-ver)=([^ ]{{0,{MAX_TEXT}}})"
_DIGITS: Final = rb"-?\d{1,19}"


def read_count(value: object) -> int | None:
    """Read a number as Redis stores it; ``None`` for anything else."""
    if isinstance(value, int):
        return value
    return int(value) if isinstance(value, bytes) and re.fullmatch(_DIGITS, value) else None


# ---- owners ---------------------------------------------------------------------------------------------------------


class RanBy(NamedTuple):
    """Who has run what runs once: the application, the machine and the process."""

    app: str | None = None
    host: str | None = None
    pid: int | None = None


class StoredOwner(NamedTuple):
    """The owner that a hash field names.

    Attributes:
        client_id: The client's id.
        thread_id: The number of its thread or task.
        writes: Whether it is the holder of a write lock.
        ran: Whether its run has ended, and the name stays taken.
    """

    client_id: str
    thread_id: int
    writes: bool = False
    ran: bool = False


def read_owner(field: bytes) -> StoredOwner | None:
    """Read a field of a lock's hash; ``None`` if it names no owner."""
    found = re.fullmatch(_OWNER, field)
    return (
        None
        if found is None
        else StoredOwner(found[1].decode(), int(found[2]), found[3] == b":write", found[3] == b":ran")
    )


def read_runner(value: bytes) -> RanBy:
    """Read who has run what runs once."""
    rest, _, pid = value[: 3 * MAX_TEXT].decode(errors="replace").rpartition(":")
    app, _, host = rest.rpartition(":")
    return RanBy(app or None, host, int(pid)) if host and pid.isdecimal() and len(pid) < 11 else RanBy()


def token_id(token: bytes) -> str:
    """Return what stands for the token of a token lock, or the id of a permit, where it must not be known.

    It is the beginning of its digest.
    """
    return sha256(token).hexdigest()[:8]


# ---- presence -------------------------------------------------------------------------------------------------------


@final
@record
class PresenceEntry(Record):
    """What a client reports of one of its holds or waits.

    Attributes:
        kind: The word of ``get_*``.
        name: The key in Redis.
        thread_id: The number of the thread or task.
        thread: Its name.
        since: Since when, in Unix seconds.
        holds: How many nested holds.
        watchdog: Whether the watchdog renews it.
        token_id: The first digits of the SHA-256 of a token lock's token, or of a permit's id.
        stack: The stack, if it was recorded.
        reason: Why, if ``pyredisson lock`` holds it.
    """

    kind: str
    name: str
    thread_id: int | None = None
    thread: str | None = None
    since: float | None = None
    holds: int = 1
    watchdog: bool | None = None
    token_id: str | None = None
    stack: tuple[str, ...] = ()
    reason: str | None = None


@final
@record
class StoredPresence(Record):
    """What a client says of itself.

    Attributes:
        client_id: The client's id.
        version: Of the library.
        app: ``Config.client_name``.
        host: The machine.
        pid: The process.
        holds: What it holds.
        waits: What it waits for.
        more: How many entries did not fit.
        overdue: Whether it should have been written again long ago: the client is probably gone.
        period: Seconds after which it is written again.
        closed: Whether it was closed in the middle of blocks, which may release yet what they hold.
    """

    client_id: str
    version: str | None = None
    app: str | None = None
    host: str | None = None
    pid: int | None = None
    holds: tuple[PresenceEntry, ...] = ()
    waits: tuple[PresenceEntry, ...] = ()
    more: int = 0
    overdue: bool = False
    period: float = 0.0
    closed: bool = False


def read_presence(client_id: str, value: object, time_to_live_ms: object, now: float) -> StoredPresence | None:
    """Read the presence entry of a client; ``None`` if it is none.

    Args:
        client_id: The client's id: the end of the key.
        value: What is stored.
        time_to_live_ms: The key's time to live.
        now: The time, in Unix seconds.
    """
    if not isinstance(value, bytes) or len(value) > MAX_PRESENCE_BYTES:
        return None
    try:
        said = json.loads(value)
    except (ValueError, RecursionError):
        return None
    if not isinstance(said, dict):
        return None
    total, left = _number(said.get("ttl_ms")), read_count(time_to_live_ms)
    period = _number(said.get("period_ms"))
    written = now - max(0.0, total - left) / 1000 if total is not None and left is not None and left >= 0 else None
    return StoredPresence(
        client_id=client_id,
        version=_text(said.get("version")),
        app=_text(said.get("app")),
        host=_text(said.get("host")),
        pid=_whole(said.get("pid")),
        holds=_entries(said.get("holds"), written),
        waits=_entries(said.get("waits"), written),
        more=max(0, _whole(said.get("more")) or 0),
        overdue=written is not None and period is not None and now - written > MAX_PERIODS * period / 1000,
        period=(period or 0.0) / 1000,
        closed=said.get("closed") is True,
    )


def _entries(said: object, written: float | None) -> tuple[PresenceEntry, ...]:
    listed = said[:MAX_ENTRIES] if isinstance(said, list) else ()
    return tuple(entry for each in listed if (entry := _entry(each, written)) is not None)


def _entry(said: object, written: float | None) -> PresenceEntry | None:
    if not isinstance(said, dict):
        return None
    kind, name = said.get("kind"), said.get("name")
    if not isinstance(kind, str) or not isinstance(name, str) or len(kind) > MAX_TEXT:
        return None
    ago, stack, watchdog = _number(said.get("ms")), said.get("stack"), said.get("watchdog")
    lines = map(_text, stack[:MAX_STACK] if isinstance(stack, list) else ())
    return PresenceEntry(
        kind=_encodable(kind),
        name=_encodable(name),
        thread_id=_whole(said.get("id")),
        thread=_text(said.get("thread")),
        since=written - ago / 1000 if written is not None and ago is not None else None,
        holds=_whole(said.get("holds")) or 1,
        watchdog=watchdog if isinstance(watchdog, bool) else None,
        token_id=_text(said.get("token_id")),
        stack=tuple(line for line in lines if line is not None),
        reason=_text(said.get("reason")),
    )


def _encodable(text: str) -> str:
    """JSON can hold half a character, which cannot be written anywhere."""
    return text.encode("utf-8", "backslashreplace").decode()


def _text(value: object) -> str | None:
    return _encodable(value[:MAX_TEXT]) if isinstance(value, str) and value else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1e15 else None  # NaN is not less than anything.


# ---- connections ----------------------------------------------------------------------------------------------------


@final
@record
class Connection(Record):
    """A connection, as ``CLIENT LIST`` describes it.

    Attributes:
        number: Its number on that server.
        address: Where it comes from.
        name: Its name.
        library: What ``CLIENT SETINFO LIB-NAME`` reported.
        version: And ``LIB-VER``.
        age_seconds: For how long it has been connected.
        kind: Its flags.
        client_id: The id of the client of ours in its name; ``None`` for any other.
        app: And its application.
        host: And its machine.
        pid: And its process.
    """

    number: int
    address: str
    name: str
    library: str
    version: str
    age_seconds: int
    kind: str
    client_id: str | None = None
    app: str | None = None
    host: str | None = None
    pid: int | None = None


def read_client_list(reply: object) -> list[Connection]:
    """Read the reply to ``CLIENT LIST``. A line that cannot be read is left out."""
    if not isinstance(reply, bytes):
        return []
    return [found for line in reply.split(b"\n") if (found := _connection(line)) is not None]


def _connection(line: bytes) -> Connection | None:
    text = line[: 16 * MAX_TEXT].decode("ascii", "backslashreplace").rstrip("\r")
    said: dict[str, str] = dict(re.findall(_WORD, text))
    number, age, name = said.get("id", ""), said.get("age", ""), said.get("name", "")
    if not number.isdecimal() or len(number) > 20:
        return None
    ours = re.fullmatch(_CLIENT_NAME, name)
    app, host, pid, client_id = ours.groups() if ours is not None else (None,) * 4
    return Connection(
        number=int(number),
        address=said.get("addr", ""),
        name=name,
        library=said.get("lib-name", ""),
        version=said.get("lib-ver", ""),
        age_seconds=int(age) if age.isdecimal() and len(age) < 12 else 0,
        kind=said.get("flags", ""),
        client_id=client_id,
        app=None if app == "-" else app,
        host=host,
        pid=None if pid is None else int(pid),
    )
