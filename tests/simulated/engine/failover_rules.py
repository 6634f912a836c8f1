"""What must hold in every history in which masters are replaced, and slots move; checked while it happens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyredisson._core.names import LockNames
from pyredisson._core.ownership import Ownership
from pyredisson._core.requests import Pending
from tests.simulated.engine.checkers import LockRules, Violation
from tests.simulated.engine.replication import Loss
from tests.simulated.engine.runtime import AnyClient
from tests.simulated.engine.world import Node, World


class FailoverRules(LockRules):
    """The rules of exclusive locks, fenced or not, where masters are replaced, and slots move.

    1. As for one server, but for overlaps that have a cause, and each has exactly one: the new master does not know the
       hold (``hold``), or only of an earlier end of it (``lease``); or it was taken or prolonged at a server that was
       the master no longer (``isolated``).
    2. Who lost a hold, and wanted to be told, is told by the end of its validity. This is looked at then for those that
       a failover has forgotten, and for all whenever the lock is granted.
    3. Tokens grow, unless the new master has an older one than was handed out; or always, if they follow the clock. A
       re-entry draws none: it names that of the hold which it joins, and from then on its master draws greater ones.
    4. While all is well a lock that is released, and waited for, is taken at once: each waiter's client hears of it.

    Args:
        world: Where they are kept.
        clients: Who has to keep them.
        trusted: The servers that may rightly say who holds a lock, at this moment.
        always_growing: Whether tokens grow whatever is lost.

    Attributes:
        overlaps: How many there were, by cause.
        quiet_from: From when on all is well, in the world's time.
        grants: How many there were.
        tokens: How many were handed out.
    """

    #: Within so many seconds, while all is well, a lock that is released is taken by somebody who waits.
    AT_ONCE = 0.5
    #: The watchdog tells of a loss so soon after the end of a hold's validity, in seconds.
    TELLING = 0.05

    def __init__(
        self,
        world: World,
        clients: Iterable[AnyClient[Any]],
        trusted: Callable[[bytes], Sequence[Node]],
        *,
        always_growing: bool = False,
    ) -> None:
        super().__init__(world, clients)
        self._trusted = trusted
        self._always_growing = always_growing
        self._causes: dict[tuple[bytes, str], str] = {}
        self._last: dict[bytes, tuple[int, str]] = {}
        self._joined: dict[bytes, int] = {}
        self.overlaps: Counter[str] = Counter()
        self.quiet_from = float("inf")
        self.tokens = 0

    def failed_over(self, losses: Iterable[Loss]) -> None:
        """A new master has taken over, and has forgotten this."""
        for loss in losses:
            self._ends.pop(loss.key, None)
            had, has = (_owners(entry.value if entry is not None else None) for entry in (loss.was, loss.remains))
            for owner in sorted(had):
                if owner not in has:
                    self._blame(loss.key, owner, "hold")
                elif _ttl(loss.was) > _ttl(loss.remains):
                    self._blame(loss.key, owner, "lease")
            if not self._always_growing:
                for key in {*self._last, *self._joined}:
                    if LockNames(key.decode()).token == loss.key.decode():
                        self._last.pop(key, None)
                        self._joined.pop(key, None)

    def _blame(self, key: bytes, owner: str, cause: str) -> None:
        self._causes[key, owner] = cause
        for client in self._clients:
            for ownership in client.core.ownerships.of(key.decode()):
                if ownership.owner == owner:
                    self._expect_told(client, ownership)

    def _expect_told(self, client: AnyClient[Any], ownership: Ownership) -> None:
        """Look, when its validity is over, whether the holder knows."""
        process, levels, deadline = client.runtime.process, list(ownership.holds), ownership.deadline
        if not levels:
            return

        def look() -> None:
            if ownership.holds[: len(levels)] == levels and ownership.loss is None:
                if ownership.deadline > deadline or self._world.now < process.resumed_at + self.TELLING:
                    self._expect_told(client, ownership)
                else:
                    self._check_told(client, ownership)

        wait = (deadline - process.now()) / process.rate
        self._world.after(max(0.0, wait) + self.TELLING, look)

    def _check_told(self, client: AnyClient[Any], ownership: Ownership) -> None:
        process = client.runtime.process
        if process.crashed or process.paused or self._world.now < process.resumed_at + self.TELLING:
            return
        over = ownership.deadline + self.TELLING <= process.now() and ownership.who.alive()
        if over and ownership.watched() and ownership.pending is not Pending.RELEASE:
            raise Violation(f"{ownership} is over since {ownership.deadline:.6f}, and its holder was not told")

    def _after(self, node: Node, script: str, keys: list[bytes], args: list[bytes], result: Any) -> None:
        script = script.removesuffix("_waiting")
        if script not in ("lock_acquire", "fenced_acquire", "lock_renew", "lock_release", "lock_force_unlock"):
            return
        acquire = script.endswith("_acquire")
        token = int(result[1]) if acquire and isinstance(result, list) and result[0] == b"token" else None
        granted = token is not None or (script == "lock_acquire" and result is None)
        owners = [arg.decode() for arg in args[1:]] if script == "lock_renew" else [args[0].decode()] if granted else []
        if node not in self._trusted(keys[0]):
            if script == "lock_release" and result == 0:  # What remains of the hold is prolonged.
                owners = [args[0].decode()]
            for key, owner in zip(keys, owners, strict=False):
                self._causes[key, owner] = "isolated"
            return
        if granted:
            self._granted(keys[0], owners[0])
            self._prolonged(node, keys[0], owners[0])
        elif script == "lock_renew" and isinstance(result, list):
            for key, owner, kept in zip(keys, owners, result, strict=True):
                if kept == 1:
                    self._prolonged(node, key, owner)
        if token is not None:
            self._check_token(keys[0], token, owners[0], joins=args[5] != b"")
        ended = script.endswith(("_release", "_force_unlock")) and result not in (None, 0)
        self._look(node, script, keys if script == "lock_renew" else keys[:1], ended=ended)
        if ended and result == 1:
            self._expect_taken(keys[0])

    def _prolonged(self, node: Node, key: bytes, owner: str) -> None:
        """All is well with a hold that a true master knows, unless its owner has been given longer elsewhere."""
        ttl_ms = _ttl(node.redis.dump().get(key))
        for client in self._clients:
            for ownership in client.core.ownerships.of(key.decode()):
                if ownership.owner == owner and 1000 * ownership.remaining(client.runtime.now()) > ttl_ms:
                    return
        self._causes.pop((key, owner), None)

    def _granted(self, key: bytes, owner: str) -> None:
        self.grants += 1
        for client in self._clients:
            for ownership in client.core.ownerships.of(key.decode()):
                self._check_told(client, ownership)
        for ownership in self.believers(key.decode()):
            if ownership.owner == owner:
                continue
            cause = self._causes.get((key, ownership.owner))
            if cause is None:
                raise Violation(f"{key!r} was granted to {owner} at {self._world.now:.6f} s, held by {ownership}")
            self._world.note("overlap", cause)
            self.overlaps[cause] += 1

    def _check_token(self, key: bytes, token: int, owner: str, *, joins: bool) -> None:
        if joins:
            self._joined[key] = max(token, self._joined.get(key, 0))
            return
        last, whose = self._last.get(key, (0, ""))
        if token == last and whose == owner:
            return  # To a copy of the same request.
        # A doubled request takes two tokens, the second of which its owner never hears of.
        if token <= last:
            raise Violation(f"the token {token} of {key!r} was handed out to {owner} after {last} to {whose}")
        if token <= self._joined.get(key, 0):
            raise Violation(f"the token {token} of {key!r} was handed out to {owner} after a hold with a greater one")
        self.tokens += 1
        self._last[key] = (token, owner)

    def _expect_taken(self, key: bytes) -> None:
        since, grants = self._world.now, self.grants
        if since < self.quiet_from or not self._waited_for(key):
            return

        def look() -> None:
            if self.grants == grants and self._waited_for(key):
                held = [node for node in self._trusted(key) if key in node.redis.dump()]
                if not held:
                    raise Violation(f"{key!r} was released at {since:.6f} s, and nobody who waits for it has taken it")

        self._world.after(self.AT_ONCE, look)

    def _waited_for(self, key: bytes) -> bool:
        channel = LockNames(key.decode()).channel
        return any(
            client.core.subscriptions.waiting(channel) for client in self._clients if not client.runtime.process.crashed
        )


def _owners(value: object) -> set[str]:
    return {owner.decode() for owner in value} if isinstance(value, dict) else set()


def _ttl(entry: Any) -> int:
    return 0 if entry is None or entry.ttl_ms is None else int(entry.ttl_ms)
