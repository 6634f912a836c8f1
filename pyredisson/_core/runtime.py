"""The seam: all that the core asks of the world around it.

The core is ``async def`` over a :class:`Runtime`, and touches no clock, socket, thread or source of randomness itself
(a test reads its imports). ``async`` means "may block" here, nothing more: under threads these methods block and never
suspend, so :func:`run` steps a coroutine once and takes its result; under asyncio they await; in the simulator
they suspend into a seeded scheduler with virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from pyredisson._core.failures import OUR_ERRORS, Failure, is_interruption
from pyredisson._core.owners import Caller
from pyredisson._core.presence import Identity
from pyredisson.errors import RedissonError

if TYPE_CHECKING:
    from pyredisson._core.client import ClientCore
    from pyredisson._core.replicas import ReplicaAcknowledgement

T = TypeVar("T")
RequestT = TypeVar("RequestT", bound="ServerRequest")

Reply: TypeAlias = int | bytes | list["Reply"] | None
"""What a server answers to a script: RESP's null, integer, string or array."""

Answer: TypeAlias = Coroutine[Any, Any, T]
"""What a method that may block returns, to be awaited."""

Work: TypeAlias = Callable[[float], Coroutine[Any, Any, object]]
"""Work for the background; it is passed for how many seconds it may wait for one answer."""

Request: TypeAlias = Any
"""A request made ready by :meth:`Runtime.prepare`; what it looks like is the runtime's affair."""

NumberedRequest: TypeAlias = Callable[[str, int, bytes], Request]
"""Makes a request of an owner ready, with a number and a value; empty: without one."""


class Announce(str):
    """The word by which a script publishes. As an argument it stands for the one that suits the servers."""

    __slots__ = ()


def numbered(
    prepare: Callable[..., Request], script: str, keys: tuple[str, ...], args: tuple[str | int | bytes, ...]
) -> NumberedRequest:
    """Do as :meth:`Runtime.prepare_numbered`, by what makes any call ready."""

    def request(owner: str, number: int, value: bytes) -> Request:
        own = (number, value) if value else (number,)
        return prepare(script, (keys[0], keys[1] + owner, *keys[2:]), (*own, *args))

    return request


PUBLISH: Final = Announce("PUBLISH")
"""What suits all servers but a cluster, where a message need not go to every node."""


class ServerRequest:
    """A request to one server that is sent together with those to others; see :meth:`Runtime.fan_out`.

    A coroutine that is run by :func:`pyredisson._core.runtime.together` awaits its answer by yielding it.

    Attributes:
        runtime: That of the server's client.
        prepared: What is sent.
        timeout: Seconds that the server has to answer, and its replicas again.
        replica_wait: Whether and how replicas are to acknowledge it. The answer is then that of
            :meth:`Runtime.eval_synced`.
        answer: The reply, or the failure that :meth:`Runtime.eval` would raise.
    """

    __slots__ = ("answer", "prepared", "replica_wait", "runtime", "timeout")

    answer: Any

    def __init__(
        self, runtime: Runtime, prepared: Request, timeout: float, replica_wait: ReplicaAcknowledgement | None = None
    ) -> None:
        self.runtime: Runtime = runtime
        self.prepared: Request = prepared
        self.timeout: float = timeout
        self.replica_wait: ReplicaAcknowledgement | None = replica_wait

    def connected(self) -> None:
        """Note that a connection had to be made for it: how far away the server is, is known now."""


class Ticket(Protocol):
    """What one waiter sleeps on. It remembers one notification, so that one before the sleep is not missed."""

    def notify(self) -> None:
        """Wake the waiter, or let its next :meth:`wait` return at once. Never blocks; any thread may call it."""
        ...

    async def wait(self, seconds: float) -> bool:
        """Sleep until notified, for at most ``seconds`` (may be infinite). Returns whether it was."""
        ...


class Background(Protocol):
    """A loop of the client's in the background."""

    def nudge(self) -> None:
        """Let it look again now instead of when it meant to."""
        ...


class Runtime(Protocol):
    """The world as one client sees it."""

    #: Whether its coroutines suspend. One that is being closed may then wait for nothing any more.
    suspends: bool

    @property
    def lease(self) -> Callable[..., Any]:
        """The class of the leases of its form."""
        ...

    # ---- plain: never blocks -------------------------------------------------------------------------------------

    def now(self) -> float:
        """Monotonic seconds, counting suspended time where the system can."""
        ...

    def check_process(self) -> None:
        """Start afresh, as another client, if this process is the child of a fork and that was not noticed yet."""
        ...

    def owner(self) -> Caller:
        """The calling thread or task."""
        ...

    def clients(self) -> Iterable[ClientCore]:
        """The clients of this process."""
        ...

    def stuck_behind(self, holder: Caller) -> str | None:
        """Why waiting here for this owner would never end, or ``None`` if it may.

        Under threads, a task or call chain of the waiting thread itself cannot continue while that waits.
        """
        ...

    def jitter(self, low: float, high: float) -> float:
        """A random number of seconds in between."""
        ...

    def identity(self) -> Identity:
        """What identifies the client's process, for people."""
        ...

    def unix_time(self) -> float:
        """Seconds since the epoch, by the clock of the system: for people only."""
        ...

    def new_id(self) -> str:
        """A random UUID, to identify a client."""
        ...

    def random_bytes(self, count: int, /) -> bytes:
        """``count`` bytes that cannot be guessed."""
        ...

    def mutex(self) -> AbstractContextManager[Any]:
        """A lock for a few plain statements, never held across an ``await``. Reentrant: see :meth:`inside`."""
        ...

    def inside(self, mutex: Any, /) -> bool:
        """Whether the caller is inside of a mutex already: a signal handler in the middle of it."""
        ...

    def thread(self) -> int:
        """The identifier of the calling thread; 0 where no signal handler can interrupt a call by another."""
        ...

    def in_background(self) -> bool:
        """Whether a thread or task of ours asks: what is raised there reaches no caller of the program's."""
        ...

    def ticket(self, lock: str = "") -> Ticket:
        """A new ticket, for a call that waits for this lock; for anything else without a name."""
        ...

    def spawn(self, step: Callable[[], Coroutine[Any, Any, float]], name: str) -> Background:
        """Run ``step`` again and again, sleeping in between for the seconds that it returns (until nudged).

        Nothing is started before the first nudge, and nothing keeps the process alive.
        """
        ...

    def prepare(self, script: str, keys: tuple[str, ...], args: tuple[str | int | bytes, ...], /) -> Request:
        """Make a script's call ready to be sent, as often as wanted. ``script`` is a file's name in ``_lua/``."""
        ...

    def prepare_command(self, command: tuple[str, ...], /) -> Request:
        """Make a command about its first argument, a key, ready to be sent as the call of a script is."""
        ...

    def prepare_numbered(
        self, script: str, keys: tuple[str, ...], args: tuple[str | int | bytes, ...], /
    ) -> NumberedRequest:
        """Return what makes a script's calls ready that differ in their owner, number and one value.

        The second key is that of an owner's last request, without the owner; the number and the value, if there is one,
        go before ``args``.
        """
        ...

    def place(self, name: str) -> int | None:
        """Where a name's keys are: one script can only be about names of one place. ``None``: all are in one."""
        ...

    def counts_listeners(self) -> bool:
        """Whether a script that publishes learns how many hear it. On a cluster only if its channels are sharded."""
        ...

    def subscribe(self, channel: str) -> None:
        """Subscribe to a channel; ``Subscriptions.confirmed`` is called when they arrive, also anew."""
        ...

    def unsubscribe(self, channel: str) -> None:
        """Unsubscribe from a channel."""
        ...

    def call_back(self, callback: Callable[..., object], *args: object) -> None:
        """Call a user's callback where it can neither block nor break anything of ours."""
        ...

    # ---- may block -----------------------------------------------------------------------------------------------

    def eval(self, request: Request, timeout: float, /) -> Answer[Reply]:
        """Run one script once. A script that the server does not know is sent in full, and that is still once.

        Raises:
            NotSent: It surely had no effect.
            Unanswered: It may have been executed, or may yet be.
            Rejected: The server answered with an error.
        """
        ...

    def fan_out(self, requests: Iterable[RequestT], /) -> Answer[list[RequestT]]:
        """Run scripts on several servers at once, each once, as :meth:`eval` does. All are of this runtime's kind.

        Args:
            asks: Each is sent before the next one is drawn, where that can be.

        Returns:
            All of them, each with its answer. One that gets none costs its own timeout, and not one after another's; a
            connection that has to be made first may take longer, unless the server is known to be away.
        """
        ...

    def eval_synced(
        self, request: Request, timeout: float, replica_wait: ReplicaAcknowledgement, sync_timeout: float, /
    ) -> Answer[tuple[Reply, int | Failure]]:
        """Run one script once, and let replicas acknowledge what it did, on a connection of its own.

        Returns:
            The reply; and how many replicas acknowledged within ``sync_timeout`` more seconds, or why they could not be
            asked. 0 if none was to.

        Raises:
            NotSent, Unanswered, Rejected: As for :meth:`eval`, of the script.
        """
        ...

    def eval_all(self, requests: list[Request], timeout: float, /) -> Answer[list[Reply | Failure]]:
        """Run many scripts, each once, within ``timeout`` in all. Returns the reply of each, or why there is none."""
        ...

    def execute(self, command: tuple[str, ...], timeout: float, /) -> Answer[Reply]:
        """Run one command about its first argument, a key. It may be run more than once.

        Raises:
            NotSent, Unanswered, Rejected: As for :meth:`eval`.
        """
        ...

    def node_of(self, key: str) -> str:
        """Return the address of the node of a cluster that has a key; empty if there is one server."""
        ...

    async def execute_at(self, key: str, command: tuple[str, ...], timeout: float) -> Reply:
        """Run a command on the server that has a key, which is none of its arguments. Raises as :meth:`execute`."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        ...

    def call_later(self, seconds: float, call: Callable[[], None], /) -> Callable[[], object]:
        """Make a plain call after that time, although the client was closed. Returns what cancels it."""
        ...

    def reopen(self) -> None:
        """Let a closed client's requests reach the server until :meth:`close_again` is called as often."""
        ...

    def close_again(self) -> None:
        """Close the connections that were made since the client was closed."""
        ...

    def shield(self) -> AbstractContextManager[object]:
        """Keep out a cancellation that would come again at each ``await`` of a block, as those of anyio's scopes do."""
        ...

    async def guard(self, work: Coroutine[Any, Any, T], budget: float, *, leaving: bool = True) -> T | None:
        """Finish ``work`` although the caller is being cancelled or interrupted, within ``budget`` seconds.

        Args:
            work: What to finish.
            budget: Seconds.
            leaving: Whether the caller has been cancelled or interrupted already, and raises that afterwards. If not, a
                cancellation that comes meanwhile is raised once ``work`` has ended.

        Returns:
            Its result, or ``None`` when the budget was too small: ``work`` is then given up.
        """
        ...


# ---- driver ----------------------------------------------------------------------------------------------------------
# Running the coroutines of the core: where nothing suspends, under threads; and several at once, in any form.


Requesting: TypeAlias = Coroutine["ServerRequest", None, T] | Generator["ServerRequest", None, T]
"""What sends requests by yielding each :class:`ServerRequest`, whose answer is there when it is resumed."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Step a coroutine that never suspends, and return its result.

    This is how threads use the core: their runtime blocks inside, so one step is all there is.
    """
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
    coroutine.close()
    raise RuntimeError("a coroutine of the core suspended under threads: an await of something foreign")


async def together(runtime: Runtime, coroutines: Iterable[Requesting[T]]) -> list[T | Failure | RedissonError]:
    """Run coroutines side by side: each up to its next request, and these requests are sent together.

    Args:
        runtime: What sends them.
        coroutines: Each is begun when the request of the one before was sent. None waits for anything but a server.

    Returns:
        The results, in order; the error in place of the result of one that failed.
    """
    results: dict[int, Any] = {}
    running: dict[int, Requesting[Any]] = {}

    def step(each: Iterable[tuple[int, Requesting[Any]]]) -> Iterator[ServerRequest]:
        for index, coroutine in each:
            results[index], running[index] = None, coroutine
            try:
                request = coroutine.send(None)
            except StopIteration as done:
                results[index] = done.value
            except (Failure, RedissonError) as error:
                results[index] = error
            else:
                yield request
                continue
            del running[index]

    try:
        await runtime.fan_out(step(enumerate(coroutines)))
        while running:
            await runtime.fan_out(step(list(running.items())))
    except BaseException:
        for coroutine in running.values():
            coroutine.close()
        raise
    return [*results.values()]


class Progress:
    """How far a call is that releases a hold.

    Attributes:
        begun: Whether it sees to its own end from here on, whatever interrupts it. Set before it does anything.
    """

    begun = False  # Not set by an __init__(), in which an interruption would find nothing begun, and nothing to end it.


def run_to_the_end(call: Callable[..., Coroutine[Any, Any, None] | None], *args: object) -> None:
    """Run what releases a hold, although Ctrl-C may come at any moment, or another interruption.

    ``call`` receives a :class:`Progress` as its last argument, and returns the rest to run. Interrupted before that has
    begun, it is called again here. A second Ctrl-C is meant.
    """
    progress: Progress | None = None
    try:
        progress = Progress()
        if (rest := call(*args, progress)) is not None:
            run(rest)
    except BaseException as error:
        if is_interruption(error) and (progress is None or not progress.begun):
            with suppress(type(error), *OUR_ERRORS):  # What interrupted it is raised, whatever comes of it now.
                if (rest := call(*args, Progress())) is not None:
                    run(rest)
        raise
