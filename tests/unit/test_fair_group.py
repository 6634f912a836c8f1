"""The waiters of a client in the queue of a fair lock: what one does for all, and what each does for itself."""

import math
from dataclasses import dataclass, field
from typing import Any

import pytest

from pyredisson._core.client import ClientCore
from pyredisson._core.names import LockNames
from pyredisson._core.requests import WITHOUT_END, Answer, InFlight, Refused
from pyredisson._core.runtime import run
from pyredisson._kinds.fair_lock import HEARTBEATS_APART, FairGroup, FairWaiter, InQueue, Patience
from pyredisson.config import Config
from tests.unit.fake import FakeRuntime
from tests.unit.waiters import has_to_attempt, leave, woken

NAMES = LockNames("orders")
#: Within so many seconds a heartbeat of each waiter is sent.
EVERY = 100.0


@dataclass
class FakeOwnership:
    """An owner that waits."""

    owner: str
    in_flight: InFlight = field(default_factory=lambda: InFlight(queued_ms=5000))
    kind_state: Patience = field(default_factory=Patience)


@pytest.fixture
def queue(world: FakeRuntime) -> InQueue:
    return InQueue(ClientCore(world, Config()), NAMES, int(3000 * EVERY))


def channel(owner: str) -> str:
    return NAMES.channel_of(owner)


def new_waiter(queue: InQueue, owner: str) -> FairWaiter:
    client = queue._client
    return FairWaiter(FairGroup(client, queue), client.runtime.ticket(), FakeOwnership(owner))


def join(queue: InQueue, owner: str, *, seen: int | None = None, retry_in: float = math.inf) -> FairWaiter:
    waiter = new_waiter(queue, owner)
    waiter.group.join(waiter, seen=seen, retry_in=retry_in)
    return waiter


async def no_attempt(*args: Any) -> Answer:
    raise AssertionError("it is no turn of this waiter")


def check(
    queue: InQueue, waiter: FairWaiter, *missing: str, again_ms: int = -1, next_owner: str = ""
) -> tuple[list[str], Answer]:
    """Let a waiter send heartbeats. Returns for whom it did, and what it learned."""
    world = queue._client.runtime
    assert isinstance(world, FakeRuntime)
    world.answers = [[again_ms, next_owner.encode(), *(each.encode() for each in missing)]]
    answer = run(waiter.group.check(waiter, no_attempt))
    _, (script, _, args) = world.asked.pop()
    assert script == "fair_look"
    return [*args[1::3]], answer


def joined(queue: InQueue, *owners: str) -> list[FairWaiter]:
    """They all wait, their channels are confirmed, and one has sent the heartbeats of all."""
    subscriptions, now = queue._client.subscriptions, queue._client.runtime.now()
    waiters = [join(queue, owner) for owner in owners]
    for owner in owners:
        subscriptions.confirmed(channel(owner))
    assert has_to_attempt(waiters[0], now)
    assert check(queue, waiters[0]) == ([*owners], WITHOUT_END)
    waiters[0].group.answered(waiters[0], math.inf)
    for waiter in waiters:
        assert not has_to_attempt(waiter, now)
        waiter.ticket.notifications = 0
    return waiters


# ---- notifications ---------------------------------------------------------------------------------------------------


def test_heartbeats_notify_the_next_owner_and_those_who_lost_their_place(queue, world):
    first, second, third, fourth = joined(queue, "a", "b", "c", "d")
    world.pass_time(EVERY)
    assert has_to_attempt(first, world.now())
    assert check(queue, first, "b", "gone", again_ms=3000, next_owner="d") == (["a", "b", "c", "d"], Refused(3000))
    assert [woken(waiter) for waiter in (first, second, third, fourth)] == [0, 1, 0, 1]
    assert has_to_attempt(second, world.now())
    assert has_to_attempt(fourth, world.now())


# ---- heartbeats ------------------------------------------------------------------------------------------------------


def test_the_first_sends_the_heartbeats_of_newcomers_and_in_time_of_all(queue, world):
    first, _ = joined(queue, "a", "b")
    world.pass_time(1.0)
    join(queue, "c")
    queue._client.subscriptions.confirmed(channel("c"))
    assert woken(first) == 1
    assert has_to_attempt(first, world.now())
    assert not first.was_notified
    assert check(queue, first) == (["a", "c"], WITHOUT_END)
    first.group.answered(first, math.inf)
    world.pass_time(EVERY - 1)
    assert has_to_attempt(first, world.now())
    assert check(queue, first) == (["a", "b", "c"], WITHOUT_END)
    first.group.answered(first, math.inf)
    assert check(queue, first) == (["a"], WITHOUT_END)


def test_where_one_has_lost_its_place_all_may_have(queue, world):
    first, _ = joined(queue, "a", "b")
    join(queue, "c", seen=0)
    assert check(queue, first, "c")[0] == ["a", "c"]
    assert has_to_attempt(first, world.now())
    assert check(queue, first)[0] == ["a", "b", "c"]
    first.group.answered(first, math.inf)
    assert not has_to_attempt(first, world.now())


def test_what_one_learns_for_itself_can_only_make_the_next_heartbeats_come_sooner(queue, world):
    first, second = joined(queue, "a", "b")
    now = world.now()
    first.group.answered(first, 5.0)  # By heartbeats.
    assert first.group.sleep_until(first, math.inf, now) == now + 5.0
    join(queue, "c", seen=0, retry_in=8.0)
    assert woken(first) == 0
    assert first.group.sleep_until(first, math.inf, now) == now + 5.0
    join(queue, "d", seen=0, retry_in=3.0)
    assert woken(first) == 1, "it has to set its alarm anew"
    assert first.group.sleep_until(first, math.inf, now) == now + 3.0
    queue._client.subscriptions.received(channel("b"), b"0")
    assert has_to_attempt(second, now)
    second.group.answered(second, 9.0)  # By an attempt of its own.
    assert first.group.sleep_until(first, math.inf, now) == now + 3.0
    leave(first, retry_in=30.0)
    assert second.group.sleep_until(second, math.inf, now) == now + 3.0
    world.pass_time(3.0)
    assert has_to_attempt(second, world.now())
    second.group.answered(second, 9.0)  # By heartbeats.
    assert second.group.sleep_until(second, math.inf, world.now()) == world.now() + 9.0


def test_confirmations_in_a_burst_cause_heartbeats_immediately_and_once_more(queue, world):
    [first] = joined(queue, "a")
    for owner in "bcde":
        join(queue, owner)
        queue._client.subscriptions.confirmed(channel(owner))
    assert not has_to_attempt(first, world.now())
    world.pass_time(HEARTBEATS_APART)
    assert has_to_attempt(first, world.now())
    first.group.answered(first, math.inf)
    assert not has_to_attempt(first, world.now())


@pytest.mark.parametrize("notified", [False, True], ids=["heartbeats", "an attempt of its own"])
def test_a_waiter_without_an_answer_asks_again(queue, world, notified):
    first, second = joined(queue, "a", "b")
    if notified:
        queue._client.subscriptions.received(channel("b"), b"0")
    else:
        world.pass_time(EVERY)
    waiter, other = (second, first) if notified else (first, second)
    assert has_to_attempt(waiter, world.now())
    waiter.group.failed(waiter, ConnectionError("down"), 0.5)
    assert waiter.group.sleep_until(waiter, math.inf, world.now()) == world.now() + 0.5
    world.pass_time(0.5)
    assert has_to_attempt(waiter, world.now())
    assert waiter.was_notified is notified
    assert not has_to_attempt(other, world.now())


# ---- leaving ---------------------------------------------------------------------------------------------------------


def test_a_waiter_that_leaves_passes_on_the_heartbeats_that_it_may_have_begun(queue, world):
    first, second, third = joined(queue, "a", "b", "c")
    leave(first, pass_on=True)
    assert [woken(second), woken(third)] == [1, 0]
    assert has_to_attempt(second, world.now())
    assert not second.was_notified, "it sends heartbeats, and attempts nothing"
    assert world.unsubscriptions == [channel("a")]


def test_a_refused_subscription_ends_the_wait_of_all(queue):
    subscriptions = queue._client.subscriptions
    waiters = joined(queue, "a", "b")
    error = PermissionError("NOPERM")
    subscriptions.refuse(error, channels=[channel("b")])
    assert [woken(waiter) for waiter in waiters] == [1, 1]
    assert waiters[0].group.error is error
    newcomer = join(queue, "b")
    assert newcomer.group.error is None
    for waiter in waiters:
        leave(waiter, pass_on=True)
    assert subscriptions.waiting(NAMES.channel) == 1
    subscriptions.confirmed(channel("b"))
    subscriptions.received(channel("b"), b"0")
    assert has_to_attempt(newcomer)
