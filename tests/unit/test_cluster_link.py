"""Which node of a cluster a request is brought to, and what becomes of it when that one does not take it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis
import redis.exceptions as rx

from pyredisson.core.driver import run
from pyredisson.core.failures import Failure, NotNow, NotSent, Unanswered
from pyredisson.errors import ClientClosedError
from pyredisson.net.cluster import ClusterLink
from pyredisson.net.resp import Packed, failure_of, pack, reply_error
from pyredisson.net.slots import Cluster, SlotCall, slot_of
from pyredisson.net.wire import Address
from pyredisson.threads.transport import ThreadMutex

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

    async def ask(self, command: tuple[str, ...], timeout: float) -> Any:
        if command == ("CLUSTER", "SLOTS"):
            self.world.log.append((self.address[0], "map"))
            if self.address in self.world.dead:
                raise NotSent(rx.ConnectionError("refused"))
            return [[0, 16383, [self.world.owner[0].encode(), self.world.owner[1], b"id"]]]
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
        self.answers: list[Any] = []
        self.log: list[tuple[str, str]] = []
        self.nodes: dict[Address, Node] = {}
        self.slept = 0.0
        self.asked: list[bytes] = []
        cluster = Cluster((A, B), redis.Connection, {}, None)
        self.link = ClusterLink(cluster, "AUTO", self._node, ThreadMutex, self._sleep)  # type: ignore[arg-type]

    def _node(self, address: Address) -> Node:
        return self.nodes.setdefault(address, Node(self, address))

    async def _sleep(self, seconds: float) -> None:
        self.slept += seconds

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


def test_the_map_is_asked_for_once(world: World) -> None:
    assert [world.eval(), world.eval(), world.eval()] == [1, 1, 1]
    assert world.log.count(("a", "map")) + world.log.count(("b", "map")) == 1
    assert world.evals() == [("a", "eval")] * 3


def _forgotten_meanwhile(world: World) -> Callable[[], Exception]:
    def forget() -> Exception:
        world.owner = B
        world.link.map.suspect(world.nodes[A])  # type: ignore[arg-type]
        run(world.link.map.learn(1.0))
        assert world.nodes[A].closed
        return NotSent(ClientClosedError("this client was closed meanwhile"))

    return forget


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_a_request_to_a_node_that_is_forgotten_meanwhile_goes_to_another(world: World, known: bool) -> None:
    if known:
        world.eval()
        world.log.clear()
    world.answers = [_forgotten_meanwhile(world)]
    assert world.eval() == 1
    assert world.evals() == [("a", "eval"), ("b", "eval")]


def test_requests_to_a_node_that_is_forgotten_meanwhile_are_not_those_of_a_closed_client(world: World) -> None:
    world.eval()
    world.answers = [_forgotten_meanwhile(world)]
    (answer,) = run(world.link.eval_all([SlotCall("lock_acquire", (NAME,), ())], 5.0))
    assert isinstance(answer, NotSent)
    assert str(answer.cause) == "a:1 has left the cluster"


def test_ask_is_followed_this_once(world: World) -> None:
    world.eval()
    world.answers = [f"ASK {slot_of(NAME)} b:2", 7]
    assert world.eval() == 7
    assert world.eval() == 1
    assert world.evals() == [("a", "eval"), ("a", "eval"), ("b", "asking"), ("a", "eval")]
    assert b"$4\r\nEVAL\r\n" in world.asked[0], "what is asked once must not be answered by NOSCRIPT"


def test_ask_is_followed_by_a_query(world: World) -> None:
    world.answers = [f"ASK {slot_of(NAME)} b:2", 7]
    assert run(world.link.ask(("EXISTS", NAME), 5.0)) == 7
    assert world.evals() == [("a", "ask"), ("b", "asking")]
    assert world.asked == [pack("EXISTS", NAME)]


def test_nodes_that_send_us_to_and_fro_are_not_followed_for_ever(world: World) -> None:
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
def test_what_passes_is_waited_for(world: World, error: str) -> None:
    world.answers = [error, error, 7]
    assert world.eval() == 7
    assert world.slept > 0


def test_what_does_not_pass_had_no_effect(world: World) -> None:
    world.answers = ["TRYAGAIN Multiple keys"] * 100
    with pytest.raises(NotNow, match="TRYAGAIN"):
        world.eval(0.005)


def test_an_unanswered_request_is_not_sent_again_from_here(world: World) -> None:
    world.answers = [Unanswered(rx.TimeoutError("no reply"))]
    with pytest.raises(Unanswered):
        world.eval()
    assert world.evals() == [("a", "eval")]
    assert world.eval() == 1
    assert world.log.count(("a", "map")) + world.log.count(("b", "map")) == 2, "who serves it now is asked first"


def calls(count: int) -> list[SlotCall]:
    return [SlotCall("lock_renew", (NAME,), (each,)) for each in range(count)]


def test_of_many_those_that_are_sent_elsewhere_go_there(world: World) -> None:
    world.eval()
    world.answers = [1, world.moves_to_b(), 2, 3]
    assert run(world.link.eval_all(calls(3), 5.0)) == [1, 3, 2]
    assert world.evals()[-1] == ("b", "eval")


def test_a_node_that_does_not_answer_one_hundred_is_not_asked_the_next(world: World) -> None:
    world.eval()
    world.log.clear()
    world.dead = {A}
    answers = run(world.link.eval_all(calls(1000), 5.0))
    assert all(isinstance(answer, NotSent) for answer in answers)
    assert len(world.evals()) == 100


def test_what_is_about_no_key_is_asked_of_any_master(world: World) -> None:
    assert run(world.link.ask(("INFO",), 5.0)) == 1
    world.link.map.owners = [None] * len(world.link.map.owners)
    with pytest.raises(NotSent, match="no node"):
        run(world.link.ask(("INFO",), 5.0))


def test_the_client_learns_that_a_node_refused_a_wait_queue(world: World) -> None:
    world.eval()
    refused: list[str] = []
    world.link.on_queue_refused = lambda: refused.append("queue")
    world.nodes[A].on_queue_refused()
    assert refused == ["queue"]
