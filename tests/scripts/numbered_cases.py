"""What is the same for all scripts of semaphores and latches: a request is known by its number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tests.scripts.harness import (
    FREE,
    ME,
    WRONGTYPE,
    Call,
    Case,
    State,
)
from tests.scripts.numbered_calls import (
    DONE,
    ENDLESS,
    PERMIT,
    add_expirable,
    add_permits,
    count_down,
    done,
    drain,
    give_all,
    give_permit,
    give_permits,
    lease_permit,
    permits,
    set_counter,
    set_permits,
    take_permit,
    take_permits,
    taken,
    undo,
)
from tests.simulated.engine.redis import Entry

#: Each with a state that would let it do something.
NUMBERED: Final[list[tuple[State, Callable[..., Call]]]] = [
    (FREE, lambda number: set_counter(3, number=number)),
    (permits(3), lambda number: take_permits(number=number)),
    (permits(3), lambda number: give_permits(number=number)),
    (permits(3), lambda number: add_permits(2, number=number)),
    (permits(3), lambda number: drain(number=number)),
    (permits(3), lambda number: undo(4, number=number)),
    (permits(3), lambda number: take_permit(number=number)),
    (permits(3) | taken(ENDLESS), lambda number: give_permit(number=number)),
    (permits(3) | taken(ENDLESS), lambda number: give_all(PERMIT, number=number)),
    (permits(3) | taken(ENDLESS), lambda number: lease_permit(lease=60_000, number=number)),
    (permits(3), lambda number: set_permits(4, number=number)),
    (permits(3), lambda number: add_expirable(2, number=number)),
    (permits(3), lambda number: count_down(number=number)),
]


def answered(call: Call, outcome: int) -> Any:
    """The reply that says so."""
    return {"semaphore_acquire": [outcome, 0], "permit_acquire": [outcome, 0, 0]}.get(call.script, outcome)


#: What is the same for all that have a number.
CASES: Final = [
    case
    for state, make in NUMBERED
    for case in (
        Case(
            "a repeat is answered with the recorded outcome",
            state | done(5, 7, 20_000),
            make(5),
            answered(make(5), 7),
            state | done(5, 7),
        ),
        Case("a repeat of a refused request is answered with 0", state | done(5, 0), make(5), answered(make(5), 0)),
        Case(
            "a request with a lower number than the recorded one is stale",
            state | done(6, 1, 20_000),
            make(5),
            [b"stale", b"6"],
        ),
        Case("the numbers of requests are compared as numbers", state | done(10, 1), make(9), [b"stale", b"10"]),
        Case("an error if the record is no string", state | {DONE: Entry("list", [ME], None)}, make(5), WRONGTYPE),
        Case(
            "out of memory: a repeat is answered with the recorded outcome",
            state | done(5, 1, 20_000),
            make(5),
            answered(make(5), 1),
            state | done(5, 1),
            out_of_memory=True,
        ),
    )
]
