"""A generator that is given up in the middle of its block releases what it holds, as any block does that is left."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from tests.command_line import output_of, run_python
from tests.promises.kinds import LOCKS, each_of, lock_of, make
from tests.worlds.base import PATIENCE, Actor, World
from tests.worlds.environments import asyncio_only, each_runtime, threads_only

pytestmark = asyncio_only

#: Well under the lease of 30 s: it was released, and did not just run out.
SOON = 5.0
#: The permit of an expirable semaphore has an id, which a plain block would not tell.
OF_PERMITS = [("semaphore", "with"), ("semaphore", "hold"), ("permit_expirable_semaphore", "hold")]
BLOCKS = [*((kind, form) for kind in (*LOCKS, "multi_lock", "red_lock") for form in ("with", "hold")), *OF_PERMITS]
form = each_of("with", "hold")


def guard(world: World, kind: str, **config: Any) -> Any:
    """A lock, or a semaphore with one permit."""
    return make(world.client(**config), kind, permits=1) if "semaphore" in kind else lock_of(world, kind, **config)


def in_block(guard: Any, form: str) -> Any:
    return guard.hold() if form == "hold" else guard


def free_again(actor: Actor, guard: Any) -> bool:
    """Whether nothing is held."""
    if hasattr(guard, "available_permits"):
        return bool(actor.do(guard.available_permits) == 1)
    return not actor.do(guard.is_locked)


def rows(block: Any) -> Iterator[int]:
    with block:
        yield from range(5)


async def arows(block: Any) -> AsyncIterator[int]:
    async with block:
        for row in range(5):
            yield row


# ---- threads -----------------------------------------------------------------------------------------------------


def by_break(rows: Iterator[int]) -> None:
    for _ in rows:
        break


def by_a_dropped_context(rows: Iterator[int]) -> None:
    contextlib.contextmanager(lambda: rows)().__enter__()


def by_a_cycle(rows: Any) -> None:
    """Only the garbage collector finds it."""
    next(rows)
    cycle: list[Any] = [rows]
    cycle.append(cycle)


@threads_only
@pytest.mark.parametrize(
    ("kind", "form", "end"),
    [
        *((kind, form, by_break) for kind, form in BLOCKS),
        *(("lock", form, end) for form in ("with", "hold") for end in (by_a_dropped_context, by_a_cycle)),
    ],
)
def test_a_generator_that_is_given_up_releases_at_once(world, kind, form, end):
    held = guard(world, kind)
    for _ in range(2):
        end(rows(in_block(held, form)))
        gc.collect()
        assert held.available_permits() == 1 if "semaphore" in kind else not held.is_locked()


@threads_only
def test_an_inner_generator_that_is_closed_leaves_the_outer_hold(world):
    lock = guard(world, "lock")
    with lock:
        by_break(rows(lock))
        by_break(rows(lock.hold()))
        assert lock.get_hold_count() == 1
    assert not lock.is_locked()


# ---- asyncio -----------------------------------------------------------------------------------------------------


async def by_aclosing(rows: Any) -> None:
    async with contextlib.aclosing(rows):
        async for _ in rows:
            break


async def by_aclose_elsewhere(rows: Any) -> None:
    """As frameworks do that close a response in a task of its own."""
    await anext(rows)
    await asyncio.create_task(rows.aclose())


async def by_abreak(rows: Any) -> None:
    """Nobody closes it: the event loop does, in a task of its own, when it is collected."""
    async for _ in rows:
        break


async def by_a_cancelled_reader(rows: Any) -> None:
    """As a streamed response ends whose browser went away."""
    reading = asyncio.Event()

    async def read() -> None:
        async for _ in rows:
            reading.set()
            await asyncio.sleep(60)

    reader = asyncio.create_task(read())
    await asyncio.wait_for(reading.wait(), PATIENCE)
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)


@pytest.mark.parametrize(
    ("kind", "form", "end"),
    [
        *((kind, form, end) for kind, form in BLOCKS for end in (by_aclosing, by_abreak)),
        *(("lock", form, end) for form in ("with", "hold") for end in (by_aclose_elsewhere, by_a_cancelled_reader)),
    ],
)
def test_an_async_generator_that_is_given_up_releases(world, alice, kind, form, end):
    """One that is dropped is closed in a task of its own, where nothing says whose the lock is but the context."""
    # The task that the lock belonged to has ended when its generator is closed: then the lease ends it.
    held = guard(world, kind, lock_watchdog_timeout=1.5 if end is by_a_cancelled_reader else 30)
    for _ in range(2):
        alice.do(lambda: end(arows(in_block(held, form))))
        gc.collect()
        world.until(lambda: free_again(alice, held), SOON)


@pytest.mark.parametrize(
    ("kind", "form", "end"),
    [
        *((kind, form, by_aclosing) for kind, form in BLOCKS),
        *(("lock", form, by_aclose_elsewhere) for form in ("with", "hold")),
    ],
)
def test_a_generator_is_closed_when_its_lock_was_released(world, kind, form, end):
    held, actor = guard(world, kind), world.actor()
    actor.do(lambda: end(arows(in_block(held, form))))
    assert free_again(actor, held)


#: A program that ends while a generator is in its block; its event loop closes the generator.
ENDS_IN_A_GENERATOR = """
import asyncio, sys
from pyredisson.asyncio import MultiLock, Redisson

kept = []

async def rows(block):
    async with block:
        yield 1

async def main(url, name, guard, form, closed):
    client = Redisson.from_url(url)
    if guard == "multi_lock":
        guard = MultiLock(client.get_lock(f"{name}:1"), client.get_lock(f"{name}:2"))
    elif guard == "lock":
        guard = client.get_lock(name)
    else:
        guard = client.get_semaphore(name, permits=1)
    numbers = rows(guard.hold() if form == "hold" else guard)
    kept.append(numbers)
    await anext(numbers)
    if closed:
        await client.close()

asyncio.run(main(*sys.argv[1:5], sys.argv[5] == "closed"))
"""


@pytest.mark.parametrize("closed", ["open", "closed"])
@pytest.mark.parametrize(
    ("guard", "form"), [("lock", "hold"), ("multi_lock", "hold"), ("semaphore", "hold"), ("semaphore", "with")]
)
def test_the_end_of_a_program_closes_its_generators(valkey, unique_name, guard, form, closed):
    """With ``async with lock`` the hold is its task's, which has ended: its lease ends it."""
    arguments = [valkey.url, unique_name, guard, form, closed]
    ended = run_python(ENDS_IN_A_GENERATOR, *arguments, flags=("-W", "error"))
    assert [line for line in ended.stderr.splitlines() if "was closed while it held" not in line] == []
    with valkey.client() as server:
        left = {key: server.get(key) for key in server.keys(f"*{unique_name}*") if server.type(key) == b"string"}
        assert not server.exists(unique_name) or left[unique_name.encode()] == b"1"
        assert not server.exists(f"{unique_name}:1", f"{unique_name}:2")


@contextlib.asynccontextmanager
async def passed_on(block: Any) -> AsyncIterator[None]:
    async with block:
        yield


@pytest.mark.parametrize("wrap", [lambda block: block, passed_on], ids=["itself", "in a context manager"])
@pytest.mark.parametrize(("kind", "form"), [("lock", "with"), ("lock", "hold"), *OF_PERMITS])
def test_a_coroutine_that_is_closed_in_its_block_releases_in_the_background(world, kind, form, wrap):
    """It may await nothing any more: one that does is a ``RuntimeError``."""
    held, actor = guard(world, kind), world.actor()
    entered = asyncio.Event()

    async def body():
        async with wrap(in_block(held, form)):
            entered.set()
            await asyncio.Event().wait()

    async def close():
        coroutine = body()
        # Stepped by hand within this task, so that it can be closed like a generator.
        while (step := coroutine.send(None)) is None or not entered.is_set():
            if step is None:
                await asyncio.sleep(0)
            else:
                step._asyncio_future_blocking = False
                await asyncio.wait([step])
        coroutine.close()

    actor.do(close)
    world.until(lambda: free_again(actor, held), SOON)


def test_a_closed_generator_does_not_give_back_what_others_hold(alice, mine, theirs):

    async def begin():
        numbers = arows(mine.real)
        await anext(numbers)
        return numbers

    numbers = alice.do(begin)
    assert mine.force_unlock()
    theirs.lock()
    alice.do(numbers.aclose)
    assert theirs.is_held_by_current_thread()


@each_runtime
def test_a_block_that_ends_with_generator_exit_is_left_at_once(world, mine, form):
    body = mine if form == "with" else mine.hold()
    body.enter()
    body.__exit__(GeneratorExit, GeneratorExit(), None)
    world.until(lambda: world.redis.ttl("orders") is None, within=3.0)


# ---- event loops that were closed --------------------------------------------------------------------------------


#: A program that closes an event loop with tasks in it, which nothing refers to afterwards.
CLOSES_ITS_LOOP = """
import asyncio, gc, logging, sys, weakref
from pyredisson import Config
from pyredisson.asyncio import MultiLock, Redisson

logging.disable()
url, name = sys.argv[1:]
seen = []

async def hold(block, entered):
    async with block:
        entered.set()
        await asyncio.sleep(100)

async def noted(work):
    try:
        await work
    except Exception as error:
        seen.append(error)

def in_closed_loop(main):
    loop = asyncio.new_event_loop()
    result = loop.run_until_complete(main())
    loop.close()
    gc.collect()  # The client, which is then ended,
    gc.collect()  # and what that has kept until then.
    return result

def client():
    return Redisson.from_url(url, config=Config(presence=False))

async def until_waiting(client):
    subscriptions, quiet = client._core.subscriptions, 0
    while quiet < 5:  # Turns in a row in which nothing is in flight.
        await asyncio.sleep(0.01)
        waits = subscriptions.groups and all(each.confirmed for each in subscriptions.channels.values())
        quiet = quiet + 1 if waits and not any(pipe._calls for pipe in client._core.fast_pool.idle) else 0
"""

IN_A_BLOCK = """
BLOCKS = {
    "lock": lambda client: client.get_lock(f"{name}-1").hold(),
    "fair_lock": lambda client: client.get_fair_lock(f"{name}-2").hold(),
    "token_lock": lambda client: client.get_token_lock(f"{name}-3").hold(lease_time=60),
    "multi_lock": lambda client: client.get_multi_lock(*(client.get_lock(f"{name}-{each}") for each in "45")).hold(),
    "semaphore": lambda client: client.get_semaphore(f"{name}-6", 1).hold(),
    "with semaphore": lambda client: client.get_semaphore(f"{name}-7", 1),
    "run_once": lambda client: client.run_once(f"{name}-8", at_most=60),
}

def main_of(make):
    async def main():
        entered = asyncio.Event()
        task = asyncio.ensure_future(noted(hold(make(client()), entered)))
        await asyncio.wait_for(entered.wait(), 10)
    return main

sys.unraisablehook = lambda raised: seen.append(raised.exc_value)
for kind, make in BLOCKS.items():
    in_closed_loop(main_of(make))
    print(kind, seen)
    seen.clear()
"""

#: The client goes on with another loop, although one of its tasks still waits in the closed one.
IN_A_WAIT = """
kept = client()
tasks = []

async def main():
    lock, entered = kept.get_lock(name), asyncio.Event()
    tasks.append(asyncio.ensure_future(noted(hold(lock.hold(lease_time=1), entered))))
    await asyncio.wait_for(entered.wait(), 10)
    tasks.append(asyncio.ensure_future(noted(lock.lock())))
    await until_waiting(kept)

async def next_one():
    async with kept:
        print(await kept.get_lock(name).try_lock(10), seen)

in_closed_loop(main)
asyncio.run(next_one())
"""

FREED = """
def multi(client):
    return client.get_multi_lock(client.get_lock(f"{name}-2"), client.get_lock(name))

async def at_condition(client):
    async with client.get_lock(f"{name}-3") as lock:
        await client.get_condition(lock).wait()

WAITS = {
    "lock": lambda client: client.get_lock(name).lock(),
    "a limited wait": lambda client: client.get_lock(name).try_lock(60),
    "fair_lock": lambda client: client.get_fair_lock(name).lock(),
    "multi_lock": lambda client: multi(client).lock(),
    "semaphore": lambda client: client.get_semaphore(f"{name}-4", 0).acquire(),
    "permits": lambda client: client.get_permit_expirable_semaphore(f"{name}-5", 0).acquire(),
    "event": lambda client: client.get_event(f"{name}-6").wait(),
    "barrier": lambda client: client.get_barrier(f"{name}-7", 2).wait(),
    "condition": at_condition,
}

def main_of(wait):
    async def main():
        one = client()
        task = asyncio.ensure_future(noted(wait(one)))
        await until_waiting(one)
        return weakref.ref(one._core)
    return main

async def locked():
    async with client() as one:
        await one.get_fair_lock(name).lock(lease_time=600)

sys.unraisablehook = lambda raised: seen.append(raised.exc_value)
asyncio.run(locked())
for kind, wait in WAITS.items():
    left = in_closed_loop(main_of(wait))
    print(kind, [*seen, *filter(None, [left()])])
    seen.clear()
"""


def test_a_block_of_a_closed_event_loop_is_left_without_an_error(valkey, unique_name):
    """Its coroutine is closed later: no error of ours takes the place of ``GeneratorExit``."""
    printed = output_of(CLOSES_ITS_LOOP + IN_A_BLOCK, valkey.url, unique_name)
    assert printed
    assert [line for line in printed.splitlines() if not line.endswith(" []")] == []


def test_a_client_is_freed_whose_tasks_waited_in_a_closed_event_loop(valkey, unique_name):
    printed = output_of(CLOSES_ITS_LOOP + FREED, valkey.url, unique_name)
    assert printed
    assert [line for line in printed.splitlines() if not line.endswith(" []")] == []


def test_a_client_whose_task_waits_in_a_closed_event_loop_serves_the_next_one(valkey, unique_name):
    assert output_of(CLOSES_ITS_LOOP + IN_A_WAIT, valkey.url, unique_name) == "True []"
