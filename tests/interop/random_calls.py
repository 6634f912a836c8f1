"""Random sequences of calls for :mod:`same_calls`: each picks its next step by what has come of those before.

A story keeps count of who holds what, for two reasons. Whoever was robbed of a hold does nothing but give it back,
until nothing is left of it: in ours a loss is final, while in Java the next call starts at one. And in the end all of
them give back what is left, so that nothing may remain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from random import Random
from typing import Final

from tests.interop.same_calls import OWNERS, Both, Step

LEASES: Final = (None, 20.0, 90.0, 300.0)


class Locks:
    """Plain, spin, fenced and non-reentrant locks, all of which are one lock if they have one name."""

    def __init__(self, random: Random, both: Both, kinds: tuple[str, ...], leases: tuple[float | None, ...]) -> None:
        self.random, self.both, self.kinds, self.leases = random, both, kinds, leases
        # By owner and field: by which kind of handle each hold was taken.
        self.holds: defaultdict[tuple[int, str], list[str]] = defaultdict(list)
        self.debts: Counter[tuple[int, str]] = Counter()

    def field(self, kind: str) -> str:
        return "write" if kind == "write_lock" else ""

    def tell(self, steps: int) -> None:
        for _ in range(steps):
            self.one_step()
        self.finish()

    def idle(self) -> list[int]:
        return list(range(OWNERS))

    def one_step(self) -> None:
        random = self.random
        if not self.idle():
            return
        who, kind = random.choice(self.idle()), random.choice(self.kinds)
        robbed = [each for each in self.kinds if self.debts[who, self.field(each)]]
        if robbed:
            kind = random.choice(robbed)
        what = random.choices(
            ("acquire", "unlock", "force_unlock", "ask", "expire"), (45, 35, 0 if robbed else 4, 14, 2)
        )[0]
        if what == "acquire" and not robbed:
            self.acquire(who, kind)
        elif what == "unlock" or what == "acquire":
            self.unlock(who, kind)
        elif what == "force_unlock":
            self.force(who, kind)
        elif what == "expire":
            self.expire()
        elif what == "ask":
            method = random.choice(("is_locked", "get_hold_count", "is_held_by_current_thread", "remain_time_to_live"))
            # A handle on what is lost counts what its server does not.
            if not robbed:
                self.both.step(Step(who, kind, method))

    def acquire(self, who: int, kind: str) -> None:
        lease = self.random.choice(self.leases)
        self.try_lock(who, kind, () if lease is None else (0, lease))

    def try_lock(self, who: int, kind: str, args: tuple[float, ...]) -> None:
        at = who, self.field(kind)
        if kind == "fenced_lock" and "fenced_lock" in self.holds[at]:
            self.both.joined += 1
        if self.both.step(Step(who, kind, "try_lock", args)) is True:
            self.holds[at].append(kind)

    def unlock(self, who: int, kind: str) -> None:
        at = who, self.field(kind)
        if self.holds[at] and self.both.one_lease:
            kind = self.holds[at][-1]  # In Java it is the object that remembers the lease.
        step = Step(who, kind, "unlock", held=bool(self.debts[at] or self.holds[at]))
        if self.debts[at]:
            self.debts[at] -= 1
        elif self.holds[at]:
            self.holds[at].pop()
            if not self.held():
                self.both.step(step, then=self.next())
                return
        self.both.step(step)

    def force(self, who: int, kind: str) -> None:
        if not self.held():
            self.both.step(Step(who, kind, "force_unlock"))
            return
        robbed, self.holds = self.holds, defaultdict(list)
        if self.both.step(Step(who, kind, "force_unlock"), then=self.next()) is True:
            self.rob(robbed, by=who)
        else:
            self.holds = robbed  # It was about the other side of a read-write lock.

    def expire(self) -> None:
        self.both.to_the_server(("DEL", "NAME"), about="the lock is gone")
        robbed, self.holds = self.holds, defaultdict(list)
        self.rob(robbed, by=None)

    def rob(self, robbed: dict[tuple[int, str], list[str]], by: int | None) -> None:
        """These holds are over; whoever did it knows."""
        for at, levels in robbed.items():
            if at[0] != by:
                self.debts[at] += len(levels)
        if by is not None:
            for at in self.debts:
                if at[0] == by:
                    self.debts[at] = 0

    def held(self) -> bool:
        return any(self.holds.values())

    def next(self) -> int | None:
        """Who comes in now that it is free."""
        return None

    def finish(self) -> None:
        while left := sorted({at for holds in (self.holds, self.debts) for at, some in holds.items() if some}):
            for who, which in left:
                kind = next(each for each in self.kinds if self.field(each) == which)
                self.unlock(who, kind)


class ReadWrite(Locks):
    """Both sides of a read-write lock."""


class Fair(Locks):
    """Fair locks, with owners who wait in the queue."""

    def __init__(self, random: Random, both: Both, kinds: tuple[str, ...], leases: tuple[float | None, ...]) -> None:
        super().__init__(random, both, kinds, leases)
        self.queue: list[tuple[int, str]] = []

    def idle(self) -> list[int]:
        return [who for who in range(OWNERS) if who not in dict(self.queue)]

    def acquire(self, who: int, kind: str) -> None:
        if not self.held() or self.holds[who, ""] or self.random.random() < 0.3:
            super().acquire(who, kind)
        elif self.random.random() < 0.3:
            self.both.step(Step(who, kind, "try_lock", (0.02, 60.0)))
        elif len(self.idle()) > 1:
            lease = self.random.choice(self.leases)
            step = Step(who, kind, "lock", () if lease is None else (lease,))
            self.queue.append((who, kind))
            self.both.begin(step, "redisson_lock_queue:{NAME}")

    def expire(self) -> None:
        if not self.queue:  # Those who wait would do so until the lease is over.
            super().expire()

    def next(self) -> int | None:
        if not self.queue:
            return None
        who, kind = self.queue.pop(0)
        self.holds[who, ""].append(kind)
        return who


class Semaphores:
    """Semaphores without owners."""

    def __init__(self, random: Random, both: Both, kinds: tuple[str, ...], leases: tuple[float | None, ...]) -> None:
        self.random, self.both, self.kind = random, both, kinds[0]
        self.leases = leases

    def tell(self, steps: int) -> None:
        for _ in range(steps):
            self.one_step()

    def step(self, method: str, *args: object, **options: object) -> object:
        return self.both.step(Step(self.random.randrange(OWNERS), self.kind, method, args, options=options))

    def one_step(self) -> None:
        random = self.random
        match random.randrange(9):
            case 0 if random.random() < 0.5 and not self.both.old:
                self.step("try_set_permits", random.randint(0, 5), ttl=60)
            case 0:
                self.step("try_set_permits", random.randint(0, 5))
            case 1 | 2 | 3:
                self.step("try_acquire", random.randint(1, 3))
            case 4 | 5:
                self.step("release", random.randint(1, 3))
            case 6:
                self.step("add_permits", random.choice((-3, -1, 1, 2)))
            case 7:
                self.step(random.choice(("drain_permits", "available_permits")))
            case 8:
                self.both.to_the_server(("PEXPIRE", "NAME", 60_000), about="it has an end")


class Permits(Semaphores):
    """Semaphores whose permits expire."""

    def one_step(self) -> None:
        random, permits = self.random, len(self.both.java.permits)
        match random.randrange(15):
            case 0:
                self.step("try_set_permits", random.randint(0, 4))
            case 1:
                self.step(random.choice(("set_permits", "add_permits")), random.randint(0, 4))
            case 2:
                self.step("add_permits", random.choice((-2, -1, 1)))
            case 3 | 4 | 5:
                lease = random.choice(LEASES)
                self.step("try_acquire", *(() if lease is None else (0, lease)))
            case 6 | 7 if permits:
                self.step("try_release", random.randrange(permits))
            case 8 if permits:
                self.step("update_lease_time", random.randrange(permits), random.choice(LEASES[1:]))
            case 9 if permits:
                self.overdue(random.randrange(permits))
            case 10 | 11:
                lease = random.choice(LEASES)
                self.step("try_acquire", *(() if lease is None else (0, lease)), permits=random.randint(1, 3))
            case 12 if permits:
                newest = range(max(0, permits - 6), permits)
                several = random.sample(newest, random.randint(1, min(3, len(newest))))
                self.step(random.choice(("release", "try_release")), several)
            case 13 if permits:
                self.step("get_lease_time", random.randrange(permits))
            case 14 if random.random() < 0.3:
                self.both.to_the_server(("PEXPIRE", "NAME", 60_000), about="it has an end")
            case _:
                self.step(random.choice(("available_permits", "get_permits", "acquired_permits")))

    def overdue(self, number: int) -> None:
        """As if its time were over."""
        for twin in (self.both.java, self.both.python):
            member = bytes.fromhex(twin.permits[number])
            self.both.server.redis.execute_command("ZADD", f"{{{twin.name}}}:timeout", "XX", 1 + number, member)
        self.both.to_the_server(about=f"permit {number} is overdue")


class Latches(Semaphores):
    """Latches."""

    def one_step(self) -> None:
        match self.random.randrange(5):
            case 0 | 1:
                self.step("try_set_count", self.random.randint(0, 3))
            case 2 | 3:
                self.step("count_down")
            case 4:
                self.step("get_count")


STORIES: Final[dict[str, Callable[[Random, Both, tuple[str, ...], tuple[float | None, ...]], Locks | Semaphores]]] = {
    "lock": Locks,
    "fair": Fair,
    "read_write": ReadWrite,
    "semaphore": Semaphores,
    "permits": Permits,
    "latch": Latches,
}
