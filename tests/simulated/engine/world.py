"""A seeded world in virtual time: processes, tasks, servers, and a network that can be trusted as far as it is told to.

One seed, one history: everything that happens is an event in one queue, every draw comes from one generator, and
:attr:`World.trace` is a hash over all of it. A failing history is its seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import math
import random
from collections.abc import Callable, Coroutine, Generator, Iterator
from hashlib import blake2b
from typing import Any, Generic, TypeVar

from typing_extensions import Self

from tests.simulated.engine.faults import Faults
from tests.simulated.engine.redis import SimulatedRedis

T = TypeVar("T")

#: The wall clock of every server at virtual time 0, in seconds.
EPOCH = 1_785_000_000.0

#: No honest history has so many events at one moment.
AT_ONCE = 10_000


class Cancelled(asyncio.CancelledError):
    """What a cancelled task gets thrown, as a task of asyncio does; a thread would get ``KeyboardInterrupt``."""


class Deadlock(AssertionError):
    """What was waited for did not happen, although nothing more can."""


class Livelock(AssertionError):
    """Things happen again and again, and no time passes."""


class Promise(Generic[T]):
    """A result to come. Awaiting it suspends a task into the world.

    Attributes:
        error: The error that it was settled with.
    """

    __slots__ = ("_done", "_result", "_then", "error")

    def __init__(self) -> None:
        self._done = False
        self._result: T | None = None
        self.error: BaseException | None = None
        self._then: list[Callable[[], None]] = []

    def done(self) -> bool:
        """Whether it is settled."""
        return self._done

    def settle(self, result: T | None = None, error: BaseException | None = None) -> None:
        """Settle it; later ones are ignored."""
        if not self._done:
            self._done, self._result, self.error = True, result, error
            then, self._then = self._then, []
            for call in then:
                call()

    def result(self) -> T:
        """The result, or the error raised."""
        if self.error is not None:
            raise self.error
        return self._result

    def then(self, call: Callable[[], None]) -> None:
        """Call when it is settled, or now."""
        if self._done:
            call()
        else:
            self._then.append(call)

    def __await__(self) -> Generator[Promise[T], None, T]:
        if not self._done:
            yield self
        return self.result()


class Task(Generic[T]):
    """A coroutine that runs in a process of the world.

    Attributes:
        outcome: Its result.
        owner: Whom the locks it takes belong to.
        cancel_at: At this one of its suspensions (counted from 1) it is cancelled instead of waiting.
        close_at: At this one its coroutine is closed, as a generator is that somebody breaks out of.
        suspensions: How often it has suspended.
    """

    def __init__(self, process: Process, work: Coroutine[Any, Any, T], name: str, owner: Any = None) -> None:
        self.process = process
        self.name = name
        self.owner = owner
        self.outcome: Promise[T] = Promise()
        self.cancel_at = math.inf
        self.close_at = math.inf
        self.suspensions = 0
        self._work = work
        self._waits_for: Promise[Any] | None = None
        self._cancelled = False

    def __repr__(self) -> str:
        return f"<Task {self.name} of {self.process.name}{' done' if self.done() else ''}>"

    def done(self) -> bool:
        """Whether it has ended."""
        return self.outcome.done()

    def cancel(self) -> None:
        """Throw :class:`Cancelled` into it, where it waits."""
        if not self.done() and not self._cancelled:
            self._cancelled = True
            self.process.world.soon(self.process, self._step)

    def start(self) -> None:
        """Let it run."""
        self.process.world.soon(self.process, self._step)

    def _step(self) -> None:
        if self.done():
            return
        world = self.process.world
        if self._waits_for is not None and not self._waits_for.done() and not self._cancelled:
            return
        self._waits_for = None
        before, world.current = world.current, self
        try:
            while True:
                if self._cancelled:
                    self._cancelled = False
                    promise = self._work.throw(Cancelled())
                else:
                    promise = self._work.send(None)
                self.suspensions += 1
                if self.suspensions == self.cancel_at:
                    world.note("cancel", self.name, self.suspensions)
                    self._cancelled = True
                    continue
                if self.suspensions == self.close_at:
                    world.note("close", self.name, self.suspensions)
                    self._work.close()
                    raise Cancelled
                break
        except StopIteration as done:
            self.outcome.settle(done.value)
        except BaseException as error:
            self.outcome.settle(error=error)
        else:
            self._waits_for = promise
            promise.then(lambda: world.soon(self.process, self._step))
        finally:
            world.current = before

    def drop(self) -> None:
        """End it as a crash does: nothing of it runs any more, no ``finally`` either."""
        self.outcome.settle(error=Cancelled("its process crashed"))
        with contextlib.suppress(RuntimeError, ValueError):  # It awaits in a finally; or it is the one that runs.
            self._work.close()


class Process:
    """A process: it can be paused and crash, and has a clock of its own.

    Attributes:
        rate: Seconds of its monotonic clock in a second of the world.
        paused: Whether nothing of it runs at present.
        crashed: Whether it is gone for good.
        resumed_at: Since when it has run, in the world's time.
    """

    def __init__(self, world: World, name: str, *, rate: float = 1.0) -> None:
        self.world = world
        self.name = name
        self.rate = rate
        self.paused = False
        self.crashed = False
        self.resumed_at = 0.0
        self.tasks: set[Task[Any]] = set()
        self._held_back: list[Callable[[], None]] = []
        self._clock_base = world.rng.uniform(10.0, 1000.0)

    def __repr__(self) -> str:
        state = "crashed" if self.crashed else "paused" if self.paused else "runs"
        return f"<Process {self.name} {state}>"

    def now(self) -> float:
        """Its monotonic clock."""
        return self._clock_base + self.world.now * self.rate

    def start(self, work: Coroutine[Any, Any, T], name: str, owner: Any = None) -> Task[T]:
        """Run a coroutine in it."""
        task = Task(self, work, name, owner)
        self.tasks.add(task)
        task.outcome.then(lambda: self.tasks.discard(task))
        task.start()
        return task

    def run(self, call: Callable[[], None]) -> None:
        """Call something in it, unless it is gone; when it is resumed, if it is paused."""
        if self.crashed:
            return
        if self.paused:
            self._held_back.append(call)
        else:
            call()

    def pause(self) -> None:
        """Stop it, as SIGSTOP does."""
        self.world.note("pause", self.name)
        self.paused = True

    def resume(self) -> None:
        """Let it go on."""
        self.world.note("resume", self.name)
        self.paused = False
        self.resumed_at = self.world.now
        held_back, self._held_back = self._held_back, []
        for call in held_back:
            self.world.soon(self, call)

    def crash(self) -> None:
        """End it, as SIGKILL does."""
        self.world.note("crash", self.name)
        self.crashed = True
        for task in list(self.tasks):
            task.drop()


class Node:
    """A server and its place in the network."""

    def __init__(self, world: World, name: str, *, rate: float = 1.0) -> None:
        self.world = world
        self.name = name
        self.rate = rate
        self.redis = SimulatedRedis(self._clock, on_message=self._on_message, name=name)
        self.redis.only_declared_keys = True
        self.listeners: list[Callable[[bytes, bytes], int]] = []
        self.messages: list[tuple[float, bytes, bytes]] = []
        self.commands = 0
        self._held_back: list[Callable[[], None]] = []

    @property
    def incarnation(self) -> int:
        """How often it was started again: what was sent to one is not answered by the next."""
        return self.redis.restarts

    def _clock(self) -> int:
        return int((EPOCH + self.world.now * self.rate) * 1_000_000)

    def _on_message(self, channel: bytes, payload: bytes, sharded: bool) -> int:
        self.messages.append((self.world.now, channel, payload))
        return sum(listener(channel, payload) for listener in list(self.listeners))

    def arrive(self, call: Callable[[], None]) -> None:
        """A request arrives: it is served at once, after a pause, or never."""
        if not self.redis.up:
            return
        if self.redis.paused:
            self._held_back.append(call)
        else:
            call()

    def pause(self) -> None:
        """Stop it, as SIGSTOP does: connections stay, nothing is answered."""
        self.world.note("pause", self.name)
        self.redis.paused = True

    def resume(self) -> None:
        """Let it serve what has arrived meanwhile, and go on."""
        self.world.note("resume", self.name)
        self.redis.paused = False
        held_back, self._held_back = self._held_back, []
        for call in held_back:
            call()

    def crash(self) -> None:
        """End it; every connection breaks."""
        self.world.note("crash", self.name)
        self.redis.crash()
        self._held_back = []
        self.world.break_connections(self)

    def restart(self, *, data: bool = True) -> None:
        """Start it again, with or without what it had stored."""
        self.world.note("restart", self.name, data)
        self.redis.restart(data=data)


class World:
    """All there is.

    Args:
        seed: Of every draw.
        nodes: How many servers.
        faults: What goes wrong on the network, and how often; nothing by default.
        latency: Seconds for one way, at least; twice as much at most, unless ``faults`` delays more.
    """

    def __init__(self, seed: int = 0, *, nodes: int = 1, faults: Faults | None = None, latency: float = 0.0005) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.faults = faults or Faults()
        self.latency = latency
        self.now = 0.0
        self.current: Task[Any] | None = None
        self.numbers = itertools.count(1)
        self.counts: dict[str, int] = {}
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = itertools.count()
        self._trace = blake2b(digest_size=16)
        self._broken: list[Callable[[Node], None]] = []
        self._at_once = 0
        #: Called after each script that a server ran: node, script's name, keys, arguments, result (or error).
        self.watchers: list[Callable[[Node, str, list[bytes], list[bytes], Any], None]] = []
        self.nodes = [Node(self, f"node{index}") for index in range(nodes)]
        self.processes: list[Process] = []

    def __repr__(self) -> str:
        return f"<World {self.seed} at {self.now:.6f} s, {len(self._events)} events ahead>"

    @property
    def node(self) -> Node:
        """The only server, or the first."""
        return self.nodes[0]

    @property
    def trace(self) -> str:
        """A hash over all that has happened: the same for the same seed."""
        return self._trace.hexdigest()

    def note(self, what: str, *details: object) -> None:
        """Count something, and make it part of the trace."""
        self.counts[what] = self.counts.get(what, 0) + 1
        self._trace.update(repr((round(self.now, 9), what, details)).encode())

    def draws(self, fault: str, faults: Faults | None = None) -> bool:
        """Whether something goes wrong now; what does is noted."""
        probability = getattr(faults or self.faults, fault)
        if not probability or self.rng.random() >= probability:
            return False
        self.note(fault)
        return True

    def process(self, name: str, *, rate: float = 1.0) -> Process:
        """A new process."""
        process = Process(self, name, rate=rate)
        self.processes.append(process)
        return process

    # ---- events --------------------------------------------------------------------------------------------------

    def at(self, time: float, call: Callable[[], None]) -> None:
        """Let something happen at a time of the world."""
        heapq.heappush(self._events, (max(time, self.now), next(self._sequence), call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Let something happen in a while."""
        self.at(self.now + seconds, call)

    def soon(self, process: Process, call: Callable[[], None]) -> None:
        """Let a process do something now, after what it does at present."""
        self.at(self.now, lambda: process.run(call))

    def pause_of(self, process: Process, seconds: float) -> Promise[bool]:
        """A promise that is settled when so many seconds of a process's clock are over."""
        promise: Promise[bool] = Promise()
        if seconds < math.inf:
            self.after(seconds / process.rate, lambda: promise.settle(False))
        return promise

    def step(self) -> bool:
        """Let the next thing happen. Returns whether there was one.

        Raises:
            Livelock: So much has happened at one moment that somebody must be spinning.
        """
        if not self._events:
            return False
        time, _, call = heapq.heappop(self._events)
        if time > self.now:
            self.now = time
            self._at_once = 0
        else:
            self._at_once += 1
            if self._at_once > AT_ONCE:
                raise Livelock(f"{AT_ONCE} events at one moment in {self!r}")
        call()
        return True

    def run(self, *, until: Callable[[], bool] | None = None, seconds: float = math.inf) -> bool:
        """Let things happen until a condition holds, or so much time is over.

        Returns:
            Whether the condition holds.

        Raises:
            Deadlock: Nothing can happen any more, and the condition does not hold.
        """
        end = self.now + seconds
        while not (until is not None and until()):
            if not self._events or self._events[0][0] > end:
                if end < math.inf:
                    self.now = max(self.now, end)
                    return until is not None and until()
                if until is None:
                    return True
                raise Deadlock(f"nothing more can happen in {self!r}, and what was waited for has not")
            self.step()
        return True

    def end(self) -> None:
        """Let nothing happen any more: every task is dropped where it is."""
        self._events.clear()
        for process in self.processes:
            while process.tasks:  # One that is dropped may start others.
                for task in list(process.tasks):
                    task.drop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    # ---- the network ---------------------------------------------------------------------------------------------

    def travel(self) -> float:
        """Seconds for one way of one packet."""
        return self.rng.uniform(self.latency, 2 * self.latency) + self.faults.extra_delay(self.rng)

    def on_break(self, broken: Callable[[Node], None]) -> None:
        """Be told when the connections to a node break."""
        self._broken.append(broken)

    def break_connections(self, node: Node) -> None:
        """Break every connection to a node."""
        for broken in list(self._broken):
            broken(node)

    def states(self) -> Iterator[tuple[str, dict[bytes, Any]]]:
        """What each server stores, for checkers."""
        for node in self.nodes:
            yield node.name, node.redis.dump()
