"""What a test of the contract is written against: a world, its actors, and what they hold in their hands.

A test is a plain function over a :class:`World`. It says what happens, in order, and never sleeps: ``world.until(...)``
waits for a condition, ``world.pass_time(seconds)`` lets time go by, whether it is the clock's or a simulated one's::

    def test_a_waiter_gets_the_lock_when_the_holder_lets_go(world):
        client = world.client()
        alice, bob = world.actors(2)
        mine, theirs = alice.lock(client), bob.lock(client)
        mine.lock()
        waiting = bob.start(theirs.lock)
        mine.unlock()
        waiting.result(within=5)

An *actor* is one owner: a thread, or a task. It does one thing at a time, in its own thread or task; whatever it
touches is wrapped in a :class:`Remote`, whose methods run there. The worlds are in ``on_the_clock.py`` and
``simulated.py``, and ``places.py`` lists where the contract is held to.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from types import TracebackType
from typing import Any

from tests.contract.store import Messages, Store

PATIENCE = 10.0  # seconds for what is sure to come; only a failing test waits so long


class Pending(ABC):
    """A call under way in an actor."""

    @abstractmethod
    def done(self) -> bool:
        """Whether it returned or raised."""

    @abstractmethod
    def wait(self, within: float) -> None:
        """Wait for its end."""

    @abstractmethod
    def result(self, within: float = PATIENCE) -> Any:
        """What it returned; or raise what it raised. Fails if that takes longer than ``within`` seconds."""

    def error(self, within: float = PATIENCE) -> BaseException:
        """What it raised."""
        self.come(within)
        try:
            result = self.result(0)
        except BaseException as error:
            return error
        raise AssertionError(f"it raised nothing, and returned {result!r}")

    def come(self, within: float) -> None:
        """Wait for its end, which has to come."""
        self.wait(within)
        assert self.done(), f"the call was not over within {within} s"


class Actor(ABC):
    """One owner. Whatever it is told to do runs in its own thread or task, one call at a time."""

    @property
    @abstractmethod
    def number(self) -> int:
        """What ``current_thread_id()`` is for it."""

    @abstractmethod
    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Pending:
        """Begin a call that may block."""

    @abstractmethod
    def end(self) -> None:
        """Let the thread or task end, whatever it holds."""

    @abstractmethod
    def interrupted(self, call: Callable[..., Any], *args: Any, once: Callable[[], object]) -> BaseException | None:
        """Make a call, and interrupt it (Ctrl-C, cancellation) once a condition is true.

        Returns:
            What it raised; ``None`` if it was over before it could be interrupted.
        """

    def do(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Make a call and wait for its end."""
        return self.start(call, *args, **kwargs).result()

    def lock(self, client: Remote, name: str = "orders") -> Remote:
        """A handle on a lock, for this actor."""
        return self.get(client, "lock", name)

    def get(self, client: Remote, kind: str, name: str = "orders", *args: Any, **kwargs: Any) -> Remote:
        """A handle on any kind, for this actor: what the client's ``get_<kind>`` makes."""
        return Remote(getattr(client.real, f"get_{kind}")(name, *args, **kwargs), self)


class Remote:
    """Something of pyredisson's in the hands of an actor: its methods run there, and are plain calls here."""

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
        """To enter its block, for those who have to wait there."""
        return Call(self._actor, getattr(self.real, "__aenter__", None) or self.real.__enter__)

    def __enter__(self) -> Any:
        return self.enter()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._actor.do(getattr(self.real, "__aexit__", None) or self.real.__exit__, kind, error, trace)


class Call:
    """A method, to be run by its actor."""

    def __init__(self, actor: Actor, method: Callable[..., Any]) -> None:
        self._actor = actor
        self.method = method

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        result = self._actor.do(self, *args, **kwargs)
        return Remote(result, self._actor) if type(result).__name__ in ("HoldContext", "Lock", "PermitHold") else result


def method_of(call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[], Any]:
    """The call itself, without the actor that it belongs to."""
    return partial(call.method if isinstance(call, Call) else call, *args, **kwargs)


class World(ABC):
    """A runtime and a server.

    Attributes:
        redis: What is in the database.
    """

    redis: Store

    def __init__(self) -> None:
        # What was made here, to be ended in this order: no actor comes to its end while its client lets it wait.
        self._clients, self._actors, self._ends = ExitStack(), ExitStack(), ExitStack()

    # ---- who and what --------------------------------------------------------------------------------------------

    @abstractmethod
    def actor(self) -> Actor:
        """A new owner."""

    def actors(self, count: int) -> list[Actor]:
        """So many new owners."""
        return [self.actor() for _ in range(count)]

    @abstractmethod
    def interruptible(self) -> Actor:
        """An owner that can be interrupted. There is only one a test: under threads only the main one hears Ctrl-C."""

    @abstractmethod
    def client(self, **config: Any) -> Remote:
        """A new client, with settings as in ``Config``; closed with the world."""

    @abstractmethod
    def nodes(self, count: int, **config: Any) -> list[Remote]:
        """New clients, each of a server of its own; these are empty. ``self.node(index)`` looks into one."""

    @abstractmethod
    def node(self, index: int) -> Store:
        """What is in the database of one of the :meth:`nodes`."""

    def adopt(self, client: Any) -> Remote:
        """Look after a client that the test has made."""
        remote = Remote(client, self.actor())
        self._clients.callback(remote.close)
        return remote

    # ---- what is to be seen --------------------------------------------------------------------------------------

    def waiting(self, lock: Remote) -> int:
        """How many wait for a lock in its client, by what the lock says of itself."""
        said = re.search(r"(\d+) waiting here", repr(lock))
        return int(said[1]) if said else 0

    def renewed(self, *keys: str, times: int = 2, store: Store | None = None) -> None:
        """Wait until the TTL of each of these keys was raised so often: that is what keeps them alive.

        Who waits until a TTL is surely over sees no more, and needs one so short that a busy machine may use it up.
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
        """Wait for something to come true."""

    @abstractmethod
    def pass_time(self, seconds: float) -> None:
        """Let time go by."""

    @abstractmethod
    def now(self) -> float:
        """Monotonic seconds."""

    def close(self) -> None:
        """End everything that was made here. Waiters are woken by the end of their client."""
        with self._ends, self._actors, self._clients:
            pass
