"""Coroutines of the core that are run side by side, without any server."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import pytest
import redis.exceptions as rx

from pyredisson._core.client import ClientCore
from pyredisson._core.failures import Failure, NotSent, Rejected, Unanswered
from pyredisson._core.hold import SingleHold
from pyredisson._core.ownership import Ownership
from pyredisson._core.requests import ACQUIRED, LockAcquired, Pending, Refused
from pyredisson._core.runtime import Runtime, ServerRequest, run, together
from pyredisson._kinds.lock import FencedLockCore, LockCore, NonReentrantLockCore
from pyredisson._kinds.token_lock import TokenLockCore
from pyredisson._quorum import hold
from pyredisson._quorum.hold import Member, acquire_part, release_part
from pyredisson.config import Config
from pyredisson.errors import LockError, LockLostError, OutcomeUnknownError
from tests.unit.fake import FakeOwner, FakeRuntime

RequestT = TypeVar("RequestT", bound=ServerRequest)


class Question(ServerRequest):
    """A request that is only a word."""

    def __await__(self) -> Generator[Question, None, Any]:
        yield self
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@dataclass
class Servers(FakeRuntime):
    """Servers that answer by a function, and note in which order they were asked."""

    says: Callable[[Any], Any] = lambda request: request
    waves: list[list[Any]] = field(default_factory=list)

    async def fan_out(self, requests: Iterable[RequestT]) -> list[RequestT]:
        self.waves.append(wave := [])
        made = []
        for each in requests:
            wave.append(each.prepared)
            made.append(each)
        for each in made:
            each.answer = self.says(each.prepared)
        return made

    def each(self, word: str) -> Question:
        return Question(cast("Runtime", self), word, 1.0)


async def spell(servers: Servers, *words: str) -> str:
    return " ".join([await servers.each(word) for word in words])


def test_the_results_are_in_order_however_long_each_takes():
    servers = Servers()
    words = [("a", "b", "c"), (), ("d",), ("e", "f")]
    spelt = run(together(cast("Runtime", servers), (spell(servers, *each) for each in words)))
    assert spelt == ["a b c", "", "d", "e f"]
    assert [wave for wave in servers.waves if wave] == [["a", "d", "e"], ["b", "f"], ["c"]]


def test_each_is_begun_when_the_request_of_the_one_before_was_sent():
    begun = []

    async def begin(word):
        begun.append(word)
        assert servers.waves == [begun[:-1]]
        return cast("str", await servers.each(word))

    servers = Servers()
    assert run(together(cast("Runtime", servers), map(begin, "abc"))) == ["a", "b", "c"]


def test_an_error_of_ours_is_the_result_of_the_one_that_failed():
    errors = {"b": NotSent(rx.ConnectionError("refused")), "c": LockError("not yours")}
    servers = Servers(says=lambda word: errors.get(word, word))
    found = run(together(cast("Runtime", servers), [spell(servers, word) for word in "abcd"]))
    assert found == ["a", errors["b"], errors["c"], "d"]


@pytest.mark.parametrize("where", ["sending", "beginning", "ending"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimeoutError, GeneratorExit])
def test_an_interruption_ends_all_of_them_and_is_raised(error, where):
    ended = []
    interruption = error()

    async def work(word):
        try:
            if (word, where) == ("b", "beginning"):
                raise interruption
            await servers.each(word)
            if (word, where) == ("b", "ending"):
                raise interruption
            await servers.each(word)
        finally:
            ended.append(word)

    def says(word):
        if word == "c" and where == "sending":
            raise interruption
        return word

    servers = Servers(says=says)
    with pytest.raises(error) as caught:
        run(together(cast("Runtime", servers), map(work, "abc")))
    assert caught.value is interruption
    assert sorted(ended) == ["a", "b"] if where == "beginning" else ["a", "b", "c"]


# ---- a member of a multi-lock ----------------------------------------------------------------------------------------


@dataclass
class Node(Servers):
    """A server that answers what it is told to, one after another."""

    answers: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.says = lambda request: self.answers.pop(0)


class Part:
    """One member, and what its owner holds of it."""

    def __init__(self, *answers: Any, core: type[LockCore] = LockCore) -> None:
        self.node = Node(answers=[*answers])
        self.client = ClientCore(cast("Runtime", self.node), Config())
        self.member = Member(core(self.client, "orders"), "node 1")
        self.ownership: Ownership = self.member.lock.ownership_of(FakeOwner(1))
        self.hold = SingleHold(30_000, 29.0, watchdog=True)

    def acquire(self) -> Any:
        asking = acquire_part(self.member, self.member.kind, self.ownership, self.hold)
        return run(together(cast("Runtime", self.node), [asking]))[0]

    def release(self) -> Any:
        asking = release_part(self.member, self.ownership, self.hold)
        return run(together(cast("Runtime", self.node), [asking]))[0]

    @property
    def asked(self) -> int:
        return sum(map(len, self.node.waves))


def test_a_member_that_knows_a_later_epoch_is_asked_once_more():
    part = Part([b"stale", b"7"], None)
    assert part.acquire() == ACQUIRED
    assert (part.asked, part.ownership.epoch) == (2, 8)


def test_a_member_that_always_knows_a_later_epoch_is_in_doubt():
    part = Part([b"stale", b"7"], [b"stale", b"9"])
    assert isinstance(part.acquire(), Unanswered)
    assert part.ownership.pending is Pending.ACQUIRE


def test_a_request_that_was_overtaken_is_not_sent_again():
    part = Part()

    def overtaken(request):
        part.ownership.begin_force()
        return [b"stale", b"7"]

    part.node.says = overtaken
    failure = part.acquire()
    assert isinstance(failure, Unanswered)
    assert isinstance(failure.cause, OutcomeUnknownError)
    assert part.asked == 1


@pytest.mark.parametrize(
    ("answer", "pending"),
    [
        (Unanswered(rx.TimeoutError("no reply")), Pending.ACQUIRE),
        (NotSent(rx.ConnectionError("refused")), None),
        (Rejected(rx.ResponseError("WRONGTYPE")), None),
        ([b"what?"], Pending.ACQUIRE),
    ],
)
def test_a_member_without_an_answer_of_use_is_asked_once(answer, pending):
    part = Part(answer)
    assert isinstance(part.acquire(), Failure)
    assert (part.asked, part.ownership.pending) == (1, pending)


def test_what_is_pending_is_repeated_and_no_error_says_that_it_had_no_effect():
    part = Part(Unanswered(rx.TimeoutError("no reply")), NotSent(rx.ConnectionError("refused")))
    part.acquire()
    assert isinstance(part.acquire(), Unanswered)
    assert part.ownership.pending is Pending.ACQUIRE


def test_a_release_that_is_pending_is_settled_before_the_next_acquire():
    part = Part(None, Unanswered(rx.TimeoutError("no reply")), 1, 5)
    assert part.acquire() == ACQUIRED
    assert isinstance(part.release(), Unanswered)
    assert part.ownership.pending is Pending.RELEASE
    assert part.acquire() == Refused(5)
    assert part.asked == 4


def test_a_release_that_is_pending_is_settled_by_the_next_release():
    part = Part(None, Unanswered(rx.TimeoutError("no reply")), None)
    part.acquire()
    part.release()
    assert part.release() is None
    assert not part.ownership.holds
    assert part.ownership.pending is None


def test_a_copy_that_is_read_after_the_lease_says_nothing_of_an_earlier_one():
    part = Part(None, Unanswered(rx.TimeoutError("no reply")))
    part.acquire()
    part.release()

    def late(request):
        part.node.time += 30

    part.node.says = late
    assert isinstance(part.release(), LockLostError)


NO_REPLY = Unanswered(rx.TimeoutError("no reply"))
REPLIES: list[Any] = [
    *(None, 0, 1, 5, -1, b"7", [b"7"], [b"token", b"7"], [b"lost"], [b"stale", b"7"], [b"what?"]),
    *(NO_REPLY, NotSent(rx.ConnectionError("refused")), Rejected(rx.ResponseError("WRONGTYPE"))),
]


CORES: list[type[LockCore]] = [LockCore, FencedLockCore, NonReentrantLockCore, TokenLockCore]


def is_acquired(part: Part, reply: Any) -> bool:
    try:
        return isinstance(part.member.kind.reads(reply), LockAcquired)
    except Failure:
        return False


def four_calls(core: type[LockCore], *replies: Any) -> list[Any]:
    """Acquire and release twice. Returns what came of it, and what the client knew each time."""
    part, found = Part(core=core), []
    acquired = next(each for each in REPLIES if is_acquired(part, each))
    part.node.answers = [acquired, *replies, acquired, 1, acquired, None, None, None]
    for ask in (part.acquire, part.release, part.acquire, part.release):
        own, outcome = part.ownership, ask()
        flight = own.in_flight
        found += [str(outcome), part.asked, own.epoch, own.generation, own.loss, own.deadline, part.hold.state]
        found += [len(own.holds), len(own.ended), flight.pending, flight.state, part.client.watchdog.ownerships()]
        part.hold = own.holds[-1] if own.holds else SingleHold(30_000, 29.0, watchdog=True)
    return [[each.name for each in seen] if isinstance(seen, list) else seen for seen in found]


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("first", REPLIES, ids=str)
def test_the_usual_case_does_what_the_general_one_does(core, first, monkeypatch):
    """What is spelt out for members, and the coroutines of a single lock, with the same replies."""
    then = [None, 1, [b"stale", b"7"], NO_REPLY]
    usual = [four_calls(core, first, second) for second in then]
    for name in ("begin_attempt", "begin_release"):
        monkeypatch.setattr(hold, name, lambda *args, **how: None)
    assert [four_calls(core, first, second) for second in then] == usual
