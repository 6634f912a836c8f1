"""How the operations on semaphores, latches, events and barriers may end: a number or a flag each, without owners."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from threading import BrokenBarrierError
from typing import Any

from pyredisson import ClientClosedError, LockNotOwnedError, LockTimeoutError
from tests.programs.model import HELD, RELEASED, Locks, Plan, Unclear, Waiter, Way
from tests.programs.steps import SHORT, Step, Target, targets_of

#: The kinds that have blocks.
SEMAPHORES = ("sem", "permits")

#: The value of a bounded semaphore, and the parties of a barrier.
VALUE = PARTIES = 2


@dataclass(eq=False)
class Permit:
    """A permit with an id, or the permits of a block.

    Attributes:
        count: How many these are.
        ends: If it ends when the program lets leases end: when, at the earliest and at the latest.
    """

    number: Number
    count: int = 1
    ends: tuple[float, float] | None = None
    state: str = HELD

    @property
    def parts(self) -> list[Any]:
        """It is no hold of a lock."""
        return []


@dataclass(eq=False)
class Number:
    """What is stored of a semaphore, a latch, an event or a barrier.

    Attributes:
        value: Permits that are available, the count, or whether the event is set; ``None``: nothing was set.
        permits: The permits with ids, by what the program calls them.
        waiters: Who waits for it.
        broken: Whether the barrier is broken.
        given: The numbers that this barrier's callers have.
    """

    target: Target
    value: int | None = None
    permits: dict[int, Permit] = field(default_factory=dict)
    waiters: list[Waiter] = field(default_factory=list)
    broken: bool = False
    given: list[int] = field(default_factory=list)


class NumberOutcomes(Locks):
    """The operations on what has no owner."""

    def __init__(self, *, tasks: bool, timeout: float) -> None:
        super().__init__(tasks=tasks, timeout=timeout)
        self.stored: dict[tuple[int, str], Number] = {}

    def number(self, step: Step) -> Number:
        """What a step is about. Raises :class:`Unclear` if nothing was set that has to be."""
        (target,) = targets_of(step.on)
        return self.stored.setdefault(target.place, Number(target, VALUE if target.kind == "bounded" else None))

    def _short(self) -> list[Permit]:
        permits = [permit for number in self.stored.values() for permit in number.permits.values()]
        return [permit for permit in permits if permit.ends is not None and permit.state is HELD]

    def spans(self) -> list[tuple[float, float]]:
        """See :meth:`Locks.spans`."""
        return super().spans() + [permit.ends for permit in self._short() if permit.ends is not None]

    def ended_by_time(self) -> None:
        """See :meth:`Locks.ended_by_time`."""
        super().ended_by_time()
        for permit in self._short():
            self._given(permit)

    def _set_number(self, step: Step) -> Number:
        number = self.number(step)
        if number.value is None:
            raise Unclear
        return number

    def _plan(self, step: Step, *ways: Way) -> Plan:
        return Plan([Way(ClientClosedError)] if self.is_closed(targets_of(step.on)) else list(ways))

    def _add(self, number: Number, count: int) -> None:
        number.value = (number.value or 0) + count

    # ---- semaphores and latches ----------------------------------------------------------------------------------

    def set(self, step: Step) -> Plan:
        """``try_set_permits()`` or ``try_set_count()``."""
        number = self.number(step)
        if number.target.kind == "latch" and step.n == 0:
            raise Unclear
        return self._plan(step, Way(number.value is None, lambda: number.value is None and self._add(number, step.n)))

    def take(self, step: Step) -> Plan:
        """Acquire permits; one with an id is called by the number of the step."""
        return self.take_permits(step, 1 if step.on.rpartition(":")[2].startswith(("permits", "bounded")) else step.n)

    def take_permits(self, step: Step, count: int, block: Callable[[Permit], object] | None = None) -> Plan:
        """Acquire so many; ``block``: called with what the block has."""
        number = self._set_number(step)
        assert number.value is not None
        with_id = number.target.kind == "permits" and block is None
        if number.waiters or (with_id and step.n in number.permits):
            raise Unclear

        def took() -> None:
            self._add(number, -count)
            ends = (self.began + SHORT, self.ended + SHORT) if step.lease == SHORT else None
            permit = Permit(number, count, ends)
            if with_id:
                number.permits[step.n] = permit
            if block is not None:
                block(permit)

        got: Any = (lambda _: True) if block or with_id else True
        granted = Way(got, took)
        if number.value >= count:
            return self._plan(step, granted)
        if step.wait is None and not self.is_closed(targets_of(step.on)):
            return Plan(waiter=self._waits(step, number, lambda: (number.value or 0) >= count, lambda: [granted]))
        refused = LockTimeoutError if block else None if with_id else False
        return self._plan(step, Way(refused))

    def _waits(self, step: Step, number: Number, ready: Callable[[], bool], ways: Callable[[], list[Way]]) -> Waiter:
        waiter = Waiter(step, ready, ways, clients=(targets_of(step.on)[0].client,))
        waiter.joined = partial(number.waiters.append, waiter)
        waiter.gone = partial(number.waiters.remove, waiter)
        return waiter

    def give(self, step: Step) -> Plan:
        """Release permits: ``release()``, or ``try_release()``."""
        number = self._set_number(step)
        assert number.value is not None
        kind = number.target.kind
        if kind == "permits":
            permit = number.permits.get(step.n)
            if permit is None or permit.state is not HELD:
                return self._plan(step, Way(False if step.face == "try" else LockNotOwnedError))
            return self._plan(step, Way(True if step.face == "try" else None, partial(self._given, permit)))
        if kind == "bounded" and number.value + step.n > VALUE:
            return self._plan(step, Way(ValueError))
        return self._plan(step, Way(None, partial(self._add, number, step.n)))

    def _given(self, permit: Permit) -> None:
        permit.state = RELEASED
        self._add(permit.number, permit.count)

    def leave_permits(self, permit: Permit) -> list[Way]:
        """The end of a block of permits."""
        return [Way(None, partial(self._given, permit))]

    def _in_blocks(self, number: Number) -> int:
        """How many permits are held by blocks."""
        holds = [block.hold for block in self.blocks.values() if isinstance(block.hold, Permit)]
        return sum(hold.count for hold in holds if hold.number is number and hold.state is HELD)

    def drain(self, step: Step) -> Plan:
        """``drain_permits()``."""
        number = self._set_number(step)
        return self._plan(step, Way(max(number.value or 0, 0), lambda: self._add(number, -max(number.value or 0, 0))))

    def down(self, step: Step) -> Plan:
        """``count_down()``."""
        number = self.number(step)

        def counted() -> None:
            number.value = number.value - 1 if number.value and number.value > 1 else None

        return self._plan(step, Way(None, counted))

    def wipe(self, step: Step) -> Plan:
        """``delete()``, when none is taken."""
        number = self.number(step)
        if number.waiters or number.value is None or any(permit.state is HELD for permit in number.permits.values()):
            raise Unclear
        if self._in_blocks(number):
            raise Unclear

        def wiped() -> None:
            number.value = None
            number.permits.clear()

        return self._plan(step, Way(True, wiped))

    # ---- waiting -------------------------------------------------------------------------------------------------

    def wait_for(self, step: Step) -> Plan:
        """``wait()`` of a latch, an event or a barrier."""
        number = self.number(step)
        if self.is_closed(targets_of(step.on)):
            return Plan([Way(ClientClosedError)])
        if number.target.kind == "barrier":
            return self._meet(step, number)
        is_event = number.target.kind == "event"

        def open_() -> bool:
            return bool(number.value) is is_event

        if open_():
            return Plan([Way(True)])
        if step.wait is None:
            return Plan(waiter=self._waits(step, number, open_, lambda: [Way(True)]))
        return Plan([Way(False)])

    def _meet(self, step: Step, number: Number) -> Plan:
        if number.broken:
            return Plan([Way(BrokenBarrierError)])
        if len(number.waiters) + 1 >= PARTIES:

            def met(place: int) -> None:
                number.given = [place]

            return Plan([Way(place, partial(met, place)) for place in range(PARTIES)])
        if step.wait is not None:
            return Plan([Way(BrokenBarrierError, partial(setattr, number, "broken", True))])

        def ready() -> bool:
            return bool(number.given) or number.broken or number.value is not None

        def ways() -> list[Way]:
            if number.given:
                return [Way(PARTIES - 1 - number.given[0], number.given.clear)]
            return [Way(BrokenBarrierError, partial(setattr, number, "value", None))]

        return Plan(waiter=self._waits(step, number, ready, ways))

    def flag(self, step: Step) -> Plan:
        """``set()`` or ``clear()`` of an event, ``reset()`` or ``abort()`` of a barrier."""
        number = self.number(step)

        def changed() -> None:
            if step.face in ("set", "clear"):
                number.value = int(step.face == "set")
            elif step.face == "abort":
                number.broken = True
            else:
                number.broken = False
                number.value = 1 if number.waiters else None

        return self._plan(step, Way(None, changed))

    # ---- what can be seen ----------------------------------------------------------------------------------------

    def numbers_seen(self, step: Step) -> list[tuple[str, str, Any]]:
        """See :meth:`LockOutcomes.answers`."""
        number = self.number(step)
        kind, value = number.target.kind, number.value or 0
        held = sum(permit.state is HELD for permit in number.permits.values())
        held += self._in_blocks(number)
        answers: dict[str, list[tuple[str, Any]]] = {
            "sem": [("available_permits", value)],
            "bounded": [("locked", value <= 0)],
            "permits": [("available_permits", value), ("acquired_permits", held)],
            "latch": [("get_count", value)],
            "event": [("is_set", bool(value))],
        }
        return [(step.on, method, answer) for method, answer in answers.get(kind, [])]
