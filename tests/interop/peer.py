"""Redisson in a JVM, driven from here. The protocol is described in ``java/src/main/java/pyredisson/Peer.java``.

A :class:`Jvm` runs one version of Redisson. In it are clients and threads; a call names both, and its outcome is a
``Future``, so that one that blocks keeps nobody from doing something else.
"""

from __future__ import annotations

import itertools
import subprocess
import threading
from concurrent.futures import Future
from typing import Any, Final
from urllib.parse import quote, unquote_plus

WITHIN: Final = 30.0  # seconds for what is sure to come; only a failing test waits so long


class JavaError(Exception):
    """What was thrown in Java.

    Attributes:
        kind: The name of its class, without the package.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Jvm:
    """A process with Redisson in it.

    Args:
        command: What starts it; see ``building.py``.
    """

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._numbers = itertools.count(1)
        self._names = itertools.count(1)
        self._mutex = threading.Lock()
        self._open: dict[str, Future[Any]] = {}
        self._over: str | None = None
        self._reader = threading.Thread(target=self._read, name="answers of the jvm", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def new_name(self, kind: str) -> str:
        """For a client or a thread."""
        return f"{kind}{next(self._names)}"

    def start(self, thread: str, verb: str, *args: str) -> Future[Any]:
        """Let a thread do something, after what it was told before."""
        number, future = str(next(self._numbers)), Future[Any]()
        with self._mutex:
            if self._over is not None:
                raise JavaError("Ended", self._over)
            self._open[number] = future
            assert self._process.stdin is not None
            self._process.stdin.write("\t".join((number, thread, verb, *args)) + "\n")
            self._process.stdin.flush()
        return future

    def do(self, thread: str, verb: str, *args: str, within: float = WITHIN) -> Any:
        """Let a thread do something, and wait for what comes of it."""
        return self.start(thread, verb, *args).result(within)

    def connect(
        self,
        addresses: str,
        *,
        mode: str = "single",
        watchdog_ms: int = 30_000,
        sharded: str = "AUTO",
        prefix: str = "",
        within: float = WITHIN,
    ) -> JavaClient:
        """A new client.

        Args:
            addresses: Of the server, or with ``mode="cluster"`` of some nodes, with commas between them.
            mode: ``single`` or ``cluster``; ``untouched``: single, with nothing but Redisson's defaults.
            watchdog_ms: Its ``lockWatchdogTimeout``.
            sharded: Its ``shardedSubscriptionMode``, in a cluster: ``AUTO``, ``ON`` or ``OFF``.
            prefix: What its ``NameMapper`` puts before each name.
            within: Seconds; a JVM that has just been started takes one, and many of them at once take more.
        """
        name = self.new_name("client")
        words = (name, mode, quoted(addresses), str(watchdog_ms), sharded, quoted(prefix))
        client_id = self.do("main", "connect", *words, within=within)
        return JavaClient(self, name, client_id)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait(WITHIN)
        self._reader.join(WITHIN)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            number, outcome, *words = line.rstrip("\n").split("\t")
            with self._mutex:
                future = self._open.pop(number)
            if outcome == "ok":
                future.set_result(_decoded(words[0]))
            else:
                future.set_exception(JavaError(words[0], unquote_plus(words[1])))
        with self._mutex:
            self._over = f"the JVM has ended ({self._process.poll()})"
            left = list(self._open.values())
            self._open.clear()
        for future in left:
            future.set_exception(JavaError("Ended", self._over))


class JavaClient:
    """A ``RedissonClient``.

    Attributes:
        id: Its UUID.
    """

    def __init__(self, jvm: Jvm, name: str, client_id: str) -> None:
        self.jvm = jvm
        self.name = name
        self.id = client_id

    def close(self) -> None:
        self.jvm.do("main", "disconnect", self.name)


def quoted(text: str) -> str:
    return quote(text, safe="")


def _decoded(word: str) -> Any:
    match word[0]:
        case "n":
            return None
        case "b":
            return word == "btrue"
        case "l":
            return int(word[1:])
        case "a":
            return [int(each) for each in word[1:].split(",") if each]
        case "t":
            return [unquote_plus(each) for each in word[1:].split(",") if each]
        case _:
            return unquote_plus(word[1:])
