"""What an acquire and a release cost when much is held, used or waited for: each dimension at N, and at 16 N."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, contextmanager
from statistics import median
from typing import TYPE_CHECKING, Any

from .repetitions import HOW, memory_claims
from .report import Figure, at_most, show
from .rounds import Tournament, median_of, median_ratio
from .server import Server

if TYPE_CHECKING:
    from pyredisson import Redisson

__all__ = ["FACTOR", "growth"]

FACTOR = 16
PAIRS = 200
MICROSECONDS = "us"

_names = itertools.count()


def new_name() -> str:
    """A name that was not used before."""
    return f"growth-{next(_names)}"


def pair_us(pair: Callable[[], object]) -> float:
    """The median processor time of a pair in the calling thread, in microseconds.

    Not the time on the clock: that differs by half with the cores on which the system puts this process and the server.
    """
    times = []
    for _ in range(PAIRS):
        begin = time.thread_time()
        pair()
        times.append(time.thread_time() - begin)
    return median(times) * 1e6


def pair_of(get: Callable[[str], Any]) -> Callable[[], None]:
    """An acquire and a release on a name that was not used before."""

    def pair() -> None:
        lock = get(new_name())
        lock.lock()
        lock.unlock()

    return pair


# ---- the dimensions: each returns what a pair takes when there are n of something ------------------------------


def held_by_a_thread(client: Redisson, size: int, kind: str = "lock") -> float:
    """Locks that the calling thread holds."""
    get = getattr(client, f"get_{kind}")
    held = [get(new_name()) for _ in range(size)]
    for lock in held:
        lock.lock()
    taken = pair_us(pair_of(get))
    for lock in held:
        lock.unlock()
    return taken


def held_by_other_threads(client: Redisson, size: int) -> float:
    """Threads of the client, each of which holds a lock."""
    with in_threads(size, lambda: client.get_lock(new_name())):
        return pair_us(pair_of(client.get_lock))


def nested_blocks(client: Redisson, size: int) -> float:
    """Blocks of ``hold()`` around it."""
    with ExitStack() as blocks:
        for _ in range(size):
            blocks.enter_context(client.get_lock(new_name()).hold())
        return pair_us(pair_of(client.get_lock))


def nested_acquires(client: Redisson, size: int) -> float:
    """How often the thread has acquired the lock already."""
    lock = client.get_lock(new_name())
    for _ in range(size):
        lock.lock()
    taken = pair_us(pair_of(lambda _: lock))
    for _ in range(size):
        lock.unlock()
    return taken


def hand_over_hand(client: Redisson, size: int) -> float:
    """Locks of a walk, each acquired before the last one is released."""
    before = None
    for _ in range(size):
        lock = client.get_lock(new_name())
        lock.lock()
        if before is not None:
            before.unlock()
        before = lock
    taken = pair_us(pair_of(client.get_lock))
    if before is not None:
        before.unlock()
    return taken


def names_used(client: Redisson, size: int) -> float:
    """Names that were locked and released."""
    pair = pair_of(client.get_lock)
    for _ in range(size):
        pair()
    return pair_us(pair)


def permits_acquired(client: Redisson, size: int) -> float:
    """Permits of an expiring semaphore that are acquired."""
    semaphore = client.get_permit_expirable_semaphore(new_name(), permits=2 * size)
    permits = [semaphore.acquire(lease_time=600) for _ in range(size)]
    taken = pair_us(lambda: semaphore.release(semaphore.acquire(lease_time=600)))
    for permit in permits:
        semaphore.release(permit)
    return taken


def readers(client: Redisson, size: int) -> float:
    """Threads that hold a read lock, of which another one is acquired."""
    name = new_name()
    with in_threads(size, lambda: client.get_read_write_lock(name).read_lock()):
        return pair_us(pair_of(lambda _: client.get_read_write_lock(name).read_lock()))


def waiters_elsewhere(client: Redisson, size: int, kind: str = "lock") -> float:
    """Threads that wait for another lock."""
    get = getattr(client, f"get_{kind}")
    name = new_name()
    lock = get(name)
    with lock.hold() as lease:
        threads = [threading.Thread(target=_acquire_and_release, args=(lock,)) for _ in range(size)]
        for thread in threads:
            thread.start()
        while f"{size} waiting here" not in repr(lock):
            time.sleep(0.01)
        taken = pair_us(pair_of(get))
        lease.ensure_held()
    for thread in threads:
        thread.join()
    return taken


def queue_of_the_lock(client: Redisson, size: int) -> float:
    """Threads in the queue of a fair lock: the time in which it passes from one to the next, in microseconds."""
    lock = client.get_fair_lock(new_name())
    with lock.hold():
        threads = [threading.Thread(target=_acquire_and_release, args=(lock,)) for _ in range(size)]
        for thread in threads:
            thread.start()
        while f"{size} waiting here" not in repr(lock):
            time.sleep(0.01)
        begin = time.perf_counter()
    for thread in threads:
        thread.join()
    return (time.perf_counter() - begin) / size * 1e6


def clients_of_presence(url: str, size: int) -> float:
    """Other clients, which write what they hold."""
    from pyredisson import Config, Redisson

    often = Config(presence_after=0.1, lock_watchdog_timeout=3)
    with ExitStack() as closing:
        for _ in range(size):
            other = closing.enter_context(Redisson.from_url(url, config=often))
            closing.enter_context(other.get_lock(new_name()).hold())
        client = closing.enter_context(Redisson.from_url(url))
        time.sleep(0.5)
        return pair_us(pair_of(client.get_lock))


def members(client: Redisson, size: int) -> float:
    """Members of a multi-lock: the time of a pair, for each of them."""
    multi = client.get_multi_lock(*(client.get_lock(new_name()) for _ in range(size)))
    begin = time.perf_counter()
    multi.lock()
    multi.unlock()
    return (time.perf_counter() - begin) / size * 1e6


def terms_of_the_thread(client: Redisson, size: int) -> float:
    """Elections that the calling thread leads: an acquire and a release of another one."""

    def pair() -> None:
        with client.get_leader_election(new_name()).term():
            pass

    with ExitStack() as terms:
        for _ in range(size):
            terms.enter_context(client.get_leader_election(new_name()).term())
        return pair_us(pair)


def runs_before(client: Redisson, size: int) -> float:
    """Names that were run once: a run of another one."""

    def run() -> None:
        with client.run_once(new_name(), at_most=60):
            pass

    for _ in range(size):
        run()
    return pair_us(run)


def waiters_for_an_event(client: Redisson, size: int) -> float:
    """Threads that wait for an event."""
    event = client.get_event(new_name())
    with waiting_threads(size, event.wait, event.set):
        return pair_us(pair_of(client.get_lock))


def waiters_for_a_condition(client: Redisson, size: int) -> float:
    """Threads that wait for a condition: an acquire and a release of its lock."""
    condition = client.get_condition(new_name())

    def wait() -> None:
        with condition:
            condition.wait()

    def end() -> None:
        with condition:
            condition.notify_all()

    def pair() -> None:
        with condition:
            pass

    with waiting_threads(size, wait, end):
        return pair_us(pair)


def parties(client: Redisson, size: int) -> float:
    """Parties of a barrier: the time from the last one's arrival until all have gone on, for each of them.

    All have met once before, so that their connections are there.
    """
    barrier, took = client.get_barrier(new_name(), size), 0.0
    for _ in range(2):
        threads = [threading.Thread(target=barrier.wait) for _ in range(size - 1)]
        for thread in threads:
            thread.start()
        while barrier.n_waiting < size - 1:
            time.sleep(0.01)
        begin = time.perf_counter()
        barrier.wait()
        for thread in threads:
            thread.join()
        took = time.perf_counter() - begin
    return took / size * 1e6


@contextmanager
def waiting_threads(size: int, wait: Callable[[], object], end: Callable[[], object]) -> Iterator[None]:
    """Let ``size`` threads wait meanwhile, and end that."""
    threads = [threading.Thread(target=wait) for _ in range(size)]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    yield
    end()
    for thread in threads:
        thread.join()


def held_by_a_task(url: str, size: int) -> float:
    """Locks that the running task holds."""
    import pyredisson.asyncio

    async def measure() -> float:
        async with pyredisson.asyncio.Redisson.from_url(url) as client, AsyncExitStack() as blocks:
            for _ in range(size):
                await blocks.enter_async_context(client.get_lock(new_name()))

            async def pair() -> None:
                lock = client.get_lock(new_name())
                await lock.lock()
                await lock.unlock()

            return await async_pair_us(pair)

    return asyncio.run(measure())


def held_by_other_tasks(url: str, size: int) -> float:
    """Tasks of the client, each of which holds a lock."""
    import pyredisson.asyncio

    async def measure() -> float:
        async with pyredisson.asyncio.Redisson.from_url(url) as client:
            ended = asyncio.Event()

            async def hold(held: asyncio.Future[None]) -> None:
                async with client.get_lock(new_name()):
                    held.set_result(None)
                    await ended.wait()

            async def pair() -> None:
                lock = client.get_lock(new_name())
                await lock.lock()
                await lock.unlock()

            all_held: list[asyncio.Future[None]] = [asyncio.Future() for _ in range(size)]
            tasks = [asyncio.create_task(hold(held)) for held in all_held]
            await asyncio.gather(*all_held)
            taken = await async_pair_us(pair)
            ended.set()
            await asyncio.gather(*tasks)
            return taken

    return asyncio.run(measure())


async def async_pair_us(pair: Callable[[], Awaitable[object]]) -> float:
    """The same as :func:`pair_us`."""
    times = []
    for _ in range(PAIRS):
        begin = time.thread_time()
        await pair()
        times.append(time.thread_time() - begin)
    return median(times) * 1e6


def _acquire_and_release(lock: Any) -> None:
    with lock:
        pass


@contextmanager
def in_threads(size: int, get: Callable[[], Any]) -> Iterator[None]:
    """Let ``size`` threads hold a lock each meanwhile."""
    ended, held = threading.Event(), threading.Semaphore(0)

    def hold() -> None:
        with get():
            held.release()
            ended.wait()

    threads = [threading.Thread(target=hold) for _ in range(size)]
    for thread in threads:
        thread.start()
    for _ in threads:
        held.acquire()
    yield
    ended.set()
    for thread in threads:
        thread.join()


#: What grows, and N.
DIMENSIONS: Mapping[str, tuple[Callable[[Redisson, int], float], int]] = {
    "locks held by the thread": (held_by_a_thread, 100),
    "many locks held by the thread": (held_by_a_thread, 625),
    "fenced locks held by the thread": (lambda client, size: held_by_a_thread(client, size, "fenced_lock"), 100),
    "fair locks held by the thread": (lambda client, size: held_by_a_thread(client, size, "fair_lock"), 100),
    "locks held by other threads": (held_by_other_threads, 20),
    "nested blocks of hold()": (nested_blocks, 30),
    "acquires of one lock, nested": (nested_acquires, 30),
    "locks passed hand over hand": (hand_over_hand, 500),
    "names used before": (names_used, 500),
    "permits acquired": (permits_acquired, 100),
    "readers of the lock": (readers, 20),
    "waiters for another lock": (waiters_elsewhere, 20),
    "queue of another fair lock": (lambda client, size: waiters_elsewhere(client, size, "fair_lock"), 20),
    "queue of the fair lock, hand-over": (queue_of_the_lock, 10),
    "members, time for each": (members, 10),
    "elections that the thread leads": (terms_of_the_thread, 50),
    "names that were run once": (runs_before, 100),
    "waiters for an event": (waiters_for_an_event, 20),
    "waiters for a condition": (waiters_for_a_condition, 20),
    "parties of a barrier, time for each": (parties, 10),
}

#: The same, of what makes its own clients.
OF_URL: Mapping[str, tuple[Callable[[str, int], float], int]] = {
    "clients that write their presence": (clients_of_presence, 5),
    "locks held by the task (asyncio)": (held_by_a_task, 100),
    "many locks held by the task (asyncio)": (held_by_a_task, 625),
    "locks held by other tasks (asyncio)": (held_by_other_tasks, 100),
}

#: The ratio at 16 N that is allowed; and where it is another one.
RATIO = 1.3
RATIOS = {name: 1.15 for name in (*DIMENSIONS, *OF_URL) if "held by the t" in name}


def growth(server: Server, *, rounds: int, tournament: Tournament) -> Figure:
    """Each dimension at N and at 16 N, in turns."""
    from pyredisson import Redisson

    title = "More of everything"
    sizes = {name: size for name, (_, size) in (*DIMENSIONS.items(), *OF_URL.items())}

    def measure(contestant: str) -> dict[str, float]:
        name, _, scale = contestant.rpartition(" x")
        size = sizes[name] * int(scale)
        if name in OF_URL:
            return {MICROSECONDS: OF_URL[name][0](server.url, size)}
        with Redisson.from_url(server.url) as client:
            pair_us(pair_of(client.get_lock))
            return {MICROSECONDS: DIMENSIONS[name][0](client, size)}

    contestants = [f"{name} x{scale}" for name in sizes for scale in (1, FACTOR)]
    samples = tournament.play(title, contestants, rounds, measure)
    rows, claims = [], []
    for name, size in sizes.items():
        few, many = f"{name} x1", f"{name} x{FACTOR}"
        ratio = median_ratio(samples, many, few, MICROSECONDS)
        times = [show(median_of(samples, each, MICROSECONDS)) for each in (few, many)]
        rows.append((name, f"{size:,}", f"{FACTOR * size:,}", *times, show(ratio)))
        claims.append(at_most(name, ratio, RATIOS.get(name, RATIO), "x"))
    claims += memory_claims(server.url)
    how = (
        f"An acquire and a release on a name that was not used before, {PAIRS} times in each of {rounds} rounds, while "
        "there are N of something, and 16 N. Medians of the processor time of the calling thread, in microseconds; of "
        "members, parties and hand-overs the time on the clock. " + HOW
    )
    columns = ("of what", "N", "16 N", "us at N", "us at 16 N", "ratio")
    shown = {f"{name}, {sizes[name] * scale:,}": samples[f"{name} x{scale}"] for name in sizes for scale in (1, FACTOR)}
    return Figure("growth", title, how, columns, rows, claims, samples=shown)
