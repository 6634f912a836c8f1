"""Which commands a user of the server needs, for each kind.

Those of a kind are read from its scripts, so that a script that calls another command changes this, too.
"""

from __future__ import annotations

import re

from pyredisson._lua import script_names, script_text

#: What a client sends itself: scripts, subscriptions, and questions about a name.
CLIENT = ("eval", "evalsha", "info", "ping", "subscribe", "unsubscribe", "publish", "type", "get")

#: What the documentation calls the kinds, and how the names of their scripts begin: a regular expression.
KINDS = {
    "plain lock": "lock_",
    "fair lock": "fair_",
    "fenced lock": "fenced_",
    "read-write lock": "read_|write_",
    "token lock": "token_",
    "semaphore": "semaphore_|counter_",
    "semaphore with expiring permits": "permit_|semaphore_|counter_",
    "latch": "latch_|counter_",
    "event": "event_",
    "condition": "condition_[lnw]",
    "barrier": "barrier_",
    "bounded semaphore": "bounded_|semaphore_|counter_",
    "`run_once()`, `run --at-least`": "run_once_",
    "leader election": "election_|fenced_",
    "`pyredisson.fencing` in Redis": "fence_",
}

_CALLED = re.compile(r"(?:redis\.p?call|read_typed)\(\s*['\"](\w+)")


def commands_of(scripts: str) -> frozenset[str]:
    """Return the commands that scripts call whose names match the beginning of a regular expression."""
    texts = [script_text(name) for name in script_names() if re.match(scripts, name)]
    return frozenset(name.lower() for text in texts for name in _CALLED.findall(text))
