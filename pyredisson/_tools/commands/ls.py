"""``pyredisson ls``: its arguments."""

from __future__ import annotations

from typing import Any

import click

from pyredisson._tools.completion import complete_names
from pyredisson._tools.options import json_option, server_options


@click.command(short_help="List locks, who holds them and who waits.")
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
    from pyredisson._tools.listing import list_locks

    return list_locks(**options)
