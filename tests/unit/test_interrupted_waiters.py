"""A waiter that is interrupted as it joins its group, or leaves, at each point at which CPython looks for signals.

It keeps nothing, and keeps the others from nothing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import pytest

from pyredisson.config import Config
from pyredisson.core.client import ClientCore
from pyredisson.core.names import LockNames
from pyredisson.core.waiting.protocol import OBSERVE
from pyredisson.core.waiting.pubsub_wait import lock_message
from pyredisson.core.waiting.subscriptions import Subscriptions
from pyredisson.core.waiting.wait_groups import Waiter, WaitGroup
from pyredisson.core.waiting.wait_queue import QueuedGroup
from pyredisson.kinds.fair_lock import InQueue
from tests.real_servers.signal_points import Points
from tests.unit.fake import FakeRuntime
from tests.unit.test_fair_group import new_waiter as new_fair_waiter
from tests.unit.waiters import woken

pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="CPython 3.10 looks at other points")

NAMES = LockNames("orders")


def plain(client: ClientCore, owner: str) -> Waiter:
    return Waiter(WaitGroup(client.subscriptions, NAMES.channel, "lock", lock_message), client.runtime.ticket())


def queued(client: ClientCore, owner: str) -> Waiter:
    return Waiter(QueuedGroup(client.subscriptions, NAMES, "me", "lock", lock_message), client.runtime.ticket())


def fair(client: ClientCore, owner: str) -> Waiter:
    return new_fair_waiter(InQueue(client, NAMES, 3000), owner)


KINDS = {"plain": plain, "queued": queued, "fair": fair}


class Scene:
    """A client with waiters of one kind.

    Args:
        make: Makes a waiter of an owner.
        others: How many others wait.
    """

    def __init__(self, make: Callable[[ClientCore, str], Waiter], others: int) -> None:
        self.world = FakeRuntime()
        self.client = ClientCore(self.world, Config())
        self.subscriptions: Subscriptions = self.client.subscriptions
        self.waiter = make(self.client, "us")
        self.others = [make(self.client, f"other {number}") for number in range(others)]
        self.observes = False

    def join(self, waiter: Waiter) -> None:
        waiter.group.join(waiter, seen=None, retry_in=math.inf)

    def leave(self) -> None:
        """Leave as the loop does that waits."""
        try:
            self.waiter.group.leave(self.waiter, retry_in=math.inf, pass_on=True)
        except BaseException:
            self.waiter.group.leave(self.waiter, retry_in=math.inf, pass_on=True)
            raise

    def confirm(self) -> None:
        for channel in self.subscriptions.wanted():
            self.subscriptions.confirmed(channel)

    def sleep(self) -> None:
        """Let all attempt that have to, and sleep."""
        for each in (self.waiter, *self.others):
            while each.group.sleep_until(each, math.inf, self.world.now()) <= self.world.now():
                each.group.answered(each, math.inf)
            each.ticket.rings = 0  # type: ignore[attr-defined]

    def check(self, where: str) -> None:
        """Check that only the others wait, and that they do not wait in vain."""
        assert self.subscriptions.waiting(NAMES.channel) == len(self.others), where
        assert self.subscriptions.has_waiters(self.waiter.group.channel, self.waiter.group.label) == bool(self.others)
        self.confirm()
        self.subscriptions.take_idle(self.world.now() + 1)
        needed = {each.channel for each in self.others}
        if self.observes and self.others:
            needed |= {NAMES.waiting, NAMES.channel}
        assert {*self.subscriptions.wanted()} == needed, where

    def check_others(self, where: str) -> None:
        """Check that another one does what this one may have had to do."""
        first = self.others[0]
        assert woken(first), where
        assert first.group.sleep_until(first, math.inf, self.world.now()) <= self.world.now(), where


def at_each_point(make: Callable[[], Scene], call: Callable[[Scene], None], check: Callable[[Scene, str], None]) -> int:
    """Interrupt a call at each of its points, in a scene of its own. Returns how many there were."""
    at = 1
    while True:
        scene = make()
        points = Points(KeyboardInterrupt(), at)
        error = points.run(lambda scene=scene: call(scene))  # type: ignore[misc]
        if error is None:
            return at - 1
        assert isinstance(error, KeyboardInterrupt), points
        check(scene, str(points))
        at += 1


def join_and_leave(scene: Scene) -> None:
    try:
        scene.join(scene.waiter)
    finally:
        scene.leave()


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_one_that_is_interrupted_as_it_joins_has_left(kind: str, others: int) -> None:
    def make() -> Scene:
        scene = Scene(KINDS[kind], others)
        for each in scene.others:
            scene.join(each)
        return scene

    assert at_each_point(make, join_and_leave, Scene.check) > 10


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_is_interrupted_on_a_channel_that_lingers_does_not_keep_it(kind: str) -> None:
    def make() -> Scene:
        scene = Scene(KINDS[kind], 0)
        earlier = KINDS[kind](scene.client, "us")
        scene.join(earlier)
        scene.confirm()
        earlier.group.leave(earlier, retry_in=math.inf, pass_on=False)
        return scene

    assert at_each_point(make, join_and_leave, Scene.check) > 10


@pytest.mark.parametrize("others", [0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_one_that_is_interrupted_as_it_leaves_passes_on_what_it_has(kind: str, others: int) -> None:
    def make() -> Scene:
        scene = Scene(KINDS[kind], others)
        for each in (scene.waiter, *scene.others):
            scene.join(each)
        scene.confirm()
        if kind == "queued":
            scene.observes = True
            scene.subscriptions.received(scene.waiter.channel, OBSERVE.encode())
            scene.confirm()
        scene.sleep()
        scene.world.pass_time(1.0)  # Heartbeats are due.
        scene.waiter.group.sleep_until(scene.waiter, math.inf, scene.world.now())
        return scene

    def check(scene: Scene, where: str) -> None:
        if scene.others:
            scene.check_others(where)
        scene.check(where)

    assert at_each_point(make, Scene.leave, check) > 5
