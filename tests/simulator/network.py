"""Connections in a simulated world: what is sent on one arrives in order or not at all, and it breaks as a whole.

The third kind of link, beside those of threads and of asyncio: it sends the same bytes, and everything that decides
whereto (:class:`pyredisson.net.cluster.ClusterLink`, :class:`pyredisson.net.sentinel.Whereabouts`,
:class:`pyredisson.net.subscriber.Subscriber`) is the code that real connections are led by. A connection belongs to one
request at a time, as under threads.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, final

import hiredis
import redis.exceptions as rx

from pyredisson.core.runtime import Acknowledging, Failure, NotNow, NotSent, Reply, Unanswered
from pyredisson.net.link import CONNECTING, INFO, Inspect, nobody, wait_command
from pyredisson.net.resp import ASKING, Packed, failure_of, inspected, is_no_script, pack, reply_error, resent
from pyredisson.net.slots import Address
from tests.simulator.redis import ServerError
from tests.simulator.scripting import sha1_of
from tests.simulator.world import Node, Process, Promise, World

if TYPE_CHECKING:
    from pyredisson.net.sentinel import Whereabouts

__all__ = [
    "Host",
    "Locate",
    "Network",
    "Port",
    "SimulatedLink",
    "SimulatedStream",
    "Wire",
    "keys_of",
    "seconds_of",
]

Locate: TypeAlias = "Callable[[float], Any]"
"""Finds out where to connect, within so many seconds; to be awaited."""


@lru_cache(maxsize=4096)
def _commands(data: bytes) -> tuple[tuple[bytes, ...], ...]:
    """The commands in what was sent."""
    reader = hiredis.Reader()
    reader.feed(data)
    found = []
    while (command := reader.gets()) is not False:
        found.append(tuple(command))
    return tuple(found)


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
        forgets = self.world.faults.forget_scripts
        if forgets and self.world.rng.random() < forgets:
            self.world.note("forget_scripts")
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
        self.names: dict[str, str] = {}
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


class _End:
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

    def broken(self) -> None:
        """The server's end is closed."""
        raise NotImplementedError

    def _carry_end(self, call: Callable[[], None]) -> None:
        self.port.world.after(self.port.world.travel(), lambda: self.port.process.run(call))


@final
class Wire(_End):
    """A connection for requests.

    Attributes:
        asking: Whether the next request is to be taken although its slot is not (yet) served here.
        offset: What its server had written after the last request on it.
        used: When a reply came on it last, by its process's clock.
    """

    def __init__(self, port: Port, host: Host) -> None:
        super().__init__(port, host)
        self.asking = False
        self.offset = 0
        self.used = port.process.now()
        self._answer: Promise[Any] | None = None
        host.wires[self] = None

    async def call(self, data: bytes, timeout: float) -> list[Any]:
        """Send commands at once, and return the reply of each, or the error that came as one.

        Raises:
            NotSent: The connection was closed before.
            Unanswered: Not all of them were answered; any may have been executed.
        """
        process, world, faults, rng = self.port.process, self.port.world, self.port.world.faults, self.port.world.rng
        if not self.open:
            raise NotSent(rx.ConnectionError("Error while writing to socket: Broken pipe"))
        commands = _commands(data)
        answer: Promise[Any] = Promise()
        self._answer = answer

        def draw(fault: str, probability: float) -> bool:
            if probability and rng.random() < probability:
                world.note(fault)
                return True
            return False

        def serve(*, again: bool = False) -> None:
            self.host.commands += 1
            results = [self._execute(words) for words in commands]
            if not again and draw("duplicate", faults.duplicate):
                # Right behind the first copy: a connection does not deliver twice, but a proxy may resend.
                world.after(world.latency, lambda: self.host.arrive(lambda: serve(again=True)))
            if again or draw("lose_reply", faults.lose_reply):
                return
            if draw("reset", faults.reset):
                self.broken()
                return
            last = results[-1]
            if isinstance(last, Promise):  # It comes alone, and later.
                last.then(lambda: self._carry_back(lambda: answer.settle([*results[:-1], last.result()])))
            else:
                self._carry_back(lambda: answer.settle(results))

        if draw("straggle", faults.straggle):
            late = rng.uniform(0.0, faults.straggle_seconds)
            world.after(late, lambda: self.host.arrive(lambda: serve(again=True)))
        elif not draw("lose_request", faults.lose_request):
            self._carry(serve)
        silence = Unanswered(rx.TimeoutError(f"no reply from the server within {timeout:.3g} s"))
        world.after(timeout / process.rate, lambda: process.run(lambda: answer.settle(silence)))
        replies = await answer
        self._answer = None
        if isinstance(replies, Failure):
            raise type(replies)(replies.cause)
        self.used = process.now()
        return list(replies)

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
        self._woken = False
        self._ended = False
        self._bell: Promise[bool] | None = None
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
            self._ring()

        self.port.world.note("push", self.port.process.name, str(reply) if isinstance(reply, Exception) else reply)
        self._carry_back(arrive)

    def publish(self, channel: bytes, payload: bytes, *, sharded: bool) -> int:
        """Send a message, if that is listened to. Returns whether it is, as a number."""
        if (channel, sharded) not in self.channels or not self.open:
            return 0
        faults, rng, world = self.port.world.faults, self.port.world.rng, self.port.world
        if faults.lose_message and rng.random() < faults.lose_message:
            world.note("lose_message")
        elif faults.drop_subscriber and rng.random() < faults.drop_subscriber:
            world.note("drop_subscriber")
            self.broken()
        else:
            self.push([b"smessage" if sharded else b"message", channel, payload])
        return 1

    def _ring(self) -> None:
        if self._bell is not None:
            self._bell.settle(True)

    async def read(self, timeout: float) -> list[Any] | None:
        if not (self._inbox or self._woken or self._ended):
            self._bell = self.port.world.pause_of(self.port.process, timeout)
            try:
                await self._bell
            finally:
                self._bell = None
        self._woken = False
        found = list(self._inbox)
        self._inbox.clear()
        return None if self._ended and not found else found

    def wake(self) -> None:
        self._woken = True
        self._ring()

    def broken(self) -> None:
        self._leave()

        def end() -> None:
            self._ended = True
            self._ring()

        self._carry_end(end)

    def close(self) -> None:
        self._leave()

    def _leave(self) -> None:
        self.open = False
        self.channels.clear()
        self.host.streams.pop(self, None)
        self.port.streams.pop(self, None)


@final
class SimulatedLink:
    """Connections to one server, made when they are needed.

    Args:
        port: Whose they are.
        address: Where the server is; ``None`` if it has to be looked up.
        master: What is known of where it is, if it has to be looked up.
        locate: Looks it up.
        doubt: Told that what was found there is no master.
    """

    def __init__(
        self,
        port: Port,
        address: Address | None = None,
        *,
        master: Whereabouts | None = None,
        locate: Locate | None = None,
        doubt: Callable[[], None] | None = None,
    ) -> None:
        self._port = port
        self._address = address
        self._master = master
        self._locate = locate
        self._doubt = doubt
        self._idle: list[Wire] = []
        self._watchdog: object = None
        self._closed = False
        self.inspect: Inspect | None = None
        self.on_change: Callable[[], None] = nobody

    # ---- requests ------------------------------------------------------------------------------------------------

    async def eval(self, request: Packed, timeout: float) -> Reply:
        self._port.network.names[request.script.sha] = request.script.name
        reply = await self._one(request.data, timeout)
        if is_no_script(reply):
            reply = await self._one(request.in_full(), timeout)
        return self._checked(reply)

    def begin(self, request: Packed, timeout: float) -> Any:
        return self.eval(request, timeout)

    async def call_asking(self, data: bytes, timeout: float) -> Reply:
        return self._checked((await self._call(ASKING + data, timeout))[1])

    async def ask(self, command: tuple[str, ...], timeout: float) -> Reply:
        return self._checked(await self._one(pack(*command), timeout))

    async def eval_all(self, requests: Sequence[Packed], timeout: float) -> list[Reply | Failure]:
        over = self._port.process.now() + timeout
        for request in requests:
            self._port.network.names[request.script.sha] = request.script.name
        try:
            replies = await self._call(b"".join([request.data for request in requests]), timeout)
            if again := resent(requests, replies):
                left = max(0.001, over - self._port.process.now())
                answers = await self._call(b"".join(again.values()), left)
                for index, reply in zip(again, answers, strict=True):
                    replies[index] = reply
        except Failure as failure:
            return [failure] * len(requests)
        return [self._failure(reply) if isinstance(reply, Exception) else reply for reply in replies]

    async def eval_synced(
        self,
        request: Packed,
        timeout: float,
        sync: Acknowledging,
        sync_timeout: float,
        *,
        asking: bool = False,
    ) -> tuple[Reply, int | Failure]:
        self._port.network.names[request.script.sha] = request.script.name
        wire = await self._a_wire(timeout)
        try:
            # In full: ASKING is about one request, and the answer could be that the script is not known.
            reply = (await wire.call(ASKING + request.in_full() if asking else request.data, timeout))[-1]
            if is_no_script(reply):
                reply = (await wire.call(request.in_full(), timeout))[0]
        except BaseException:
            wire.close()
            raise
        if self._demoted([reply], wire):
            return self._checked(reply), 0
        replicas = 0 if isinstance(reply, Exception) else sync.asked(reply)
        acked: int | Failure = 0
        if replicas:
            try:
                said = (await wire.call(wait_command(replicas, sync_timeout), timeout + sync_timeout))[0]
                acked = failure_of(said) if isinstance(said, Exception) else said
            except Failure as failure:
                acked = Unanswered(failure.cause)
            except BaseException:
                wire.close()
                raise
        if isinstance(acked, Unanswered):
            wire.close()
        else:
            self._put_back(wire)
        return self._checked(reply), acked

    def _failure(self, error: Exception) -> Failure:
        return failure_of(error, found=self._master is not None)

    def _checked(self, reply: Any) -> Reply:
        if isinstance(reply, Exception):
            raise self._failure(reply)
        return reply  # type: ignore[no-any-return]

    async def _one(self, data: bytes, timeout: float) -> Any:
        return (await self._call(data, timeout))[0]

    async def _call(self, data: bytes, timeout: float) -> list[Any]:
        while True:
            pooled = bool(self._idle)
            wire = await self._a_wire(timeout)
            try:
                replies = await wire.call(data, timeout)
            except NotSent:
                wire.close()
                if not pooled:
                    raise
                continue  # It had been closed behind our back; another one may do.
            except BaseException:
                # Whatever comes on it later would be taken for the answer to something else.
                wire.close()
                raise
            if self._demoted(replies, wire):
                if len(replies) > 1 or not pooled:
                    return replies
                continue  # It had no effect; the master is elsewhere now.
            self._put_back(wire)
            return replies

    def _put_back(self, wire: Wire) -> None:
        if self._closed or not wire.open:
            wire.close()
        else:
            self._idle.append(wire)

    def _demoted(self, replies: Sequence[Any], wire: Wire) -> bool:
        """Whether a server is the master no longer; then it is so for all that are connected to it."""
        if self._master is None or not self._master.demoted(*replies):
            return False
        wire.close()
        self._leave()
        return True

    def _leave(self) -> None:
        idle, self._idle = self._idle, []
        for each in idle:
            each.close()

    # ---- connections ---------------------------------------------------------------------------------------------

    async def _a_wire(self, timeout: float) -> Wire:
        while self._idle:
            wire = self._idle.pop()
            if not wire.open:
                continue
            if await self._elsewhere(wire, timeout):
                wire.close()
                continue
            return wire
        return await self._connect(timeout)

    async def _connect(self, timeout: float) -> Wire:
        # As under threads: a short lease must not keep a caller from ever connecting, but the watchdog has deadlines.
        if self._watchdog is not self._port.world.current or self._watchdog is None:
            timeout = max(timeout, CONNECTING)
        address = await self._where(timeout)
        wire = Wire(self._port, await self._port.reach(address, timeout))
        if self.inspect is not None:
            try:
                info = (await wire.call(INFO, timeout))[0]
                self.inspect(inspected(info, found=self._master is not None))
            except Unanswered as failure:
                wire.close()
                raise NotSent(failure.cause) from None
            except NotNow:
                wire.close()
                if self._doubt is not None:
                    self._doubt()
                raise
            except BaseException:
                wire.close()
                raise
        return wire

    async def _where(self, timeout: float, *, to_hear: bool = False) -> Address:
        if self._address is not None:
            return self._address
        assert self._master is not None, "neither an address nor a way to find one"
        assert self._locate is not None, "neither an address nor a way to find one"
        self._master.asked(self._port.process.now())
        address: Address = await self._locate(timeout)
        if to_hear:
            self._master.hears_at(address)
        self._found(self._master, address)
        return address

    def _found(self, master: Whereabouts, address: Address) -> None:
        if master.found(address):
            self._leave()
        if master.hears_elsewhere():
            self.on_change()

    async def _elsewhere(self, wire: Wire, timeout: float) -> bool:
        await self._look_again(timeout)
        return self._master is not None and self._master.was_at(wire.host.address)

    async def _look_again(self, timeout: float) -> None:
        master = self._master
        if master is None or self._locate is None or not master.doubtful(self._port.process.now()):
            return
        try:
            self._found(master, await self._locate(min(timeout, CONNECTING)))
        except NotSent:
            master.nobody_knew(self._port.process.now())

    async def follow(self) -> bool:
        await self._look_again(CONNECTING)
        return self._master is not None

    async def stream(self, timeout: float) -> SimulatedStream:
        address = await self._where(timeout, to_hear=True)
        stream = SimulatedStream(self._port, await self._port.reach(address, timeout))
        if self._closed:
            stream.close()
        return stream

    def reserve(self) -> None:
        self._watchdog = self._port.world.current

    def close(self) -> None:
        self._closed = True
        self._leave()

    def abandon(self) -> None:
        self._leave()


def seconds_of(milliseconds: bytes) -> float:
    """The timeout of ``WAIT``: 0 is for ever."""
    return int(milliseconds) / 1000 or math.inf
