"""The core's world in the simulator: what may block suspends into :class:`tests.simulated.engine.world.World`."""

from __future__ import annotations

import contextlib
import inspect
import math
import uuid
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Generic, TypeVar, final

import redis.exceptions as rx
from typing_extensions import Self

from pyredisson._asyncio.client import Factory
from pyredisson._core.client import ClientCore
from pyredisson._core.failures import Failure, NotSent, Unanswered
from pyredisson._core.owners import Caller
from pyredisson._core.presence import Identity
from pyredisson._core.replicas import ReplicaAcknowledgement
from pyredisson._core.runtime import Background, NumberedRequest, Reply, Request, ServerRequest, Ticket, numbered
from pyredisson._core.subscriptions import Subscriptions
from pyredisson._net import wire as resp
from pyredisson._net.link import Inspect
from pyredisson._net.wire import failure_of, reply_error
from pyredisson.config import Config
from pyredisson.lease import AsyncLease as Lease
from tests.simulated.engine.redis import ServerError
from tests.simulated.engine.world import Cancelled, Node, Process, Promise, Task, World

T = TypeVar("T")
AnySeam = TypeVar("AnySeam", bound="Seam")
RequestT = TypeVar("RequestT", bound=ServerRequest)


class SimulatedOwner(Caller):
    """An owner: as a rule a task, but a test may let several tasks ask in one name, one after another."""

    __slots__ = ("ended",)

    def __init__(self, world: World) -> None:
        self.number = next(world.numbers)
        self.name = f"simulated owner {self.number}"
        self.ended = False

    def alive(self) -> bool:
        """Whether it still runs."""
        return not self.ended

    def describe(self) -> str:
        """What to call it in a message."""
        return self.name

    def gone_hint(self) -> str:
        """What to tell of it, when it ended with a lock in its hands."""
        return f"simulated owner {self.number} ended without releasing it"


class SimulatedTicket:
    """A promise that is made when there is something to wait for."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._notified = False
        self._promise: Promise[bool] | None = None

    def notify(self) -> None:
        self._notified = True
        if self._promise is not None:
            self._promise.settle(True)

    async def wait(self, seconds: float) -> bool:
        if not self._notified:
            self._promise = self._process.world.pause_of(self._process, seconds)
            try:
                await self._promise
            finally:
                self._promise = None
        notified, self._notified = self._notified, False
        return notified


class SimulatedLoop:
    """A task that steps, sleeps, and steps again. Started by its first nudge."""

    def __init__(self, process: Process, step: Callable[[], Coroutine[Any, Any, float]], name: str) -> None:
        self._process = process
        self._step = step
        self._name = name
        self._nudged = SimulatedTicket(process)
        self._task: Task[None] | None = None

    def nudge(self) -> None:
        self._nudged.notify()
        if self._task is None and not self._process.crashed:
            self._task = self._process.start(self._run(), self._name)

    async def _run(self) -> None:
        while True:
            pause = await self._step()
            await self._nudged.wait(pause)

    def stop(self) -> None:
        if self._task is not None:
            self._task.drop()


class Seam:
    """What every client sees alike of a simulated world, whatever it talks to.

    Attributes:
        interrupt_at: The calls of this seam, counted from 1, at which :class:`Cancelled` is raised instead.
        calls: How many such calls there have been.
    """

    suspends = True
    lease = Lease
    eval: Callable[[Request, float], Coroutine[Any, Any, Reply]]

    def __init__(self, process: Process) -> None:
        self.process = process
        self.world = process.world
        self.calls = 0
        self.interrupt_at: frozenset[int] = frozenset()
        self._loops: list[SimulatedLoop] = []

    def interruptible(self) -> None:
        """This is a point at which the caller can be interrupted."""
        self.calls += 1
        if self.calls in self.interrupt_at:
            self.world.note("interrupt", self.process.name, self.calls)
            raise Cancelled

    # ---- plain ---------------------------------------------------------------------------------------------------

    def prepare_numbered(
        self, script: str, keys: tuple[str, ...], args: tuple[str | int | bytes, ...]
    ) -> NumberedRequest:
        return numbered(self.prepare, script, keys, args)

    def now(self) -> float:
        return self.process.now()

    def check_process(self) -> None:
        pass  # Processes of the world do not fork.

    def owner(self) -> SimulatedOwner:
        task = self.world.current
        if task is None or self.process.crashed:  # What is closed by a crash finds nobody.
            raise RuntimeError("a lock belongs to a task of the world")
        if task.owner is None:
            owner = task.owner = SimulatedOwner(self.world)
            task.outcome.then(lambda: setattr(owner, "ended", True))
        owner = task.owner
        assert isinstance(owner, SimulatedOwner)
        return owner

    def call_later(self, seconds: float, call: Callable[[], None]) -> Callable[[], object]:
        cancelled: list[bool] = []

        def due() -> None:
            if not cancelled and not self.process.crashed:
                call()

        self.world.at(self.world.now + seconds, due)
        return lambda: cancelled.append(True)

    def reopen(self) -> None:
        pass

    def close_again(self) -> None:
        pass

    def in_background(self) -> bool:
        return False

    def stuck_behind(self, holder: Caller) -> str | None:
        return None

    def jitter(self, low: float, high: float) -> float:
        return self.world.rng.uniform(low, high)

    def identity(self) -> Identity:
        return Identity(None, self.process.name, 1, "0")

    def unix_time(self) -> float:
        return 1_700_000_000 + self.world.now

    def clients(self) -> list[ClientCore]:
        return []

    def new_id(self) -> str:
        return str(uuid.UUID(int=self.world.rng.getrandbits(128), version=4))

    def random_bytes(self, count: int, /) -> bytes:
        return self.world.rng.getrandbits(8 * count).to_bytes(count, "big")

    def mutex(self) -> AbstractContextManager[Any]:
        return contextlib.nullcontext()

    def inside(self, mutex: object) -> bool:
        return False

    def thread(self) -> int:
        return 0

    def ticket(self, lock: str = "") -> Ticket:
        return SimulatedTicket(self.process)

    def spawn(self, step: Callable[[], Coroutine[Any, Any, float]], name: str) -> Background:
        loop = SimulatedLoop(self.process, step, f"{self.process.name}/{name}")
        self._loops.append(loop)
        return loop

    def call_back(self, callback: Callable[..., object], *args: object) -> None:
        result = callback(*args)
        if inspect.iscoroutine(result):
            self.process.start(result, f"{self.process.name}/callback")

    # ---- may block -----------------------------------------------------------------------------------------------

    async def fan_out(self, requests: Iterable[RequestT]) -> list[RequestT]:
        self.interruptible()
        made: list[RequestT] = []
        tasks: list[Task[Any]] = []
        for request in requests:
            made.append(request)
            runtime = request.runtime
            if request.replica_wait is None:
                work: Any = runtime.eval(request.prepared, request.timeout)
            else:
                work = runtime.eval_synced(request.prepared, request.timeout, request.replica_wait, request.timeout)
            tasks.append(self.process.start(work, f"{self.process.name}/request"))
        for request, task in zip(made, tasks, strict=True):
            try:
                answer = await task.outcome
            except Failure as failure:
                answer = failure
            request.answer = answer
        return made

    def shield(self) -> AbstractContextManager[object]:
        return contextlib.nullcontext()

    async def sleep(self, seconds: float) -> None:
        self.interruptible()
        await self.world.pause_of(self.process, seconds)

    async def guard(self, work: Coroutine[Any, Any, T], budget: float, *, leaving: bool = True) -> T | None:
        task = self.process.start(work, f"{self.process.name}/cleanup")
        over: Promise[bool] = Promise()
        task.outcome.then(lambda: over.settle(True))
        self.world.after(budget / self.process.rate, lambda: over.settle(False))
        cancelled: Cancelled | None = None
        while not over.done():
            try:
                await over
            except Cancelled as error:
                cancelled = error
        if not task.done():
            task.cancel()
        if cancelled is not None and not leaving:
            raise cancelled
        return task.outcome.result() if task.done() else None

    def close(self) -> None:
        """End what runs beside the callers."""
        for loop in self._loops:
            loop.stop()


class SimulatedRuntime(Seam):
    """The view of a client that talks to one server.

    Attributes:
        requests: How many requests it has sent.
    """

    def __init__(self, process: Process, node: Node) -> None:
        super().__init__(process)
        self.node = node
        self.requests = 0
        self._subscriptions: Subscriptions | None = None
        self._channels: set[str] = set()
        self._heard_at = 0.0  # When the last message arrives.
        self._reachable = True
        self._reconnecting = False
        self._closed = False
        self._inspect: Inspect | None = None
        self._known = False  # The server was asked who it is, on the connection that stands.
        self.world.on_break(self._broken)

    def attach(self, subscriptions: Subscriptions, inspect: Inspect) -> None:
        """Learn whom messages are for, and who wants to know of each new connection."""
        self._subscriptions = subscriptions
        self._inspect = inspect
        self.node.listeners.append(self._message)

    def prepare(self, script: str, keys: tuple[str, ...], args: tuple[str | int | bytes, ...]) -> Request:
        raw = [arg if isinstance(arg, bytes) else str(arg).encode() for arg in args]
        return resp.script(script), [key.encode() for key in keys], raw

    @staticmethod
    def prepare_command(command: tuple[str, ...]) -> Request:
        return command

    def place(self, name: str) -> None:
        return None

    def counts_listeners(self) -> bool:
        return True

    # ---- requests ------------------------------------------------------------------------------------------------

    async def eval(self, request: Request, timeout: float) -> Reply:
        if isinstance(request[0], str):
            return await self.execute(request, timeout)
        called, keys, args = request

        def execute() -> Any:
            result = run_script()
            for watch in self.world.watchers:
                watch(self.node, called.name, keys, args, result)
            return result

        def run_script() -> Any:
            redis = self.node.redis
            if self.world.draws("forget_scripts"):
                redis.script_flush()
            try:
                return redis.evalsha(called.sha, keys, args)
            except ServerError as error:
                if error.code != "NOSCRIPT":
                    raise
                return redis.eval(called.text, keys, args)

        return await self._request(called.name, execute, timeout)

    async def eval_all(self, requests: list[Request], timeout: float) -> list[Reply | Failure]:
        answers: list[Reply | Failure] = []
        for request in requests:
            try:
                answers.append(await self.eval(request, timeout))
            except Failure as failure:
                answers.append(failure)
        return answers

    async def eval_synced(
        self, request: Request, timeout: float, replica_wait: ReplicaAcknowledgement, sync_timeout: float
    ) -> tuple[Reply, int | Failure]:
        reply = await self.eval(request, timeout)
        replicas = replica_wait.wanted(reply)
        if not replicas:
            return reply, 0

        def acknowledged() -> Reply:
            if self.world.draws("unsynced"):
                return 0
            return self.node.redis.command("WAIT", replicas, max(1, math.ceil(1000 * sync_timeout)))

        try:
            acked = await self._request("WAIT", acknowledged, timeout + sync_timeout)
        except Failure as failure:
            return reply, failure
        assert isinstance(acked, int)
        return reply, acked

    async def execute(self, command: tuple[str, ...], timeout: float) -> Reply:
        return await self._request(command[0], lambda: self.node.redis.command(*command), timeout)

    def node_of(self, key: str) -> str:
        return ""

    async def execute_at(self, key: str, command: tuple[str, ...], timeout: float) -> Reply:
        raise NotSent(rx.ConnectionError("not simulated"))

    async def _request(self, what: str, execute: Callable[[], Any], timeout: float) -> Reply:
        self.interruptible()
        world, node, faults = self.world, self.node, self.world.faults
        if not node.redis.up or not self._reachable:
            await world.pause_of(self.process, world.travel())
            raise NotSent(rx.ConnectionError("Connection refused."))
        if not self._known and self._inspect is not None and not node.redis.paused:
            # It takes no time here, and no chance: histories are the same with and without it.
            self._inspect(node.redis.command("INFO"), 2 * world.latency)
            self._known = True
        self.requests += 1
        reply: Promise[Any] = Promise()
        incarnation = node.incarnation

        def serve(answer: bool) -> None:
            if answer and node.incarnation != incarnation:
                return  # Its connection ended with the server that it led to.
            node.commands += 1
            result: Any
            try:
                result = execute()
            except ServerError as error:
                result = reply_error(str(error))
            world.note(what, self.process.name, result if not isinstance(result, Exception) else str(result))
            if answer and world.draws("duplicate", faults):
                # Right behind the first copy: a connection does not deliver twice, but a proxy may resend.
                world.after(world.latency, lambda: node.arrive(lambda: serve(False)))
            if not answer or world.draws("lose_reply", faults):
                return
            if world.draws("reset", faults):
                result = Unanswered(rx.ConnectionError("Connection reset by peer"))
            world.after(world.travel(), lambda: self.process.run(lambda: reply.settle(result)))

        if world.draws("straggle", faults):
            late = world.rng.uniform(0.0, faults.straggle_seconds)
            world.after(late, lambda: node.arrive(lambda: serve(False)))
        elif not world.draws("lose_request", faults):
            world.after(world.travel(), lambda: node.arrive(lambda: serve(True)))
        silence = Unanswered(rx.TimeoutError("no reply from the server in time"))
        world.after(timeout / self.process.rate, lambda: self.process.run(lambda: reply.settle(silence)))

        answer = await reply
        self.interruptible()
        if isinstance(answer, Unanswered):
            raise answer
        if isinstance(answer, Exception):
            raise failure_of(answer)
        return answer

    # ---- messages ------------------------------------------------------------------------------------------------

    def subscribe(self, channel: str) -> None:
        self.world.after(2 * self.world.travel(), lambda: self.process.run(lambda: self._confirm(channel)))

    def _confirm(self, channel: str) -> None:
        if self._closed or self._subscriptions is None or channel not in self._subscriptions.wanted():
            return  # On a connection what was asked for last is done last.
        if not self._connected():
            self._reconnect(rx.ConnectionError("Connection refused."), 0.1)
            return
        self._channels.add(channel)
        self._subscriptions.confirmed(channel)
        self.unsubscribe(channel)  # Its waiters may have gone while it was under way.

    def _connected(self) -> bool:
        return self.node.redis.up and self._reachable

    def _reconnect(self, error: rx.ConnectionError, after: float) -> None:
        """All channels are lost with the connection; there is one try at a time to get them back."""
        if self._subscriptions is None:
            return
        self._subscriptions.lost_connection(error)
        if not self._reconnecting:
            self._reconnecting = True
            self.world.after(after, lambda: self.process.run(self._resubscribe))

    def _resubscribe(self) -> None:
        self._reconnecting = False
        if self._closed or self._subscriptions is None:
            return
        if not self._connected():
            self._reconnect(rx.ConnectionError("Connection refused."), 0.1)
            return
        for channel in self._subscriptions.wanted():
            self._confirm(channel)

    def unsubscribe(self, channel: str) -> None:
        self.world.after(0.2 / self.process.rate, lambda: self.process.run(self._leave_idle))

    def _leave_idle(self) -> None:
        if self._subscriptions is not None:
            self._channels.difference_update(self._subscriptions.take_idle(self.now()))

    def subscribed(self) -> set[str]:
        """The channels it listens to at present."""
        return set(self._channels)

    def _message(self, channel: bytes, payload: bytes) -> int:
        name = channel.decode()
        if name not in self._channels or self.process.crashed or self._closed:
            return 0
        if self.world.draws("lose_message"):
            return 1
        if self.world.draws("drop_subscriber"):
            self._drop_subscriber()
            return 1

        def notify() -> None:
            if self._subscriptions is not None:
                self._subscriptions.received(name, payload)
                self._leave_idle()  # As the subscriber does after each message.

        # One connection: no message overtakes another.
        self._heard_at = max(self.world.now + self.world.travel(), self._heard_at)
        self.world.at(self._heard_at, lambda: self.process.run(notify))
        return 1

    def _drop_subscriber(self) -> None:
        self._channels.clear()
        error = rx.ConnectionError("Connection closed by server.")
        self.world.after(self.world.travel(), lambda: self.process.run(lambda: self._reconnect(error, 0.05)))

    def _broken(self, node: Node) -> None:
        if node is self.node:
            self._known = False
            self._drop_subscriber()

    def cut(self) -> None:
        """Cut it off from its server: new requests find no connection."""
        self._reachable = False
        self._known = False
        self._drop_subscriber()

    def heal(self) -> None:
        """Let it reach its server again."""
        self._reachable = True

    def close(self) -> None:
        self._closed = True
        self._channels.clear()
        super().close()


class AnyClient(Factory, Generic[AnySeam]):
    """A client in a simulated process: what it makes is awaited in tasks of the world, as under asyncio.

    Args:
        runtime: What it sees of the world.
        core: What it does there.
        address: What its messages call the server.
    """

    def __init__(self, runtime: AnySeam, core: ClientCore, address: str) -> None:
        self.runtime = runtime
        self.core = self._core = core
        core.address = core.place = address

    @property
    def id(self) -> str:
        """See :attr:`pyredisson.Redisson.id`."""
        return self.core.id

    async def close(self) -> None:
        """See :meth:`pyredisson.Redisson.close`."""
        self.core.close()
        await self.core.end()
        self.runtime.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


@final
class SimulatedClient(AnyClient[SimulatedRuntime]):
    """A client that is connected to one simulated server.

    Args:
        process: Where it runs.
        config: Its settings.
        node: Which server it talks to; the world's first by default.
        presence: Whether it tells others of its locks. If not, histories are the same with and without that.
    """

    def __init__(
        self, process: Process, *, config: Config | None = None, node: Node | None = None, presence: bool = False
    ) -> None:
        runtime = SimulatedRuntime(process, node or process.world.node)
        config = replace(config or Config(), presence=presence)
        super().__init__(runtime, ClientCore(runtime, config), runtime.node.name)
        runtime.attach(self.core.subscriptions, self.core.server.inspect)
