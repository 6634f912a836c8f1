"""Times: what is accepted, how it is rounded, and how much of a lease is certain."""

from datetime import timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyredisson._core.deadline import (
    DAY,
    MAX_SECONDS,
    certain_for,
    explicit,
    lease_ms,
    least_lease_ms,
    wait_seconds,
    whole_ms,
)


class MyFloat(float):
    pass


@pytest.mark.parametrize(
    ("lease", "milliseconds"),
    [
        (1, 1000),
        (0.001, 1),
        (5e-324, 1),
        (0.0011, 2),
        (1.00000001, 1001),
        (0.003, 3),  # 0.003 * 1000 is a little more than 3 in binary
        (4.35, 4350),
        (29.999, 29_999),
        (timedelta(seconds=1e12), 10**15),
        (timedelta(microseconds=1), 1),
        (timedelta(seconds=1, microseconds=1), 1001),
        (3600, 3_600_000),
        (timedelta(days=1), 86_400_000),
        (Fraction(1, 3), 334),
        (MyFloat(0.5), 500),
    ],
)
def test_a_lease_is_rounded_up_to_whole_milliseconds(lease, milliseconds):
    assert lease_ms(lease) == milliseconds
    assert type(lease_ms(lease)) is int


@pytest.mark.parametrize("lease", [3600.001, 3601, 30_000, 30_000_000, 1e12, Fraction(36_001, 10)])
def test_a_plain_number_beyond_an_hour_is_asked_about(lease):
    with pytest.raises(ValueError, match=r"lease_time=.* is more than an hour .*is it in seconds\?.*timedelta\("):
        lease_ms(lease)
    assert lease_ms(timedelta(seconds=float(lease))) == whole_ms(lease) == lease_ms(explicit(float(lease)))


def test_the_error_names_the_number_that_was_probably_meant():
    with pytest.raises(ValueError, match=r"lease_time=600000 is more than an hour \(166.7 hours\).* write 600;"):
        lease_ms(600_000)


def test_the_life_of_a_key_may_be_a_day():
    assert lease_ms(86_400, "ttl", DAY) == 86_400_000
    with pytest.raises(ValueError, match="ttl=86401 is more than a day"):
        lease_ms(86_401, "ttl", DAY)


@pytest.mark.parametrize(
    ("wait", "expected"),
    [
        (None, None),
        (0, 0.0),
        (0.0, 0.0),
        (-0.0, 0.0),
        (1, 1.0),
        (0.0001, 0.0001),
        (1_000_000, 1_000_000),  # More than a day is a wait, too.
        (1e300, 1e300),
        (timedelta(0), 0.0),
        (timedelta(minutes=1), 60.0),
        (Fraction(1, 2), 0.5),
    ],
)
def test_a_wait_may_be_nothing_or_without_end(wait, expected):
    assert wait_seconds(wait) == expected


@given(st.floats(min_value=1e-6, max_value=MAX_SECONDS))
def test_rounding_never_shortens_a_time(lease):
    milliseconds = whole_ms(lease)
    assert milliseconds >= 1
    assert milliseconds / 1000 >= lease * (1 - 1e-9) - 1e-9
    assert milliseconds / 1000 <= lease * (1 + 1e-9) + 0.001


@given(st.integers(min_value=1, max_value=10**15))
def test_whole_milliseconds_stay_what_they_are(milliseconds):
    if milliseconds < 10**12:  # beyond, a float of seconds cannot tell one from the next
        assert whole_ms(milliseconds / 1000) == milliseconds
    if milliseconds < 10**13:
        assert lease_ms(timedelta(milliseconds=milliseconds)) == milliseconds


@pytest.mark.parametrize("margin", [0.0, 0.05, 1, 1.2, 14.9, 1799.0, 40_000.0])
def test_the_shortest_lease_of_which_anything_is_certain(margin):
    least = least_lease_ms(margin)
    assert certain_for(least, margin) > 0 >= certain_for(least - 1, margin)


def test_a_lease_of_two_milliseconds_is_never_certain():
    assert certain_for(1) < 0
    assert certain_for(2) < 0
    assert certain_for(10) > 0
