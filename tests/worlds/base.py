"""What a test is written against: a world, its actors, and the objects that they use.

A test is a plain function over a :class:`World`. It says what happens, in order, and never sleeps: ``world.until(...)``
waits for a condition, ``world.pass_time(seconds)`` lets time go by, real or simulated::

    def test_waiter_gets_the_lock_when_the_holder_releases_it(world):
        client = world.client()
        alice, bob = world.actors(2)
        mine, theirs = alice.lock(client), bob.lock(client)
        mine.lock()
        waiting = bob.start(theirs.lock)
        mine.unlock()
        waiting.result(within=5)

An *actor* is one owner: a thread, or a task. It makes one call at a time, in its own thread or task. An object of
pyredisson is wrapped in a :class:`Remote`, whose methods run in an actor; ``actor.do`` and ``actor.start`` also take
methods of objects that are not wrapped.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, Literal

from tests.forms import enter_of, exit_of
from tests.worlds.store import Messages, Store

PATIENCE = 10.0  # seconds to wait for what must happen; only a failing test waits so long
KEPT = (
    4.5  # a watchdog's timeout, where nothing may be lost: a busy machine was seen to stand still for over two seconds
)


class Pending(ABC):
    """A call under way in an actor."""

    @abstractmethod
    def done(self) -> bool:
        """Return whether it returned or raised."""

    @abstractmethod
    def wait(self, within: float) -> None:
        """Wait for its end."""

    @abstractmethod
    def result(self, within: float = PATIENCE) -> Any:
        """Return what it returned, or raise what it raised. Fails if that takes longer than ``within`` seconds."""

    def error(self, within: float = PATIENCE) -> BaseException:
        """Return what it raised."""
        self.finish(within)
        try:
            result = self.result(0)
        except BaseException as error:
            return error
        raise AssertionError(f"it raised nothing, and returned {result!r}")

    def finish(self, within: float) -> None:
        """Wait for its end, and fail if it does not end."""
        self.wait(within)
        assert self.done(), f"the call did not end within {within} s"


class Actor(ABC):
    """One owner. Its calls run in its own thread or task, one at a time."""

    @property
    @abstractmethod
    def number(self) -> int:
        """Its number, as in the owner field ``<client id>:<number>``: what ``current_thread_id()`` returns there."""

    @abstractmethod
    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Pending:
        """Begin a call that may block; what it returns is awaited if need be, and a coroutine in a thread is run."""

    @abstractmethod
    def end(self) -> None:
        """Let the thread or task end, whatever it holds, and wait until it has."""

    @abstractmethod
    def interrupted(self, call: Callable[..., Any], *args: Any, once: Callable[[], object]) -> BaseException | None:
        """Make a call, and interrupt it (Ctrl-C, cancellation) once a condition is true.

        Returns:
            What it raised; ``None`` if it ended before it could be interrupted.
        """

    def do(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Make a call and wait for its end."""
        return self.start(call, *args, **kwargs).result()

    def lock(self, client: Remote, name: str = "orders") -> Remote:
        """Return a handle on a lock, for this actor."""
        return self.get(client, "lock", name)

    def get(self, client: Remote, kind: str, name: str = "orders", *args: Any, **kwargs: Any) -> Remote:
        """Return what the client's ``get_<kind>`` makes, for this actor."""
        return Remote(getattr(client.real, f"get_{kind}")(name, *args, **kwargs), self)


class Remote:
    """An object of pyredisson that an actor uses: its methods run in the actor, and are plain calls here."""

    def __init__(self, real: Any, actor: Actor) -> None:
        self.real = real
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.real, name)
        return Call(self._actor, value) if callable(value) else value

    def __repr__(self) -> str:
        return repr(self.real)

    @property
    def enter(self) -> Call:
        """The call that enters its block, for an actor that has to wait there."""
        return Call(self._actor, World.enter(self.real))

    def __enter__(self) -> Any:
        return self.enter()

    def __exit__(self, *raised: object) -> None:
        self._actor.do(exit_of(self.real), *raised)


class Call:
    """A method, to be run by its actor."""

    def __init__(self, actor: Actor, method: Callable[..., Any]) -> None:
        self._actor = actor
        self.method = method

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._actor.do(self, *args, **kwargs)
        return Remote(result, self._actor) if type(result).__name__ in ("Hold", "Lock", "PermitHold") else result


def method_of(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any]:
    """Return the call itself, without the actor that it belongs to."""
    return partial(call.method if isinstance(call, Call) else call, *args, **kwargs)


class World(ABC):
    """A runtime and its servers.

    Attributes:
        runtime: Its name.
        redis: What is in the database of the world's server.
        losses: What :meth:`on_lock_lost` was called with.
    """

    runtime: Literal["threads", "asyncio", "simulated"]
    redis: Store

    def __init__(self) -> None:
        # What was made here, to be ended in this order: no actor ends while its client lets it wait.
        self._clients, self._actors, self._ends = ExitStack(), ExitStack(), ExitStack()
        self._adopted: list[Any] = []
        self.losses: list[tuple[str, int]] = []

    # ---- actors and clients --------------------------------------------------------------------------------------

    def actor(self) -> Actor:
        """Return a new owner; it ends with the world at the latest."""
        actor = self._new_actor()
        self._actors.callback(actor.end)
        return actor

    @abstractmethod
    def _new_actor(self) -> Actor: ...

    def actors(self, count: int) -> list[Actor]:
        """Return several new owners."""
        return [self.actor() for _ in range(count)]

    @abstractmethod
    def interruptible(self) -> Actor:
        """Return an owner that can be interrupted. A test has one: only the main thread receives Ctrl-C."""

    @abstractmethod
    def client(self, **config: Any) -> Remote:
        """Return a new client of the world's server, with settings as in ``Config``; closed with the world."""

    @abstractmethod
    def nodes(self, count: int, **config: Any) -> list[Remote]:
        """Return new clients, each of an empty server of its own. ``self.node(index)`` looks into one."""

    @abstractmethod
    def node(self, index: int) -> Store:
        """Return what is in the database of one of the :meth:`nodes`."""

    def adopt(self, client: Any) -> Remote:
        """Close a client that the test has made when the world ends."""
        remote = Remote(client, self.actor())
        self._clients.callback(remote.close)
        self._adopted.append(client)
        return remote

    @staticmethod
    def enter(context: Any) -> Callable[[], Any]:
        """Return the call that enters a ``with`` or ``async with`` block."""
        return enter_of(context)

    @staticmethod
    def leave(context: Any) -> Callable[..., Any]:
        """Return the call that leaves the block; its argument is the exception of the body, if any."""
        return lambda error=None: exit_of(context)(type(error) if error else None, error, None)

    # ---- observations --------------------------------------------------------------------------------------------

    def waiting(self, lock: Remote) -> int:
        """Return how many wait for a lock in its client, by the lock's ``repr()``."""
        said = re.search(r"(\d+) waiting here", repr(lock))
        return int(said[1]) if said else 0

    def on_lock_lost(self, name: str, number: int) -> None:
        """Record a loss: for ``Config.on_lock_lost``."""
        self.losses.append((name, number))

    @property
    def lost(self) -> list[str]:
        """The names in :attr:`losses`."""
        return [name for name, _ in list(self.losses)]

    def last_resorts(self) -> int:
        """Return how many waits here were ended by a check for which only the lack of a message was the reason."""
        cores = [getattr(each, "_core", None) or each.core for each in self._adopted]
        return sum(core.subscriptions.last_resorts for core in cores)

    def renewed(self, *keys: str, times: int = 2, store: Store | None = None) -> None:
        """Wait until the TTL of each of these keys was raised so often: that is what keeps them alive.

        To wait until a TTL must have expired would show no more, and needs one so short that a busy machine may use
        it up.
        """
        store = store or self.redis
        raised = dict.fromkeys(keys, 0)
        left = {key: store.ttl(key) for key in keys}

        def enough() -> bool:
            for key in keys:
                before, now = left[key], store.ttl(key)
                assert before is not None, f"{key} is gone"
                assert now is not None, f"{key} is gone"
                left[key] = now
                raised[key] += now > before
            return min(raised.values()) >= times

        self.until(enough, what=f"{' and '.join(keys)} renewed {times} times")

    def messages(self, channel: str) -> Messages:
        """Listen to a channel from now on."""
        messages = self.redis.messages(channel)
        self._ends.callback(getattr(messages, "close", lambda: None))
        return messages

    # ---- time ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def until(self, predicate: Callable[[], Any], within: float = PATIENCE, what: str = "") -> Any:
        """Wait until a condition is true."""

    @abstractmethod
    def pass_time(self, seconds: float) -> None:
        """Let time go by."""

    @abstractmethod
    def now(self) -> float:
        """Return monotonic seconds."""

    # ---- the end -------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End everything that was made here, and fail if something is left or went wrong unnoticed.

        Waiters are woken by the end of their client. Then every actor must end, and then no task may be left.
        """
        with self._ends, self._actors, self._clients:
            pass
