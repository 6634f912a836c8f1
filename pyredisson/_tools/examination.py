"""What ``pyredisson doctor`` asks servers, sentinels and clusters, and what is wrong with them. Needs no click.

It only reads, and never for long.
"""

from __future__ import annotations

import json
import re
import ssl
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from enum import IntEnum
from typing import Any, TypeVar

import redis.exceptions as rx

from pyredisson._core.names import LockNames
from pyredisson._core.server import ServerFacts, complaints, info_fields, lack_of_persistence, read_info
from pyredisson._lua import CLIENT, KINDS, commands_of
from pyredisson._net.urls import listed
from pyredisson._net.wire import Address
from pyredisson.inspection import describe
from pyredisson.inspection.look import Look
from pyredisson.inspection.servers import (
    Command,
    Server,
    Servers,
    answered,
    check_pong,
    encode_name,
    in_parallel,
    read_clock,
    read_info_text,
    read_setting,
    text_of,
)

T = TypeVar("T")

TIMEOUT = 2.0  # seconds for each answer
REPLICA_TIMEOUT = 1.0  # of replicas, whose address may lead nowhere from here
PINGS = 7
MAX_SECONDS = 3.0  # of the search for leaked locks on one server
SAMPLES = 5  # of their names


@dataclass(frozen=True)
class Replica:
    """A replica, as its master reports it.

    Attributes:
        address: Its host and port.
        state: ``"online"`` once it has copied the data and follows.
        behind: How many bytes it is behind; ``None`` if unknown.
        lag: Seconds since its last report; ``None`` if unknown.
        clock: How many seconds its clock is ahead of ours; ``None`` if it could not be asked.
    """

    address: str
    state: str
    behind: int | None
    lag: int | None
    clock: float | None = None


@dataclass(frozen=True)
class SentinelAnswer:
    """What one sentinel answers.

    Attributes:
        address: The sentinel's host and port.
        error: Why it could not be asked; ``None`` if it could.
        master: The address of the master that it names; ``None`` if it does not know the service.
        doubts: Why it could not replace the master (``NOQUORUM``); ``None`` if it could, or does not say.
    """

    address: str
    error: str | None = None
    master: str | None = None
    doubts: str | None = None


@dataclass(frozen=True)
class SentinelView:
    """What the sentinels of a URL answer.

    Attributes:
        service: The service that they are asked for.
        answers: One for each sentinel that the URL names.
        master: The master that most of them name; ``None`` if no sentinel names one.
    """

    service: str
    answers: Sequence[SentinelAnswer]
    master: Address | None


@dataclass
class Node:
    """What was seen of one server, or of one cluster.

    Attributes:
        url: Its URL, password masked.
        error: Why it could not be asked; ``None`` if it could.
        facts: Its reply to ``INFO``; ``None`` if the user may not run that.
        saves: Its ``save`` setting; ``None`` if unknown.
        round_trip: The median time of a ``PING``, in seconds.
        clock: How many seconds its clock is ahead of ours.
        keys_seen: How many keys were searched for leaked locks.
        all_seen: Whether those were all keys.
        leaked: How many locks without an expiry were found.
        samples: The names of the first few of those.
        replicas: Its replicas.
        sentinels: What the sentinels of the URL answer; the node is then the master that most of them name.
        masters: The masters, if the URL is that of a cluster. All else but ``unserved`` is then empty.
        unserved: How many slots no master serves.
        refused: Whether the error is a refusal: it was reached, and answered.
        state: What its reply to ``INFO`` says of whether it takes writes.
        settings: Some of its settings, as far as this user may read them.
        permissions: What this user may not do.
        lock: The name of the lock by which that was asked; ``None``: one that only this tool uses.
        tls_unverified: Whether its certificate is not verified.
        part_of_a_cluster: Whether it is one node of a cluster, without the others.
        unchecked: What could not be checked, and why.
    """

    url: str
    error: str | None = None
    facts: ServerFacts | None = None
    saves: str | None = None
    round_trip: float | None = None
    clock: float | None = None
    keys_seen: int = 0
    all_seen: bool = False
    leaked: int = 0
    samples: list[str] = field(default_factory=list)
    replicas: list[Replica] = field(default_factory=list)
    sentinels: SentinelView | None = None
    masters: list[Node] | None = None
    unserved: int = 0
    refused: bool = False
    state: dict[str, str] = field(default_factory=dict)
    settings: dict[str, str] = field(default_factory=dict)
    permissions: Permissions | None = None
    lock: str | None = None
    tls_unverified: bool = False
    part_of_a_cluster: bool = False
    unchecked: list[str] = field(default_factory=list)

    def warning(self, text: str) -> Finding:
        """Return a finding that concerns it."""
        return Finding(Grade.WARNING, self.url, text)

    def critical(self, text: str) -> Finding:
        """Return a finding that concerns it."""
        return Finding(Grade.CRITICAL, self.url, text)

    def fail(self, error: Exception) -> None:
        """Note why it could not be asked."""
        self.error = text_of(error) if answered(error) == "refused" else describe(error)
        self.refused = answered(error) != "not"


#: What of ``INFO`` is kept.
_STATE = frozenset(
    {
        *("aof_enabled", "aof_last_bgrewrite_status", "aof_last_write_status", "async_loading", "cluster_enabled"),
        *("connected_clients", "loading", "maxclients", "maxmemory", "maxmemory_policy", "mem_not_counted_for_evict"),
        *("min_slaves_good_slaves", "rdb_last_bgsave_status", "redis_version", "used_memory"),
    }
)
#: The settings that are asked for.
_SETTINGS = ("bind", "min-replicas-to-write", "protected-mode", "save", "stop-writes-on-bgsave-error")
#: The name of a lock that no program uses.
OWN_LOCK = "pyredisson-doctor"


def probe(urls: Sequence[str], lock: str | None = None) -> list[Node]:
    """Ask servers, all at the same time. Raises ``ValueError`` for a URL that is not valid, before it asks any.

    Args:
        urls: The servers.
        lock: The name of a lock that this user is to use.
    """
    return in_parallel(lambda each: _probe(each, lock), [Servers(url, TIMEOUT, whole=False) for url in urls])


def _probe(servers: Servers, lock: str | None) -> Node:
    with closing(servers):
        try:
            masters = servers.masters()
        except (rx.RedisError, OSError) as error:
            node = Node(servers.url)
            node.fail(error)
        else:
            if servers.clustered:
                nodes = in_parallel(lambda each: _probe_server(each, servers, lock), masters)
                node = Node(servers.url, masters=nodes, unserved=servers.unserved)
            else:
                node = _probe_server(masters[0], servers, lock)
                node.url = servers.url or node.url
        if servers.sentinels is not None:
            node.sentinels = _view_of(servers, servers.sentinels.service)
    return node


def _probe_server(server: Server, servers: Servers, lock: str | None) -> Node:
    node = Node(server.url, lock=lock)
    node.tls_unverified = server.tls and server.settings.get("ssl_cert_reqs") in ("none", ssl.CERT_NONE)
    try:
        _ping(server)
        node.round_trip = statistics.median(_ping(server) for _ in range(PINGS))
        info = _if_permitted(lambda: read_info_text(server.ask("INFO")))
        if info is not None:
            node.facts = read_info(info, time.monotonic())
            node.replicas = read_replicas(info)
            node.state = {name: value for name, value in info_fields(info).items() if name in _STATE}
            node.part_of_a_cluster = not servers.clustered and node.state.get("cluster_enabled") == "1"
        else:
            node.unchecked.append("memory, connections, replicas and saves (INFO is refused)")
        _read_settings(server, node)
        node.saves = node.settings.get("save")
        node.clock = _if_permitted(lambda: _clock_of(server))
        node.replicas = in_parallel(lambda each: _with_clock(each, server), node.replicas)
        node.unchecked += [f"the clock of the replica {each.address}" for each in node.replicas if each.clock is None]
        if not node.part_of_a_cluster:
            node.permissions = probe_permissions(server, lock or servers.a_name_on(server, OWN_LOCK))
        _search_leaks(server, node)
    except (rx.RedisError, OSError) as error:
        node.fail(error)
    return node


def _read_settings(server: Server, node: Node) -> None:
    questions = [("CONFIG", "GET", each) for each in _SETTINGS]
    replies = server.ask_many(questions, refused=lambda _: None)
    for name, reply in zip(_SETTINGS, replies, strict=True):
        setting = None if isinstance(reply, rx.ResponseError) else read_setting(name, reply)
        if setting is not None:
            node.settings[name] = setting
    if missing := [name for name in _SETTINGS if name not in node.settings]:
        node.unchecked.append(f"the settings {', '.join(missing)} (CONFIG GET is refused)")


def _with_clock(replica: Replica, master: Server) -> Replica:
    host, _, port = replica.address.rpartition(":")
    try:
        with closing(Server(master.endpoint, REPLICA_TIMEOUT, (host.strip("[]"), int(port)))) as server:
            return replace(replica, clock=_clock_of(server))
    except (rx.RedisError, OSError, ValueError):
        return replica


def _if_permitted(ask: Callable[[], T]) -> T | None:
    """Return the answer, or ``None`` if the server refuses: hosted services refuse ``CONFIG``, and ACLs may do more."""
    try:
        return ask()
    except rx.ResponseError:
        return None


def _ping(server: Server) -> float:
    """Return the seconds that a server takes to answer."""
    began = time.perf_counter()
    check_pong(server.ask("PING"))
    return time.perf_counter() - began


def _clock_of(server: Server) -> float:
    began = time.time()
    there = read_clock(server.ask("TIME"))
    return there - (began + time.time()) / 2


def _search_leaks(server: Server, node: Node) -> None:
    """Search for locks that never expire. Raises what went wrong, unless the server refused it."""
    with closing(Servers(server.endpoint, TIMEOUT, whole=False)) as alone:
        look = Look(alone, deadline=time.monotonic() + MAX_SECONDS)
        leaked = [lock.name for lock in look.views() if lock.never_expires]
    for error in (*look.errors, *look.doubts.values()):
        if answered(error) in ("not", "elsewhere"):
            raise error
        node.unchecked.append(f"which locks never expire ({describe(error)})")
    node.keys_seen, node.all_seen, node.leaked = look.keys_seen, look.complete, len(leaked)
    node.samples = [repr(name[:60]) for name in leaked[:SAMPLES]]


def read_replicas(info: bytes) -> list[Replica]:
    """Read the replicas from a master's reply to ``INFO``."""
    fields = info_fields(info)
    offset = _number(fields.get("master_repl_offset"))
    found = []
    for reported in (fields[name] for name in fields if re.fullmatch(r"slave\d+", name)):
        said = dict(part.split("=", 1) for part in reported.split(",") if "=" in part)
        reached = _number(said.get("offset"))
        behind = None if reached is None or offset is None else max(0, offset - reached)
        address = listed([(said.get("ip", "?"), _number(said.get("port")) or 0)])
        found.append(Replica(address, said.get("state", "?"), behind, _number(said.get("lag"))))
    return found


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) < 20 else None


def _view_of(servers: Servers, service: str) -> SentinelView:
    answers = in_parallel(lambda each: _answer_of(*each, service), servers.named)
    named = Counter(master for _, master in servers.named if isinstance(master, tuple)).most_common(1)
    return SentinelView(service, answers, named[0][0] if named else None)


def _answer_of(sentinel: Server, master: Address | Exception | None, service: str) -> SentinelAnswer:
    if not isinstance(master, tuple):
        return SentinelAnswer(sentinel.node, error=None if master is None else describe(master))
    doubts = None
    try:
        sentinel.ask("SENTINEL", "CKQUORUM", service)
    except rx.ResponseError as error:
        doubts = str(error) if str(error).startswith("NOQUORUM") else None
    except (rx.RedisError, OSError) as error:
        return SentinelAnswer(sentinel.node, error=describe(error))
    return SentinelAnswer(sentinel.node, master=listed([master]), doubts=doubts)


# ---- permissions -----------------------------------------------------------------------------------------------------
# Whether this user may do what a lock needs, by the server's own rules, without a write.
#
# ``ACL DRYRUN`` answers that where this user may run it. Elsewhere a script calls each command: on Redis 7.0 and later,
# and on Valkey, as one that may not write, before that with arguments that have no effect. Rights are checked first.


#: A command's arguments behind its key that have no effect: those that it refuses, or of a key that is not there.
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("hexists", "hget", "hdel", "hmget", "zscore", "zrem"), ("x",)),
    **dict.fromkeys(("zcount", "zrange", "zrangebyscore", "lrange"), ("0", "1")),
    **dict.fromkeys(("pexpire", "incrby", "decrby"), ("no number",)),
    **dict.fromkeys(("zadd", "zincrby"), ("no number", "x")),
    "hincrby": ("x", "no number"),
    "hset": ("x", "x", "x"),
    "set": ("x", "PX", "no number"),
    "lindex": ("0",),
    "lrem": ("0", "x"),
    "rpush": ("x",),
}
#: These would write in a script that may.
_ALWAYS_WRITE = frozenset({"rpush", "incr", "decr"})

_SCRIPT = """
local replies = {}
for number, line in ipairs(ARGV) do
    local reply = redis.pcall(unpack(cjson.decode(line)))
    replies[number] = type(reply) == 'table' and reply['err'] or ''
end
return replies
"""


@dataclass
class Permissions:
    """What this user may not do, as far as it could be asked.

    Attributes:
        missing: Commands that the server does not know: renamed away, or too new.
        denied: Commands that this user may not run.
        keys: Keys of a lock that this user may not use.
        channels: Channels of a lock that this user may not use.
        unchecked: What could not be asked, and why.
    """

    missing: list[str] = field(default_factory=list)
    denied: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    channels: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    def note(self, command: Sequence[str], answer: object) -> None:
        """Note what the server says of a command."""
        text = answer.decode(errors="replace") if isinstance(answer, bytes) else str(answer)
        lower, name = text.lower(), command[0].lower()
        if "unknown" in lower or "not found" in lower:
            self.missing.append(name)
        elif not any(word in lower for word in ("permission", "can't", "acl failure", "noperm")):
            pass  # It would run, or fails for another reason.
        elif "run th" in lower:
            self.denied.append(name)
        else:
            (self.channels if "channel" in lower else self.keys).append(command[1])


def probe_permissions(server: Server, name: str) -> Permissions:
    """Ask what this user may do with a lock.

    Args:
        server: The server; the name's keys are on it.
        name: The lock.

    Raises:
        redis.exceptions.RedisError: The server does not answer.
        OSError: The server does not answer.
    """
    found, names = Permissions(), LockNames(name)
    every = set().union(*map(commands_of, KINDS.values()))
    calls = [_call(command, name) for command in sorted(every)]
    calls += [("exists", key) for key in (names.epoch("doctor"), names.channel, names.waiting)]
    calls += [("publish", channel, "") for channel in (names.channel, names.waiting)]
    if not _ask_rules(server, found, [*calls, ("subscribe", names.channel)]):
        _run_script(server, found, calls)
        _subscribe(server, found, names.channel)
    try:
        server.ask("EVALSHA", "0" * 40, "0")
    except rx.NoScriptError:
        pass
    except rx.ResponseError as error:
        found.note(("evalsha",), error)
    for each in ("missing", "denied", "keys", "channels"):
        setattr(found, each, list(dict.fromkeys(getattr(found, each))))
    return found


def _call(command: str, key: str) -> tuple[str, ...]:
    return (command,) if command == "time" else (command, key, *_ARGUMENTS.get(command, ()))


def _ask_rules(server: Server, found: Permissions, calls: Sequence[tuple[str, ...]]) -> bool:
    """Ask by ``ACL DRYRUN``. Returns whether this user may."""
    try:
        user = server.ask("ACL", "WHOAMI")
        server.ask("ACL", "DRYRUN", user, "PING")
    except rx.ResponseError:
        return False
    asked = [*calls, ("eval", "return 1", "0"), ("evalsha", "0" * 40, "0"), ("info",)]
    questions: list[Command] = [("ACL", "DRYRUN", user, *map(encode_name, each)) for each in asked]
    for call, answer in zip(asked, server.ask_many(questions, refused=lambda _: None), strict=True):
        if answer != b"OK":
            found.note(call, answer)
    return True


def _run_script(server: Server, found: Permissions, calls: Sequence[tuple[str, ...]]) -> None:
    """Call each command in a script."""

    def run(script: str, some: Sequence[tuple[str, ...]]) -> Any:
        return server.ask("EVAL", script, "0", *(json.dumps(each, ensure_ascii=True) for each in some))

    try:
        try:
            replies = run(f"#!lua flags=no-writes\n{_SCRIPT}", calls)
        except rx.ResponseError as error:
            if "compiling" not in str(error).lower():
                raise
            found.unchecked.append(f"whether this user may run {', '.join(sorted(_ALWAYS_WRITE))}")
            calls = [each for each in calls if each[0] not in _ALWAYS_WRITE]
            replies = run(_SCRIPT, calls)  # Before Redis 7.0.
    except rx.ResponseError as error:
        found.note(("eval",), error)
        found.unchecked.append(f"which commands this user may run in scripts ({error})")
        return
    for call, reply in zip(calls, replies, strict=True):
        if reply:
            found.note(call, reply)


def _subscribe(server: Server, found: Permissions, channel: str) -> None:
    """Subscribe to a channel for a moment."""
    try:
        with closing(server.pubsub()) as pubsub:
            pubsub.subscribe(channel)
            if pubsub.get_message(timeout=1.0) is None:
                found.unchecked.append("whether this user may subscribe")
    except rx.ResponseError as error:
        found.note(("subscribe", channel), error)


# ---- judge -----------------------------------------------------------------------------------------------------------
# What is wrong with servers that were probed. Pure: it asks no server.


MAX_CLOCK_DIFFERENCE = 1.0  # seconds; times to live are measured by these clocks
MAX_REPLICA_LAG = 5  # seconds; replicas report once a second
LOOPBACK = {"127.0.0.1", "::1", "localhost"}
RECENT_START = 60  # seconds; a server that has just started may have forgotten locks that are held


class Grade(IntEnum):
    """How bad a finding is; also the exit code."""

    OK = 0
    WARNING = 1
    CRITICAL = 2


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


def _judge_node(node: Node, *, several: bool) -> Iterator[Finding]:
    if node.sentinels is not None:
        yield from _judge_sentinels(node, node.sentinels)
    if node.masters is not None:
        yield from _judge_cluster(node, node.masters)
    elif node.error is not None:
        what = "it answers, and refuses" if node.refused else "not reachable"
        yield (node.warning if several else node.critical)(f"{what}: {node.error}")
    else:
        for is_certain, text in obstacles(node):
            yield (node.critical if is_certain and not several else node.warning)(text)
        yield from _judge_settings(node, several=several)
        yield from _judge_access(node)
        if node.leaked:
            names = ", ".join(node.samples) + (", ..." if node.leaked > len(node.samples) else "")
            yield node.warning(
                f"{node.leaked} locks never expire ({names}): their expiry was removed, or a client that is not "
                "Redisson wrote them. pyredisson leaks and pyredisson show NAME say who holds them, and "
                "pyredisson unlock NAME frees them"
            )


def _judge_settings(node: Node, *, several: bool) -> Iterator[Finding]:
    facts = node.facts
    if facts is None:
        yield node.warning("its settings are unknown: permit this user to run INFO")
        return
    for complaint in complaints(facts):
        if complaint.setting != "role":
            yield node.warning(complaint.text)
        elif node.sentinels is None:
            yield node.critical(complaint.text)
        else:
            yield node.critical(
                "the master that the sentinels report is a replica: they are out of date, or cannot agree on a master"
            )
    if several and (lack := lack_of_persistence(facts)) is not None:
        yield node.warning(lack.text)
    if several and facts.run_id and facts.uptime < RECENT_START:
        yield node.warning(
            f"it was started {facts.uptime} s ago and may have forgotten locks that are held: keep a restarted node "
            "out of use for longer than the longest lease"
        )


def _judge_access(node: Node) -> Iterator[Finding]:
    """Judge who can reach it, and whether it is who it says."""
    if node.part_of_a_cluster:
        yield node.critical("it is one node of a cluster, and refuses most locks: use redis+cluster://host:port")
    if node.tls_unverified:
        yield node.warning("its certificate is not verified (ssl_cert_reqs=none): another server may take its place")
    login = node.url.partition("://")[2].rpartition("@")[0]
    listens = set(node.settings.get("bind", "").replace("-", "").split()) - LOOPBACK
    if not login and listens and node.settings.get("protected-mode") == "no":
        yield node.warning(
            f"it needs no password, and listens on {', '.join(sorted(listens))}: anyone who reaches it can free "
            "locks. Set requirepass or ACL users"
        )


def _judge_alone(node: Node) -> Iterator[Finding]:
    """Judge what endangers a server that has no others to take over."""
    if keeps_nothing(node) and node.sentinels is None and node.masters is None:
        yield node.warning(
            "it stores nothing on disk (persistence none): a restart frees every lock while its holder goes on. Set "
            "'appendonly yes', or keep it stopped for longer than the longest lease"
        )


def _judge_sentinels(node: Node, view: SentinelView) -> Iterator[Finding]:
    named = [each for each in view.answers if each.master is not None]
    for each in view.answers:
        if each.error is not None:
            yield node.warning(f"sentinel {each.address} is not reachable: {each.error}")
        elif each.master is None and named:
            yield node.warning(f"sentinel {each.address} does not know {view.service!r}")
    if len({each.master for each in named}) > 1:
        said = "; ".join(f"{each.address} says {each.master}" for each in named)
        yield node.critical(
            f"the sentinels do not agree on the master ({said}): clients may lock on two servers at once. A sentinel "
            "is cut off, or a failover is in progress: run this again, then check the network"
        )
    doubts = next((each.doubts for each in named if each.doubts is not None), None)
    if doubts is not None:
        yield node.warning(f"the sentinels could not replace the master if it failed ({doubts})")
    if node.error is None:
        yield from _judge_replicas(node, "the")


def _judge_cluster(node: Node, masters: Sequence[Node]) -> Iterator[Finding]:
    if node.unserved:
        yield node.critical(f"no node serves {node.unserved} of the slots: locks there are refused")
    for master in masters:
        yield from _judge_node(master, several=False)
        if master.error is None:
            yield from _judge_replicas(master, "this")


def keeps_nothing(node: Node) -> bool:
    """Whether a server stores nothing on disk."""
    return node.facts is not None and node.facts.aof is False and node.saves == ""


def _judge_replicas(node: Node, which: str) -> Iterator[Finding]:
    if keeps_nothing(node):
        yield node.warning(
            f"{which} master stores nothing on disk (persistence none): restarted before a replica takes over, it "
            "comes back empty, its replicas copy that, and all locks are free. Set 'appendonly yes'"
        )
    for each in node.replicas:
        if node.clock is not None and each.clock is not None and abs(each.clock - node.clock) > MAX_CLOCK_DIFFERENCE:
            ahead = each.clock - node.clock
            off = f"{abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'}"
            yield node.warning(
                f"the clock of the replica {each.address} is {off} its master's: if it takes over, locks expire too "
                "early or too late. Synchronize both with NTP"
            )
    if node.facts is not None and not node.replicas:
        yield node.warning(f"no replica follows {which} master: none can take over")
    for each in node.replicas:
        if each.state != "online" or (each.lag or 0) > MAX_REPLICA_LAG:
            since = "" if each.lag is None else f", last seen {each.lag} s ago"
            yield node.warning(
                f"the replica {each.address} does not keep up (it is {each.state!r}{since}): if it took over, locks "
                "would be lost"
            )


def _judge_all(nodes: Sequence[Node], reachable: Sequence[Node], needed: int) -> Iterator[Finding]:
    if len(reachable) < needed:
        yield Finding(
            Grade.CRITICAL, None, f"no quorum: {len(reachable)} of {len(nodes)} are reachable, {needed} are needed"
        )
    if len(nodes) % 2 == 0:
        yield Finding(
            Grade.WARNING,
            None,
            f"{len(nodes)} nodes survive no more failures than {len(nodes) - 1}: use an odd number of nodes",
        )
    servers: dict[str, str] = {}
    masters: dict[str, str] = {}
    for node in reachable:
        facts = node.facts
        if facts is None:
            continue
        if facts.run_id and facts.run_id in servers:
            yield node.critical(f"it is the same server as {servers[facts.run_id]}: it must not vote twice")
        elif facts.replication_id and facts.replication_id in masters:
            yield node.critical(
                f"it has its data from the same master as {masters[facts.replication_id]}: nodes must be independent"
            )
        servers.setdefault(facts.run_id, node.url)
        masters.setdefault(facts.replication_id, node.url)
    clocks = sorted((node.clock, node.url) for node in reachable if node.clock is not None)
    if clocks and (difference := clocks[-1][0] - clocks[0][0]) > MAX_CLOCK_DIFFERENCE:
        yield Finding(
            Grade.WARNING,
            None,
            f"the clock of {clocks[-1][1]} is {difference:.1f} s ahead of that of {clocks[0][1]}: synchronize both "
            "with NTP, without steps",
        )


# ---- ability ---------------------------------------------------------------------------------------------------------
# Whether a lock can be acquired on a server, now, by this user. Pure: it asks no server.


NEARLY_FULL = 0.9  # of the memory or the connections
FEW_PLACES = 10  # for connections; a client needs at least two

#: What a plain lock needs of the server.
NEEDED = commands_of(KINDS["plain lock"]) | set(CLIENT) - {"ping", "unsubscribe"}


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


def _amount(values: Mapping[str, str], name: str) -> int:
    return _number(values.get(name)) or 0


def _memory(node: Node) -> Iterator[tuple[bool, str]]:
    state = node.state
    most = _amount(state, "maxmemory")
    used = _amount(state, "used_memory") - _amount(state, "mem_not_counted_for_evict")
    if not most or used < NEARLY_FULL * most:
        return
    how = f"{used / 2**20:.1f} of {most / 2**20:.1f} MiB"
    if used >= most and state.get("maxmemory_policy", "noeviction") == "noeviction":
        yield True, f"its memory is full ({how}): each lock is refused (OOM). Raise maxmemory, or delete other data"
    else:
        yield False, f"its memory is nearly full ({how}): raise maxmemory, or give locks a server of their own"


def _connections(node: Node) -> Iterator[tuple[bool, str]]:
    most, used = _amount(node.state, "maxclients"), _amount(node.state, "connected_clients")
    left = most - used
    if most and (left < FEW_PLACES or used > NEARLY_FULL * most):
        yield (
            left < 1,
            f"{max(0, left)} of {most} places for connections are left: raise maxclients, or find who holds them",
        )


def _replicas(node: Node) -> Iterator[tuple[bool, str]]:
    wanted = _amount(node.settings, "min-replicas-to-write")
    state = node.state
    good = _amount(state, "min_slaves_good_slaves")
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
    for kind, scripts in KINDS.items():
        if kind != "plain lock" and (them := sorted((commands_of(scripts) - NEEDED) & lacking)):
            yield f"{kind}: not for this user, or not on this server (lacks {', '.join(them)})"


def unchecked(node: Node) -> Iterator[str]:
    """Yield what could not be checked, and why."""
    yield from node.unchecked
    found = node.permissions
    if found is not None:
        yield from found.unchecked
        if node.lock is None and (found.keys or found.channels):
            yield "whether this user may use the keys and channels of locks: name one that it is to use by --lock"


def examine(urls: Sequence[str], lock: str | None = None) -> Report:
    """Inspect servers, all at the same time, and judge them.

    Args:
        urls: ``redis://``, ``rediss://``, ``unix://``, ``redis+sentinel://`` or ``redis+cluster://``.
        lock: The name of a lock that this user is to use.

    Raises:
        ValueError: A URL is not valid. No server was asked.
    """
    return judge(probe(urls, lock))
