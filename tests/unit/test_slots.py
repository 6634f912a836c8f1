"""Slots, and what nodes say of them."""

from __future__ import annotations

import pytest
import redis.exceptions as rx

from pyredisson.core.runtime import PUBLISH
from pyredisson.net.resp import prepare
from pyredisson.net.slots import AskRedirect, Moved, SlotCall, read_redirection, read_slots, slot_of

ASKED = ("10.0.0.1", 7000)


def test_slots_are_those_of_the_cluster_specification() -> None:
    assert slot_of("123456789") == 0x31C3
    assert slot_of("{user1000}.following") == slot_of("{user1000}.followers") == slot_of("user1000")
    assert slot_of("foo{}{bar}") == slot_of("foo{}{bar}x"[:-1])
    assert slot_of("foo{{bar}}zap") == slot_of("{bar")
    assert slot_of("größe") == slot_of("{größe}:1")


def test_a_call_goes_to_the_slot_of_its_first_key_and_is_packed_when_the_word_is_known() -> None:
    call = SlotCall("lock_release", ("{a}x", "channel:{a}x"), ("0", 5, PUBLISH))
    assert call.slot == slot_of("a")
    assert call.packed is None
    packed = call.pack("SPUBLISH")
    assert packed.data == prepare("lock_release", ("{a}x", "channel:{a}x"), ("0", 5, "SPUBLISH")).data
    assert call.packed is packed
    assert call.pack("SPUBLISH") is packed


def test_a_word_that_only_looks_like_the_one_for_publishing_is_left_alone() -> None:
    call = SlotCall("token_acquire", ("a",), (5, "PUBLISH"))
    assert b"SPUBLISH" not in call.pack("SPUBLISH").data


def test_the_reply_of_cluster_slots() -> None:
    reply = [
        [0, 5460, [b"10.0.0.2", 7001, b"id", []], [b"10.0.0.3", 7002, b"id", []]],
        [5461, 16383, [None, 7000, b"id"]],
    ]
    assert read_slots(reply, ASKED, None) == [(0, 5460, ("10.0.0.2", 7001)), (5461, 16383, ("10.0.0.1", 7000))]


@pytest.mark.parametrize("host", [b"", b"?", None])
def test_a_node_that_does_not_know_its_address_means_that_by_which_it_was_asked(host: bytes | None) -> None:
    assert read_slots([[0, 1, [host, 7005, b"id"]]], ASKED, None) == [(0, 1, ("10.0.0.1", 7005))]


def test_addresses_are_made_reachable() -> None:
    def remap(address: tuple[str, int]) -> tuple[str, int]:
        return "gate", address[1] + 1000

    assert read_slots([[0, 1, [b"10.0.0.9", 7005, b"id"]]], ASKED, remap) == [(0, 1, ("gate", 8005))]
    moved = read_redirection(rx.ResponseError("MOVED 7 10.0.0.9:7005"), ASKED, remap)
    assert moved == Moved(7, ("gate", 8005))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("MOVED 3999 127.0.0.1:6381", Moved(3999, ("127.0.0.1", 6381))),
        ("ASK 3999 127.0.0.1:6381", AskRedirect(3999, ("127.0.0.1", 6381))),
        ("MOVED 1 ::1:6381", Moved(1, ("::1", 6381))),
        ("MOVED 1 :6381", Moved(1, ("10.0.0.1", 6381))),
        ("ASK 1 node-3.example.com:6381", AskRedirect(1, ("node-3.example.com", 6381))),
        ("TRYAGAIN Multiple keys request during rehashing of slot", None),
        ("CLUSTERDOWN Hash slot not served", None),
        ("ERR MOVED is no command", None),
    ],
)
def test_redirections(text: str, expected: object) -> None:
    found = read_redirection(rx.ResponseError(text), ASKED, None)
    assert found == expected
    assert type(found) is type(expected)
