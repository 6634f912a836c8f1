"""Spin locks and token locks are asked for again: after the pauses of a back-off, for a number of tries."""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import partial

import pytest

from pyredisson import ClientClosedError, ConstantBackoff, ExponentialBackoff, LockTimeoutError, events
from tests.worlds.base import Remote
from tests.worlds.environments import each_runtime
from tests.worlds.store import CHANNEL


@pytest.fixture
def kind() -> str:
    return "spin_lock"


@dataclass
class Noted:
    """A back-off that counts the pauses."""

    pauses: Iterable[float] = itertools.repeat(0.001)
    given: int = 0

    def delays(self) -> Iterator[float]:
        for pause in self.pauses:
            self.given += 1
            yield pause


def test_it_neither_publishes_nor_subscribes(world, bob, mine, theirs):
    said = world.messages(CHANNEL)
    listening = world.redis.subscribers(CHANNEL)
    mine.lock()
    waiting = bob.start(theirs.try_lock, 5)
    world.pass_time(0.02)
    assert world.redis.subscribers(CHANNEL) == listening
    mine.unlock()
    assert waiting.result() is True
    assert theirs.force_unlock() is True
    assert theirs.force_unlock() is False
    assert said.received() == []


def test_one_owner_may_use_both_kinds(world, client, alice):
    spin, plain = alice.get(client, "spin_lock"), alice.lock(client)
    said = world.messages(CHANNEL)
    plain.lock()
    spin.lock()
    assert plain.get_hold_count() == 2
    plain.unlock()
    spin.unlock()
    assert said.received() == []
    spin.lock()
    plain.unlock()
    world.until(lambda: said.received() == [b"0"])


@each_runtime
def test_out_of_time_is_out_of_time(world, client, alice, bob):
    """Even in the middle of a long pause."""
    alice.get(client, "spin_lock").lock()
    theirs = bob.get(client, "spin_lock", "orders", ConstantBackoff(60))
    before = world.now()
    assert theirs.try_lock(0.2) is False
    assert 0.2 <= world.now() - before < 9


@each_runtime
def test_the_longest_pause_is_repeated(world, client, alice, bob):
    backoff = Noted([0.001, 0.002, 0.01])
    mine = alice.get(client, "spin_lock")
    mine.lock()
    waiting = bob.start(bob.get(client, "spin_lock", "orders", backoff).lock)
    world.until(lambda: backoff.given == 3)
    world.pass_time(0.1)
    assert not waiting.done()
    mine.unlock()
    waiting.result(within=5)
    assert backoff.given == 3


@each_runtime
def test_a_back_off_without_any_pause_is_refused(client, alice, bob):
    alice.get(client, "spin_lock").lock()
    with pytest.raises(ValueError, match="no delay"):
        bob.get(client, "spin_lock", "orders", Noted([])).try_lock(0.2)


@each_runtime
@pytest.mark.parametrize(("kind", "backoff"), [("spin_lock", [ConstantBackoff(60)]), ("token_lock", [])])
def test_closing_the_client_wakes_waiters_that_pause(world, alice, bob, carol, kind, backoff):
    happened = []
    one, two = world.client(), world.client(listeners=(happened.append,))
    alice.get(one, kind).lock()
    waiting = bob.start(bob.get(two, kind, "orders", *backoff).lock)
    world.until(lambda: any(isinstance(event, events.WaitBegan) for event in happened))
    carol.do(two.close)
    assert isinstance(waiting.error(within=5), ClientClosedError)


def test_each_hold_of_a_token_lock_has_a_token_of_its_own(world, client, alice):
    mine = alice.get(client, "token_lock")
    seen = set()
    for _ in range(20):
        with mine:
            seen.add(world.redis.command("GET", "orders"))
    assert len(seen) == 20


def test_a_foreign_empty_token_is_a_lock_too(world, client, alice):
    world.redis.command("SET", "orders", "")
    assert not alice.get(client, "token_lock").try_lock()


# ---- tries -----------------------------------------------------------------------------------------------------------

PATIENCE = 60

each_kind = pytest.mark.parametrize("kind", ["spin_lock", "token_lock"])


@each_kind
def test_all_tries_used_up_are_as_a_time_that_has_passed(client, alice, bob, kind):
    mine, backoff = alice.get(client, kind), Noted()
    theirs = bob.get(client, kind, "orders", backoff, tries=3)
    with mine:
        assert theirs.try_lock(PATIENCE) is False
        assert backoff.given == 2, "of three attempts"
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
@pytest.mark.parametrize(("tries", "attempts"), [(1, "1 attempt"), (3, "3 attempts")])
def test_a_call_without_a_time_limit_raises(client, alice, bob, kind, tries, attempts):
    backoff = Noted()
    theirs = bob.get(client, kind, "orders", backoff, tries=tries)
    with alice.get(client, kind):
        for number, call in enumerate((theirs.lock, theirs.acquire, theirs.enter, theirs.hold().enter), 1):
            with pytest.raises(LockTimeoutError, match=f"^timed out after {attempts} waiting for lock") as raised:
                call()
            assert backoff.given == number * (tries - 1)
            assert raised.value.name == "orders"
            assert raised.value.holder.thread_id == alice.number


@each_kind
def test_in_a_multi_lock_only_the_time_counts(world, client, bob, kind, mine):
    get, backoff = getattr(client.real, f"get_{kind}"), Noted()
    members = [get("orders", backoff, tries=1), get("stock", tries=1)]
    both = Remote(client.real.get_multi_lock(*members), bob)
    mine.lock()
    waiting = bob.start(both.lock)
    world.until(lambda: backoff.given > 3)
    mine.unlock()
    waiting.result()
    both.unlock()


# ---- back-offs -------------------------------------------------------------------------------------------------------


def test_back_offs_check_themselves():
    wrong = (
        (lambda: ConstantBackoff(0), ValueError),
        (lambda: ConstantBackoff(float("inf")), ValueError),
        (lambda: ConstantBackoff("1"), TypeError),
        *((partial(ConstantBackoff, 0.2, jitter=jitter), ValueError) for jitter in (-0.1, 0.3, math.nan)),
        (lambda: ExponentialBackoff(initial=-1), ValueError),
        (lambda: ExponentialBackoff(maximum=0), ValueError),
        (lambda: ExponentialBackoff(multiplier=0.5), ValueError),
        (lambda: ExponentialBackoff(multiplier=timedelta(seconds=2)), TypeError),
        (lambda: ExponentialBackoff(initial=1, maximum=0.5), ValueError),
    )
    for make, error in wrong:
        with pytest.raises(error):
            make()


def test_the_pauses_of_back_offs():
    delays = ExponentialBackoff().delays()
    given = [next(delays) for _ in range(20)]
    assert given[0] == 0.001
    assert all(2 * before <= after or after == 0.128 for before, after in itertools.pairwise(given))
    assert given[-1] == 0.128
    assert list(zip(ConstantBackoff(0.5).delays(), range(3), strict=False)) == [(0.5, 0), (0.5, 1), (0.5, 2)]
    jittered = [pause for pause, _ in zip(ConstantBackoff(0.2, jitter=0.1).delays(), range(100), strict=False)]
    assert 0.1 <= min(jittered) < max(jittered) <= 0.3


def test_the_times_of_back_offs_may_be_timedeltas():
    tenth, half = timedelta(seconds=0.1), timedelta(seconds=0.5)
    assert ConstantBackoff(half, jitter=tenth) == ConstantBackoff(0.5, jitter=0.1)
    assert ExponentialBackoff(tenth, maximum=half) == ExponentialBackoff(0.1, maximum=0.5)
    assert next(iter(ConstantBackoff(half).delays())) == next(iter(ExponentialBackoff(half, half).delays())) == 0.5
