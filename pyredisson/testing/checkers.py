"""What must hold in every history, checked while it happens.

Beside the system, not inside it: a checker looks at what the servers did and at what the clients believe, and raises
:class:`Violation` at the very event that broke a rule. The seed then replays it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyredisson.core.holds import Claim, Pending
from pyredisson.testing.runtime import SimulatedClient
from pyredisson.testing.world import Node, World

__all__ = ["LockRules", "Violation", "leftovers"]


class Violation(AssertionError):
    """A rule was broken."""


class LockRules:
    """The rules of exclusive locks, on one server.

    1. When a lock is granted to an owner, no other owner believes to hold it: each one's validity is over, or its last
       unlock has been asked for. (So whoever lost a lock could know it before the next one got it.)
    2. Nobody but the release of a last hold, a forced unlock, or the end of a lease shortens the life of a lock.
    3. A lock has at most one holder, and always a TTL.
    """

    def __init__(self, world: World, clients: Iterable[SimulatedClient]) -> None:
        self._clients = list(clients)
        self._world = world
        self._ends: dict[bytes, int] = {}
        self.grants = 0
        world.watchers.append(self._after)

    def believers(self, name: str) -> list[Claim]:
        """The claims whose owners may, at this moment, act as holders of a lock."""
        found = []
        for client in self._clients:
            now = client.runtime.now()
            for claim in client.core.claims.of(name):
                leaving = claim.pending is Pending.RELEASE and len(claim.levels) == 1
                if claim.remaining(now) > 0 and not leaving:
                    found.append(claim)
        return found

    def _after(self, node: Node, script: str, keys: list[bytes], args: list[bytes], result: Any) -> None:
        if not script.startswith(("lock_", "fair_")):
            return
        granted = script in ("lock_acquire", "fair_acquire") and result is None
        if granted:
            self.grants += 1
            owner = args[1].decode()
            others = [claim for claim in self.believers(keys[0].decode()) if claim.owner != owner]
            if others:
                raise Violation(f"{keys[0]!r} was granted to {owner} at {self._world.now:.6f} s, held by {others}")
        ended = script.endswith(("_release", "_force_unlock")) and result not in (None, 0)
        dump = node.redis.dump()
        for key in keys if script == "lock_renew" else keys[:1]:
            entry = dump.get(key)
            end = 0
            if entry is not None:
                if entry.ttl_ms is None:
                    raise Violation(f"{key!r} has no TTL after {script}")
                if not isinstance(entry.value, dict) or len(entry.value) != 1:
                    raise Violation(f"{key!r} has not one holder after {script}: {entry}")
                end = node.redis.now_us // 1000 + entry.ttl_ms
            before = self._ends.get(key, 0)
            if end < before - 1 and node.redis.now_us // 1000 < before - 1 and not ended:
                raise Violation(f"{script} cut the life of {key!r} short by {before - end} ms")
            self._ends[key] = end


def leftovers(world: World, clients: Iterable[SimulatedClient]) -> list[str]:
    """What is left when all is done and every lease over; nothing, if all is well."""
    found = [f"{name}: {key!r}" for name, state in world.states() for key in state]
    for client in clients:
        now = client.runtime.now()
        found += [repr(claim) for claim in client.core.claims.held() if claim.pending or claim.remaining(now) > 0]
        found += [f"waiting for {channel}" for channel in client.core.wakeups.wanted()]
        found += [f"subscribed to {channel}" for channel in client.runtime.subscribed()]
        if client.core.watchdog.watching():
            found.append(f"{client.core.watchdog.watching()} claims watched by {client.id}")
    return found
