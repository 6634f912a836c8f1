"""``pyredisson unlock``: its arguments."""

from __future__ import annotations

from typing import Any

import click

from pyredisson._tools.completion import complete_names
from pyredisson._tools.options import json_option, server_options


@click.command(short_help="Free a lock whose holder is stuck or gone.")
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
    from pyredisson._tools.unlocking import unlock_lock

    return unlock_lock(**options)
