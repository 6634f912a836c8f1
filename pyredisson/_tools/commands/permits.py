"""``pyredisson permits``: its arguments."""

from __future__ import annotations

import sys

import click

from pyredisson._tools.completion import complete_names
from pyredisson._tools.options import json_option, server_options


@click.command(short_help="Show how many permits a semaphore has, or set their number.")
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
    from pyredisson._tools.permits import show_permits

    sys.exit(show_permits(name, total=total, freed=freed, kind=kind, url=url, prefix=prefix, as_json=as_json))
