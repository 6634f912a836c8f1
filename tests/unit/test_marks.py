"""The marks of holds in contexts, compared with plain sets: random holds in random copies of contexts."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pyredisson.shared.marks import LEAF, has_mark, leave_mark, live_marks

NAMES = [f"lock-{number}" for number in range(60)]


class Held:
    """What stands for an ownership."""

    name = owner = ""
    who: Any = None

    def __init__(self) -> None:
        self.mark: Callable[[], Any] | None = None
        self.held = False

    def in_use(self) -> bool:
        return self.held

    def bound(self) -> bool:
        return True


class Contexts:
    """Contexts, and beside each the holds that it has to know."""

    def __init__(self) -> None:
        self.each: list[tuple[contextvars.Context, dict[str, Held]]] = [(contextvars.Context(), {})]
        self.locks = {name: Held() for name in NAMES}

    def hold(self, at: int, name: str) -> None:
        context, known = self.each[at % len(self.each)]
        held = self.locks[name]
        if not held.held:
            context.run(leave_mark, held, (name,), 1)
            held.held = True
            for _, others in self.each:  # The mark of an earlier hold says nothing of this one.
                others.pop(name, None)
            known[name] = held

    def release(self, name: str) -> None:
        self.locks[name].held = False

    def copy(self, at: int) -> None:
        context, known = self.each[at % len(self.each)]
        self.each.append((context.copy(), dict(known)))

    def drop(self, at: int) -> None:
        if len(self.each) > 1:
            del self.each[at % len(self.each)]

    def check(self) -> None:
        for context, known in self.each:
            for name, held in self.locks.items():
                if held.held:
                    mine = name in known
                    assert context.run(has_mark, held) is mine
                    assert [mark.held() for mark in context.run(live_marks, (name, 1))] == ([held] if mine else [])
        for name, held in self.locks.items():
            if held.held:
                assert held.mark is not None
                assert (held.mark() is not None) is any(name in known for _, known in self.each)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("hold"), st.integers(0, 9), st.sampled_from(NAMES)),
        st.tuples(st.just("hold"), st.integers(0, 9), st.sampled_from(NAMES)),
        st.tuples(st.just("release"), st.sampled_from(NAMES)),
        st.tuples(st.just("copy"), st.integers(0, 9)),
        st.tuples(st.just("drop"), st.integers(0, 9)),
    ),
    max_size=80,
)


@settings(max_examples=200)
@given(steps)
def test_each_context_knows_the_holds_that_were_acquired_in_it_and_before_it_was_copied(steps: list[Any]) -> None:
    contexts = Contexts()
    for what, *arguments in steps:
        getattr(contexts, what)(*arguments)
    contexts.check()


def test_one_mark_stands_for_all_the_locks_of_a_multi_lock() -> None:
    context, held = contextvars.Context(), Held()
    context.run(leave_mark, held, ("orders", "stock"), 1)
    held.held = True
    for name in ("orders", "stock"):
        assert [mark.held() for mark in context.run(live_marks, (name, 1))] == [held]


def test_a_context_that_held_thousands_of_locks_has_few_marks_when_it_holds_few() -> None:
    context = contextvars.Context()
    few, many = [Held() for _ in range(3)], [Held() for _ in range(3000)]
    for number, held in enumerate((*few, *many)):
        context.run(leave_mark, held, (f"held-{number}",), 7)
        held.held = True
    for held in many:
        held.held = False
    later = [Held() for _ in range(20_000)]
    for number, held in enumerate(later):
        context.run(leave_mark, held, (f"later-{number}",), 7)
    alive = sum(held.mark is not None and held.mark() is not None for held in (*many, *later))
    assert alive <= 2 * LEAF
    assert all(context.run(has_mark, held) for held in (*few, later[-1]))
