"""What everything is called in Redis: Redisson's rules, and which names there may be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from pyredisson.core.names import (
    MAX_NAME_BYTES,
    LatchNames,
    LockNames,
    ReadWriteNames,
    SemaphoreNames,
    check_name,
    check_one_slot,
    owner_field,
    prefixed,
    writer_field,
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
        ("a:b", "x:{a:b}"),
        (" ", "x:{ }"),
        ("é", "x:{é}"),
        ("日本", "x:{日本}"),
        ("\x00", "x:{\x00}"),
        ("full\uff5bwidth", "x:{full\uff5bwidth}"),
    ],
)
def test_the_prefix_rule(name: str, expected: str) -> None:
    assert prefixed("x", name) == expected


def test_the_keys_of_a_lock() -> None:
    names = LockNames("orders")
    assert names.raw == "orders"
    assert names.channel == "redisson_lock__channel:{orders}"
    assert names.epoch(OWNER) == f"pyredisson_epoch:{{orders}}:{OWNER}"


def test_the_keys_of_a_lock_with_a_hash_tag() -> None:
    names = LockNames("{shop}:orders")
    assert names.raw == "{shop}:orders"
    assert names.channel == "redisson_lock__channel:{shop}:orders"
    assert names.epoch(OWNER) == f"pyredisson_epoch:{{shop}}:orders:{OWNER}"


def test_the_keys_of_a_fair_lock() -> None:
    names = LockNames("orders")
    assert names.queue == "redisson_lock_queue:{orders}"
    assert names.timeouts == "redisson_lock_timeout:{orders}"
    assert names.alive == "pyredisson_lock_alive:{orders}"
    assert names.channel_of(OWNER) == f"redisson_lock__channel:{{orders}}:{OWNER}"
    assert LockNames("{shop}:orders").alive == "pyredisson_lock_alive:{shop}:orders"


def test_the_keys_of_a_read_write_lock() -> None:
    names = ReadWriteNames("orders")
    assert names.raw == "orders"
    assert names.channel == "redisson_rwlock:{orders}"
    assert names.read_hold(OWNER, 1) == f"{{orders}}:{OWNER}:rwlock_timeout:1"
    assert names.epoch(OWNER) == f"pyredisson_epoch:{{orders}}:{OWNER}"


def test_the_keys_of_a_read_write_lock_with_a_hash_tag() -> None:
    names = ReadWriteNames("{shop}orders")
    assert names.channel == "redisson_rwlock:{shop}orders"
    assert names.read_hold(OWNER, 12) == f"{{shop}}orders:{OWNER}:rwlock_timeout:12"


def test_the_field_of_an_owner() -> None:
    assert owner_field("8743c9c0-0795-4907-87fd-6c719a6b4586", 7) == OWNER
    assert writer_field("8743c9c0-0795-4907-87fd-6c719a6b4586", 7) == f"{OWNER}:write"


def slot_part(key: str) -> str:
    """What a cluster hashes of a key."""
    start = key.find("{")
    end = key.find("}", start + 1)
    return key[start + 1 : end] if start >= 0 and end > start + 1 else key


@given(st.text(st.characters(exclude_characters="{}", exclude_categories=["Cs"]), min_size=1))
def test_all_keys_of_a_plain_name_are_in_one_slot(name: str) -> None:
    names = LockNames(name)
    assert slot_part(names.raw) == slot_part(names.channel) == slot_part(names.epoch(OWNER)) == name


@pytest.mark.parametrize(
    "name", ["a", " ", "\n", "\x00", "{", "名前", "🔒", "a" * MAX_NAME_BYTES, "é" * (MAX_NAME_BYTES // 2)]
)
def test_a_name_may_be_anything_that_can_be_encoded(name: str) -> None:
    assert check_name(name) is name


@pytest.mark.parametrize(
    "name",
    ["", "a" * (MAX_NAME_BYTES + 1), "é" * (MAX_NAME_BYTES // 2 + 1), "🔒" * 16_385, "\ud800", "a\udfff"],
    ids=["empty", "long", "long in bytes", "long in bytes of four", "surrogate", "surrogate behind"],
)
def test_names_that_cannot_be(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        check_name(name)


@pytest.mark.parametrize("name", [None, 1, b"orders", ["orders"], True, ...], ids=repr)
def test_a_name_is_a_str(name: Any) -> None:
    with pytest.raises(TypeError, match="name"):
        check_name(name)


def test_the_message_names_no_surrogate() -> None:
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
    st.text("ab{}", min_size=1, max_size=8),
    st.sampled_from([LockNames, ReadWriteNames, SemaphoreNames, LatchNames]),
)
def test_a_name_is_refused_on_a_cluster_if_its_keys_are_in_several_slots(name: str, kind: Any) -> None:
    names = kind(name)
    slots = {key_slot(key.encode()) for key in keys_of(names)}
    try:
        check_one_slot(names)
    except ValueError:
        assert len(slots) > 1
    else:
        assert len(slots) == 1


@pytest.mark.parametrize("kind", [LockNames, ReadWriteNames, SemaphoreNames])
@pytest.mark.parametrize(("name", "good"), [("a", 1), ("{a}b", 1), ("a{b}c", 1), ("x}{y}", 1), ("a}b", 0), ("{}a", 0)])
def test_names_of_the_protocol_page(kind: Any, name: str, good: int) -> None:
    if good:
        check_one_slot(kind(name))
    else:
        with pytest.raises(ValueError, match=r"braces, as in '\{ab?\}:1'"):
            check_one_slot(kind(name))


def test_a_latch_must_have_no_braces() -> None:
    check_one_slot(LatchNames("orders"))
    with pytest.raises(ValueError, match="braces on a cluster, as in 'ab'"):
        check_one_slot(LatchNames("{a}b"))
