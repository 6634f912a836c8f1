"""The locks that are counted by owner, against a model of what an owner can know."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from pyredisson import LockError, LockLostError, LockNotOwnedError
from pyredisson._core.deadline import certain_for
from tests.stateful.running import Machine
from tests.worlds.base import Actor, Remote

OWNERS = 3
WATCHDOG = 6.0
KINDS = ("lock", "spin_lock", "fenced_lock", "non_reentrant_lock")
#: On a real server time is not ours: what is taken there lasts longer than any example.
LEASES = (None, 2.0, 30.0)
LONG = (None, 100.0, 300.0)

owners = st.integers(0, OWNERS - 1)
numbers = st.integers(0, 3)


@dataclass
class Level:
    """One hold: its lease (``None``: the watchdog's) and its token."""

    lease: float | None
    token: int | None


@dataclass
class Owner:
    """What an owner counts. Past ``until`` nothing is certain; watched holds are renewed before that."""

    levels: list[Level] = field(default_factory=list)
    until: float = 0.0
    lost: bool = False
    over: int = 0


class LockMachine(Machine):
    """One lock whose holder is a field of a hash, used as all kinds of that layout by a few owners of two clients."""

    def __init__(self) -> None:
        super().__init__()
        self.watchdog = WATCHDOG if self.simulated else 60.0
        clients = [self.world.client(lock_watchdog_timeout=self.watchdog) for _ in range(2)]
        self.actors: list[Actor] = self.world.actors(OWNERS)
        self.handles: list[dict[str, Remote]] = [
            {kind: actor.get(clients[index % 2], kind) for kind in KINDS} for index, actor in enumerate(self.actors)
        ]
        self.owners = [Owner() for _ in range(OWNERS)]
        self.holder: int | None = None  # In Redis.
        self.ends = 0.0
        self.token = 0

    # ---- the model -----------------------------------------------------------------------------------------------

    def _settle_time(self) -> None:
        """Draw the consequences of what time it is."""
        now = self.world.now()
        for index, owner in enumerate(self.owners):
            renewed = self.holder == index and not owner.lost and self._watched(owner)
            if renewed:
                owner.until = max(owner.until, now + certain_for(int(self.watchdog * 1000)) - self.watchdog / 3)
                self.ends = max(self.ends, now + self.watchdog * 2 / 3)
            if owner.levels and owner.until <= now and not (owner.lost and self._watched(owner)):
                assert not self._watched(owner)
                owner.over += len(owner.levels)
                owner.levels.clear()
                owner.lost = False  # A fixed lease that has run out is no loss, whatever was found before.
        if self.holder is not None and self.ends <= now:
            self.holder = None

    @staticmethod
    def _watched(owner: Owner) -> bool:
        return any(level.lease is None for level in owner.levels)

    def _take(self, index: int, kind: str, lease: float | None) -> None:
        owner = self.owners[index]
        now = self.world.now()
        seconds = self.watchdog if lease is None else lease
        token = None
        if kind == "fenced_lock":
            token = next((level.token for level in owner.levels if level.token is not None), None)
            if token is None:
                self.token += 1
                token = self.token
        if not owner.levels:
            owner.until = 0.0
        if self.holder != index:
            self.ends = 0.0
        self.holder = index
        self.ends = max(self.ends, now + seconds)
        owner.until = max(owner.until, now + certain_for(int(seconds * 1000)))
        owner.levels.append(Level(lease, token))

    def _kind(self, number: int) -> str:
        return KINDS[number % len(KINDS)]

    def _unlock_without_hold(self, index: int, kind: str) -> None:
        owner = self.owners[index]
        with pytest.raises(LockNotOwnedError) as refusal:
            self.handles[index][kind].unlock()
        assert isinstance(refusal.value, LockLostError) is (owner.over > 0)
        if owner.over:
            owner.over -= 1

    # ---- what is done --------------------------------------------------------------------------------------------

    @rule(index=owners, number=numbers, lease=st.integers(0, 2))
    def try_lock(self, index: int, number: int, lease: int) -> None:
        self._settle_time()
        kind = self._kind(number)
        owner, lock = self.owners[index], self.handles[index][kind]
        seconds = (LEASES if self.simulated else LONG)[lease]
        gone = bool(owner.levels) and self.holder != index
        if owner.lost:
            with pytest.raises(LockLostError):
                lock.try_lock(0, seconds)
            return
        if kind == "non_reentrant_lock" and owner.levels:
            with pytest.raises(LockError, match="not reentrant"):
                lock.try_lock(0, seconds)
            return
        if gone:  # Its owner does not know yet, and learns of it now.
            with pytest.raises(LockLostError):
                lock.try_lock(0, seconds)
            owner.lost = True
            return
        free = self.holder is None or self.holder == index
        assert lock.try_lock(0, seconds) is free
        if free:
            self._take(index, kind, seconds)

    @rule(index=owners, number=numbers)
    def unlock(self, index: int, number: int) -> None:
        self._settle_time()
        kind = self._kind(number)
        owner, lock = self.owners[index], self.handles[index][kind]
        if not owner.levels:
            self._unlock_without_hold(index, kind)
            return
        if owner.lost or self.holder != index:
            with pytest.raises(LockLostError):
                lock.unlock()
            owner.levels.pop()
            owner.lost = bool(owner.levels)
            if self.holder == index:
                self.holder = None
            return
        lock.unlock()
        owner.levels.pop()
        now = self.world.now()
        if owner.levels:
            left = max(self.watchdog if level.lease is None else level.lease for level in owner.levels)
            self.ends = max(self.ends, now + left)
            owner.until = max(owner.until, now + certain_for(int(left * 1000)))
        else:
            self.holder = None

    @rule()
    def delete_the_key(self) -> None:
        self._settle_time()
        self.world.redis.command("DEL", "orders")
        self.holder = None

    @rule(index=owners, number=numbers)
    def force_unlock(self, index: int, number: int) -> None:
        self._settle_time()
        assert self.handles[index][self._kind(number)].force_unlock() is (self.holder is not None)
        self.holder = None
        owner = self.owners[index]
        owner.over = 0
        if not owner.lost:  # What was lost before is lost, until it is unlocked.
            owner.levels.clear()
        for other, each in enumerate(self.owners):
            if other != index and other % 2 == index % 2 and each.levels:
                each.lost = True  # One of the same client is told at once.

    @rule(seconds=st.sampled_from((0.5, 1.0, 2.5, 7.0)))
    def let_time_pass(self, seconds: float) -> None:
        if not self.simulated:
            return
        self._settle_time()
        before = self.world.now()
        self.world.pass_time(seconds)
        for index, owner in enumerate(self.owners):
            if self.holder != index and self._watched(owner) and not owner.lost:
                # The watchdog finds that it is gone at its next round, or at the deadline; which, is another test's.
                self.world.pass_time(self.watchdog)
                owner.lost = True
        assert self.world.now() >= before + seconds
        self._settle_time()

    @invariant()
    def what_is_stored_is_what_is_counted(self) -> None:
        self._settle_time()
        stored = self.world.redis.hash("orders")
        if self.holder is None:
            assert stored == {}
            return
        owner = self.owners[self.holder]
        lock = self.handles[self.holder]["lock"]
        assert list(stored.values()) == [str(len(owner.levels))] or owner.lost
        assert lock.is_locked()
        left = self.world.redis.ttl("orders")
        assert left is not None
        assert left < math.inf
        if owner.levels and not owner.lost:
            assert lock.get_hold_count() == len(owner.levels)

    @invariant()
    def the_token_is_the_last_one_drawn(self) -> None:
        assert self.handles[0]["fenced_lock"].get_token() == (self.token or None)
