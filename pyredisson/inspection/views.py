"""Making a view of what is stored and of who is who. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pyredisson.core.diagnosis.replies import read_count, read_owner
from pyredisson.core.names import LockNames, SemaphoreNames
from pyredisson.core.stored import StoredKind
from pyredisson.inspection.foreign import foreign_text
from pyredisson.inspection.kinds import numbered_kinds, stored_kinds
from pyredisson.inspection.libraries import TokenView, keys_of_lock, read_token
from pyredisson.inspection.model import LockView, WaiterView, Who
from pyredisson.inspection.people import People, refine
from pyredisson.inspection.reading import Stored
from pyredisson.inspection.replies import decode_name, encode_name
from pyredisson.inspection.scan import MAX_OWNERS

#: Notes that mean something to others.
NEVER_EXPIRES = "never expires"
WAITERS_UNKNOWN = "who waits is not known"
NOT_UTF8 = "its name is not UTF-8"
DOUBTFUL = "a string: a lock only if a program uses it as one"


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
        total=_total(stored, number),
        waiters_known=stored.waiters_known,
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
    for field, count in stored.owners[:10]:
        if (read_count(count) or 0) <= 0 and not stored.ran:
            yield f"broken: hold count {decode_name(count[:20])} of {decode_name(field)}"
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
        yield "a number that no client uses now: a semaphore, a latch or any counter"
