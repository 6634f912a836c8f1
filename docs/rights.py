"""Write what a user of the server needs: which commands, keys and channels, for each kind and for the tools.

``python docs/rights.py`` writes ``docs/_generated/rights.md``; a test says when it is stale.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from pyredisson._core.names import (  # noqa: E402
    PRESENCE_KEYS,
    BarrierNames,
    ConditionNames,
    EventNames,
    LatchNames,
    LockNames,
    ReadWriteNames,
    SemaphoreNames,
    elected_channel,
    fence_key,
)
from pyredisson._lua import CLIENT, KINDS, commands_of  # noqa: E402

FILE = HERE / "_generated" / "rights.md"
USER = "ACL SETUSER locks"


#: What a client asks to name the holder in an error.
DIAGNOSIS = ("client|list", "hscan", "llen", "mget", "pubsub|numsub", "pttl", "zcount")
#: And for the names of its connections; the second one since Redis 7.2.
NAMES = ("client|setname", "client|setinfo")
#: In a cluster; those of sharded publish/subscribe since Redis 7.0.
CLUSTER = ("asking", "cluster|slots", "pubsub|shardnumsub", "spublish", "ssubscribe", "sunsubscribe")

#: What the tools, the inspection and the exporter ask.
INSPECTION = (
    *("client|list", "client|setname", "dbsize", "exists", "get", "getrange", "hget", "hlen", "hscan", "hstrlen"),
    *("info", "llen", "lrange", "memory|usage", "ping", "pttl", "pubsub|channels", "pubsub|numsub", "scan", "strlen"),
    *("time", "type", "zcard", "zcount", "zrange", "zscore"),
)
#: What ``watch`` and ``top`` need in addition, to see at once what happens.
WATCH = ("config|get", "psubscribe", "punsubscribe", "subscribe", "unsubscribe")
#: What ``doctor`` asks in addition: settings, and whether a script may run.
DOCTOR = ("config|get", "eval", "evalsha", "subscribe", "unsubscribe")
#: What ``unlock`` runs in addition: the script of the kind, a guard, and what wakes waiters of other libraries.
UNLOCK_SCRIPTS = "fair_force|lock_force|read_write_lock_force|token_force"
UNLOCK = ("eval", "publish", "type", "hkeys", "lpush", "pexpire")


class Places(NamedTuple):
    """Which keys and channels a kind needs besides those of the plain lock.

    Attributes:
        keys: The patterns of its keys; ``NAMES`` stands for how the locks' names begin.
        channels: How its channels begin; each is a key of a script, too.
        also: Another kind whose keys and channels it needs.
    """

    keys: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    also: str | None = None


_NAME = "NAMES"
_LOCK, _SIDES = LockNames(_NAME), ReadWriteNames(_NAME)
_PERMITS, _EVENT = SemaphoreNames(_NAME), EventNames(_NAME)


def _every(key: str) -> str:
    """Return the pattern of the keys or channels of all names, from that of one."""
    before, _, behind = key.partition(f"{{{_NAME}}}")
    return f"{before}*" if before else f"{{{_NAME}*}}{behind}"


_DONE = _every(_EVENT.done(""))

#: Those of the kinds; those of the plain lock are needed by all.
PLACES = {
    "plain lock": Places(
        keys=(f"{_NAME}*", _every(_LOCK.epoch(""))),
        channels=(_every(_LOCK.channel), _every(_LOCK.waiting)),
    ),
    "fair lock": Places(keys=(_every(_LOCK.queue), _every(_LOCK.timeouts), _every(_LOCK.alive))),
    "fenced lock": Places(keys=(_every(_LOCK.token),)),
    "read-write lock": Places(
        keys=(_every(_SIDES.read_hold("*", 1).removesuffix("1") + "*"),),
        channels=(_every(_SIDES.channel),),
    ),
    "semaphore": Places(
        keys=(_DONE, _every(_PERMITS.total), _every(_PERMITS.taken)), channels=(_every(_PERMITS.channel),)
    ),
    "semaphore with expiring permits": Places(also="semaphore"),
    "latch": Places(keys=(_DONE,), channels=(_every(LatchNames(_NAME).channel),)),
    "event": Places(keys=(_DONE,), channels=(_every(_EVENT.channel),)),
    "condition": Places(keys=(_DONE,), channels=(_every(ConditionNames(_NAME).channel),)),
    "barrier": Places(keys=(_DONE,), channels=(_every(BarrierNames(_NAME).channel),)),
    "bounded semaphore": Places(also="semaphore"),
    "leader election": Places(channels=(_every(elected_channel(_NAME)),), also="fenced lock"),
    "`pyredisson.fencing` in Redis": Places(keys=(_every(fence_key(_NAME)),)),
}

#: The keys that errors name the waiters by, and those of the clients.
DIAGNOSIS_KEYS = (_every(_LOCK.queue),)
PRESENCE = (PRESENCE_KEYS,)


def rules_of(kind: str, names: str = "orders") -> list[str]:
    """Return the rules of a kind, as ``ACL SETUSER`` takes them; of all but the plain lock: what it needs besides.

    Args:
        kind: One of :data:`KINDS`.
        names: How the names of the locks begin.
    """
    of_plain = {*commands_of(KINDS["plain lock"]), *CLIENT}
    commands = of_plain if kind == "plain lock" else commands_of(KINDS[kind]) - of_plain
    each = [PLACES.get(kind, Places())]
    while each[0].also is not None:
        each.insert(0, PLACES[each[0].also])
    keys = [pattern for one in each for pattern in (*one.keys, *one.channels)]
    channels = [pattern for one in each for pattern in one.channels]
    made = [f"~{pattern.replace(_NAME, names)}" for pattern in keys] + [f"&{pattern}" for pattern in channels]
    return [*as_rules(commands), *dict.fromkeys(made)]


def as_rules(commands: Iterable[str]) -> list[str]:
    """Return the rules that allow commands."""
    return [f"+{name}" for name in sorted(set(commands))]


def unlock_commands() -> frozenset[str]:
    """Return what ``pyredisson unlock`` runs in addition to what the tools ask."""
    return commands_of(UNLOCK_SCRIPTS).union(UNLOCK) - set(INSPECTION)


def of_a_prefix(prefix: str) -> list[str]:
    """Return the keys and channels of a tenant: of all kinds, if its names begin with ``Config.prefix``."""
    return [f"~{prefix}*", f"~*{{{prefix}*", f"&*{{{prefix}*"]


def page() -> str:
    """Return the page."""
    rules = rules_of("plain lock")
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
        *(f"| {kind} | {cell(rules_of(kind))} |" for kind in KINDS if kind != "plain lock"),
        "",
        "For the tools, `client.inspect()` and its like, and the exporter, which only read; a user of their own needs",
        "nothing else:",
        "",
        "| for | permissions |",
        "| --- | --- |",
        f"| `ls`, `show`, `why`, `clients`, `leaks`, `web`, `permits`, `metrics` | {cell(tools())} |",
        f"| `watch` and `top`, in addition | {cell([*as_rules(WATCH), '&*'])} |",
        f"| `doctor`, in addition | {cell([*as_rules(DOCTOR), '&*'])} |",
        f"| `unlock`, in addition | {cell([*as_rules(unlock_commands()), '&*'])} |",
        "",
        "For [names and presence](../reference/config.md#names-and-presence), and for errors that name the holder of a",
        "lock, all of it optional. `client|setinfo` exists since Redis 7.2:",
        "",
        "```text",
        f"{USER} {' '.join(as_rules(NAMES))} ~{' ~'.join(PRESENCE)}",
        f"{USER} {' '.join(as_rules(DIAGNOSIS))} ~{' ~'.join(DIAGNOSIS_KEYS)}",
        "```",
        "",
        "On a cluster, in addition, for clients and tools; the last four exist since Redis 7.0:",
        "",
        "```text",
        f"{USER} {' '.join(as_rules(CLUSTER))}",
        "```",
    ]
    return "\n".join(lines) + "\n"


def tools() -> list[str]:
    """Return the rules of the tools that read."""
    return [*as_rules(INSPECTION), "~*"]


def cell(rules: list[str]) -> str:
    """Return rules as a cell of a table, in which a bar would end it."""
    return f"`{' '.join(rules)}`".replace("|", "\\|") if rules else "nothing"


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
