"""Durations that users type, and those that they read."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyredisson._core.deadline import lease_ms
from pyredisson._tools.common import duration_text, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5", 5.0),
        ("0", 0.0),
        (".5", 0.5),
        ("5s", 5.0),
        ("10m", 600.0),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        ("1.5h", 5400.0),
        ("1.1m", 66.0),
        ("2d", 172_800.0),
        ("250ms", 0.25),
        ("1m1s1ms", 61.001),
        (" 7s ", 7.0),
        ("3600", 3600.0),
        ("30000ms", 30.0),
        ("5000s", 5000.0),
    ],
)
def test_a_duration_is_read(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", " ", "s", "5S", "5x", "1m1m", "1m1h", "-1", "-1s", "nan", "inf", "1e3", "soon", "٣", "5 s 3", "1_0"]
)
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="is not a duration, such as 5s, 10m or 1h30m"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["3601", "3600.5", "30000"])
def test_a_plain_number_may_be_meant_in_milliseconds(text):
    with pytest.raises(ValueError, match=rf"more than an hour in seconds: write {text}s, or {text}ms$"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["2h", "61m", "5000s", "3d"])
def test_the_library_accepts_a_time_with_a_unit_as_a_lease(text):
    assert lease_ms(parse_duration(text)) == round(1000 * parse_duration(text))


@pytest.mark.parametrize("text", ["9" * 400, "9" * 400 + "d", "40000d"])
def test_a_duration_of_ages_is_refused(text):
    with pytest.raises(ValueError, match="longer than 100 years"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1.0, "0 s"),
        (0.0, "0 s"),
        (0.25, "0.25 s"),
        (9.96, "10 s"),
        (41.2, "41 s"),
        (59.7, "1 m"),
        (362.0, "6 m 2 s"),
        (7322.0, "2 h 2 m"),
        (86_399.0, "1 d"),
        (273_600.0, "3 d 4 h"),
        (math.inf, "forever"),
    ],
)
def test_a_duration_is_shown_in_two_units_at_most(seconds, text):
    assert duration_text(seconds) == text


@given(st.floats(0.001, 1e9))
def test_what_is_shown_is_read_again_within_a_tenth(seconds):
    assert math.isclose(parse_duration(duration_text(seconds).replace(" ", "")), seconds, rel_tol=0.1)
