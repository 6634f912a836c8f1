"""What must hold in every history, checked while it happens.

Beside the system, not inside it: a checker looks at what the servers did and at what the clients believe, and raises
:class:`Violation` at the very event that broke a rule. The seed then replays it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from pyredisson._core.hold import HoldState, Owned
from pyredisson._core.names import ReadWriteNames
from pyredisson._core.ownership import Ownership
from pyredisson._core.requests import Pending
from pyredisson._kinds.token_lock import TokenPair
from pyredisson._quorum.hold import MultiHold
from pyredisson.events import Acquired, Event, Lost, Released
from tests.simulated.engine.runtime import AnyClient
from tests.simulated.engine.world import Node, World


class Violation(AssertionError):
    """A rule was broken."""


class EventRules:
    """The rules of what holders are told.

    1. A hold that was lost is not released without an error: between ``Lost`` and the owner's next ``Acquired`` there
       is no ``Released``. Unless another hold of a quorum stands, or has been released: an outer one by nodes that the
       inner one has not, or the other way round.
    2. Whoever is told that it has acquired a lock holds it for certain at that moment.
    """

    def __init__(self, world: World, clients: Iterable[AnyClient[Any]]) -> None:
        self._world = world
        self._clients = list(clients)
        self._lost: set[tuple[str, str]] = set()
        self._wholes: defaultdict[tuple[str, str], list[MultiHold]] = defaultdict(list)
        for client in self._clients:
            client.core.listen(partial(self._heard, client), lambda: True)

    def _heard(self, client: AnyClient[Any], event: Event) -> None:
        match event:
            case Lost(name=name, owner=owner):
                if not self._is_certain(client, name, owner):
                    self._lost.add((name, owner))
            case Acquired(name=name, owner=owner):
                self._lost.discard((name, owner))
                self._wholes[name, owner] = [each for each in multi_holds(self._clients) if is_of(each, name, owner)]
                if not self._is_certain(client, name, owner):
                    self._break(f"{owner} was told that it has acquired {name!r}, which is over")
            case Released(name=name, owner=owner):
                wholes = self._wholes[name, owner]
                released = next((each for each in wholes if each.state is HoldState.OVER and not each.loss), None)
                if released is not None:
                    wholes.remove(released)
                elif (name, owner) in self._lost:
                    self._break(f"{owner} was told of the loss of {name!r}, and has released it without an error")
            case _:
                pass

    def _is_certain(self, client: AnyClient[Any], name: str, owner: str) -> bool:
        now = client.runtime.now()
        held = [*client.core.ownerships.of(name), *multi_holds(self._clients)]
        return any(is_of(each, name, owner) and each.remaining(now) > 0 for each in held)

    def _break(self, what: str) -> None:
        violation = Violation(f"{what} ({self._world.now:.6f} s)")

        def fail() -> None:
            raise violation

        self._world.after(0.0, fail)  # What a listener raises goes no further.


def is_of(held: Owned, name: str, owner: str) -> bool:
    """Whether it is this owner's, and of this lock."""
    return held.name == name and held.owner == owner


def multi_holds(clients: Iterable[AnyClient[Any]]) -> list[MultiHold]:
    """Return what these clients hold of multi-locks."""
    parts = (part for client in clients for ownership in client.core.ownerships for part in ownership.holds)
    return list(dict.fromkeys(part.whole for part in parts if part.whole is not None))


class OwnershipRules(ABC):
    """Rules that are checked after each script on any server, against the ownerships of all clients.

    Attributes:
        grants: How many there were.
    """

    def __init__(self, world: World, clients: Iterable[AnyClient[Any]]) -> None:
        self._clients = list(clients)
        self._world = world
        self._ends: dict[bytes, int] = {}
        self.grants = 0
        world.watchers.append(self._after)
        EventRules(world, self._clients)

    def believers(self, name: str) -> list[Any]:
        """Return the ownerships whose owners may, at this moment, act as holders of a lock, or of a side of it."""
        found = []
        for client in self._clients:
            now = client.runtime.now()
            for ownership in client.core.ownerships.of(name):
                leaving = ownership.pending is Pending.RELEASE and len(ownership.holds) == 1
                if ownership.remaining(now) > 0 and not leaving:
                    found.append(ownership)
        return found

    @abstractmethod
    def _after(self, node: Node, script: str, keys: list[bytes], args: list[bytes], result: Any) -> None: ...


class LockRules(OwnershipRules):
    """The rules of exclusive locks, on one server.

    1. When a lock is granted to an owner, no other owner believes to hold it: each one's validity is over, or its last
       unlock has been asked for. (So an owner that lost a lock could know it before the next one got it.)
    2. Only the release of a last hold, a forced unlock, or the end of a lease shortens the life of a lock.
    3. A lock has at most one holder, and always a TTL.
    4. A lock is granted only to somebody who asks for it at that time: a late copy of a request takes it for nobody.
    """

    def _after(self, node: Node, script: str, keys: list[bytes], args: list[bytes], result: Any) -> None:
        if not script.startswith(("lock_", "fair_")):
            return
        if script in ("lock_acquire", "lock_acquire_waiting", "fair_acquire") and result is None:
            owner = args[0].decode()
            if any(owner.startswith(client.core.id) for client in self._clients):  # Else it looks at what they left.
                self._check_asked(keys[0], lambda ownership: ownership.owner == owner)
            self._granted(keys[0], owner)
        ended = script.endswith(("_release", "_force_unlock")) and result not in (None, 0)
        self._look(node, script, keys if script == "lock_renew" else keys[:1], ended=ended)

    def _check_asked(self, key: bytes, is_grantee: Callable[[Ownership], bool]) -> None:
        ownerships = [ownership for client in self._clients for ownership in client.core.ownerships.of(key.decode())]
        if not any((each.pending or each.holds) and is_grantee(each) for each in ownerships):
            raise Violation(f"{key!r} was granted at {self._world.now:.6f} s, and nobody had asked for it")

    def _granted(self, key: bytes, owner: str) -> None:
        self.grants += 1
        others = [ownership for ownership in self.believers(key.decode()) if ownership.owner != owner]
        if others:
            raise Violation(f"{key!r} was granted to {owner} at {self._world.now:.6f} s, held by {others}")

    def _look(self, node: Node, script: str, keys: list[bytes], *, ended: bool) -> None:
        dump = node.redis.dump()
        for key in keys:
            entry = dump.get(key)
            end = 0
            if entry is not None:
                if entry.ttl_ms is None:
                    raise Violation(f"{key!r} has no TTL after {script}")
                if not self._has_one_holder(entry.value):
                    raise Violation(f"{key!r} has not one holder after {script}: {entry}")
                end = node.redis.now_us // 1000 + entry.ttl_ms
            before = self._ends.get(key, 0)
            if end < before - 1 and node.redis.now_us // 1000 < before - 1 and not ended:
                raise Violation(f"{script} cut the life of {key!r} short by {before - end} ms")
            self._ends[key] = end

    @staticmethod
    def _has_one_holder(value: object) -> bool:
        return isinstance(value, dict) and len(value) == 1


class TokenRules(LockRules):
    """The same rules, for locks that are a string, the token of their hold."""

    def _after(self, node: Node, script: str, keys: list[bytes], args: list[bytes], result: Any) -> None:
        if not script.startswith("token_"):
            return
        if script == "token_acquire" and result is None:
            token = args[0].decode()
            # An acquire takes over what the token before it has: a doubled packet of one that was refused is that.
            self._check_asked(keys[0], lambda ownership: token in tokens_of(ownership))
            # The token is new; the owner stands behind the epoch's key.
            self._granted(keys[0], ":".join(keys[1].decode().rsplit(":", 3)[1:]))
        ended = script in ("token_release", "token_force_unlock") and result == 1
        self._look(node, script, keys if script == "token_renew" else keys[:1], ended=ended)

    @staticmethod
    def _has_one_holder(value: object) -> bool:
        return isinstance(value, bytes) and bool(value)


def tokens_of(ownership: Ownership) -> tuple[str, ...]:
    """The tokens of a token lock's ownership: the current one, and the one before."""
    tokens = ownership.kind_state
    return (tokens.current, tokens.former) if isinstance(tokens, TokenPair) else ()


class QuorumRules(OwnershipRules):
    """The rules of a lock on a quorum of nodes.

    1. At no time two owners believe to hold it: whenever it is granted, everybody else's validity is over, or its last
       unlock has been asked for. Looked at after each script on any node, too, since renewals prolong a validity.
    2. On each node it has one holder at most, and always a TTL.
    """

    def __init__(self, world: World, clients: Iterable[AnyClient[Any]]) -> None:
        super().__init__(world, clients)
        for client in self._clients:
            client.core.listen(self._heard, lambda: True)

    def believers(self, name: str) -> list[Any]:
        """The holds whose owners may, at this moment, act as holders."""
        holds = multi_holds(self._clients)
        return [each for each in holds if each.name == name and each.remaining(each.client.runtime.now()) > 0]

    def _heard(self, event: Event) -> None:
        if isinstance(event, Acquired):
            self.grants += 1
            self._check(event.name)

    def _check(self, name: str) -> None:
        believers = self.believers(name)
        if len({hold.owner for hold in believers}) > 1:
            owners = [(hold.owner, hold.ownerships) for hold in believers]
            raise Violation(f"{name!r} is held by {len(owners)} at {self._world.now:.6f} s: {owners}")

    def _after(self, node: Node, script: str, keys: list[bytes], args: list[bytes], result: Any) -> None:
        for key in keys[:1] if not script.endswith("renew") else keys:
            name = key.decode()
            if self.believers(name):
                self._check(name)
            entry = node.redis.dump().get(key)
            if entry is None:
                continue
            if entry.ttl_ms is None:
                raise Violation(f"{key!r} has no TTL on {node.name} after {script}")
            if isinstance(entry.value, dict) and len(entry.value) != 1:
                raise Violation(f"{key!r} has not one holder on {node.name} after {script}: {entry}")


class ReadWriteRules(OwnershipRules):
    """The rules of read-write locks, on one server.

    1. When the write side is granted, nobody else believes to hold either side; when the read side is granted, nobody
       else believes to hold the write side.
    2. The lock has one writer, who alone may read, or readers only; and always a TTL.
    3. It lives as long as each hold of its readers, and only a release or a forced unlock shortens its life.
    4. Nobody but their owner touches a reader's holds; a renewal brings none back, and shortens none.
    """

    def _after(self, node: Node, script: str, keys: list[bytes], args: list[bytes], result: Any) -> None:
        script = script.removesuffix("_waiting")
        if script in ("read_lock_acquire", "write_lock_acquire") and result is None:
            self._granted(keys[0].decode(), args[0].decode(), script == "write_lock_acquire")
        now = node.redis.now_us // 1000
        # The list of those who wait is no lock: it may end at any time.
        dump = {key: entry for key, entry in node.redis.dump().items() if entry.type != "zset"}
        ends = {key: now + (entry.ttl_ms or 0) for key, entry in dump.items()}
        for key in (key for key, entry in dump.items() if entry.type == "hash"):
            self._check_lock(key, dump[key], ends)
        who = [] if "force" in script else args[1:] if script.endswith("renew") else args[:1]
        for key in self._ends.keys() | ends.keys():
            self._check_life(script, key, self._ends.get(key, 0), ends.get(key, 0), who, now)
        self._ends = ends

    def _granted(self, name: str, owner: str, write: bool) -> None:
        self.grants += 1
        person = owner.removesuffix(":write")
        others = [
            ownership
            for ownership in self.believers(name)
            if ownership.owner.removesuffix(":write") != person and (write or ownership.owner.endswith(":write"))
        ]
        if others:
            side = "write" if write else "read"
            raise Violation(f"{name!r} was granted to {owner} to {side} at {self._world.now:.6f} s, held by {others}")

    def _check_lock(self, key: bytes, entry: Any, ends: dict[bytes, int]) -> None:
        if entry.ttl_ms is None:
            raise Violation(f"{key!r} has no TTL")
        fields = dict(entry.value)
        mode = fields.pop(b"mode", None)
        writers = [field for field in fields if field.endswith(b":write")]
        readers = [field for field in fields if not field.endswith(b":write")]
        alone = len(writers) == 1 and all(writers[0] == reader + b":write" for reader in readers)
        if not (alone if mode == b"write" else mode == b"read" and readers and not writers):
            raise Violation(f"{key!r} is held by those who exclude each other: {entry}")
        for reader in readers:
            for number in range(1, int(fields[reader]) + 1):
                hold = ReadWriteNames(key.decode()).read_hold(reader.decode(), number).encode()
                if ends.get(hold, 0) > ends[key] + 2:
                    raise Violation(f"{key!r} ends before {hold!r}: {ends[key]} and {ends[hold]}")

    def _check_life(self, script: str, key: bytes, before: int, after: int, who: list[bytes], now: int) -> None:
        shorter = after < before - 1 and now < before - 1
        if b":rwlock_timeout:" not in key:
            if shorter and "release" not in script and "force" not in script:
                raise Violation(f"{script} cut the life of {key!r} short by {before - after} ms")
        elif after != before and now < max(before, after) - 1:
            if not any(b":%b:rwlock_timeout:" % owner in key for owner in who):
                raise Violation(f"{script} of {who} touched {key!r}")
            if script.endswith("renew") and (shorter or not before):
                raise Violation(f"{script} changed {key!r} from {before} to {after}")


def leftovers(world: World, clients: Iterable[AnyClient[Any]]) -> list[str]:
    """What is left when all is done and every lease over; nothing, if all is well."""
    found = [f"{name}: {key!r}" for name, state in world.states() for key in state]
    for client in clients:
        now = client.runtime.now()
        found += [
            repr(ownership)
            for ownership in client.core.ownerships.held()
            if ownership.pending or ownership.remaining(now) > 0
        ]
        found += [f"waiting for {channel}" for channel in client.core.subscriptions.wanted()]
        found += [f"subscribed to {channel}" for channel in client.runtime.subscribed()]
        if client.core.watchdog.watching():
            found.append(f"{client.core.watchdog.watching()} ownerships watched by {client.id}")
    return found
