"""What is visible in contexts, compared with plain sets: random holds in random copies of contexts."""

import contextvars
import gc

from hypothesis import given, settings
from hypothesis import strategies as st

from pyredisson._core import owners as call_chains
from pyredisson._core.hold import HoldState, SingleHold
from pyredisson._core.owners import FEW, CallChains
from tests.unit.fake import FakeOwner

LOCKS = 4


class Contexts:
    """Contexts, and for each the holds that have to be visible there."""

    def __init__(self) -> None:
        self.each: list[tuple[contextvars.Context, set[SingleHold]]] = [(contextvars.Context(), set())]
        self.chains = [CallChains() for _ in range(LOCKS)]
        self.owners = [FakeOwner(number) for number in range(LOCKS)]
        self.held: list[tuple[int, SingleHold]] = []

    def hold(self, at: int, lock: int) -> None:
        context, visible = self.each[at % len(self.each)]
        hold = SingleHold(1000, 0.9, watchdog=True)
        hold.state = HoldState.HELD
        context.run(self.chains[lock].enter, hold, self.owners[lock])
        visible.add(hold)
        self.held.append((lock, hold))

    def release(self, which: int) -> None:
        if self.held:
            self.held.pop(which % len(self.held))[1].become(HoldState.OVER)

    def forget(self, lock: int) -> None:
        """The ownerships of a lock leave the table: what is made for another one may use its variable again."""
        for each in [each for each in self.held if each[0] == lock]:
            self.held.remove(each)  # As they are: of a client that was closed.
        self.chains[lock].end()
        self.chains[lock] = CallChains()

    def copy(self, at: int) -> None:
        context, visible = self.each[at % len(self.each)]
        self.each.append((context.copy(), set(visible)))

    def drop(self, at: int) -> None:
        if len(self.each) > 1:
            del self.each[at % len(self.each)]

    def check(self) -> None:
        for context, visible in self.each:
            for lock, chains in enumerate(self.chains):
                here = [hold for of, hold in self.held if of == lock and hold in visible]
                assert [hold for of, hold in self.held if of == lock and context.run(chains.sees, hold)] == here
                assert (context.run(chains.owner_here) is self.owners[lock]) is bool(here)
        for _, hold in self.held:
            assert hold.trace is not None
            assert (hold.trace() is not None) is any(hold in visible for _, visible in self.each)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("hold"), st.integers(0, 9), st.integers(0, LOCKS - 1)),
        st.tuples(st.just("hold"), st.integers(0, 9), st.integers(0, LOCKS - 1)),
        st.tuples(st.just("release"), st.integers(0, 9)),
        st.tuples(st.just("copy"), st.integers(0, 9)),
        st.tuples(st.just("drop"), st.integers(0, 9)),
        st.tuples(st.just("forget"), st.integers(0, LOCKS - 1)),
    ),
    max_size=80,
)


@settings(max_examples=200)
@given(steps)
def test_a_hold_is_visible_where_it_was_acquired_and_in_later_copies(steps):
    contexts = Contexts()
    for what, *arguments in steps:
        getattr(contexts, what)(*arguments)
        contexts.check()


def test_what_is_held_again_and_again_leaves_nothing_in_a_context():
    context, chains = contextvars.Context(), CallChains()
    outer, traces = SingleHold(1000, 0.9, watchdog=True), []
    context.run(chains.enter, outer, FakeOwner())
    for _ in range(1000):
        hold = SingleHold(1000, 0.9, watchdog=True)
        context.run(chains.enter, hold, FakeOwner())
        hold.become(HoldState.OVER)
        traces.append(hold.trace)
    assert sum(trace is not None and trace() is not None for trace in traces) <= 1
    assert context.run(chains.sees, outer)


def test_holds_that_overlap_leave_nothing_in_a_context():
    context, chains = contextvars.Context(), CallChains()
    holds = []
    traces = []
    for _ in range(1000):
        holds.append(SingleHold(1000, 0.9, watchdog=True))
        context.run(chains.enter, holds[-1], FakeOwner())
        traces.append(holds[-1].trace)
        if len(holds) > 3:  # The outermost goes first, as of blocks that are left in the order in which they began.
            holds.pop(0).become(HoldState.OVER)
    assert sum(trace is not None and trace() is not None for trace in traces) <= 2 * len(holds) + FEW + 2
    assert all(context.run(chains.sees, hold) for hold in holds)


def test_there_are_no_more_variables_than_locks_in_use_at_one_time():
    gc.collect()
    before = len(call_chains._free)
    for _ in range(100):
        several = [CallChains() for _ in range(before + 50)]
        for each in several:
            each.end()
    assert len(call_chains._free) == before + 50


def test_a_variable_is_given_back_once():
    gc.collect()
    before = len(call_chains._free)
    several = [CallChains() for _ in range(before + 1)]
    for each in several * 2:
        each.end()
    assert len(call_chains._free) == len(set(call_chains._free)) == before + 1
