"""``pyredisson watch``: its arguments."""

from __future__ import annotations

from typing import Any

import click

from pyredisson._tools.completion import complete_names
from pyredisson._tools.options import server_options


@click.command(short_help="Show what happens to locks, as it happens.")
@click.argument("names", nargs=-1, required=True, metavar="NAME...", shell_complete=complete_names)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object for each event.")
@server_options
def watch(**options: Any) -> int:
    """Show when locks are acquired, released, expire, or are freed by force: a line each, until Ctrl-C. Only reads.

    \b
        pyredisson watch order:17 order:18
        pyredisson watch nightly-report --json | jq .event

    Releases and expiries are seen as they happen. Acquires too, if the server sends keyspace notifications; otherwise a
    hold of less than a second may be seen only by its release.

    \b
    Exit code:
       0  the reader of the output has gone
       2  wrong usage
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  what answers there is one node of a cluster, or no Redis at all
    """
    from pyredisson._tools.watch.run import run_watch

    return run_watch(**options)
