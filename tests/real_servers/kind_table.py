"""The kinds of locks and synchronizers, and what each one stores, so that a test is written once for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import redis

from pyredisson.core.names import writer_field
from tests.real_servers.handles import handle
from tests.real_servers.observation import calls, held, keys, nothing_left
from tests.waiting import until
from tests.worlds.base import Actor

#: What Redis stores for an object, to be compared.
State: TypeAlias = int | tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """A call in a sequence, what it returns (``...``: the id of a permit), and what Redis stores after it."""

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
    """A kind of lock or synchronizer.

    Attributes:
        name: As in the client's ``get_<name>``, or a side of a read-write lock.
        state: Returns what Redis stores for a handle and an actor.
        steps: Calls of one owner, alone, that use every method, and end with nothing held.
        is_acquire: Whether a request is the one that its waiters send.
        acquire: The method that waiters call.
        release: The method that ends a hold; that of a permit gets its id. ``None``: there is nothing to release.
        try_acquire: The method that acquires without waiting, if there is one.
        blocked_by: The kind whose holder keeps others from acquiring this one, if it is another.
        has_permits: Whether permits have to be set first, which stay.
    """

    name: str
    state: Callable[[redis.Redis, Any, Actor], State]
    steps: tuple[Step, ...]
    is_acquire: Callable[[list[bytes]], bool]
    acquire: str = "lock"
    release: str | None = "unlock"
    try_acquire: str | None = "try_lock"
    blocked_by: str = ""
    has_permits: bool = False

    def __str__(self) -> str:
        return self.name

    def handle(self, client: Any, name: str) -> Any:
        """Return a handle on an object of this kind."""
        return handle(client, self.name, name)

    def blocking_handle(self, client: Any, name: str) -> Any:
        """Return a handle on what excludes it: another object only for a side of a read-write lock."""
        return handle(client, self.blocked_by or self.name, name)

    def block(self, actor: Actor, client: Any, name: str) -> Callable[[], None]:
        """Let an actor acquire it, so that others have to wait. Return the call that lets one of them in."""
        blocking = self.blocking_handle(client, name)
        if self is LATCH:
            actor.do(blocking.try_set_count, 1)
            return lambda: actor.do(blocking.count_down)
        if self.has_permits:
            actor.do(blocking.try_set_permits, 1)
        acquired = actor.do(getattr(blocking, self.acquire))
        return lambda: self.give_back(actor, blocking, acquired)

    def give_back(self, actor: Actor, handle: Any, acquired: Any) -> None:
        """Let an actor release what ``acquire`` returned."""
        if self.release is not None:
            actor.do(getattr(handle, self.release), *([acquired] if isinstance(acquired, str) else []))

    def await_rest(self, direct: redis.Redis, client: Any, name: str, permits: int) -> None:
        """Wait until nothing is left of its use but this many permits, and delete those."""
        if self.has_permits:
            until(lambda: direct.get(name) == str(permits), what=f"{permits} permits are there: {direct.get(name)}")
            until(lambda: keys(direct, name) == {name}, what="no permit is held")
            direct.delete(name)
        nothing_left(direct, client, name)


def _fair(direct: redis.Redis, lock: Any, actor: Actor) -> State:
    return held(direct, lock, actor), direct.llen(f"redisson_lock_queue:{{{lock.name}}}")


def _reading(direct: redis.Redis, lock: Any, actor: Actor) -> State:
    return held(direct, lock, actor), sum(":rwlock_timeout:" in key for key in keys(direct, lock.name))


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


LOCK = Kind("lock", held, _nested(lambda held: held), calls("lock_acquire", "lock_acquire_waiting"))
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
    calls("read_lock_acquire", "read_lock_acquire_waiting"),
    blocked_by="write_lock",
)
WRITE = Kind(
    "write_lock",
    _writing,
    _nested(lambda held: held),
    calls("write_lock_acquire", "write_lock_acquire_waiting"),
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
    calls("semaphore_acquire", "semaphore_acquire_waiting"),
    "acquire",
    "release",
    "try_acquire",
    has_permits=True,
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
    calls("permit_acquire", "permit_acquire_waiting"),
    "acquire",
    "release",
    "try_acquire",
    has_permits=True,
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
KINDS = (LOCK, FAIR, READ, WRITE, SEMAPHORE, PERMITS, LATCH)
