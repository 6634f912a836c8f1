"""Java and Python behind one face, so that a test can say "one side" and "the other".

An :class:`Owner` is a thread (or task) of one client. What it holds in its hands are :class:`Handle`\\ s, used by our
names and in seconds on either side::

    mine, theirs = java.owner().get("fair_lock", name), python.owner().get("fair_lock", name)
    mine.lock(10)
    waiting = theirs.start("lock")        # a future
    mine.unlock()
    waiting.result(5)
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Final

from pyredisson import LockNotOwnedError
from tests.interop.contention import Times, contend, contend_as_task
from tests.interop.peer import WITHIN, JavaClient, JavaError, Jvm, quoted
from tests.worlds.base import Actor
from tests.worlds.clock import ClockWorld

LOCKS: Final = ("lock", "non_reentrant_lock", "fair_lock", "spin_lock", "fenced_lock", "write_lock")


class Handle:
    """An object in the hands of an owner: its methods are done there, and are plain calls here."""

    def __init__(self, owner: Owner, kind: str, name: str) -> None:
        self.owner, self.kind, self.name = owner, kind, name

    def start(self, method: str, *args: Any, **options: Any) -> Future[Any]:
        """Begin a call that may block."""
        return self.owner.call(self.kind, self.name, method, *args, **options)

    def __getattr__(self, method: str) -> Any:
        return lambda *args, **options: self.start(method, *args, **options).result(WITHIN)


class Owner(ABC):
    """A thread or task of one client.

    Attributes:
        field: What stands for it in Redis.
    """

    field: str

    @abstractmethod
    def call(self, kind: str, name: str, method: str, *args: Any, **options: Any) -> Future[Any]:
        """Begin a call."""

    @abstractmethod
    def contend(self, kind: str, name: str, counter: str, until: int, hold: float, rest: float) -> Future[Times]:
        """Begin to count up with others; see ``contention.py``. Times are in seconds."""

    @abstractmethod
    def waits(self) -> bool:
        """Whether it is about to be woken by a message, in Java: it has asked, listened and asked again. One of ours
        has nothing to miss: what it hears before it waits counts as well.
        """

    def get(self, kind: str, name: str) -> Handle:
        """What its client's ``get_<kind>`` makes, or one side of a read-write lock: ``read_lock``, ``write_lock``.

        ``multi_lock/fair_lock`` and ``red_lock/fair_lock`` are made of fair locks, with each of the owner's clients, by
        each of the names: those have commas between them.
        """
        return Handle(self, kind, name)


class Side(ABC):
    """A client on one side, and its owners.

    Attributes:
        language: ``java`` or ``python``.
        id: The client's UUID.
    """

    language: str
    id: str

    @abstractmethod
    def owner(self) -> Owner:
        """A new one."""


class PythonSide(Side):
    """A client of ours in this process; or several, for a multi-lock."""

    language = "python"

    def __init__(self, world: ClockWorld, *urls: str, **config: Any) -> None:
        self.world = world
        self.url = urls[0]
        self.clients = [world.from_url(url, **config) for url in urls]
        self.client = self.clients[0]
        self.id = self.client.id

    def owner(self) -> Owner:
        return _PythonOwner(self)


class _PythonOwner(Owner):
    def __init__(self, side: PythonSide) -> None:
        self._side = side
        self._actor: Actor = side.world.actor()
        self.field = f"{side.id}:{self._actor.number}"

    def waits(self) -> bool:
        return True

    def _object(self, kind: str, name: str) -> Any:
        whole, _, kind_of_members = kind.partition("/")
        if not kind_of_members:
            return self._single(self._side.client, kind, name)
        members = [
            self._single(client, kind_of_members, each) for client in self._side.clients for each in name.split(",")
        ]
        return getattr(self._side.client, f"get_{whole}")(*members)

    @staticmethod
    def _single(client: Any, kind: str, name: str) -> Any:
        if kind in ("read_lock", "write_lock"):
            return getattr(client.get_read_write_lock(name), kind)()
        return getattr(client, f"get_{kind}")(name)

    def call(self, kind: str, name: str, method: str, *args: Any, **options: Any) -> Future[Any]:
        return self._actor.start(getattr(self._object(kind, name), method), *args, **options)

    def contend(self, kind: str, name: str, counter: str, until: int, hold: float, rest: float) -> Future[Times]:
        loop = contend if self._side.world.runtime == "threads" else contend_as_task
        return self._actor.start(loop, self._object(kind, name), self._side.url, kind, counter, until, hold, rest)


class JavaSide(Side):
    """A client of Redisson's in a JVM; or several, for a multi-lock."""

    language = "java"

    def __init__(self, jvm: Jvm, *urls: str, **settings: Any) -> None:
        self.clients = [self._connect(jvm, url, settings) for url in urls]
        self.id = self.clients[0].id

    @staticmethod
    def _connect(jvm: Jvm, url: str, settings: dict[str, Any]) -> JavaClient:
        scheme, _, addresses = url.partition("://")
        if scheme != "redis+cluster":
            return jvm.connect(url, **settings)
        nodes = ",".join(f"redis://{each}" for each in addresses.split(","))
        return jvm.connect(nodes, mode="cluster", **settings)

    def owner(self) -> Owner:
        return _JavaOwner(self.clients)

    def close(self) -> None:
        for client in self.clients:
            client.close()


class _JavaOwner(Owner):
    def __init__(self, clients: Sequence[JavaClient]) -> None:
        self._jvm = clients[0].jvm
        self._clients = ",".join(client.name for client in clients)
        self._thread = self._jvm.new_name("thread")
        self.field = f"{clients[0].id}:{self._jvm.do(self._thread, 'number')}"

    def waits(self) -> bool:
        return bool(self._jvm.do(self._thread, "waits"))

    def call(self, kind: str, name: str, method: str, *args: Any, **options: Any) -> Future[Any]:
        java_method, java_args, read = _translated(kind, method, *args, **options)
        future = self._jvm.start(
            self._thread, "call", self._clients, quoted(kind), quoted(name), java_method, *java_args
        )
        return ReadFuture(future, read) if read else future

    def contend(self, kind: str, name: str, counter: str, until: int, hold: float, rest: float) -> Future[Times]:
        times = (str(round(hold * 1e6)), str(round(rest * 1e6)))
        future = self._jvm.start(
            self._thread, "contend", self._clients, quoted(kind), quoted(name), quoted(counter), str(until), *times
        )
        return ReadFuture(future, lambda flat: list(zip(flat[::2], flat[1::2], strict=True)))


class ReadFuture(Future[Any]):
    """The outcome of another one, read in another way."""

    def __init__(self, future: Future[Any], read: Any) -> None:
        super().__init__()
        self._how = read
        future.add_done_callback(self._come)

    def _come(self, future: Future[Any]) -> None:
        error = future.exception()
        if error is not None:
            self.set_exception(error)
        else:
            self.set_result(self._how(future.result()))


def not_owned(error: BaseException | None) -> bool:
    """Whether it says that the caller does not hold what it wanted to give back."""
    if isinstance(error, JavaError):
        # The oldest wraps what a member of a multi-lock says.
        return bool(re.search("IllegalMonitorStateException|ha(s|ve) already been released", str(error)))
    return isinstance(error, LockNotOwnedError)


# ---- our calls in Redisson's words -----------------------------------------------------------------------------------


def _time(seconds: float) -> list[str]:
    return [f"m{math.ceil(seconds * 1000)}"]


def _translated(
    kind: str, method: str, *args: Any, permits: int | None = None, ttl: float | None = None
) -> tuple[str, list[str], Any]:
    """The name of the method, its arguments as they are sent, and how to read the result (``None``: as it is)."""
    words = method.split("_")
    camel = words[0] + "".join(word.capitalize() for word in words[1:])
    if method in ("expire", "clear_expire", "delete", "exists"):
        return "isExists" if method == "exists" else camel, [*_time(args[0]), "u"] if args else [], None
    if kind == "permit_expirable_semaphore":
        return _of_permits(camel, *args) if permits is None else _of_several_permits(camel, permits, *args)
    if ttl is not None:
        return camel, [f"i{args[0]}", f"d{math.ceil(ttl * 1000)}"], None
    if kind == "semaphore":
        permits = args[0] if args else 1
        wait = args[1] if len(args) > 1 else 0
        if camel in ("availablePermits", "drainPermits"):
            return camel, [], None
        if camel == "acquire":
            return camel, [f"i{permits}"], lambda _: True
        return camel, [f"i{permits}", *([*_time(wait), "u"] if wait else [])], None
    if kind == "count_down_latch":
        if camel == "wait":
            return ("await", [*_time(args[0]), "u"], None) if args else ("await", [], lambda _: True)
        return camel, [f"l{each}" for each in args], None
    if camel in ("lock", "lockAndGetToken"):
        lease = args[0] if args else None
        return camel, [] if lease is None else [*_time(lease), "u"], (lambda _: True) if camel == "lock" else None
    if camel in ("tryLock", "tryLockAndGetToken"):
        wait, lease = (*args, None, None)[:2] if args else (0, None)
        if lease is not None:
            return camel, [*_time(wait or 0), *_time(lease), "u"], None
        # Without a wait, tryLockAndGetToken() waits for ever in Java; a time that is over at once does not.
        return camel, [*_time(wait), "u"] if wait or camel != "tryLock" else [], None
    if camel == "remainTimeToLive":
        return camel, [], lambda ms: None if ms == -2 else math.inf if ms == -1 else ms / 1000
    if camel == "isHeldByThread":
        return camel, [f"l{args[0]}"], None
    assert not args, (kind, method, args)
    return camel, [], None


def _of_permits(camel: str, *args: Any) -> tuple[str, list[str], Any]:
    if camel in ("acquire", "tryAcquire"):
        wait, lease = (None, *args, None)[:2] if camel == "acquire" else (*args, 0, None)[:2]
        if camel == "acquire":
            return camel, [] if lease is None else [*_time(lease), "u"], None
        if lease is None and not wait:
            return camel, [], None
        return camel, [*_time(wait), *(_time(lease) if lease is not None else ["l-1"]), "u"], None
    if camel in ("release", "tryRelease"):
        if isinstance(args[0], list):
            return camel, ["t" + ",".join(args[0])], lambda released: released if released is None else released > 0
        return camel, [f"s{args[0]}"], None
    if camel == "getLeaseTime":
        return camel, [f"s{args[0]}"], lambda ms: math.inf if ms == -1 else ms / 1000
    if camel == "updateLeaseTime":
        return camel, [f"s{args[0]}", *(_time(args[1]) if args[1] is not None else ["l-1"]), "u"], None
    return camel, [f"i{each}" for each in args], None


def _of_several_permits(camel: str, permits: int, *args: Any) -> tuple[str, list[str], Any]:
    name, rest, _ = _of_permits(camel, *args)
    return name, [f"i{permits}", *rest], lambda ids: ids or None
