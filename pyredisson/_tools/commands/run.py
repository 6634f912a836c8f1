"""``pyredisson run``: its arguments."""

from __future__ import annotations

from typing import final

import click

from pyredisson._tools.common import BadUsage, check_posix
from pyredisson._tools.completion import complete_files, complete_names
from pyredisson._tools.durations import Duration
from pyredisson._tools.options import url_option


@final
class Runner(click.Command):
    """A command whose options end where the command begins that it is to run, as those of env(1) and flock(1) do."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options before the name and between the name and the command; the rest is the command's own."""
        ours, rest = self._split(ctx, args)
        if rest and "--" not in ours[-1:]:
            more, command = self._split(ctx, rest[1:])
            ours, rest = [*ours, *more], [*rest[:1], *command]
        options = [each for each in ours if each != "--"]
        return super().parse_args(ctx, [*options, "--", *rest])

    def _split(self, ctx: click.Context, args: list[str]) -> tuple[list[str], list[str]]:
        """Split arguments before the first one that is no option of ours."""
        ctx.allow_interspersed_args = False
        options = click.Command(None, params=[each for each in self.get_params(ctx) if isinstance(each, click.Option)])
        _, rest, _ = options.make_parser(ctx).parse_args(list(args))
        return args[: len(args) - len(rest)], rest


@click.command(cls=Runner, short_help="Run a command while a lock is held.", options_metavar="[OPTIONS]")
@click.argument("name", shell_complete=complete_names)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_files)
@click.option(
    "--wait",
    type=Duration(zero=True),
    metavar="TIME",
    help="Wait for the lock at most; 0: try once.  [default: no limit]",
)
@click.option(
    "--lease", type=Duration(), metavar="TIME", help="Hold the lock at most.  [default: until the command ends]"
)
@click.option(
    "--grace",
    type=Duration(zero=True),
    default="5s",
    show_default=True,
    metavar="TIME",
    help="After the lock is lost, the time from SIGTERM to SIGKILL.",
)
@click.option(
    "--watchdog",
    type=Duration(least=0.1),
    default="30s",
    show_default=True,
    metavar="TIME",
    help="Without --lease: how long the lock stays held after this machine has failed.",
)
@click.option(
    "-n", "permits", type=click.IntRange(min=1), metavar="N", help="Let N run at the same time (a semaphore)."
)
@click.option("--shared", is_flag=True, help="Hold the read side of a read-write lock, as all others with --shared.")
@click.option("--exclusive", is_flag=True, help="Hold the write side of that lock, alone.")
@click.option("--fenced", is_flag=True, help="Pass a fencing token to the command, in PYREDISSON_TOKEN.")
@click.option(
    "--at-least",
    type=Duration(),
    metavar="TIME",
    help="Run it once: not again before this time after its start, on any machine. Needs --lease.",
)
@click.option("-v", "--verbose", is_flag=True, help="Say who holds the lock while waiting, and when it was acquired.")
@url_option
def run(
    name: str,
    command: tuple[str, ...],
    wait: float | None,
    lease: float | None,
    grace: float,
    watchdog: float,
    permits: int | None,
    shared: bool,
    exclusive: bool,
    fenced: bool,
    at_least: float | None,
    verbose: bool,
    url: str,
) -> int:
    """Run COMMAND while the lock NAME is held, like flock(1) across machines.

    \b
        pyredisson run nightly-report --wait 0 ./report.sh --all
        pyredisson run deploy -n 3 -v --wait 10m ./deploy.sh
        pyredisson run nightly-report --lease 1h --at-least 10m ./report.sh

    Options after COMMAND are its own. A TIME is 5s, 10m or 1h30m; a plain number is seconds. The command finds the name
    in PYREDISSON_LOCK. Signals are forwarded to it, and the lock is released when it has ended. Put a URL with a
    password into PYREDISSON_URL: other users can read a command line. Needs a POSIX system.

    All who use a NAME have to use it for the same kind of lock: without an option, with --shared or --exclusive, with
    --fenced, or with -n and the same N. Another N is accepted while no command runs, and wrong usage otherwise. With
    --at-least in a cron job on many machines it runs on one, although their clocks differ; the others exit with 75.

    \b
    Exit code: the command's own (128 + n if signal n ended it), or
       2  wrong usage
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  what answers there is one node of a cluster, or no Redis at all
      75  the lock was not acquired within --wait
      76  the lock was lost, or --lease ended, while the command ran; the command was ended
     126  the command is not executable
     127  the command was not found
    """
    check_posix("run")
    chosen = {"permits": permits is not None, "shared": shared, "exclusive": exclusive, "fenced": fenced}
    chosen["once"] = at_least is not None
    if sum(chosen.values()) > 1:
        raise BadUsage("only one of -n, --shared, --exclusive, --fenced and --at-least can be used")
    if at_least is not None:
        if lease is None or lease < at_least:
            raise BadUsage("--at-least needs --lease, at least as long: the time after which a crash frees the name")
        wait = wait or 0  # Who comes later skips it.
    from pyredisson._tools.run import Times, run_command
    from pyredisson._tools.run_modes import Mode

    kind = next((each for each, is_chosen in chosen.items() if is_chosen), "lock")
    return run_command(
        name,
        command,
        url=url,
        mode=Mode(kind, permits or 1, at_least or 0, lease or 0),  # type: ignore[arg-type]
        times=Times(wait, lease, grace, watchdog),
        verbose=verbose,
    )
