"""A block that a signal handler leaves at any point of a method of its ownership is released behind the call."""

import threading
from collections.abc import Callable

import pytest

from pyredisson._core.hold import HoldState, SingleHold
from pyredisson._core.ownership import Ownership
from pyredisson._core.requests import Pending
from tests.real_servers.signal_points import Points, other_points
from tests.unit.fake import FakeOwner, FakeRuntime

pytestmark = other_points

Call = Callable[[Ownership, list[SingleHold]], object]


class Runtime(FakeRuntime):
    """Its mutexes let signal handlers pass, as those of threads do."""

    def mutex(self):
        return threading.RLock()


def held(count: int) -> tuple[Ownership, list[SingleHold]]:
    """Return an ownership with nested holds, the outermost first."""
    runtime = Runtime()
    ownership = Ownership(("orders", "client:1"), FakeOwner(), runtime)
    holds = [SingleHold(30_000, 29.0, watchdog=True) for _ in range(count)]
    for hold in holds:
        assert ownership.granted(ownership.begin_acquire(hold).request_id, hold, runtime.now())
    return ownership, holds


def settle(own: Ownership) -> None:
    """Settle all that is due, each with an answer."""
    while (begun := own.take_over()) is not None and begun.pending is not None:
        own.released(begun.request_id, 0.0)


CALLS: dict[str, Call] = {
    "take_over": lambda own, holds: own.leave_behind_call(holds[0]) and settle(own),
    "abandon": lambda own, holds: (own.leave_behind_call(holds[0]), own.abandon(own.request_id)),
    "acquire": lambda own, holds: own.granted(own.begin_acquire(holds[2]).request_id, holds[2], own.deadline),
    "release": lambda own, holds: own.released(own.begin_release(holds[0]).request_id, 0.0),
    "give up": lambda own, holds: own.released(
        own.begin_release(*holds[:2], becoming=HoldState.GIVEN_UP).request_id, 0.0
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_at_every_point(name):
    at, points = 0, None
    while points is None or points.where or not at:
        at += 1
        own, holds = held(2)
        holds.append(SingleHold(30_000, 29.0, watchdog=True))
        left = []

        def handler(own=own, holds=holds, left=left):
            left.append(own.leave_behind_call(holds[1]))

        points = Points(handler, at)
        assert points.run(lambda own=own, holds=holds: CALLS[name](own, holds)) is None
        assert own.pending in (None, Pending.RELEASE)
        settle(own)
        if left == [True]:
            assert holds[1].state in (HoldState.OVER, HoldState.LEFT, HoldState.LOST), f"at {points}"
            assert holds[1] not in own.holds
    assert at > 5


@pytest.mark.parametrize("leaves", ["acquire", "release"])
def test_what_the_background_releases_is_not_forgotten_when_its_owner_leaves_a_call(leaves):
    own, holds = held(3)
    assert own.leave_behind_call(holds[0])
    assert own.take_over(own.request_id, background=True).pending is Pending.RELEASE
    if leaves == "acquire":
        assert own.undo_acquire(holds[2])
    else:
        assert own.redo_release(holds[2])
    counts = []
    while (begun := own.take_over()).pending is not None:
        counts.append(begun.hold_count)
        (own.given_back if begun.pending is Pending.ACQUIRE else own.released)(
            begun.request_id, *([0.0] if begun.pending is Pending.RELEASE else [])
        )
    assert counts == [3, 2]
    assert own.holds == [holds[1]]
    assert not own.in_flight.due
