"""Nothing that an acquire or a release does grows with what is held: counted in Python calls, not in time."""

import asyncio
import contextvars
import gc
import sys
import weakref
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import pytest

import pyredisson
from pyredisson.events import Renewed
from tests.forms import ended
from tests.promises.kinds import over
from tests.worlds.base import Actor, Remote
from tests.worlds.environments import asyncio_only, in_virtual_time, sync_and_async

T = TypeVar("T")

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


def perform(actor: Actor, calls: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Make calls in an actor. Thousands of requests: a busy machine needs more than ten seconds."""
    done: T = actor.start(calls).result(within=60)
    return done


def counted(actor: Actor, calls: Callable[[], Coroutine[Any, Any, object]]) -> int:
    """How many functions of the library these calls call."""
    count = Counted()

    async def counting() -> int:
        count.start()
        try:
            await calls()
        finally:
            count.stop()
        return count.calls

    return perform(actor, counting)


def pair(actor: Actor, lock: Any) -> int:
    """How many functions of the library a lock() and an unlock() call."""

    async def calls() -> None:
        await ended(lock.lock())
        await ended(lock.unlock())

    return counted(actor, calls)


def least_pair(actor: Actor, client: Remote, kind: str) -> int:
    """The same, on names that were not used before: the least of several."""
    least_pair.used += 1
    names = [f"pair-{least_pair.used}-{number}" for number in range(20)]
    return min(pair(actor, GETS[kind](client.real, name)) for name in names)


least_pair.used = 0


def lock_all(actor: Actor, locks: list[Any]) -> None:
    async def calls() -> None:
        for lock in locks:
            await ended(lock.lock())

    perform(actor, calls)


@sync_and_async
@pytest.mark.parametrize("kind", GETS)
def test_a_pair_takes_no_more_steps_with_3000_locks_held(client, alice, kind):
    get = GETS[kind]
    lock_all(alice, [get(client.real, f"few-{number}") for number in range(100)])
    few = least_pair(alice, client, kind)
    lock_all(alice, [get(client.real, f"many-{number}") for number in range(3000)])
    assert least_pair(alice, client, kind) <= 1.3 * few


@sync_and_async
def test_a_pair_takes_no_more_steps_with_320_permits_acquired(client, alice):
    semaphore = alice.get(client, "permit_expirable_semaphore", "seats", permits=400)

    async def pair_of_a_permit():
        permit = await ended(semaphore.real.acquire(lease_time=600))
        await ended(semaphore.real.release(permit))

    async def pair_of_several():
        permits = await ended(semaphore.real.acquire(lease_time=600, permits=3))
        await ended(semaphore.real.release(permits))

    def least_with(taken):
        semaphore.acquire(lease_time=600, permits=taken)
        return [min(counted(alice, pair) for _ in range(20)) for pair in (pair_of_a_permit, pair_of_several)]

    few = least_with(20)
    for before, after in zip(few, least_with(300), strict=True):
        assert after <= 1.3 * before


@in_virtual_time
@pytest.mark.parametrize(("presence", "most"), [(True, 11), (False, 9)])
def test_a_renewal_takes_no_more_steps_for_each_lock_with_4_times_the_locks(world, presence, most):
    client, actor = world.client(presence=presence), world.actor()
    held = 0

    def steps_a_lock(locks):
        nonlocal held
        for number in range(held, locks):
            actor.lock(client, f"renewed-{number}").lock()
        held = locks
        world.pass_time(20)
        count = Counted()
        count.start()
        try:
            world.pass_time(60)
        finally:
            count.stop()
        return count.calls / locks / 6

    few = steps_a_lock(400)
    many = steps_a_lock(1600)
    assert 5 < many <= 1.1 * few
    assert many <= most


@in_virtual_time
def test_members_that_were_waited_for_are_then_renewed_as_all_others(world, alice, bob):
    """While a multi-lock with a short lease waits, each of its members is renewed by a request of its own."""
    rounds = []

    def note(event):
        if isinstance(event, Renewed):
            rounds.append((event.locks, event.requests))

    client = world.client(listeners=(note,))
    names = [f"member-{number}" for number in range(5)]
    for name in names:
        alice.lock(client, name).lock()
    last = bob.lock(client, "zebra")
    last.lock()
    several = over(alice, [client.real.get_lock(name) for name in (*names, "zebra")])
    waits = alice.start(lambda: several.real.lock(lease_time=6))
    world.pass_time(25)
    last.unlock()
    waits.result()
    rounds.clear()
    world.pass_time(100)
    assert len(rounds) >= 9
    assert set(rounds) == {(len(names), 1)}


@asyncio_only
def test_a_client_keeps_nothing_of_the_contexts_of_its_callers(world):
    """Its timers and background tasks go on after the calls that began them; a context keeps all that is set in it."""

    class Held:
        """Stands for whatever a context refers to."""

    variable = contextvars.ContextVar("held")
    lock = world.client().real.get_lock("orders")

    async def pair():
        held = Held()
        variable.set(held)
        await lock.lock()
        await lock.unlock()
        return weakref.ref(held)

    async def in_a_task():
        return await asyncio.create_task(pair())

    kept = world.actor().do(in_a_task)
    gc.collect()
    assert kept() is None
