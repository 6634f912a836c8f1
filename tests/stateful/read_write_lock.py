"""Whatever readers and writers do, in whatever order: what they get is what a few lines of Python say they get."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from pyredisson import LockError, LockLostError, LockNotOwnedError
from tests.stateful.running import Machine
from tests.worlds.base import Remote

LEASE = 5.0  # of a read that simply ends
ACTORS = 4

who = st.integers(0, ACTORS - 1)


class Person:
    """What an actor holds, by the model."""

    def __init__(self) -> None:
        self.reads = 0
        self.fixed = False  # whether its reads end by themselves
        self.ends = math.inf
        self.over = 0  # reads that have ended, and were not given back
        self.writes = 0


class ReadWriteMachine(Machine):
    """Four actors of two clients on one lock."""

    def __init__(self) -> None:
        super().__init__()
        clients = [self.world.client(), self.world.client()]
        self.questions = 0
        self.people = [Person() for _ in range(ACTORS)]
        self.sides: list[tuple[Remote, Remote]] = []
        for number in range(ACTORS):
            both = self.world.actor().get(clients[number % 2], "read_write_lock", "orders")
            self.sides.append((both.read_lock(), both.write_lock()))

    # ---- the model -----------------------------------------------------------------------------------------------

    def person(self, number: int) -> Person:
        """Who it is, after what has ended by itself."""
        self.keep_clear_of_ends()
        person = self.people[number]
        if person.reads and person.ends <= self.world.now():
            person.over += person.reads
            person.reads = 0
        return person

    def keep_clear_of_ends(self) -> None:
        """A client counts a lease shorter than the server does; and a lock may outlive its readers by half a second."""
        while any(abs(person.ends - self.world.now() - 0.2) < 0.6 for person in self.people if person.reads):
            self.world.pass_time(0.2)

    def others(self, number: int) -> list[Person]:
        return [self.person(each) for each in range(ACTORS) if each != number]

    def expect(self, call: Callable[[], object], error: type[Exception] | None) -> None:
        if error is None:
            call()
            return
        with pytest.raises(error) as refusal:
            call()
        assert type(refusal.value) is error

    # ---- what may happen -----------------------------------------------------------------------------------------

    @rule(number=who, fixed=st.booleans())
    def read(self, number: int, fixed: bool) -> None:
        person = self.person(number)
        fixed = person.fixed if person.reads else fixed and self.simulated and not person.writes
        got = self.sides[number][0].try_lock(0, LEASE if fixed else None)
        assert got == (not any(other.writes for other in self.others(number)))
        if got:
            person.reads += 1
            person.fixed = fixed
            person.ends = self.world.now() + LEASE if fixed else math.inf

    @rule(number=who)
    def write(self, number: int) -> None:
        person = self.person(number)
        write = self.sides[number][1]
        if person.reads and not person.writes:
            self.expect(write.try_lock, LockError)
            return
        got = write.try_lock()
        assert got == (not any(other.reads or other.writes for other in self.others(number)))
        person.writes += got

    @rule(number=who)
    def end_read(self, number: int) -> None:
        person = self.person(number)
        if person.reads:
            self.expect(self.sides[number][0].unlock, None)
            person.reads -= 1
            if person.reads and person.fixed:
                person.ends = max(person.ends, self.world.now() + LEASE)
        elif person.over:
            self.expect(self.sides[number][0].unlock, LockLostError)
            person.over -= 1
        else:
            self.expect(self.sides[number][0].unlock, LockNotOwnedError)

    @rule(number=who)
    def end_write(self, number: int) -> None:
        person = self.person(number)
        self.expect(self.sides[number][1].unlock, None if person.writes else LockNotOwnedError)
        person.writes = max(0, person.writes - 1)

    @rule(number=who, side=st.sampled_from([0, 1]))
    def force(self, number: int, side: int) -> None:
        self.person(number)
        written = any(person.writes for person in self.people)
        locked = written if side else not written and any(person.reads for person in self.people)
        if locked and any(person is not self.people[number] and person.reads + person.writes for person in self.people):
            return  # What others lose that way, and how they are told, the contract says.
        assert self.sides[number][side].force_unlock() is locked
        if locked:
            person = self.people[number]
            person.reads = person.writes = person.over = 0

    @precondition(lambda self: self.simulated)
    @rule(seconds=st.sampled_from([0.3, 1.1, 6.0, 40.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    # ---- what can be seen ----------------------------------------------------------------------------------------

    @invariant()
    def everybody_agrees(self) -> None:
        people = [self.person(number) for number in range(ACTORS)]
        self.questions += 1  # One after another, since each question takes a request.
        person, (read, write) = people[self.questions % ACTORS], self.sides[self.questions % ACTORS]
        assert read.get_hold_count() == person.reads
        assert write.get_hold_count() == person.writes
        assert read.is_held_by_current_thread() == (person.reads > 0)
        assert write.is_held_by_current_thread() == (person.writes > 0)
        assert read.is_locked() == any(person.reads for person in people)
        assert write.is_locked() == any(person.writes for person in people)
        if not any(person.reads or person.writes for person in people):
            assert self.world.redis.hash("orders") == {}
