"""What the links to servers share, for threads and asyncio: ``async`` means "may block" here too."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeAlias, final

import redis.exceptions as rx

from pyredisson._core.failures import Connecting, Dropped, Failure, NotNow, NotSent, Unanswered
from pyredisson._core.runtime import Reply
from pyredisson._net.topology import Sentinels, Whereabouts
from pyredisson._net.wire import (
    ASKING,
    LEAVES,
    Packed,
    as_redis_error,
    failure_of,
    inspected,
    is_no_script,
    is_push,
    is_wrong_server,
    no_reply,
    pack,
    resent,
)
from pyredisson._shared.process import monotonic
from pyredisson.errors import ClientClosedError

if TYPE_CHECKING:
    from pyredisson._core.replicas import ReplicaAcknowledgement
    from pyredisson._net.wire import Address, Connect, Dial, Wire

#: Seconds that making a connection may take at least, however small the timeout of the request that needs it.
CONNECTING = 0.25

#: Seconds after which ``WAIT`` is sent again: it asks only those replicas that are in step when it is sent. Others
#: report what they have by themselves, but only once a second.
WAIT_AGAIN = 0.1

#: What a new connection is asked first. Without sections: Redis 6.2 takes one at most.
INFO = pack("INFO")

#: What the first one is asked instead: this also says how often the server was flushed before.
FIRST_INFO = pack("INFO", "all")

Inspect: TypeAlias = Callable[..., None]
"""Takes the reply to ``INFO`` on a new connection, the seconds that it took, and which node of a cluster it is of.

Raises a ``Failure`` if the connection is not to be used.
"""

MasterMoved: TypeAlias = Callable[[str, str, str, "Collection[int] | None"], object]
"""Called when another server is the master: of what, its address, the former one, and its slots (``None``: all)."""

Introduce: TypeAlias = Callable[[], Sequence[bytes]]
"""Returns the commands by which a new connection of ours says whose it is; see :mod:`pyredisson._net.wire`."""


def ignore(*_: object) -> None:
    """Do nothing: the initial ``on_change``, ``on_moved`` and ``on_queue_refused`` of a link."""


def wait_command(replicas: int, seconds: float) -> bytes:
    """Return the command that waits until ``replicas`` replicas have what was written on this connection."""
    return pack("WAIT", replicas, max(1, math.ceil(seconds * 1000)))  # 0 would be forever.


class Stream(Protocol):
    """A connection on which messages come by themselves."""

    def send(self, data: bytes) -> None:
        """Send a command; any thread may. Raises ``OSError`` or an error of redis-py."""
        ...

    async def read(self, timeout: float) -> list[Any] | None:
        """Return what is received within ``timeout``, an empty list for nothing, ``None`` at its end."""
        ...

    def wake(self) -> None:
        """Let :meth:`read` return now; any thread may."""
        ...

    def close(self) -> None:
        """Close it."""
        ...


class Transport(ABC):
    """Makes connections to one server, or to whichever server an address names.

    Attributes:
        direct: Whether a request can be sent on its connections now, and the reply received later; see ``fan_out``.
        shared: Whether one connection carries the requests of all callers at once.
        watchdog: The :meth:`caller` that must never wait behind others.
    """

    direct: bool = True
    shared: ClassVar[bool] = False
    watchdog: object = None
    #: Monotonic seconds.
    now: staticmethod[[], float] = staticmethod(monotonic)

    @abstractmethod
    def caller(self) -> object:
        """Return what identifies the calling thread or task."""

    @abstractmethod
    async def open(self, address: Address | None, timeout: float) -> Wire:
        """Make a connection. ``None``: to where the settings say. Raises ``NotSent`` or ``Rejected``."""

    @abstractmethod
    async def open_stream(self, address: Address | None, timeout: float) -> Stream:
        """Make a connection for a subscriber. Raises as :meth:`open`."""

    @abstractmethod
    async def query_sentinel(self, settings: dict[str, Any], command: tuple[str, ...], timeout: float) -> Any:
        """Run one command on a sentinel, to which these settings lead. Raises an error of redis-py or ``OSError``."""

    @abstractmethod
    def dial(self, work: Callable[[], Coroutine[Any, Any, None]]) -> Dial:
        """Run what makes a connection, in the background."""

    async def room(self, timeout: float) -> bool:
        """Wait a moment if as many connections are open as may be. Returns whether another one may be made now.

        Raises:
            NotSent: There is no time left.
        """
        return True

    def close(self) -> None:  # noqa: B027  # The pools close what is idle; the rest is in use.
        """End what the pools do not: what is being made, and what several use."""

    def abandon(self) -> None:  # noqa: B027  # As above.
        """Let go of everything in the child of a fork, without a word to the server."""


# ---- server link -----------------------------------------------------------------------------------------------------
# The link to one server: what is decided about its connections, for all runtimes.
#
# ``async`` means "may block" here, as in the core. A :class:`pyredisson._net.link.Transport` moves the bytes.
#
# Rules kept here:
# 1. A request that surely did not leave is sent once more on another connection, if the first was not new.
# 2. A script that the server does not know is sent again in full; that is still once. So is one that is sent again
#    without the list of the clients that wait, because the user may not use that.
# 3. A new connection is used when its server has replied who it is (``INFO``), and that is accepted.
# 4. Where sentinels lead, each new connection goes where they say. They are asked again while old ones are used; what
#    leads elsewhere is left.
# 5. A connection whose server is the wrong one (a replica, or a master that is not ready) or refuses its credential is
#    left, with all that are idle and that of the subscriber: its name may lead elsewhere by now. What it refused is
#    sent again on a new one. If that is refused as well, the core repeats it. Once a new connection leads to a master
#    again, the subscriber connects again, too.
# 6. ``WAIT`` goes behind the script that it is about, on a connection that carries nothing else meanwhile.


@contextmanager
def _made_by_others() -> Iterator[None]:
    """Let what fails to make a connection fail as any connection does, whatever the class of its error.

    That may be of the program's: of a token provider, or of a connection class that opens a tunnel.
    """
    try:
        yield
    except Failure:
        raise
    except Exception as error:
        raise NotSent(error) from None


@final
class ServerLink:
    """The connections to one server.

    Args:
        transport: Makes them.
        connect_timeout: How long one may take to be made.
        sentinels: Who is asked where the server is; then host and port of the settings mean nothing.

    Attributes:
        away: Whether the server did not answer the last time; only for those who ask many servers at once.
        pool: The connections, if a request can be sent on one now, and its reply received later; for those, too.
        scattered: Whether names are on several servers, by their slots.
        inspect: Who wants to know of each new connection what its server says of itself. One of the user's counts as
            new when it is first used here.
        introduce: How connections of our own say whose they are; ``None``: they do not.
        on_change: Called when what is to be reached has moved: the master is another, or slots are elsewhere.
        on_moved: Called when the master is another.
        on_queue_refused: Called when a script ran without the list of waiting clients, which the user may not use.
    """

    scattered: bool = False

    def __init__(self, transport: Transport, connect_timeout: float, sentinels: Sentinels | None = None) -> None:
        self._transport = transport
        self._now = transport.now
        self._sentinels = sentinels
        self._master = Whereabouts()
        self._alone = Pool(transport, self._connect, connect_timeout)
        self._pool = SharedPool(transport, self._connect, connect_timeout) if transport.shared else self._alone
        self.pool: Pool | None = self._pool if transport.direct and sentinels is None else None
        self.inspect: Inspect | None = None
        self.introduce: Introduce | None = None
        self.on_change: Callable[[], None] = ignore
        self.on_moved: MasterMoved = ignore
        self.on_queue_refused: Callable[[], None] = ignore
        self.away = False
        self._wrong_server = False
        self._info = FIRST_INFO

    # ---- requests ------------------------------------------------------------------------------------------------

    def counts_listeners(self) -> bool:
        return True

    async def execute_at(self, key: str, command: tuple[str, ...], timeout: float) -> Reply:
        """See :meth:`ClusterLink.execute_at`."""
        return await self.execute(command, timeout)

    def node_of(self, key: str) -> str:
        """See :meth:`ClusterLink.node_of`; there is one server."""
        return ""

    async def eval(self, request: Packed, timeout: float) -> Reply:
        reply = await self._exchange(request.data, timeout)
        if isinstance(reply, Exception):
            return await self.answer(reply, request, timeout)
        return reply  # type: ignore[no-any-return]

    async def answer(self, error: Exception, request: Packed, timeout: float) -> Reply:
        """Return or raise what an error reply comes to; the request may be sent again, since it had no effect."""
        if is_no_script(error):
            return self._checked(await self._exchange(request.in_full(), timeout))
        if error.__class__ in LEAVES:
            self._leave(self._pool)
        failure = self._failure(error)
        without_list = request.without_list() if isinstance(failure.cause, rx.NoPermissionError) else None
        if without_list is None:
            raise failure
        reply = await self.eval(without_list, timeout)
        self.on_queue_refused()
        return reply

    async def execute(self, command: tuple[str, ...], timeout: float) -> Reply:
        return self._checked(await self._exchange(pack(*command), timeout))

    async def call_asking(self, data: bytes, timeout: float) -> Reply:
        """Send a packed request once although the node does not (yet) serve its slot: another one has sent us here."""
        return self._checked((await self._call_many((ASKING, data), timeout))[1])

    async def eval_all(self, requests: Sequence[Packed], timeout: float) -> list[Reply | Failure]:
        over = self._now() + timeout
        try:
            replies = await self._call_many([request.data for request in requests], timeout)
            if again := resent(requests, replies):
                answers = await self._call_many(list(again.values()), max(0.001, over - self._now()))
                for index, reply in zip(again, answers, strict=True):
                    replies[index] = reply
        except Failure as failure:
            return [failure] * len(requests)
        return [self._failure(reply) if isinstance(reply, Exception) else reply for reply in replies]

    async def eval_synced(
        self,
        request: Packed,
        timeout: float,
        replica_wait: ReplicaAcknowledgement,
        sync_timeout: float,
        *,
        asking: bool = False,
    ) -> tuple[Reply, int | Failure]:
        """See ``Runtime.eval_synced``. ``asking``: as :meth:`call_asking`."""
        if self._pool is not self._alone and not asking:  # The good path, where there are no replicas.
            if self._pool.get() is None:
                await self._new(self._pool, timeout)
            if not replica_wait.needed():
                return await self.eval(request, timeout), 0

        async def talk(wire: Wire) -> list[Any]:
            if asking:  # In full: ASKING is about one request, and the answer could be that the script is not known.
                reply = (await wire.call_many((ASKING, request.in_full()), timeout))[1]
            else:
                reply = await wire.call(request.data, timeout)
                if is_no_script(reply):
                    reply = await wire.call(request.in_full(), timeout)
            if isinstance(reply, Exception) or not (replicas := replica_wait.wanted(reply)):
                return [reply, 0]
            try:
                acked = await self._wait_for_replicas(wire, replicas, timeout, sync_timeout)
            except Failure as failure:
                return [reply, Unanswered(failure.cause)]  # Whether or not the question left.
            return [reply, self._failure(acked) if isinstance(acked, Exception) else acked]

        reply, acked = await self._exchange(talk, timeout, self._alone)
        return self._checked(reply), acked

    async def _wait_for_replicas(self, wire: Wire, replicas: int, timeout: float, sync_timeout: float) -> Any:
        over = self._now() + sync_timeout
        while True:
            left = over - self._now()
            acked = await wire.call(wait_command(replicas, min(left, WAIT_AGAIN)), timeout + left)
            if not isinstance(acked, int) or acked >= replicas or self._now() >= over:
                return acked

    def _failure(self, error: Exception) -> Failure:
        return error if isinstance(error, Failure) else failure_of(error)

    def _checked(self, reply: Any) -> Reply:
        if isinstance(reply, Exception):
            raise self._failure(reply)
        return reply  # type: ignore[no-any-return]

    async def _call_many(self, requests: Sequence[bytes], timeout: float) -> list[Any]:
        async def talk(wire: Wire) -> list[Any]:
            return await wire.call_many(requests, timeout)

        return await self._exchange(talk, timeout)  # type: ignore[no-any-return]

    async def _exchange(
        self, request: bytes | Callable[[Wire], Awaitable[list[Any]]], timeout: float, pool: Pool | None = None
    ) -> Any:
        """Return the reply to a request; or to several requests on one connection.

        Another connection is used where they surely had no effect and the first was not new.
        """
        if pool is None:
            pool = self._pool
        while True:
            wire = pool.get()
            new = wire is None
            if wire is None:
                wire = await self._new(pool, timeout)
            elif self._sentinels is not None:
                await self._look_again(timeout)
            if self._sentinels is not None and self._master.has_left(wire.address):
                pool.leave(wire)
                continue
            try:
                said = await (wire.call(request, timeout) if isinstance(request, bytes) else request(wire))
            except NotSent:
                pool.discard(wire)
                if new:
                    raise
                continue  # The server had closed it.
            except BaseException:
                pool.discard(wire)
                raise
            several = not isinstance(request, bytes)
            if not LEAVES.isdisjoint(map(type, said) if several else (said.__class__,)):
                self._leave(pool, wire)
                if new or several:
                    return said
                continue  # It had no effect.
            if several and isinstance(said[-1], Unanswered):
                pool.discard(wire)
            elif (going_back := pool.put_back(wire)) is not None:
                await going_back
            return said

    # ---- connections ---------------------------------------------------------------------------------------------

    def _leave(self, pool: Pool, wire: Wire | None = None) -> None:
        """Leave a connection whose server is the wrong one, all that are idle, and that of the subscriber."""
        pool.leave(wire)
        if self._sentinels is None and not self._wrong_server:  # Sentinels know when the subscriber has to move.
            self._wrong_server = True
            self.on_change()

    async def _new(self, pool: Pool, timeout: float) -> Wire:
        # A short lease must not keep a caller from ever connecting. The watchdog, though, has deadlines to keep.
        if self._transport.caller() != self._transport.watchdog:
            timeout = max(timeout, CONNECTING)
        return await pool.connect(timeout)

    async def _connect(self, timeout: float) -> Wire:
        """Make a connection to the server, wherever it is, and let it say who it is."""
        with _made_by_others():
            address = await self._locate(timeout)
            wire = await self._transport.open(address, timeout)
        try:
            await self._introduce(wire, timeout)
            if self._sentinels is not None and self._master.has_left(address):
                raise NotSent(rx.ConnectionError("the master was replaced while the connection was made"))
        except BaseException:
            wire.close()
            raise
        return wire

    async def _introduce(self, wire: Wire, timeout: float) -> None:
        """Let the server at the end of a connection say who it is. Raises a ``Failure`` if it is not to be used."""
        if self.inspect is None:
            return
        sent = self._now()
        try:
            if self.introduce is None or not self._transport.direct:  # Those of the user's pool keep their names.
                said = await wire.call(self._info, timeout)
            else:
                said = (await wire.call_many((*self.introduce(), self._info), timeout))[-1]
            if isinstance(said, Failure):
                raise said
            self._info = INFO
            self.inspect(inspected(said, found=self._sentinels is not None), self._now() - sent)
        except Unanswered as failure:
            raise NotSent(failure.cause) from None
        except NotNow:
            if self._sentinels is not None:
                self._sentinels.doubt()
            raise
        if self._wrong_server and not is_wrong_server(said):
            self._wrong_server = False
            self.on_change()
        if self._sentinels is None and wire.address is not None:
            self._found(wire.address)

    async def stream(self, timeout: float) -> Stream:
        """Make a connection for a subscriber alone."""
        with _made_by_others():
            address = await self._locate(timeout, to_hear=True)
            stream = await self._transport.open_stream(address, timeout)
        if (place := getattr(stream, "address", None)) is not None:
            self._master.hears_at(place)
        if self.introduce is not None and self._transport.direct:
            await self._introduce_stream(stream, self.introduce(), timeout)
        return stream

    async def _introduce_stream(self, stream: Stream, commands: Sequence[bytes], timeout: float) -> None:
        """Say whose a subscriber's connection is, before it subscribes: what comes later are messages."""
        over = self._now() + timeout
        try:
            stream.send(b"".join(commands))
            missing = len(commands)
            while missing > 0:
                if (left := over - self._now()) <= 0:
                    raise NotSent(no_reply(timeout))
                said = await stream.read(left)
                if said is None:
                    raise NotSent(rx.ConnectionError("Connection closed by server."))
                missing -= sum(not is_push(each) for each in said)
        except BaseException as error:
            stream.close()
            if isinstance(error, (OSError, rx.RedisError)):
                raise NotSent(as_redis_error(error)) from None
            raise

    def reserve(self) -> None:
        """Never let the calling thread or task (the watchdog's) wait for a connection behind another caller."""
        self._transport.watchdog = self._transport.caller()

    def close(self) -> None:
        for pool in (self._pool, self._alone):
            pool.close()
        self._transport.close()

    def abandon(self) -> None:
        for pool in (self._pool, self._alone):
            pool.abandon()
        self._transport.abandon()

    # ---- where the server is -------------------------------------------------------------------------------------

    async def _locate(self, timeout: float, *, to_hear: bool = False) -> Address | None:
        """Return where the next connection leads, if that has to be looked up; ``to_hear``: the subscriber's."""
        if self._sentinels is None:
            return None
        self._master.queried(self._now())
        address = await self._sentinels.locate(self._transport.query_sentinel, timeout)
        if to_hear:
            self._master.hears_at(address)
        self._found(address)
        return address

    def _found(self, address: Address) -> None:
        former = self._master.found(address)
        if former is not None:
            for pool in (self._pool, self._alone):
                pool.leave()
            what = self._sentinels.service if self._sentinels is not None else "this client's server"
            self.on_moved(what, "{}:{}".format(*address), "{}:{}".format(*former), None)
        if self._master.hears_elsewhere():
            self.on_change()

    async def _look_again(self, timeout: float) -> None:
        """Ask who the master is, if that was not asked a moment ago."""
        if self._sentinels is None or not self._master.doubtful(self._now()):
            return
        try:
            self._found(await self._sentinels.locate(self._transport.query_sentinel, min(timeout, CONNECTING)))
        except NotSent:
            self._master.not_known(self._now())

    async def follow(self) -> bool:
        """Find out whether what is to be reached has moved. Returns whether that can be asked."""
        await self._look_again(CONNECTING)
        return self._sentinels is not None


# ---- pool ------------------------------------------------------------------------------------------------------------
# Which connection a request takes, which of them stay, and how long one may take to be made.
#
# A connection is made in the background, within ``Config.connect_timeout``. A request waits for it as long as it has
# time itself; the next request goes on waiting for the same one, so that a slow server is not asked again and again.


#: A connection that has been idle for longer is looked at before it is used: its server may have closed it.
FRESH = 1.0

#: Beyond this many, connections that have been idle for so long (seconds) are closed when another one comes back.
KEEP_IDLE = 8
IDLE_FOR = 60.0

#: After this share of its time a connection that is still being made has company: its packets may have been lost.
PATIENCE = 0.25


class Pool:
    """Connections to one server that carry one request at a time: the one used last is taken first.

    Args:
        transport: That of their link.
        connect: Makes one, within a timeout in seconds.
        connect_timeout: How long that may take.

    Attributes:
        idle: Those on which nothing is under way; the one used last is the last.
    """

    limited = True

    def __init__(self, transport: Transport, connect: Connect, connect_timeout: float) -> None:
        self._transport = transport
        self._now = transport.now
        self._make = connect
        self._connect_timeout = connect_timeout
        self.idle: list[Wire] = []
        self._dials: list[Dial] = []  # Those that no request waits for.
        self._closed = False

    def get(self) -> Wire | None:
        """Take a connection; ``None`` if none is idle."""
        idle = self.idle
        while True:
            try:
                wire = idle.pop()
            except IndexError:
                return None
            if self._now() - wire.used <= FRESH or wire.usable():
                return wire
            wire.close()

    def put_back(self, wire: Wire) -> Awaitable[object] | None:
        """Let others have a connection on which nothing is under way. Returns what to await for that, if anything."""
        wire.used = self._now()
        self.idle.append(wire)
        if self._closed or len(self.idle) > KEEP_IDLE:
            self.tidy()
        return None

    def tidy(self) -> None:
        """Close one of those that were not used for long; any, once the pool is closed."""
        idle = self.idle
        if self._closed or (len(idle) > KEEP_IDLE and self._now() - idle[0].used > IDLE_FOR):
            self._trim()

    def discard(self, wire: Wire) -> None:
        """Close a connection whose request failed: what comes on it later would be taken for the next reply."""
        wire.close()

    def leave(self, wire: Wire | None = None) -> None:
        """Let go of a connection to a server that is the wrong one by now, and of all that are idle."""
        if wire is not None:
            wire.retire()
        idle, self.idle[:] = list(self.idle), []
        for each in idle:
            each.retire()

    async def connect(self, timeout: float) -> Wire:
        """Wait for a new connection.

        Raises:
            Connecting: It was not made within ``timeout``, and is still being made; or another caller has it.
            Dropped: Its server has closed it again.
            NotSent, Rejected: It could not be made, or this is the child of a fork now.
        """
        until = self._now() + timeout
        idle = self.idle
        for _ in range(2):
            while self.limited and not await self._transport.room(until - self._now()):
                if (wire := self.get()) is not None:
                    return wire
            dial = self.dial()
            try:
                over = await dial.wait(max(0.0, until - self._now()))
            finally:
                self.leave_dial(dial)
            if self.idle is not idle:  # A greenlet of the parent: its request is not the child's.
                raise NotSent(rx.ConnectionError("the process was forked while the connection was made"))
            if not over:
                raise Connecting(rx.TimeoutError("no connection yet; it is still being made"))
            if dial.failure is not None:
                raise dial.failure
            if (wire := self.get()) is not None:  # Unless another caller was quicker, or its server has closed it.
                return wire
        raise self._gone()

    def _gone(self) -> Failure:
        """Say why there is no connection although one was made."""
        return Connecting(rx.ConnectionError("the connection that was made is used by another caller already"))

    def dial(self) -> Dial:
        """Return a connection being made that is not waited for. Raises ``NotSent`` if the client was closed."""
        if self._closed:
            raise NotSent(ClientClosedError("this client was closed meanwhile"))
        while True:
            try:
                dial = self._dials.pop()
            except IndexError:
                return self._transport.dial(self._fill)
            if not dial.done() and self._now() - dial.began < PATIENCE * self._connect_timeout:
                return dial

    def leave_dial(self, dial: Dial) -> None:
        """Wait for it no longer: it goes on, for the next one."""
        if not (dial.done() or dial in self._dials):
            self._dials.append(dial)

    async def _fill(self) -> None:
        Pool.put_back(self, await self._make(self._connect_timeout))

    def _trim(self) -> None:
        try:
            (self.idle.pop() if self._closed else self.idle.pop(0)).close()
        except IndexError:
            pass

    def close(self) -> None:
        """Close all that are idle, and each one as it comes back."""
        self._closed = True
        while self.idle:
            self._trim()

    def abandon(self) -> None:
        """Let go of all that are idle, in the child of a fork."""
        idle, self.idle = self.idle, []
        self._dials = []
        for wire in idle:
            wire.abandon()


class SharedPool(Pool):
    """The one connection that carries the requests of all at once. The arguments are those of :class:`Pool`."""

    limited = False

    def get(self) -> Wire | None:
        """Return the connection, if there is one."""
        idle = self.idle
        while idle:
            if idle[-1].usable():
                return idle[-1]
            idle.pop()
        return None

    def put_back(self, wire: Wire) -> None:
        """Do nothing: others have it already."""

    def discard(self, wire: Wire) -> None:
        """Do nothing: it recognizes late replies, and its own end from a request that failed."""

    def dial(self) -> Dial:
        """Return the connection being made: all who need it wait for the same one."""
        dial = super().dial()
        self._dials.append(dial)
        return dial

    def _gone(self) -> Failure:
        return Dropped(rx.ConnectionError("the server closed the connection as soon as it was made"))

    async def _fill(self) -> None:
        wire = await self._make(self._connect_timeout)
        if self._closed or self.get() is not None:  # An earlier attempt has come to its end meanwhile.
            wire.close()
        else:
            self.idle[:] = [wire]
