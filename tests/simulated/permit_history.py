"""Random histories of semaphores and latches: processes, owners and faults; in the end the sum has to be right.

Users count what they hold as the documentation tells them to: what an acquire that raised may have taken is not theirs;
a release whose outcome is unknown is done; one that surely was not executed is called again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from redis.exceptions import RedisError

from pyredisson import events
from pyredisson.config import Config
from pyredisson.errors import LockLostError, LockNotOwnedError, NoSyncedSlavesError, OutcomeUnknownError
from pyredisson.lease import Lease
from tests.simulated import history
from tests.simulated.engine.checkers import Violation
from tests.simulated.engine.faults import Faults
from tests.simulated.engine.runtime import SimulatedClient
from tests.simulated.engine.world import Cancelled, Process
from tests.simulated.history import History, Plan

CONFIG = Config(timeout=0.9, max_wait_without_check=2.0, lock_watchdog_timeout=3.0)

NETWORK = replace(history.NETWORK, lose_reply=0.04, duplicate=0.04, straggle=0.04, straggle_seconds=50.0)

TOTAL = 4


@dataclass(frozen=True)
class PermitPlan(Plan):
    """What a history consists of.

    Attributes:
        replicas: How many replicas the server has.
    """

    owners: int = 3
    faults: Faults = NETWORK
    config: Config = CONFIG
    replicas: int = 0


class PermitHistory(History):
    """One history of two kinds of semaphores and a latch."""

    plan: PermitPlan
    bound = 900.0
    afterwards = 150.0
    users_are_cancelled = False  # Only the tasks that they start.

    def __init__(self, seed: int, plan: PermitPlan | None = None) -> None:
        super().__init__(seed, plan or PermitPlan())
        self.world.node.rate = self.rate()
        self.held = 0
        self.counts = 0  # Calls of count_down() that were made, or may have been.
        self.leases_held: list[Lease[None]] = []
        self.lost: list[str] = []  # The owners of lost permits, as events name them.
        self.count = 1 + self.plan.processes * self.plan.owners * self.plan.rounds
        redis = self.world.node.redis
        redis.replicas = self.plan.replicas
        for key, number in (("seats", TOTAL), ("leased", TOTAL), ("only", 1), ("ready", self.count)):
            redis.command("SET", key, number)

    def clients_in(self, process: Process) -> list[Any]:
        client = SimulatedClient(process, config=self.plan.config)
        client.core.listen(self._listen, lambda: False)
        return [client]

    def disturb(self) -> None:
        # No crashes: a permit without a lease stays taken then.
        for client in self.clients:
            process, runtime = client.runtime.process, client.runtime
            self.perhaps(0.3, process.pause, process.resume)
            self.perhaps(0.3, runtime.cut, runtime.heal, (0.1, 8.0))
        self.perhaps(0.3, self.world.node.pause, self.world.node.resume, (0.1, 8.0))

    # ---- the end -------------------------------------------------------------------------------------------------

    def check(self) -> None:
        redis = self.world.node.redis
        state = {key: entry.value for key, entry in redis.dump().items()}
        expected = {b"seats": b"%d" % TOTAL, b"ready": b"%d" % (self.count - self.counts)}
        now_ms = redis.now_us / 1000
        for name, total in ((b"leased", TOTAL), (b"only", 1)):
            left = int(state.pop(name))
            standing = state.pop(b"{%b}:timeout" % name, {})
            assert isinstance(standing, dict)
            endless = [permit for permit, ends in standing.items() if ends > now_ms]
            if endless or left + len(standing) != total:
                raise Violation(f"in the end there is {left} + {standing} of {name!r}, instead of {total}")
        if state != expected:
            raise Violation(f"in the end there is {state}, instead of {expected}")
        self._go_on()
        for key in ("seats", "leased", "{leased}:timeout", "only", "{only}:timeout"):
            redis.command("DEL", key)
        self.world.run(seconds=90)
        super().check()
        assert not any(client.core.ledger.count() for client in self.clients)

    def _go_on(self) -> None:
        """The last count opens the latch for all, and all permits can be acquired."""
        tasks = []
        for client in self.clients:

            async def wait(client: SimulatedClient = client) -> None:
                assert await client.get_count_down_latch("ready").wait(30)

            tasks.append(client.runtime.process.start(wait(), "wait"))

        async def last(client: SimulatedClient) -> None:
            assert await client.get_semaphore("seats").try_acquire(TOTAL)
            permits = client.get_permit_expirable_semaphore("leased")
            assert await permits.available_permits() == TOTAL
            assert await permits.acquired_permits() == 0
            await self.world.pause_of(client.runtime.process, 1.0)
            await client.get_count_down_latch("ready").count_down()

        tasks.append(self.clients[0].runtime.process.start(last(self.clients[0]), "last"))
        assert self.world.run(until=lambda: all(task.done() for task in tasks), seconds=60)
        for task in tasks:
            task.outcome.result()

    # ---- users ---------------------------------------------------------------------------------------------------

    def semaphore(self, client: SimulatedClient) -> Any:
        """Return the semaphore whose permits do not expire."""
        return client.get_semaphore("seats")

    async def user(self, process: Process, clients: list[Any]) -> None:
        (client,) = clients
        rng = self.world.rng
        for _ in range(self.plan.rounds):
            # In a task of its own, which may be cancelled anywhere; the owner is the user in any case.
            kinds = (self._seats, self._leased, self._drained, self._block, self._leased_block)
            (kind,) = rng.choices(kinds, (5, 4, 1, 2, 4))
            held = Held()
            await self._perhaps_cancelled(process, lambda kind=kind, held=held: kind(process, client, held))
            await self._surely(process, client, held)
            await self._count_down(process, client)
            await self.world.pause_of(process, rng.uniform(0.0, 0.5))

    async def _perhaps_cancelled(self, process: Process, work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            await work()

        assert self.world.current is not None
        task = process.start(run(), "part", self.world.current.owner)
        if self.plan.disturb and self.world.rng.random() < 0.3:
            task.cancel_at = self.world.rng.randrange(1, 25)
        while not task.done():
            await self.world.pause_of(process, 0.01)
        try:
            task.outcome.result()
        except Cancelled:
            self.result.cancelled += 1
        except OutcomeUnknownError:
            self.result.unknown += 1
        except NoSyncedSlavesError:
            self.result.unsynced += 1
        except (RedisError, LockLostError):
            pass

    def _listen(self, event: events.Event) -> None:
        if isinstance(event, events.Lost):
            self.lost.append(event.owner)

    def _take(self, held: Held, permits: int) -> None:
        held.permits += permits
        self.result.grants += permits
        self.held += permits
        if self.held > TOTAL:
            raise Violation(f"{self.held} of {TOTAL} permits are held at {self.world.now:.3f} s")

    def _give(self, held: Held, permits: int) -> None:
        held.permits -= permits
        self.held -= permits

    async def _seats(self, process: Process, client: SimulatedClient, held: Held) -> None:
        rng = self.world.rng
        semaphore = client.get_semaphore("seats")
        wanted = rng.randint(1, 2)
        wait = rng.choice((0, rng.uniform(0.0, 3.0), None))
        if await semaphore.try_acquire(wanted, wait):
            self._take(held, wanted)
            await self.work(process)

    async def _drained(self, process: Process, client: SimulatedClient, held: Held) -> None:
        self._take(held, await client.get_semaphore("seats").drain_permits())

    async def _block(self, process: Process, client: SimulatedClient, held: Held) -> None:
        """Nothing is left to be given back: the block sees to that, however it ends."""
        rng = self.world.rng
        wanted = rng.randint(1, 2)
        hold = client.get_semaphore("seats").hold(wanted, rng.choice((0, rng.uniform(0.0, 3.0), None)), skip=True)
        async with hold as lease:
            if lease is not None:
                blocked = Held()
                self._take(blocked, wanted)
                try:
                    await self.work(process)
                finally:
                    self._give(blocked, wanted)

    async def _leased_block(self, process: Process, client: SimulatedClient, held: Held) -> None:
        rng = self.world.rng
        permits = client.get_permit_expirable_semaphore("only")
        wait = rng.choice((0, rng.uniform(0.0, 3.0), None))
        lost = 0
        owner = ""
        async with permits.hold(wait, rng.choice((None, None, rng.uniform(0.2, 5.0))), skip=True) as lease:
            if lease is not None:
                assert self.world.current is not None
                owner = f"{client.id}:{self.world.current.owner.number}"
                lost = self.lost.count(owner)
                self.leases_held.append(lease)
                if sum(each.remaining() > 0 for each in self.leases_held) > 1:
                    raise Violation(f"two are certain of the only permit at {self.world.now:.3f} s")
                try:
                    await self.work(process)
                    if rng.random() < 0.3:
                        await self.world.pause_of(process, rng.uniform(0.0, 6.0))  # Longer than a lease.
                finally:
                    self.leases_held.remove(lease)
        if self.lost.count(owner) > lost:
            raise Violation(f"{owner} was told of a loss, and its block ended without an error")

    async def _leased(self, process: Process, client: SimulatedClient, held: Held) -> None:
        rng = self.world.rng
        permits = client.get_permit_expirable_semaphore("leased")
        lease = rng.choice((None, rng.uniform(0.2, 5.0)))
        wanted = rng.choice((None, None, 1, 2, 3))
        acquired = await permits.try_acquire(rng.choice((0, rng.uniform(0.0, 3.0), None)), lease, permits=wanted)
        if acquired is not None:
            if lease is None:
                held.endless = acquired
            await self.work(process)
            if lease is not None and rng.random() < 0.7:
                try:
                    await permits.release(acquired)
                except LockNotOwnedError:
                    pass

    async def _surely(self, process: Process, client: SimulatedClient, held: Held) -> None:
        """Give everything back, as often as the errors ask for it."""
        while held.permits:
            permits = held.permits
            self._give(held, permits)
            if not await self._done(self.semaphore(client).release(permits)):
                held.permits += permits
                self.held += permits
                await self.world.pause_of(process, 0.2)
        while held.endless is not None:
            semaphore = client.get_permit_expirable_semaphore("leased")
            if await self._done(semaphore.release(held.endless)):
                held.endless = None
            else:
                await self.world.pause_of(process, 0.2)

    async def _count_down(self, process: Process, client: SimulatedClient) -> None:
        while not await self._done(client.get_count_down_latch("ready").count_down()):
            await self.world.pause_of(process, 0.2)
        self.counts += 1

    async def _done(self, call: Awaitable[None]) -> bool:
        """Make a call. Returns whether it is done, or will be."""
        try:
            await call
        except OutcomeUnknownError:
            self.result.unknown += 1
        except RedisError:
            return False
        return True

    async def work(self, process: Process) -> None:
        await self.world.pause_of(process, self.world.rng.expovariate(3.0))


@dataclass
class Held:
    """What a user holds."""

    permits: int = 0
    endless: str | list[str] | None = None
