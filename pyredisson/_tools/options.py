"""Options that many commands have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from pyredisson._net.urls import DEFAULT_URL

F = TypeVar("F", bound=Callable[..., Any])


def json_option(command: F) -> F:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")(command)


url_option = click.option(
    "--url",
    default=DEFAULT_URL,
    show_default=True,
    envvar="PYREDISSON_URL",
    show_envvar=True,
    help="A server (redis://, rediss:// or unix://), sentinels (redis+sentinel://) or a cluster (redis+cluster://).",
)


def server_options(command: F) -> F:
    """Add ``--url`` and ``--prefix``."""
    prefix = click.option("--prefix", default="", metavar="TEXT", help="Config.prefix of the programs.")
    return url_option(prefix(command))
