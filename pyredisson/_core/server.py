"""What a client knows of its server: who it is, and how it is set up. Read from ``INFO`` on each new connection.

Pure: the maker of a connection hands over what the server replied, or why it would not. A server that does not let
us ask is served like any other, unless ``Config.strict_server``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias, final

from pyredisson._core.event import Record, record
from pyredisson._core.failures import Rejected
from pyredisson.errors import RedissonError


@final
@record
class ServerFacts(Record):
    """What a server says of itself.

    Attributes:
        run_id: Another one after each start of the server; empty if it does not say.
        uptime: Whole seconds since it was started; 0 if it does not say.
        version: Its own (Valkey's, where it is Valkey).
        product: ``"redis"`` or ``"valkey"``, or whatever else it calls itself.
        role: ``"master"`` or ``"slave"``; empty if it does not say.
        replicas: How many are connected.
        syncing: How many of these have yet to finish their first synchronisation; 0 if it does not say.
        eviction: Its ``maxmemory-policy``; ``None`` if it does not say.
        aof: Whether it appends what it does to a file; ``None`` if it does not say.
        replication_id: That of its data: a replica's is its master's. Empty if it does not say.
        seen_at: When that was, in monotonic seconds.
        keys: How many keys its databases have; ``None`` if it does not say.
        flushes: How often a database was flushed since it was started; ``None`` if it does not say.
    """

    run_id: str
    uptime: int
    version: str
    product: str
    role: str
    replicas: int
    syncing: int
    eviction: str | None
    aof: bool | None
    replication_id: str
    seen_at: float
    keys: int | None = None
    flushes: int | None = None

    @property
    def in_step(self) -> int:
        """How many replicas can acknowledge a write."""
        return max(0, self.replicas - self.syncing)


Learned: TypeAlias = Callable[[ServerFacts, "ServerFacts | None"], object]
"""Called with the facts of a new connection, and those of the one before, if any."""

OnAnswer: TypeAlias = Callable[[str, "str | None"], object]
"""Called when a server has answered, with its address in a cluster (else empty), or the name of a lock that it has."""


def info_fields(info: bytes) -> dict[str, str]:
    """Return the fields of the reply to ``INFO``."""
    lines = (line.partition(":") for line in info.decode(errors="replace").splitlines())
    return {name: value.strip() for name, colon, value in lines if colon and not name.startswith("#")}


def read_info(info: bytes, now: float) -> ServerFacts:
    """Read the reply to ``INFO``, received at ``now`` (monotonic seconds). What is missing in it is not known."""
    data = info_fields(info)
    aof = data.get("aof_enabled")
    return ServerFacts(
        run_id=data.get("run_id", ""),
        uptime=_whole(data.get("uptime_in_seconds")),
        version=data.get("valkey_version") or data.get("redis_version", ""),
        product=data.get("server_name") or ("valkey" if "valkey_version" in data else "redis"),
        role=data.get("role", ""),
        replicas=_whole(data.get("connected_slaves")),
        syncing=sum(name[5:].isdecimal() and "state=online" not in data[name] for name in data if name[:5] == "slave"),
        eviction=data.get("maxmemory_policy"),
        aof=None if aof is None else aof == "1",
        replication_id=data.get("master_replid", ""),
        seen_at=now,
        keys=None
        if b"# Keyspace" not in info
        else sum(_first(data[name]) for name in data if re.match(_DATABASE, name)),
        flushes=None if b"# Commandstats" not in info else sum(_first(data.get(name, "")) for name in _FLUSHES),
    )


_DATABASE = r"db\d+\Z"
_FLUSHES = ("cmdstat_flushall", "cmdstat_flushdb")


def _first(fields: str) -> int:
    """Return the number of the first of several fields: ``keys=3,expires=1``."""
    return _whole(fields.partition(",")[0].partition("=")[2])


def _whole(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < 20 else 0


class Complaint(NamedTuple):
    """Something about a server that endangers locks.

    Attributes:
        setting: What is to be changed; each is complained of once a client.
        text: What is wrong, and what to do.
    """

    setting: str
    text: str


def complaints(facts: ServerFacts) -> Sequence[Complaint]:
    """What is wrong with a server for any lock."""
    found = []
    if facts.eviction is not None and facts.eviction != "noeviction":
        found.append(
            Complaint(
                "maxmemory-policy",
                f"maxmemory-policy is {facts.eviction!r}: when out of memory, the server may evict a held lock. "
                "Set 'maxmemory-policy noeviction' on it, or give locks a server of their own",
            )
        )
    if facts.role == "slave":
        found.append(
            Complaint(
                "role",
                "the server is a replica: it refuses locks, or loses them. Connect to its master, or "
                "use redis+sentinel://host:port/service",
            )
        )
    return found


def lack_of_persistence(facts: ServerFacts) -> Complaint | None:
    """What is wrong with a node of a quorum that keeps nothing: restarted at once, it votes without its memory."""
    if facts.aof is False:
        return Complaint(
            "appendonly",
            "appendonly is 'no': after a restart the node has lost its locks, but still votes. Set "
            "'appendonly yes' and 'appendfsync always', or keep a restarted node away for longer than the longest "
            "lease",
        )
    return None


class ServerChange(NamedTuple):
    """Why a server may no longer have what it had.

    Attributes:
        at: When it was, or was noticed at the latest, in monotonic seconds.
        text: What happened, with a place for how long ago.
    """

    at: float
    text: str


def restart_of(address: str, facts: ServerFacts, before: ServerFacts) -> ServerChange | None:
    """Return that a server was restarted, or is another one, if its run id says so."""
    if not facts.run_id or not before.run_id or facts.run_id == before.run_id:
        return None
    started = facts.seen_at - facts.uptime
    ids = f"(run id {facts.run_id[:8]}, was {before.run_id[:8]})"
    if started > before.seen_at - 2:  # The uptime is in whole seconds.
        return ServerChange(started, f"the server{address} was restarted {{}} s ago {ids} and no longer has it")
    return ServerChange(facts.seen_at, f"another server answers{address} since {{}} s {ids}, which does not have it")


def _was_flushed(facts: ServerFacts, before: ServerFacts) -> bool:
    """Return whether a server was flushed since it was asked before; not if that is not known."""
    if facts.flushes is None or before.flushes is None or facts.flushes <= before.flushes:
        return False
    return before.flushes > 0 or not facts.keys


class ServerState:
    """What one client knows of its server.

    Args:
        mutex: For a few plain statements.
        now: Monotonic seconds.
        complain: Called with what is wrong with the server, once for each setting.
        strict: Whether that is an error instead.

    Attributes:
        facts: As of the newest connection that gave them; ``None`` before the first.
        refusal: Why the server would not reply, the last time it was asked; ``None`` if it did.
        round_trip: Seconds that a request to it takes: as the newest connection began, or less, if others were answered
            sooner since; 0: not known.
        longest_lease: The longest that this client has requested, in seconds.
        replaced: The run id that replaced another one, if one did.
        on_learned: Called with the facts of each new connection.
        on_change: Called when a server was restarted, replaced or flushed: what is held there has to be checked.
        on_answer: Called when a server answers that may have been away: on new connections, and in the background.
    """

    def __init__(
        self,
        mutex: AbstractContextManager[Any],
        now: Callable[[], float],
        *,
        complain: Callable[[Complaint], None],
        strict: bool,
    ) -> None:
        self._mutex = mutex
        self._now = now
        self._complain = complain
        self._strict = strict
        self._told: set[str] = set()
        self.facts: ServerFacts | None = None
        self.refusal: Exception | None = None
        self.round_trip: float = 0.0
        self.longest_lease: float = 0.0
        self.replaced: str | None = None
        self.on_learned: list[Learned] = []
        self.on_answer: list[OnAnswer] = []
        self.on_change: Callable[[], object] = lambda: None
        self._nodes: dict[str, ServerFacts] = {}
        self._changes: dict[str, ServerChange] = {}
        self._inspected_at: dict[str, float] = {}

    def inspect(self, reply: object, took: float | None = None, node: str = "") -> None:
        """Take the reply to ``INFO``, or the error that was one.

        Args:
            reply: The reply.
            took: The seconds that it took on a new connection; ``None``: it was not the first request there.
            node: The node of a cluster that it is of, as ``host:port``; empty if there is one server.

        Raises:
            Rejected: ``Config.strict_server`` does not let this server be used.
        """
        if took is not None:
            self.round_trip = took
        self.heard(node)
        if isinstance(reply, bytes):
            facts = read_info(reply, self._now())
            with self._mutex:
                before, self.facts = self.facts, facts
                self.refusal = None
            self._note_start(facts, before)
            self._compare(node, facts)
            for learn in tuple(self.on_learned):
                learn(facts, before)
            for complaint in complaints(facts):
                self.report_or_refuse(complaint)
        elif isinstance(reply, Exception):
            self.refused(reply)
        else:
            self.refused(RedissonError(f"INFO was answered by a {type(reply).__name__}"))

    def _note_start(self, facts: ServerFacts, before: ServerFacts | None) -> None:
        if before is not None and before.run_id and facts.run_id and before.run_id != facts.run_id:
            self.replaced = facts.run_id

    def _compare(self, node: str, facts: ServerFacts) -> None:
        """Note whether a server was restarted, replaced or flushed since it was asked the last time."""
        with self._mutex:
            before = self._nodes.get(node)
            if facts.flushes is None and before is not None and before.run_id == facts.run_id:
                facts = replace(facts, flushes=before.flushes)
            self._nodes[node] = facts
        change = None if before is None else restart_of(node and f" {node}", facts, before)
        known = self._changes.get(node)
        if change is not None and before is not None and known is not None and known.at >= before.seen_at:
            return  # Sentinels, or nodes, have said before that it is another one.
        if change is not None:
            self.note_change(node, change)
        elif before is not None and _was_flushed(facts, before):
            where = node and f" {node}"
            self.note_change(node, ServerChange(facts.seen_at, f"the server{where} was flushed (noticed {{}} s ago)"))

    def note_change(self, node: str, change: ServerChange) -> None:
        """Note that a server may no longer have what it had."""
        with self._mutex:
            self._changes[node] = change
        self.on_change()

    def may_inspect(self, node: str, now: float) -> bool:
        """Return whether a server has not been asked within a second what became of what it had. It will be now."""
        with self._mutex:
            if now < self._inspected_at.get(node, -math.inf) + 1:
                return False
            self._inspected_at[node] = now
        return True

    def cause(self, node: str, confirmed: float) -> str | None:
        """Say what became of something that a server had at that time, if that is known."""
        change = self._changes.get(node)
        if change is None or change.at < confirmed - 1:
            return None
        return change.text.format(max(0, round(self._now() - change.at)))

    def heard(self, node: str = "", name: str | None = None) -> None:
        """Note that a server has answered; see :data:`OnAnswer`."""
        for note in self.on_answer:
            note(node, name)

    def answered_within(self, seconds: float) -> None:
        """Note that a request was answered sooner than the first one on its connection."""
        self.round_trip = seconds

    def refused(self, error: Exception) -> None:
        """Note that a server does not say anything of itself. Raises as :meth:`inspect`."""
        self.refusal = error
        if self._strict:
            raise Rejected(
                RedissonError(
                    f"strict_server: the server does not report its settings ({error}). Allow this user to run INFO, "
                    "or disable strict_server"
                )
            ) from error

    def report_or_refuse(self, complaint: Complaint) -> None:
        """Say that something is wrong, once a client; strictly, refuse the server each time.

        Raises:
            Rejected: ``Config.strict_server``.
        """
        if self.is_new(complaint):
            self._complain(complaint)

    def is_new(self, complaint: Complaint) -> bool:
        """Return whether this is the first of its setting, and to be reported. Raises as :meth:`report_or_refuse`."""
        if self._strict:
            raise Rejected(RedissonError(f"strict_server: {complaint.text}"))
        return self.first(complaint.setting)

    def first(self, setting: str) -> bool:
        """Note something to report of a setting or of a run. Returns whether that is news to this client."""
        with self._mutex:
            known = setting in self._told
            self._told.add(setting)
        return not known

    def forget(self, mutex: AbstractContextManager[Any]) -> None:
        """Know nothing: this is another client now, on connections of its own; a thread of the former may be inside."""
        self._mutex = mutex
        self.facts = None
        self.refusal = None
        self.round_trip = self.longest_lease = 0.0
        self.replaced = None
        self._told = set()
        self._nodes, self._changes, self._inspected_at = {}, {}, {}
