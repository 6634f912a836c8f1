"""Connections in a simulated world: what is sent on one arrives in order or not at all, and it breaks as a whole.

The third transport, beside those of threads and of asyncio: it carries the same bytes, and everything that decides
about them (:class:`pyredisson._net.link.ServerLink`, :class:`pyredisson._net.cluster.ClusterLink`,
:class:`pyredisson._net.subscriber.Subscriber`) is the code that leads real connections.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, final

import hiredis
import redis.exceptions as rx

import pyredisson
from pyredisson._core.failures import Failure, NotSent, Unanswered
from pyredisson._net.link import Transport
from pyredisson._net.wire import Address, Script, pack, reply_error, script
from tests.simulated.engine.redis import ServerError
from tests.simulated.engine.runtime import SimulatedTicket
from tests.simulated.engine.scripting import sha1_of
from tests.simulated.engine.world import Node, Process, Promise, World


@lru_cache(maxsize=4096)
def _commands(data: bytes) -> tuple[tuple[bytes, ...], ...]:
    """The commands in what was sent."""
    reader = hiredis.Reader()
    reader.feed(data)
    found = []
    while (command := reader.gets()) is not False:
        found.append(tuple(command))
    return tuple(found)


@cache
def _scripts() -> list[Script]:
    return [script(path.stem) for path in Path(pyredisson.__file__).parent.glob("_lua/*.lua")]


def keys_of(words: Sequence[bytes]) -> Sequence[bytes]:
    """The keys that a command is about."""
    name = words[0].upper()
    if name in (b"EVAL", b"EVALSHA"):
        return words[3 : 3 + int(words[2])]
    if name in (b"INFO", b"PING", b"WAIT", b"ASKING", b"CLUSTER", b"PUBSUB", b"SENTINEL", b"PUBLISH"):
        return ()
    return words[1:2]


class Host(Node):
    """A server that connections lead to; what comes on them are commands, as bytes."""

    def __init__(self, network: Network, name: str, address: Address) -> None:
        super().__init__(network.world, name)
        self.network = network
        self.address = address
        self.streams: dict[SimulatedStream, None] = {}
        self.wires: dict[Wire, None] = {}
        self._names: dict[str, str] = {}
        network.hosts[address] = self

    def serve(self, words: Sequence[bytes], wire: Wire) -> Any:
        """Run a command that came on a connection, and return its reply, or a promise of that.

        Raises:
            ServerError: That is the reply.
        """
        name = words[0].upper()
        if name in (b"EVAL", b"EVALSHA"):
            return self._run(name, words)
        return self.redis.command(*words)

    def _run(self, name: bytes, words: Sequence[bytes]) -> Any:
        count = int(words[2])
        keys, args = list(words[3 : 3 + count]), list(words[3 + count :])
        if self.world.draws("forget_scripts"):
            self.redis.script_flush()
        sha = sha1_of(words[1]) if name == b"EVAL" else words[1].decode()
        result = self.redis.eval(words[1], keys, args) if name == b"EVAL" else self.redis.evalsha(sha, keys, args)
        script = self.network.names.get(sha, sha)
        for watch in self.world.watchers:
            watch(self, script, keys, args, result)
        return result

    def listen(self, words: Sequence[bytes], stream: SimulatedStream) -> list[Any]:
        """Run a command on a connection that subscribes, and return what is said to it."""
        name = words[0].upper()
        if name == b"PING":
            return [[b"pong", b""]]
        replies: list[Any] = []
        for channel in words[1:]:
            sharded = name.startswith(b"S") and name != b"SUBSCRIBE"
            if sharded and (error := self.refuses_channel(channel)) is not None:
                replies.append(error)
                continue
            key = (channel, sharded)
            if name in (b"SUBSCRIBE", b"SSUBSCRIBE"):
                stream.channels[key] = None
            else:
                stream.channels.pop(key, None)
            replies.append([name.lower(), channel, len(stream.channels)])
        return replies

    def refuses_channel(self, channel: bytes) -> Exception | None:
        """Why a channel of a shard is not heard here."""
        return None

    def _on_message(self, channel: bytes, payload: bytes, sharded: bool) -> int:
        heard = super()._on_message(channel, payload, sharded)
        for host in self.audience(channel, sharded=sharded):
            for stream in list(host.streams):
                heard += stream.publish(channel, payload, sharded=sharded)
        return heard

    def audience(self, channel: bytes, *, sharded: bool) -> list[Host]:
        """The servers whose subscribers hear what is published here."""
        return [self]


@final
class Network:
    """Which server stands behind which address, and who can reach whom.

    Attributes:
        hosts: The servers.
        names: Of scripts, by their digests; for those who watch.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.hosts: dict[Address, Host] = {}
        self.names = {each.sha: each.name for each in _scripts()}
        self._cut: set[tuple[Process, Host]] = set()
        world.on_break(self._broken)

    def cut(self, process: Process, host: Host) -> None:
        """From now on nothing comes through between the two, in either direction, and nobody is told."""
        self.world.note("cut", process.name, host.name)
        self._cut.add((process, host))

    def heal(self, process: Process, host: Host) -> None:
        """They reach each other again."""
        self.world.note("heal", process.name, host.name)
        self._cut.discard((process, host))

    def heal_all(self) -> None:
        """Everybody reaches everybody."""
        self._cut.clear()

    def reaches(self, process: Process, host: Host) -> bool:
        """Whether what one sends comes to the other."""
        return (process, host) not in self._cut

    def _broken(self, node: Node) -> None:
        if isinstance(node, Host):
            for end in [*node.wires, *node.streams]:
                end.broken()


class Port:
    """The network as one client of a process sees it.

    Attributes:
        streams: Its connections for messages that are open.
    """

    def __init__(self, process: Process, network: Network) -> None:
        self.process = process
        self.world = process.world
        self.network = network
        self.streams: dict[SimulatedStream, None] = {}

    def subscribed(self) -> set[str]:
        """The channels that some server sends it at present."""
        return {channel.decode() for stream in self.streams for channel, _ in stream.channels}

    async def reach(self, address: Address, timeout: float) -> Host:
        """Connect. Raises ``NotSent``."""
        world, host = self.world, self.network.hosts.get(address)
        if host is not None and not self.network.reaches(self.process, host):
            await world.pause_of(self.process, timeout)
            raise NotSent(rx.TimeoutError("Timeout connecting to server"))
        await world.pause_of(self.process, 2 * world.travel())
        if host is None or not host.redis.up:
            raise NotSent(rx.ConnectionError("Connection refused."))
        return host


class _Way:
    """One direction of a connection: what is lost on it is sent again, so that nothing arrives before it."""

    #: Until what did not arrive is sent again, in seconds.
    AGAIN = 0.2

    def __init__(self, world: World, reaches: Callable[[], bool]) -> None:
        self._world = world
        self._reaches = reaches
        self._queue: deque[Callable[[], None]] = deque()
        self._waits = False
        self._last = 0.0

    def carry(self, call: Callable[[], None]) -> None:
        """Let something happen when what is sent now arrives."""
        self._queue.append(call)
        if not self._waits:
            self._go()

    def _go(self) -> None:
        self._waits = False
        while self._queue:
            if not self._reaches():
                self._waits = True
                self._world.after(self.AGAIN, self._go)
                return
            self._last = max(self._last, self._world.now + self._world.travel())
            self._world.at(self._last, self._queue.popleft())


class _End(ABC):
    """One process's end of one connection."""

    def __init__(self, port: Port, host: Host) -> None:
        self.port = port
        self.host = host
        self.open = True
        self._there = _Way(port.world, self._reaches)
        self._back = _Way(port.world, self._reaches)

    def _reaches(self) -> bool:
        return not self.open or self.port.network.reaches(self.port.process, self.host)

    def _carry(self, call: Callable[[], None]) -> None:
        """Let something happen at the server, when what is sent now arrives there."""

        def arrive() -> None:
            if self.open:
                self.host.arrive(lambda: call() if self.open else None)

        self._there.carry(arrive)

    def _carry_back(self, call: Callable[[], None]) -> None:
        """Let something happen here, when what the server sends now arrives."""
        self._back.carry(lambda: self.port.process.run(call))

    @abstractmethod
    def broken(self) -> None:
        """The server's end is closed."""

    def _carry_end(self, call: Callable[[], None]) -> None:
        self.port.world.after(self.port.world.travel(), lambda: self.port.process.run(call))


@final
class Wire(_End):
    """A connection for requests.

    Attributes:
        address: Where its server is, if sentinels told it.
        asking: Whether the next request is to be taken although its slot is not (yet) served here.
        offset: What its server had written after the last request on it.
        used: When a request was answered on it last, by its process's clock.
    """

    def __init__(self, port: Port, host: Host, address: Address | None) -> None:
        super().__init__(port, host)
        self.address = address
        self.asking = False
        self.offset = 0
        self.used = port.process.now()
        self._answer: Promise[Any] | None = None
        host.wires[self] = None

    async def call(self, data: bytes, timeout: float) -> Any:
        """See :meth:`pyredisson._net.wire.Wire.call`."""
        return (await self.call_many([data], timeout))[0]

    async def call_many(self, requests: Sequence[bytes], timeout: float) -> list[Any]:
        """See :meth:`pyredisson._net.wire.Wire.call_many`."""
        process, world, faults = self.port.process, self.port.world, self.port.world.faults
        if not self.open:
            raise NotSent(rx.ConnectionError("Error while writing to socket: Broken pipe"))
        commands = _commands(b"".join(requests))
        answer: Promise[Any] = Promise()
        self._answer = answer

        def serve(*, again: bool = False) -> None:
            self.host.commands += 1
            results = [self._execute(words) for words in commands]
            if not again and world.draws("duplicate", faults):
                # Right behind the first copy: a connection does not deliver twice, but a proxy may resend.
                world.after(world.latency, lambda: self.host.arrive(lambda: serve(again=True)))
            if again or world.draws("lose_reply", faults):
                return
            if world.draws("reset", faults):
                self.broken()
                return
            last = results[-1]
            if isinstance(last, Promise):  # It comes alone, and later.
                last.then(lambda: self._carry_back(lambda: answer.settle([*results[:-1], last.result()])))
            else:
                self._carry_back(lambda: answer.settle(results))

        if world.draws("straggle", faults):
            late = world.rng.uniform(0.0, faults.straggle_seconds)
            world.after(late, lambda: self.host.arrive(lambda: serve(again=True)))
        elif not world.draws("lose_request", faults):
            self._carry(serve)
        silence = Unanswered(rx.TimeoutError(f"no reply from the server within {timeout:.3g} s"))
        world.after(timeout / process.rate, lambda: process.run(lambda: answer.settle(silence)))
        replies = await answer
        self._answer = None
        if isinstance(replies, Failure):
            raise type(replies)(replies.cause)
        return list(replies)

    def usable(self) -> bool:
        """See :meth:`pyredisson._net.wire.Wire.usable`."""
        return self.open

    def _execute(self, words: Sequence[bytes]) -> Any:
        try:
            result = self.host.serve(words, self)
        except ServerError as error:
            result = reply_error(str(error))
        told = "later" if isinstance(result, Promise) else str(result) if isinstance(result, Exception) else result
        self.port.world.note(words[0].decode(), self.port.process.name, self.host.name, told)
        return result

    def broken(self) -> None:
        self.host.wires.pop(self, None)
        if self.open:
            self.open = False
            answer = self._answer
            if answer is not None:
                lost = Unanswered(rx.ConnectionError("Connection closed by server."))
                self._carry_end(lambda: answer.settle(lost))

    def close(self) -> None:
        """Close it from here."""
        self.open = False
        self.host.wires.pop(self, None)

    retire = abandon = close


@final
class SimulatedStream(_End):
    """A connection on which messages come by themselves.

    Attributes:
        channels: What its server sends here: each with whether that is a channel of a shard.
    """

    def __init__(self, port: Port, host: Host) -> None:
        super().__init__(port, host)
        self.channels: dict[tuple[bytes, bool], None] = {}
        self._inbox: deque[Any] = deque()
        self._ended = False
        self._news = SimulatedTicket(port.process)
        host.streams[self] = None
        port.streams[self] = None

    def send(self, data: bytes) -> None:
        if not self.open:
            raise rx.ConnectionError("Error while writing to socket: Broken pipe")

        def serve() -> None:
            for words in _commands(data):
                for reply in self.host.listen(words, self):
                    self.push(reply)

        self._carry(serve)

    def push(self, reply: Any) -> None:
        """The server says something."""

        def arrive() -> None:
            self._inbox.append(reply)
            self._news.notify()

        self.port.world.note("push", self.port.process.name, str(reply) if isinstance(reply, Exception) else reply)
        self._carry_back(arrive)

    def publish(self, channel: bytes, payload: bytes, *, sharded: bool) -> int:
        """Send a message, if that is listened to. Returns whether it is, as a number."""
        if (channel, sharded) not in self.channels or not self.open:
            return 0
        if self.port.world.draws("lose_message"):
            return 1
        if self.port.world.draws("drop_subscriber"):
            self.broken()
        else:
            self.push([b"smessage" if sharded else b"message", channel, payload])
        return 1

    async def read(self, timeout: float) -> list[Any] | None:
        if not self._ended:
            await self._news.wait(timeout)
        found = list(self._inbox)
        self._inbox.clear()
        return None if self._ended and not found else found

    def wake(self) -> None:
        self._news.notify()

    def broken(self) -> None:
        self._leave()

        def end() -> None:
            self._ended = True
            self._news.notify()

        self._carry_end(end)

    def close(self) -> None:
        self._leave()

    def _leave(self) -> None:
        self.open = False
        self.channels.clear()
        self.host.streams.pop(self, None)
        self.port.streams.pop(self, None)


class SimulatedDial:
    """See :class:`pyredisson._net.wire.Dial`."""

    def __init__(self, process: Process, work: Coroutine[Any, Any, None]) -> None:
        self.began = process.now()
        self._process = process
        self._task = process.start(work, f"{process.name}/connecting")

    def done(self) -> bool:
        return self._task.done()

    async def wait(self, seconds: float) -> bool:
        over = self._process.world.pause_of(self._process, seconds)
        self._task.outcome.then(lambda: over.settle(True))
        await over
        return self._task.done()

    @property
    def failure(self) -> BaseException | None:
        return self._task.outcome.error if self._task.done() else None


@final
class SimulatedTransport(Transport):
    """Makes the connections of a link in a simulated world. One belongs to one request at a time, as under threads.

    Args:
        port: Whose they are.
        address: Where the server is; ``None`` if it has to be looked up.
    """

    direct = False

    def __init__(self, port: Port, address: Address | None = None) -> None:
        self._port = port
        self._address = address
        self._closed = False
        self.now = staticmethod(port.process.now)

    def caller(self) -> object:
        return self._port.world.current

    def _reach(self, address: Address | None, timeout: float) -> Coroutine[Any, Any, Host]:
        place = address or self._address
        assert place is not None, "neither an address nor a way to find one"
        return self._port.reach(place, timeout)

    async def open(self, address: Address | None, timeout: float) -> Wire:
        return Wire(self._port, await self._reach(address, timeout), address)

    async def open_stream(self, address: Address | None, timeout: float) -> SimulatedStream:
        stream = SimulatedStream(self._port, await self._reach(address, timeout))
        if self._closed:
            stream.close()
        return stream

    async def query_sentinel(self, settings: dict[str, Any], command: tuple[str, ...], timeout: float) -> Any:
        wire = Wire(self._port, await self._port.reach((settings["host"], settings["port"]), timeout), None)
        try:
            return await wire.call(pack(*command), timeout)
        except Failure as failure:
            raise failure.cause from None
        finally:
            wire.close()

    def dial(self, work: Callable[[], Coroutine[Any, Any, None]]) -> SimulatedDial:
        return SimulatedDial(self._port.process, work())

    def close(self) -> None:
        self._closed = True
