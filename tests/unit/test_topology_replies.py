"""Replies of sentinels and of cluster nodes: one of another type is one clear error, and the next is asked."""

from __future__ import annotations

from typing import Any

import pytest
import redis.exceptions as rx

from pyredisson.core.driver import run
from pyredisson.core.failures import NotSent
from pyredisson.net.cluster_map import ClusterMap
from pyredisson.net.sentinel import Sentinels, read_master
from pyredisson.net.slots import Cluster, read_slots

ASKED = ("10.0.0.1", 7000)
FIRST, SECOND = ("10.0.0.1", 26379), ("10.0.0.2", 26379)
MASTER = [b"10.0.0.9", b"6379"]

NO_MASTER: dict[str, Any] = {
    "one element": [b"a"],
    "three elements": [b"a", b"6379", b"x"],
    "no host": [None, b"6379"],
    "a number": 1,
    "zero": 0,
    "a word": b"OK",
    "a long word": b"x" * 1000,
    "a map": {b"a": b"6379"},
    "a truth": False,
}

NODE = [b"10.0.0.2", 7001, b"id"]
NO_SLOTS: dict[str, Any] = {
    "nothing": None,
    "a number": 1,
    "a word": b"OK",
    "a map": {0: 1},
    "ranges that are numbers": [0, 1],
    "ranges that are words": [b"abc"],
    "ranges without a master": [[0, 1]],
    "a master that is a word": [[0, 1, b"ab"]],
    "a master of one element": [[0, 1, [b"a"]]],
    "slots that are words": [[b"a", b"b", NODE]],
    "a port that is a word": [[0, 1, [b"a", b"7000", b"id"]]],
}


@pytest.mark.parametrize("reply", [None, []])
def test_a_sentinel_that_does_not_know_the_service(reply: object) -> None:
    assert read_master(reply) is None


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
    assert len(str(cause)) < 500


def sentinels_of_service() -> Sentinels:
    return Sentinels([FIRST, SECOND], "service")


def test_slots_that_are_served_by_several_masters_or_none() -> None:
    assert read_slots([], ASKED, None) == []
    assert read_slots([[7, 7, NODE], [0, 6, NODE]], ASKED, None) == [
        (7, 7, ("10.0.0.2", 7001)),
        (0, 6, ("10.0.0.2", 7001)),
    ]


class AnsweringNode:
    """A node with a given reply to ``CLUSTER SLOTS``."""

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
        lambda address: nodes.setdefault(address, AnsweringNode(replies.get(address))),
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
