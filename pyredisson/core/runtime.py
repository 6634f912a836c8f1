"""The seam: all that the core asks of the world around it.

The core is ``async def`` over a :class:`Runtime`, and touches no clock, socket, thread or source of randomness itself
(a test reads its imports). ``async`` means "may block" here, nothing more: under threads these methods block and never
suspend, so :func:`run` steps a coroutine once and takes its result; under asyncio they await; in the simulator they
suspend into a seeded scheduler with virtual time.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterable
from contextlib import AbstractContextManager, suppress
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from pyredisson.errors import RedissonError

__all__ = [
    "PUBLISH",
    "Acknowledging",
    "Announce",
    "Ask",
    "AskSynced",
    "Background",
    "Caller",
    "Failure",
    "Holding",
    "MadeCaller",
    "Mark",
    "NotNow",
    "NotSent",
    "Pause",
    "Progress",
    "Rejected",
    "Reply",
    "Request",
    "Runtime",
    "Ticket",
    "Unanswered",
    "Unusable",
    "count_as_ours",
    "is_interruption",
    "run",
    "run_to_the_end",
]

T = TypeVar("T")
E = TypeVar("E", bound=Exception)

Reply: TypeAlias = int | bytes | list["Reply"] | None
"""What a server answers to a script: RESP's null, integer, string or array."""

Request: TypeAlias = Any
"""A request made ready by :meth:`Runtime.prepare`; what it looks like is the runtime's affair."""


class Announce(str):
    """The word by which a script publishes. As an argument it stands for the one that suits the servers."""

    __slots__ = ()


PUBLISH: Final = Announce("PUBLISH")
"""What suits all servers but a cluster, where a message need not go to every node."""


class Failure(Exception):
    """A request that got no reply of use. ``cause`` is the error to show to the user.

    Never let out of the core: callers see ``cause``, or an error that says what became of their request.
    """

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


class NotSent(Failure):
    """The request surely had no effect: there was no connection, or the server was not (yet) able to take it."""


class NotNow(NotSent):
    """The same, and the servers said themselves that it is worth asking again soon."""


class Unanswered(Failure):
    """The request was sent, and no reply came. It may have been executed, or may yet be."""


class Unusable(Unanswered):
    """An answer came that says nothing of use, and asking again will not help: whether it was executed is not known.

    Either an error, and an earlier copy may have been executed; or something that the script never says.
    """


class Rejected(Failure):
    """The server answered with an error: the request had no effect, and asking again will not help."""


_OUR_ERRORS: list[type[BaseException]] = [Failure, RedissonError]


def count_as_ours(kind: type[E]) -> type[E]:
    """Let this kind of error be one of ours. Those of the connection are, which the core does not know."""
    _OUR_ERRORS.append(kind)
    return kind


def is_interruption(error: BaseException) -> bool:
    """Whether a call was interrupted by this, and not ended by an error of ours, which says what became of it.

    ``KeyboardInterrupt`` and a cancellation are; and so is whatever else a signal handler raises, of any class, such as
    Celery's ``SoftTimeLimitExceeded`` or a ``TimeoutError``. Whoever is interrupted sees to it that nothing is left
    behind. With a bad argument nothing has begun, so it does not matter that its error looks like one.
    """
    return not isinstance(error, tuple(_OUR_ERRORS))


class Ask:
    """A request to one server that can be under way beside others; see :meth:`Runtime.fan_out`.

    Awaited in a coroutine that somebody steps, it hands itself over, and is given the reply or the failure back.
    """

    __slots__ = ("request", "runtime", "timeout")

    def __init__(self, runtime: Runtime, request: Request, timeout: float) -> None:
        self.runtime: Runtime = runtime
        self.request: Request = request
        self.timeout: float = timeout

    def __await__(self) -> Generator[Ask, Reply | Failure, Reply]:
        answer = yield self
        if isinstance(answer, Failure):
            raise answer
        return answer


class AskSynced(Ask):
    """One that replicas are to acknowledge: its answer is what :meth:`Runtime.eval_synced` returns."""

    __slots__ = ("sync", "sync_timeout")

    def __init__(
        self, runtime: Runtime, request: Request, timeout: float, sync: Acknowledging, sync_timeout: float
    ) -> None:
        super().__init__(runtime, request, timeout)
        self.sync: Acknowledging = sync
        self.sync_timeout: float = sync_timeout

    def __await__(self) -> Generator[Ask, Any, Any]:
        answer = yield self
        if isinstance(answer, Failure):
            raise answer
        return answer


class Pause:
    """A moment in which such a coroutine has nothing to ask."""

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds: float = seconds

    def __await__(self) -> Generator[Pause, None, None]:
        yield self


class Holding(Protocol):
    """What an owner holds, as far as a :class:`Mark` has to know."""

    name: str
    owner: str
    who: Caller
    mark: Callable[[], Any] | None

    def marked(self, mark: Callable[[], Any], /) -> None:
        """It has left this in the context of its owner."""
        ...

    def in_use(self) -> bool:
        """Whether anything is held, or is under way."""
        ...

    def bound(self) -> bool:
        """Whether any of it can only be released by the call chain that acquired it."""
        ...


class Mark(Protocol):
    """What a hold leaves in the context in which it was acquired: by it a call chain knows its own holds again."""

    @property
    def held(self) -> Holding:
        """What is held."""
        ...

    @property
    def names(self) -> frozenset[str]:
        """The locks that this is about."""
        ...


class Caller(Protocol):
    """Who asks: a thread, a task or an owner that the user made, by a number that is never used for another."""

    @property
    def number(self) -> int:
        """The number, as in ``<client id>:<number>``."""
        ...

    @property
    def shared(self) -> bool:
        """Whether call chains that have nothing to do with each other may run under it: see :meth:`acting`."""
        ...

    @property
    def divided(self) -> bool:
        """Whether that has happened."""
        ...

    def describe(self) -> str:
        """What to call it in a message."""
        ...

    def alive(self) -> bool:
        """Whether the thread or task still runs."""
        ...

    def gone_hint(self) -> str:
        """What to tell of one that ended while it held a lock."""
        ...

    def acting(self, names: frozenset[str], taken: Callable[[Caller], bool]) -> Caller:
        """Who the calling context is for these locks: the owner of its own hold, else one that holds none of them.

        Args:
            names: The locks.
            taken: Whether an owner holds, or asks for, one of them.
        """
        ...

    @property
    def pooled(self) -> bool:
        """Whether it is a thread that a pool gives its jobs."""
        ...

    def mark(self, held: Holding, names: frozenset[str], tell: Callable[[Holding], object]) -> None:
        """Note in the calling context, and in ``held.mark``, that something is about to be held.

        Args:
            held: What. Its ``mark`` returns the mark as long as that stands in a context, then ``None``.
            names: The locks that this is about.
            tell: As for :meth:`look_behind`, which is done as well.
        """
        ...

    def innermost(self) -> Mark | None:
        """The mark that was set last in the calling context."""
        ...

    def marks(self) -> Iterable[Mark]:
        """The holds that this owner acquired in the calling context, innermost first."""
        ...

    def look_behind(self, held: Holding, tell: Callable[[Holding], object]) -> None:
        """Look whether this thread holds anything for another call chain, although it has gone on to this one.

        Args:
            held: What it is about to hold now.
            tell: Called with what it has left held.
        """
        ...


class MadeCaller(Caller, Protocol):
    """An owner that the user made: it may be used from any thread or task, for one call at a time."""

    def alone(self, call: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """Make a call in its name. Raises ``LockError`` if one is under way."""
        ...


class Acknowledging(Protocol):
    """What replicas have to say to one request."""

    def needed(self) -> bool:
        """Whether replicas may be asked at all; there is a connection, so that the server is known."""
        ...

    def asked(self, reply: Reply) -> int:
        """How many replicas are to acknowledge what was done by the script that said this; 0: none."""
        ...


class Ticket(Protocol):
    """What one waiter sleeps on. It remembers one ring, so a ring before the sleep is not missed."""

    def ring(self) -> None:
        """Wake the waiter, or let its next :meth:`wait` return at once. Never blocks; any thread may call it."""
        ...

    async def wait(self, seconds: float) -> bool:
        """Sleep until rung, for at most ``seconds`` (may be infinite). Takes the ring; says whether there was one."""
        ...


class Background(Protocol):
    """A loop of the client's that runs beside its callers."""

    def nudge(self) -> None:
        """Let it look again now instead of when it meant to."""
        ...


class Runtime(Protocol):
    """The world as one client sees it."""

    #: Whether its coroutines suspend. One that is being closed may then wait for nothing any more.
    suspends: bool

    # ---- plain: never blocks -------------------------------------------------------------------------------------

    def now(self) -> float:
        """Monotonic seconds, counting suspended time where the system can."""
        ...

    def check_process(self) -> None:
        """Start afresh, as another client, if this process is the child of a fork and that was not noticed yet."""
        ...

    def owner(self) -> Caller:
        """The thread or task that is asking."""
        ...

    def stuck_behind(self, holder: Caller) -> str | None:
        """Why waiting here for this owner would never end, or ``None`` if it may.

        Under threads, a task or call chain of the waiting thread itself cannot continue while that waits.
        """
        ...

    def jitter(self, low: float, high: float) -> float:
        """A random number of seconds in between."""
        ...

    def new_id(self) -> str:
        """A random UUID, for a client to be told by."""
        ...

    def random_bytes(self, count: int, /) -> bytes:
        """So many bytes that nobody can guess."""
        ...

    def mutex(self) -> AbstractContextManager[Any]:
        """A lock for a few plain statements, never held across an ``await``. Reentrant: see :meth:`inside`."""
        ...

    def inside(self, mutex: Any, /) -> bool:
        """Whether the caller is inside of a mutex already: a signal handler that came in the middle of it."""
        ...

    def interrupts(self, thing: object, /) -> bool:
        """Whether the caller came in the middle of another call of its thread that is at work on this."""
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
        """Make a script's call ready to be sent, as often as wanted. ``script`` is a file's name in ``lua/``."""
        ...

    def place(self, name: str) -> int | None:
        """Where a name's keys are: one script can only be about names of one place. ``None``: all are in one."""
        ...

    def subscribe(self, channel: str) -> None:
        """Ask for a channel's messages; ``Wakeups.confirmed`` is called once they come, and after each reconnect."""
        ...

    def unsubscribe(self, channel: str) -> None:
        """No longer ask for a channel's messages."""
        ...

    def call_back(self, callback: Callable[..., object], *args: object) -> None:
        """Call a user's callback where it can neither block nor break anything of ours."""
        ...

    # ---- may block -----------------------------------------------------------------------------------------------

    async def eval(self, request: Request, timeout: float, /) -> Reply:
        """Run one script once. A script that the server does not know is sent in full, and that is still once.

        Raises:
            NotSent: It surely had no effect.
            Unanswered: It may have been executed, or may yet be.
            Rejected: The server answered with an error.
        """
        ...

    async def fan_out(self, asks: Iterable[Ask], /) -> list[Reply | Failure]:
        """Run scripts on several servers at once, each once, as :meth:`eval` does. All are of this runtime's kind.

        Args:
            asks: Each is sent before the next one is drawn, where that can be.

        Returns:
            What became of each: its reply (of an :class:`AskSynced` more than that), or the failure that :meth:`eval`
            would raise. One that does not answer costs
            its own timeout, and not one after another's; a connection that has to be made first may take longer, unless
            the server is known to be away.
        """
        ...

    async def eval_synced(
        self, request: Request, timeout: float, sync: Acknowledging, sync_timeout: float, /
    ) -> tuple[Reply, int | Failure]:
        """Run one script once, and let replicas acknowledge what it did, on a connection that nobody else needs.

        Returns:
            The reply; and how many replicas acknowledged within ``sync_timeout`` more seconds, or why they could not be
            asked. 0 if none was to.

        Raises:
            NotSent, Unanswered, Rejected: As for :meth:`eval`, of the script.
        """
        ...

    async def eval_all(self, requests: list[Request], timeout: float, /) -> list[Reply | Failure]:
        """Run many scripts, each once, within ``timeout`` in all. Returns the reply of each, or why there is none."""
        ...

    async def ask(self, command: tuple[str, ...], timeout: float, /) -> Reply:
        """Run one read-only command about its first argument, a key. Raises as :meth:`eval` does."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Let that much time pass."""
        ...

    async def guard(self, work: Coroutine[Any, Any, T], budget: float, *, leaving: bool = True) -> T | None:
        """Finish ``work`` although the caller is being cancelled or interrupted, within ``budget`` seconds.

        Args:
            work: What to finish.
            budget: Seconds.
            leaving: Whether the caller has been cancelled or interrupted already, and raises that afterwards. If not, a
                cancellation that comes meanwhile is raised once ``work`` is over.

        Returns:
            Its result, or ``None`` when the budget was too small: ``work`` is then given up.
        """
        ...


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


class Progress:
    """How far a call is that gives back a hold.

    Attributes:
        begun: Whether it sees to its own end from here on, whatever interrupts it. Set before it does anything.
    """

    begun = False  # Not set by an __init__(), in which an interruption would find nothing begun, and nobody to end it.


def run_to_the_end(call: Callable[..., Coroutine[Any, Any, None]], *args: object) -> None:
    """Run what gives back a hold, although Ctrl-C may come at any moment, or another interruption.

    ``call`` gets a :class:`Progress` as its last argument. Interrupted before that has begun, it is called again here.
    A second Ctrl-C is meant.
    """
    progress: Progress | None = None
    try:
        progress = Progress()
        run(call(*args, progress))
    except BaseException as error:
        if is_interruption(error) and (progress is None or not progress.begun):
            with suppress(type(error), *_OUR_ERRORS):  # What interrupted it is raised, whatever comes of it now.
                run(call(*args, Progress()))
        raise
