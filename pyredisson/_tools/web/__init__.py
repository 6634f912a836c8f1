"""``pyredisson web``: pages that show the locks of a server live. Needs the extra ``web``.

* ``watcher.py`` looks at the server, once for all viewers, while there are any, turns snapshots of the inspection
  library into what pages show, and remembers them, within bounds.
* ``pages.py`` renders a page in parts, so that an event contains those that changed.
* ``app.py`` decides which requests are answered, answers them, and runs the site.

What comes from Redis reaches a page through the templates alone, which escape it (``pages.py``).
"""

from __future__ import annotations

from typing import Any

import click

from pyredisson._tools.common import BadUsage, Duration, server_options

LEAST, MOST = 0.5, 3600.0  # seconds from one look to the next


def _refuse_port(context: click.Context, option: click.Parameter, port: int | None) -> None:
    """Say how the port is given. A callback of click's."""
    if port is not None:
        raise BadUsage(f"there is no option --port: use --listen 127.0.0.1:{port}")


@click.command()
@click.option(
    "--listen",
    default="127.0.0.1:8379",
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
    type=Duration(),
    default="2s",
    help="Look at the server at most this often while a page is open, once for all pages; 0.5s at least.",
)
@click.option("--port", type=int, hidden=True, expose_value=False, callback=_refuse_port)
@click.option("--record", is_flag=True, help="Look at it while no page is open, too, so that the history has no gaps.")
@click.option("--allow-unlock", is_flag=True, help="Let viewers who have the token, which is printed, free locks.")
@server_options
def web(**options: Any) -> int:
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
    if not LEAST <= options["interval"] <= MOST:
        raise BadUsage("--interval must be from 0.5s to 1h")
    try:
        from pyredisson._tools.web.app import run_web
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "pyredisson":
            raise
        raise BadUsage(f'{error.name} is not installed: pip install "pyredisson[web]"') from None
    return run_web(**options)
