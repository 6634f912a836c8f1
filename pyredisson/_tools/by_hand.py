"""What an operator does by hand: ``pyredisson unlock`` frees a lock, ``lock`` holds one, ``permits`` sets permits."""

from __future__ import annotations

import getpass
import json
import signal
import socket
import sys
import time
from typing import Any

import click
import redis.exceptions as rx

from pyredisson import Config, LockError, RedissonError, __version__, current_thread_id
from pyredisson._core.names import presence_key
from pyredisson._tools.common import (
    BadUsage,
    Duration,
    ExitCode,
    LockName,
    Stopped,
    connect,
    describe_who,
    duration_text,
    failure,
    held_by,
    json_option,
    plain,
    say,
    server_options,
)
from pyredisson._tools.tables import MAY_BE_DATA, inspecting, print_json, quoted, shell_command, unlock_command
from pyredisson.inspection import DOUBTFUL, Inspector, LockView, Unlocked, Who, describe, is_meant
from pyredisson.inspection.model import numbered_kinds, stored_kinds

NOT_HELD = 3
OTHER_HOLDER = 4
LEAST_HOLDER = 4  # characters of an id: with fewer, too many others begin alike


@click.command()
@click.argument("name", type=LockName())
@click.option("-y", "--yes", is_flag=True, help="Do not ask. Needed where there is no terminal.")
@click.option(
    "--holder",
    metavar="ID",
    help="Only if this client or owner still holds it: its id, or at least its first 4 characters.",
)
@click.option(
    "--force",
    is_flag=True,
    help="Delete also a string, or a hash that never expires, which may be no lock but the data of a program; release "
    "the permits of a client that may have ended.",
)
@json_option()
@server_options
def unlock(name: str, *, url: str, prefix: str, as_json: bool, yes: bool, holder: str | None, force: bool) -> int:
    """Free the lock NAME of another owner, and wake its waiters.

    \b
        pyredisson unlock order:17
        pyredisson unlock order:17 --yes --holder 8c1e

    A holder that is alive goes on working until it notices: it gets LockLostError. On a terminal the command asks, and
    frees the lock only if the holder that it showed still holds it. The test and the release are one step on the
    server. A read-write lock is freed for all its readers. Locks of other libraries are freed, too, and their waiters
    are woken as the library does it.

    Of a semaphore, --holder releases the permits that this holder is known to have: for as long as its client reports
    them or, after it was killed, for Config.lock_watchdog_timeout. Those of a plain semaphore are released only after
    the client has ended. Where the holder is not known, use pyredisson permits NAME --free N.

    \b
    Exit code:
       0  the lock was freed, or permits were released
       1  nothing was changed: the answer was no, NAME is a latch, or a semaphore and the holder is not known to have
          permits
       2  wrong usage
       3  the lock is not held, or NAME may be no lock, and --force is missing
       4  another owner holds it by now
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  the URL does not fit what answers there: its kind, its database, or it is no Redis
    """
    if holder is not None and len(holder) < LEAST_HOLDER:
        raise BadUsage(f"--holder needs at least {LEAST_HOLDER} characters of an id: pyredisson show prints it")
    if not yes and (as_json or not sys.stdin.isatty()):
        raise BadUsage("say --yes: there is no terminal to ask on")
    with inspecting(url, prefix) as inspector:
        seen = None
        if not yes:
            seen = inspector.lock(name, gone=holder is not None)
            asks = seen is not None and bool(seen.holders) and (force or _doubt(seen) is None)
            if seen is not None and stored_kinds()[seen.kind].number == "permits":
                asks = holder is not None
            if asks and seen is not None and not _confirmed(seen, holder or ""):
                raise Stopped(ExitCode.FAILED, "nothing was changed")
        try:
            held = seen if seen is not None and seen.holders else None
            done = inspector.unlock(name, holder=holder, seen=held, force=force)
        except ValueError as error:
            raise Stopped(ExitCode.FAILED, f"{quoted(name)}: {error}") from None
    return _report(done, as_json)


def _confirmed(lock: LockView, holder: str) -> bool:
    now = time.time()
    name = quoted(lock.name)
    if lock.permits is not None:
        for who in lock.holders:
            if is_meant(who, holder):
                click.echo(plain(f"{who.holds} of {name}: held by {describe_who(who, now)}."))
        return click.confirm(f"Release the permits of {plain(holder)}?", default=False)
    for who in lock.holders[:10]:
        click.echo(plain(f"{name} is held by {describe_who(who, now)}."))
    if len(lock.holders) > 10:
        click.echo(f"And by {len(lock.holders) - 10} more.")
    if doubt := _doubt(lock):
        click.echo(f"It {doubt}. To free it deletes it.")
    count = len(lock.waiters) or lock.waiting_clients
    waiting = f" {count} wait for it." if count > 1 else " 1 waits for it." if count else ""
    click.echo(f"A holder that is alive goes on working until it notices (LockLostError).{waiting}")
    return click.confirm("Free it?", default=False)


def _doubt(lock: LockView) -> str | None:
    """Return why what has holders may be no lock, in words, if it may be none."""
    return f"is {DOUBTFUL}" if DOUBTFUL in lock.notes else MAY_BE_DATA if lock.may_be_data else None


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
                "permits": done.permits,
            }
        )
        return code
    name = quoted(done.name)
    match code:
        case 0 if done.permits:
            plural = "" if done.permits == 1 else "s"
            click.echo(
                plain(f"released {done.permits} permit{plural} of {name}, which {', '.join(done.owners[:3])} had")
            )
        case 0:
            click.echo(plain(f"freed {name}{_woken_text(woken, done)}"))
        case 3 if done.outcome == "doubtful" and done.before is not None:
            say(f"{name} {_doubt(done.before)}: nothing was changed; --force deletes it")
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


# ---- lock ------------------------------------------------------------------------------------------------------------
# ``pyredisson lock``: holds a lock by hand, for a time, with a reason that others can read.


MAX_REASON = 200  # characters


@click.command()
@click.argument("name", type=LockName())
@click.option("--for", "seconds", type=Duration(), required=True, help="For how long.")
@click.option("--reason", required=True, metavar="TEXT", help="Why: others see it in ls, show and their errors.")
@click.option("--wait", type=Duration(zero=True), default="0", help="Wait for the lock at most; 0: try once.")
@json_option()
@server_options
def lock(**options: Any) -> int:
    """Hold the lock NAME by hand, as during an incident: the command ends, and the lock stays held for --for.

    \b
        pyredisson lock nightly-report --for 30m --reason "INC-42: the disk is full"

    It prints the command that frees the lock before. Interrupted while it waits, it holds nothing.

    \b
    Exit code:
       0  the lock is held
       2  wrong usage
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  the URL does not fit what answers there: its kind, its database, or it is no Redis
      75  the lock was not acquired within --wait
     130  interrupted: the lock is not held
    """
    return hold_by_hand(**options)


def hold_by_hand(*, name: str, seconds: float, reason: str, wait: float, url: str, prefix: str, as_json: bool) -> int:
    """Run ``pyredisson lock``. Returns the exit code.

    The lease is fixed and outlives this command. Whatever interrupts the command before that is printed releases it.
    """
    if not reason.strip():
        raise BadUsage("--reason must say why: others read it while they wait")
    # By default Ctrl-C ends a command without another word. Here it must not leave a lock held that no one knows of.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    client = connect(url, Config(prefix=prefix, client_name=_user(), presence=False))
    try:
        with client:
            lock, number = client.get_lock(name), current_thread_id()
            began = time.monotonic()
            try:
                if not lock.try_lock(wait, lease_time=seconds):
                    state = held_by(url, name, prefix)
                    state = f"is {state}" if state else "was held a moment ago, and is free now"
                    raise Stopped(ExitCode.NOT_LOCKED, f"{quoted(name)} {state}")
                field = f"{client.id}:{number}"
                _announce(url, prefix, name, client.id, number, seconds, reason)
            except BaseException:
                if lock.is_held_by_current_thread():
                    lock.unlock()
                raise
            for held in client._core.ownerships.held():
                held.clear()  # That the client is closed while it holds the lock is meant so.
    except KeyboardInterrupt:
        raise Stopped(ExitCode.SIGNALLED + signal.SIGINT, "interrupted: the lock is not held") from None
    except ValueError as error:
        raise BadUsage(str(error)) from None
    except (RedissonError, rx.RedisError, OSError) as error:
        if isinstance(error, LockError) and isinstance(error.__cause__, rx.ResponseError):
            raise BadUsage(plain(str(error))) from None  # The name is that of something else.
        raise failure(error, client.url) from None
    left = max(0.0, seconds - (time.monotonic() - began)) if not wait else seconds
    free = unlock_command(quoted(name), field, prefix, "--yes")
    if as_json:
        print_json({"name": name, "owner": field, "free_in_ms": round(1000 * left), "reason": reason, "unlock": free})
    else:
        print(plain(f"{quoted(name)} is held for {duration_text(seconds)}: {reason}"))
        print(plain(f"free it before: {free}"))
    return 0


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "pyredisson-lock"


def _announce(url: str, prefix: str, name: str, client_id: str, number: int, seconds: float, reason: str) -> None:
    """Write a presence entry, so that others see who holds the lock and why. One that is refused changes nothing."""
    lease_ms = round(1000 * seconds)
    hold = {
        "kind": "lock",
        "name": prefix + name,
        "id": number,
        "thread": None,
        "ms": 0,
        "holds": 1,
        "watchdog": False,
        "reason": reason[:MAX_REASON],
    }
    entry = {
        "v": 1,
        "version": __version__,
        "app": _user(),
        "host": socket.gethostname(),
        "pid": None,
        "ttl_ms": lease_ms,
        "period_ms": lease_ms,
        "holds": [hold],
        "waits": [],
        "more": 0,
    }
    text = json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "backslashreplace")
    try:
        with Inspector(url, prefix=prefix) as inspector:
            inspector.announce(presence_key(client_id, prefix), text, lease_ms)
    except rx.ResponseError as error:
        say(f"the reason could not be stored: {describe(error)}")


# ---- permits ---------------------------------------------------------------------------------------------------------
# ``pyredisson permits``: shows how many permits a semaphore has, and sets their number.


NO_SEMAPHORE = 3


@click.command()
@click.argument("name", type=LockName())
@click.option("--set", "total", type=click.IntRange(0, 2**53), metavar="N", help="Set the total, whatever is acquired.")
@click.option(
    "--free", "freed", type=click.IntRange(1, 2**53), metavar="N", help="Release N permits of a holder that is gone."
)
@click.option(
    "--kind",
    metavar="KIND",
    help="What to set: semaphore, or permits if they expire. Needed where nothing in Redis tells that.",
)
@json_option()
@server_options
def permits(
    name: str, total: int | None, freed: int | None, kind: str | None, as_json: bool, url: str, prefix: str
) -> None:
    """Show how many permits the semaphore NAME has in all, and how many are free and taken; or set the total.

    \b
        pyredisson permits printers
        pyredisson permits printers --set 5
        pyredisson permits printers --free 1

    Without --set and --free it changes nothing. Permits that are taken are not touched: if there are more of them than
    N, the number of free ones is negative until enough are released. If the number grows, waiters are woken. The total
    of a semaphore whose permits do not expire is recorded, unless Redisson or an earlier version of pyredisson set
    them.

    --free releases permits without ids, whose holder ended without releasing them (see pyredisson leaks). Redis does
    not know who has them: that the holder is gone is for you to know. If permits have ids, it says how to release one.

    \b
    Exit code:
       0  it was shown, set, or freed
       1  nothing was changed: NAME is something else, its kind or its total is not known, fewer permits are taken, or
          they have ids
       2  wrong usage
       3  there is no such semaphore
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  the URL does not fit what answers there: its kind, its database, or it is no Redis
    """

    sys.exit(show_permits(name, total=total, freed=freed, kind=kind, url=url, prefix=prefix, as_json=as_json))


def show_permits(
    name: str, *, total: int | None, freed: int | None, kind: str | None, url: str, prefix: str, as_json: bool
) -> int:
    """Run ``pyredisson permits``. Returns the exit code."""
    if freed is not None and total is not None:
        raise BadUsage("--free and --set do not go together")
    if kind is not None and (total is None or kind not in _kinds()):
        raise BadUsage(f"--kind goes with --set N, and is {' or '.join(_kinds())}")
    with inspecting(url, prefix) as inspector:
        seen = inspector.lock(name)
        if seen is not None and stored_kinds()[seen.kind].number != "permits":
            words = stored_kinds()[seen.kind].words
            what = f"{'an' if words.startswith('e') else 'a'} {words}"
            raise Stopped(ExitCode.FAILED, f"{quoted(name)} is {what}, not a semaphore")
        foreign = inspector.foreign(name) if seen is None or seen.permits is None else None
        if foreign or (seen is None and kind is None):
            text = f"{quoted(name)} is {foreign or 'no semaphore: it has no permits'}"
            raise Stopped(ExitCode.FAILED if foreign else NO_SEMAPHORE, text)
        if total is not None or freed is not None:
            try:
                if freed is not None:
                    inspector.free_permits(name, freed)
                else:
                    _set_total(name, _kind_to_set(seen, kind), total or 0, url, prefix)
            except (ValueError, RedissonError) as error:
                raise Stopped(ExitCode.FAILED, f"{quoted(name)}: {error}") from None
            seen = inspector.lock(name)
        if seen is None or seen.permits is None:
            raise Stopped(NO_SEMAPHORE, f"{quoted(name)} has no permits: they were never set, or have expired")
        _report_permits(seen, as_json)
        left = 0 if total is None or seen.total is None else seen.total - (seen.permits or 0)
        if left > 0 and seen.taken is None:
            command = shell_command("permits", quoted(name), prefix, f"--free {left}")
            say(f"those permits stay taken. If their holders are gone: {command}")
    return 0


def _kind_to_set(seen: LockView | None, kind: str | None) -> str:
    """Return as permits of which kind the number is to be set. Raises ``ValueError`` if that cannot be."""
    known = None if seen is None or seen.total is None else stored_kinds()[seen.kind].label
    if kind is None and known is None:
        raise ValueError(f"nothing in Redis tells its kind: say --kind {' or '.join(_kinds())}")
    if kind is not None and known not in (None, kind):
        raise ValueError(f"it is of the kind {known}, not {kind}")
    return kind or known or ""


def _set_total(name: str, kind: str, total: int, url: str, prefix: str) -> None:
    """Set the number of permits. Raises ``RedissonError`` if that is not possible."""
    with connect(url, Config(prefix=prefix, presence=False)) as client:
        try:
            getattr(client, f"get_{_kinds()[kind]}")(name).resize(total)
        except ValueError as error:
            raise BadUsage(str(error)) from None


def _kinds() -> dict[str, str]:
    """Return the words of ``get_*`` for semaphores by what lists call them: for each label, the first."""
    found: dict[str, str] = {}
    for each in numbered_kinds().values():
        if each.number == "permits":
            found.setdefault(each.label, each.kind)
    return found


def _report_permits(seen: LockView, in_json: bool) -> None:
    free, taken = seen.permits or 0, seen.taken
    if seen.total is not None:
        taken = seen.total - free if taken is None else taken
        free = seen.total - taken  # Those that have expired and are not available yet are free.
    if in_json:
        print_json({"name": seen.name, "kind": seen.kind, "total": seen.total, "free": free, "taken": taken})
    elif seen.total is None:
        click.echo(plain(f"{quoted(seen.name)}: {free} free; how many there are in all is not recorded"))
    else:
        click.echo(plain(f"{quoted(seen.name)}: {seen.total} permits, {free} free, {taken} taken"))
