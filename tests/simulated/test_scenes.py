"""Scenes that random histories hardly ever make: each needs a few things to happen in one order, at one moment."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest
import redis.exceptions as rx

from pyredisson._core.failures import Rejected
from pyredisson._core.runtime import Reply, Request
from pyredisson.config import Config, ConstantBackoff
from pyredisson.errors import OutcomeUnknownError, RedissonError
from pyredisson.events import Lost, RenewalFailed
from tests.simulated import stage as stages
from tests.simulated.engine.checkers import LockRules, leftovers
from tests.simulated.engine.faults import Faults
from tests.simulated.engine.world import Promise

WATCHDOG = 6.0
TIMEOUT = 1.2
CONFIG = Config(lock_watchdog_timeout=WATCHDOG, timeout=TIMEOUT, max_wait_without_check=2.0)

#: Everything is executed, and nothing is answered.
SILENT = Faults(lose_reply=1.0)


class Stage(stages.Stage):
    """A stage with one lock."""

    def __init__(self) -> None:
        super().__init__(CONFIG)
        self.lock = self.client.get_lock("orders")
        LockRules(self.world, [self.client, self.other])
        self.lost: list[Lost] = []
        self.client.core.listen(lambda event: self.lost.append(event) if isinstance(event, Lost) else None, bool)

    def let_pass(self, seconds: float) -> None:
        self.world.run(seconds=seconds)

    def count(self) -> int:
        entry = self.world.node.redis.dump().get(b"orders")
        if entry is None:
            return 0
        assert isinstance(entry.value, dict)
        return int(entry.value.get(f"{self.client.id}:{self.owner.number}".encode(), b"0"))

    def stays_held(self, otherwise: str) -> None:
        """For two seconds the owner holds it once; ``otherwise``: what has happened."""
        for _ in range(40):
            self.let_pass(0.05)
            assert self.count() == 1, otherwise

    def other_gets_it(self, within: float) -> bool:
        async def take() -> bool:
            lock = self.other.get_lock("orders")
            got = await lock.try_lock(within)
            if got:
                await lock.unlock()
            return got

        return bool(self.start(take(), client=self.other)())

    def end(self) -> None:
        self.let_pass(90)
        assert not leftovers(self.world, [self.client, self.other])


def an_overtaken_request_ends(stage: Stage) -> None:
    """The background gives an unanswered acquire back; its request is slow, and the owner comes again before it."""
    stage.world.faults = SILENT
    with pytest.raises(OutcomeUnknownError):
        stage.do(stage.lock.lock())
    stage.world.faults = Faults(delay=1.0, delay_seconds=0.35)
    stage.let_pass(0.055)
    stage.world.faults = Faults()
    stage.do(stage.lock.lock())
    stage.stays_held("the background released what its owner had taken since")
    assert not stage.other_gets_it(0)
    stage.do(stage.lock.unlock())
    stage.end()


def a_release_ends_with_its_lease(stage: Stage) -> None:
    """No copy of a release arrives within the lease; before the next one its owner has acquired the lock anew."""
    stage.do(stage.lock.lock(0.6))
    stage.world.faults = Faults(lose_request=1.0)
    finish = stage.start(stage.lock.unlock())
    stage.let_pass(0.65)
    stage.world.faults = Faults()
    stage.do(stage.lock.lock())
    stage.stays_held("the release took what its owner had acquired since")
    with suppress(RedissonError):  # Whether it came in time is not known.
        finish()
    stage.do(stage.lock.unlock())
    stage.end()


def a_refused_unlock_ends_the_renewal(stage: Stage) -> None:
    """The server refuses the unlock, for good: the lock is free when its lease is over, not never."""
    stage.do(stage.lock.lock())
    runtime = stage.client.runtime
    ask = runtime.eval

    async def refuse(request: Request, timeout: float) -> Reply:
        if request[0].name == "lock_release":
            raise Rejected(rx.NoPermissionError("this user has no permissions to publish"))
        return await ask(request, timeout)

    runtime.eval = refuse
    with pytest.raises(rx.NoPermissionError):
        stage.do(stage.lock.unlock())
    assert stage.other_gets_it(WATCHDOG + 1), "it is renewed although its owner gave it back"
    stage.end()


def a_request_under_way_is_its_owners_affair(stage: Stage) -> None:
    """The background wakes up to settle an acquire while its owner is repeating it."""
    stage.world.faults = SILENT
    with pytest.raises(OutcomeUnknownError):
        stage.do(stage.lock.lock())
    stage.world.faults = Faults(delay=1.0, delay_seconds=0.35)
    finish = stage.start(stage.lock.lock())
    stage.let_pass(0.3)
    stage.world.faults = Faults()
    finish()
    stage.stays_held("the background gave back what its owner was taking")
    stage.do(stage.lock.unlock())
    stage.end()


def what_is_held_is_not_forgotten(stage: Stage) -> None:
    """The table of ownerships is swept while something is held."""
    ownerships = stage.client.core.ownerships
    stage.do(stage.lock.lock())
    ownerships._sweep_at = len(ownerships)
    stage.do(stage.client.get_lock("another").lock())
    stage.do(stage.lock.lock())
    assert stage.count() == 2
    stage.do(stage.lock.unlock())
    stage.do(stage.lock.unlock())
    stage.do(stage.client.get_lock("another").unlock())
    stage.end()


def a_renewal_that_crosses_with_the_unlock_is_no_loss(stage: Stage) -> None:
    """It was sent before, executed after, and its answer is read before that of the unlock."""
    runtime = stage.client.runtime
    ask = runtime.eval
    released: Promise[bool] = Promise()
    renewals = []

    async def cross(request: Request, timeout: float) -> Reply:
        name = request[0].name
        if name == "lock_renew":
            renewals.append(timeout)
            await released
            return await ask(request, 1.0)
        reply = await ask(request, timeout)
        if name == "lock_release":
            released.settle(True)
            await stage.world.pause_of(runtime.process, 0.1)
        return reply

    runtime.eval = cross
    stage.do(stage.lock.lock())
    stage.world.run(until=lambda: bool(renewals), seconds=WATCHDOG)
    stage.do(stage.lock.unlock())
    stage.let_pass(1)
    assert stage.lost == []
    runtime.eval = ask
    stage.end()


def a_lease_that_is_over_when_the_answer_is_read_is_given_back(stage: Stage) -> None:
    """The process is paused between the request and its answer, for longer than the lease."""
    process = stage.client.runtime.process
    node = stage.world.node

    def pause(*ran: object) -> None:
        node.world.watchers.remove(pause)
        process.pause()
        stage.world.after(0.6, process.resume)

    stage.world.watchers.append(pause)
    assert not stage.do(stage.lock.try_lock(0, 0.3))
    assert stage.count() == 0
    assert stage.do(stage.lock.try_lock(0, 0.3))
    stage.do(stage.lock.unlock())
    stage.end()


def an_acquire_that_a_stopped_server_reads_late_holds_nothing(stage: Stage) -> None:
    """The server stands still with an acquire in its input; its client is cut off from it until the lease is over."""
    node = stage.world.node
    node.pause()
    with pytest.raises(OutcomeUnknownError):
        stage.do(stage.lock.try_lock(0, 3.0))
    stage.client.runtime.cut()
    stage.let_pass(5)
    stage.client.runtime.heal()
    node.resume()
    assert stage.other_gets_it(1), "a late copy has taken it for nobody"
    stage.end()


SCENES: dict[str, Callable[[Stage], None]] = {
    scene.__name__: scene
    for scene in (
        an_overtaken_request_ends,
        a_release_ends_with_its_lease,
        a_refused_unlock_ends_the_renewal,
        a_request_under_way_is_its_owners_affair,
        what_is_held_is_not_forgotten,
        a_renewal_that_crosses_with_the_unlock_is_no_loss,
        a_lease_that_is_over_when_the_answer_is_read_is_given_back,
        an_acquire_that_a_stopped_server_reads_late_holds_nothing,
    )
}


def play(name: str) -> None:
    """Play one scene."""
    with Stage() as made:
        SCENES[name](made)


@pytest.mark.parametrize("name", SCENES)
def test_scene(name):
    play(name)


# ---- the tries of a token lock ---------------------------------------------------------------------------------------


def test_an_attempt_without_an_answer_is_one_of_the_tries():
    with stages.Stage(CONFIG) as stage:
        stage.redis("SET", "orders", "foreign", "PX", 100_000)
        waiting = stage.start(stage.client.get_token_lock("orders", ConstantBackoff(1), tries=3).lock())
        stage.world.at(0.5, stage.client.runtime.cut)
        with pytest.raises((rx.RedisError, OutcomeUnknownError)):
            waiting()
        assert 2 < stage.world.now < 2 + 3 * CONFIG.timeout


def test_a_first_attempt_that_reaches_no_server_is_none_of_the_tries():
    with stages.Stage(replace(CONFIG, wait_while_unreachable=True)) as stage:
        stage.client.runtime.cut()
        waiting = stage.start(stage.client.get_token_lock("orders", ConstantBackoff(5), tries=2).lock())
        stage.world.at(4, stage.client.runtime.heal)
        assert waiting() is None


# ---- losses while the watchdog waits for the server ------------------------------------------------------------------


def test_a_loss_that_is_due_cuts_no_renewal_short():
    with Stage() as stage:
        failed: list[RenewalFailed] = []
        stage.client.core.listen(lambda event: failed.append(event) if isinstance(event, RenewalFailed) else None, bool)
        began = stage.world.now
        stage.do(stage.lock.lock())
        stage.world.faults = Faults(delay=1.0, delay_seconds=0.1)
        stage.let_pass(0.3)
        lease = WATCHDOG / 3 + 0.03 - (stage.world.now - began)
        block = stage.client.get_lock("another").hold(lease_time=lease)
        stage.do(block.__aenter__())
        stage.let_pass(WATCHDOG / 2)
        assert [event.name for event in stage.lost] == ["another"]
        assert not failed
        stage.do(stage.lock.unlock())
        stage.end()


def test_a_loss_is_reported_although_the_watchdog_waits_for_an_answer():
    with Stage() as stage:
        stage.do(stage.lock.lock())
        stage.let_pass(WATCHDOG / 3 - 0.1)
        block = stage.client.get_lock("another").hold(lease_time=0.3)
        stage.do(block.__aenter__())
        stage.world.faults = Faults(lose_request=1.0)
        stage.let_pass(0.32)
        assert [event.name for event in stage.lost] == ["another"]


def test_a_loss_is_reported_of_what_was_acquired_while_the_watchdog_waits():
    with Stage() as stage:
        stage.do(stage.lock.lock())
        stage.world.faults = Faults(lose_request=1.0)
        stage.let_pass(WATCHDOG / 3 + 0.01)
        stage.world.faults = Faults()
        block = stage.client.get_lock("another").hold(lease_time=0.1)
        stage.do(block.__aenter__())
        stage.let_pass(0.11)
        assert [event.name for event in stage.lost] == ["another"]
