"""The same calls in Java and in Python, each on a name of its own, and what is left of them in Redis.

Three owners on either side, two of them of one client, do the same things in the same order. After each step the
outcome of the call, all keys (their names, types, values and times to live) and all messages of both sides are
compared, with client ids, thread numbers, permit ids and the name itself replaced by what they have in common.

What differs on purpose is in :data:`EXEMPT`, and nothing else may.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from pyredisson import LockError
from tests.interop.clients import Owner, not_owned
from tests.interop.peer import WITHIN, JavaError
from tests.waiting import until

OWNERS: Final = 3
FAMILIES: Final = {
    "lock": ("lock", "spin_lock", "fenced_lock", "non_reentrant_lock"),
    "fair": ("fair_lock", "non_reentrant_fair_lock"),
    "read_write": ("read_lock", "write_lock"),
    "semaphore": ("semaphore",),
    "permits": ("permit_expirable_semaphore",),
    "latch": ("count_down_latch",),
}

#: What differs on purpose, by the name under which it is let through below. Each has a test in test_exemptions.py: that
#: it is so, and that the two exclude each other nevertheless.
EXEMPT: Final = {
    "a TTL is never lowered": "Java writes the lease of the call or of its lock object, whatever is left",
    "a fenced re-entry joins": "Java draws a token for each re-entry",
    "fair scores": "ours are the server's time, and are raised while the waiter lives",
    "a downgrade tells": "when a writer goes on reading, ours publishes 1, and Java's publishes nothing",
    "a fair lock that is gone": "Java's unlock of one succeeds, ours raises; both notify the head of the queue",
    "keys of one side": "the unlock latch of Java; epochs, numbers and the permits in all of ours, and until when our "
    "fair waiters can be alive, while any wait",
    "each side has its time": "what is left is None in ours if the lock is held, but this side of it is not",
    "an old unlock of nothing": "before Redisson 3.44, to unlock a read-write lock that is gone succeeded",
    "an old reader who writes": "long ago, a read lock was not called locked if its owner held the write lock, too",
    "nothing is asked for nothing": "ours refuses an unlock by one who never had the lock without asking; if nobody "
    "has the read-write lock, Java's tells those who wait",
    "an upgrade raises": "a reader that asks for the write lock is refused by Java, and told of its mistake by ours",
}

OF_ONE_SIDE = re.compile(r"^(pyredisson_(epoch|done|permits|lock_alive)|redisson_unlock_latch):")
_MARK = "the step is over"

Outcome: TypeAlias = object
"""What came of a call: its result, or a word for what it raised."""


#: The methods whose first argument is the id of a permit, or several.
WITH_AN_ID: Final = ("release", "try_release", "update_lease_time", "get_lease_time")


@dataclass(frozen=True)
class Step:
    """One thing to do: ``who`` calls a method of its handle, or the test does something to the server itself.

    Permits are named by when they were taken: in the arguments, an ``int`` where Redis has an id, or a list of them.
    """

    who: int
    kind: str
    method: str
    args: tuple[Any, ...] = ()
    #: Whether the owner has, or had and lost, what it wants to give back.
    held: bool = True
    #: Arguments with a keyword.
    options: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"owner {self.who}: {self.kind}.{self.method}{self.args}{self.options or ''}"


@dataclass(frozen=True)
class Entry:
    """One key: its type, what it holds, and the milliseconds that it has left (``None``: without end)."""

    type: str
    value: Any
    left: int | None


State: TypeAlias = dict[str, Entry]
Messages: TypeAlias = list[tuple[str, str]]
"""By channel, in order."""


@dataclass
class Twin:
    """One of the two sides.

    Attributes:
        name: What all its owners use.
    """

    owners: list[Owner]
    name: str
    permits: list[str] = field(default_factory=list)
    waiting: dict[int, Future[Any]] = field(default_factory=dict)

    def start(self, step: Step) -> Future[Any]:
        args = step.args
        if step.kind == "permit_expirable_semaphore" and step.method in WITH_AN_ID:
            first = args[0]
            ids = [self.permits[each] for each in first] if isinstance(first, list) else self.permits[first]
            args = (ids, *args[1:])
        return self.owners[step.who].get(step.kind, self.name).start(step.method, *args, **step.options)

    def outcome(self, step: Step, future: Future[Any]) -> Outcome:
        """What came of a call, in words that both sides share."""
        try:
            result = future.result(WITHIN)
        except Exception as error:
            if not_owned(error):
                return "re-entered" if "non-reentrant" in str(error) else "not owned"
            if isinstance(error, JavaError) or not isinstance(error, LockError):
                raise
            return "upgrade" if step.kind == "write_lock" else "re-entered"
        if isinstance(result, str):
            self.permits.append(result)
            return "a permit"
        if isinstance(result, list):
            self.permits += result
            return f"{len(result)} permits"
        return result

    def common(self, text: str) -> str:
        """Without what only this side calls so."""
        for number, owner in enumerate(self.owners):
            text = text.replace(owner.field, f"owner{number}")
        return text.replace(self.name, "NAME")

    def member(self, member: bytes) -> str:
        """A member of a sorted set: an owner, or the sixteen bytes of a permit."""
        if len(member) == 16 and member.hex() in self.permits:
            return f"permit{self.permits.index(member.hex())}"
        return self.common(member.decode())


class Server:
    """Looks at what both sides leave there. It is used by nobody else, and emptied for each sequence."""

    def __init__(self, client: Any) -> None:
        self.redis = client
        self._heard: Any = self.redis.pubsub()
        self._heard.psubscribe("*")
        until(self._heard.get_message, what="it is subscribed")

    def close(self) -> None:
        self._heard.close()

    def state(self, twins: Sequence[Twin]) -> list[State]:
        """What each of them has left, at one moment."""
        keys = [key.decode() for key in self.redis.keys("*")]
        with self.redis.pipeline(transaction=True) as pipe:
            for key in keys:
                pipe.type(key)
            types = [each.decode() for each in pipe.execute()]
            for key, kind in zip(keys, types, strict=True):
                pipe.pttl(key)
                match kind:
                    case "hash":
                        pipe.hgetall(key)
                    case "list":
                        pipe.lrange(key, 0, -1)
                    case "zset":
                        pipe.zrange(key, 0, -1, withscores=True)
                    case "string":
                        pipe.get(key)
                    case _:  # It ended between the two.
                        pipe.exists(key)
            replies = pipe.execute()
        states: list[State] = [{} for _ in twins]
        for key, kind, left, value in zip(keys, types, replies[::2], replies[1::2], strict=True):
            whose, twin = next((n, twin) for n, twin in enumerate(twins) if twin.name in key)
            if not OF_ONE_SIDE.match(key):
                if kind == "hash":
                    value = {twin.common(name.decode()): int(n) if n.isdigit() else n for name, n in value.items()}
                elif kind == "list":
                    value = [twin.common(each.decode()) for each in value]
                elif kind == "zset":
                    value = {twin.member(member): score for member, score in value}
                states[whose][twin.common(key)] = Entry(kind, value, None if left == -1 else left)
        return states

    def messages(self, twins: Sequence[Twin]) -> list[Messages]:
        """What was said on their channels since the last time."""
        self.redis.publish(_MARK, "")
        heard: list[Messages] = [[] for _ in twins]
        while True:
            message = self._heard.get_message(timeout=5.0)
            assert message is not None, "no messages come any more"
            channel = message["channel"].decode()
            if channel == _MARK:
                return heard
            whose, twin = next((n, twin) for n, twin in enumerate(twins) if twin.name in channel)
            heard[whose].append((twin.common(channel), message["data"].decode()))


class Differs(AssertionError):
    """The two sides differ."""


@dataclass
class Both:
    """A sequence of steps on both sides, compared after each.

    Attributes:
        one_lease: All leases in it are the same, so that there is no TTL to lower: they have to be equal.
    """

    java: Twin
    python: Twin
    server: Server
    one_lease: bool
    #: Whether this Redisson is from before 3.44.
    old: bool = False
    #: What was left of the lock in Python after the step before, and when that was.
    before: tuple[Entry | None, float] = (None, 0.0)
    done: list[Step] = field(default_factory=list)
    #: How often a fenced lock was re-entered: Java draws a token for each, ours for none.
    joined: int = 0
    #: Whether it is a write lock to which a re-entry has added its lease: Java takes all that off when one is left.
    summed: bool = False
    began: float = field(default_factory=time.monotonic)

    def step(self, step: Step, then: int | None = None) -> Outcome:
        """Do one step, compare everything, and return what came of it. ``then``: who waits, and comes in thereby."""
        self.done.append(step)
        outcomes = []
        for twin in (self.java, self.python):
            outcomes.append(twin.outcome(step, twin.start(step)))
            if then is not None:
                twin.waiting.pop(then).result(WITHIN)
        return self.compare(*outcomes)

    def to_the_server(self, *commands: Sequence[Any], about: str) -> None:
        """Do the same to what both have left: ``NAME`` in a command is the name of each."""
        self.done.append(Step(-1, "the server", about))
        for twin in (self.java, self.python):
            for command in commands:
                self.server.redis.execute_command(
                    *(word.replace("NAME", twin.name) if isinstance(word, str) else word for word in command)
                )
        self.compare(None, None)

    def begin(self, step: Step, queue: str) -> None:
        """Let an owner wait for a fair lock, and wait until it stands in the queue."""
        self.done.append(step)
        for twin in (self.java, self.python):
            twin.waiting[step.who] = twin.start(step)
            name = queue.replace("NAME", twin.name)
            until(
                lambda twin=twin, name=name: (
                    twin.owners[step.who].field.encode() in self.server.redis.lrange(name, 0, -1)
                ),
                what=f"{step} is queued up",
            )
        self.compare(None, None)

    def compare(self, java: Outcome, python: Outcome) -> Outcome:
        """Everything, after the step that was done last."""
        step = self.done[-1]
        twins = (self.java, self.python)
        looked = time.monotonic()
        said = self.server.messages(twins)
        states = self.server.state(twins)
        slack = (time.monotonic() - self.began) * 1000 + 20
        problems = [
            *self._compare_outcomes(step, java, python, slack),
            *self._compare_messages(step, java, said, states[0]),
            *self._compare_states(states[0], states[1], slack),
            *self._compare_with_before(states[1].get("NAME"), looked),
        ]
        if problems:
            history = "\n".join(f"  {each}" for each in self.done)
            raise Differs("\n".join(problems) + f"\nafter\n{history}\nJava:   {states[0]}\nPython: {states[1]}")
        return java

    def _compare_outcomes(self, step: Step, java: Outcome, python: Outcome, slack: float) -> list[str]:
        if step.method == "remain_time_to_live" and java is not None:
            # As the TTLs. EXEMPT: "each side has its time"
            return [] if python is not None or step.kind in FAMILIES["read_write"] else ["only Java knows its time"]
        if step.method == "get_lease_time" and isinstance(java, float) and isinstance(python, float):
            return [] if java == python or abs(java - python) * 1000 <= slack else [f"Java: {java}; Python: {python}"]
        if step.kind == "fenced_lock" and step.method == "get_token":
            return []  # As the counter.
        if java == python:
            return []
        if step.method == "unlock" and "fair" in step.kind and python == "not owned" and java is None:
            return []  # EXEMPT: "a fair lock that is gone"
        if step.kind == "write_lock" and python == "upgrade" and java is False:
            return []  # EXEMPT: "an upgrade raises"
        if step.kind in FAMILIES["read_write"] and self.old and python == "not owned" and java is None:
            return []  # EXEMPT: "an old unlock of nothing"
        if (step.kind, step.method) == ("read_lock", "is_locked") and self.old and python is True:
            return []  # EXEMPT: "an old reader who writes"
        return [f"Java: {java!r}; Python: {python!r}"]

    def _compare_messages(self, step: Step, outcome: Outcome, said: list[Messages], state: State) -> list[str]:
        java, python = said
        if step.kind == "write_lock" and step.method == "unlock" and outcome is None and not java:
            lock = state.get("NAME")
            if lock is not None and lock.value.get("mode") == b"read":
                java = [("redisson_rwlock:{NAME}", "1")]  # EXEMPT: "a downgrade tells"
        if not python and not step.held and "NAME" not in state and step.kind in FAMILIES["read_write"]:
            java = []  # EXEMPT: "nothing is asked for nothing"
        return [] if java == python else [f"Java said {java}, Python {python}"]

    def _compare_states(self, java: State, python: State, slack: float) -> list[str]:
        problems = []
        lock = python.get("NAME")
        writers = (
            [n for name, n in lock.value.items() if name.endswith(":write")] if lock and lock.type == "hash" else []
        )
        self.summed = lock is not None and (self.summed or any(n > 1 for n in writers))
        for key in sorted({*java, *python}):
            one, other = java.get(key), python.get(key)
            if one is None or other is None:
                problems.append(f"only one has {key}: Java {one}, Python {other}")
                continue
            if key.startswith("redisson_lock_token"):
                # EXEMPT: "a fenced re-entry joins"
                one = replace(one, value=str(int(one.value) - self.joined).encode())
            if (one.type, self._plain(key, one)) != (other.type, self._plain(key, other)):
                problems.append(f"{key} differs: Java {one}, Python {other}")
            if one.type == "zset":
                problems += self._compare_scores(key, one.value, other.value, slack)
            if one.left is None or other.left is None:
                if one.left is not other.left:
                    problems.append(f"only one {key} has an end: Java {one.left}, Python {other.left}")
            elif self.one_lease and not self.summed and abs(one.left - other.left) > slack:
                # EXEMPT: "a TTL is never lowered", if not all leases are the same
                problems.append(f"{key} ends in {one.left} ms in Java, {other.left} ms in Python")
        return problems

    def _compare_with_before(self, lock: Entry | None, looked: float) -> list[str]:
        """As long as nobody goes, the time left may only pass."""
        (before, then), now = self.before, time.monotonic()
        self.before = lock, looked
        if lock is None or before is None or lock.type != "hash" or before.left is None or lock.left is None:
            return []
        if not before.value.keys() <= lock.value.keys():
            return []
        lowered = before.left - lock.left - (now - then) * 1000 > 20
        return [f"the time left was lowered in Python from {before.left} to {lock.left} ms"] if lowered else []

    @staticmethod
    def _plain(key: str, entry: Entry) -> Any:
        return sorted(entry.value) if entry.type == "zset" else entry.value

    def _compare_scores(self, key: str, java: dict[str, float], python: dict[str, float], slack: float) -> list[str]:
        problems = []
        for member in java.keys() & python.keys():
            one, other = java[member], python[member]
            if key.startswith("redisson_lock_timeout") and other >= one - slack:
                continue  # EXEMPT: "fair scores"
            if key.startswith("redisson_lock_timeout") and not self.one_lease:
                continue  # It depends on what is left of the lock: EXEMPT: "a TTL is never lowered"
            if abs(one - other) > slack:
                problems.append(f"the score of {member} in {key}: Java {one}, Python {other}")
        return problems
