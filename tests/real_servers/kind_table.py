"""The kinds of locks and synchronizers, so that a test is written once for all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import redis

from tests.real_servers.handles import handle
from tests.real_servers.observation import keys, nothing_left
from tests.waiting import until
from tests.worlds.base import Actor


@dataclass(frozen=True)
class Kind:
    """A kind of lock or synchronizer.

    Attributes:
        name: As in the client's ``get_<name>``, or a side of a read-write lock.
        acquire: The method that waiters call.
        release: The method that ends a hold; that of a permit gets its id. ``None``: there is nothing to release.
        try_acquire: The method that acquires without waiting, if there is one.
        blocked_by: The kind whose holder keeps others from acquiring this one, if it is another.
    """

    name: str
    acquire: str = "lock"
    release: str | None = "unlock"
    try_acquire: str | None = "try_lock"
    blocked_by: str = ""

    def __str__(self) -> str:
        return self.name

    @property
    def has_permits(self) -> bool:
        """Whether permits have to be set first, which stay."""
        return "semaphore" in self.name

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
            stays = {name, f"pyredisson_permits:{{{name}}}"}
            until(lambda: keys(direct, name) <= stays, what="no permit is held")
            direct.delete(*stays)
        nothing_left(direct, client, name)


LOCK = Kind("lock")
FAIR = Kind("fair_lock")
READ = Kind("read_lock", blocked_by="write_lock")
WRITE = Kind("write_lock", blocked_by="read_lock")
FENCED = Kind("fenced_lock")
SEMAPHORE = Kind("semaphore", "acquire", "release", "try_acquire")
PERMITS = Kind("permit_expirable_semaphore", "acquire", "release", "try_acquire")
LATCH = Kind("count_down_latch", "wait", None, None)
OTHER_LOCKS = tuple(map(Kind, ("spin_lock", "non_reentrant_lock", "non_reentrant_fair_lock", "token_lock")))
KINDS = (LOCK, FAIR, READ, WRITE, FENCED, *OTHER_LOCKS, SEMAPHORE, PERMITS, LATCH)
