"""Addresses in the replies of sentinels and of cluster nodes: what cannot be one is one clear error."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
import redis.exceptions as rx

from pyredisson.core.failures import NotSent
from pyredisson.core.running import run
from pyredisson.net.addresses import read_address, unexpected_reply
from pyredisson.net.cluster_map import ClusterMap
from pyredisson.net.sentinel import Sentinels, parse_sentinel_url, read_master
from pyredisson.net.slots import Cluster, read_redirection, read_slots

ASKED = ("10.0.0.1", 7000)
FIRST, SECOND = ("10.0.0.1", 26379), ("10.0.0.2", 26379)
MASTER = [b"10.0.0.9", b"6379"]

#: Hosts and ports that are none.
NO_ADDRESS: dict[str, tuple[Any, Any]] = {
    "a host that is not UTF-8": (b"\xff\xfe", 7000),
    "a host with a null": (b"a\0b", 7000),
    "a host with a control character": (b"\x1b[2J", 7000),
    "a host with an empty label": (b"a..b", 7000),
    "a host with a label that is too long": (b"a" * 64, 7000),
    "a host that is a number": (1, 7000),
    "a host that is an array": ([b"a"], 7000),
    "a port that is a word": (b"a", b"abc"),
    "a port that is negative": (b"a", b"-1"),
    "a port that is a negative number": (b"a", -1),
    "the port 0": (b"a", 0),
    "a port that is too large": (b"a", b"99999"),
    "a port that is a number and too large": (b"a", 99999),
    "a port of many digits": (b"a", b"9" * 5000),
    "a port of other digits": (b"a", "\u0661\u0662"),
    "no port": (b"a", None),
    "a port that is a fraction": (b"a", 1.5),
    "a port that is an array": (b"a", [7000]),
}

NO_MASTER = {
    **{name: list(pair) for name, pair in NO_ADDRESS.items()},
    "an empty host": [b"", b"6379"],
    "no host": [None, b"6379"],
    "one element": [b"a"],
    "three elements": [b"a", b"6379", b"x"],
    "a number": 1,
    "zero": 0,
    "a word": b"OK",
    "a map": {b"a": b"6379"},
    "a truth": False,
}

NODE = [b"10.0.0.2", 7001, b"id"]
NO_SLOTS: dict[str, Any] = {
    **{name: [[0, 1, [*pair, b"id"]]] for name, pair in NO_ADDRESS.items()},
    "nothing": None,
    "a number": 1,
    "a word": b"OK",
    "a map": {0: 1},
    "ranges that are numbers": [0, 1],
    "ranges that are words": [b"abc"],
    "ranges without a master": [[0, 1]],
    "ranges of one element": [[0]],
    "a master that is a number": [[0, 1, 7]],
    "a master that is a word": [[0, 1, b"ab"]],
    "a master of one element": [[0, 1, [b"a"]]],
    "slots that are words": [[b"a", b"b", NODE]],
    "slots that are missing": [[None, 1, NODE]],
    "a negative slot": [[-1, 5, NODE]],
    "a slot that is too large": [[0, 16384, NODE]],
    "a trillion of slots": [[0, 10**12, NODE]],
    "a range that ends before it begins": [[5, 4, NODE]],
    "slots that are served twice": [[0, 16383, NODE]] * 2,
}


@pytest.mark.parametrize("what", NO_ADDRESS)
def test_what_is_no_address(what: str) -> None:
    assert read_address(*NO_ADDRESS[what]) is None


@pytest.mark.parametrize(
    ("host", "port", "address"),
    [
        (b"10.0.0.1", b"7000", ("10.0.0.1", 7000)),
        (b"10.0.0.1", 7000, ("10.0.0.1", 7000)),
        ("node_1.example", "1", ("node_1.example", 1)),
        (b"fe80::1%eth0", 65535, ("fe80::1%eth0", 65535)),
        ("größe.example".encode(), 7000, ("größe.example", 7000)),
    ],
)
def test_what_is_an_address(host: Any, port: Any, address: tuple[str, int]) -> None:
    assert read_address(host, port) == address


@pytest.mark.parametrize("reply", [None, []])
def test_a_sentinel_that_does_not_know_the_service(reply: object) -> None:
    assert read_master(reply) is None


@pytest.mark.parametrize("what", NO_MASTER)
def test_a_sentinel_that_names_no_master_is_one_clear_error(what: str) -> None:
    with pytest.raises(rx.InvalidResponse, match=r"unexpected reply to SENTINEL GET-MASTER-ADDR-BY-NAME: .* at this"):
        read_master(NO_MASTER[what])


@pytest.mark.parametrize("what", NO_MASTER)
def test_the_next_sentinel_is_asked_and_then_first(what: str) -> None:
    asked: list[tuple[str, int]] = []

    async def ask(settings: dict[str, Any], command: tuple[str, ...], timeout: float) -> Any:
        asked.append((settings["host"], settings["port"]))
        return NO_MASTER[what] if asked[-1] == FIRST else MASTER

    sentinels = sentinels_of_service()
    assert run(sentinels.locate(ask, 1.0)) == ("10.0.0.9", 6379)
    assert run(sentinels.locate(ask, 1.0)) == ("10.0.0.9", 6379)
    assert asked == [FIRST, SECOND, SECOND]


@pytest.mark.parametrize("what", NO_MASTER)
def test_sentinels_that_all_name_no_master_are_named_in_the_error(what: str) -> None:
    async def ask(settings: dict[str, Any], command: tuple[str, ...], timeout: float) -> Any:
        return NO_MASTER[what]

    with pytest.raises(NotSent) as error:
        run(sentinels_of_service().locate(ask, 1.0))
    cause = error.value.cause
    assert type(cause) is rx.ConnectionError
    assert str(cause).startswith(
        "no sentinel knows the master of 'service' (10.0.0.1:26379: Protocol error: unexpected"
    )
    assert "10.0.0.2:26379: Protocol error: unexpected reply" in str(cause)


def sentinels_of_service() -> Sentinels:
    url = parse_sentinel_url("redis+sentinel://10.0.0.1:26379,10.0.0.2:26379/service")
    assert url is not None
    return Sentinels(url)


@pytest.mark.parametrize("what", NO_SLOTS)
def test_a_node_that_reports_no_slots_is_one_clear_error(what: str) -> None:
    with pytest.raises(
        rx.InvalidResponse, match=r"unexpected reply to CLUSTER SLOTS from 10\.0\.0\.1:7000: .* at this"
    ):
        read_slots(NO_SLOTS[what], ASKED, None)


def test_slots_that_are_served_by_several_masters_or_none() -> None:
    assert read_slots([], ASKED, None) == []
    assert read_slots([[7, 7, NODE], [0, 6, NODE]], ASKED, None) == [
        (7, 7, ("10.0.0.2", 7001)),
        (0, 6, ("10.0.0.2", 7001)),
    ]


class LyingNode:
    """A node that reports slots as it likes."""

    def __init__(self, reply: Any) -> None:
        self.reply = reply
        self.inspect = None

    async def ask(self, command: tuple[str, ...], timeout: float) -> Any:
        return self.reply if command[0] == "CLUSTER" else []

    def close(self) -> None:
        pass


class FreeMutex:
    async def enter(self, seconds: float) -> bool:
        return True

    def leave(self) -> None:
        pass


def map_of(replies: dict[tuple[str, int], Any]) -> ClusterMap:
    cluster = Cluster(tuple(replies), object, {}, None)
    nodes: dict[tuple[str, int], Any] = {}
    return ClusterMap(
        cluster,
        "AUTO",
        lambda address: nodes.setdefault(address, LyingNode(replies.get(address))),
        FreeMutex,
        lambda: None,
        lambda: 0.0,
    )


@pytest.mark.parametrize("what", NO_SLOTS)
def test_the_next_node_is_asked_for_the_slots(what: str) -> None:
    slots = map_of({("10.0.0.1", 7000): NO_SLOTS[what], ("10.0.0.2", 7001): [[0, 16383, NODE]]})
    run(slots.learn(1.0))
    assert not slots.stale
    assert all(owner is not None for owner in slots.owners)


@pytest.mark.parametrize("what", NO_SLOTS)
def test_nodes_that_all_report_no_slots_are_a_connection_error(what: str) -> None:
    slots = map_of({("10.0.0.1", 7000): NO_SLOTS[what]})
    with pytest.raises(NotSent) as error:
        run(slots.learn(1.0))
    assert type(error.value.cause) is rx.ConnectionError
    assert str(error.value.cause).startswith("Protocol error: unexpected reply to CLUSTER SLOTS from 10.0.0.1:7000")
    assert slots.stale


@pytest.mark.parametrize(
    "text",
    [
        "MOVED",
        "MOVED 7",
        "MOVED abc 10.0.0.9:7005",
        "MOVED -1 10.0.0.9:7005",
        "MOVED 16384 10.0.0.9:7005",
        "MOVED 7 10.0.0.9",
        "MOVED 7 10.0.0.9:abc",
        "MOVED 7 10.0.0.9:99999",
        "MOVED 7 a..b:7005",
        "ASK " + "9" * 5000 + " 10.0.0.9:7005",
    ],
)
def test_a_redirection_that_leads_nowhere_is_the_error_that_the_node_answered(text: str) -> None:
    assert read_redirection(rx.ResponseError(text), ASKED, None) is None


def test_the_error_for_a_large_reply_is_small() -> None:
    reply = [b"x" * 10_000_000, [b"y" * 10_000_000] * 1000]
    tracemalloc.start()
    try:
        error = unexpected_reply("TIME", reply, "a server")
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()
    assert len(str(error)) < 200
