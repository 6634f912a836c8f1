"""What a client publishes of what it holds and waits for, and whom it warns of what takes too long.

For people who look, not for the protocol: no lock depends on it, and no other client acts on it.

Rules kept here:

1. Nothing is noted for a lock that is free: holds are found in the tables that exist in any case. A call is
   listed once it really waits. Of what is held only the beginnings are read; entries are made of what is shown.
2. The client's one watchdog looks, once a period, and sooner only when something becomes old enough. What it writes is
   one request, after renewals and whatever else is due, which may take no longer than until more is due. It is not
   repeated before the next period, and what becomes of it changes nothing else.
3. A client that holds nothing for long writes nothing, and deletes what it wrote before. When it is closed, what stays
   listed, for a week, are permits that never expire: until their block is left, they are taken.
   Permits that were acquired without a block are counted for each semaphore, and listed while the client is open.
4. What is written contains no time of day: how long ago something began is counted from when it was written, which a
   reader derives from the time that the key has to live.
5. It lives as long as what a dead client would leave behind: a fixed lease, or a place in the queue of a fair lock. A
   reader that finds it older than three periods knows that the client is probably gone.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

from pyredisson._core import events
from pyredisson._core.deadline import whole_ms
from pyredisson._core.failures import Failure, Rejected
from pyredisson._core.names import presence_key
from pyredisson._core.ownership import Ownership
from pyredisson._core.requests import QUEUE_FOR

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.numbered import NumberedCall
    from pyredisson._core.owners import Caller

#: Semaphores of which plain permits are counted at most, and seconds after which these are reported at the latest: the
#: server keeps the record of an acquire for a minute.
MOST_SEMAPHORES = 1000
RECORDED = 45.0

#: The largest value that is written, in bytes.
LIMIT: Final = 16 * 1024

#: No more entries than that fit into it: none is shorter than 50 bytes.
MOST: Final = LIMIT // 50

#: Seconds that the server has to answer at most; less if the watchdog has something else to do before.
PATIENCE: Final = 0.25

#: With less time than that it is not begun.
LEAST: Final = 0.02

#: For how long a closed client lists permits that do not expire, and that no block has released, in ms: a week.
STAYS_MS: Final = 7 * 86_400_000

#: The most calls of a stack that are written, the innermost ones.
CALLS: Final = 20


class Wait:
    """A call that waits.

    Attributes:
        kind: What ``get_*`` calls what it waits for.
        name: The name of that.
        owner: The caller's field in Redis.
        who: The caller.
        since: When it began to wait.
    """

    __slots__ = ("__weakref__", "kind", "name", "owner", "since", "who")

    def __init__(self, kind: str, name: str, owner: str, who: Caller, since: float) -> None:
        self.kind: str = kind
        self.name: str = name
        self.owner: str = owner
        self.who: Caller = who
        self.since: float = since


class PlainPermits(NamedTuple):
    """The permits that the client has acquired of one semaphore without a block, less those that it has released.

    Attributes:
        kind: What ``get_*`` calls the semaphore.
        name: Its name.
        owner: The field in Redis of the owner that acquired the first of them.
        who: That owner.
        since: When it did.
        permits: How many.
    """

    kind: str
    name: str
    owner: str
    who: Caller
    since: float
    permits: int


Source: TypeAlias = "Ownership | PlainPermits | Wait"
"""What stands in a table of the client for something that is held or waited for."""

Lasting: TypeAlias = "list[tuple[float, Source]]"
"""When each began, and what it is."""

_since = itemgetter(0)


class Entry(NamedTuple):
    """Something that is held or waited for, when it was looked at.

    Attributes:
        source: What stands for it in a table of the client.
        kind: What ``get_*`` calls it.
        name: Its name.
        owner: The owner's field in Redis.
        who: The owner.
        since: When that began.
        holds: How often it is held; 0: it is waited for.
        watchdog: Whether a watchdog renews it.
        token_id: What identifies the hold of a token lock to those who see the token, or a permit by its id.
    """

    source: Source
    kind: str
    name: str
    owner: str
    who: Caller
    since: float
    holds: int
    watchdog: bool = False
    token_id: str | None = None


class Presence:
    """What one client publishes of itself.

    Plain methods note what to look for; :meth:`step`, called by the client's watchdog, does it.

    Args:
        client: The client.
        look: Wakes its watchdog by a time.
        watched: Returns the ownerships that its watchdog watches.

    Attributes:
        first: Seconds after which something is first looked at; infinite if nothing ever is.
        waits: The calls that wait.
        blocks: Permits of blocks that are in no other table.
        plain: Permits that were acquired without a block, by the semaphore's name.
    """

    def __init__(
        self, client: ClientCore, look: Callable[[float], None], watched: Callable[[], list[Ownership]]
    ) -> None:
        config = client.config
        self._client = client
        self._wake_by = look
        self._watched = watched
        self._now = client.runtime.now
        self._after = config.presence_after if config.presence else math.inf
        self._held_limit = _or_never(config.warn_held_longer_than)
        self._wait_limit = _or_never(config.warn_waiting_longer_than)
        self._period = config.lock_watchdog_timeout / 3
        self._at_least = config.lock_watchdog_timeout
        self.first: float = min(self._after, self._held_limit, self._wait_limit)
        # Weak: a call that is interrupted before it can end its wait takes that with it.
        self.waits: WeakKeyDictionary[Wait, None] = WeakKeyDictionary()
        self.blocks: dict[Ownership, None] = {}
        self.plain: dict[str, PlainPermits] = {}
        self._untold = 0
        self._mutex = client.runtime.mutex()
        self._next = math.inf
        self._written = False
        self._write_at = -math.inf
        self._stacks: dict[tuple[Source, float], tuple[str, ...]] = {}

    # ---- plain: for those who acquire and wait -------------------------------------------------------------------

    def expect(self, since: float) -> None:
        """Look at something that began then, as soon as it is old enough."""
        at = since + self.first
        if at < self._next:
            self._next = at
            self._wake_by(at)

    def expect_from(self, now: float) -> None:
        """Look at what the watchdog began to watch by now, unless a look is due in any case. For the watchdog."""
        if self._next == math.inf:
            self._next = now + self.first

    def begin_wait(self, kind: str, name: str, owner: str, who: Caller) -> Wait | None:
        """Note that a call waits. Returns what to :meth:`end_wait`; ``None``: no one wants to know."""
        if self.first == math.inf:
            return None
        wait = Wait(kind, name, owner, who, self._now())
        self.waits[wait] = None
        self.expect(wait.since)
        return wait

    def end_wait(self, wait: Wait | None) -> None:
        """Note that a call waits no longer."""
        if wait is not None:
            self.waits.pop(wait, None)

    def begin_block(self, permits: Ownership) -> None:
        """Note permits that a block holds, and that are in no other table."""
        self.blocks[permits] = None
        self.expect(permits.holds[0].since)

    def end_block(self, permits: Ownership) -> None:
        """Note that a block holds its permits no longer, or can no longer be left. Also for a finalizer."""
        self.blocks.pop(permits, None)

    def take(self, kind: str, call: NumberedCall[Any], permits: int) -> None:
        """Note permits that a call acquired without a block."""
        (name, owner), since, who = call.key, call.begun, call.who
        if self.first == math.inf or who is None:
            return
        with self._mutex:
            before = self.plain.get(name)
            if before is not None:
                self.plain[name] = before._replace(permits=before.permits + permits)
            elif len(self.plain) < MOST_SEMAPHORES:
                self.plain[name] = PlainPermits(kind, name, owner, who, since, permits)
            else:
                self._untold += 1  # They may have been released elsewhere, so no more are kept.
        if since + self.first < self._next:
            self.expect(since)

    def give(self, name: str, permits: int) -> None:
        """Note that permits of a semaphore were released, whichever owner had acquired them."""
        with self._mutex:
            before = self.plain.pop(name, None)
            if before is not None and before.permits > permits:
                self.plain[name] = before._replace(permits=before.permits - permits)

    def forget(self, name: str | None = None) -> None:
        """Note that the permits of a semaphore are gone, or those of all: they were deleted, or set anew."""
        with self._mutex:
            if name is None:
                self.plain.clear()
            else:
                self.plain.pop(name, None)

    def due(self) -> float:
        """When :meth:`step` has something to do; infinite if never."""
        return self._next

    # ---- what there is -------------------------------------------------------------------------------------------

    def held(self, key: str) -> list[Entry]:
        """What the client holds of what has this key."""
        prefix = self._client.config.prefix
        if not key.startswith(prefix):
            return []
        name = key[len(prefix) :]
        found = [_entry(each) for _, each in self._held(self._now()) if each.name == name]
        return [each for each in found if each is not None]

    def waiting(self) -> list[Wait]:
        """The calls of the client that wait."""
        return [wait for ref in self.waits.keyrefs() if (wait := ref()) is not None]

    def _held(self, now: float) -> Lasting:
        # Permits that are renewed are in no table but the watchdog's.
        renewed = [each for each in self._watched() if each.table is None]
        held: Lasting = [
            (outermost[0].since, each)
            for each in (*self._client.ownerships, *renewed, *list(self.blocks))
            if (outermost := each.holds[:1]) and each.loss is None and each.kind is not None and now < each.deadline
        ]
        return held + [(each.since, each) for each in list(self.plain.values())]

    def _waited_for(self) -> Lasting:
        return [(each.since, each) for each in self.waiting()]

    def _outlives(self, each: Source, now: float) -> float:
        """Return until when something stays in Redis if the client is gone, and no watchdog determines that."""
        if isinstance(each, PlainPermits):
            return -math.inf
        if not isinstance(each, Wait):
            # Permits without a lease are not the client's: they outlive it in any case.
            fixed = each.deadline < math.inf and not any(hold.watchdog for hold in list(each.holds))
            return each.deadline if fixed else -math.inf
        ownership = self._client.ownerships.find((each.name, each.owner))
        return now + (0.0 if ownership is None else min(ownership.in_flight.queued_ms / 1000, QUEUE_FOR))

    # ---- the loop ------------------------------------------------------------------------------------------------

    async def step(self, spare: float) -> None:
        """Do what is due, within ``spare`` seconds."""
        now = self._now()
        if now < self._next:
            return
        if spare < LEAST:
            self._next = now + LEAST
            return
        self._next = now + self._period  # Whatever becomes of this: it must not keep the watchdog busy.
        try:
            held, waited_for = self._held(now), self._waited_for()
            self._warn(held, waited_for, now)
            told = [(since, each) for since, each in (*held, *waited_for) if since + self._patience(each) <= now]
            writes = (told or self._written) and now >= self._write_at
            if writes:
                self._write_at = now + self._period
            self._next = self._next_look(held, waited_for, now, told=bool(told))
            if writes:
                await self._write(told, now, min(PATIENCE, spare))
        except Exception as error:
            self._client.emit(events.BackgroundFailed("the presence of this client", error))

    def _patience(self, source: Source) -> float:
        """Return after how many seconds something is reported: by then the record of a plain acquire is still there."""
        return (
            min(self._after, RECORDED) if isinstance(source, PlainPermits) and self._after < math.inf else self._after
        )

    def _next_look(self, held: Lasting, waited_for: Lasting, now: float, *, told: bool) -> float:
        """Return when there is more to write, or something becomes old enough."""
        at = self._write_at
        if not (told or self._written):
            reported = [since + self._patience(each) for since, each in (*held, *waited_for)]
            at = max(at, min(reported, default=math.inf))
        for lasting, limit in ((held, self._held_limit), (waited_for, self._wait_limit)):
            if limit < math.inf:
                at = min(at, min((due for since, _ in lasting if (due := since + limit) > now), default=math.inf))
        return max(at, now + LEAST)

    # ---- warnings ------------------------------------------------------------------------------------------------

    def _warn(self, held: Lasting, waited_for: Lasting, now: float) -> None:
        """Report what takes too long, each once."""
        before, self._stacks = self._stacks, {}
        of_holds, of_waits = (
            (held, self._held_limit, events.HeldTooLong),
            (waited_for, self._wait_limit, events.WaitingTooLong),
        )
        for lasting, limit, warning in (of_holds, of_waits):
            for since, source in lasting if limit < math.inf else ():
                key = (source, since)
                if isinstance(source, PlainPermits):
                    continue  # That the first of them was acquired long ago does not mean that it is still held.
                if key in before:
                    self._stacks[key] = before[key]
                elif since + limit <= now and (each := _entry(source)) is not None:
                    stack = self._stacks[key] = each.who.stack()
                    who = each.who.describe()
                    self._client.emit(warning(each.name, each.owner, each.kind, now - since, stack, who=who))

    # ---- writing -------------------------------------------------------------------------------------------------

    async def _write(self, told: Lasting, now: float, patience: float) -> None:
        if not told:
            await self._delete(patience)
            return
        at_least = now + self._at_least
        longer = [each for _, each in told if not isinstance(each, Ownership) or each.deadline > at_least]
        ttl_ms = whole_ms(max([at_least, *(self._outlives(each, now) for each in longer)]) - now)
        command = "SET", self._key(), self._text(told, now, ttl_ms), "PX", str(ttl_ms)
        try:
            self._written = True  # Before: it may arrive, whether or not its reply does.
            await self._client.runtime.execute(command, patience)
            if self._client.closed:  # What close() has deleted may have been there no longer.
                await self.end()
        except Rejected as failure:
            self._written = False
            self._after = math.inf
            self._client.emit(events.PresenceRefused(failure.cause))
        except Failure:
            pass  # In the next period, then: it was not answered, or refused for a reason that passes.

    async def _delete(self, patience: float) -> None:
        self._written = False
        try:
            await self._client.runtime.execute(("DEL", self._key()), patience)
        except Failure:
            pass  # It ends by itself.

    async def end(self) -> None:
        """Delete what was written, since the client is closed, but for permits that a block has not released yet.

        Called again when such a block has.
        """
        self._next = self._after = self.first = math.inf
        left: Lasting = [(each.holds[0].since, each) for each in list(self.blocks) if each.holds]
        with suppress(Exception):  # It ends by itself.
            if left and self._client.config.presence:
                self._written = True
                text = self._text(left, self._now(), STAYS_MS, closed=True)
                await self._client.runtime.execute(("SET", self._key(), text, "PX", str(STAYS_MS)), PATIENCE)
            elif self._written:
                await self._delete(PATIENCE)

    def _key(self) -> str:
        return presence_key(self._client.id, self._client.config.prefix)

    def _text(self, told: Lasting, now: float, ttl_ms: int, *, closed: bool = False) -> str:
        """Return what to write: what has lasted for longest, as far as there is room."""
        identity = self._client.runtime.identity()
        said: dict[str, Any] = {
            "v": 1,
            "version": identity.version,
            "app": identity.app,
            "host": identity.host,
            "pid": identity.pid,
            "ttl_ms": ttl_ms,
            "period_ms": round(self._period * 1000),
            "holds": [],
            "waits": [],
            "more": len(told) + self._untold,
            **({"closed": True} if closed else {}),
        }
        size = len(_json(said).encode())
        for _, source in sorted(told, key=_since)[:MOST]:
            each = _entry(source)
            if each is None:  # It has ended meanwhile.
                said["more"] -= 1
                continue
            shown = self._shown(each, now)
            room = len(_json(shown).encode()) + 1
            if size + room > LIMIT and shown.pop("stack", None) is not None:
                room = len(_json(shown).encode()) + 1
            if size + room <= LIMIT:
                size += room
                said["more"] -= 1
                said["holds" if each.holds else "waits"].append(shown)
        return _json(said)

    def _shown(self, each: Entry, now: float) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "kind": each.kind,
            "name": self._client.key_of(each.name),
            "id": each.who.number,
            "thread": each.who.name,
            "ms": round((now - each.since) * 1000),
        }
        if each.holds:
            shown |= {"holds": each.holds, "watchdog": each.watchdog}
        if each.token_id is not None:
            shown["token_id"] = each.token_id
        if stack := self._stacks.get((each.source, each.since)):
            shown["stack"] = list(stack[-CALLS:])
        return shown


def _entry(source: Source) -> Entry | None:
    """Return what is known of something that is held or waited for; ``None``: it has ended meanwhile."""
    if isinstance(source, (PlainPermits, Wait)):
        holds_of = 0 if isinstance(source, Wait) else source.permits
        return Entry(source, source.kind, source.name, source.owner, source.who, source.since, holds_of)
    holds, kind = list(source.holds), source.kind
    if not holds or kind is None:
        return None
    return Entry(
        source,
        kind.word,
        source.name,
        source.owner,
        source.who,
        holds[0].since,
        len(holds) * kind.permits,
        any(hold.watchdog for hold in holds),
        kind.token_id(source),
    )


def _or_never(limit: float | None) -> float:
    return math.inf if limit is None else limit


def _json(said: object) -> str:
    # The names of threads may contain what is no text in UTF-8.
    return json.dumps(said, ensure_ascii=False, separators=(",", ":")).encode(errors="replace").decode()


# ---- identity --------------------------------------------------------------------------------------------------------
# What identifies a client's process: for people, not for the protocol.


class Identity(NamedTuple):
    """A process, as people know it.

    Attributes:
        app: What its user calls it; ``None``: nothing.
        host: The name of its host.
        pid: Its number there.
        version: This library's version.
    """

    app: str | None
    host: str
    pid: int
    version: str
