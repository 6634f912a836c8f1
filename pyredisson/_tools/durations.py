"""Durations as users type them (``5s``, ``10m``, ``1h30m``; a plain number is seconds), and as we show them."""

from __future__ import annotations

import math
import re
from typing import Any

import click

#: Seconds of each unit, the largest first: the order in which they are written.
UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}

MAX_SECONDS = 100 * 365 * UNITS["d"]

_NUMBER = r"(\d+(?:\.\d*)?|\.\d+)"
_PLAIN = re.compile(_NUMBER, re.ASCII)
_PARTS = re.compile("".join(rf"(?:{_NUMBER}{unit}\s*)?" for unit in UNITS), re.ASCII)

EXAMPLES = "such as 5s, 10m or 1h30m; a plain number is seconds"


def parse_duration(text: str) -> float:
    """Return a duration in seconds: ``"90"``, ``"1.5m"``, ``"1h30m"``, ``"250ms"``; the largest unit first.

    Raises:
        ValueError: The text is not a duration, or one of more than a hundred years.
    """
    text = text.strip()
    if _PLAIN.fullmatch(text):
        total = float(text)
    else:
        parts = _PARTS.fullmatch(text)
        if not text or parts is None:
            raise ValueError(f"{text!r} is not a duration, {EXAMPLES}")
        # Rounded: 1.1 m is 66 s, although its binary fraction is a little more.
        total = round(
            sum(float(part or 0) * unit for part, unit in zip(parts.groups(), UNITS.values(), strict=True)), 9
        )
    if not total <= MAX_SECONDS:
        raise ValueError(f"{text!r} is longer than 100 years")
    return total


def duration_text(seconds: float) -> str:
    """Return a duration for people, in one or two units: ``0.25 s``, ``41 s``, ``6 m 2 s``, ``3 d 4 h``."""
    seconds = max(0.0, seconds)
    if not math.isfinite(seconds):
        return "forever"
    if seconds < 9.95:
        return f"{seconds:.2g} s" if seconds >= 0.001 else "0 s"
    left = round(seconds)
    if left < 60:
        return f"{left} s"
    if left >= 10 * 3600:
        left = round(left / 60) * 60  # No seconds are shown; do not cut them off.
    pairs = [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)]
    first = next(index for index, (_, size) in enumerate(pairs) if left >= size)
    (unit, size), (lower, lower_size) = pairs[first : first + 2]
    rest = left % size // lower_size
    return f"{left // size} {unit}" + (f" {rest} {lower}" if rest else "")


class Duration(click.ParamType):  # type: ignore[type-arg]  # Not generic before click 8.5.
    """An option's duration, in seconds for the command.

    Args:
        zero: Whether it may be 0.
        least: The seconds that it must last at least.
    """

    name = "duration"

    def __init__(self, *, zero: bool = False, least: float = 0) -> None:
        self._zero = zero
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds, or fail with a message for the user."""
        try:
            seconds = float(value) if isinstance(value, (int, float)) else parse_duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if seconds <= 0 and not self._zero:
            self.fail(f"must be longer than 0, {EXAMPLES}", param, ctx)
        if seconds < self._least:
            self.fail(f"must be at least {duration_text(self._least)}", param, ctx)
        return seconds
