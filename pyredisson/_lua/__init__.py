"""The Lua scripts, one a file. A line ``-- include: name`` stands for the block ``shared/name.lua`` without its header,
a line ``-- attempt: name`` for a function ``attempt`` that is the script ``name.lua``, and ``$NAME`` for a word of the
wait queue (see :mod:`pyredisson._core.names`).

Scripts for one lock begin with the same arguments: KEYS 1 lock, 2 epoch of the owner; ARGV 1 owner, 2 epoch, 3 repeat.
Scripts of semaphores and latches: KEYS 1 semaphore or latch, 2 last request of the owner; ARGV 1 number of the request.
Scripts for many locks, and the guards with a fence, have their own order.
The wait queue is the last of KEYS where a script can do without it, for users who may not use it.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from pyredisson._core.names import WORDS

_FOLDER = files(__name__)  # It may be in a zip.
_INCLUDE = re.compile(r"^( *)-- include: (\w+)\n", re.MULTILINE)
_ATTEMPT = re.compile(r"^-- attempt: (\w+)\n", re.MULTILINE)
_WORD = re.compile(r"\$([A-Z_]+)")
_HEADER = re.compile(r"\A(?:--(?! (?:include|attempt): ).*\n)*")


def script_names() -> list[str]:
    """Return the names of all scripts, sorted."""
    return sorted(name for name in _texts() if "/" not in name)


@cache
def _texts() -> dict[str, str]:
    """Return all that is in the folder, by name. Read at once, since no lock may be lost for want of a file later.

    A process may have no descriptor left by then, or no right to the files, or they were replaced by another version's.
    """
    folders = {"": _FOLDER, "shared/": _FOLDER / "shared"}
    found = ((f"{path}{file.name[:-4]}", file) for path, folder in folders.items() for file in folder.iterdir())
    return {name: file.read_text(encoding="utf-8") for name, file in found if file.name.endswith(".lua")}


def script_text(name: str) -> str:
    """Return the text of a script as servers get it, with its shared blocks spliced in."""
    text = _ATTEMPT.sub(_attempt, _texts()[name])
    return _WORD.sub(lambda name: WORDS[name[1]], _INCLUDE.sub(_block, text))


def _attempt(line: re.Match[str]) -> str:
    body = _ATTEMPT.sub(_attempt, _HEADER.sub("", _texts()[line[1]]))
    indented = "".join(f"    {each}" for each in body.splitlines(keepends=True))
    return f"local function attempt()\n{indented}end\n"


def _block(include: re.Match[str]) -> str:
    indent, name = include.groups()
    body = _HEADER.sub("", _texts()[f"shared/{name}"])
    return "".join(f"{indent}{line}" for line in body.splitlines(keepends=True))


# ---- rights ----------------------------------------------------------------------------------------------------------
# Which commands a user of the server needs, for each kind. They are read from its scripts, so that a script that calls
# another command changes this, too.


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


def commands_of(scripts: str) -> frozenset[str]:
    """Return the commands that scripts call whose names match the beginning of a regular expression."""
    texts = [script_text(name) for name in script_names() if re.match(scripts, name)]
    called = r"(?:redis\.p?call|read_typed)\(\s*['\"](\w+)"
    return frozenset(name.lower() for text in texts for name in re.findall(called, text))
