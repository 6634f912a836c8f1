"""The fair lock against a model that fits on a page: any sequence of calls, by owners of two clients."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from pyredisson import LockLostError, LockNotOwnedError
from tests.stateful.running import Machine
from tests.worlds.base import Pending
from tests.worlds.simulated import SimulatedPending

QUEUE = "redisson_lock_queue:{orders}"
TIMEOUTS = "redisson_lock_timeout:{orders}"
ALIVE = "pyredisson_lock_alive:{orders}"
OWNERS = 4
DEAD_FOR = 0.1
#: No two dead ones are believed in for longer, and nobody waits for one of ours until its score is over.
MUCH_TIME = 10_000.0
FOR_EVER = 100 * MUCH_TIME

someone = st.integers(0, OWNERS - 1)


class FairLockMachine(Machine):
    """Owners who do what they like, and what has to come of it."""

    def __init__(self) -> None:
        super().__init__()
        clients = [self.world.client(), self.world.client()]
        actors = self.world.actors(OWNERS)
        self.names = [f"{clients[n % 2].id}:{actor.number}" for n, actor in enumerate(actors)]
        self.locks = [actor.get(clients[n % 2], "fair_lock") for n, actor in enumerate(actors)]
        self.actors = actors
        self.dead = 0
        self.dead_until = 0.0
        # The model.
        self.holder: int | None = None
        self.holds = 0
        self.queue: list[int] = []
        self.waiting: dict[int, Pending] = {}
        self.lost = [0] * OWNERS

    # ---- what the model says -------------------------------------------------------------------------------------

    def may_take(self, who: int) -> bool:
        return self.holder == who or (self.holder is None and not self.queue)

    def took(self, who: int) -> None:
        self.holds = self.holds + 1 if self.holder == who else 1
        self.holder = who

    def freed(self) -> None:
        self.holder, self.holds = None, 0
        if self.queue:
            self.took(self.queue.pop(0))
            assert self.holder is not None
            self.waiting.pop(self.holder).result(within=MUCH_TIME)
        elif self.dead:
            self.world.pass_time(MUCH_TIME if self.simulated else max(0.0, self.dead_until - self.world.now()))

    def idle(self, who: int) -> bool:
        return who not in self.waiting

    # ---- what owners do ------------------------------------------------------------------------------------------

    @rule(who=someone)
    def try_lock(self, who: int) -> None:
        if not self.idle(who):
            return
        if self.lost[who]:
            with pytest.raises(LockLostError):
                self.locks[who].try_lock()
            return
        assert self.locks[who].try_lock() is self.may_take(who)
        if self.may_take(who):
            self.took(who)

    @rule(who=someone)
    def give_up(self, who: int) -> None:
        if self.idle(who) and not self.lost[who] and not self.may_take(who):
            assert self.locks[who].try_lock(0.02) is False

    @rule(who=someone)
    def lock(self, who: int) -> None:
        if not self.idle(who) or self.lost[who]:
            return
        if self.may_take(who):
            self.locks[who].lock()
            self.took(who)
            return
        self.waiting[who] = self.actors[who].start(self.locks[who].lock)
        self.world.until(lambda: self.names[who] in self.world.redis.list(QUEUE), what="it queues up")
        self.queue.append(who)

    @rule(who=someone)
    def unlock(self, who: int) -> None:
        if not self.idle(who):
            return
        if self.lost[who]:
            with pytest.raises(LockLostError):
                self.locks[who].unlock()
            self.lost[who] -= 1
        elif self.holder == who:
            self.locks[who].unlock()
            self.holds -= 1
            if not self.holds:
                self.freed()
        else:
            with pytest.raises(LockNotOwnedError) as refusal:
                self.locks[who].unlock()
            assert not isinstance(refusal.value, LockLostError)

    @rule(who=someone)
    def force_unlock(self, who: int) -> None:
        if not self.idle(who):
            return
        assert self.locks[who].force_unlock() is (self.holder is not None)
        self.lost[who] = 0  # It knows what it has done.
        if self.holder is not None:
            if self.holder != who:
                self.lost[self.holder] = self.holds
            self.freed()

    @rule(who=someone)
    def interrupt(self, who: int) -> None:
        pending = self.waiting.get(who)
        if isinstance(pending, SimulatedPending):
            pending.task.cancel()
            pending.error()
            del self.waiting[who]
            self.queue.remove(who)

    @precondition(lambda self: self.holder is not None)
    @rule(ours=st.booleans())
    def somebody_dies_in_the_queue(self, ours: bool) -> None:
        self.dead += 1
        name = f"8743c9c0-0795-4907-87fd-6c719a6b4586:{self.dead}"
        waiting, scores = self.world.redis.list(QUEUE), self.world.redis.scores(TIMEOUTS)
        self.world.redis.command("RPUSH", QUEUE, name)
        now = self.world.redis.time()
        if ours:  # It has said for how long it can be alive.
            self.dead_until = self.world.now() + DEAD_FOR + 0.01
            self.world.redis.command("ZADD", TIMEOUTS, round((now + FOR_EVER) * 1000), name)
            self.world.redis.command("HSET", ALIVE, name, round((now + DEAD_FOR) * 1000))
            self.world.redis.command("PEXPIRE", ALIVE, round(FOR_EVER * 1000))
        elif self.simulated:  # Elsewhere nobody has the time; it has no score there.
            before = scores[waiting[-1]] if waiting and waiting[-1] in scores else now * 1000
            before = min(before, (now + MUCH_TIME / 2) * 1000)  # Those behind one of ours have its score, and more.
            self.world.redis.command("ZADD", TIMEOUTS, round(before + DEAD_FOR * 1000), name)

    @rule(seconds=st.sampled_from([0.001, 0.03]))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @precondition(lambda self: self.simulated)
    @rule(seconds=st.sampled_from([1.0, 100.0, 1000.0]))
    def pass_much_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    # ---- what has to hold ----------------------------------------------------------------------------------------

    @invariant()
    def the_server_agrees(self) -> None:
        held = {} if self.holder is None else {self.names[self.holder]: str(self.holds)}
        assert self.world.redis.hash("orders") == held
        living = [name for name in self.world.redis.list(QUEUE) if name in self.names]
        assert living == [self.names[who] for who in self.queue]
        assert not any(pending.done() for pending in self.waiting.values())
