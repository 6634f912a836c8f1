"""A world in one thread and virtual time, for the parts of the core that can be tested by themselves."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from pyredisson._core.client import ClientCore
from pyredisson._core.failures import Failure
from pyredisson._core.owners import Caller
from pyredisson._core.presence import Identity
from pyredisson._core.replicas import ReplicaAcknowledgement
from pyredisson._core.runtime import Background, NumberedRequest, Reply, Request, Ticket, numbered
from pyredisson.lease import Lease


@dataclass
class FakeOwner(Caller):
    """A thread that dies when it is told to."""

    number: int = 1
    lives: bool = True

    def __post_init__(self) -> None:
        self.name = f"fake owner {self.number}"

    def describe(self) -> str:
        return self.name

    def alive(self) -> bool:
        return self.lives

    def gone_hint(self) -> str:
        return "it was told to go"


class FakeMutex:
    """Fails instead of deadlocking when it is taken twice."""

    def __init__(self) -> None:
        self.held = False

    def __enter__(self) -> None:
        assert not self.held, "taken twice"
        self.held = True

    def __exit__(self, *_: object) -> None:
        self.held = False


class FakeTicket:
    """Waiting lets virtual time pass, and with it happens what was planned for then."""

    def __init__(self, world: FakeRuntime) -> None:
        self._world = world
        self.notifications = 0
        self.waits: list[float] = []

    def notify(self) -> None:
        self.notifications += 1

    async def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self._world.pass_time(seconds, until=lambda: self.notifications > 0)
        notified, self.notifications = self.notifications > 0, 0
        return notified


class FakeBackground:
    def __init__(self) -> None:
        self.nudges = 0

    def nudge(self) -> None:
        self.nudges += 1


@dataclass
class FakeRuntime:
    """See :class:`pyredisson._core.runtime.Runtime`.

    Attributes:
        time: What ``now()`` says.
        who: What ``owner()`` says.
        subscriptions: What was asked for.
        unsubscriptions: What was no longer asked for.
        called_back: The callbacks that were called.
        answers: What ``eval`` does, in turn: an error to raise, or a reply.
        asked: What ``eval`` was asked, and when.
    """

    time: float = 1000.0
    who: Caller = field(default_factory=FakeOwner)
    subscriptions: list[str] = field(default_factory=list)
    unsubscriptions: list[str] = field(default_factory=list)
    called_back: list[tuple[object, ...]] = field(default_factory=list)
    answers: list[Reply | Exception] = field(default_factory=list)
    asked: list[tuple[float, Request]] = field(default_factory=list)
    _plans: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list)
    _order: itertools.count[int] = field(default_factory=itertools.count)
    suspends: bool = False
    lease = Lease

    def at(self, seconds: float, happening: Callable[[], object]) -> None:
        """Plan something for so many seconds from now."""
        heapq.heappush(self._plans, (self.time + seconds, next(self._order), happening))

    def pass_time(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Let time pass, and what was planned happen, until then or until something is true."""
        over = self.time + seconds
        while not until():
            if not self._plans or self._plans[0][0] > over:
                assert over < math.inf, "waiting without end, and nothing will happen any more"
                self.time = over
                return
            self.time, _, happening = heapq.heappop(self._plans)
            happening()

    def now(self) -> float:
        return self.time

    def check_process(self) -> None:
        pass

    def owner(self) -> Caller:
        return self.who

    def stuck_behind(self, holder: Caller) -> str | None:
        return None

    def jitter(self, low: float, high: float) -> float:
        return high

    def random_bytes(self, count: int, /) -> bytes:
        return next(self._order).to_bytes(count, "big")

    def identity(self) -> Identity:
        return Identity("app", "host", 1, "0")

    def unix_time(self) -> float:
        return self.time

    def clients(self) -> list[ClientCore]:
        return []

    def new_id(self) -> str:
        return "c0ffee00-0000-4000-8000-000000000000"

    def mutex(self) -> FakeMutex:
        return FakeMutex()

    def inside(self, mutex: object) -> bool:
        return False

    def thread(self) -> int:
        return 0

    def ticket(self, lock: str = "") -> Ticket:
        return FakeTicket(self)

    def spawn(self, step: Callable[[], Coroutine[Any, Any, float]], name: str) -> Background:
        return FakeBackground()

    def prepare(self, script: str, keys: tuple[str, ...], args: tuple[str | int | bytes, ...]) -> Request:
        return (script, keys, args)

    def prepare_command(self, command: tuple[str, ...]) -> Request:
        return command

    def prepare_numbered(
        self, script: str, keys: tuple[str, ...], args: tuple[str | int | bytes, ...]
    ) -> NumberedRequest:
        return numbered(self.prepare, script, keys, args)

    def place(self, name: str) -> None:
        return None

    def node_of(self, key: str) -> str:
        return ""

    def counts_listeners(self) -> bool:
        return True

    def subscribe(self, channel: str) -> None:
        self.subscriptions.append(channel)

    def unsubscribe(self, channel: str) -> None:
        self.unsubscriptions.append(channel)

    def call_back(self, callback: Callable[..., object], *args: object) -> None:
        self.called_back.append(args)

    async def eval(self, request: Request, timeout: float) -> Reply:
        self.asked.append((self.time, request))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def eval_synced(
        self, request: Request, timeout: float, replica_wait: ReplicaAcknowledgement, sync_timeout: float
    ) -> tuple[Reply, int | Failure]:
        return await self.eval(request, timeout), 0

    async def eval_all(self, requests: list[Request], timeout: float) -> list[Reply | Failure]:
        answers: list[Reply | Failure] = []
        for request in requests:
            try:
                answers.append(await self.eval(request, timeout))
            except Failure as failure:
                answers.append(failure)
        return answers

    async def execute(self, command: tuple[str, ...], timeout: float) -> Reply:
        return await self.eval(command, timeout)

    def shield(self) -> AbstractContextManager[object]:
        return nullcontext()

    async def sleep(self, seconds: float) -> None:
        self.pass_time(seconds)

    async def guard(self, work: Coroutine[Any, Any, Any], budget: float, *, leaving: bool = True) -> Any:
        return await work
