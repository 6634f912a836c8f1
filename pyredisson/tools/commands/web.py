"""``pyredisson web``: its arguments."""

from __future__ import annotations

import sys

import click

from pyredisson.tools.common import DEFAULT_URL, BadUsage

__all__ = ["web"]


@click.command(short_help="Show the locks of a server in a browser, live.")
@click.option(
    "--url",
    default=DEFAULT_URL,
    show_default=True,
    envvar="PYREDISSON_URL",
    show_envvar=True,
    help="The server (redis://, rediss:// or unix://), sentinels (redis+sentinel://) or a cluster (redis+cluster://).",
)
@click.option("--prefix", default="", metavar="TEXT", help="Config.prefix of the programs that use the locks.")
@click.option(
    "--listen",
    default="127.0.0.1:8379",
    show_default=True,
    metavar="HOST:PORT",
    help="Where browsers connect. Others than localhost can then read all pages.",
)
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A host name by which browsers may call this program, such as that of a reverse proxy. Addresses, localhost "
    "and this machine's name are allowed.",
)
@click.option(
    "--interval",
    type=click.FloatRange(0.5, 3600),
    default=2.0,
    show_default=True,
    metavar="S",
    help="Look at the server every S seconds while a page is open, once for all pages.",
)
@click.option("--record", is_flag=True, help="Look at it while no page is open, too, so that the history has no gaps.")
@click.option("--allow-unlock", is_flag=True, help="Let viewers who have the token, which is printed, free locks.")
def web(
    url: str,
    prefix: str,
    listen: str,
    hosts: tuple[str, ...],
    interval: float,
    record: bool,
    allow_unlock: bool,
) -> None:
    """Show the locks of a server in a browser, live: holders, waiters, history, clients, and who waits for whom.

    \b
        pyredisson web
        pyredisson web --listen 0.0.0.0:8379 --allow-host locks.example.com

    It only reads, unless --allow-unlock is given. Put a URL with a password into PYREDISSON_URL: other users can read a
    command line. Needs the extra: pip install "pyredisson[web]".

    \b
    Exit code:
       0  Ctrl-C or SIGTERM ended it
       1  the address to listen on is not available
       2  wrong usage, or the extra is not installed
    """
    try:
        from pyredisson.tools.web.server import run_web
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "pyredisson":
            raise
        raise BadUsage(f'{error.name} is not installed: pip install "pyredisson[web]"') from None
    sys.exit(
        run_web(
            url,
            listen=listen,
            prefix=prefix,
            interval=interval,
            record=record,
            allow_unlock=allow_unlock,
            hosts=hosts,
        )
    )
