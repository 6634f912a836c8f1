"""How long ``import pyredisson`` takes, next to ``import redis``."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from .report import Figure, at_most, show
from .rounds import Tournament, median_of, median_ratio

__all__ = ["import_time"]

REDIS, PYREDISSON, CLIENT = "import redis", "import pyredisson", "from pyredisson import Redisson"
STATEMENTS = (
    "pass",
    REDIS,
    PYREDISSON,
    CLIENT,
    "from pyredisson.asyncio import Redisson",
)
ROOT = Path(__file__).parent.parent

PROGRAM = """
from time import perf_counter
begin = perf_counter()
{statement}
print(perf_counter() - begin)
"""


def start(statement: str) -> dict[str, float]:
    """One interpreter that executes the statement and ends."""
    program = PROGRAM.format(statement=statement)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))}
    # The bytecode is there, as it is for an installed package; the first start, which is not counted, writes it.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begin = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=True, capture_output=True, text=True)
    whole = time.perf_counter() - begin
    return {"whole ms": whole * 1e3, "import ms": max(float(done.stdout) * 1e3, 1e-3)}


def import_time(*, rounds: int, tournament: Tournament) -> Figure:
    """Interpreters that import one thing each."""
    title = "Import"
    for statement in STATEMENTS:
        start(statement)
    samples = tournament.play(title, STATEMENTS, rounds, start)
    rows = [
        (
            name,
            show(median_of(samples, name, "whole ms")),
            show(median_of(samples, name, "import ms")),
            show(median_ratio(samples, name, REDIS, "whole ms")),
            show(median_ratio(samples, name, REDIS, "import ms")),
        )
        for name in samples
    ]
    claims = [
        at_most("start and import, of redis", median_ratio(samples, PYREDISSON, REDIS, "whole ms"), 1.2, "x"),
        at_most("import alone, of redis", median_ratio(samples, PYREDISSON, REDIS, "import ms"), 1.2, "x"),
        at_most("import of a client, of redis", median_ratio(samples, CLIENT, REDIS, "import ms"), 1.3, "x"),
    ]
    how = (
        f"A new interpreter each time, {rounds} rounds, bytecode written before. "
        "The whole is from the start of the process to its end, nothing subtracted."
    )
    columns = ("statement", "whole ms", "import ms", "whole, of redis", "import, of redis")
    return Figure("import_time", title, how, columns, rows, claims, samples=samples)
