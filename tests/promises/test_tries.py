"""The number of attempts, and the pauses between them, of those who wait for a spin lock or a token lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyredisson import ConstantBackoff, LockTimeoutError
from pyredisson.config import Backoff
from tests.worlds.base import Actor, Remote, World

PATIENCE = 60

each_kind = pytest.mark.parametrize("kind", ["spin_lock", "token_lock"])


class Counted:
    """A back-off that counts the pauses."""

    def __init__(self) -> None:
        self.pauses = 0

    def delays(self) -> Iterator[float]:
        while True:
            self.pauses += 1
            yield 0.001


@each_kind
def test_all_tries_used_up_are_as_a_time_that_has_passed(client: Remote, alice: Actor, bob: Actor, kind: str) -> None:
    mine, backoff = alice.get(client, kind), Counted()
    theirs = bob.get(client, kind, "orders", backoff, tries=3)
    with mine:
        assert theirs.try_lock(PATIENCE) is False
        assert backoff.pauses == 2, "of three attempts"
        assert theirs.acquire(timeout=PATIENCE) is False
        assert theirs.try_lock(0) is False
        with theirs.hold(skip=True) as lease:
            assert lease is None
        with pytest.raises(
            LockTimeoutError, match=r"^timed out after 60(\.0)? s or 3 attempts waiting for lock 'orders'"
        ):
            theirs.hold(PATIENCE).enter()
    assert theirs.try_lock(PATIENCE) is True
    theirs.unlock()


@each_kind
@pytest.mark.parametrize("tries", [1, 3])
def test_a_call_without_a_time_limit_raises(client: Remote, alice: Actor, bob: Actor, kind: str, tries: int) -> None:
    mine, backoff = alice.get(client, kind), Counted()
    theirs = bob.get(client, kind, "orders", backoff, tries=tries)
    attempts = "1 attempt" if tries == 1 else "3 attempts"
    calls: list[Callable[[], Any]] = [theirs.lock, theirs.acquire, theirs.enter, theirs.hold().enter]
    with mine:
        for number, call in enumerate(calls, 1):
            with pytest.raises(LockTimeoutError, match=f"^timed out after {attempts} waiting for lock") as raised:
                call()
            assert backoff.pauses == number * (tries - 1)
            assert raised.value.name == "orders"
            assert raised.value.holder is not None
            assert raised.value.holder.thread_id == alice.number
    theirs.lock()
    theirs.unlock()


@each_kind
def test_one_of_the_tries_succeeds(client: Remote, alice: Actor, bob: Actor, kind: str) -> None:
    mine, backoff = alice.get(client, kind), Counted()
    mine.lock()

    def pauses() -> Iterator[float]:
        for pause in backoff.delays():
            if backoff.pauses == 3:
                alice.start(mine.unlock)
            yield pause

    class Unlocking:
        delays = staticmethod(pauses)

    bob.get(client, kind, "orders", Unlocking(), tries=100).lock()
    assert backoff.pauses >= 3
    assert not mine.try_lock()


@each_kind
def test_in_a_multi_lock_only_the_time_counts(
    world: World, client: Remote, alice: Actor, bob: Actor, kind: str
) -> None:
    get, backoff = getattr(client.real, f"get_{kind}"), Counted()
    members = [get("orders", backoff, tries=1), get("stock", tries=1)]
    both = Remote(client.real.get_multi_lock(*members), bob)
    mine = alice.get(client, kind)
    mine.lock()
    waiting = bob.start(both.lock)
    world.until(lambda: backoff.pauses > 3)
    mine.unlock()
    waiting.result()
    both.unlock()


@pytest.mark.parametrize(
    ("backoff", "bounds"), [(ConstantBackoff(0.2, jitter=0.1), (0.1, 0.3)), (ConstantBackoff(0.2), (0.2, 0.2))]
)
def test_jitter_is_around_the_delay(backoff: Backoff, bounds: tuple[float, float]) -> None:
    given = [pause for pause, _ in zip(backoff.delays(), range(100), strict=False)]
    assert bounds[0] <= min(given) <= max(given) <= bounds[1]
    assert (len(set(given)) > 1) == (bounds[0] < bounds[1])


@pytest.mark.parametrize("jitter", [-0.1, 0.3, float("nan")])
def test_jitter_of_more_than_the_delay_is_refused(jitter: float) -> None:
    with pytest.raises(ValueError, match="jitter must be"):
        ConstantBackoff(0.2, jitter=jitter)
