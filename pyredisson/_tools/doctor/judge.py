"""What is wrong with servers that were probed. Pure: it asks no server."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import final

from pyredisson._core.server import complaints, lack_of_persistence
from pyredisson._shared import rights
from pyredisson._tools.doctor.probe import Node, SentinelView

MAX_CLOCK_DIFFERENCE = 1.0  # seconds; times to live are measured by these clocks
MAX_REPLICA_LAG = 5  # seconds; replicas report once a second
LOOPBACK = {"127.0.0.1", "::1", "localhost"}
RECENT_START = 60  # seconds; a server that has just started may have forgotten locks that are held


class Grade(IntEnum):
    """How bad a finding is; also the exit code."""

    OK = 0
    WARNING = 1
    CRITICAL = 2


@final
@dataclass(frozen=True)
class Finding:
    """Something that endangers locks.

    Attributes:
        grade: How bad it is.
        node: The server's URL, password masked; ``None`` if it concerns all servers.
        text: What is wrong, and what to do.
    """

    grade: Grade
    node: str | None
    text: str


@final
@dataclass(frozen=True)
class Report:
    """What was seen, and what is wrong.

    Attributes:
        nodes: The servers, in the order of the URLs.
        findings: What is wrong, the worst first.
        reachable: How many servers answered.
        needed: How many of them a quorum needs.
    """

    nodes: Sequence[Node]
    findings: Sequence[Finding]
    reachable: int
    needed: int

    @property
    def grade(self) -> Grade:
        """The grade of the worst finding."""
        return max((finding.grade for finding in self.findings), default=Grade.OK)

    def as_json(self) -> str:
        """Return the whole report as JSON."""
        findings = [{**asdict(finding), "grade": finding.grade.name.lower()} for finding in self.findings]
        return json.dumps(
            {
                "grade": self.grade.name.lower(),
                "reachable": self.reachable,
                "needed": self.needed,
                "nodes": [asdict(node) for node in self.nodes],
                "findings": findings,
            },
            indent=2,
        )


def judge(nodes: Sequence[Node]) -> Report:
    """Find what is wrong with these servers, each alone and all together."""
    several = len(nodes) > 1
    reachable = [node for node in nodes if node.error is None]
    needed = len(nodes) // 2 + 1
    findings = [finding for node in nodes for finding in _judge_node(node, several=several)]
    if several:
        findings += _judge_all(nodes, reachable, needed)
    else:
        findings += [each for node in reachable for each in _judge_alone(node)]
    findings.sort(key=lambda finding: -finding.grade)
    return Report(nodes, findings, len(reachable), needed)


def _warning(node: Node | None, text: str) -> Finding:
    return Finding(Grade.WARNING, node.url if node else None, text)


def _critical(node: Node | None, text: str) -> Finding:
    return Finding(Grade.CRITICAL, node.url if node else None, text)


def _judge_node(node: Node, *, several: bool) -> Iterator[Finding]:
    if node.sentinels is not None:
        yield from _judge_sentinels(node, node.sentinels)
    if node.masters is not None:
        yield from _judge_cluster(node, node.masters)
    elif node.error is not None:
        what = "it answers, and refuses" if node.refused else "not reachable"
        yield (_warning if several else _critical)(node, f"{what}: {node.error}")
    else:
        for is_certain, text in obstacles(node):
            yield (_critical if is_certain and not several else _warning)(node, text)
        yield from _judge_settings(node, several=several)
        yield from _judge_access(node)
        if node.leaked:
            names = ", ".join(node.samples) + (", ..." if node.leaked > len(node.samples) else "")
            yield _warning(
                node,
                f"{node.leaked} locks never expire ({names}): their expiry was removed, or a client that is not "
                "Redisson wrote them. pyredisson leaks and pyredisson show NAME say who holds them, and "
                "pyredisson unlock NAME frees them",
            )


def _judge_settings(node: Node, *, several: bool) -> Iterator[Finding]:
    facts = node.facts
    if facts is None:
        yield _warning(node, "its settings are unknown: permit this user to run INFO")
        return
    for complaint in complaints(facts):
        if complaint.setting != "role":
            yield _warning(node, complaint.text)
        elif node.sentinels is None:
            yield _critical(node, complaint.text)
        else:
            yield _critical(
                node,
                "the master that the sentinels report is a replica: they are out of date, or cannot agree on a master",
            )
    if several and (lack := lack_of_persistence(facts)) is not None:
        yield _warning(node, lack.text)
    if several and facts.run_id and facts.uptime < RECENT_START:
        yield _warning(
            node,
            f"it was started {facts.uptime} s ago and may have forgotten locks that are held: keep a restarted node "
            "out of use for longer than the longest lease",
        )


def _judge_access(node: Node) -> Iterator[Finding]:
    """Judge who can reach it, and whether it is who it says."""
    if node.part_of_a_cluster:
        yield _critical(node, "it is one node of a cluster, and refuses most locks: use redis+cluster://host:port")
    if node.tls_unverified:
        yield _warning(node, "its certificate is not verified (ssl_cert_reqs=none): another server may take its place")
    login = node.url.partition("://")[2].rpartition("@")[0]
    listens = set(node.settings.get("bind", "").replace("-", "").split()) - LOOPBACK
    if not login and listens and node.settings.get("protected-mode") == "no":
        yield _warning(
            node,
            f"it needs no password, and listens on {', '.join(sorted(listens))}: anyone who reaches it can free "
            "locks. Set requirepass or ACL users",
        )


def _judge_alone(node: Node) -> Iterator[Finding]:
    """Judge what endangers a server that has no others to take over."""
    if keeps_nothing(node) and node.sentinels is None and node.masters is None:
        yield _warning(
            node,
            "it stores nothing on disk (persistence none): a restart frees every lock while its holder goes on. Set "
            "'appendonly yes', or keep it stopped for longer than the longest lease",
        )


def _judge_sentinels(node: Node, view: SentinelView) -> Iterator[Finding]:
    named = [each for each in view.answers if each.master is not None]
    for each in view.answers:
        if each.error is not None:
            yield _warning(node, f"sentinel {each.address} is not reachable: {each.error}")
        elif each.master is None and named:
            yield _warning(node, f"sentinel {each.address} does not know {view.service!r}")
    if len({each.master for each in named}) > 1:
        said = "; ".join(f"{each.address} says {each.master}" for each in named)
        yield _critical(
            node,
            f"the sentinels do not agree on the master ({said}): clients may lock on two servers at once. A sentinel "
            "is cut off, or a failover is in progress: run this again, then check the network",
        )
    doubts = next((each.doubts for each in named if each.doubts is not None), None)
    if doubts is not None:
        yield _warning(node, f"the sentinels could not replace the master if it failed ({doubts})")
    if node.error is None:
        yield from _judge_replicas(node, "the")


def _judge_cluster(node: Node, masters: Sequence[Node]) -> Iterator[Finding]:
    if node.unserved:
        yield _critical(node, f"no node serves {node.unserved} of the slots: locks there are refused")
    for master in masters:
        yield from _judge_node(master, several=False)
        if master.error is None:
            yield from _judge_replicas(master, "this")


def keeps_nothing(node: Node) -> bool:
    """Whether a server stores nothing on disk."""
    return node.facts is not None and node.facts.aof is False and node.saves == ""


def _judge_replicas(node: Node, which: str) -> Iterator[Finding]:
    if keeps_nothing(node):
        yield _warning(
            node,
            f"{which} master stores nothing on disk (persistence none): restarted before a replica takes over, it "
            "comes back empty, its replicas copy that, and all locks are free. Set 'appendonly yes'",
        )
    for each in node.replicas:
        if node.clock is not None and each.clock is not None and abs(each.clock - node.clock) > MAX_CLOCK_DIFFERENCE:
            ahead = each.clock - node.clock
            off = f"{abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'}"
            yield _warning(
                node,
                f"the clock of the replica {each.address} is {off} its master's: if it takes over, locks expire too "
                "early or too late. Synchronize both with NTP",
            )
    if node.facts is not None and not node.replicas:
        yield _warning(node, f"no replica follows {which} master: none can take over")
    for each in node.replicas:
        if each.state != "online" or (each.lag or 0) > MAX_REPLICA_LAG:
            since = "" if each.lag is None else f", last seen {each.lag} s ago"
            yield _warning(
                node,
                f"the replica {each.address} does not keep up (it is {each.state!r}{since}): if it took over, locks "
                "would be lost",
            )


def _judge_all(nodes: Sequence[Node], reachable: Sequence[Node], needed: int) -> Iterator[Finding]:
    if len(reachable) < needed:
        yield _critical(None, f"no quorum: {len(reachable)} of {len(nodes)} are reachable, {needed} are needed")
    if len(nodes) % 2 == 0:
        yield _warning(
            None, f"{len(nodes)} nodes survive no more failures than {len(nodes) - 1}: use an odd number of nodes"
        )
    servers: dict[str, str] = {}
    masters: dict[str, str] = {}
    for node in reachable:
        facts = node.facts
        if facts is None:
            continue
        if facts.run_id and facts.run_id in servers:
            yield _critical(node, f"it is the same server as {servers[facts.run_id]}: it must not vote twice")
        elif facts.replication_id and facts.replication_id in masters:
            yield _critical(
                node,
                f"it has its data from the same master as {masters[facts.replication_id]}: nodes must be independent",
            )
        servers.setdefault(facts.run_id, node.url)
        masters.setdefault(facts.replication_id, node.url)
    clocks = sorted((node.clock, node.url) for node in reachable if node.clock is not None)
    if clocks and (difference := clocks[-1][0] - clocks[0][0]) > MAX_CLOCK_DIFFERENCE:
        yield _warning(
            None,
            f"the clock of {clocks[-1][1]} is {difference:.1f} s ahead of that of {clocks[0][1]}: synchronize both "
            "with NTP, without steps",
        )


# ---- ability ---------------------------------------------------------------------------------------------------------
# Whether a lock can be acquired on a server, now, by this user. Pure: it asks no server.


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
