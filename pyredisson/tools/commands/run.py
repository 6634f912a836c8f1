"""``pyredisson run``: its arguments."""

from __future__ import annotations

import sys

import click

from pyredisson.tools.common import DEFAULT_URL, check_posix

__all__ = ["run"]


@click.command(short_help="Run a command while a lock is held.")
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
