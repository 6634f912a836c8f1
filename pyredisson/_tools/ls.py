"""``pyredisson ls``, ``clients`` and ``leaks``: what they print."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, get_args

import click

from pyredisson._tools.common import BadUsage, ExitCode, duration_text, json_option, plain, say, server_options
from pyredisson._tools.completion import complete_names
from pyredisson._tools.tables import (
    ago,
    finish,
    free_command,
    held_by,
    inspecting,
    print_batches,
    print_json,
    print_json_list,
    print_lines,
    print_table,
    views_with_progress,
    waiting_text,
)
from pyredisson.inspection import DOUBTFUL, MAX_DOUBTFUL, ClientView, LockView, Problem, describe, is_meant
from pyredisson.inspection.look import Look
from pyredisson.inspection.model import labels, stored_kinds

FIRST_LINES = 0.5  # seconds for which what is found is collected, to be printed in the order of the names
MOST_AT_ONCE = 1000  # locks

TITLES = ("LOCK", "KIND", "HELD BY", "SINCE", "×", "FREE IN", "WAITING", "NOTE")


def list_locks(
    pattern: str | None,
    *,
    url: str,
    prefix: str,
    as_json: bool,
    kinds: Sequence[str],
    holder: str | None,
    sort: str | None,
    everything: bool,
) -> int:
    """Run ``pyredisson ls``. Returns the exit code."""
    known = {each: kind.label for kind in stored_kinds().values() for each in (kind.kind, kind.label)}
    for kind in kinds:
        if kind not in known:
            raise BadUsage(f"--kind is one of {', '.join(dict.fromkeys(known.values()))}, not {plain(kind)!r}")
    wanted = {known[kind] for kind in kinds}

    def is_listed(lock: LockView) -> bool:
        return (
            (everything or lock.held or lock.waiting > 0)
            and (not wanted or known[lock.kind] in wanted)
            and (holder is None or _is_held_by(lock, holder))
        )

    with inspecting(url, prefix) as inspector:
        url = inspector.url
        began = time.monotonic()
        look = inspector.look(pattern)
        locks = filter(is_listed, views_with_progress(look, quiet=as_json))
        if as_json:
            print_json_list("locks", _in_order(locks, sort), lambda: {**_as_json(look, began), "url": url})
        else:
            counted = _Counted()
            print_batches(TITLES, _batches(counted.all(locks), sort), _row, flexible=(0, 2, 7), notes=7)
            if look.complete or counted.locks:
                print_lines([[(counted.summary(look, url, time.monotonic() - began), "dim")]])
    return _finish(look, url)


def _in_order(locks: Iterable[LockView], sort: str | None) -> Iterator[LockView]:
    return (
        iter(sorted(locks, key=lambda lock: _sort_key(lock, sort)))
        if sort is not None
        else chain.from_iterable(_batches(locks))
    )


def _batches(locks: Iterable[LockView], sort: str | None = None) -> Iterator[list[LockView]]:
    """Yield locks to be printed together, in the order asked for; by default what is found in half a second."""
    if sort is not None:
        yield list(_in_order(locks, sort))
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
        counted = (
            f"{self.locks:,} lock" + ("" if self.locks == 1 else "s") + ("" if look.complete else " could be read")
        )
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
        say(
            f"more than {MAX_DOUBTFUL:,} short strings may be locks of other libraries or data, and are not listed: "
            "a PATTERN lists those that match"
        )
    return finish(look, url, needed=needed)


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
        held_by(lock),
        ago(first, now),
        str(one.holds) if one is not None else "-",
        "-" if lock.free_in is None else duration_text(lock.free_in),
        waiting_text(lock),
        "; ".join(note.upper() if note == "never expires" else note for note in lock.notes),
    ]


# ---- clients ---------------------------------------------------------------------------------------------------------


def list_clients(*, url: str, prefix: str, as_json: bool) -> int:
    """Run ``pyredisson clients``. Returns the exit code."""
    with inspecting(url, prefix) as inspector:
        look = inspector.look()
        look.meet()
        look.find_presence()
        url = inspector.url
        if look.is_blind:
            look.raise_errors()
    clients = look.people.views()
    if as_json:
        errors = [describe(each) for each in (*look.errors, *look.doubts.values())]
        print_json({"clients": clients, "complete": not errors, "errors": errors, "url": url})
    else:
        titles = ("CLIENT", "ID", "PID", "FROM", "CONNECTIONS", "UP", "HOLDS", "WAITS", "VERSION")
        if clients:
            print_table(titles, [_client_row(each) for each in clients], flexible=(0, 3))
        if clients or not (look.errors or look.doubts):
            counted = f"{len(clients):,} client" + ("" if len(clients) == 1 else "s")
            print_lines([[(f"{counted} of pyredisson · {url}", "dim")]])
    return finish(look, url, needed=("connections", "owners"))


def _client_row(client: ClientView) -> list[str]:
    name = f"{client.app}@{client.host}" if client.app else client.host or "?"
    more = "+" if client.more else ""
    return [
        name,
        (client.client_id or "?")[:8],
        "-" if client.pid is None else str(client.pid),
        ", ".join(dict.fromkeys(map(_origin, client.addresses))) or "-",
        str(client.connections),
        "-" if client.age_seconds is None else duration_text(client.age_seconds),
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
        problem: ``"never_expires"``, ``"holder_gone"`` or ``"dead_queue"``.
        text: What is wrong.
        advice: What to do.
    """

    lock: str
    problem: Problem
    text: str
    advice: str


def find_leaks(locks: Iterable[LockView]) -> list[Leak]:
    """Return what may have leaked, the worst first."""
    found = [leak for lock in locks for leak in _leaks_of(lock)]
    return sorted(found, key=lambda leak: (get_args(Problem).index(leak.problem), leak.lock))


def _leaks_of(lock: LockView) -> Iterable[Leak]:
    who, problems = held_by(lock), lock.problems
    if "never_expires" in problems:
        text, advice = f"held by {who}, and never expires", free_command(lock)
        if DOUBTFUL in lock.notes:
            text, advice = f"{DOUBTFUL}; it never expires", "find out which program stores it"
        yield Leak(lock.name, "never_expires", text, advice)
    elif "holder_gone" in problems:
        gone = [each for each in lock.holders if each.gone and each.reason is None]
        when = "" if lock.free_in is None else f"; it expires in {duration_text(lock.free_in)}"
        why = "its client no longer reports" if gone[0].probably_gone else "no client with its id is connected"
        yield Leak(lock.name, "holder_gone", f"held by {who}: {why}{when}", free_command(lock))
    if "dead_queue" in problems:
        dead = [each for each in lock.waiters if each.dead]
        text = f"{len(dead)} of {len(lock.waiters)} in the queue have not reported in time"
        until = "the next acquire of the lock removes them"
        if not all(each.expired for each in dead):
            until = "an acquire removes them once Config.fair_lock_wait_timeout has passed"
        yield Leak(lock.name, "dead_queue", text, until)


def list_leaks(pattern: str | None, *, url: str, prefix: str, as_json: bool) -> int:
    """Run ``pyredisson leaks``. Returns the exit code."""
    number = 0

    def found(locks: Iterable[LockView]) -> Iterator[list[Leak]]:
        nonlocal number
        for batch in _batches(each for each in locks if each.problems):
            leaks = find_leaks(batch)
            number += len(leaks)
            yield leaks

    with inspecting(url, prefix) as inspector:
        look, counted = inspector.look(pattern), _Counted()
        url = inspector.url
        batches = found(counted.all(views_with_progress(look, quiet=as_json)))
        if as_json:
            print_json_list("leaks", chain.from_iterable(batches), lambda: {**_state_of(look), "url": url})
        else:
            titles = ("LOCK", "PROBLEM", "WHAT TO DO")
            print_batches(titles, batches, lambda each: [each.lock, each.text, each.advice], flexible=(0, 1))
            if number or (look.complete and not look.doubts):
                leaks = f"{number:,} leak" + ("" if number == 1 else "s") if number else "no leaks"
                print_lines([[(f"{leaks} among {counted.locks:,} locks · {url}", "dim")]])
            else:
                print_lines([[(f"whether there are leaks is not known · {url}", "dim")]])
    return _finish(look, url, ("connections", "waiters", "owners")) or (ExitCode.FAILED if number else 0)


def _state_of(look: Look) -> dict[str, object]:
    errors = [describe(each) for each in (*look.errors, *look.doubts.values())]
    return {"complete": look.complete, "keys_seen": look.keys_seen, "errors": errors}


# ---- ls --------------------------------------------------------------------------------------------------------------
# ``pyredisson ls``: its arguments.


@click.command()
@click.argument("pattern", required=False, shell_complete=complete_names)
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
@json_option
@server_options
def ls(**options: Any) -> int:
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
      78  what answers there is one node of a cluster, or no Redis at all
    """

    return list_locks(**options)


# ---- clients ---------------------------------------------------------------------------------------------------------
# ``pyredisson clients``: its arguments.


@click.command()
@json_option
@server_options
def clients(**options: Any) -> int:
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
      78  what answers there is one node of a cluster, or no Redis at all
    """

    return list_clients(**options)


# ---- leaks -----------------------------------------------------------------------------------------------------------
# ``pyredisson leaks``: its arguments.


@click.command()
@click.argument("pattern", required=False, shell_complete=complete_names)
@json_option
@server_options
def leaks(**options: Any) -> int:
    """Find locks that never expire, locks whose client is gone, and queues of the dead. Changes nothing.

    \b
        pyredisson leaks
        pyredisson leaks 'order:*' --json

    A client counts as gone if every connection to the server is known to belong to another one. Where a connection
    without a name could be its own, it counts as gone once what it reports is older than
    Config.lock_watchdog_timeout; one that never reported, such as Redisson's (Java), does not.

    \b
    Exit code:
       0  there are none
       1  some were found, or not all keys could be searched
       2  wrong usage
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  what answers there is one node of a cluster, or no Redis at all
    """

    return list_leaks(**options)
