"""What the benchmarks conclude from what they measured."""

from __future__ import annotations

import pytest

from benchmarks.cross_hand_over import WAITED_NS, HandOvers, Pass, hand_overs

MS = 1_000_000
assert WAITED_NS == MS


def passes(*times_ms: tuple[float, float, float]) -> list[Pass]:
    return [Pass(*(int(time * MS) for time in times)) for times in times_ms]


def test_a_lock_that_goes_to_and_fro() -> None:
    one, other = passes((0, 1, 11), (16, 22, 32)), passes((5, 12, 21.5), (27, 34, 44))
    assert hand_overs(one, other) == HandOvers([1 * MS, 2 * MS], 0)
    assert hand_overs(other, one) == HandOvers([MS // 2], 0)


@pytest.mark.parametrize(
    ("asked", "found"),
    [(9, 1), (10, 1), (10.5, 0), (12, 0)],
    ids=["long before", "just in time", "about to wait", "after the release"],
)
def test_only_who_waits_is_handed_the_lock(asked: float, found: int) -> None:
    taken = hand_overs(passes((0, 1, 11)), passes((asked, 13, 20)))
    assert len(taken.waits_ns) == found


def test_a_wait_counts_from_the_first_release_that_could_have_ended_it() -> None:
    giver, taker = passes((0, 1, 11), (11.1, 11.2, 21)), passes((5, 22, 30))
    assert hand_overs(giver, taker) == HandOvers([11 * MS], taken_back=1)


def test_two_inside_are_an_error() -> None:
    with pytest.raises(RuntimeError, match="two were inside"):
        hand_overs(passes((0, 1, 11)), passes((5, 10.9, 20)))
