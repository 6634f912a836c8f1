"""``pyredisson top``: its arguments."""

from __future__ import annotations

from typing import Any

import click

from pyredisson._tools.completion import complete_names
from pyredisson._tools.options import server_options


@click.command(short_help="Show the busiest locks, once a second.")
@click.argument("pattern", required=False, shell_complete=complete_names)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a round.")
@click.option(
    "--rounds", type=click.IntRange(min=1), metavar="N", help="End after N rounds.  [default: at q or Ctrl-C]"
)
@server_options
def top(**options: Any) -> int:
    """Show the locks with the most waiters, releases and the longest holds, once a second. Only reads.

    \b
        pyredisson top
        pyredisson top 'order:*' --json --rounds 60

    PATTERN is one of SCAN, such as 'order:*'. In a pipe a record is printed each round, and no table is drawn. Releases
    are counted by their messages: those of spin locks and token locks send none. Waits are those that go on and that
    clients report, which they do after a few seconds. Locks are searched for less often than once a second, so that the
    search takes at most a twentieth of the time.

    \b
    Exit code:
       0  it was ended by q, after N rounds, or by the reader of its output
       2  wrong usage
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  what answers there is one node of a cluster, or no Redis at all
    """
    from pyredisson._tools.top.run import run_top

    return run_top(**options)
