"""Write what the commands say and do about locks of other libraries, from the tests that run each of these.

``python docs/libraries.py`` writes ``docs/_generated/libraries.md``; a test says when it is stale.
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from tests.interop.libraries.cases import CASES, SEMAPHORE, Case  # noqa: E402

FILE = HERE / "_generated" / "libraries.md"


#: What its waiters do once `pyredisson unlock` has freed it, by how they wait.
AFTER_UNLOCK = {
    "by polling": "see it when they ask again",
    "by BLPOP": "are notified by `unlock`",
    "by pub/sub": "are notified by `unlock`",
    "by client-side caching": "are notified by the server",
    "not at all": "there are none",
}


def page() -> str:
    """Return the page."""
    lines = [
        "| library | version | key | value | `ls` and `show` say | `leaks`, if it never expires | its clients wait "
        "| after `unlock`, its waiters |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        *(row(each) for each in (*CASES, SEMAPHORE)),
    ]
    return "\n".join(lines) + "\n"


def row(case: Case) -> str:
    """Return the row of a case."""
    leaks = "with the command that frees it" if case.is_certain else "as a string that may be no lock"
    after = AFTER_UNLOCK[case.waits] if case.freed else "`unlock` refuses it"
    shown = "; ".join([*([f"`{case.held_by} …`"] if case.held_by else []), *case.notes]) or "the host, and since when"
    cells = [case.library, case.version, f"`{case.key}`", case.stores, shown]
    return f"| {' | '.join([*cells, leaks if case.freed else 'not listed', case.waits, after])} |"


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
