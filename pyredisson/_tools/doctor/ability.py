"""Whether a lock can be acquired on a server, now, by this user. Pure: it asks no server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyredisson._shared import rights

if TYPE_CHECKING:
    from pyredisson._tools.doctor.probe import Node

NEARLY_FULL = 0.9  # of the memory or the connections
FEW_PLACES = 10  # for connections; a client needs at least two

#: What a plain lock needs of the server.
NEEDED = rights.KINDS["plain lock"].commands | set(rights.CLIENT) - {"ping", "unsubscribe"}


def obstacles(node: Node) -> Iterator[tuple[bool, str]]:
    """Yield whether no lock can be acquired, and why; otherwise what may soon be so."""
    yield from _memory(node)
    yield from _connections(node)
    yield from _replicas(node)
    yield from _storage(node)
    state = node.state
    if state.get("loading") == "1" or state.get("async_loading") == "1":
        yield True, "it is loading its data: locks are refused until it has finished (LOADING)"
    yield from _permissions(node)


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.lstrip("-").isdecimal() else 0


def _memory(node: Node) -> Iterator[tuple[bool, str]]:
    state = node.state
    most = _number(state.get("maxmemory"))
    used = _number(state.get("used_memory")) - _number(state.get("mem_not_counted_for_evict"))
    if not most or used < NEARLY_FULL * most:
        return
    how = f"{used / 2**20:.1f} of {most / 2**20:.1f} MiB"
    if used >= most and state.get("maxmemory_policy", "noeviction") == "noeviction":
        yield True, f"its memory is full ({how}): each lock is refused (OOM). Raise maxmemory, or delete other data"
    else:
        yield False, f"its memory is nearly full ({how}): raise maxmemory, or give locks a server of their own"


def _connections(node: Node) -> Iterator[tuple[bool, str]]:
    most, used = _number(node.state.get("maxclients")), _number(node.state.get("connected_clients"))
    left = most - used
    if most and (left < FEW_PLACES or used > NEARLY_FULL * most):
        yield (
            left < 1,
            f"{max(0, left)} of {most} places for connections are left: raise maxclients, or find who holds them",
        )


def _replicas(node: Node) -> Iterator[tuple[bool, str]]:
    wanted = _number(node.settings.get("min-replicas-to-write"))
    state = node.state
    good = _number(state.get("min_slaves_good_slaves"))
    if not wanted:
        return
    if state.get("redis_version", "").startswith("6."):
        yield False, "min-replicas-to-write has no effect here: Redis before 7.0 does not check it in scripts"
    elif "min_slaves_good_slaves" in state and good < wanted:
        yield (
            True,
            f"{good} of the {wanted} replicas that min-replicas-to-write demands are there: each lock, renewal and "
            "release is refused (NOREPLICAS)",
        )


def _storage(node: Node) -> Iterator[tuple[bool, str]]:
    state, settings = node.state, node.settings
    if state.get("rdb_last_bgsave_status", "ok") != "ok":
        stops = settings.get("stop-writes-on-bgsave-error", "yes") == "yes" and settings.get("save", "x") != ""
        refuses = ": each lock is refused (MISCONF)" if stops else ""
        yield stops, f"its last save to disk failed{refuses}. Look into its log, and free space on its disk"
    if state.get("aof_enabled") == "1" and state.get("aof_last_write_status", "ok") != "ok":
        yield True, "it cannot write its append-only file: each lock is refused (MISCONF). Free space on its disk"
    if state.get("aof_enabled") == "1" and state.get("aof_last_bgrewrite_status", "ok") != "ok":
        yield False, "its last rewrite of the append-only file failed: the file grows. Look into its log"


def _permissions(node: Node) -> Iterator[tuple[bool, str]]:
    found = node.permissions
    if found is None:
        return
    if missing := sorted(NEEDED.intersection(found.missing)):
        yield True, f"it does not know the commands {', '.join(missing)}: they were renamed away; locks need them"
    if denied := sorted(NEEDED.intersection(found.denied)):
        rules = " ".join(f"+{each}" for each in denied)
        yield True, f'this user may not run {", ".join(denied)}: allow {rules} (see "What the server must allow")'
    if node.lock is None:
        return  # Which names this user may use is not known.
    for what, those, sign in (("keys", found.keys, "~"), ("channels", found.channels, "&")):
        if those:
            yield (
                True,
                f"this user may not use the {what} {', '.join(those)} of {node.lock!r}: allow {sign} patterns for them",
            )


def unable(node: Node) -> Iterator[str]:
    """Yield which kinds this user cannot use, and what each lacks: no fault if it is not to use them."""
    found = node.permissions
    if found is None:
        return
    lacking = {*found.denied, *found.missing}
    for kind in rights.KINDS:
        if kind != "plain lock" and (them := sorted((rights.KINDS[kind].commands - NEEDED) & lacking)):
            yield f"{kind}: not for this user, or not on this server (lacks {', '.join(them)})"


def unchecked(node: Node) -> Iterator[str]:
    """Yield what could not be checked, and why."""
    yield from node.unchecked
    found = node.permissions
    if found is not None:
        yield from found.unchecked
        if node.lock is None and (found.keys or found.channels):
            yield "whether this user may use the keys and channels of locks: name one that it is to use by --lock"
