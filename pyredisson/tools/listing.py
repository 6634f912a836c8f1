"""``pyredisson ls``, ``clients`` and ``leaks``: what they print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import get_args

from pyredisson.inspection import DOUBTFUL, MAX_DOUBTFUL, ClientView, LockView, Problem, Snapshot, is_meant
from pyredisson.inspection.kinds import labels, stored_kinds
from pyredisson.tools.common import BadUsage, ExitCode, plain, say
from pyredisson.tools.durations import duration_text
from pyredisson.tools.looking import (
    ago,
    free_command,
    held_by,
    inspecting,
    look_with_progress,
    print_json,
    print_lines,
    print_table,
    waiting_text,
)

TITLES = ("LOCK", "KIND", "HELD BY", "SINCE", "×", "FREE IN", "WAITING", "NOTE")


def list_locks(
    pattern: str | None,
    *,
    url: str,
    prefix: str,
    as_json: bool,
    kinds: Sequence[str],
    holder: str | None,
    sort: str,
    everything: bool,
) -> int:
    """Run ``pyredisson ls``. Returns the exit code."""
    known = {each: kind.label for kind in stored_kinds().values() for each in (kind.kind, kind.label)}
    for kind in kinds:
        if kind not in known:
            raise BadUsage(f"--kind is one of {', '.join(dict.fromkeys(known.values()))}, not {plain(kind)!r}")
    with inspecting(url, prefix) as inspector:
        snapshot = look_with_progress(inspector, pattern, quiet=as_json)
        url = inspector.url
    locks = [each for each in snapshot.locks if everything or each.held or each.waiting]
    if kinds:
        wanted = {known[kind] for kind in kinds}
        locks = [each for each in locks if known[each.kind] in wanted]
    if holder is not None:
        locks = [each for each in locks if _is_held_by(each, holder)]
    locks.sort(key=lambda lock: _sort_key(lock, sort))
    if as_json:
        print_json({**_as_json(replace(snapshot, locks=tuple(locks))), "url": url})
    else:
        now = snapshot.taken
        if locks:
            print_table(TITLES, [_row(each, now) for each in locks], flexible=(0, 2, 7), notes=7)
        print_lines([[(_summary(locks, snapshot, url), "dim")]])
    return _finish(snapshot)


def _as_json(snapshot: Snapshot) -> dict[str, object]:
    return {
        "taken_unix_ms": round(1000 * snapshot.taken),
        "keys_seen": snapshot.keys_seen,
        "complete": snapshot.complete,
        "seconds": snapshot.seconds,
        "errors": snapshot.errors,
        "strings_left_out": snapshot.strings_left_out,
        "locks": snapshot.locks,
    }


def _finish(snapshot: Snapshot) -> int:
    for error in snapshot.errors:
        say(error)
    if snapshot.strings_left_out:
        say(
            f"more than {MAX_DOUBTFUL:,} short strings may be locks of other libraries or data, and are not listed: "
            "a PATTERN lists those that match"
        )
    if not snapshot.complete:
        say("not all keys were searched")
        return ExitCode.FAILED
    return 0


def _is_held_by(lock: LockView, holder: str) -> bool:
    """Whether an owner is the one that a user names: by an application, a host, a process, or an id."""
    return any(
        holder in (who.app, who.host, None if who.pid is None else str(who.pid), f"{who.app}@{who.host}")
        or is_meant(who, holder)
        for who in lock.holders
    )


def _sort_key(lock: LockView, by: str) -> tuple[float, str]:
    """Return by what a lock is sorted: what an operator looks for comes first."""
    first = min((who.since for who in lock.holders if who.since is not None), default=float("inf"))
    number = {
        "name": 0.0,
        "since": first,
        "ttl": float("inf") if lock.free_in is None else lock.free_in,
        "waiting": -float(lock.waiting),
    }[by]
    return number, lock.name


def _row(lock: LockView, now: float) -> list[str]:
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


def _summary(locks: Sequence[LockView], snapshot: Snapshot, url: str) -> str:
    held = sum(each.held for each in locks)
    waiting = sum(each.waiting for each in locks)
    took = f"{1000 * snapshot.seconds:.0f} ms" if snapshot.seconds < 1 else f"{snapshot.seconds:.1f} s"
    counted = f"{len(locks):,} lock" + ("" if len(locks) == 1 else "s")
    keys = f"{snapshot.keys_seen:,} keys in " if snapshot.keys_seen else ""
    return f"{counted}, {held:,} held, {waiting:,} waiting · {url} · {keys}{took}"


# ---- clients ---------------------------------------------------------------------------------------------------------


def list_clients(*, url: str, prefix: str, as_json: bool) -> int:
    """Run ``pyredisson clients``. Returns the exit code."""
    with inspecting(url, prefix) as inspector:
        clients = inspector.clients()
        url = inspector.url
    if as_json:
        print_json({"clients": clients, "url": url})
        return 0
    titles = ("CLIENT", "ID", "PID", "FROM", "CONNECTIONS", "UP", "HOLDS", "WAITS", "VERSION")
    if clients:
        print_table(titles, [_client_row(each) for each in clients], flexible=(0, 3))
    counted = f"{len(clients):,} client" + ("" if len(clients) == 1 else "s")
    print_lines([[(f"{counted} of pyredisson · {url}", "dim")]])
    return 0


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
        text = f"{DOUBTFUL}; it never expires" if DOUBTFUL in lock.notes else f"held by {who}, and never expires"
        yield Leak(lock.name, "never_expires", text, free_command(lock))
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
    with inspecting(url, prefix) as inspector:
        snapshot = look_with_progress(inspector, pattern, quiet=as_json)
        url = inspector.url
    leaks = find_leaks(snapshot.locks)
    if as_json:
        print_json({"leaks": leaks, "complete": snapshot.complete, "keys_seen": snapshot.keys_seen, "url": url})
    else:
        if leaks:
            rows = [[each.lock, each.text, each.advice] for each in leaks]
            print_table(("LOCK", "PROBLEM", "WHAT TO DO"), rows, flexible=(0, 1))
        counted = f"{len(leaks):,} leak" + ("" if len(leaks) == 1 else "s") if leaks else "no leaks"
        print_lines([[(f"{counted} among {len(snapshot.locks):,} locks · {url}", "dim")]])
    return _finish(snapshot) or (ExitCode.FAILED if leaks else 0)
