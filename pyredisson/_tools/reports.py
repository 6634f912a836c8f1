"""What ``pyredisson ls``, ``clients``, ``leaks``, ``show`` and ``why`` print of locks. None of them changes any."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

import click
import redis.exceptions as rx

from pyredisson._core.server import read_info
from pyredisson._tools import common, tables
from pyredisson.inspection import (
    DOUBTFUL,
    MAX_DOUBTFUL,
    ClientView,
    Edge,
    Inspector,
    LockView,
    Problem,
    WaitGraph,
    Who,
    describe,
    is_meant,
    wait_graph,
)
from pyredisson.inspection.look import Look
from pyredisson.inspection.model import labels, stored_kinds
from pyredisson.inspection.servers import encode_name

FIRST_LINES = 0.5  # seconds for which what is found is collected, to be printed in the order of the names
MOST_AT_ONCE = 1000  # locks

TITLES = ("LOCK", "KIND", "HELD BY", "SINCE", "×", "FREE IN", "WAITING", "NOTE")


@click.command()
@click.argument("pattern", required=False, shell_complete=common.complete_names)
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    metavar="KIND",
    help="Only this kind, as in the column KIND: lock, fair, rw, semaphore, ...; can be repeated.",
)
@click.option("--held-by", "holder", metavar="WHO", help="Only those held by this application, host, pid or client id.")
@click.option(
    "--sort",
    type=click.Choice(["name", "since", "ttl", "waiting"]),
    help="In what order: by name, the longest hold first, the first to expire, or the most waiters, once all are "
    "found.  [default: by name, as it is found: if that takes long, what was found in half a second at a time]",
)
@click.option("--all", "everything", is_flag=True, help="Also those that are free and for which no client waits.")
@common.json_option()
@common.server_options
def ls(
    pattern: str | None,
    *,
    kinds: Sequence[str],
    holder: str | None,
    sort: str | None,
    everything: bool,
    as_json: bool,
    url: str,
    prefix: str,
) -> int:
    """List the locks whose names match PATTERN, who holds them and who waits. Changes nothing.

    \b
        pyredisson ls
        pyredisson ls 'order:*' --held-by web-3 --sort since

    PATTERN is one of Redis: * and ? stand for other characters. Names are found by SCAN, which does not block the
    server. Semaphores, latches, events and barriers are numbers in Redis: they are listed if a client waits for them,
    or reports them.

    Locks of other libraries are strings, like data. With PATTERN all short strings are listed, otherwise those that
    expire or look like a token.

    \b
    Exit code:
       0  all keys were searched
       1  some could not be searched
       2  wrong usage
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  the URL does not fit what answers there: its kind, its database, or it is no Redis
    """
    known = {each: kind.label for kind in stored_kinds().values() for each in (kind.kind, kind.label)}
    for kind in kinds:
        if kind not in known:
            raise common.BadUsage(
                f"--kind is one of {', '.join(dict.fromkeys(known.values()))}, not {common.plain(kind)!r}"
            )
    wanted = {known[kind] for kind in kinds or known}
    with tables.inspecting(url, prefix) as inspector:
        url = inspector.url
        began = time.monotonic()
        look = inspector.look(pattern)
        locks = (
            lock
            for lock in tables.views_with_progress(look, quiet=as_json)
            if (everything or lock.held or lock.waiting > 0)
            and known[lock.kind] in wanted
            and (holder is None or _is_held_by(lock, holder))
        )
        counted = _Counted()
        batches = _batches(counted.all(locks), sort)
        if as_json:
            tables.print_json_list("locks", batches, lambda: {**_as_json(look, began), "url": url})
        else:
            tables.print_batches(TITLES, batches, _row, flexible=(0, 2, 7), notes=7)
            if look.complete or counted.locks:
                tables.print_lines([[(counted.summary(look, url, time.monotonic() - began), "dim")]])
    return _finish(look, url)


def _batches(locks: Iterable[LockView], sort: str | None = None) -> Iterator[list[LockView]]:
    """Yield locks to be printed together, in the order asked for; by default what is found in half a second."""
    if sort is not None:
        yield sorted(locks, key=lambda lock: _sort_key(lock, sort))
        return
    batch: list[LockView] = []
    until = time.monotonic() + FIRST_LINES
    for lock in locks:
        batch.append(lock)
        if len(batch) >= MOST_AT_ONCE or time.monotonic() > until:
            yield sorted(batch, key=lambda each: each.name)
            batch, until = [], time.monotonic() + FIRST_LINES
    yield sorted(batch, key=lambda each: each.name)


class _Counted:
    """Counts locks while they pass."""

    def __init__(self) -> None:
        self.locks = self.held = self.waiting = 0
        self.waiters_known = True

    def all(self, locks: Iterable[LockView]) -> Iterator[LockView]:
        """Yield the locks."""
        for lock in locks:
            self.locks += 1
            self.held += lock.held
            self.waiting += lock.waiting
            self.waiters_known = self.waiters_known and lock.waiters_known
            yield lock

    def summary(self, look: Look, url: str, seconds: float) -> str:
        """Return how many there are, as far as that is known."""
        took = f"{1000 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"
        counted = f"{self.locks:,} lock{'' if self.locks == 1 else 's'}{'' if look.complete else ' could be read'}"
        waiting = f"{self.waiting:,}" if self.waiters_known else "not known how many"
        keys = f"{look.keys_seen:,} keys in " if look.keys_seen else ""
        return f"{counted}, {self.held:,} held, {waiting} waiting · {url} · {keys}{took}"


def _as_json(look: Look, began: float) -> dict[str, object]:
    return {
        "taken_unix_ms": round(1000 * time.time()),
        "keys_seen": look.keys_seen,
        "complete": look.complete,
        "seconds": time.monotonic() - began,
        "errors": [describe(each) for each in look.errors],
        "doubts": {what: describe(error) for what, error in look.doubts.items()},
        "unread": look.unread,
        "strings_left_out": look.strings_left_out,
    }


def _finish(look: Look, url: str, needed: Sequence[str] = ("waiters",)) -> int:
    if look.strings_left_out:
        common.say(
            f"more than {MAX_DOUBTFUL:,} short strings may be locks of other libraries or data, and are not listed: "
            "a PATTERN lists those that match"
        )
    return tables.finish(look, url, needed=needed)


def _is_held_by(lock: LockView, holder: str) -> bool:
    """Whether an owner is the one that a user names: by an application, a host, a process, or an id."""
    return any(
        holder in (who.app, who.host, None if who.pid is None else str(who.pid), f"{who.app}@{who.host}")
        or is_meant(who, holder)
        for who in lock.holders
    )


def _sort_key(lock: LockView, by: str | None) -> tuple[float, str]:
    """Return by what a lock is sorted: what an operator looks for comes first."""
    first = min((who.since for who in lock.holders if who.since is not None), default=float("inf"))
    number = {
        "name": 0.0,
        "since": first,
        "ttl": float("inf") if lock.free_in is None else lock.free_in,
        "waiting": -float(lock.waiting),
    }[by or "name"]
    return number, lock.name


def _row(lock: LockView) -> list[str]:
    now = time.time()
    one = lock.holders[0] if len(lock.holders) == 1 else None
    first = min((who.since for who in lock.holders if who.since is not None), default=None)
    return [
        lock.name,
        labels()[lock.kind],
        tables.held_by(lock),
        tables.ago(first, now),
        str(one.holds) if one is not None else "-",
        "-" if lock.free_in is None else common.duration_text(lock.free_in),
        tables.waiting_text(lock),
        "; ".join(note.upper() if note == "never expires" else note for note in lock.notes),
    ]


# ---- clients ---------------------------------------------------------------------------------------------------------


@click.command()
@common.json_option()
@common.server_options
def clients(*, url: str, prefix: str, as_json: bool) -> int:
    """List the clients of pyredisson that are connected or report holds: application, host, pid. Changes nothing.

    \b
        pyredisson clients

    Clients of Redisson (Java) and of older versions do not say who they are, and are not listed.

    \b
    Exit code:
       0  the clients were listed
       2  wrong usage
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  the URL does not fit what answers there: its kind, its database, or it is no Redis
    """
    with tables.inspecting(url, prefix) as inspector:
        look = inspector.look()
        look.meet()
        look.find_presence()
        url = inspector.url
        if look.is_blind:
            look.raise_errors()
    clients = look.people.views()
    if as_json:
        errors = [describe(each) for each in (*look.errors, *look.doubts.values())]
        tables.print_json({"clients": clients, "complete": not errors, "errors": errors, "url": url})
    else:
        titles = ("CLIENT", "ID", "PID", "FROM", "CONNECTIONS", "UP", "HOLDS", "WAITS", "VERSION")
        tables.print_batches(titles, [clients], _client_row, flexible=(0, 3))
        if clients or not (look.errors or look.doubts):
            counted = f"{len(clients):,} client" + ("" if len(clients) == 1 else "s")
            tables.print_lines([[(f"{counted} of pyredisson · {url}", "dim")]])
    return tables.finish(look, url, needed=("connections", "owners"))


def _client_row(client: ClientView) -> list[str]:
    name = f"{client.app}@{client.host}" if client.app else client.host or "?"
    more = "+" if client.more else ""
    return [
        name,
        (client.client_id or "?")[:8],
        "-" if client.pid is None else str(client.pid),
        ", ".join(dict.fromkeys(map(_origin, client.addresses))) or "-",
        str(client.connections),
        "-" if client.age_seconds is None else common.duration_text(client.age_seconds),
        f"{len(client.holds)}{more}",
        f"{len(client.waits)}{more}",
        client.version or "-",
    ]


def _origin(address: str) -> str:
    """Return where a connection comes from, without its port."""
    return "this host" if "/" in address else address.rpartition(":")[0] or address


# ---- leaks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leak:
    """A lock that may stay held, or a queue that may stay, although no one uses it.

    Attributes:
        lock: The name of the lock.
        problem: ``"never_expires"``, ``"permits_missing"``, ``"holder_gone"`` or ``"dead_queue"``.
        text: What is wrong.
        advice: What to do.
    """

    lock: str
    problem: Problem
    text: str
    advice: str


def find_leaks(locks: Iterable[LockView], prefix: str = "") -> list[Leak]:
    """Return what may have leaked, the worst first."""
    found = [leak for lock in locks for leak in _leaks_of(lock, prefix)]
    return sorted(found, key=lambda leak: (get_args(Problem).index(leak.problem), leak.lock))


def _leaks_of(lock: LockView, prefix: str) -> Iterable[Leak]:
    who, problems = tables.held_by(lock), lock.problems
    if "never_expires" in problems:
        text, advice = f"held by {who}, and never expires", tables.free_command(lock, prefix)
        if DOUBTFUL in lock.notes:
            text, advice = f"{DOUBTFUL}; it never expires", "find out which program stores it"
        elif lock.may_be_data:
            text = f"held by {who}, and {tables.MAY_BE_DATA}"
            advice = f"find out which program stores it; if it is a lock: {advice}"
        yield Leak(lock.name, "never_expires", text, advice)
    elif "holder_gone" in problems:
        gone = [each for each in lock.holders if each.gone and each.reason is None]
        if lock.permits is not None:
            who = ", ".join(each.label for each in gone[:3])
        when = "" if lock.free_in is None else f"; it expires in {common.duration_text(lock.free_in)}"
        why = "its client no longer reports" if gone[0].probably_gone else "no client with its id is connected"
        advice = tables.free_command(lock, prefix)
        if " --force " in advice:
            why = "its client was closed in a block: use --force only if its process has ended"
        yield Leak(lock.name, "holder_gone", f"held by {who}: {why}{when}", advice)
    if "permits_missing" in problems:
        are, them = ("is", "it") if lock.missing == 1 else ("are", "them")
        text = f"{lock.missing} of {lock.total} permits {are} taken, and no client says that it has {them}"
        yield Leak(lock.name, "permits_missing", text, tables.free_command(lock, prefix, lock.missing))
    if "dead_queue" in problems:
        dead = [each for each in lock.waiters if each.dead]
        text = f"{len(dead)} of {len(lock.waiters)} in the queue have not reported in time"
        until = "the next acquire of the lock removes them"
        if not all(each.expired for each in dead):
            until = "an acquire removes them once Config.fair_lock_wait_timeout has passed"
        yield Leak(lock.name, "dead_queue", text, until)


def _in_use(permits: int) -> str:
    """Say of a semaphore that it is not known whether as many permits are missing."""
    if permits == 1:
        return "1 permit is taken that no client reports; if it stays so for a minute without use, it is missing"
    taken = f"{permits} permits are taken that no client reports"
    return f"{taken}; if they stay so for a minute without use, they are missing"


def _without_holder(lock: LockView) -> int:
    """Return how many permits are taken that no client reports, where that need not mean that they are missing."""
    if lock.missing is not None or lock.taken is not None or lock.total is None:
        return 0
    return max(0, lock.total - (lock.permits or 0) - sum(each.holds for each in lock.holders))


@click.command()
@click.argument("pattern", required=False, shell_complete=common.complete_names)
@common.json_option()
@common.server_options
def leaks(pattern: str | None, *, url: str, prefix: str, as_json: bool) -> int:
    """Find locks that never expire, locks whose client is gone, and queues of the dead. Changes nothing.

    \b
        pyredisson leaks
        pyredisson leaks 'order:*' --json

    A client counts as gone if every connection to the server is known to belong to another one. Where a connection
    without a name could be its own, it counts as gone once what it reports is older than
    Config.lock_watchdog_timeout; one that never reported, such as Redisson's (Java), does not.

    Permits of a semaphore are missing if they are taken, no client reports them, and the semaphore was not used for a
    minute. That is seen of semaphores whose total is recorded, as pyredisson does (not Redisson), and of clients that
    report (Config.presence). Before you release such permits, make sure that no one has them.

    \b
    Exit code:
       0  there are none
       1  some were found, or not all keys could be searched
       2  wrong usage
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  the URL does not fit what answers there: its kind, its database, or it is no Redis
    """
    number, in_use = 0, list[LockView]()

    def found(locks: Iterable[LockView]) -> Iterator[list[Leak]]:
        nonlocal number
        for batch in _batches(each for each in locks if each.problems or _without_holder(each)):
            in_use.extend(filter(_without_holder, batch))
            those = find_leaks(batch, prefix)
            number += len(those)
            yield those

    with tables.inspecting(url, prefix) as inspector:
        look, counted = inspector.look(pattern), _Counted()
        url = inspector.url
        batches = found(counted.all(tables.views_with_progress(look, quiet=as_json)))
        if as_json:
            tables.print_json_list("leaks", batches, lambda: {**_state_of(look), "url": url})
        else:
            titles = ("LOCK", "PROBLEM", "WHAT TO DO")
            tables.print_batches(titles, batches, lambda each: [each.lock, each.text, each.advice], flexible=(0, 1))
            what = "whether there are leaks is not known"
            if number or (look.complete and not look.doubts):
                leaks_found = "no leaks" if not number else "1 leak" if number == 1 else f"{number:,} leaks"
                what = f"{leaks_found} among {counted.locks:,} locks"
            tables.print_lines([[(f"{what} · {url}", "dim")]])
            used = [f"{tables.quoted(each.name)}: {_in_use(_without_holder(each))}" for each in in_use[:SHOWN]]
            tables.print_lines([[(line, "yellow")] for line in used])
    return _finish(look, url, ("connections", "waiters", "owners")) or (common.ExitCode.FAILED if number else 0)


def _state_of(look: Look) -> dict[str, object]:
    errors = [describe(each) for each in (*look.errors, *look.doubts.values())]
    return {"complete": look.complete, "keys_seen": look.keys_seen, "errors": errors}


# ---- show ------------------------------------------------------------------------------------------------------------


NOT_HELD = 3
NEEDED = ("waiters", "owners")  # Who waits is known from these.
SHOWN = 20  # holders and waiters of one lock
WIDTH = 9  # of a label
RECENT = 600  # seconds since a server was started


@click.command()
@click.argument("name", type=common.LockName())
@common.json_option()
@common.server_options
def show(name: str, *, url: str, prefix: str, as_json: bool) -> int:
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
      78  the URL does not fit what answers there: its kind, its database, or it is no Redis
    """
    with tables.inspecting(url, prefix) as inspector:
        lock = inspector.lock(name, gone=True)
        foreign = inspector.foreign(name) if lock is None else None
    if as_json:
        tables.print_json({"lock": lock, "foreign": foreign})
    elif lock is None:
        tables.print_lines([_nothing(name, foreign)])
    else:
        tables.print_lines(list(_description(lock, time.time(), prefix)))
    return 0 if lock is not None and lock.held else NOT_HELD


def _nothing(name: str, foreign: str | None) -> tables.Line:
    return [
        (tables.quoted(name), "bold"),
        (f" is {foreign}" if foreign else ": free, and no client is known to wait for it", ""),
    ]


def _labelled(label: str, text: str, style: str = "") -> tables.Line:
    return [(f"  {label:<{WIDTH}} ", "dim"), (text, style)]


def _description(lock: LockView, now: float, prefix: str) -> Iterator[tables.Line]:
    kind = lock.kind.replace("_", " ") + (f", {lock.mode}" if lock.mode else "")
    counted = stored_kinds()[lock.kind].number
    what = "string, which may be a token lock" if DOUBTFUL in lock.notes else f"{kind}, {_state(lock)}"
    yield [(lock.name, "bold"), (f"  {what}", "")]
    for number, who in enumerate(lock.holders[:SHOWN]):
        yield _labelled("held by" if not number else "", _holder_text(who, now))
        yield from tables.stack_lines(who, 4)
    if len(lock.holders) > SHOWN:
        yield _labelled("", f"and {len(lock.holders) - SHOWN} more")
    if counted is None:
        yield _labelled("lease", _lease_text(lock) if lock.holders else "none: it is free")
    elif counted != "changes":
        yield _labelled(counted, tables.held_by(lock))
    for number, waiter in enumerate(lock.waiters[:SHOWN]):
        place = "" if waiter.place is None else f"{waiter.place}. "
        kind = "" if waiter.kind == lock.kind else f" ({labels().get(waiter.kind, waiter.kind)})"
        text = f"{place}{tables.describe_waiter(waiter, now)}{kind}"
        yield _labelled("waiting" if not number else "", text, "red" if waiter.dead else "")
    if lock.waiting_clients:
        plural = "s are" if lock.waiting_clients > 1 else " is"
        yield _labelled("channel", f"{lock.waiting_clients} client{plural} subscribed")
    if lock.token is not None:
        yield _labelled("token", f"{lock.token} was issued last")
    for note in lock.notes:
        yield _labelled("note", note, tables.note_style(note))
    for line in _unknown(lock):
        yield _labelled("note", line)
    yield _labelled("keys", "  ".join(lock.keys))
    yield _labelled("server", lock.node)
    if lock.may_be_data:
        yield _labelled("note", f"it {tables.MAY_BE_DATA}")
    elif lock.holders and counted is None and DOUBTFUL not in lock.notes:
        yield _labelled("free it", tables.free_command(lock, prefix))


def _state(lock: LockView) -> str:
    number = stored_kinds()[lock.kind].number
    if number is not None:
        return "without an owner" if number == "changes" else tables.held_by(lock)
    return "held" if lock.holders else "free"


def _holder_text(who: Who, now: float) -> str:
    parts = [common.describe_who(who, now)]
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
    return f"free in {common.duration_text(lock.free_in)}{renewed}"


def _unknown(lock: LockView) -> Iterator[str]:
    """Say what cannot be known of a holder."""
    for who in lock.holders[:1]:
        if who.client_id is not None and who.host is None and who.connected is None:
            yield (
                "no connection has its id: it may be Redisson (Java), an older version, a client on a pool of the "
                "program's own, or gone"
            )


# ---- why -------------------------------------------------------------------------------------------------------------


@click.command()
@click.argument("name", required=False, type=common.LockName())
@common.json_option()
@common.server_options
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
      78  the URL does not fit what answers there: its kind, its database, or it is no Redis
    """
    return explain_waits(**options)


def explain_waits(name: str | None, *, url: str, prefix: str, as_json: bool) -> int:
    """Run ``pyredisson why``. Returns the exit code."""
    with tables.inspecting(url, prefix) as inspector:
        look = inspector.look()
        # Of a lock for which no one waits nothing is said, unless it is the one that was asked for.
        shown = [each for each in tables.views_with_progress(look, quiet=as_json) if each.waiting or each.name == name]
        lock = next((each for each in shown if each.name == name), None)
        if lock is None and name is not None and look.complete:
            lock = inspector.lock(name, gone=True)  # Some are listed only if they are asked for.
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
        tables.print_json({**said, "cause": cause, "errors": errors})
    elif name is not None and known and (lock is None or not (lock.held or lock.waiting)):
        tables.print_lines([_nothing(name, foreign), *([] if cause is None else [[(f"  {cause}", "yellow")]])])
    else:
        listening = {each.name for each in shown if each.waiting_clients}
        tables.print_lines(list(_explanation(lock, graph, cycles, listening, prefix, known=known)))
    if code := tables.finish(look, url, needed=NEEDED):
        return code
    if cycles:
        return common.ExitCode.FAILED
    return NOT_HELD if name is not None and (lock is None or not lock.held) else 0


def _cause(inspector: Inspector, name: str) -> str | None:
    """Return why a server may no longer have a lock, if that is known: it was started or flushed a short while ago."""
    server = inspector.servers.of(encode_name(inspector.prefix + name))
    with suppress(rx.RedisError, OSError):
        reply = server.ask("INFO", "everything")
        if isinstance(reply, bytes) and (facts := read_info(reply, time.monotonic())).run_id:
            if facts.uptime < RECENT:
                started = common.duration_text(facts.uptime)
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
    lock: LockView | None,
    graph: WaitGraph,
    cycles: list[tuple[Edge, ...]],
    listening: set[str],
    prefix: str,
    *,
    known: bool,
) -> Iterator[tables.Line]:
    now = time.time()
    if lock is not None:
        yield from _story(lock, graph, now)
    for cycle in cycles:
        yield from _deadlock(cycle, now, listening, prefix)
    if not cycles:
        waits = "1 wait" if len(graph.edges) == 1 else f"{len(graph.edges):,} waits"
        if known:
            yield [(f"no deadlock among {waits}", "dim")]
        else:
            yield [(f"no deadlock among the {waits} that could be read: whether there is one is not known", "dim")]


def _story(lock: LockView, graph: WaitGraph, now: float) -> Iterator[tables.Line]:
    yield [(lock.name, "bold"), (f" is {'held by' if lock.holders else _state(lock)}", "")]
    seen = {_owner(who) for who in lock.holders}
    for who in lock.holders[:SHOWN]:
        yield [(f"  {common.describe_who(who, now)}", "")]
        yield from tables.stack_lines(who, 6)
        yield from _onwards(who, graph, now, 4, seen)
    if lock.waiters:
        yield [("  and waited for by", "")]
        yield from ([(f"    {tables.describe_waiter(each, now)}", "")] for each in lock.waiters[:SHOWN])
    elif lock.waiting_clients:
        plural = "s" if lock.waiting_clients > 1 else ""
        yield [(f"  and waited for by {lock.waiting_clients} client{plural}, not known which owners", "")]


def _onwards(who: Who, graph: WaitGraph, now: float, indent: int, seen: set[_Owner]) -> Iterator[tables.Line]:
    """Say what a holder waits for itself, and who holds that."""
    for edge in graph.edges:
        if _owner(edge.waiter) == _owner(who) and indent < 2 * SHOWN:
            yield [(f"{' ' * indent}waits for ", ""), (edge.lock, "bold"), (f", held by {edge.holder.label}", "")]
            if _owner(edge.holder) not in seen:
                seen.add(_owner(edge.holder))
                yield from _onwards(edge.holder, graph, now, indent + 2, seen)


def _deadlock(cycle: tuple[Edge, ...], now: float, listening: set[str], prefix: str) -> Iterator[tables.Line]:
    whom = "an owner waits for itself" if len(cycle) == 1 else f"{len(cycle)} owners wait for each other"
    since = max((edge.since for edge in cycle if edge.since is not None), default=None)
    lasts = "" if since is None else f" for {tables.ago(since, now)}"
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
                yield from tables.stack_lines(owner, 6)
                break
    last = cycle[-1]
    yield [("  end it: ", "dim"), (tables.unlock_command(tables.quoted(last.lock), last.holder.owner, prefix), "")]
