"""``pyredisson lock``: its arguments."""

from __future__ import annotations

from typing import Any

import click

from pyredisson._tools.completion import complete_names
from pyredisson._tools.durations import Duration
from pyredisson._tools.options import json_option, server_options


@click.command(short_help="Hold a lock by hand for a time.")
@click.argument("name", shell_complete=complete_names)
@click.option("--for", "seconds", type=Duration(), required=True, metavar="TIME", help="For how long.")
@click.option("--reason", required=True, metavar="TEXT", help="Why: others see it in ls, show and their errors.")
@click.option(
    "--wait",
    type=Duration(zero=True),
    default="0",
    metavar="TIME",
    help="Wait for the lock at most; 0: try once.  [default: 0]",
)
@json_option
@server_options
def lock(**options: Any) -> int:
    """Hold the lock NAME by hand, as during an incident: the command ends, and the lock stays held for --for.

    \b
        pyredisson lock nightly-report --for 30m --reason "INC-42: the disk is full"

    It prints the command that frees the lock before. Interrupted while it waits, it holds nothing.

    \b
    Exit code:
       0  the lock is held
       2  wrong usage
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  what answers there is one node of a cluster, or no Redis at all
      75  the lock was not acquired within --wait
     130  interrupted: the lock is not held
    """
    from pyredisson._tools.holding import hold_by_hand

    return hold_by_hand(**options)
