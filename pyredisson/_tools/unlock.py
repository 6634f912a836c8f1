"""``pyredisson unlock``: frees a lock whose holder is stuck or gone."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from pyredisson._tools.common import BadUsage, ExitCode, json_option, plain, say, server_options
from pyredisson._tools.completion import complete_names
from pyredisson._tools.tables import describe_who, inspecting, print_json, quoted
from pyredisson.inspection import DOUBTFUL, LockView, Unlocked, Who
from pyredisson.inspection.model import stored_kinds

NOT_HELD = 3
OTHER_HOLDER = 4
LEAST_HOLDER = 4  # characters of an id: with fewer, too many others begin alike


def unlock_lock(name: str, *, url: str, prefix: str, as_json: bool, yes: bool, holder: str | None, force: bool) -> int:
    """Run ``pyredisson unlock``. Returns the exit code."""
    if holder is not None and len(holder) < LEAST_HOLDER:
        raise BadUsage(f"--holder needs at least {LEAST_HOLDER} characters of an id: pyredisson show prints it")
    if not yes and (as_json or not sys.stdin.isatty()):
        raise BadUsage("say --yes: there is no terminal to ask on")
    with inspecting(url, prefix) as inspector:
        seen = None
        if not yes:
            seen = inspector.lock(name)
            asks = seen is not None and bool(seen.holders) and (force or DOUBTFUL not in seen.notes)
            if asks and seen is not None and not _confirmed(seen):
                say("nothing was changed")
                return ExitCode.FAILED
        try:
            held = seen if seen is not None and seen.holders else None
            done = inspector.unlock(name, holder=holder, seen=held, force=force)
        except ValueError as error:
            say(f"{quoted(name)}: {error}")
            return ExitCode.FAILED
    return _report(done, as_json)


def _confirmed(lock: LockView) -> bool:
    now = time.time()
    name = quoted(lock.name)
    for who in lock.holders[:10]:
        click.echo(plain(f"{name} is held by {describe_who(who, now)}."))
    if len(lock.holders) > 10:
        click.echo(f"And by {len(lock.holders) - 10} more.")
    if DOUBTFUL in lock.notes:
        click.echo(f"It is {DOUBTFUL}. To free it deletes it.")
    count = len(lock.waiters) or lock.waiting_clients
    waiting = f" {count} wait for it." if count > 1 else " 1 waits for it." if count else ""
    click.echo(f"A holder that is alive goes on working until it notices (LockLostError).{waiting}")
    return click.confirm("Free it?", default=False)


def _report(done: Unlocked, in_json: bool) -> int:
    code = {"freed": 0, "not_held": NOT_HELD, "doubtful": NOT_HELD}.get(done.outcome, OTHER_HOLDER)
    woken = _woken(done)
    if in_json:
        print_json(
            {
                "name": done.name,
                "outcome": done.outcome,
                "owners": done.owners,
                "notified": max(done.notified, len({each.client_id for each in woken})),
                "woken": [each.label for each in woken],
                "before": done.before,
                "foreign": done.foreign,
                "about_waiters": done.about_waiters,
            }
        )
        return code
    name = quoted(done.name)
    match code:
        case 0:
            click.echo(plain(f"freed {name}{_woken_text(woken, done)}"))
        case 3 if done.outcome == "doubtful":
            say(f"{name} is {DOUBTFUL}: nothing was changed; --force deletes it")
        case 3:
            say(f"{name} is {done.foreign or 'not held'}")
        case _:
            holders = done.before.holders if done.before is not None else ()
            now = time.time()
            say(f"{name} is held by {'; '.join(describe_who(each, now) for each in holders[:3])}: nothing was changed")
    return code


def _woken(done: Unlocked) -> list[Who]:
    """Return who was notified, as far as it is known."""
    if not done.freed or done.before is None:
        return []
    queue = [each.who for each in done.before.waiters if each.place is not None and not each.expired]
    if queue:
        return queue[:1]
    if not stored_kinds()[done.before.kind].subscribes:
        return []
    return list({each.who.label: each.who for each in done.before.waiters}.values())


def _woken_text(woken: list[Who], done: Unlocked) -> str:
    many_can = done.before is None or stored_kinds()[done.before.kind].shared is not None
    one_acquires = "" if many_can else "; one of them acquires it"
    if woken:
        labels = ", ".join(each.label for each in woken[:3])
        if len(woken) == 1:
            return f"; {'notified' if woken[0].gone else 'woke'} {labels}"
        more = f" and {len(woken) - 3} more" if len(woken) > 3 else ""
        return f"; notified {labels}{more}{one_acquires}"
    if done.about_waiters and done.before is not None and not done.before.waiters:
        return f"; {done.about_waiters}"
    clients = max(done.notified, done.before.waiting_clients if done.before is not None else 0)
    if clients:
        return f"; notified {clients} waiting clients{one_acquires}" if clients > 1 else "; woke 1 waiting client"
    if done.before is not None and done.before.waiters:
        return "; those who wait ask again by themselves"
    if done.before is None or not done.before.waiters_known:
        return "; whether clients wait for it is not known"
    if not stored_kinds()[done.before.kind].subscribes:
        return "; whether clients wait for it is not known: they ask again by themselves"
    return "; no client is known to wait for it"


# ---- unlock ----------------------------------------------------------------------------------------------------------
# ``pyredisson unlock``: its arguments.


@click.command()
@click.argument("name", shell_complete=complete_names)
@click.option("-y", "--yes", is_flag=True, help="Do not ask. Needed where there is no terminal.")
@click.option(
    "--holder",
    metavar="ID",
    help="Only if this client or owner still holds it: its id, or at least its first 4 characters.",
)
@click.option("--force", is_flag=True, help="Delete also a string that may be no lock but the data of a program.")
@json_option
@server_options
def unlock(**options: Any) -> int:
    """Free the lock NAME of another owner, and wake its waiters.

    \b
        pyredisson unlock order:17
        pyredisson unlock order:17 --yes --holder 8c1e

    A holder that is alive goes on working until it notices: it gets LockLostError. On a terminal the command asks, and
    frees the lock only if the holder that it showed still holds it. The test and the release are one step on the
    server. A read-write lock is freed for all its readers. Locks of other libraries are freed, too, and their waiters
    are woken as the library does it.

    \b
    Exit code:
       0  the lock was freed
       1  nothing was changed: the answer was no, NAME is a semaphore or a latch
       2  wrong usage
       3  the lock is not held, or NAME is a string that may be no lock, and --force is missing
       4  another owner holds it by now
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  what answers there is one node of a cluster, or no Redis at all
    """

    return unlock_lock(**options)
