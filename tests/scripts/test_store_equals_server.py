"""``tests/simulated/engine/redis.py`` does what real servers do: random histories run on both, compared at every step.

A history that differs is reported with the seed it was made from, and the steps up to the difference.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from tests.scripts.compared_servers import DUMP, Model, Moment, RealServer, comparable, microseconds
from tests.scripts.random_steps import CALLS, LONG, RENEWALS, SCRIPTS, SHARDED_CHANNELS, Step, script_step, script_steps
from tests.servers import Build, Server
from tests.simulated.engine.redis import Entry, ServerError

STEPS_OF_A_HISTORY = 200


@pytest.fixture
def real(build: Build, fresh_server: Callable[[Build], Server]) -> Iterator[RealServer]:
    server = RealServer(fresh_server(build))
    yield server
    server.close()


def take(model: Model, step: Step) -> Any:
    if step.out_of_memory is None:
        return model.call(*step.command)
    model.out_of_memory(step.out_of_memory)
    return b"OK"


def make_history(seed: str, version: str) -> list[Step]:
    model = Model()
    model.hear_shards(SHARDED_CHANNELS)
    history: list[Step] = []
    for step in itertools.islice(script_steps(Random(seed), model.server, version), STEPS_OF_A_HISTORY):
        take(model, step)
        history.append(step)
    return history


class StoodStillError(Exception):
    """The machine stood still for so long that a lease, or the time of a waiter, may have ended in the middle."""


#: How late a step may be, in ms, so that what differs is a difference.
IN_TIME = 20


def run_history(real: RealServer, history: list[Step]) -> None:
    """Run a history on a real server and on the model, and compare.

    The model's clock is set to what the real server's was just before each step. So times differ at most by the longest
    that a step, with the look before and after it, has taken.
    """
    real.empty()
    real.call("SCRIPT", "FLUSH")
    first, *replies = real.wire.call_many([DUMP, *itertools.chain(*((step.command, DUMP) for step in history))])
    heard = real.messages()
    before = Moment.of(first)
    if Moment.of(replies[-1]).ended_us - before.begun_us > 10_000_000:
        raise StoodStillError
    model = Model()
    model.hear_shards(SHARDED_CHANNELS)
    slack_ms = 2
    for at, step in enumerate(history):
        theirs, after = replies[2 * at], Moment.of(replies[2 * at + 1])
        slack_ms = max(slack_ms, (after.ended_us - before.begun_us) // 1000 + 2)
        model.now_us = before.ended_us
        ours = take(model, step)
        same = Comparison(slack_ms)
        if not same.replies(theirs, ours):
            raise differs(history, at, "reply", theirs, ours, slack_ms)
        model.now_us = after.begun_us
        stored = model.state()
        if not same.keys(after.keys, stored):
            other = {key for key in after.keys | stored if after.keys.get(key) != stored.get(key)}
            theirs, ours = ({key: each.get(key) for key in other} for each in (after.keys, stored))
            raise differs(history, at, f"keys (by more than {slack_ms} ms)", theirs, ours, slack_ms)
        before = after
    heard, published = in_order(heard), in_order(model.messages())
    if heard != published:
        raise differs(history, len(history) - 1, "messages", heard, published, slack_ms)


def in_order(messages: list[Any]) -> list[Any]:
    """Return messages without the order of the observers of one step: they are ordered by a time in milliseconds."""
    runs = itertools.groupby(messages, lambda each: each.payload == b"observe")
    return list(itertools.chain.from_iterable(sorted(run) if observe else run for observe, run in runs))


def differs(history: list[Step], at: int, what: str, theirs: object, ours: object, slack_ms: int) -> Exception:
    """Return the error for what differs after a step; the history is run anew if that may be for the time it took."""
    if slack_ms > IN_TIME:
        return StoodStillError()
    steps = "\n".join(f"  {n:3}  {step.about}" for n, step in list(enumerate(history))[max(0, at - 12) : at + 1])
    return AssertionError(f"{what} after step {at}:\n{steps}\n  real:  {theirs!r}\n  model: {ours!r}")


class Comparison:
    """Whether two servers agree, when the one may be some milliseconds ahead of the other."""

    def __init__(self, slack_ms: int) -> None:
        self._slack_ms = slack_ms

    def replies(self, theirs: Any, ours: Any) -> bool:
        if isinstance(theirs, ServerError) and isinstance(ours, ServerError):
            return comparable(theirs) == comparable(ours)
        if isinstance(theirs, list) and isinstance(ours, list):
            return len(theirs) == len(ours) and all(map(self.replies, theirs, ours))
        if isinstance(theirs, int) and isinstance(ours, int):  # maybe a TTL
            return theirs == ours or (min(theirs, ours) >= 1000 and abs(theirs - ours) <= self._slack_ms)
        return self._value(theirs, ours)

    def keys(self, theirs: dict[bytes, Entry], ours: dict[bytes, Entry]) -> bool:
        return theirs.keys() == ours.keys() and all(self._entry(theirs[key], ours[key]) for key in theirs)

    def _entry(self, theirs: Entry, ours: Entry) -> bool:
        if theirs.ttl_ms is None or ours.ttl_ms is None:
            if theirs.ttl_ms != ours.ttl_ms:
                return False
        elif abs(theirs.ttl_ms - ours.ttl_ms) > self._slack_ms:
            return False
        return theirs.type == ours.type and self._value(theirs.value, ours.value)

    def _value(self, theirs: Any, ours: Any) -> bool:
        if type(theirs) is type(ours) is dict:
            return theirs.keys() == ours.keys() and all(self._value(theirs[name], ours[name]) for name in theirs)
        if type(theirs) is type(ours) is float:
            return theirs == ours or self._same_time(theirs, ours)
        if isinstance(theirs, bytes) and isinstance(ours, bytes):
            both = [re.fullmatch(rb":?([0-9]{13,16})( .*)?", each) for each in (theirs, ours)]
            if both[0] and both[1]:  # A time, and perhaps whose it is.
                return both[0][2] == both[1][2] and self._same_time(int(both[0][1]), int(both[1][1]))
            return theirs == ours
        return type(theirs) is type(ours) and bool(theirs == ours)

    def _same_time(self, theirs: float, ours: float) -> bool:
        """Whether both are milliseconds since the epoch, or both microseconds, and not far from each other."""
        unit = 1000 if theirs > 1e15 else 1
        return 1e12 < theirs < 1e16 and abs(theirs - ours) <= self._slack_ms * unit


def test_every_script_is_tried():
    assert {call[0] for call in (*CALLS, *RENEWALS)} == set(SCRIPTS), "random_steps.py needs a call of each script"


def test_a_barrier_that_is_new_begins_to_count_by_the_clock(real):
    visit = script_step(
        "barrier_visit", [b"seats", b"done", b"barrier"], [b"1", b"PUBLISH", b"wait", b"2", b"a:1", b"", LONG, b"last"]
    ).command
    model = Model()
    for ask in (real.call, model.call):
        real.empty()
        before, reply, generation, after = (ask(*each) for each in (["TIME"], visit, ["GET", "seats"], ["TIME"]))
        clocks = [microseconds(time) % 16_000_000 for time in (before, after)]
        assert reply == 4 * int(generation)
        assert (int(generation) - clocks[0]) % 16_000_000 <= (clocks[1] - clocks[0]) % 16_000_000


@pytest.mark.volume
@pytest.mark.timeout(900)
def test_scripts(real, volume):
    real.hear_shards(SHARDED_CHANNELS)
    for number in range(volume(12, full=600)):
        seed = f"scripts-{number}"
        history = make_history(seed, real.version)
        for attempt in itertools.count(1):
            try:
                run_history(real, history)
                break
            except StoodStillError:
                assert attempt < 5, "the machine is too slow for this test"
            except AssertionError as error:
                raise AssertionError(f"{real.version}, seed {seed!r}: {error}") from None
