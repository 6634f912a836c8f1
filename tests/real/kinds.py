"""The family: each kind by name, with what stands for it in Redis, so that a fault can be told once for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import redis

from pyredisson.core.names import owner_field, writer_field
from tests.real.handles import handle
from tests.real.looking import calls, keys, nothing_left
from tests.waiting import until
from tests.worlds.base import Actor

#: What is in Redis for something, to be compared.
State: TypeAlias = int | tuple[int, ...]
Look: TypeAlias = Callable[[redis.Redis, Any, Actor], State]


@dataclass(frozen=True)
class Step:
    """A call in a run, what it returns, and what stands in Redis after it."""

    method: str
    args: tuple[Any, ...]
    result: Any
    state: State

    @property
    def free(self) -> int:
        """How many permits there are."""
        return self.state[0] if isinstance(self.state, tuple) else self.state


@dataclass(frozen=True)
class Kind:
    """One kind of what several share.

    Attributes:
        name: That of the client's ``get_...``, or a side of a read-write lock.
        look: What stands in Redis.
        run: Calls of one owner, alone, that use all of it, and end at rest.
        asks: What its waiters ask the server.
        take: What takes it.
        give: What gives it back. That of a permit gets its id. ``None``: there is nothing to give back.
        glance: What takes it if that needs no wait.
        blocked_by: The kind that keeps others from taking it.
        permits: Whether there has to be one first, which stays.
    """

    name: str
    look: Look
    run: tuple[Step, ...]
    asks: Callable[[list[bytes]], bool]
    take: str = "lock"
    give: str | None = "unlock"
    glance: str | None = "try_lock"
    blocked_by: str = ""
    permits: bool = False

    def __str__(self) -> str:
        return self.name

    def of(self, client: Any, name: str) -> Any:
        """A handle on it."""
        return handle(client, self.name, name)

    def opponent(self, client: Any, name: str) -> Any:
        """A handle on what excludes it: as a rule the same."""
        return handle(client, self.blocked_by or self.name, name)

    def block(self, actor: Actor, client: Any, name: str) -> Callable[[], None]:
        """Let the actor take it, so that others have to wait. Returns what lets them in."""
        blocking = self.opponent(client, name)
        if self is LATCH:
            actor.do(blocking.try_set_count, 1)
            return lambda: actor.do(blocking.count_down)
        if self.permits:
            actor.do(blocking.try_set_permits, 1)
        taken = actor.do(getattr(blocking, self.take))
        return lambda: self.give_back(actor, blocking, taken)

    def give_back(self, actor: Actor, taken_of: Any, taken: Any) -> None:
        """Let the actor give back what ``take`` returned."""
        if self.give is not None:
            actor.do(getattr(taken_of, self.give), *([taken] if isinstance(taken, str) else []))

    def at_rest(self, direct: redis.Redis, client: Any, name: str, permits: int) -> None:
        """Nothing is left of its use but so many permits, and those are taken away."""
        if self.permits:
            until(lambda: direct.get(name) == str(permits), what=f"{permits} permits are there: {direct.get(name)}")
            until(lambda: keys(direct, name) == {name}, what="no permit is taken")
            direct.delete(name)
        nothing_left(direct, client, name)


def _fair(direct: redis.Redis, lock: Any, actor: Actor) -> State:
    held = int(direct.hget(lock.name, owner_field(lock._client.id, actor.number)) or 0)
    return held, direct.llen(f"redisson_lock_queue:{{{lock.name}}}")


def _reading(direct: redis.Redis, lock: Any, actor: Actor) -> State:
    held = int(direct.hget(lock.name, owner_field(lock._client.id, actor.number)) or 0)
    return held, sum(":rwlock_timeout:" in key for key in keys(direct, lock.name))


def _writing(direct: redis.Redis, lock: Any, actor: Actor) -> State:
    return int(direct.hget(lock.name, writer_field(lock._client.id, actor.number)) or 0)


def _number(direct: redis.Redis, counter: Any, actor: Actor) -> State:
    return int(direct.get(counter.name) or 0)


def _permits(direct: redis.Redis, permits: Any, actor: Actor) -> State:
    return int(direct.get(permits.name) or 0), direct.zcard(f"{{{permits.name}}}:timeout")


def _nested(state: Callable[[int], State]) -> tuple[Step, ...]:
    methods = ("lock", "lock", "unlock", "lock", "lock", "unlock", "unlock", "unlock")
    return tuple(
        Step(method, (), None, state(held)) for method, held in zip(methods, (1, 2, 1, 2, 3, 2, 1, 0), strict=True)
    )


FAIR = Kind(
    "fair_lock",
    _fair,
    _nested(lambda held: (held, 0)),
    calls("fair_acquire", "fair_look"),
)
READ = Kind(
    "read_lock",
    _reading,
    _nested(lambda held: (held, held)),
    calls("read_lock_acquire"),
    blocked_by="write_lock",
)
WRITE = Kind(
    "write_lock",
    _writing,
    _nested(lambda held: held),
    calls("write_lock_acquire"),
    blocked_by="read_lock",
)
SEMAPHORE = Kind(
    "semaphore",
    _number,
    (
        Step("try_set_permits", (5,), True, 5),
        Step("try_set_permits", (4,), False, 5),
        Step("acquire", (2,), True, 3),
        Step("try_acquire", (4,), False, 3),
        Step("release", (1,), None, 4),
        Step("add_permits", (3,), None, 7),
        Step("drain_permits", (), 7, 0),
        Step("release", (5,), None, 5),
    ),
    calls("semaphore_acquire"),
    "acquire",
    "release",
    "try_acquire",
    permits=True,
)
PERMITS = Kind(
    "permit_expirable_semaphore",
    _permits,
    (
        Step("try_set_permits", (2,), True, (2, 0)),
        Step("acquire", (), ..., (1, 1)),
        Step("update_lease_time", (..., 600), True, (1, 1)),
        Step("add_permits", (1,), None, (2, 1)),
        Step("release", (...,), None, (3, 0)),
        Step("try_release", (...,), False, (3, 0)),
        Step("try_acquire", (0, 60), ..., (2, 1)),
        Step("try_release", (...,), True, (3, 0)),
    ),
    calls("permit_acquire"),
    "acquire",
    "release",
    "try_acquire",
    permits=True,
)
LATCH = Kind(
    "count_down_latch",
    _number,
    (
        Step("try_set_count", (3,), True, 3),
        Step("count_down", (), None, 2),
        Step("try_set_count", (9,), False, 2),
        Step("count_down", (), None, 1),
        Step("count_down", (), None, 0),
        Step("try_set_count", (1,), True, 1),
        Step("count_down", (), None, 0),
    ),
    lambda args: args[0].upper() == b"GET",
    "wait",
    None,
    None,
)
FAMILY = (FAIR, READ, WRITE, SEMAPHORE, PERMITS, LATCH)
