"""Looking at locks from outside: the one object that commands, exporters and pages use."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, final
from uuid import uuid4

import redis
import redis.exceptions as rx
from redis.connection import AbstractConnection

from pyredisson._core.holder_lookup import StoredPresence, token_id
from pyredisson._core.kind import StoredKind
from pyredisson._core.names import LockNames, SemaphoreNames, presence_key
from pyredisson._kinds.semaphores import ID_BYTES
from pyredisson._lua import script_text
from pyredisson._net.topology import Cluster, Sentinels
from pyredisson._net.urls import Endpoint, is_tls
from pyredisson.inspection.libraries import foreign_text, keys_of_lock, wake_waiters
from pyredisson.inspection.look import Look, Progress
from pyredisson.inspection.model import (
    ANY_NUMBER,
    DOUBTFUL,
    ClientView,
    LockView,
    People,
    Reported,
    Snapshot,
    Stored,
    WaitGraph,
    Who,
    wait_graph,
)
from pyredisson.inspection.servers import Server, Servers, decode_name, describe, encode_name

if TYPE_CHECKING:
    from pyredisson.config import Config

Keep: TypeAlias = Callable[[Iterable[LockView]], tuple[LockView, ...]]
"""Called with all locks as they are found; returns those that a snapshot has."""


def by_name(locks: Iterable[LockView]) -> tuple[LockView, ...]:
    """Return all locks, in the order of their names."""
    return tuple(sorted(locks, key=lambda lock: lock.name))


@final
class Inspector:
    """Reads locks, holders and waiters from outside. Reads only, but for :meth:`unlock`, :meth:`free_permits` and
    :meth:`announce`. Safe for threads.

    Args:
        where: The URL of a server, sentinels or a cluster; or where a client leads. Nothing is sent yet.
        prefix: What stands before all names: ``Config.prefix``.
        timeout: Seconds for each answer.

    Attributes:
        servers: The servers, with one connection to each.
        prefix: What stands before all names.

    Raises:
        ValueError: The URL is not valid.
    """

    def __init__(self, where: str | Endpoint | Cluster, *, prefix: str = "", timeout: float = 2.0) -> None:
        self.servers: Servers = Servers(where, timeout)
        self.prefix: str = prefix

    @property
    def url(self) -> str:
        """The URL, password masked."""
        return self.servers.url

    def __enter__(self) -> Inspector:
        """Return the inspector; the block closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the inspector."""
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self.servers.close()

    def locks(
        self,
        pattern: str | None = None,
        *,
        progress: Progress | None = None,
        limit: int | None = None,
        seconds: float | None = None,
    ) -> Iterator[LockView]:
        """Yield all locks whose names match a pattern, as they are found.

        Args:
            pattern: As for ``SCAN MATCH``; ``None``: all that seem to be locks.
            progress: Called as the search goes on.
            limit: Stop after this many.
            seconds: Search for at most this long.

        Raises:
            redis.exceptions.RedisError: A server does not answer. What others have is yielded before.
            OSError: A server does not answer.
            TypeError: The pattern is not a ``str``.
        """
        if not isinstance(pattern, str | None):
            raise TypeError(f"the pattern must be a str, such as 'order:*', not {type(pattern).__name__}")
        look = self.look(pattern, progress=progress, seconds=seconds)
        for number, view in enumerate(look.views()):
            if number == limit:
                return
            yield view
        look.raise_errors()

    def lock(self, name: str, *, gone: bool = False) -> LockView | None:
        """Return the lock of a name; ``None`` if there is none, and no one waits. Raises as :meth:`locks` does.

        ``gone``: also search for the holders of permits whose clients have ended.
        """
        look, key = self._meet(), encode_name(self.prefix + name)
        view = look.one(key)
        if gone and view is not None and view.permits is not None:
            look.find_presence()
            view = look.one(key)
        if view is None and "waiters" in look.doubts:
            raise look.doubts["waiters"]
        return view

    def locks_named(self, names: Iterable[str]) -> list[LockView]:
        """Return those locks that there are, for one list of the clients. Raises as :meth:`locks` does."""
        look = self._meet()
        found = [look.one(encode_name(self.prefix + name)) for name in names]
        return [view for view in found if view is not None]

    def leaks(self) -> Iterator[LockView]:
        """Yield the locks that never expire, or whose holder or queue is gone.

        Raises as :meth:`locks` does, and if the server does not let this user see who is connected or who waits.
        """
        look = self.look()
        yield from (each for each in look.views() if each.problems)
        look.raise_errors(doubts=True)

    def counts(self, pattern: str | None = None) -> dict[str, int]:
        """Return how many locks of each kind are held. Raises as :meth:`locks` does."""
        return dict(Counter(each.kind for each in self.locks(pattern) if each.held))

    def wait_graph(self) -> WaitGraph:
        """Return who waits for whom. Raises as :meth:`leaks` does."""
        look = self.look()
        graph = wait_graph(look.views())
        look.raise_errors(doubts=True)
        return graph

    def foreign(self, name: str) -> str | None:
        """Return what the key of a name is, in words, where :meth:`lock` finds none; ``None``: there is no such key."""
        key = encode_name(self.prefix + name)
        key_type = self.servers.of(key).ask("TYPE", key)
        found = key_type.decode(errors="replace") if isinstance(key_type, bytes) else "none"
        return None if found == "none" else foreign_text(found, key)

    def clients(self) -> list[ClientView]:
        """Return the clients, by their connections and their presence. Raises as :meth:`leaks` does."""
        look = self._meet()
        look.find_presence()
        look.raise_errors(doubts=True)
        return look.people.views()

    def snapshot(
        self,
        pattern: str | None = None,
        *,
        seconds: float | None = None,
        progress: Progress | None = None,
        keep: Keep = by_name,
    ) -> Snapshot:
        """Return all locks and clients. What cannot be read is an error in the snapshot, unless it is everything.

        Args:
            pattern: As for :meth:`locks`.
            seconds: Search for at most this long.
            progress: Called as the search goes on.
            keep: Called with all locks as they are found; returns those of the snapshot. By default all are.

        Raises:
            redis.exceptions.RedisError: No server answers, or none lets this user see its keys.
            OSError: No server answers.
        """
        began = time.monotonic()
        look = self.look(pattern, progress=progress, seconds=seconds)
        locks = keep(look.views())
        if look.is_blind:
            look.raise_errors()
        return Snapshot(
            taken=time.time(),
            locks=locks,
            clients=tuple(look.people.views()),
            keys_seen=look.keys_seen,
            complete=look.complete,
            seconds=time.monotonic() - began,
            errors=tuple(dict.fromkeys(map(describe, look.errors))),
            strings_left_out=look.strings_left_out,
            unread=look.unread,
            doubts={what: describe(error) for what, error in look.doubts.items()},
        )

    def unlock(
        self, name: str, *, holder: str | None = None, seen: LockView | None = None, force: bool = False
    ) -> Unlocked:
        """Free a lock for all its owners, in one script, and wake its waiters, also those of other libraries.

        Of a semaphore, release the permits that a holder is known to have: those of a plain one only after its client
        has ended.

        Args:
            name: The lock.
            holder: Free it only if each owner is this one: the id of a client or its beginning, or ``<id>:<number>``;
                of a token lock the id in :attr:`Who.owner`. Of a semaphore, also the id of a permit.
            seen: Free it only if those hold it who hold it in this view.
            force: Delete also what may be no lock: a string, or a hash that never expires. Release permits although
                their client may live.

        Raises:
            ValueError: It has no owner that could be deprived of it: a latch, or a semaphore and no holder is named,
                none that is known to have permits, or one whose client releases them itself.
            redis.exceptions.RedisError: The server does not answer, or refuses.
            OSError: The server does not answer.
        """
        look, key = self._meet(), encode_name(self.prefix + name)
        stored = look.stored(key)
        if stored is not None and stored.kind.number == "changes":
            raise ValueError(f"the {stored.kind.words} has no owner")
        if stored is not None and stored.kind.form == "number" and stored.taken:
            return Unlocked(name, "not_held", look.view(stored), foreign=self.foreign(name))
        if stored is not None and stored.kind.number == "permits":
            return self._release_permits(look, stored, holder, force)
        if stored is not None and stored.kind.number is not None:
            raise ValueError("a latch has no owner: count it down")
        before = None if stored is None else look.view(stored)
        if stored is None or before is None or not before.holders:
            foreign = self.foreign(name) if before is None else None
            return Unlocked(name, "not_held", before, foreign=foreign)
        if not force and (DOUBTFUL in before.notes or before.may_be_data):
            return Unlocked(name, "doubtful", before)
        expected = _expected(stored, before, holder, seen)
        if expected is None:
            return Unlocked(name, "other_holder", before)
        server, about_waiters = self.servers.of(stored.key), ""
        publish = self.servers.publishes_by(server)
        outcome, owners, notified = free(server, stored.key, stored.kind, before.mode, expected, publish)
        if outcome == "other_holder":
            before = self.lock(name) or before
        elif outcome == "freed":
            self._forget(before)
        stored_owners = tuple(each.decode(errors="replace") for each in owners)
        if outcome == "freed" and stored.kind.form == "token":
            stored_owners = tuple(who.owner for who in before.holders)  # The script keeps the token to itself.
            notified, about_waiters = self._finish_token(stored)
        return Unlocked(name, outcome, before, stored_owners, notified, about_waiters=about_waiters)

    def _release_permits(self, look: Look, stored: Stored, holder: str | None, force: bool) -> Unlocked:
        """Release the permits that a holder is known to have."""
        look.find_presence()  # Also of clients that have ended.
        view, server = look.view(stored), self.servers.of(stored.key)
        _check_semaphore(view)
        instead = "pyredisson permits NAME --free N" if stored.taken is None else _ids_to_release(server, stored)
        if holder is None:
            raise ValueError(f"the permits of a semaphore have no owner: release them with {instead}")
        reported = look.people.holds_of(decode_name(stored.key))
        meant = [each for each, who in zip(reported, view.holders, strict=True) if is_meant(who, holder)]
        publish = self.servers.publishes_by(server)
        if stored.taken is not None:
            ids = {entry.token_id for _, entry in meant}
            permits = [each for each in _permits(server, stored) if each.hex() == holder or token_id(each) in ids]
            freed = release_expiring_permits(server, stored, permits, publish)
        else:
            _check_ended(look.people, [presence for presence, _ in meant], force)
            known = self._forget_permits(meant)
            of_others = sum(each[1].holds for each in reported if each not in meant)
            taken = known if view.total is None else max(0, view.total - (view.permits or 0) - of_others)
            freed = release_plain_permits(server, stored, min(known, taken), publish)
        if not freed:
            raise ValueError(f"no permit is known to be {holder}'s: find out who has it, and release it with {instead}")
        owners = tuple(dict.fromkeys(who.owner for who in view.holders if is_meant(who, holder)))
        return Unlocked(view.name, "freed", view, owners or (holder,), permits=freed)

    def free_permits(self, name: str, permits: int) -> None:
        """Release permits of a plain semaphore whose holders are gone, first those that gone clients report.

        Raises:
            ValueError: Fewer permits are taken, they have ids, or it may be no semaphore.
            redis.exceptions.RedisError: The server does not answer, or refuses.
            OSError: The server does not answer.
        """
        look = self._meet()
        look.find_presence()
        stored = look.stored(encode_name(self.prefix + name))
        if stored is None or (view := look.view(stored)).permits is None:
            raise ValueError("it has no permits")
        _check_semaphore(view)
        server = self.servers.of(stored.key)
        if stored.taken is not None:
            raise ValueError(f"its permits are released by their ids: {_ids_to_release(server, stored)}")
        if view.total is not None and permits > (taken := view.total - (view.permits or 0)):
            raise ValueError(f"only {taken} of its permits {'is' if taken == 1 else 'are'} taken, not {permits}")
        reported = look.people.holds_of(decode_name(stored.key))
        self._forget_permits([each for each in reported if look.people.is_gone(each[0].client_id)], permits)
        release_plain_permits(server, stored, permits, self.servers.publishes_by(server))

    def _forget_permits(self, reported: Reported, most: int = sys.maxsize) -> int:
        """Take permits out of what clients report, so that they are released once only. Returns how many."""
        forgotten = 0
        for client_id, thread_id, name in dict.fromkeys((who.client_id, it.thread_id, it.name) for who, it in reported):
            key, rest, found = encode_name(presence_key(client_id, self.prefix)), [], forgotten
            server = self.servers.of(key)
            stored = server.ask("GET", key)
            said = json.loads(stored) if isinstance(stored, bytes) else {}
            for each in said.get("holds", ()):
                if (each["name"], each["id"]) == (name, thread_id):
                    some = min(each["holds"], most - found)
                    found, each = found + some, {**each, "holds": each["holds"] - some}
                rest += [each] if each["holds"] else []
            text = json.dumps({**said, "holds": rest}, ensure_ascii=False, separators=(",", ":"))
            if found > forgotten and server.tell("EVAL", _FORGET_PERMITS, 1, key, stored, text.encode()) != 0:
                forgotten = found
        return forgotten

    def _finish_token(self, stored: Stored) -> tuple[int, str]:
        """Free the other keys of a token lock, and wake its waiters. Returns how many, and what is known of them."""
        token, key = stored.value or b"", stored.key
        try:
            for each in keys_of_lock(key):
                if each != key:
                    free(self.servers.of(each), each, stored.kind, None, [token], "PUBLISH")
            return wake_waiters(key, token, time.time(), lambda *words: self.servers.of(words[1]).tell(*words))
        except (rx.RedisError, OSError) as error:
            return 0, f"its waiters could not be woken: {describe(error)}"

    def _forget(self, lock: LockView) -> None:
        """Delete the presence entry of a hold by hand: its client has ended long ago."""
        for who in lock.holders:
            if who.reason is not None and who.client_id is not None:
                key = encode_name(presence_key(who.client_id, self.prefix))
                self.servers.of(key).tell("DEL", key)

    def announce(self, key: str, value: bytes, time_to_live_ms: int) -> None:
        """Write a presence entry. Raises as :meth:`unlock` does."""
        raw = encode_name(key)
        self.servers.masters()
        self.servers.of(raw).tell("SET", raw, value, "PX", time_to_live_ms)

    def look(
        self, pattern: str | None = None, *, progress: Progress | None = None, seconds: float | None = None
    ) -> Look:
        """Return a look that has not begun: its views are found one by one. For arguments, see :meth:`locks`."""
        deadline = None if seconds is None else time.monotonic() + seconds
        return Look(self.servers, self.prefix, pattern, progress, deadline)

    def _meet(self) -> Look:
        look = self.look()
        look.meet()
        return look


def is_meant(who: Who, holder: str) -> bool:
    """Whether an owner is the one that a user names: by its id or the beginning of that, or as it is stored."""
    if ":" in holder:
        return who.owner == holder or who.owner.startswith(f"{holder}:")
    return bool(holder) and who.owner.startswith(holder)


def _expected(stored: Stored, before: LockView, holder: str | None, seen: LockView | None) -> list[bytes] | None:
    """Return how what is stored must begin, for the script to check; empty: anything; ``None``: it is another's."""
    if stored.kind.form == "token":
        # A token is not shown, so that it is compared here; the script then checks that it is still the same.
        meant = [who.owner for who in seen.holders] if seen is not None else []
        now = before.holders[0]
        if (holder is not None and not is_meant(now, holder)) or (seen is not None and now.owner not in meant):
            return None
        return [] if holder is None and seen is None else [stored.value or b""]
    if seen is not None:
        if holder is not None and not all(is_meant(who, holder) for who in seen.holders):
            return None
        return [who.owner.encode() for who in seen.holders] or None
    return [] if holder is None else [holder.encode("utf-8", "surrogateescape")]


# ---- unlock ----------------------------------------------------------------------------------------------------------
# Freeing a lock from outside: with the kind's own script, and only if those hold it who are meant.


_GUARD = (files("pyredisson.inspection") / "only_if_held_by.lua").read_text(encoding="utf-8")
_FORGET_PERMITS = (files("pyredisson.inspection") / "forget_permits.lua").read_text(encoding="utf-8")

MAX_PERMITS = 10_000  # ids of one semaphore that are read
NEVER_ENDS = "922337203685477"  # the score of a permit without a lease, or less

UNLOCKED = "0"
WRITE_UNLOCKED = "1"


@final
@dataclass(frozen=True)
class Unlocked:
    """What an unlock did.

    Attributes:
        name: The lock.
        outcome: ``"freed"``, ``"not_held"``, ``"other_holder"``, or ``"doubtful"``: it may be no lock.
        before: The lock as it was seen immediately before; ``None`` if it was free.
        owners: Who was stored as holder, as the script saw it; of a token lock, by what its token is called.
        notified: How many clients were notified, as far as the server says.
        foreign: What the key is, in words, if it is no lock.
        about_waiters: What is known of the waiters of a string that was deleted, in words.
        permits: How many permits of a semaphore were released.
    """

    name: str
    outcome: str
    before: LockView | None = None
    owners: tuple[str, ...] = ()
    notified: int = 0
    foreign: str | None = None
    about_waiters: str = ""
    permits: int = 0

    @property
    def freed(self) -> bool:
        """Whether the lock was freed."""
        return self.outcome == "freed"


def free(
    server: Server, key: bytes, kind: StoredKind, mode: str | None, expected: Sequence[bytes], publish: str
) -> tuple[str, list[bytes], int]:
    """Free a lock in one script, and wake its waiters.

    Args:
        server: The server.
        key: The lock's key.
        kind: As what it is stored. Kinds with one owner look the same, so that one script serves all: the guard before
            it publishes for the waiters on the lock's channel, the script for those in a queue.
        mode: ``"read"`` or ``"write"``, of a read-write lock.
        expected: How each owner, or the token, must begin; empty: any.
        publish: ``PUBLISH`` or ``SPUBLISH``.

    Returns:
        The outcome, who was stored as holder, and how many subscribers received the message.

    Raises:
        redis.exceptions.RedisError: The server does not answer, or refuses.
        OSError: It does not answer.
    """
    text = key.decode("utf-8", "surrogateescape")
    names = kind.names(text)
    assert isinstance(names, LockNames)
    assert kind.force_unlock is not None
    keys = [names.raw, names.epoch("pyredisson")]
    args: list[Any] = ["", "0", "0"]
    if kind.form == "owners":
        keys += [names.queue, names.timeouts, names.alive, names.channel]
        args += [publish, UNLOCKED]
    elif kind.form == "sides":
        keys += [names.channel]
        args += [publish, UNLOCKED if mode == "read" else WRITE_UNLOCKED, mode or "write"]
    guard = [kind.form, mode or "", *expected]
    words = [each.encode("utf-8", "surrogateescape") for each in keys]
    script = _GUARD.replace("    -- script\n", script_text(kind.force_unlock))
    reply = server.tell("EVAL", script, len(words), *words, *args, *guard, len(guard))
    match reply:
        case [bytes() as outcome, int() as notified, *owners]:
            return outcome.decode("ascii", "replace"), [each for each in owners if isinstance(each, bytes)], notified
    raise rx.InvalidResponse("the server's reply to EVAL is none of this script")


def _permits(server: Server, stored: Stored, least: str = "-inf", most: int = MAX_PERMITS) -> list[bytes]:
    """Return the ids of the permits that are taken, of those that end at ``least`` or later."""
    assert isinstance(stored.names, SemaphoreNames)
    found = server.ask("ZRANGEBYSCORE", encode_name(stored.names.taken), least, "+inf", "LIMIT", "0", str(most))
    return [each for each in found if isinstance(each, bytes) and len(each) == ID_BYTES]


def _ids_to_release(server: Server, stored: Stored) -> str:
    """Return what releases permits that have ids, and the ids of some that never expire."""
    ids = ", ".join(each.hex() for each in _permits(server, stored, NEVER_ENDS, 3))
    return f"pyredisson unlock NAME --holder ID{f' (these never expire: {ids})' if ids else ''}"


def _check_semaphore(view: LockView) -> None:
    """Raise ``ValueError`` if nothing says that a number is the permits of a semaphore."""
    if ANY_NUMBER in view.notes:
        raise ValueError(f"it is {ANY_NUMBER}. If it is a semaphore, release permits in a program that uses it")


def _check_ended(people: People, clients: Iterable[StoredPresence], force: bool) -> None:
    """Raise ``ValueError`` unless these clients have ended: what lives releases its permits of a semaphore itself."""
    for each in clients:
        if people.connected(each.client_id):
            raise ValueError(f"client {each.client_id} is connected, and releases its permits itself: end it first")
        if (each.closed or not people.is_gone(each.client_id)) and not force:
            why = "a connection without a name may be its own"
            if each.closed:
                why = "it was closed in the middle of a block, which may release them yet"
            raise ValueError(
                f"whether client {each.client_id} has ended is not known, since {why}: if it has, say --force "
                "(Inspector.unlock: force=True)"
            )


def release_plain_permits(server: Server, stored: Stored, count: int, publish: str) -> int:
    """Release permits of a plain semaphore, and wake waiters. Returns how many."""
    if count > 0:
        _eval_numbered(server, stored, "semaphore_release", (), (1, count, publish))
    return max(0, count)


def release_expiring_permits(server: Server, stored: Stored, permits: Sequence[bytes], publish: str) -> int:
    """Release the permits with these ids, and wake waiters. Returns how many there still were."""
    assert isinstance(stored.names, SemaphoreNames)
    taken = (stored.names.taken,)
    replies = [_eval_numbered(server, stored, "permit_release", taken, (1, each, publish)) for each in permits]
    return sum(reply not in (0, -1) for reply in replies)  # Below 0: this user may not wake the clients that wait.


def _eval_numbered(server: Server, stored: Stored, script: str, more: Sequence[str], args: Sequence[Any]) -> Any:
    """Execute a script of a semaphore, as an owner that makes this one request."""
    names = stored.names
    assert isinstance(names, SemaphoreNames)
    keys = names.raw, names.done(f"unlock:{uuid4()}"), names.channel, *more, names.waiting
    words = [each.encode("utf-8", "surrogateescape") for each in keys]
    return server.tell("EVAL", script_text(script), len(words), *words, *args)


# ---- of client -------------------------------------------------------------------------------------------------------
# An inspection for a client: over connections of its own, which are closed when it is done.


T = TypeVar("T")

#: How many locks a task is given at a time.
BATCH = 100

#: Settings of a connection that are made for an event loop.
_FOR_LOOPS = frozenset({"parser_class", "redis_connect_func"})


def inspector_of(place: Endpoint | Cluster, config: Config) -> Inspector:
    """Return an inspector for the locks of a client.

    Args:
        place: Where the client leads.
        config: Its settings.

    Raises:
        TypeError: Its connections are of a class that cannot be used from here.
    """
    return Inspector(_for_threads(place), prefix=config.prefix, timeout=config.timeout)


def _for_threads(place: Endpoint | Cluster) -> Endpoint | Cluster:
    if isinstance(place, Cluster):
        return place._replace(connection_class=_class_for_threads(place.connection_class))
    settings = {name: value for name, value in place.settings.items() if name not in _FOR_LOOPS}
    pool = settings.pop("connection_pool", None)
    if pool is None:
        return Endpoint(_class_for_threads(place.connection_class), settings, place.sentinels)
    # redis-py's own client of a master that sentinels report.
    manager = pool.sentinel_manager
    asked = [each.connection_pool.connection_kwargs for each in manager.sentinels]
    sentinels = [(each["host"], each["port"]) for each in asked]
    kind = redis.SSLConnection if is_tls(place.connection_class) else redis.Connection
    return Endpoint(kind, settings, Sentinels(sentinels, pool.service_name, manager.sentinel_kwargs))


def _class_for_threads(kind: Callable[..., Any]) -> Any:
    if not isinstance(kind, type) or issubclass(kind, AbstractConnection):
        return kind
    if kind.__module__.startswith("redis.asyncio.") and hasattr(redis, kind.__name__):
        return getattr(redis, kind.__name__)
    raise TypeError(
        f"locks cannot be inspected over connections of {kind.__module__}.{kind.__qualname__}: use a client from "
        "Redisson.from_url(), or pyredisson.inspection.Inspector(url)"
    )


async def answered(inspector: Inspector, question: Callable[[Inspector], T]) -> T:
    """Ask something in a thread, and close the inspector. The event loop is not blocked."""

    def ask() -> T:
        with inspector:
            return question(inspector)

    return await asyncio.to_thread(ask)


async def found(inspector: Inspector, find: Callable[[Inspector], Iterator[LockView]]) -> AsyncIterator[LockView]:
    """Yield what is found in a thread, and close the inspector."""
    locks = find(inspector)
    try:
        while batch := await asyncio.to_thread(lambda: list(islice(locks, BATCH))):
            for each in batch:
                yield each
    finally:  # In a thread, too: one that was waited for no longer may use it still.
        _ = asyncio.get_running_loop().run_in_executor(None, inspector.close)
