"""``pyredisson why``: its arguments."""

from __future__ import annotations

from typing import Any

import click

from pyredisson._tools.completion import complete_names
from pyredisson._tools.options import json_option, server_options


@click.command(short_help="Say why a lock is not free; find deadlocks.")
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
    from pyredisson._tools.showing import explain_waits

    return explain_waits(**options)
