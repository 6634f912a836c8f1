"""The templates, which escape all that they are given, and the functions that they may use."""

from __future__ import annotations

import time
from datetime import datetime, timezone
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from pyredisson import __version__
from pyredisson._tools.web.seen import shorten
from pyredisson.inspection.model import stored_kinds


def duration(seconds: float) -> str:
    """Return a time as people say it: ``41 s``, ``6 min 2 s``, ``3 h 5 min``. ``app.js`` has the same rules."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} min {whole % 60} s"
    if whole < 86_400:
        return f"{whole // 3_600} h {whole % 3_600 // 60} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3_600} h"


def clock(at: float) -> str:
    """Return a time of the day. In the browser, ``app.js`` replaces it by the viewer's own."""
    return datetime.fromtimestamp(at, timezone.utc).strftime("%H:%M:%S UTC")


def ago(at: float) -> str:
    """Return how long ago a Unix time is."""
    return duration(time.time() - at)


def until(at: float) -> str:
    """Return how far away a Unix time is."""
    return duration(at - time.time())


def words(kind: str) -> str:
    """Return a kind as words."""
    known = stored_kinds().get(kind)
    return kind.replace("_", " ") if known is None else known.words


def _finalize(value: object) -> object:
    # Every text that a template prints passes here: no control character, and no text without an end.
    return shorten(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("pyredisson._tools.web"),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # An address and the outline of a drawing are ours, long, and of characters that need no escape but `&`.
    environment.filters.update(drawn=Markup.escape, safe_address=Markup.escape)
    environment.filters.update(ago=ago, until=until, clock=clock, duration=duration, words=words)
    environment.globals.update(version=__version__)
    return environment


def render(template: str, **context: object) -> str:
    """Return what a template makes of some values."""
    return _environment().get_template(template).render(**context)
