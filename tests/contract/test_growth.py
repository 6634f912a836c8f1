"""Nothing that an acquire or a release does grows with what is held: counted in Python calls, not in time."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import pyredisson
from pyredisson.shared.marks import Mark
from tests.worlds.base import Actor, Remote, World
from tests.worlds.environments import sync_and_async

pytestmark = sync_and_async

LIBRARY = str(Path(pyredisson.__file__).parent)
GETS = {
    "lock": lambda client, name: client.get_lock(name),
    "fenced_lock": lambda client, name: client.get_fenced_lock(name),
    "read_lock": lambda client, name: client.get_read_write_lock(name).read_lock(),
}


class Counted:
    """How many functions of the library an actor calls meanwhile; other tasks of its event loop may come between."""

    calls = 0

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        self.calls += event == "call" and frame.f_code.co_filename.startswith(LIBRARY)

    def start(self) -> None:
        sys.setprofile(self._note)

    @staticmethod
    def stop() -> None:
        sys.setprofile(None)


def pair(actor: Actor, world: World, lock: Any) -> int:
    """How many functions of the library a lock() and an unlock() call."""
    counted = Counted()

    def block() -> None:
        counted.start()
        try:
            lock.lock()
            lock.unlock()
        finally:
            counted.stop()

    async def async_block() -> None:
        counted.start()
        try:
            await lock.lock()
            await lock.unlock()
        finally:
            counted.stop()

    actor.do(block if world.runtime == "threads" else async_block)
    return counted.calls


def least_pair(actor: Actor, world: World, client: Remote, kind: str) -> int:
    """The same, on names that were not used before: the least of several."""
    least_pair.used += 1
    names = [f"pair-{least_pair.used}-{number}" for number in range(20)]
    return min(pair(actor, world, GETS[kind](client.real, name)) for name in names)


least_pair.used = 0


def lock_all(actor: Actor, world: World, locks: list[Any]) -> None:
    def block() -> None:
        for lock in locks:
            lock.lock()

    async def async_block() -> None:
        for lock in locks:
            await lock.lock()

    actor.do(block if world.runtime == "threads" else async_block)


@pytest.mark.parametrize("kind", GETS)
def test_a_pair_takes_no_more_steps_with_3000_locks_held(world: World, kind: str) -> None:
    client, actor = world.client(), world.actor()
    get = GETS[kind]
    lock_all(actor, world, [get(client.real, f"few-{number}") for number in range(100)])
    few = least_pair(actor, world, client, kind)
    lock_all(actor, world, [get(client.real, f"many-{number}") for number in range(3000)])
    assert least_pair(actor, world, client, kind) <= 1.3 * few


def test_locks_of_a_closed_client_cost_nothing(world: World) -> None:
    client, other, actor = world.client(), world.client(), world.actor()
    none = least_pair(actor, world, client, "lock")
    lock_all(actor, world, [other.real.get_lock(f"closed-{number}") for number in range(1000)])
    other.close()
    assert least_pair(actor, world, client, "lock") <= 1.3 * none


def test_a_walk_hand_over_hand_costs_the_same_at_each_step_and_leaves_nothing(world: World) -> None:
    """Whoever walks a list acquires the next lock before the last one is released."""
    client, actor = world.client(), world.actor()

    def walk(steps: range) -> None:
        before = None
        for step in steps:
            lock = client.real.get_lock(f"step-{step}")
            lock.lock()
            if before is not None:
                before.unlock()
            before = lock
        before.unlock()

    async def async_walk(steps: range) -> None:
        before = None
        for step in steps:
            lock = client.real.get_lock(f"step-{step}")
            await lock.lock()
            if before is not None:
                await before.unlock()
            before = lock
        await before.unlock()

    walks = walk if world.runtime == "threads" else async_walk
    actor.do(walks, range(100))
    steps, marks = least_pair(actor, world, client, "lock"), marks_alive()
    actor.do(walks, range(100, 3000))
    assert least_pair(actor, world, client, "lock") <= 1.3 * steps
    assert marks_alive() <= marks + 20


def marks_alive() -> int:
    gc.collect()
    return sum(type(each) is Mark for each in gc.get_objects())
