"""``pyredisson demo``: its arguments."""

from __future__ import annotations

from typing import Any

import click

from pyredisson._tools.common import check_posix


@click.command(short_help="Sell seats with and without the lock.")
@click.option("--seats", type=click.IntRange(1, 100_000), default=150, show_default=True, help="Seats in stock.")
@click.option("--workers", type=click.IntRange(2, 64), default=4, show_default=True, help="Processes that sell them.")
@click.option(
    "--url",
    help="Your own server (redis://, rediss:// or unix://).  [default: a private server, stopped at the end]",
)
def demo(**options: Any) -> int:
    """Sell seats from several processes, without the lock and with it, then kill a holder of the lock."""
    check_posix("demo")
    from pyredisson._tools.demo import run_demo

    return run_demo(**options)
