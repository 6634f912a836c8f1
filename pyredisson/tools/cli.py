"""The arguments of the command line. The commands are in :mod:`pyredisson.tools.run`, :mod:`.demo` and :mod:`.doctor`.

Each is imported when it is called, so that ``pyredisson run`` starts fast.
"""

from __future__ import annotations

import sys

import click

from pyredisson import __version__
from pyredisson.tools.common import check_posix

__all__ = ["cli"]

DEFAULT_URL = "redis://localhost:6379"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="pyredisson")
def cli() -> None:
    """Redisson's distributed locks, from the command line."""


@cli.command(short_help="Run a command while a lock is held.")
@click.argument("name")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option(
    "--wait", type=float, metavar="S", help="Wait at most S seconds for the lock; 0: try once.  [default: no limit]"
)
@click.option(
    "--lease", type=float, metavar="S", help="Hold the lock for at most S seconds.  [default: until the command ends]"
)
@click.option(
    "--grace",
    type=float,
    default=5.0,
    show_default=True,
    metavar="S",
    help="After the lock is lost, the time from SIGTERM to SIGKILL.",
)
@click.option(
    "--watchdog",
    type=float,
    default=30.0,
    show_default=True,
    metavar="S",
    help="Without --lease: how long the lock stays held after this machine has failed.",
)
@click.option(
    "--url",
    default=DEFAULT_URL,
    show_default=True,
    envvar="PYREDISSON_URL",
    show_envvar=True,
    help="The server.",
)
def run(
    name: str,
    command: tuple[str, ...],
    wait: float | None,
    lease: float | None,
    grace: float,
    watchdog: float,
    url: str,
) -> None:
    """Run COMMAND while the lock NAME is held, like flock(1) across machines.

    \b
        pyredisson run nightly-report --wait 0 -- ./report.sh --all

    The command finds the name in PYREDISSON_LOCK. Signals are forwarded to it, and the lock is released when it has
    ended. Put a URL with a password into PYREDISSON_URL: other users can read a command line. Needs a POSIX system.

    \b
    Exit code: the command's own (128 + n if signal n ended it), or
       2  wrong usage
      69  the server is not available
      75  the lock was not acquired within --wait
      76  the lock was lost while the command ran; the command was ended
     126  the command is not executable
     127  the command was not found
    """
    check_posix("run")
    from pyredisson.tools.run import run_command

    sys.exit(
        run_command(name, command, url=url, wait_time=wait, lease_time=lease, grace=grace, watchdog_timeout=watchdog)
    )


@cli.command(short_help="Sell seats with and without the lock.")
@click.option("--seats", type=click.IntRange(1, 100_000), default=150, show_default=True, help="Seats in stock.")
@click.option("--workers", type=click.IntRange(2, 64), default=4, show_default=True, help="Processes that sell them.")
@click.option(
    "--url",
    help="Your own server (redis://, rediss:// or unix://).  [default: a private server, stopped at the end]",
)
def demo(seats: int, workers: int, url: str | None) -> None:
    """Sell seats from several processes, without the lock and with it, then kill a holder of the lock."""
    check_posix("demo")
    from pyredisson.tools.demo import run_demo

    sys.exit(run_demo(seats=seats, workers=workers, url=url))


@cli.command(short_help="Inspect the servers that locks are kept on.")
@click.option(
    "--url",
    "urls",
    multiple=True,
    metavar="URL",
    help="A server (redis://, rediss:// or unix://), sentinels (redis+sentinel://) or a cluster (redis+cluster://); "
    f"once for each node of a quorum.  [default: {DEFAULT_URL}]",
    envvar="PYREDISSON_URL",
    show_envvar=True,
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
def doctor(urls: tuple[str, ...], as_json: bool) -> None:
    """Inspect the servers that locks are kept on, and report what endangers the locks. Changes nothing.

    \b
        pyredisson doctor --url redis://one:6379 --url redis://two:6379 --url redis://three:6379
        pyredisson doctor --url redis+sentinel://s1:26379,s2:26379,s3:26379/locks

    \b
    Exit code, as monitoring systems expect it:
       0  nothing is wrong
       1  warnings: a setting that endangers locks, one of several nodes or a sentinel that is not reachable, no replica
          to take over, locks that never expire
       2  critical: no server, no quorum, a replica, the same server twice, sentinels that name different masters,
          slots that no node serves; or wrong usage
    """
    from pyredisson.tools.doctor import run_doctor

    try:
        status = run_doctor(urls or (DEFAULT_URL,), as_json=as_json)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    sys.exit(status)
