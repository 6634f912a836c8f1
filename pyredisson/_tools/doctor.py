"""``pyredisson doctor``: its arguments, and its report as a table. The examination itself is in ``examination.py``."""

from __future__ import annotations

from collections.abc import Iterator

import click
from click.core import ParameterSource
from rich import box
from rich.table import Table
from rich.text import Text

from pyredisson._net.urls import DEFAULT_URL, listed
from pyredisson._tools.common import duration_text, plain
from pyredisson._tools.examination import Grade, Node, Report, examine, unable, unchecked
from pyredisson._tools.tables import Output


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
        report = examine((*servers, *urls) or (DEFAULT_URL,), lock)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        print(report.as_json())
    else:
        show(report)
    return int(report.grade)


TITLES = ("server", "is", "replicas", "eviction", "persistence", "up for", "round trip", "clock", "locks leaked")


def show(report: Report) -> None:
    """Print the report: a table, then what is wrong."""
    servers = [server for node in report.nodes for server in (node.masters or [node]) if server.error is None]
    console = Output()
    if not console.is_terminal:
        console = Output(width=40 + 40 * len(servers))  # Lines in a file are not folded.
    if servers:  # What is not reachable is a finding, and has nothing to show.
        table = Table(box=box.SIMPLE_HEAD)  # A row for each check: a column for each server fits the screen.
        first, *rows = zip(TITLES, *map(_row, servers), strict=True)
        for title in first:
            table.add_column(Text(title), overflow="fold")
        for row in rows:
            table.add_row(*(Text(plain(cell)) for cell in row))
        console.print(table)
    for line in [line for node in report.nodes for line in _surroundings(node)]:
        console.print(Text(plain(line)), soft_wrap=True)
    for finding in report.findings:
        style = "bold red" if finding.grade is Grade.CRITICAL else "yellow"
        text = f"{finding.node}: {finding.text}" if finding.node else finding.text
        console.print(Text.assemble((f"{finding.grade.name}: ", style), plain(text)), soft_wrap=True)
    if len(report.nodes) > 1:
        verdict = "yes" if report.reachable >= report.needed else "no"
        console.print(f"{report.reachable} of {len(report.nodes)} reachable; majority ({report.needed}): {verdict}")
    for node in servers:
        for text in unable(node):
            console.print(Text(plain(f"{node.url}: {text}"), "dim"), soft_wrap=True)
        if left := list(unchecked(node)):
            console.print(Text(plain(f"{node.url}: not checked: {'; '.join(left)}")), soft_wrap=True)
    if not report.findings:
        console.print(
            "nothing is wrong" + (" as far as was checked" if any(any(unchecked(node)) for node in servers) else "")
        )


def _surroundings(node: Node) -> Iterator[str]:
    """Describe the sentinels and replicas of a server."""
    if (view := node.sentinels) is not None:
        answering = sum(each.error is None for each in view.answers)
        master = listed([view.master]) if view.master is not None else None
        agreeing = sum(each.master == master for each in view.answers)
        names = f"{agreeing} name {master} as master" if master is not None else "none names a master"
        yield f"{node.url}: {answering} of {len(view.answers)} sentinels answer; {names}"
    for server in node.masters or [node]:
        for each in server.replicas:
            behind = "?" if each.behind is None else f"{each.behind} bytes"
            lag = "" if each.lag is None else f", last seen {each.lag} s ago"
            yield f"{server.url}: replica {each.address} is {each.state}, {behind} behind{lag}"


def _row(node: Node) -> list[str]:
    facts = node.facts
    said = ["?"] * 5
    if facts is not None:
        kept = [name for name, kept in (("AOF", facts.aof), ("RDB", node.saves)) if kept]
        said = [
            f"{facts.product} {facts.version} {facts.role}",
            str(facts.replicas),
            facts.eviction or "?",
            "+".join(kept) or ("none" if node.saves is not None else "no AOF"),
            duration_text(facts.uptime),
        ]
    return [
        node.url,
        *said,
        "-" if node.round_trip is None else f"{1000 * node.round_trip:.2f} ms",
        "-" if node.clock is None else f"{round(node.clock, 3) + 0.0:+.3f} s",  # Not -0.000.
        str(node.leaked) + ("" if node.all_seen else f" in {node.keys_seen} keys"),
    ]
