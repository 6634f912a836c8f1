"""``pyredisson permits``: shows how many permits a semaphore has, and sets their number."""

from __future__ import annotations

import sys

import click

from pyredisson import Config, RedissonError
from pyredisson._tools.common import BadUsage, ExitCode, connect, json_option, plain, say, server_options
from pyredisson._tools.completion import complete_names
from pyredisson._tools.tables import inspecting, print_json, quoted
from pyredisson.inspection import LockView
from pyredisson.inspection.model import numbered_kinds, stored_kinds

NO_SEMAPHORE = 3


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
            say(f"{quoted(name)} is {'an' if words.startswith('e') else 'a'} {words}, not a semaphore")
            return ExitCode.FAILED
        foreign = inspector.foreign(name) if seen is None or seen.permits is None else None
        if foreign or (seen is None and kind is None):
            say(f"{quoted(name)} is {foreign or 'no semaphore: it has no permits'}")
            return ExitCode.FAILED if foreign else NO_SEMAPHORE
        if total is not None or freed is not None:
            refusal, wanted = _why_not_free(seen, freed) if freed is not None else _kind_to_set(seen, kind)
            if wanted is not None:
                refusal = _change(name, wanted, total, freed, url, prefix)
            if refusal is not None:
                say(f"{quoted(name)}: {refusal}")
                return ExitCode.FAILED
            seen = inspector.lock(name)
        if seen is None or seen.permits is None:
            say(f"{quoted(name)} has no permits: they were never set, or have expired")
            return NO_SEMAPHORE
        _report(seen, as_json)
    return 0


def _kind_to_set(seen: LockView | None, kind: str | None) -> tuple[str | None, str | None]:
    """Return why the number of permits cannot be set, or as permits of which kind."""
    known = None if seen is None or seen.total is None else stored_kinds()[seen.kind].label
    if kind is None and known is None:
        return f"nothing in Redis tells its kind: say --kind {' or '.join(_kinds())}", None
    if kind is not None and known not in (None, kind):
        return f"it is of the kind {known}, not {kind}", None
    return None, kind or known


def _why_not_free(seen: LockView | None, freed: int) -> tuple[str | None, str | None]:
    """Return why permits cannot be released for others, or as permits of which kind."""
    if seen is None:
        return None, None
    if seen.taken is not None:
        return "its permits are released by their ids, or expire: wait until they do", None
    if seen.total is not None and freed > (taken := seen.total - (seen.permits or 0)):
        return f"only {taken} of its permits are taken, not {freed}", None
    return None, stored_kinds()[seen.kind].label


def _change(name: str, kind: str, total: int | None, freed: int | None, url: str, prefix: str) -> str | None:
    """Set the number of permits, or release some. Returns why that is not possible, if so."""
    try:
        with connect(url, Config(prefix=prefix, presence=False)) as client:
            semaphore = getattr(client, f"get_{_kinds()[kind]}")(name)
            semaphore.resize(total) if freed is None else semaphore.release(freed)
    except RedissonError as error:
        return str(error)
    except ValueError as error:
        raise BadUsage(str(error)) from None
    return None


def _kinds() -> dict[str, str]:
    """Return the words of ``get_*`` for semaphores by what lists call them: for each label, the first."""
    found: dict[str, str] = {}
    for each in numbered_kinds().values():
        if each.number == "permits":
            found.setdefault(each.label, each.kind)
    return found


def _report(seen: LockView, in_json: bool) -> None:
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


# ---- permits ---------------------------------------------------------------------------------------------------------
# ``pyredisson permits``: its arguments.


@click.command()
@click.argument("name", shell_complete=complete_names)
@click.option("--set", "total", type=click.IntRange(0, 2**53), metavar="N", help="Set the total, whatever is acquired.")
@click.option(
    "--free", "freed", type=click.IntRange(1, 2**53), metavar="N", help="Release N permits of a holder that is gone."
)
@click.option(
    "--kind",
    metavar="KIND",
    help="What to set: semaphore, or permits if they expire. Needed where nothing in Redis tells that.",
)
@json_option
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

    --free releases permits that never expire, and whose holder ended without releasing them (see pyredisson leaks).
    Redis does not know who has them: that the holder is gone is for you to know.

    \b
    Exit code:
       0  it was shown, set, or freed
       1  nothing was changed: NAME is something else, its kind or its total is not known, or fewer permits are taken
       2  wrong usage
       3  there is no such semaphore
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  what answers there is one node of a cluster, or no Redis at all
    """

    sys.exit(show_permits(name, total=total, freed=freed, kind=kind, url=url, prefix=prefix, as_json=as_json))
