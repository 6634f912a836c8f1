"""Semaphores and latches against models of a few lines: any sequence of calls has the results that the model says.

On the simulator time can pass, so permits expire there; on a real server they live long enough for a machine's life.
"""

from __future__ import annotations

import math
from typing import ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from pyredisson import LockNotOwnedError
from tests.stateful.running import Machine

OWNERS = 3
owners = st.integers(0, OWNERS - 1)
few = st.integers(0, 4)
signed = st.integers(-3, 4)


class HandlesMachine(Machine):
    """A machine of some owners of two clients, with handles of one kind on one name."""

    kind: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        clients = [self.world.client(), self.world.client()]
        self.actors = self.world.actors(OWNERS)
        self.handles = [actor.get(clients[index % 2], self.kind, "seats") for index, actor in enumerate(self.actors)]


class SemaphoreMachine(HandlesMachine):
    """A number, or none."""

    kind = "semaphore"

    def __init__(self) -> None:
        super().__init__()
        self.permits: int | None = None

    @property
    def available(self) -> int:
        return self.permits or 0

    @rule(owner=owners, permits=few)
    def try_set(self, owner: int, permits: int) -> None:
        assert self.handles[owner].try_set_permits(permits) is (self.permits is None)
        if self.permits is None:
            self.permits = permits

    @rule(owner=owners, permits=few)
    def acquire(self, owner: int, permits: int) -> None:
        there = permits == 0 or (self.permits is not None and self.permits >= permits)
        assert self.handles[owner].try_acquire(permits) is there
        if there and permits:
            self.permits = self.available - permits

    @rule(owner=owners, permits=few)
    def acquire_in_time(self, owner: int, permits: int) -> None:
        there = permits == 0 or (self.permits is not None and self.permits >= permits)
        if there or self.simulated:
            assert self.handles[owner].acquire(permits, timeout=0.5) is there
            if there and permits:
                self.permits = self.available - permits

    @rule(owner=owners, other=owners, permits=st.integers(1, 4), extra=few)
    def wait_until_released(self, owner: int, other: int, permits: int, extra: int) -> None:
        if owner == other or self.available >= permits:
            return
        waiting = self.actors[owner].start(self.handles[owner].acquire, permits)
        given = permits - self.available + extra
        self.handles[other].release(given)
        assert waiting.result() is True
        self.permits = extra

    @rule(owner=owners, permits=few)
    def release(self, owner: int, permits: int) -> None:
        self.handles[owner].release(permits)
        if permits:
            self.permits = self.available + permits

    @rule(owner=owners, permits=signed)
    def add(self, owner: int, permits: int) -> None:
        self.handles[owner].add_permits(permits)
        self.permits = self.available + permits

    @rule(owner=owners)
    def drain(self, owner: int) -> None:
        assert self.handles[owner].drain_permits() == self.available
        if self.permits is not None:
            self.permits = 0

    @precondition(lambda self: self.available > 0)
    @rule(owner=owners)
    def block(self, owner: int) -> None:
        with self.handles[owner]:
            assert self.handles[owner].available_permits() == self.available - 1

    @precondition(lambda self: self.permits is not None)
    @rule()
    def delete(self) -> None:
        self.world.redis.delete("seats")
        self.permits = None

    @invariant()
    def what_is_stored_is_what_is_counted(self) -> None:
        stored = self.world.redis.command("GET", "seats")
        assert stored == (None if self.permits is None else b"%d" % self.permits)


#: Seconds, many times what a request takes in the simulator.
NEAR = 0.03


class PermitMachine(HandlesMachine):
    """A number, or none; and the permits taken, each with the time at which it expires, or none."""

    kind = "permit_expirable_semaphore"

    def __init__(self) -> None:
        super().__init__()
        self.permits: int | None = None
        self.taken: dict[str, float | None] = {}
        self.gone: list[str] = ["0" * 32]

    def _get_clear(self) -> None:
        """Be some way from the end of every lease: what is said of one while it ends is right either way."""
        while any(ends is not None and abs(ends - self.world.now()) < NEAR for ends in self.taken.values()):
            self.world.pass_time(NEAR)

    def _purge(self, limit: int | None = None) -> None:
        self._get_clear()
        now = self.world.now()
        over = sorted((ends, permit) for permit, ends in self.taken.items() if ends is not None and ends < now)
        for _, permit in over[:limit]:
            del self.taken[permit]
            self.gone.append(permit)
            self.permits = (self.permits or 0) + 1

    @initialize(permits=few)
    def begin(self, permits: int) -> None:
        self.handles[0].set_permits(permits)
        self.permits = permits

    @rule(owner=owners, lease=st.sampled_from((None, 0.3, 2.0, 600.0)), wait=st.sampled_from((0, 0.05)))
    def acquire(self, owner: int, lease: float | None, wait: float) -> None:
        if not self.simulated:
            lease, wait = (None if lease is None else 600.0), 0
        self._purge(1)
        before = self.world.now()
        there = self.permits is not None and self.permits >= 1
        if not there and wait and any(ends is not None and ends < before + 0.1 for ends in self.taken.values()):
            wait = 0  # One would expire at about that time.
        permit = self.handles[owner].try_acquire(wait, lease)
        assert (permit is not None) is there
        if permit is not None:
            assert self.permits is not None
            assert permit not in self.taken
            assert permit not in self.gone
            self.permits -= 1
            self.taken[permit] = None if lease is None else before + lease

    @rule(owner=owners, wanted=st.integers(1, 3), lease=st.sampled_from((None, 0.3, 2.0, 600.0)))
    def acquire_several(self, owner: int, wanted: int, lease: float | None) -> None:
        if not self.simulated and lease is not None:
            lease = 600.0
        self._purge(wanted)
        before = self.world.now()
        permits = self.handles[owner].try_acquire(0, lease, permits=wanted)
        assert (permits is not None) is (self.permits is not None and self.permits >= wanted)
        if permits is not None:
            assert self.permits is not None
            assert len({*permits, *self.taken, *self.gone}) == wanted + len(self.taken) + len(self.gone)
            self.permits -= wanted
            self.taken |= dict.fromkeys(permits, None if lease is None else before + lease)

    @rule(owner=owners, data=st.data())
    def release_several(self, owner: int, data: st.DataObject) -> None:
        self._get_clear()
        known = sorted({*self.taken, *self.gone})
        permits = data.draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True), "permits")
        now = self.world.now()
        alive = {permit for permit, ends in self.taken.items() if ends is None or ends > now}
        released = alive.issuperset(permits)
        if released:
            self._purge()
        assert self.handles[owner].try_release(permits) is released
        if released:
            for permit in permits:
                del self.taken[permit]
            self.gone += permits
            self.permits = (self.permits or 0) + len(permits)

    @rule(owner=owners, data=st.data())
    def left_of(self, owner: int, data: st.DataObject) -> None:
        permit = data.draw(st.sampled_from(sorted({*self.taken, *self.gone})), "permit")
        self._purge()
        if permit not in self.taken:
            with pytest.raises(LockNotOwnedError):
                self.handles[owner].get_lease_time(permit)
            return
        ends, left = self.taken[permit], self.handles[owner].get_lease_time(permit)
        assert (left == math.inf) if ends is None else abs(ends - self.world.now() - left) < 10 * NEAR

    @rule(owner=owners, data=st.data())
    def release(self, owner: int, data: st.DataObject) -> None:
        if not self.taken:
            return
        self._get_clear()
        permit = data.draw(st.sampled_from(sorted(self.taken)), "permit")
        ends = self.taken.pop(permit)
        self.permits = (self.permits or 0) + 1
        self.gone.append(permit)
        assert self.handles[owner].try_release(permit) is (ends is None or ends > self.world.now())

    @rule(owner=owners, data=st.data())
    def release_what_is_gone(self, owner: int, data: st.DataObject) -> None:
        permit = data.draw(st.sampled_from(self.gone), "permit")
        assert self.handles[owner].try_release(permit) is False
        with pytest.raises(LockNotOwnedError):
            self.handles[owner].release(permit)

    @rule(owner=owners, lease=st.sampled_from((None, 0.3, 600.0)), data=st.data())
    def update(self, owner: int, lease: float | None, data: st.DataObject) -> None:
        if not self.simulated and lease is not None:
            lease = 600.0
        permit = data.draw(st.sampled_from(sorted({*self.taken, *self.gone})), "permit")
        self._purge()
        before = self.world.now()
        assert self.handles[owner].update_lease_time(permit, lease) is (permit in self.taken)
        if permit in self.taken:
            self.taken[permit] = None if lease is None else before + lease

    @rule(owner=owners, permits=signed)
    def add(self, owner: int, permits: int) -> None:
        self.handles[owner].add_permits(permits)
        self.permits = (self.permits or 0) + permits

    @rule(owner=owners, permits=few)
    def set(self, owner: int, permits: int) -> None:
        self.handles[owner].set_permits(permits)
        self.permits = permits if self.permits is None else permits - len(self.taken)

    @rule(owner=owners, permits=few)
    def try_set(self, owner: int, permits: int) -> None:
        assert self.handles[owner].try_set_permits(permits) is (self.permits is None)
        if self.permits is None:
            self.permits = permits

    @precondition(lambda self: self.simulated)
    @rule(seconds=st.sampled_from((0.1, 0.5, 3.0)))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule(owner=owners)
    def count(self, owner: int) -> None:
        self._purge()
        assert self.handles[owner].available_permits() == (self.permits or 0)
        self._purge()
        assert self.handles[owner].acquired_permits() == len(self.taken)
        self._purge()
        total = 0 if self.permits is None else self.permits + len(self.taken)
        assert self.handles[owner].get_permits() == total

    @invariant()
    def what_is_stored_is_what_is_counted(self) -> None:
        stored = self.world.redis.command("GET", "seats")
        assert stored == (None if self.permits is None else b"%d" % self.permits)
        permits = self.world.redis.command("ZRANGE", "{seats}:timeout", 0, -1)
        assert {permit.hex() for permit in permits} == set(self.taken)


class LatchMachine(HandlesMachine):
    """A number, or none."""

    kind = "count_down_latch"

    def __init__(self) -> None:
        super().__init__()
        self.count: int | None = None

    @rule(owner=owners, count=few)
    def try_set(self, owner: int, count: int) -> None:
        assert self.handles[owner].try_set_count(count) is (self.count is None)
        if self.count is None:
            self.count = count

    @rule(owner=owners)
    def count_down(self, owner: int) -> None:
        self.handles[owner].count_down()
        self.count = None if self.count is None or self.count <= 1 else self.count - 1

    @rule(owner=owners)
    def look(self, owner: int) -> None:
        assert self.handles[owner].get_count() == (self.count or 0)
        assert self.handles[owner].wait(0) is not bool(self.count)

    @precondition(lambda self: self.simulated or not self.count)
    @rule(owner=owners)
    def wait(self, owner: int) -> None:
        assert self.handles[owner].wait(0.2) is not bool(self.count)

    @rule(owner=owners, other=owners)
    def wait_until_open(self, owner: int, other: int) -> None:
        if owner == other:
            return
        waiting = self.actors[owner].start(self.handles[owner].wait)
        for _ in range(self.count or 0):
            self.handles[other].count_down()
        assert waiting.result() is True
        self.count = None if self.count else self.count

    @precondition(lambda self: self.count is not None)
    @rule()
    def delete(self) -> None:
        self.world.redis.delete("seats")
        self.count = None

    @invariant()
    def what_is_stored_is_what_is_counted(self) -> None:
        stored = self.world.redis.command("GET", "seats")
        assert stored == (None if self.count is None else b"%d" % self.count)
