"""``pyredisson show`` and ``why``: what they print."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, TypeAlias

import click
import redis.exceptions as rx

from pyredisson._core.server import read_info
from pyredisson._tools.common import ExitCode, duration_text, json_option, server_options
from pyredisson._tools.completion import complete_names
from pyredisson._tools.tables import (
    Line,
    ago,
    describe_waiter,
    describe_who,
    finish,
    free_command,
    held_by,
    inspecting,
    note_style,
    print_json,
    print_lines,
    quoted,
    stack_lines,
    unlock_command,
    views_with_progress,
)
from pyredisson.inspection import DOUBTFUL, Edge, Inspector, LockView, WaitGraph, Who, describe, wait_graph
from pyredisson.inspection.model import labels, stored_kinds
from pyredisson.inspection.servers import encode_name

NOT_HELD = 3
NEEDED = ("waiters", "owners")  # Who waits is known from these.
SHOWN = 20  # holders and waiters of one lock
WIDTH = 9  # of a label
RECENT = 600  # seconds since a server was started


def show_lock(name: str, *, url: str, prefix: str, as_json: bool) -> int:
    """Run ``pyredisson show``. Returns the exit code."""
    with inspecting(url, prefix) as inspector:
        lock = inspector.lock(name)
        foreign = inspector.foreign(name) if lock is None else None
    if as_json:
        print_json({"lock": lock, "foreign": foreign})
    elif lock is None:
        print_lines([_nothing(name, foreign)])
    else:
        print_lines(list(_description(lock, time.time())))
    return 0 if lock is not None and lock.held else NOT_HELD


def _nothing(name: str, foreign: str | None) -> Line:
    return [
        (quoted(name), "bold"),
        (f" is {foreign}" if foreign else ": free, and no client is known to wait for it", ""),
    ]


def _labelled(label: str, text: str, style: str = "") -> Line:
    return [(f"  {label:<{WIDTH}} ", "dim"), (text, style)]


def _description(lock: LockView, now: float) -> Iterator[Line]:
    kind = lock.kind.replace("_", " ") + (f", {lock.mode}" if lock.mode else "")
    counted = stored_kinds()[lock.kind].number
    what = "string, which may be a token lock" if DOUBTFUL in lock.notes else f"{kind}, {_state(lock)}"
    yield [(lock.name, "bold"), (f"  {what}", "")]
    for number, who in enumerate(lock.holders[:SHOWN]):
        yield _labelled("held by" if not number else "", _holder_text(who, now))
        yield from stack_lines(who, 4)
    if len(lock.holders) > SHOWN:
        yield _labelled("", f"and {len(lock.holders) - SHOWN} more")
    if counted is None:
        yield _labelled("lease", _lease_text(lock) if lock.holders else "none: it is free")
    elif counted != "changes":
        yield _labelled(counted, held_by(lock))
    for number, waiter in enumerate(lock.waiters[:SHOWN]):
        place = "" if waiter.place is None else f"{waiter.place}. "
        kind = "" if waiter.kind == lock.kind else f" ({labels().get(waiter.kind, waiter.kind)})"
        text = f"{place}{describe_waiter(waiter, now)}{kind}"
        yield _labelled("waiting" if not number else "", text, "red" if waiter.dead else "")
    if lock.waiting_clients:
        plural = "s are" if lock.waiting_clients > 1 else " is"
        yield _labelled("channel", f"{lock.waiting_clients} client{plural} subscribed")
    if lock.token is not None:
        yield _labelled("token", f"{lock.token} was issued last")
    for note in lock.notes:
        yield _labelled("note", note, note_style(note))
    for line in _unknown(lock):
        yield _labelled("note", line)
    yield _labelled("keys", "  ".join(lock.keys))
    yield _labelled("server", lock.node)
    if lock.holders and counted is None and DOUBTFUL not in lock.notes:
        yield _labelled("free it", free_command(lock))


def _state(lock: LockView) -> str:
    number = stored_kinds()[lock.kind].number
    if number is not None:
        return "without an owner" if number == "changes" else held_by(lock)
    return "held" if lock.holders else "free"


def _holder_text(who: Who, now: float) -> str:
    parts = [describe_who(who, now)]
    if who.client_id is not None:
        parts.append(f"id {who.owner}")
    if who.thread:
        parts.append(who.thread)
    if who.holds > 1:
        parts.append(f"held {who.holds} times")
    return ", ".join(parts)


def _lease_text(lock: LockView) -> str:
    if lock.never_expires:
        return "none: it never expires"
    if lock.free_in is None:
        return "unknown"
    renewed = {
        True: ", renewed by its watchdog",
        False: ", a fixed lease",
        None: " unless it is renewed",
    }[lock.holders[0].watchdog]
    return f"free in {duration_text(lock.free_in)}{renewed}"


def _unknown(lock: LockView) -> Iterator[str]:
    """Say what cannot be known of a holder."""
    for who in lock.holders[:1]:
        if who.client_id is not None and who.host is None and who.connected is None:
            yield (
                "no connection has its id: it may be Redisson (Java), an older version, a client on a pool of the "
                "program's own, or gone"
            )


# ---- why -------------------------------------------------------------------------------------------------------------


def explain_waits(name: str | None, *, url: str, prefix: str, as_json: bool) -> int:
    """Run ``pyredisson why``. Returns the exit code."""
    with inspecting(url, prefix) as inspector:
        look = inspector.look()
        # Of a lock for which no one waits nothing is said, unless it is the one that was asked for.
        shown = [each for each in views_with_progress(look, quiet=as_json) if each.waiting or each.name == name]
        lock = next((each for each in shown if each.name == name), None)
        if lock is None and name is not None and look.complete:
            lock = inspector.lock(name)  # Some are listed only if they are asked for.
        foreign = inspector.foreign(name) if name is not None and lock is None and look.complete else None
        cause = _cause(inspector, name) if name is not None and lock is None and foreign is None else None
        url = inspector.url
    graph = wait_graph(shown)
    cycles = [each for each in graph.cycles if name is None or _concerns(each, name, graph)]
    known = look.complete and not look.doubts.keys() & set(NEEDED)
    if as_json:
        edges = graph.edges if name is None else tuple(_chain(name, graph))
        errors = [describe(each) for each in (*look.errors, *look.doubts.values())]
        said = {"lock": lock, "foreign": foreign, "edges": edges, "cycles": cycles, "complete": look.complete}
        print_json({**said, "cause": cause, "errors": errors})
    elif name is not None and known and (lock is None or not (lock.held or lock.waiting)):
        print_lines([_nothing(name, foreign), *([] if cause is None else [[(f"  {cause}", "yellow")]])])
    else:
        listening = {each.name for each in shown if each.waiting_clients}
        print_lines(list(_explanation(lock, graph, cycles, listening, known=known)))
    if code := finish(look, url, needed=NEEDED):
        return code
    if cycles:
        return ExitCode.FAILED
    return NOT_HELD if name is not None and (lock is None or not lock.held) else 0


def _cause(inspector: Inspector, name: str) -> str | None:
    """Return why a server may no longer have a lock, if that is known: it was started or flushed a short while ago."""
    server = inspector.servers.of(encode_name(inspector.prefix + name))
    with suppress(rx.RedisError, OSError):
        reply = server.ask("INFO", "everything")
        if isinstance(reply, bytes) and (facts := read_info(reply, time.monotonic())).run_id:
            if facts.uptime < RECENT:
                started = duration_text(facts.uptime)
                return f"the server {server.node} was started {started} ago: it has only what it had saved before"
            if facts.flushes and facts.keys == 0:
                return f"the server {server.node} was flushed since its start, and has no keys"
    return None


def _chain(name: str, graph: WaitGraph) -> Iterator[Edge]:
    """Yield the waits for a lock, then what its holders wait for, and so on."""
    by_lock: dict[str, list[Edge]] = defaultdict(list)
    wants: dict[_Owner, list[str]] = defaultdict(list)
    for edge in graph.edges:
        by_lock[edge.lock].append(edge)
        wants[_owner(edge.waiter)].append(edge.lock)
    wanted, seen = deque([name]), {name}
    while wanted:
        for edge in by_lock[wanted.popleft()]:
            yield edge
            further = [each for each in wants[_owner(edge.holder)] if each not in seen]
            wanted.extend(dict.fromkeys(further))
            seen.update(further)


_Owner: TypeAlias = "tuple[str | None, int | None, str]"


def _owner(who: Who) -> _Owner:
    """Return by what an owner is the same as another one."""
    return who.client_id, who.thread_id, "" if who.client_id is not None else who.owner


def _concerns(cycle: tuple[Edge, ...], name: str, graph: WaitGraph) -> bool:
    """Whether a deadlock is why a lock does not become free."""
    locks = {edge.lock for edge in cycle}
    return name in locks or any(edge.lock in locks for edge in _chain(name, graph))


def _explanation(
    lock: LockView | None, graph: WaitGraph, cycles: list[tuple[Edge, ...]], listening: set[str], *, known: bool
) -> Iterator[Line]:
    now = time.time()
    if lock is not None:
        yield from _story(lock, graph, now)
    for cycle in cycles:
        yield from _deadlock(cycle, now, listening)
    if not cycles:
        waits = "1 wait" if len(graph.edges) == 1 else f"{len(graph.edges):,} waits"
        if known:
            yield [(f"no deadlock among {waits}", "dim")]
        else:
            yield [(f"no deadlock among the {waits} that could be read: whether there is one is not known", "dim")]


def _story(lock: LockView, graph: WaitGraph, now: float) -> Iterator[Line]:
    yield [(lock.name, "bold"), (f" is {'held by' if lock.holders else _state(lock)}", "")]
    seen = {_owner(who) for who in lock.holders}
    for who in lock.holders[:SHOWN]:
        yield [(f"  {describe_who(who, now)}", "")]
        yield from stack_lines(who, 6)
        yield from _onwards(who, graph, now, 4, seen)
    if lock.waiters:
        yield [("  and waited for by", "")]
        yield from ([(f"    {describe_waiter(each, now)}", "")] for each in lock.waiters[:SHOWN])
    elif lock.waiting_clients:
        plural = "s" if lock.waiting_clients > 1 else ""
        yield [(f"  and waited for by {lock.waiting_clients} client{plural}, not known which owners", "")]


def _onwards(who: Who, graph: WaitGraph, now: float, indent: int, seen: set[_Owner]) -> Iterator[Line]:
    """Say what a holder waits for itself, and who holds that."""
    for edge in graph.edges:
        if _owner(edge.waiter) == _owner(who) and indent < 2 * SHOWN:
            yield [(f"{' ' * indent}waits for ", ""), (edge.lock, "bold"), (f", held by {edge.holder.label}", "")]
            if _owner(edge.holder) not in seen:
                seen.add(_owner(edge.holder))
                yield from _onwards(edge.holder, graph, now, indent + 2, seen)


def _deadlock(cycle: tuple[Edge, ...], now: float, listening: set[str]) -> Iterator[Line]:
    whom = "an owner waits for itself" if len(cycle) == 1 else f"{len(cycle)} owners wait for each other"
    since = max((edge.since for edge in cycle if edge.since is not None), default=None)
    lasts = "" if since is None else f" for {ago(since, now)}"
    yield [("DEADLOCK", "bold red"), (f"{lasts}: {whom}", "")]
    for before, edge in zip((cycle[-1], *cycle[:-1]), cycle, strict=True):
        yield [(f"  {edge.waiter.label}", "bold"), (f" holds {before.lock}, waits for {edge.lock}", "")]
        kind = stored_kinds().get(edge.kind)
        if edge.lock not in listening and (kind is None or kind.subscribes):
            # What clients report is as old as a period of their watchdogs.
            yield [
                (f"    but no client is subscribed to {edge.lock} now: this wait may have ended, look again", "yellow")
            ]
        for owner in (edge.waiter, before.holder):
            if owner.stack:
                yield from stack_lines(owner, 6)
                break
    last = cycle[-1]
    yield [("  end it: ", "dim"), (unlock_command(quoted(last.lock), last.holder.owner), "")]


# ---- show ------------------------------------------------------------------------------------------------------------
# ``pyredisson show``: its arguments.


@click.command()
@click.argument("name", shell_complete=complete_names)
@json_option
@server_options
def show(**options: Any) -> int:
    """Show who holds the lock NAME and since when, when it expires, who waits, and its keys. Changes nothing.

    \b
        pyredisson show order:17

    \b
    Exit code:
       0  it is held
       2  wrong usage
       3  it is not held
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  what answers there is one node of a cluster, or no Redis at all
    """

    return show_lock(**options)


# ---- why -------------------------------------------------------------------------------------------------------------
# ``pyredisson why``: its arguments.


@click.command()
@click.argument("name", required=False, shell_complete=complete_names)
@json_option
@server_options
def why(**options: Any) -> int:
    """Say who holds the lock NAME, what that holder waits for itself, and who waits for it. Changes nothing.

    \b
        pyredisson why order:17
        pyredisson why

    Owners that wait for each other are a deadlock, also across processes and hosts. Without NAME all deadlocks are
    shown. A wait is known once it has lasted for Config.presence_after (5 seconds).

    \b
    Exit code:
       0  there is no deadlock
       1  there is a deadlock, or not all keys could be searched
       2  wrong usage
       3  the lock NAME is not held
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  what answers there is one node of a cluster, or no Redis at all
    """

    return explain_waits(**options)
