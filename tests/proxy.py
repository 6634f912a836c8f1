"""A TCP proxy between a client and a server, which loses, holds, doubles, delays and cuts what passes through.

It runs on an event loop in a thread of its own, and is told what to do from the test's::

    with Proxy(server.port) as proxy:
        lost = proxy.drop_reply("EVALSHA", then="reset")
        ...
        lost.wait()                                   # it has taken effect
        assert proxy.hits["drop_reply"] == 1

It reads enough RESP to tell requests from each other, and which reply (RESP2 or RESP3) answers which request, also when
they are pipelined or mixed with messages of subscriptions. ``CLIENT REPLY OFF``, ``MONITOR`` and TLS are beyond it.

What it can do is what a network can do: bytes of one connection stay in order, so once something is missing in a
direction, nothing that comes later passes either, until the client opens another connection.
"""

from __future__ import annotations

import asyncio
import random
import re
import socket
import struct
import threading
from collections import Counter, deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from tests.servers import HOST, free_port
from tests.waiting import until

Direction = Literal["up", "down", "both"]  # up: to the server; down: to the client
Then = Literal["hang", "reset"]  # what the client sees of it: silence, or its connection reset
Match = str | Callable[[list[bytes]], bool]  # a command's name in any case, or a predicate on all its arguments
T = TypeVar("T")

PATIENCE = 10.0  # seconds for what takes milliseconds
SUBSCRIBING = re.compile(rb"(?P<family>[ps]?)(?P<un>un)?subscribe")
MESSAGES = (b"message", b"pmessage", b"smessage")
SETUP = (b"hello", b"auth", b"select")  # what a connection of our own needs to be like the client's


class Incomplete(Exception):
    """More bytes are needed."""


class Push(list[Any]):
    """A RESP3 push: it answers no request, unless it confirms a subscription."""


def parse(buffer: bytes | bytearray, at: int = 0) -> tuple[Any, int]:
    """Read one RESP value: lines and bulks as ``bytes``, aggregates as (flat) lists, nulls as ``None``.

    Returns:
        The value, and where the next one begins.

    Raises:
        Incomplete: It is not all there yet.
        ValueError: This is not RESP.
    """
    end = buffer.find(b"\r\n", at)
    if end < 0:
        raise Incomplete
    kind, rest, at = bytes(buffer[at : at + 1]), bytes(buffer[at + 1 : end]), end + 2
    if kind in b"+-:_,#(":
        return rest, at
    if kind in b"$=!":
        size = int(rest)
        if size < 0:
            return None, at
        if len(buffer) < at + size + 2:
            raise Incomplete
        return bytes(buffer[at : at + size]), at + size + 2
    if kind in b"*~>%|":
        count = int(rest)
        if count < 0:
            return None, at
        items: list[Any] = Push() if kind == b">" else []
        for _ in range(count * (2 if kind in b"%|" else 1)):
            item, at = parse(buffer, at)
            items.append(item)
        # Attributes stand before the value that they belong to.
        return parse(buffer, at) if kind == b"|" else (items, at)
    raise ValueError(f"not RESP: {kind + rest!r}")


def parse_request(buffer: bytes | bytearray, at: int = 0) -> tuple[list[bytes], int]:
    """Read one request, the inline form included."""
    if buffer[at : at + 1] == b"*":
        return parse(buffer, at)
    end = buffer.find(b"\n", at)
    if end < 0:
        raise Incomplete
    return bytes(buffer[at:end]).split(), end + 1


class Cutter:
    """Cuts a stream of bytes into what ``read`` reads."""

    def __init__(self, read: Callable[[bytearray, int], tuple[Any, int]]) -> None:
        self.rest = bytearray()
        self._read = read

    def feed(self, data: bytes) -> Iterator[tuple[Any, bytes]]:
        """Yield each value that is complete now, with its bytes."""
        self.rest += data
        at = 0
        while at < len(self.rest):
            try:
                value, end = self._read(self.rest, at)
            except Incomplete:
                break
            yield value, bytes(self.rest[at:end])
            at = end
        del self.rest[:at]


class Toxic:
    """Something that happens to the ``k``-th request that matches, counted from now on over all connections.

    If the connection of that one is gone before it can happen, or something else happens to it, the next one that
    matches is concerned instead.

    Attributes:
        hits: How often it took effect.
        args: The arguments of the last request concerned.
    """

    def __init__(self, proxy: Proxy, name: str, match: Match, k: int | None, then: Then) -> None:
        self.hits = 0
        self.args: list[bytes] = []
        self.then = then
        self._proxy = proxy
        self._name = name
        self._match = match
        self._k = k
        self._seen = 0
        self._hit = threading.Event()

    def wait(self, within: float = 5.0) -> None:
        """Wait until it took effect; fail if it does not in time."""
        assert self._hit.wait(within), f"{self._name}: no effect within {within} s, {self._seen} requests matched"

    def remove(self) -> None:
        """Take it out again."""
        self._proxy._toxics = [toxic for toxic in self._proxy._toxics if toxic is not self]

    def concerns(self, args: list[bytes]) -> bool:
        match = self._match
        matches = match(args) if callable(match) else args[0].lower() == match.lower().encode()
        self._seen += matches
        return matches and self._k in (None, self._seen)

    def missed(self) -> None:
        """The request concerned is beyond reach: let it happen to the next one."""
        if self._k is not None:
            self._k = self._seen + 1

    def took_effect(self, args: list[bytes]) -> None:
        self.args = args
        self.hits += 1
        self._proxy.hits[self._name] += 1
        self._hit.set()


class Held(Toxic):
    """A request that is under way for a long time, together with what its connection sent after it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._setup: list[bytes] = []
        self._raw: list[bytes] = []

    def release(self) -> list[Any]:
        """Deliver it now, over a connection of the proxy's own, whether or not the client's still exists.

        It has been executed when this returns. Doing it again delivers it again. Of several, it is the last one.

        Returns:
            The server's replies, parsed, to it and to what came after it. Nobody else ever sees them.
        """
        assert self._raw, "nothing is held yet"
        return self._proxy._call(self._proxy._ask([*self._setup], [*self._raw]))


AnyToxic = TypeVar("AnyToxic", bound=Toxic)


class Refusal(Toxic):
    """A request that never gets to the server: the proxy answers with an error, as a server in another state would."""

    def __init__(self, proxy: Proxy, name: str, match: Match, k: int | None, error: str) -> None:
        super().__init__(proxy, name, match, k, "hang")
        self.reply = f"-{error}\r\n".encode()


@dataclass
class _Awaited:
    """A request that the server has yet to answer."""

    args: list[bytes]
    confirmations: int  # how many replies it gets: one, but one a channel for a subscription
    dropped: Toxic | None = None
    copy: bool = False
    canned: bytes | None = None  # the answer, where the server was not asked


class _Stream:
    """One direction of a connection: what is to be written, and when."""

    def __init__(self, connection: Connection, direction: Direction, target: socket.socket) -> None:
        self.muted = False
        self.ended = False
        self._swallowed = False
        self._connection = connection
        self._direction = direction
        self._target = target
        self._queue: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue()
        self._due = 0.0

    def send(self, data: bytes) -> None:
        if self._swallows():
            self._proxy.hits["blackhole"] += 1
            self.muted = self._swallowed = True
        if not self.muted:
            seconds, jitter, direction = self._proxy._latency
            if seconds + jitter > 0 and direction in (self._direction, "both"):
                self._proxy.hits["latency"] += 1
                # Due times, not sleeps one after the other: what was sent together arrives together. In order, too.
                self._due = asyncio.get_running_loop().time() + seconds + random.uniform(0, jitter)
            self._queue.put_nowait((self._due, data))

    def end(self, *, reset: bool = False) -> None:
        """Close the connection once all before this is written. In silence, nobody hears of the end either."""
        self.ended = True
        if self._swallowed and not self._swallows():
            self.muted = False  # ``heal()`` came before the end.
        if not self.muted and not self._swallows():
            self._connection.reset |= reset
            self._queue.put_nowait((self._due, None))

    async def write(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, data = await self._queue.get()
            if due > loop.time():
                await asyncio.sleep(due - loop.time())
            if data is None:
                return
            for chunk in self._slices(data):
                budget = self._proxy._reset_after.get(self._direction)
                if budget is not None and budget <= len(chunk):
                    del self._proxy._reset_after[self._direction]
                    self._proxy.hits["reset_after"] += 1
                    await self._put(chunk[:budget])
                    self._connection.reset = True
                    return
                if budget is not None:
                    self._proxy._reset_after[self._direction] = budget - len(chunk)
                await self._put(chunk)

    @property
    def _proxy(self) -> Proxy:
        return self._connection.proxy

    def _swallows(self) -> bool:
        return self._proxy._blackhole in (self._direction, "both")

    def _slices(self, data: bytes) -> list[bytes]:
        size = self._proxy._slice or len(data)
        if size < len(data):
            self._proxy.hits["slice"] += 1
        return [data[at : at + size] for at in range(0, len(data), size)]

    async def _put(self, chunk: bytes) -> None:
        # If the target is gone, whoever reads from it will notice, and end the connection from there.
        with suppress(OSError):
            await asyncio.get_running_loop().sock_sendall(self._target, chunk)
        if self._proxy._slice:
            await asyncio.sleep(0.0005)  # or the receiver's kernel would put the slices together again


class Connection:
    """A client's connection and the one to the server that belongs to it.

    Attributes:
        requests: How many requests the client sent.
    """

    def __init__(self, proxy: Proxy, client: socket.socket, server: socket.socket) -> None:
        self.proxy = proxy
        self.requests = 0
        self.reset = False
        self.up = _Stream(self, "up", server)
        self.down = _Stream(self, "down", client)
        self._client = client
        self._server = server
        self._awaited: deque[_Awaited] = deque()
        self._setup: list[bytes] = []
        self._resp3 = False
        self._channels: dict[bytes, set[bytes]] = {b"": set(), b"p": set(), b"s": set()}
        self._held: Held | None = None

    async def run(self) -> None:
        writers = [asyncio.ensure_future(stream.write()) for stream in (self.up, self.down)]
        readers = [
            asyncio.ensure_future(self._read(self._client, Cutter(parse_request), self._request, self.up)),
            asyncio.ensure_future(self._read(self._server, Cutter(parse), self._reply, self.down)),
        ]
        try:
            # A writer ends when its connection has to; readers just go quiet. Unless something here is wrong.
            waiting = {*writers, *readers}
            while not any(task.done() for task in writers):
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                if any(task.exception() for task in done):
                    break
        finally:
            for task in (*writers, *readers):
                task.cancel()
            for outcome in await asyncio.gather(*writers, *readers, return_exceptions=True):
                if isinstance(outcome, Exception):
                    self.proxy._errors.append(outcome)

    async def _read(
        self, source: socket.socket, cutter: Cutter, take: Callable[[Any, bytes], None], onward: _Stream
    ) -> None:
        reset = False
        try:
            while data := await asyncio.get_running_loop().sock_recv(source, 1 << 16):
                for value, raw in cutter.feed(data):
                    take(value, raw)
        except OSError:
            reset = True
        if cutter.rest:
            onward.send(bytes(cutter.rest))
        onward.end(reset=reset)

    def _request(self, args: list[bytes], raw: bytes) -> None:
        if not args:  # an empty line, which nobody answers
            self.up.send(raw)
            return
        self.requests += 1
        command = args[0].lower()
        self.proxy.commands[command.decode().upper()] += 1
        if self._held:
            self._held._raw.append(raw)
            return
        awaited = _Awaited(args, self._confirmations(command, args[1:]))
        copies = 1
        for toxic in self.proxy._toxics:
            if not toxic.concerns(args):
                continue
            if awaited.dropped and toxic._name != "duplicate_request":
                awaited.dropped.missed()
            if isinstance(toxic, Held):
                self._hold(toxic, args, raw)
                return
            if isinstance(toxic, Refusal):
                self._awaited.append(_Awaited(args, 1, canned=toxic.reply))
                toxic.took_effect(args)
                self._answer()
                return
            if toxic._name == "duplicate_request":
                copies += 1
                toxic.took_effect(args)
            else:
                awaited.dropped = toxic
        if command in SETUP:
            self._setup.append(raw)
            self._resp3 = self._resp3 or args[1:2] == [b"3"]
        self._awaited.append(awaited)
        self._awaited.extend(_Awaited(args, awaited.confirmations, copy=True) for _ in range(copies - 1))
        self.up.send(raw * copies)

    def _hold(self, held: Held, args: list[bytes], raw: bytes) -> None:
        held._setup, held._raw = list(self._setup), [raw]
        self._held = held
        if held.then == "reset":
            self.down.end(reset=True)
        held.took_effect(args)

    def _confirmations(self, command: bytes, names: list[bytes]) -> int:
        subscribing = SUBSCRIBING.fullmatch(command)
        if not subscribing:
            return 1
        channels = self._channels[subscribing["family"]]
        if not subscribing["un"]:
            channels.update(names)
            return len(names)
        count = len(names) or len(channels) or 1
        channels.difference_update(names or list(channels))
        return count

    def _answer(self) -> None:
        """Give the answers that need no server, once their turn has come."""
        while self._awaited and (canned := self._awaited[0].canned):
            self._awaited.popleft()
            self.down.send(canned)

    def _reply(self, value: Any, raw: bytes) -> None:
        self._take_reply(value, raw)
        self._answer()

    def _take_reply(self, value: Any, raw: bytes) -> None:
        awaited = self._awaited[0] if self._awaited else None
        word = value[0].lower() if isinstance(value, list) and value and isinstance(value[0], bytes) else b""
        if isinstance(value, Push):
            unasked = awaited is None or word != awaited.args[0].lower()
        else:
            unasked = awaited is None or (word in MESSAGES and not self._resp3 and any(self._channels.values()))
        if awaited is None or unasked:
            self.down.send(raw)
            return
        awaited.confirmations -= 1
        if not awaited.confirmations:
            self._awaited.popleft()
        if awaited.copy:
            return
        if awaited.dropped:
            if awaited.dropped.then == "reset":
                self.down.end(reset=True)
            self.down.muted = True
            awaited.dropped.took_effect(awaited.args)
            return
        self.down.send(raw)

    def close(self) -> None:
        for awaited in self._awaited:
            if awaited.dropped:  # its reply, which will not come
                awaited.dropped.missed()
        if self.reset:
            with suppress(OSError):
                # Lingering for no time at all is how a socket is closed with a RST.
                self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._client.close()
        self._server.close()


class Proxy:
    """Listens on a port of 127.0.0.1 and passes on to another.

    Attributes:
        port: Where it listens; the same over ``cut()`` and ``heal()``.
        upstream_port: Where connections are passed on to; those to come go elsewhere when it is changed.
        hits: How often each toxic took effect, by its name. For ``cut``: the connections it reset; for ``blackhole``:
            the messages it swallowed; for ``latency`` and ``slice``: the messages concerned.
        commands: How often each command was asked for, by its name in capitals.
        connections: Those that are open.
    """

    def __init__(self, upstream_port: int) -> None:
        self.upstream_port = upstream_port
        self.hits: Counter[str] = Counter()
        self.commands: Counter[str] = Counter()
        self.connections: list[Connection] = []
        self.port = 0
        self._requests_before = 0
        self._errors: list[Exception] = []
        self._listener: socket.socket | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._toxics: list[Toxic] = []
        self._blackhole: Direction | None = None
        self._latency: tuple[float, float, Direction] = (0.0, 0.0, "down")
        self._slice: int | None = None
        self._reset_after: dict[str, int] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._call(self._listen())

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"

    @property
    def requests(self) -> int:
        """How many requests clients sent, over all connections that ever were."""
        return self._requests_before + sum(connection.requests for connection in self.connections)

    # --- toxics ---

    def drop_reply(self, match: Match, k: int | None = 1, *, then: Then = "hang") -> Toxic:
        """Let the ``k``-th matching request (``None``: each) be executed, and lose its reply.

        The connection is then dead for the client: silent, or reset.
        """
        return self._add(Toxic(self, "drop_reply", match, k, then))

    def hold_request(self, match: Match, k: int | None = 1, *, then: Then = "hang") -> Held:
        """Keep the ``k``-th matching request (``None``: each) from the server until ``.release()``, as a network may.

        What the client sends after it on that connection waits behind it; what it sends on others does not.
        """
        return self._add(Held(self, "hold_request", match, k, then))

    def duplicate_request(self, match: Match, k: int | None = 1) -> Toxic:
        """Deliver the ``k``-th matching request twice; the client sees the first reply only."""
        return self._add(Toxic(self, "duplicate_request", match, k, "hang"))

    def refuse_request(self, match: Match, error: str, k: int | None = None) -> Refusal:
        """Answer the ``k``-th matching request (``None``: each) with this error; the server never hears of it."""
        toxic = Refusal(self, "refuse_request", match, k, error)
        self._toxics = [*self._toxics, toxic]
        return toxic

    def await_answers(self, match: Callable[[list[bytes]], bool]) -> None:
        """Until the server has answered all that matches and was passed on: a toxic concerns only what comes later."""
        until(lambda: not self._call(self._under_way(match)), what="the server has answered")

    def cut(self) -> None:
        """Reset all connections and refuse new ones, until ``heal()``."""
        self._call(self._cut())

    def blackhole(self, direction: Direction = "both") -> None:
        """Go on accepting, and swallow all in this direction, until ``heal()``: the end of connections, too."""
        self._blackhole = direction

    def heal(self) -> None:
        """Undo ``cut()`` and ``blackhole()``. Connections that lost something in between stay silent."""
        self._call(self._heal())

    def latency(self, seconds: float, jitter: float = 0.0, *, direction: Direction = "down") -> None:
        """Delay what passes by ``seconds`` and up to ``jitter`` more, in order; 0 for no longer."""
        self._latency = (seconds, jitter, direction)

    def slice(self, bytes_per_chunk: int | None) -> None:
        """Pass everything on in pieces of at most so many bytes; ``None`` for no longer."""
        self._slice = bytes_per_chunk

    def reset_after(self, nbytes: int, *, direction: Literal["up", "down"] = "down") -> None:
        """Let so many more bytes pass in this direction, then reset the connection they passed on. Once."""
        self._reset_after[direction] = nbytes

    def clear(self) -> None:
        """Take out all toxics, and heal."""
        self._toxics = []
        self._latency = (0.0, 0.0, "down")
        self._slice = None
        self._reset_after = {}
        self.heal()

    # --- life ---

    def close(self) -> None:
        """Reset all connections and stop. Idempotent. Fails if the proxy did not understand what passed through."""
        if self._loop.is_closed():
            return
        self._call(self._cut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        if self._errors:
            raise AssertionError(f"the proxy failed: {self._errors!r}") from self._errors[0]

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Proxy {self.port} to {self.upstream_port}, {len(self.connections)} connections, {dict(self.hits)}>"

    # --- inside ---

    def _add(self, toxic: AnyToxic) -> AnyToxic:
        self._toxics = [*self._toxics, toxic]
        return toxic

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)

    async def _under_way(self, match: Callable[[list[bytes]], bool]) -> bool:
        return any(match(awaited.args) for connection in self.connections for awaited in connection._awaited)

    async def _listen(self) -> None:
        deadline = self._loop.time() + PATIENCE / 2
        while True:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setblocking(False)
            try:
                listener.bind((HOST, self.port or free_port()))
                listener.listen(512)
                break
            except OSError:
                listener.close()
                if self._loop.time() > deadline:
                    raise
                await asyncio.sleep(0.01)
        self._listener = listener
        self.port = listener.getsockname()[1]
        self._start(self._accept(listener))

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self, listener: socket.socket) -> None:
        # Not sock_accept(): cancelled at the wrong moment, that loses what it has accepted.
        self._loop.add_reader(listener, self._take, listener)
        try:
            await self._loop.create_future()
        finally:
            self._loop.remove_reader(listener)

    def _take(self, listener: socket.socket) -> None:
        try:
            client, _ = listener.accept()
        except OSError:  # it went away again
            return
        # Closed here as well: a task that is cancelled before its first step never gets to it.
        self._start(self._serve(client)).add_done_callback(lambda task: client.close())

    async def _connect(self) -> socket.socket:
        server = socket.socket()
        server.setblocking(False)
        try:
            await self._loop.sock_connect(server, (HOST, self.upstream_port))
        except BaseException:
            server.close()
            raise
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return server

    async def _serve(self, client: socket.socket) -> None:
        try:
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            server = await self._connect()
        except BaseException as error:
            client.close()
            if isinstance(error, OSError):  # the server is down: the client is told by the end of its connection
                return
            raise
        connection = Connection(self, client, server)
        self.connections.append(connection)
        try:
            await connection.run()
        except asyncio.CancelledError:  # by cut()
            connection.reset = True
            raise
        finally:
            self.connections.remove(connection)
            self._requests_before += connection.requests
            connection.close()

    async def _cut(self) -> None:
        if self._listener is None:
            return
        self.hits["cut"] += len(self.connections)
        while tasks := list(self._tasks):  # One may have been accepted while the others ended.
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        # Those that still stand in the queue are reset with it.
        self._listener.close()
        self._listener = None

    async def _heal(self) -> None:
        self._blackhole = None
        for connection in self.connections:
            for stream in (connection.up, connection.down):
                if stream.ended:
                    stream.muted = False
                    stream.end()
        if self._listener is None:
            await self._listen()

    async def _ask(self, setup: list[bytes], requests: list[bytes]) -> list[Any]:
        """Send requests over a connection of our own and return the replies to all but the setup."""
        server = await self._connect()
        try:
            await self._loop.sock_sendall(server, b"".join(setup + requests))
            cutter = Cutter(parse)
            replies: list[Any] = []
            while len(replies) < len(setup) + len(requests):
                data = await self._loop.sock_recv(server, 1 << 16)
                if not data:
                    raise ConnectionError("the server closed the connection")
                replies += [value for value, _ in cutter.feed(data)]
            return replies[len(setup) :]
        finally:
            server.close()
