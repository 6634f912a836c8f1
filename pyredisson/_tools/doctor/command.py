"""``pyredisson doctor``: its arguments. The examination itself needs no click."""

from __future__ import annotations

import click
from click.core import ParameterSource

from pyredisson._net.urls import DEFAULT_URL
from pyredisson._tools.doctor import run_doctor


@click.command()
@click.argument("servers", nargs=-1, metavar="[URL]...")
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
@click.option(
    "--lock", metavar="NAME", help="A lock that this user is to use: whether it may use its keys and channels."
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole report as JSON.")
def doctor(servers: tuple[str, ...], urls: tuple[str, ...], lock: str | None, as_json: bool) -> int:
    """Inspect the servers that locks are kept on: whether a lock can be acquired there, now, by this user, and what
    endangers the locks. Changes nothing, and says what it could not check.

    Each URL is a server, as with --url.

    \b
        pyredisson doctor --url redis://one:6379 --url redis://two:6379 --url redis://three:6379
        pyredisson doctor --url redis+sentinel://s1:26379,s2:26379,s3:26379/locks

    \b
    Exit code, as monitoring systems expect it:
       0  nothing is wrong
       1  warnings: a setting that endangers locks, a single server that stores nothing on disk, one of several nodes or
          a sentinel that is not reachable, no replica to take over, locks that never expire, memory or connections that
          are nearly used up, clocks that differ
       2  critical: no server, one that refuses locks (its memory, replicas, saves, or the permissions of this user),
          no quorum, a replica, the same server twice, sentinels that name different masters, slots that no node serves,
          one node of a cluster by itself; or wrong usage
    """
    if servers and click.get_current_context().get_parameter_source("urls") is ParameterSource.ENVIRONMENT:
        urls = ()  # What is typed goes before.
    try:
        return run_doctor((*servers, *urls) or (DEFAULT_URL,), as_json=as_json, lock=lock)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
