"""Which server a request goes to, on a cluster and behind sentinels, and what happens if that does not take it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.exceptions as rx

from pyredisson._core.failures import Failure, NotNow, NotSent, Unanswered
from pyredisson._core.runtime import PUBLISH, run
from pyredisson._net.cluster import ClusterLink
from pyredisson._net.topology import (
    AskRedirect,
    Cluster,
    Moved,
    Sentinels,
    SlotCall,
    read_master,
    read_redirection,
    read_slots,
    slot_of,
)
from pyredisson._net.wire import Address, Packed, failure_of, pack, prepare, reply_error
from pyredisson.errors import ClientClosedError

A: Address = ("a", 1)
B: Address = ("b", 2)
NAME = "x"


class Node:
    """A link to one node, which answers as it is told, and ``1`` when it is told nothing."""

    def __init__(self, world: World, address: Address) -> None:
        self.world = world
        self.address = address
        self.closed = False

    on_queue_refused: Callable[[], None]

    async def eval(self, request: Packed, timeout: float) -> Any:
        return self._answer("eval", timeout)

    async def call_asking(self, data: bytes, timeout: float) -> Any:
        self.world.asked.append(data)
        return self._answer("asking", timeout)

    async def eval_all(self, requests: list[Packed], timeout: float) -> list[Any]:
        answers: list[Any] = []
        for _ in requests:
            try:
                answers.append(self._answer("all", timeout))
            except Failure as failure:
                answers.append(failure)
        return answers

    async def execute(self, command: tuple[str, ...], timeout: float) -> Any:
        if command == ("CLUSTER", "SLOTS"):
            self.world.log.append((self.address[0], "map"))
            if self.address in self.world.dead:
                raise NotSent(rx.ConnectionError("refused"))
            owner = [self.world.owner[0].encode(), self.world.owner[1], b"id"]
            return self.world.slots.get(self.address, [[0, 16383, owner]])
        if command[0] == "PUBSUB":
            return [b"0", 0]
        return self._answer("ask", timeout)

    def _answer(self, what: str, timeout: float) -> Any:
        assert timeout > 0
        self.world.log.append((self.address[0], what))
        if self.address in self.world.dead:
            raise NotSent(rx.ConnectionError("refused"))
        answer = self.world.answers.pop(0) if self.world.answers else 1
        if callable(answer):
            answer = answer()
        if isinstance(answer, str):
            raise failure_of(reply_error(answer))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def reserve(self) -> None: ...

    def close(self) -> None:
        self.closed = True

    def abandon(self) -> None: ...


class World:
    def __init__(self) -> None:
        self.owner = A
        self.dead: set[Address] = set()
        self.slots: dict[Address, Any] = {}  # What nodes say that do not know the owner.
        self.answers: list[Any] = []
        self.log: list[tuple[str, str]] = []
        self.nodes: dict[Address, Node] = {}
        self.slept = 0.0
        self.asked: list[bytes] = []
        cluster = Cluster((A, B), redis.Connection, {}, None)
        self.link = ClusterLink(cluster, "AUTO", self._node, lambda: self)

    def _node(self, address: Address) -> Node:
        return self.nodes.setdefault(address, Node(self, address))

    async def wait(self, seconds: float) -> bool:
        self.slept += seconds
        return False

    def eval(self, timeout: float = 5.0) -> Any:
        return run(self.link.eval(SlotCall("lock_acquire", (NAME,), ()), timeout))

    def moves_to_b(self) -> Callable[[], str]:
        def moved() -> str:
            self.owner = B
            return f"MOVED {slot_of(NAME)} b:2"

        return moved

    def evals(self) -> list[tuple[str, str]]:
        return [each for each in self.log if each[1] != "map"]


@pytest.fixture
def world() -> World:
    return World()


def test_the_map_is_asked_for_once(world):
    assert [world.eval(), world.eval(), world.eval()] == [1, 1, 1]
    assert world.log.count(("a", "map")) + world.log.count(("b", "map")) == 1
    assert world.evals() == [("a", "eval")] * 3


def _forgotten_meanwhile(world: World) -> Callable[[], Exception]:
    def forget() -> Exception:
        world.owner = B
        world.link.map.suspect(world.nodes[A])
        run(world.link.map.learn(1.0))
        assert world.nodes[A].closed
        return NotSent(ClientClosedError("this client was closed meanwhile"))

    return forget


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_a_request_to_a_node_that_is_forgotten_meanwhile_goes_to_another(world, known):
    if known:
        world.eval()
        world.log.clear()
    world.answers = [_forgotten_meanwhile(world)]
    assert world.eval() == 1
    assert world.evals() == [("a", "eval"), ("b", "eval")]


def test_requests_to_a_node_that_is_forgotten_meanwhile_are_not_those_of_a_closed_client(world):
    world.eval()
    world.answers = [_forgotten_meanwhile(world)]
    (answer,) = run(world.link.eval_all([SlotCall("lock_acquire", (NAME,), ())], 5.0))
    assert isinstance(answer, NotSent)
    assert str(answer.cause) == "a:1 has left the cluster"


def test_ask_is_followed_this_once(world):
    world.eval()
    world.answers = [f"ASK {slot_of(NAME)} b:2", 7]
    assert world.eval() == 7
    assert world.eval() == 1
    assert world.evals() == [("a", "eval"), ("a", "eval"), ("b", "asking"), ("a", "eval")]
    assert b"$4\r\nEVAL\r\n" in world.asked[0], "what is asked once must not be answered by NOSCRIPT"


def test_ask_is_followed_by_a_query(world):
    world.answers = [f"ASK {slot_of(NAME)} b:2", 7]
    assert run(world.link.execute(("EXISTS", NAME), 5.0)) == 7
    assert world.evals() == [("a", "ask"), ("b", "asking")]
    assert world.asked == [pack("EXISTS", NAME)]


def test_nodes_that_send_us_to_and_fro_are_not_followed_for_ever(world):
    world.eval()
    world.answers = [f"MOVED {slot_of(NAME)} b:2", f"MOVED {slot_of(NAME)} a:1"] * 100
    with pytest.raises(NotSent, match="MOVED"):
        world.eval()
    assert len(world.evals()) < 60


@pytest.mark.parametrize(
    "error",
    [
        "TRYAGAIN Multiple keys",
        "CLUSTERDOWN Hash slot not served",
        "LOADING Redis is loading the dataset in memory",
        "MASTERDOWN Link with MASTER is down",
        "READONLY You can't write against a read only replica.",
    ],
)
def test_what_passes_is_waited_for(world, error):
    world.answers = [error, error, 7]
    assert world.eval() == 7
    assert world.slept > 0


def test_what_does_not_pass_had_no_effect(world):
    world.answers = ["TRYAGAIN Multiple keys"] * 100
    with pytest.raises(NotNow, match="TRYAGAIN"):
        world.eval(0.005)


def test_an_unanswered_request_is_not_sent_again_from_here(world):
    world.answers = [Unanswered(rx.TimeoutError("no reply"))]
    with pytest.raises(Unanswered):
        world.eval()
    assert world.evals() == [("a", "eval")]
    assert world.eval() == 1
    assert world.log.count(("a", "map")) + world.log.count(("b", "map")) == 2, "who serves it now is asked first"


def calls(count: int) -> list[SlotCall]:
    return [SlotCall("lock_renew", (NAME,), (each,)) for each in range(count)]


def test_of_many_those_that_are_sent_elsewhere_go_there(world):
    world.eval()
    world.answers = [1, world.moves_to_b(), 2, 3]
    assert run(world.link.eval_all(calls(3), 5.0)) == [1, 3, 2]
    assert world.evals()[-1] == ("b", "eval")


def test_a_node_that_does_not_answer_one_hundred_is_not_asked_the_next(world):
    world.eval()
    world.log.clear()
    world.dead = {A}
    answers = run(world.link.eval_all(calls(1000), 5.0))
    assert all(isinstance(answer, NotSent) for answer in answers)
    assert len(world.evals()) == 100


def test_what_is_about_no_key_is_asked_of_any_master(world):
    assert run(world.link.execute(("INFO",), 5.0)) == 1
    world.link.map.owners = [None] * len(world.link.map.owners)
    with pytest.raises(NotSent, match="no node"):
        run(world.link.execute(("INFO",), 5.0))


def test_the_client_learns_that_a_node_refused_a_wait_queue(world):
    world.eval()
    refused = []
    world.link.on_queue_refused = lambda: refused.append("queue")
    world.nodes[A].on_queue_refused()
    assert refused == ["queue"]


# ---- slots, and what nodes say of them -------------------------------------------------------------------------------

REPORTER = ("10.0.0.1", 7000)


def test_slots_are_those_of_the_cluster_specification():
    assert slot_of("123456789") == 0x31C3
    assert slot_of("{user1000}.following") == slot_of("{user1000}.followers") == slot_of("user1000")
    assert slot_of("foo{}{bar}") == slot_of("foo{}{bar}x"[:-1])
    assert slot_of("foo{{bar}}zap") == slot_of("{bar")
    assert slot_of("größe") == slot_of("{größe}:1")


def test_a_call_goes_to_the_slot_of_its_first_key_and_is_packed_when_the_word_is_known():
    call = SlotCall("lock_release", ("{a}x", "channel:{a}x"), ("0", 5, PUBLISH))
    assert call.slot == slot_of("a")
    assert call.packed is None
    packed = call.pack("SPUBLISH")
    assert packed.data == prepare("lock_release", ("{a}x", "channel:{a}x"), ("0", 5, "SPUBLISH")).data
    assert call.packed is packed
    assert call.pack("SPUBLISH") is packed
    looks_alike = SlotCall("token_acquire", ("a",), (5, "PUBLISH"))
    assert b"SPUBLISH" not in looks_alike.pack("SPUBLISH").data


def test_the_reply_of_cluster_slots():
    reply = [
        [0, 5460, [b"10.0.0.2", 7001, b"id", []], [b"10.0.0.3", 7002, b"id", []]],
        [5461, 16383, [None, 7000, b"id"]],
    ]
    assert read_slots(reply, REPORTER, None) == [(0, 5460, ("10.0.0.2", 7001)), (5461, 16383, ("10.0.0.1", 7000))]
    assert read_slots([], REPORTER, None) == []
    for host in (b"", b"?", None):  # A node that does not know its address means the one by which it was asked.
        assert read_slots([[0, 1, [host, 7005, b"id"]]], REPORTER, None) == [(0, 1, ("10.0.0.1", 7005))]


def test_addresses_are_made_reachable():
    def remap(address):
        return "gate", address[1] + 1000

    assert read_slots([[0, 1, [b"10.0.0.9", 7005, b"id"]]], REPORTER, remap) == [(0, 1, ("gate", 8005))]
    moved = read_redirection(rx.ResponseError("MOVED 7 10.0.0.9:7005"), REPORTER, remap)
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
def test_redirections(text, expected):
    found = read_redirection(rx.ResponseError(text), REPORTER, None)
    assert found == expected
    assert type(found) is type(expected)


# ---- replies of another type -----------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("what", NO_SLOTS)
def test_another_node_is_asked_for_the_slots_until_none_is_left(world, what):
    world.slots = {A: NO_SLOTS[what]}
    run(world.link.map.learn(1.0))
    assert not world.link.map.stale
    assert all(owner is not None for owner in world.link.map.owners)
    world.slots = dict.fromkeys((A, B), NO_SLOTS[what])
    world.link.map.suspect(world.nodes[B])
    with pytest.raises(NotSent) as error:
        run(world.link.map.learn(1.0))
    assert type(error.value.cause) is rx.ConnectionError
    assert str(error.value.cause).startswith("Protocol error: unexpected reply to CLUSTER SLOTS from ")
    assert world.link.map.stale


@pytest.mark.parametrize("what", NO_MASTER)
def test_another_sentinel_is_asked_and_then_first_until_none_is_left(what):
    first, second = ("10.0.0.1", 26379), ("10.0.0.2", 26379)
    asked = []
    silent = {first}

    async def query(settings, command, timeout):
        asked.append((settings["host"], settings["port"]))
        return NO_MASTER[what] if asked[-1] in silent else [b"10.0.0.9", b"6379"]

    sentinels = Sentinels([first, second], "service")
    assert run(sentinels.locate(query, 1.0)) == ("10.0.0.9", 6379)
    assert run(sentinels.locate(query, 1.0)) == ("10.0.0.9", 6379)
    assert asked == [first, second, second]
    silent.add(second)
    with pytest.raises(NotSent) as error:
        run(sentinels.locate(query, 1.0))
    cause = error.value.cause
    assert type(cause) is rx.ConnectionError
    assert str(cause).startswith("no sentinel knows the master of 'service' (10.0.0.")
    assert str(cause).count(":26379: Protocol error: unexpected reply") == 2
    assert len(str(cause)) < 500


def test_a_sentinel_that_does_not_know_the_service():
    assert read_master(None) is None
    assert read_master([]) is None
