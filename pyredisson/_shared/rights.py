"""What a user of the server needs: which commands, keys and channels, for each kind and for the tools.

Commands of kinds are read from their scripts, so that a script that calls another command changes this, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import final

from pyredisson._core.names import (
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
from pyredisson._lua import script_names, script_text

_CALLED = re.compile(r"(?:redis\.p?call|read_typed)\(\s*['\"](\w+)")

#: What a client sends itself: scripts, subscriptions, and questions about a name.
CLIENT = ("eval", "evalsha", "info", "ping", "subscribe", "unsubscribe", "publish", "type", "get")
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


@final
@dataclass(frozen=True)
class Rights:
    """What a kind needs besides the plain lock.

    Attributes:
        scripts: How the names of its scripts begin: a regular expression.
        keys: The patterns of its keys; ``NAMES`` stands for how the locks' names begin.
        channels: How its channels begin; each is a key of a script, too.
        also: Another kind whose rights it needs.
    """

    scripts: str
    keys: tuple[str, ...] = ()
    channels: tuple[str, ...] = ()
    also: str | None = None

    @property
    def commands(self) -> frozenset[str]:
        """The commands that its scripts call."""
        names = [name for name in script_names() if re.match(self.scripts, name)]
        other = KINDS[self.also].commands if self.also else frozenset[str]()
        return frozenset().union(other, *map(called, names))


@cache
def called(script: str) -> frozenset[str]:
    """Return the commands that a script calls."""
    return frozenset(name.lower() for name in _CALLED.findall(script_text(script)))


_NAME = "NAMES"
_LOCK, _SIDES = LockNames(_NAME), ReadWriteNames(_NAME)
_PERMITS, _EVENT = SemaphoreNames(_NAME), EventNames(_NAME)


def _every(key: str) -> str:
    """Return the pattern of the keys or channels of all names, from that of one."""
    before, _, behind = key.partition(f"{{{_NAME}}}")
    return f"{before}*" if before else f"{{{_NAME}*}}{behind}"


_DONE = _every(_EVENT.done(""))

#: What the documentation calls the kinds, and what each needs. The plain lock's are needed by all.
KINDS: dict[str, Rights] = {
    "plain lock": Rights(
        "lock_",
        keys=(f"{_NAME}*", _every(_LOCK.epoch(""))),
        channels=(_every(_LOCK.channel), _every(_LOCK.waiting)),
    ),
    "fair lock": Rights("fair_", keys=(_every(_LOCK.queue), _every(_LOCK.timeouts), _every(_LOCK.alive))),
    "fenced lock": Rights("fenced_", keys=(_every(_LOCK.token),)),
    "read-write lock": Rights(
        "read_|write_",
        keys=(_every(_SIDES.read_hold("*", 1).removesuffix("1") + "*"),),
        channels=(_every(_SIDES.channel),),
    ),
    "token lock": Rights("token_"),
    "semaphore": Rights(
        "semaphore_|counter_", keys=(_DONE, _every(_PERMITS.total)), channels=(_every(_PERMITS.channel),)
    ),
    "semaphore with expiring permits": Rights("permit_|counter_", keys=(_every(_PERMITS.taken),), also="semaphore"),
    "latch": Rights("latch_|counter_", keys=(_DONE,), channels=(_every(LatchNames(_NAME).channel),)),
    "event": Rights("event_", keys=(_DONE,), channels=(_every(_EVENT.channel),)),
    "condition": Rights("condition_[lnw]", keys=(_DONE,), channels=(_every(ConditionNames(_NAME).channel),)),
    "barrier": Rights("barrier_", keys=(_DONE,), channels=(_every(BarrierNames(_NAME).channel),)),
    "bounded semaphore": Rights("bounded_", also="semaphore"),
    "`run_once()`, `run --at-least`": Rights("run_once_"),
    "leader election": Rights("election_", channels=(_every(elected_channel(_NAME)),), also="fenced lock"),
    "`pyredisson.fencing` in Redis": Rights("fence_", keys=(_every(fence_key(_NAME)),)),
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
    rights = KINDS[kind]
    plain = KINDS["plain lock"]
    of_plain = {*plain.commands, *CLIENT}
    commands = of_plain if rights is plain else rights.commands - of_plain
    each = [rights]
    while each[0].also is not None:
        each.insert(0, KINDS[each[0].also])
    keys = [pattern for one in each for pattern in (*one.keys, *one.channels)]
    channels = [pattern for one in each for pattern in one.channels]
    made = [f"~{pattern.replace(_NAME, names)}" for pattern in keys] + [f"&{pattern}" for pattern in channels]
    return [*as_rules(commands), *dict.fromkeys(made)]


def as_rules(commands: Iterable[str]) -> list[str]:
    """Return the rules that allow commands."""
    return [f"+{name}" for name in sorted(set(commands))]


def unlock_commands() -> frozenset[str]:
    """Return what ``pyredisson unlock`` runs in addition to what the tools ask."""
    names = [name for name in script_names() if re.match(UNLOCK_SCRIPTS, name)]
    return frozenset(UNLOCK).union(*map(called, names)) - set(INSPECTION)


def of_a_prefix(prefix: str) -> list[str]:
    """Return the keys and channels of a tenant: of all kinds, if its names begin with ``Config.prefix``."""
    return [f"~{prefix}*", f"~*{{{prefix}*", f"&*{{{prefix}*"]
