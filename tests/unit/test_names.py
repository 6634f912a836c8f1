"""What everything is called in Redis: Redisson's rules, and which names there may be."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from redis.crc import key_slot

from pyredisson._core.names import (
    LatchNames,
    LockNames,
    ReadWriteNames,
    SemaphoreNames,
    check_name,
    check_one_slot,
    prefixed,
)

OWNER = "8743c9c0-0795-4907-87fd-6c719a6b4586:7"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("orders", "x:{orders}"),
        ("{orders}", "x:{orders}"),
        ("a{b}c", "x:a{b}c"),
        ("{", "x:{"),
        ("a{", "x:a{"),
        ("{}", "x:{}"),
        ("}", "x:{}}"),
        ("a}b", "x:{a}b}"),
        ("日本", "x:{日本}"),
    ],
)
def test_the_prefix_rule(name, expected):
    assert prefixed("x", name) == expected


def test_the_message_names_no_surrogate():
    """It can be printed and logged."""
    with pytest.raises(ValueError, match="surrogates") as caught:
        check_name("ab\ud800")
    str(caught.value).encode()
    assert "at 2" in str(caught.value)


# ---- clusters --------------------------------------------------------------------------------------------------------


def keys_of(names: LockNames | SemaphoreNames | LatchNames) -> set[str]:
    """Everything that scripts are told or build themselves."""
    keys = {names.raw, names.channel}
    if isinstance(names, LockNames):
        keys |= {names.epoch(OWNER), names.token, names.queue, names.timeouts, names.channel_of(OWNER)}
    else:
        keys.add(names.done(OWNER))
    if isinstance(names, ReadWriteNames):
        keys.add(names.read_hold(OWNER, 3))
    if isinstance(names, SemaphoreNames):
        keys.add(names.taken)
    return keys


@given(
    st.text("ab{}", min_size=1, max_size=8), st.sampled_from([LockNames, ReadWriteNames, SemaphoreNames, LatchNames])
)
@example("aaabbab{", LatchNames)
def test_a_name_is_refused_on_a_cluster_if_its_keys_are_in_several_slots(name, kind):
    names = kind(name)
    try:
        check_one_slot(names)
    except ValueError:
        assert len({hashed(key) for key in keys_of(names)}) > 1  # Of two of these, the slots may be one by chance.
    else:
        assert len({key_slot(key.encode()) for key in keys_of(names)}) == 1


def hashed(key: str) -> str:
    """The part of a key that decides on its slot: what its first braces contain, if that is anything."""
    inner = key.partition("{")[2].partition("}")
    return inner[0] if inner[0] and inner[1] else key


@pytest.mark.parametrize(
    ("names", "suggested"),
    [
        (LockNames("a}b"), "{ab}:1"),
        (ReadWriteNames("{}a"), "{a}:1"),
        (SemaphoreNames("a}b"), "{ab}:1"),
        (LatchNames("{a}b"), "ab"),
    ],
)
def test_the_error_suggests_another_name(names, suggested):
    with pytest.raises(ValueError, match=rf"braces.*, as in '{re.escape(suggested)}'"):
        check_one_slot(names)
