"""The token lock against a model of what an owner can know, with a stranger who uses the same key as redis-py does."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from pyredisson import LockError, LockLostError, LockNotOwnedError
from pyredisson.core.deadline import certain_for
from tests.servers import SharedServers
from tests.stateful.running import Machine, run_on_server, run_simulated
from tests.volumes import Volume
from tests.worlds.base import Actor, Remote

OWNERS = 3
STRANGER = -1
WATCHDOG = 6.0
#: On a real server time is not ours: what is taken there lasts longer than any example.
LEASES = (None, 2.0, 30.0)
LONG = (None, 100.0, 300.0)

owners = st.integers(0, OWNERS - 1)


@dataclass
class Owner:
    """What an owner counts: whether it holds the lock, with which lease, until when that is certain."""

    held: bool = False
    lease: float | None = None
    until: float = 0.0
    lost: bool = False
    over: int = 0


class TokenLocks(Machine):
    """One token lock, a few owners of two clients, and a stranger."""

    def __init__(self) -> None:
        super().__init__()
        self.watchdog = WATCHDOG if self.simulated else 60.0
        clients = [self.world.client(lock_watchdog_timeout=self.watchdog) for _ in range(2)]
        self.actors: list[Actor] = self.world.actors(OWNERS)
        self.locks: list[Remote] = [
            actor.get(clients[index % 2], "token_lock") for index, actor in enumerate(self.actors)
        ]
        self.owners = [Owner() for _ in range(OWNERS)]
        self.holder: int | None = None  # In Redis.
        self.ends = 0.0
        self.tokens: set[bytes] = set()
        self.token: bytes | None = None

    # ---- the model -----------------------------------------------------------------------------------------------

    def _settle_time(self) -> None:
        """Draw the consequences of what time it is."""
        now = self.world.now()
        for index, owner in enumerate(self.owners):
            if self.holder == index and owner.held and not owner.lost and owner.lease is None:
                owner.until = max(owner.until, now + certain_for(int(self.watchdog * 1000)) - self.watchdog / 3)
                self.ends = max(self.ends, now + self.watchdog * 2 / 3)
            if owner.held and not owner.lost and owner.until <= now:
                assert owner.lease is not None
                owner.held = False
                owner.over += 1
        if self.holder is not None and self.ends <= now:
            self.holder = None

    # ---- what is done --------------------------------------------------------------------------------------------

    @rule(index=owners, lease=st.integers(0, 2))
    def try_lock(self, index: int, lease: int) -> None:
        self._settle_time()
        owner, lock = self.owners[index], self.locks[index]
        seconds = (LEASES if self.simulated else LONG)[lease]
        if owner.lost:
            with pytest.raises(LockLostError):
                lock.try_lock(0, seconds)
            return
        if owner.held:
            with pytest.raises(LockError, match="not reentrant"):
                lock.try_lock(0, seconds)
            return
        # Its own, of a lease that has just run out, is no obstacle.
        free = self.holder is None or self.holder == index
        assert lock.try_lock(0, seconds) is free
        if free:
            now, length = self.world.now(), self.watchdog if seconds is None else seconds
            before = self.ends if self.holder == index else 0.0
            self.holder, self.ends = index, max(before, now + length)
            owner.held, owner.lease, owner.until = True, seconds, now + certain_for(int(length * 1000))
            self.token = self.world.redis.command("GET", "orders")
            assert self.token is not None
            assert self.token not in self.tokens, "each hold has a token of its own"
            self.tokens.add(self.token)

    @rule(index=owners)
    def unlock(self, index: int) -> None:
        self._settle_time()
        owner, lock = self.owners[index], self.locks[index]
        if not owner.held:
            with pytest.raises(LockNotOwnedError) as refusal:
                lock.unlock()
            assert isinstance(refusal.value, LockLostError) is (owner.over > 0)
            if owner.over and self.holder == index:
                self.holder = None  # What was left of it.
            owner.over = max(0, owner.over - 1)
            return
        if owner.lost or self.holder != index:
            with pytest.raises(LockLostError):
                lock.unlock()
        else:
            lock.unlock()
        owner.held = owner.lost = False
        if self.holder == index:
            self.holder = None

    @rule(index=owners)
    def force_unlock(self, index: int) -> None:
        self._settle_time()
        assert self.locks[index].force_unlock() is (self.holder is not None)
        self.holder = None
        self.owners[index] = Owner()
        for other, each in enumerate(self.owners):
            if other != index and other % 2 == index % 2 and each.held:
                each.lost = True  # One of the same client is told at once.

    @rule()
    def delete_the_key(self) -> None:
        self._settle_time()
        self.world.redis.command("DEL", "orders")
        self.holder = None

    @rule(milliseconds=st.sampled_from((1_500, 200_000)))
    def a_stranger_asks(self, milliseconds: int) -> None:
        self._settle_time()
        if not self.simulated and milliseconds == 1_500:
            return
        got = self.world.redis.command("SET", "orders", "theirs", "NX", "PX", milliseconds)
        assert (got is not None) is (self.holder is None)
        if self.holder is None:
            self.holder, self.ends = STRANGER, self.world.now() + milliseconds / 1000

    @rule()
    def the_stranger_lets_go(self) -> None:
        self._settle_time()
        if self.holder == STRANGER:
            self.delete_the_key()

    @rule(seconds=st.sampled_from((0.5, 1.0, 2.5, 7.0)))
    def let_time_pass(self, seconds: float) -> None:
        if not self.simulated:
            return
        self._settle_time()
        self.world.pass_time(seconds)
        for index, owner in enumerate(self.owners):
            if self.holder != index and owner.held and owner.lease is None and not owner.lost:
                # The watchdog finds that it is gone at its next round, or at the deadline.
                self.world.pass_time(self.watchdog)
                owner.lost = True
        self._settle_time()

    # ---- what holds always ---------------------------------------------------------------------------------------

    @invariant()
    def what_is_stored_is_what_was_taken(self) -> None:
        self._settle_time()
        stored = self.world.redis.command("GET", "orders")
        if self.holder is None:
            assert stored is None
            return
        assert stored == (b"theirs" if self.holder == STRANGER else self.token)
        left = self.world.redis.ttl("orders")
        assert left is not None
        assert left < math.inf

    @invariant()
    def each_knows_whether_it_is_the_holder(self) -> None:
        self._settle_time()
        for index, lock in enumerate(self.locks):
            assert lock.get_hold_count() == (self.holder == index)
        assert self.locks[0].is_locked() is (self.holder is not None)


@pytest.mark.volume
@pytest.mark.timeout(900)
def test_simulated(volume: Volume) -> None:
    run_simulated(TokenLocks, volume)


@pytest.mark.volume
@pytest.mark.timeout(900)
def test_on_a_server(volume: Volume, shared_servers: SharedServers) -> None:
    run_on_server(TokenLocks, volume, shared_servers)
