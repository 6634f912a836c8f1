"""``pyredisson leaks``: its arguments."""

from __future__ import annotations

from typing import Any

import click

from pyredisson._tools.completion import complete_names
from pyredisson._tools.options import json_option, server_options


@click.command(short_help="Find locks that no one will release.")
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
    from pyredisson._tools.listing import list_leaks

    return list_leaks(**options)
