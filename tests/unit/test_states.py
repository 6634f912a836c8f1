"""The tables of states: each transition that they list is possible, and no other one is."""

import inspect
import re
from collections.abc import Callable, Iterator
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

from pyredisson._core import requests, waiting
from pyredisson._core.hold import HoldState, SingleHold
from pyredisson._core.names import ACQUIRED, GO, NOTIFIED, NOTIFIED_ALONE, OBSERVE, OBSERVE_AND_ATTEMPT, LockNames
from pyredisson._core.ownership import Ownership
from pyredisson._core.requests import Pending, RequestState
from pyredisson._core.subscriptions import Subscriptions, Waiter
from pyredisson._core.waiting import Membership, Observing, QueuedGroup, lock_message
from tests.unit.fake import FakeOwner
from tests.unit.waiters import MAX_WAIT


class Transition(NamedTuple):
    """A change of state, and the method that makes it."""

    state: str
    following: str
    method: str


Call = Callable[[Any], object]


def table_of(module: ModuleType, ends: tuple[str, ...] = ()) -> set[Transition]:
    """Return the transitions of the table in a module's comments. ``ends``: the methods that are ``an end`` there."""
    found: set[Transition] = set()
    state = ""
    for line in inspect.getsource(module).splitlines():
        if match := re.fullmatch(r"# ([A-Z_]*) +.*? +([A-Z_]+) by (.+)", line):
            state = match[1] or state
            methods = [each.strip() for each in re.sub(r"\(.*?\)", "", match[3]).split(",")]
            for method in methods:
                found |= {Transition(state, match[2], each) for each in (ends if method == "an end" else (method,))}
    return found


def walk(
    calls: dict[str, Call],
    start: Callable[[], Any],
    states: Callable[[Any], tuple[str, ...]],
    key: Callable[[Any], Any],
) -> Iterator[Transition]:
    """Make all calls in each situation that calls lead to, and yield the transitions; a key is a situation."""
    todo: list[tuple[str, ...]] = [()]
    known = {key(start())}
    for path in todo:
        for name, call in calls.items():
            subject = start()
            for each in path:
                calls[each](subject)
            before = states(subject)
            call(subject)
            yield from (
                Transition(old, new, name.partition(" ")[0])
                for old, new in zip(before, states(subject), strict=True)
                if old != new
            )
            if (situation := key(subject)) is not None and situation not in known:
                known.add(situation)
                todo.append((*path, name))


# ---- the request of an owner -----------------------------------------------------------------------------------------

ENDS = ("granted", "refused", "released", "lose_one", "given_back", "abandon", "expire", "disown")
ENDS += ("clear", "redo_release")


def new_hold() -> SingleHold:
    return SingleHold(10_000, 9.0, watchdog=False)


def held(ownership: Ownership) -> list[SingleHold]:
    return ownership.holds[-1:]


def if_pending(kinds: tuple[Pending, ...], call: Call) -> Call:
    return lambda ownership: call(ownership) if ownership.pending in kinds else None


of_acquire = partial(if_pending, (Pending.ACQUIRE,))
of_release = partial(if_pending, (Pending.RELEASE,))

CALLS: dict[str, Call] = {
    "begin_acquire": lambda own: own.begin_acquire(new_hold()),
    "granted": of_acquire(lambda own: [own.granted(own.request_id, hold, 1000.0) for hold in own.in_flight.holds]),
    "refused": of_acquire(lambda own: own.refused(own.request_id)),
    "begin_release": lambda own: own.begin_release(*held(own)),
    "begin_release of a condition": lambda own: own.begin_release(*held(own), becoming=HoldState.GIVEN_UP),
    "take_back_release": lambda own: own.take_back_release(own.request_id),
    "released": of_release(lambda own: own.released(own.request_id, 0.0)),
    "lose_one": of_release(lambda own: own.lose_one(own.request_id, "gone", 1000.0)),
    "given_back": if_pending((Pending.ACQUIRE, Pending.WAIT), lambda own: own.given_back(own.request_id)),
    "answered": lambda own: own.answered(own.request_id),
    "take_turn": lambda own: own.take_turn(),
    "doubt": lambda own: own.doubt(own.request_id),
    "take_over": lambda own: own.take_over(),
    "take_over in the background": lambda own: own.take_over(own.request_id, background=True),
    "release_later": lambda own: own.release_later(own.holds[-1] if own.holds else None, block=True),
    "hand_over": lambda own: own.hand_over(own.holds[-1] if own.holds else None),
    "undo_acquire": lambda own: own.undo_acquire((*own.in_flight.holds, *held(own), new_hold())[0]),
    "redo_release": lambda own: own.redo_release(*held(own)),
    "may_stand_in_queue": lambda own: own.may_stand_in_queue(1000),
    "stop_waiting": lambda own: own.stop_waiting(1000.0),
    "lose": lambda own: own.lose("gone"),
    "expire": lambda own: own.expire(own.deadline),
    "abandon": lambda own: own.abandon(own.request_id),
    "disown": lambda own: own.disown(),
    "clear": lambda own: own.clear(),
    "begin_force": lambda own: own.begin_force(),
    "raise_epoch": lambda own: own.raise_epoch(own.request_id, 1),
    "take_released_behind": lambda own: own.take_released_behind(),
    "keep_pending_until": lambda own: own.keep_pending_until(),
    "leave_behind_call": lambda own: own.leave_behind_call(own.holds[-1] if own.holds else None),
    "leave_given_up": lambda own: own.leave_given_up(own.holds[-1] if own.holds else None),
}


def state_of(ownership: Ownership) -> tuple[str, ...]:
    return ("SETTLED" if ownership.pending is None else ownership.in_flight.state.name,)


def situation_of(ownership: Ownership) -> object:
    """What decides what an ownership's methods do; ``None`` if it has more than two holds, as one is like another."""
    request, holds = ownership.in_flight, ownership.holds
    if len(holds) > 2 or len(request.due) > 1:
        return None
    those = tuple((hold.state, hold in holds) for hold in request.holds)
    state = state_of(ownership), ownership.pending, tuple(hold.state for hold in holds), those
    gives_up = ownership.pending is Pending.RELEASE and request.becoming is HoldState.GIVEN_UP
    return *state, gives_up, len(request.due), request.queued_ms, ownership.loss


def test_the_walk_makes_each_call_that_changes_a_request():
    changes = re.compile(r"in_flight\.(begin|repeat|leave|doubt|(state|pending) = )")
    methods = {name: method for name, method in vars(Ownership).items() if inspect.isfunction(method)}
    changing = {name for name, method in methods.items() if changes.search(inspect.getsource(method))}
    assert changing - {"_give_up_release"} <= CALLS.keys()
    assert len(changing) > 10


def test_requests_are_in_the_states_of_the_table(world):
    table = table_of(requests, ENDS)
    unlikely = {  # What is granted or refused is an acquire, and the watchdog's copy of one is never the first.
        Transition("BACKGROUND", "SETTLED", "granted"),
        Transition("BACKGROUND", "SETTLED", "refused"),
    }
    assert {each.state for each in table} == {"SETTLED", *RequestState.__members__}
    new = partial(Ownership, ("orders", "client:1"), FakeOwner(), world)
    assert set(walk(CALLS, new, state_of, situation_of)) == table - unlikely


# ---- a group of waiters ----------------------------------------------------------------------------------------------

NAMES = LockNames("orders")


def message(text: str) -> Call:
    return lambda waiter: waiter.group.received(waiter.channel, text.encode())


def acquired(waiter: Waiter) -> None:
    """Note that the last attempt has succeeded."""
    group = waiter.group
    assert isinstance(group, QueuedGroup)
    group.acquired(group._last)


def leave(waiter: Waiter) -> None:
    waiter.group.waiters.pop(waiter, None)
    waiter.group.stop_listening(waiter)


GROUP_CALLS: dict[str, Call] = {
    **{f"received {text}": message(text) for text in (GO, NOTIFIED, NOTIFIED_ALONE, ACQUIRED, OBSERVE)},
    "received another": message(OBSERVE_AND_ATTEMPT),
    "received usual": lambda waiter: waiter.group.received(NAMES.channel, b"0"),
    "confirmed": lambda waiter: waiter.group.confirmed(NAMES.channel),
    "begin_update": lambda waiter: waiter.group.begin_update(waiter),
    "acquired": acquired,
    "stop_listening": leave,
}


def states_of(waiter: Waiter) -> tuple[str, ...]:
    group = waiter.group
    assert isinstance(group, QueuedGroup)
    return group._membership.name, group._observing.name


def group_situation_of(waiter: Waiter) -> object:
    group = waiter.group
    assert isinstance(group, QueuedGroup)
    said = group._is_turn, group._is_served, group._may_have_missed
    return states_of(waiter), said, group._last.notified, len(group.waiters)


def test_groups_are_in_the_states_of_the_table(world):
    table = table_of(waiting)
    assert {each.state for each in table} == {*Membership.__members__, *Observing.__members__}

    def new():
        subscriptions = Subscriptions(world, MAX_WAIT)
        group = QueuedGroup(subscriptions, NAMES, "me", "lock", lock_message)
        waiter = Waiter(group, world.ticket())
        group.join(waiter, seen=None, retry_in=1.0)
        return waiter

    assert set(walk(GROUP_CALLS, new, states_of, group_situation_of)) == table
