"""Two owners that pass one lock to and fro, within a language and across: how long until the other one has it.

The time is from just before ``unlock()`` is called on one side until ``lock()`` has returned on the other. Both sides
read the monotonic clock of the machine, which is the same for all processes (Linux: ``CLOCK_MONOTONIC``, that of
``time.monotonic_ns()`` and of ``System.nanoTime()``).
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import Connection
from statistics import median, quantiles
from typing import TYPE_CHECKING, NamedTuple

from tests.interop.peer import JavaClient

from .jvm import REDISSON, WAIT_SECONDS, pairs_in_java, redisson
from .report import Figure, at_most, show
from .rounds import FOREIGN, Samples, Tournament, median_of
from .server import Server
from .wire import lock_name

if TYPE_CHECKING:
    from pyredisson import Lock, Redisson

__all__ = ["HandOvers", "Pass", "cross_hand_over", "hand_overs"]

PYTHON, JAVA = "Python", "Java"
KINDS = {"lock": "lock", "fair lock": "fair_lock", "write lock": "write_lock"}

HOLD_SECONDS, REST_SECONDS = 0.010, 0.005
"""An owner that releases the lock pauses, and the other one keeps it for longer than that: so it is passed on
each time, and its next owner has waited for a while, and is asleep."""

WAITED_NS = 1_000_000
"""Who asked later than that before the release may still be about to wait; this is not a hand-over."""

BEGIN_SECONDS = 0.2
WARM_UP_SECONDS = 4.0
PRACTICE_SECONDS, PRACTICE_HOLD_SECONDS = 2.0, 0.001

BOUND = 3.0


class Pass(NamedTuple):
    """One hold of one owner, by the monotonic clock, in nanoseconds.

    Attributes:
        asked: Before ``lock()``.
        entered: After it.
        left: Before ``unlock()``.
    """

    asked: int
    entered: int
    left: int


@dataclass(frozen=True, slots=True)
class HandOvers:
    """The hand-overs from one owner to another.

    Attributes:
        waits_ns: From the first release that it waited for until it had the lock.
        taken_back: How many of them found the lock taken again by who had freed it.
    """

    waits_ns: Sequence[int]
    taken_back: int


def hand_overs(giver: Sequence[Pass], taker: Sequence[Pass]) -> HandOvers:
    """Those from one owner to the other.

    A hand-over counts from the first release after the taker began to wait, also if the giver was faster then and had
    the lock once more.

    Raises:
        RuntimeError: Both were inside at the same time.
    """
    for earlier, later in pairwise(sorted((*giver, *taker), key=lambda each: each.entered)):
        if later.entered < earlier.left:
            raise RuntimeError(f"two were inside: {earlier}, {later}")
    waits: list[int] = []
    taken_back = 0
    releases = iter(sorted(each.left for each in giver))
    release = next(releases, None)
    entries = sorted(each.entered for each in giver)
    for each in sorted(taker):
        while release is not None and release < each.asked:
            release = next(releases, None)
        if release is None or release > each.entered or release - each.asked < WAITED_NS:
            continue
        waits.append(each.entered - release)
        taken_back += any(release < entry < each.entered for entry in entries)
    return HandOvers(waits, taken_back)


# ---- an owner in each language ---------------------------------------------------------------------------------------


class Order(NamedTuple):
    """An order for an owner; times are nanoseconds, and the first two by the monotonic clock."""

    kind: str
    begin: int
    end: int
    hold: int
    rest: int

    @classmethod
    def now(cls, kind: str, seconds: float, hold_seconds: float) -> Order:
        """Begin in a moment."""
        begin = time.monotonic_ns() + int(BEGIN_SECONDS * 1e9)
        rest = hold_seconds * REST_SECONDS / HOLD_SECONDS
        return cls(kind, begin, begin + int(seconds * 1e9), int(hold_seconds * 1e9), int(rest * 1e9))


@dataclass(frozen=True, slots=True)
class Owner:
    """A process that takes locks. It executes an order by itself; the answer arrives when it is asked for."""

    language: str
    pid: int
    start: Callable[[Order], Callable[[], Sequence[Pass]]]


def _passes(numbers: Sequence[int]) -> Sequence[Pass]:
    return [Pass(*numbers[at : at + 3]) for at in range(0, len(numbers), 3)]


@contextmanager
def _java(server: Server) -> Iterator[tuple[Owner, JavaClient]]:
    with redisson(server) as client:
        before = time.monotonic_ns()
        there = client.jvm.do("main", "clock")
        if not before <= there <= time.monotonic_ns():
            raise RuntimeError("Java's nanoTime() is another clock than time.monotonic_ns(): nothing can be compared")

        def start(order: Order) -> Callable[[], Sequence[Pass]]:
            kind, *times = order
            running = client.jvm.start("owner", "passes", client.name, kind, lock_name(0), *map(str, times))
            return lambda: _passes(running.result(WAIT_SECONDS))

        yield Owner(JAVA, client.jvm.pid, start), client


def _sleep_until(moment_ns: int) -> None:
    time.sleep(max(0, moment_ns - time.monotonic_ns()) / 1e9)


def _lock_of(client: Redisson, kind: str) -> Lock:
    if kind == "write_lock":
        return client.get_read_write_lock(lock_name(0)).write_lock()
    return client.get_fair_lock(lock_name(0)) if kind == "fair_lock" else client.get_lock(lock_name(0))


def pass_on(url: str, link: Connection) -> None:
    """The process of an owner in Python: an order comes, and the times of each hold go back."""
    from pyredisson import Redisson

    with Redisson.from_url(url) as client:
        link.send(client.id)
        while (order := link.recv()) is not None:
            lock = _lock_of(client, order.kind)
            times: list[int] = []
            _sleep_until(order.begin)
            while (asked := time.monotonic_ns()) < order.end:
                lock.lock()
                entered = time.monotonic_ns()
                _sleep_until(entered + order.hold)
                left = time.monotonic_ns()
                lock.unlock()
                times += (asked, entered, left)
                _sleep_until(time.monotonic_ns() + order.rest)
            link.send(times)


@contextmanager
def _python(server: Server) -> Iterator[Owner]:
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    process = spawning.Process(target=pass_on, args=(server.url, there))
    process.start()
    there.close()

    def answer() -> list[int]:
        if not here.poll(WAIT_SECONDS):
            raise RuntimeError("an owner in Python does not answer")
        numbers: list[int] = here.recv()
        return numbers

    def start(order: Order) -> Callable[[], Sequence[Pass]]:
        here.send(order)
        return lambda: _passes(answer())

    try:
        answer()  # It is connected.
        assert process.pid is not None
        yield Owner(PYTHON, process.pid, start)
        here.send(None)
        process.join(WAIT_SECONDS)
    finally:
        if process.is_alive():
            process.kill()


# ---- measuring -------------------------------------------------------------------------------------------------------


def _play(server: Server, two: Sequence[Owner], kind: str, seconds: float, hold_seconds: float) -> dict[str, HandOvers]:
    """Both directions; within a language they are one."""
    server.reset()
    order = Order.now(KINDS[kind], seconds, hold_seconds)
    passes = [answer() for answer in [owner.start(order) for owner in two]]
    if server.keys():
        raise RuntimeError(f"{server.keys()} keys of a {kind} are left behind")
    there, back = hand_overs(*passes), hand_overs(*reversed(passes))
    first, second = (owner.language for owner in two)
    if first == second:
        both = HandOvers([*there.waits_ns, *back.waits_ns], there.taken_back + back.taken_back)
        return {_direction(first, second): both}
    return {_direction(first, second): there, _direction(second, first): back}


def _direction(giver: str, taker: str) -> str:
    return f"{giver} to {taker}"


DIRECTIONS = [_direction(giver, taker) for giver in (PYTHON, JAVA) for taker in (PYTHON, JAVA)]
CROSS = [_direction(PYTHON, JAVA), _direction(JAVA, PYTHON)]
ALONE = [_direction(PYTHON, PYTHON), _direction(JAVA, JAVA)]


def _numbers(those: HandOvers) -> dict[str, float]:
    if len(those.waits_ns) < 2:
        raise RuntimeError("hardly any hand-overs in the time that counts: give it more --contend-seconds")
    return {
        "median ms": median(those.waits_ns) / 1e6,
        "p99 ms": quantiles(those.waits_ns, n=100)[98] / 1e6,
        "longest ms": max(those.waits_ns) / 1e6,
        "hand-overs": len(those.waits_ns),
        "taken back": those.taken_back,
    }


def cross_hand_over(server: Server, *, rounds: int, seconds: float, tournament: Tournament) -> Figure:
    """Two processes that pass a lock to and fro, in Python, in Java, and one in each."""
    title = "A lock that is passed on, in Python, in Java, and between them"
    played: Samples
    with ExitStack() as closing:
        pythons = [closing.enter_context(_python(server)) for _ in range(2)]
        javas, clients = zip(*(closing.enter_context(_java(server)) for _ in range(2)), strict=True)
        pairs = {PYTHON: pythons, JAVA: javas, f"{PYTHON} and {JAVA}": (pythons[0], javas[0])}
        for client in clients:
            pairs_in_java([server], [client], 1, WARM_UP_SECONDS)
        for kind in KINDS:
            for two in pairs.values():
                _play(server, two, kind, PRACTICE_SECONDS, PRACTICE_HOLD_SECONDS)
        turns = {f"{languages}, {kind}": (two, kind) for kind in KINDS for languages, two in pairs.items()}

        def turn(name: str) -> dict[str, float]:
            two, kind = turns[name]
            played = _play(server, two, kind, seconds, HOLD_SECONDS)
            return {
                f"{direction}, {kind}, {number}": value
                for direction, those in played.items()
                for number, value in _numbers(those).items()
            }

        pids = [owner.pid for owner in (*pythons, *javas)]
        played = tournament.play(title, list(turns), rounds, turn, pids)
    samples = {
        f"{direction}, {kind}": _of(played, f"{direction}, {kind}") for kind in KINDS for direction in DIRECTIONS
    }
    columns = ("median ms", "p99 ms", "longest ms", "hand-overs", "taken back")
    rows = [
        (
            name,
            *(show(median_of(samples, name, column)) for column in columns),
            *(show(_ratio(samples, name, [alone])) for alone in ALONE),
        )
        for name in samples
    ]
    claims = [
        at_most(
            f"median, {direction}, {kind}, of the slower language's own",
            _ratio(samples, f"{direction}, {kind}", ALONE),
            BOUND,
            "x",
        )
        for kind in KINDS
        for direction in CROSS
    ]
    how = (
        f"Two processes pass one lock to and fro for {seconds:g} s, {rounds} rounds: each keeps it for "
        f"{HOLD_SECONDS * 1e3:g} ms, and asks again {REST_SECONDS * 1e3:g} ms after its release. The time is from "
        f"before unlock() until lock() has returned on the other side. Java is {REDISSON}; all processes are started "
        "once, and warm."
    )
    notes = ["Taken back: the releaser was faster, had the lock once more, and the wait counts to its end."]
    heads = ("from - to, kind", *columns, *(f"of {alone}" for alone in ALONE))
    return Figure("cross_hand_over", title, how, heads, rows, claims, notes, samples)


def _of(played: Samples, name: str) -> Sequence[dict[str, float]]:
    """The samples of one direction and kind."""
    return [
        {
            **{key.removeprefix(f"{name}, "): value for key, value in sample.items() if key.startswith(f"{name}, ")},
            **({FOREIGN: sample[FOREIGN]} if FOREIGN in sample else {}),
        }
        for samples in played.values()
        for sample in samples
        if f"{name}, median ms" in sample
    ]


def _ratio(samples: Samples, name: str, alone: Sequence[str]) -> float:
    """The median over the rounds of its median, by that of the slowest of those of the same kind."""
    kind = name.partition(", ")[2]
    others = [samples[f"{each}, {kind}"] for each in alone]
    return median(
        own["median ms"] / max(other["median ms"] for other in those)
        for own, *those in zip(samples[name], *others, strict=True)
    )
