"""``pyredisson show``: its arguments."""

from __future__ import annotations

from typing import Any

import click

from pyredisson._tools.completion import complete_names
from pyredisson._tools.options import json_option, server_options


@click.command(short_help="Show one lock: its holder, lease, queue and keys.")
@click.argument("name", shell_complete=complete_names)
@json_option
@server_options
def show(**options: Any) -> int:
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
      78  what answers there is one node of a cluster, or no Redis at all
    """
    from pyredisson._tools.showing import show_lock

    return show_lock(**options)
