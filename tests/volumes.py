"""How much a test does that could run for ever: little usually, much for ``make test-full``."""

from typing import Protocol


class Volume(Protocol):
    """``volume(usual, full=...)``: how many seeds, steps or hand-overs to run, usually and with ``--full``."""

    def __call__(self, usual: int, *, full: int) -> int: ...
