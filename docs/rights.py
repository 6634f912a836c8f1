"""Write what a user of the server needs, from the scripts and the tools.

``python docs/rights.py`` writes ``docs/_generated/rights.md``; a test says when it is stale.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from pyredisson._shared import rights  # noqa: E402

FILE = HERE / "_generated" / "rights.md"
USER = "ACL SETUSER locks"


def page() -> str:
    """Return the page."""
    rules = rights.rules_of("plain lock")
    commands = [each for each in rules if each.startswith("+")]
    keys = [each for each in rules if each.startswith("~")]
    channels = [each for each in rules if each.startswith("&")]
    lines = [
        "```text",
        f"{USER} on >secret resetkeys resetchannels -@all",
        *(f"{USER} {' '.join(each)}" for each in (commands[:14], commands[14:], keys, channels)),
        "```",
        "",
        "For other kinds, in addition:",
        "",
        "| kind | permissions |",
        "| --- | --- |",
        *(f"| {kind} | {cell(rights.rules_of(kind))} |" for kind in rights.KINDS if kind != "plain lock"),
        "",
        "For the tools, `client.inspect()` and its like, and the exporter, which only read; a user of their own needs",
        "nothing else:",
        "",
        "| for | permissions |",
        "| --- | --- |",
        f"| `ls`, `show`, `why`, `clients`, `leaks`, `web`, `permits`, `metrics` | {cell(tools())} |",
        f"| `watch` and `top`, in addition | {cell([*rights.as_rules(rights.WATCH), '&*'])} |",
        f"| `doctor`, in addition | {cell([*rights.as_rules(rights.DOCTOR), '&*'])} |",
        f"| `unlock`, in addition | {cell([*rights.as_rules(rights.unlock_commands()), '&*'])} |",
        "",
        "For [names and presence](../reference/config.md#names-and-presence), and for errors that name the holder of a",
        "lock, all of it optional. `client|setinfo` exists since Redis 7.2:",
        "",
        "```text",
        f"{USER} {' '.join(rights.as_rules(rights.NAMES))} ~{' ~'.join(rights.PRESENCE)}",
        f"{USER} {' '.join(rights.as_rules(rights.DIAGNOSIS))} ~{' ~'.join(rights.DIAGNOSIS_KEYS)}",
        "```",
        "",
        "On a cluster, in addition, for clients and tools; the last four exist since Redis 7.0:",
        "",
        "```text",
        f"{USER} {' '.join(rights.as_rules(rights.CLUSTER))}",
        "```",
    ]
    return "\n".join(lines) + "\n"


def tools() -> list[str]:
    """Return the rules of the tools that read."""
    return [*rights.as_rules(rights.INSPECTION), "~*"]


def cell(rules: list[str]) -> str:
    """Return rules as a cell of a table, in which a bar would end it."""
    return f"`{' '.join(rules)}`".replace("|", "\\|") if rules else "nothing"


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
