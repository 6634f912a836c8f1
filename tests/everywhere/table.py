"""What the last run on every server found, and the tables that the documentation shows of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TypedDict

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "_generated" / "servers.json"
PIECE = ROOT / "docs" / "_generated" / "servers.md"

PARTS = ("threads", "asyncio", "scripts", "cluster", "sentinels")
#: Why not all tests pass, by server: its sentence below the table.
REASONS = {
    "fakeredis-2.41": "an error inside a script has the code `ERR` before its own, so a key of another type is refused "
    "without its name.",
    "miniredis-2.40": "an error inside a script comes as `ERR Error compiling script`, so a key of another type is "
    "refused without its name; a barrier does not open for those who wait. Times to live stand still unless "
    "`FastForward` is called: the tests call it every 2 ms.",
    "jedis-mock-1.1": "`string.format('%.0f', 1)` is `1.0` in scripts, so fenced locks, several permits and resized "
    "semaphores are refused; it replies to a read lock what no server does, which raises an error. It needs "
    "`?protocol=2`.",
}


class Part(TypedDict):
    passed: int
    failed: list[str]


class Row(TypedDict):
    id: str
    version: str
    date: str
    imitation: bool
    parts: dict[str, Part]


class Python(TypedDict):
    version: str
    date: str
    passed: int
    failed: int


class Results(TypedDict):
    servers: list[Row]
    pythons: list[Python]


def name(id: str) -> str:
    """``redis-8.2`` as a reader writes it."""
    make = id.rpartition("-")[0]
    return {"fakeredis": "fakeredis by TCP", "miniredis": "miniredis (Go)", "jedis-mock": "jedis-mock (Java)"}.get(
        make, make.capitalize()
    )


def cell(part: Part | None) -> str:
    """How many of how many; a "no" counts what passed."""
    if part is None:
        return "-"
    total = part["passed"] + len(part["failed"])
    return f"yes ({total})" if not part["failed"] else f"no: {part['passed']} of {total}"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def piece(results: Results) -> str:
    """The tables of the page, and a sentence for each server with a "no"."""
    rows, pythons = results["servers"], results["pythons"]
    servers = [
        [f"{name(row['id'])} {row['version']}", *(cell(row["parts"].get(part)) for part in PARTS), row["date"]]
        for row in rows
    ]
    text = _table(["server", *PARTS, "date"], servers)
    for row in rows:
        if any(part["failed"] for part in row["parts"].values()):
            text += f"\n{name(row['id'])}: {REASONS.get(row['id'], 'not explained yet')}\n"
    versions = [
        [f"CPython {each['version']}", f"yes ({each['passed']})" if not each["failed"] else "no", each["date"]]
        for each in pythons
    ]
    return text + "\n" + _table(["Python", "threads and asyncio", "date"], versions)


def load() -> Results:
    """What the last run found."""
    found: Results = json.loads(RESULTS.read_text(encoding="utf-8"))
    return found


def merge(rows: list[Row], pythons: list[Python]) -> None:
    """Keep what this run found, and what an earlier one found of the others; write the tables."""
    from tests.servers import KNOWN

    results: Results = load() if RESULTS.exists() else {"servers": [], "pythons": []}
    of = {row["id"]: row for row in [*results["servers"], *rows]}
    minor = {each["version"].rpartition(".")[0]: each for each in [*results["pythons"], *pythons]}
    results = {
        "servers": [of[build.id] for build in KNOWN if build.id in of],
        "pythons": [minor[version] for version in sorted(minor)],
    }
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    write(results)


def write(results: Results) -> None:
    """Write the tables into the documentation."""
    PIECE.write_text(piece(results), encoding="utf-8")


if __name__ == "__main__":
    write(load())
