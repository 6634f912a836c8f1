"""Making a view of what is stored and of who is who. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from pyredisson.core.names import LockNames, SemaphoreNames
from pyredisson.inspection.model import LockView, WaiterView, Who
from pyredisson.inspection.people import People, refine
from pyredisson.inspection.reading import Stored, names_of
from pyredisson.inspection.replies import decode_name, read_count, read_owner, read_token
from pyredisson.inspection.scan import MAX_OWNERS, NUMBERED_LAYOUTS

#: Notes that mean something to others.
NEVER_EXPIRES = "never expires"
NOT_UTF8 = "its name is not UTF-8"
DOUBTFUL = "a string: a lock only if a program uses it as one"
_NUMBERED = {layout: kind for kind, layout in NUMBERED_LAYOUTS.items()}


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
    numbered = stored.layout in _NUMBERED
    held = bool(holders)
    never = held and not numbered and stored.left_ms == -1
    return LockView(
        name=key.removeprefix(prefix),
        kind=_kind(stored, people, key),
        node=node,
        holders=holders,
        mode=stored.mode.decode("ascii", "replace") if held and stored.mode in (b"read", b"write") else None,
        free_in=stored.left_ms / 1000 if held and not numbered and stored.left_ms >= 0 else None,
        never_expires=never,
        waiting_clients=_waiting_clients(stored),
        waiters=waiters,
        token=stored.token,
        permits=read_count(stored.value) if stored.layout in ("semaphore", "permits") else None,
        count=read_count(stored.value) if stored.layout == "latch" else None,
        notes=(*_notes(stored, people, holders, waiters, never), *_doubts(stored, people, holders, key, now)),
        keys=_keys(stored),
        taken=stored.taken,
    )


def _kind(stored: Stored, people: People, key: str) -> str:
    reported = people.kind_of(key)
    match stored.layout:
        case "mutex":
            kind = "fair_lock" if stored.queued else "fenced_lock" if stored.token is not None else "lock"
            return refine(kind, reported)
        case "read_write":
            return "read_write_lock"
        case "token":
            return "token_lock"
    if reported in _NUMBERED.values() and stored.taken is None:
        return str(reported)
    return _NUMBERED[stored.layout]


def _holders(stored: Stored, people: People, key: str, now: float) -> Iterable[Who]:
    left = stored.left_ms / 1000 if stored.left_ms >= 0 else None
    if stored.layout == "token":
        if stored.value is not None:
            seen = read_token(stored.value, now)
            if seen is not None:  # Otherwise another value was written since it was found.
                yield people.token_holder(key, stored.value, seen.runtime, seen.made, left)
    elif stored.layout in _NUMBERED:
        for presence, entry in people.holds_of(key):
            yield people.person(presence.client_id, entry.thread_id, entry, None)
    else:
        for field, count in stored.owners[:MAX_OWNERS]:
            owner = read_owner(field)
            if owner is not None:
                reads = stored.reads.get(field)
                yield people.holder(key, field, owner, count, left if reads is None else reads / 1000)


def _waiters(stored: Stored, people: People, key: str, holders: tuple[Who, ...], now: float) -> Iterable[WaiterView]:
    queued = set()
    for place, member in enumerate(stored.queue, 1):
        owner = read_owner(member)
        if owner is None:
            continue
        queued.add((owner.client_id, owner.thread_id))
        who = people.waiter(key, owner)
        expired = stored.scores.get(member, 0) <= stored.now_ms
        kind = "non_reentrant_fair_lock" if people.kind_of(key) == "non_reentrant_fair_lock" else "fair_lock"
        yield WaiterView(who, kind, who.since, place, expired)
    holding = {(who.client_id, who.thread_id) for who in holders} if stored.layout == "mutex" else set()
    for presence, entry in people.waits_of(key):
        owner_id = (presence.client_id, entry.thread_id)
        # What a client reports is as old as a period: an owner that holds the lock by now waits no longer.
        has_acquired = owner_id in holding and not entry.kind.startswith("non_reentrant")
        if owner_id not in queued and not has_acquired:
            who = people.person(presence.client_id, entry.thread_id, entry, None)
            yield WaiterView(who, entry.kind, entry.since)


def _waiting_clients(stored: Stored) -> int:
    listening = {member.split(b":")[0] for member, count in stored.listening.items() if count}
    return stored.subscribers + len(listening)


def _keys(stored: Stored) -> tuple[str, ...]:
    names = names_of(stored.key, stored.layout)
    found = [names.raw]
    if isinstance(names, SemaphoreNames) and stored.taken is not None:
        found.append(names.taken)
    if stored.layout == "mutex" and isinstance(names, LockNames):
        found += [names.queue, names.timeouts] if stored.queued else []
        found += [names.token] if stored.token is not None else []
    return tuple(decode_name(each.encode("utf-8", "surrogateescape")) for each in found)


def _notes(
    stored: Stored, people: People, holders: tuple[Who, ...], waiters: tuple[WaiterView, ...], never: bool
) -> Iterable[str]:
    if never:
        yield NEVER_EXPIRES
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
    if stored.layout == "mutex" and stored.queued and not holders:
        yield "free, with a queue"
    for field, count in stored.owners[:10]:
        if (read_count(count) or 0) <= 0:
            yield f"broken: hold count {decode_name(count[:20])} of {decode_name(field)}"
    if len(stored.owners) > MAX_OWNERS:
        yield f"only {MAX_OWNERS} owners were read"
    if decode_name(stored.key).encode() != stored.key:
        yield NOT_UTF8


def _doubts(stored: Stored, people: People, holders: tuple[Who, ...], key: str, now: float) -> Iterable[str]:
    """Say if only a program that uses a key knows whether it is a lock."""
    if stored.layout == "token" and holders and holders[0].client_id is None and stored.value is not None:
        seen = read_token(stored.value, now)
        if seen is not None and not seen.is_likely(expires=stored.left_ms >= 0):
            yield DOUBTFUL
        elif holders[0].runtime == "pyredisson":
            yield "only its value looks like a token: it may be no lock"
        elif holders[0].runtime == "unknown":
            yield "a string that may be a lock of another library"
    elif stored.layout == "semaphore" and stored.exists and not stored.subscribers and people.kind_of(key) is None:
        yield "a number that no client uses now: a semaphore, a latch or any counter"
