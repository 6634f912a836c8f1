"""``pyredisson clients``: its arguments."""

from __future__ import annotations

from typing import Any

import click

from pyredisson._tools.options import json_option, server_options


@click.command(short_help="List the clients, and how much they hold.")
@json_option
@server_options
def clients(**options: Any) -> int:
    """List the clients of pyredisson that are connected or report holds: application, host, pid. Changes nothing.

    \b
        pyredisson clients

    Clients of Redisson (Java) and of older versions do not say who they are, and are not listed.

    \b
    Exit code:
       0  the clients were listed
       2  wrong usage
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  what answers there is one node of a cluster, or no Redis at all
    """
    from pyredisson._tools.listing import list_clients

    return list_clients(**options)
