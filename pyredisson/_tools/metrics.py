"""``pyredisson metrics``: its arguments. What needs the extra is in ``exporter.py``."""

from __future__ import annotations

from importlib.util import find_spec

import click

from pyredisson._tools.common import BadUsage, read_address, server_options

SECONDS = click.FloatRange(min=0.0, min_open=True)


@click.command()
@click.option(
    "--listen",
    default=":9464",
    show_default=True,
    metavar="[ADDRESS]:PORT",
    help="Where Prometheus asks for /metrics. Without an address: on all interfaces.",
)
@click.option("--once", is_flag=True, help="Scan once, write the metrics to stdout as OpenMetrics, and exit.")
@click.option(
    "--interval",
    type=SECONDS,
    default=15.0,
    show_default=True,
    metavar="S",
    help="Scan at most once in S seconds, however often the metrics are read.",
)
@click.option(
    "--scan-time",
    type=SECONDS,
    default=5.0,
    show_default=True,
    metavar="S",
    help="Search the keys for at most S seconds; what was found until then is exported.",
)
@click.option(
    "--names",
    metavar="PATTERN",
    help="Export time series of each lock whose name matches, such as 'order:*'.  [default: of none]",
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=50,
    show_default=True,
    help="With --names: how many locks have time series of their own, those held for the longest time first.",
)
@server_options
def metrics(
    listen: str, once: bool, interval: float, scan_time: float, names: str | None, limit: int, prefix: str, url: str
) -> int:
    """Export metrics of the locks that a server stores, seen from outside, to Prometheus. Changes nothing.

    \b
        pyredisson metrics --listen :9464 --url redis://redis.example.com:6379
        pyredisson metrics --once

    Locks of Redisson (Java) and of redis-py are counted, too. A scan runs when the metrics are read and the last one is
    older than --interval; never two at a time. While no server answers, pyredisson_up is 0.

    \b
    Exit code:
       0  ended by SIGTERM or Ctrl-C; with --once: written
       1  cannot listen there
       2  wrong usage, or the extra is missing: pip install "pyredisson[cli,prometheus]"
      69  with --once: no server answers
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  what answers there is one node of a cluster, or no Redis at all
    """
    if find_spec("prometheus_client") is None:
        raise BadUsage('this command needs prometheus-client: pip install "pyredisson[cli,prometheus]"')
    from pyredisson._tools.exporter import Exporter, Scanner, scan_of, serve, write_once

    address = read_address(listen)
    scanner = Scanner(scan_of(url, prefix=prefix, seconds=scan_time), interval, names=names, limit=limit)
    exporter = Exporter(scanner)
    return write_once(exporter, scanner) if once else serve(exporter, address)
