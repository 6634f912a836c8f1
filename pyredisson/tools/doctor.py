"""Looks at the servers that locks are kept on, and says what is wrong with them. Reads only, and never for long.

What is seen of a server is a :class:`Node`; what follows from all of them is decided by :func:`judge`, which asks none.
"""

from __future__ import annotations

import json
import re
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from typing import Any, final

import redis
import redis.exceptions as rx

from pyredisson.core.server import ServerFacts, complaints, lack_of_persistence, read_info
from pyredisson.net.sentinel import SentinelUrl, parse_sentinel_url
from pyredisson.net.urls import cluster_url, url_of, url_of_cluster
from pyredisson.tools.plain_text import plain
from pyredisson.tools.probe import Follower, Watch, ask_sentinels, client_of, masters_of, read_followers, shown

__all__ = ["Finding", "Grade", "Node", "Report", "examine", "judge", "run_doctor"]

#: Seconds that a server has for each answer.
PATIENCE = 2.0

PINGS = 7

#: What is looked through for leaked locks: so many keys of a server, for so many seconds.
MAX_KEYS = 50_000
MAX_SECONDS = 3.0
SAMPLES = 5

#: Clocks that differ by more are remarked upon; times to live are kept by them.
CLOCKS_APART = 1.0

#: A replica that has been silent for longer, in seconds, is remarked upon; they tell how far they are each second.
SILENT = 5

#: A server that started less long ago may have forgotten locks that are held: nodes of a quorum wait that long.
LATELY = 60

TITLES = ("server", "is", "replicas", "eviction", "persistence", "up for", "round trip", "clock", "locks leaked")

#: What stands for an owner in a lock's hash.
_OWNER = re.compile(rb"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+(:write)?")


class Grade(IntEnum):
    """How bad it is; also the exit code."""

    OK = 0
    WARNING = 1
    CRITICAL = 2


@final
@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be.

    Attributes:
        grade: How bad it is.
        node: The server's URL, password masked; ``None``: it concerns them all.
        text: What it is, and what to do.
    """

    grade: Grade
    node: str | None
    text: str


@final
@dataclass
class Node:
    """What was seen of one server.

    Attributes:
        url: Where it is, password masked.
        error: Why it could not be asked; ``None`` if it could.
        facts: What it says of itself; ``None`` if it does not.
        saves: Its ``save`` setting; ``None`` if it does not tell.
        round_trip: Seconds, the median of a few.
        clock: By how many seconds its clock is ahead of ours.
        keys_seen: How many keys were looked at, and whether that were all.
        leaked: Locks without an expiry, of those a few by name.
        followers: Its replicas.
        watch: What sentinels say, if the URL names them; this is the master that they name.
        masters: The masters, if the URL is that of a cluster; of the cluster itself there is nothing else then but:
        unserved: How many slots nobody serves.
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
    followers: list[Follower] = field(default_factory=list)
    watch: Watch | None = None
    masters: list[Node] | None = None
    unserved: int = 0


@final
@dataclass(frozen=True)
class Report:
    """What was seen, and what follows.

    Attributes:
        nodes: The servers, in the order that was given.
        findings: What is wrong, the worst first.
        reachable: How many servers answered.
        needed: How many a quorum over them needs.
    """

    nodes: Sequence[Node]
    findings: Sequence[Finding]
    reachable: int
    needed: int

    @property
    def grade(self) -> Grade:
        """The worst that was found."""
        return max((finding.grade for finding in self.findings), default=Grade.OK)

    def as_json(self) -> str:
        """All of it, for programs."""
        return json.dumps(
            {
                "grade": self.grade.name.lower(),
                "reachable": self.reachable,
                "needed": self.needed,
                "nodes": [asdict(node) for node in self.nodes],
                "findings": [
                    {"grade": finding.grade.name.lower(), "node": finding.node, "text": finding.text}
                    for finding in self.findings
                ],
            },
            indent=2,
        )


def judge(nodes: Sequence[Node]) -> Report:
    """Say what is wrong with these servers, each by itself and all together."""
    several = len(nodes) > 1
    reachable = [node for node in nodes if node.error is None]
    needed = len(nodes) // 2 + 1
    findings = [finding for node in nodes for finding in _of_one(node, several=several)]
    if several:
        findings += _of_all(nodes, reachable, needed)
    findings.sort(key=lambda finding: -finding.grade)
    return Report(nodes, findings, len(reachable), needed)


def _of_one(node: Node, *, several: bool) -> Iterator[Finding]:
    if node.watch is not None:
        yield from _of_sentinels(node, node.watch, several=several)
    if node.masters is not None:
        yield from _of_cluster(node, node.masters)
        return
    if node.error is not None:
        yield Finding(Grade.WARNING if several else Grade.CRITICAL, node.url, f"not reachable: {node.error}")
        return
    facts = node.facts
    if facts is None:
        yield Finding(Grade.WARNING, node.url, "it does not tell how it is set up: let this user run INFO")
    else:
        for complaint in complaints(facts):
            grade = Grade.CRITICAL if complaint.setting == "role" else Grade.WARNING
            text = complaint.text
            if complaint.setting == "role" and node.watch is not None:
                text = "what the sentinels call the master is a replica: they are behind, or cannot agree on a new one"
            yield Finding(grade, node.url, text)
        if several and (lack := lack_of_persistence(facts)) is not None:
            yield Finding(Grade.WARNING, node.url, lack.text)
        if several and facts.run_id and facts.uptime < LATELY:
            yield Finding(
                Grade.WARNING,
                node.url,
                f"it was started {facts.uptime} s ago, and may have forgotten locks that are held: keep a restarted "
                "node away for longer than the longest lease",
            )
    if node.leaked:
        names = ", ".join(node.samples) + (", ..." if node.leaked > len(node.samples) else "")
        yield Finding(
            Grade.WARNING,
            node.url,
            f"{node.leaked} locks never expire ({names}): somebody has taken their expiry away, or a client that is no "
            "Redisson wrote them. Look who holds them, then force_unlock()",
        )


def _of_sentinels(node: Node, watch: Watch, *, several: bool) -> Iterator[Finding]:
    for each in watch.sentinels:
        if each.error is not None:
            yield Finding(Grade.WARNING, node.url, f"sentinel {each.address} is not reachable: {each.error}")
        elif each.master is None and watch.master is not None:
            yield Finding(Grade.WARNING, node.url, f"sentinel {each.address} knows no {watch.service!r}")
    named = dict.fromkeys(each.master for each in watch.sentinels if each.master is not None)
    if len(named) > 1:
        said = "; ".join(f"{each.address} says {each.master}" for each in watch.sentinels if each.master is not None)
        yield Finding(
            Grade.CRITICAL,
            node.url,
            f"the sentinels do not agree on the master ({said}): clients may lock on two servers at once. One of them "
            "is cut off, or a failover is under way: look again, then see to its links",
        )
    doubts = next((each.doubts for each in watch.sentinels if each.doubts is not None), None)
    if doubts is not None:
        yield Finding(Grade.WARNING, node.url, f"nobody could replace the master if it failed ({doubts})")
    if node.error is None and node.facts is not None and not node.followers:
        yield Finding(Grade.WARNING, node.url, "no replica follows the master: there is none to take over")
    yield from _of_followers(node)


def _of_followers(node: Node) -> Iterator[Finding]:
    for each in node.followers:
        if each.state != "online" or (each.lag or 0) > SILENT:
            since = "" if each.lag is None else f", and was heard of {each.lag} s ago"
            yield Finding(
                Grade.WARNING,
                node.url,
                f"the replica {each.address} does not keep up (it is {each.state!r}{since}): if it took over, locks "
                "would be forgotten",
            )


def _of_cluster(node: Node, masters: Sequence[Node]) -> Iterator[Finding]:
    if node.unserved:
        yield Finding(Grade.CRITICAL, node.url, f"nobody serves {node.unserved} of the slots: locks there are refused")
    for master in masters:
        yield from _of_one(master, several=False)
        if master.error is None and master.facts is not None and not master.followers:
            yield Finding(Grade.WARNING, master.url, "no replica follows this master: there is none to take over")
        yield from _of_followers(master)


def _of_all(nodes: Sequence[Node], reachable: Sequence[Node], needed: int) -> Iterator[Finding]:
    if len(reachable) < needed:
        yield Finding(
            Grade.CRITICAL, None, f"no quorum: {len(reachable)} of {len(nodes)} are reachable, {needed} are needed"
        )
    if len(nodes) % 2 == 0:
        yield Finding(
            Grade.WARNING,
            None,
            f"{len(nodes)} nodes survive no more failures than {len(nodes) - 1}: take an odd number",
        )
    seen: dict[str, str] = {}
    data: dict[str, str] = {}
    for node in reachable:
        facts = node.facts
        if facts is None:
            continue
        if facts.run_id and facts.run_id in seen:
            yield Finding(
                Grade.CRITICAL, node.url, f"it is the same server as {seen[facts.run_id]}: it must not vote twice"
            )
        elif facts.replication_id and facts.replication_id in data:
            yield Finding(
                Grade.CRITICAL,
                node.url,
                f"it has its data from the same master as {data[facts.replication_id]}: nodes have to be independent",
            )
        seen.setdefault(facts.run_id, node.url)
        data.setdefault(facts.replication_id, node.url)
    clocks = [(node.clock, node) for node in reachable if node.clock is not None]
    if len(clocks) > 1:
        (low, behind), (high, ahead) = min(clocks, key=lambda each: each[0]), max(clocks, key=lambda each: each[0])
        if high - low > CLOCKS_APART:
            yield Finding(
                Grade.WARNING,
                None,
                f"the clock of {ahead.url} is {high - low:.1f} s ahead of that of {behind.url}: let NTP slew both",
            )


# ---- looking ---------------------------------------------------------------------------------------------------------


def examine(urls: Sequence[str], *, wall: Callable[[], float] = time.time) -> Report:
    """Look at servers, all at once.

    Args:
        urls: ``redis://``, ``rediss://``, ``unix://``, ``redis+sentinel://`` or ``redis+cluster://``.
        wall: Our own clock, in seconds since the Unix epoch.

    Raises:
        ValueError: A URL that leads nowhere.
    """
    looks = [_look_for(url, wall) for url in urls]
    with ThreadPoolExecutor(max_workers=len(looks)) as pool:
        return judge(list(pool.map(lambda look: look(), looks)))


def _look_for(url: str, wall: Callable[[], float]) -> Callable[[], Node]:
    """What looks at where a URL leads. Raises ``ValueError`` if that is nowhere."""
    if (found := parse_sentinel_url(url)) is not None:
        client_of(found.data, PATIENCE).close()  # What is wrong with it is said before anybody is asked.
        return lambda: _look_by_sentinels(found, wall)
    if (cluster := cluster_url(url)) is not None:
        client_of(cluster[1], PATIENCE).close()
        return lambda: _look_at_cluster(*cluster, wall)
    client = client_of(url, PATIENCE)
    return lambda: _look_at(client, wall)


def _look_by_sentinels(url: SentinelUrl, wall: Callable[[], float]) -> Node:
    watch = ask_sentinels(url, PATIENCE)
    if watch.master is None:
        return Node(url.masked, error=f"no sentinel tells where {url.service!r} is", watch=watch)
    node = _look_at(client_of(url.data, PATIENCE, watch.master), wall, url.masked)
    node.watch = watch
    return node


def _look_at_cluster(seeds: Sequence[tuple[str, int]], url: str, wall: Callable[[], float]) -> Node:
    any_node = client_of(url, PATIENCE)
    settings = any_node.connection_pool.connection_kwargs
    tls = issubclass(any_node.connection_pool.connection_class, redis.SSLConnection)
    any_node.close()
    node = Node(url_of_cluster(tuple(seeds), settings, tls=tls))
    try:
        masters, node.unserved = masters_of(seeds, url, PATIENCE)
    except (rx.RedisError, OSError) as error:
        node.error = f"{type(error).__name__}: {error}"
        return node
    with ThreadPoolExecutor(max_workers=max(1, len(masters))) as pool:
        node.masters = list(pool.map(lambda each: _look_at(client_of(url, PATIENCE, each), wall), masters))
    return node


def _look_at(client: Any, wall: Callable[[], float], url: str | None = None) -> Node:
    settings = client.connection_pool.connection_kwargs
    tls = issubclass(client.connection_pool.connection_class, redis.SSLConnection)
    node = Node(url or url_of(settings, tls=tls) or "?")
    try:
        with client:
            _ask(client, node, wall)
    except (rx.RedisError, OSError) as error:
        node.error = f"{type(error).__name__}: {error}"
    return node


def _ask(client: Any, node: Node, wall: Callable[[], float]) -> None:
    client.ping()
    node.round_trip = _round_trip(client)
    info = _info(client)
    if info is not None:
        node.facts = read_info(info, time.monotonic())
        node.followers = read_followers(info)
    node.saves = _saves(client)
    node.clock = _clock(client, wall)
    _look_for_leaks(client, node)


def _round_trip(client: Any) -> float:
    took = []
    for _ in range(PINGS):
        began = time.perf_counter()
        client.ping()
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def _info(client: Any) -> bytes | None:
    try:
        connection = client.connection_pool.get_connection()
        try:
            connection.send_command("INFO")
            reply: Any = connection.read_response(disable_decoding=True)
        finally:
            client.connection_pool.release(connection)
    except rx.ResponseError:
        return None
    return bytes(reply)


def _saves(client: Any) -> str | None:
    try:
        settings: Any = client.config_get("save")
    except rx.ResponseError:
        return None  # Services as a rule refuse CONFIG.
    save: str | None = settings.get("save")
    return save


def _clock(client: Any, wall: Callable[[], float]) -> float | None:
    try:
        began = wall()
        seconds, micros = client.time()
        ended = wall()
    except rx.ResponseError:
        return None
    return float(seconds + micros / 1e6 - (began + ended) / 2)


def _look_for_leaks(client: Any, node: Node) -> None:
    over = time.monotonic() + MAX_SECONDS
    cursor: Any = 0
    try:
        while True:
            cursor, names = client.scan(cursor, count=500)
            node.keys_seen += len(names)
            _count_leaks(client, names, node)
            if not int(cursor):
                node.all_seen = True
                return
            if node.keys_seen >= MAX_KEYS or time.monotonic() > over:
                return
    except rx.ResponseError:
        return  # Not for this user; what was seen was seen.


def _count_leaks(client: Any, names: Sequence[bytes], node: Node) -> None:
    asked = client.pipeline(transaction=False)
    for name in names:
        asked.type(name)
        asked.pttl(name)
    answers = asked.execute(raise_on_error=False)
    endless = [
        name
        for name, kind, left in zip(names, answers[::2], answers[1::2], strict=True)
        if kind == b"hash" and left == -1
    ]
    for name in endless:
        _, fields = client.hscan(name, count=10)
        if any(_OWNER.fullmatch(each) for each in fields):
            node.leaked += 1
            if len(node.samples) < SAMPLES:
                node.samples.append(repr(name.decode(errors="replace")[:60]))


# ---- showing ---------------------------------------------------------------------------------------------------------


def run_doctor(urls: Sequence[str], *, as_json: bool) -> int:
    """Look at servers, show what was seen, and return the exit code. Raises ``ValueError`` for a bad URL."""
    report = examine(urls)
    if as_json:
        print(report.as_json())
    else:
        _show(report)
    return int(report.grade)


def _show(report: Report) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    servers = [each for node in report.nodes for each in (node.masters or [node])]
    console = Console()
    if not console.is_terminal:
        console = Console(width=40 + 40 * len(servers))  # Nobody folds what goes into a file.
    # A row a check: five columns of values fit where nine do not.
    table = Table(box=box.SIMPLE_HEAD)
    first, *rows = zip(TITLES, *map(_row, servers), strict=True)
    for title in first:
        table.add_column(Text(title), overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    console.print(table)
    for line in [line for node in report.nodes for line in _around(node)]:
        console.print(Text(plain(line)), soft_wrap=True)
    for finding in report.findings:
        style = "bold red" if finding.grade is Grade.CRITICAL else "yellow"
        where = f"{finding.node}: " if finding.node else ""
        console.print(
            Text.assemble((f"{finding.grade.name}: ", style), plain(f"{where}{finding.text}")), soft_wrap=True
        )
    if len(report.nodes) > 1:
        verdict = "yes" if report.reachable >= report.needed else "no"
        console.print(f"{report.reachable} of {len(report.nodes)} reachable; majority ({report.needed}): {verdict}")
    if not report.findings:
        console.print("nothing found to complain of")


def _around(node: Node) -> Iterator[str]:
    """What there is to say of those around a server."""
    watch = node.watch
    if watch is not None:
        asked = [each for each in watch.sentinels if each.error is None]
        agree = [each for each in asked if watch.master is not None and each.master == shown(watch.master)]
        yield (
            f"{node.url}: {len(asked)} of {len(watch.sentinels)} sentinels answer; "
            f"{len(agree)} name {shown(watch.master) if watch.master else 'nobody'} as master"
        )
    for master in node.masters or [node]:
        for each in master.followers:
            behind = "?" if each.behind is None else f"{each.behind} bytes"
            lag = "" if each.lag is None else f", heard of {each.lag} s ago"
            yield f"{master.url}: replica {each.address} is {each.state}, {behind} behind{lag}"


def _row(node: Node) -> list[str]:
    if node.error is not None:
        return [node.url, "not reachable", *["-"] * 7]
    facts = node.facts
    known = facts is not None
    return [
        node.url,
        f"{facts.product} {facts.version} {facts.role}" if facts else "?",
        str(facts.replicas) if facts else "?",
        (facts.eviction or "?") if facts else "?",
        _persistence(node) if known else "?",
        _duration(facts.uptime) if facts else "?",
        "-" if node.round_trip is None else f"{1000 * node.round_trip:.2f} ms",
        "-" if node.clock is None else f"{node.clock:+.3f} s",
        str(node.leaked) + ("" if node.all_seen else f" in {node.keys_seen} keys"),
    ]


def _persistence(node: Node) -> str:
    kept = []
    if node.facts is not None and node.facts.aof:
        kept.append("AOF")
    if node.saves:
        kept.append("RDB")
    return "+".join(kept) or ("none" if node.saves is not None else "no AOF")


def _duration(seconds: int) -> str:
    for unit, length in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
