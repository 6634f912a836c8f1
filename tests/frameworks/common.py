"""Real programs in processes of their own, on a real server: start them, ask them, stop them, see what is left.

A test gets a :class:`Surroundings` (fixture ``surroundings``), in which it starts programs::

    def test_one_worker_at_a_time(surroundings: Surroundings) -> None:
        require("gunicorn")
        site = surroundings.site("-m", "gunicorn", "-b", "{address}", "tests.frameworks.apps.wsgi:app")
        replies = site.get_all(["/enter"] * 60, at_once=12)
        assert [reply.status for reply in replies] == [200] * 60
        site.stop()
        surroundings.check_exclusion(60)
        surroundings.check_nothing_left()
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.servers import HOST, Server, free_port
from tests.waiting import until

ROOT = Path(__file__).parents[2]

#: A program that does not answer or end by then never will; a busy machine needs some seconds to import Django.
START_WITHIN = 30.0
STOP_WITHIN = 15.0


def require(*packages: str) -> None:
    """Skip the test if a package is missing, or fail it under ``PYREDISSON_REQUIRE_ALL=1``."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    if missing:
        reason = f"no {', '.join(missing)} here: pip install --group frameworks"
        if os.environ.get("PYREDISSON_REQUIRE_ALL") == "1":
            pytest.fail(f"PYREDISSON_REQUIRE_ALL=1: {reason}", pytrace=False)
        pytest.skip(reason)


class Response(NamedTuple):
    """What an HTTP server answered. ``status`` 0: it did not; then ``text`` says why."""

    status: int
    text: str

    @property
    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.text)


class Connection(NamedTuple):
    """A client of HTTP that goes away in the middle of a response."""

    raw: socket.socket

    def close(self, *, reset: bool = False) -> None:
        """Close the connection; ``reset``: so that the server is told by an error, not by an end."""
        if reset:
            self.raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.raw.close()


class Program:
    """A program in a process (and a process group) of its own. What it writes is in :meth:`output`."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path, folder: Path = ROOT) -> None:
        self.log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def output(self) -> str:
        """What it has written so far, to either stream."""
        return self.log.read_text(errors="replace")

    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the process that was started, not to its children."""
        with suppress(ProcessLookupError):
            self.process.send_signal(number)

    def wait(self, within: float = STOP_WITHIN) -> int:
        """Wait until it ends by itself, and return its exit status."""
        try:
            return self.process.wait(within)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it did not end within {within} s:\n{self.output()}") from None

    def stop(self, number: signal.Signals = signal.SIGTERM, within: float = STOP_WITHIN) -> int:
        """End it by a signal, and return its exit status.

        Raises:
            AssertionError: It did not end in time, or left a process behind.
        """
        self.send(number)
        status = self.wait(within)
        until(lambda: not self._group_lives(), within=5.0, what="all processes of the program have ended")
        return status

    def kill(self) -> None:
        """SIGKILL for it and all its children. For the end of a test that failed."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _group_lives(self) -> bool:
        try:
            os.killpg(self.process.pid, 0)
        except (ProcessLookupError, PermissionError):
            return False
        return True


class Site(Program):
    """A program that serves HTTP on a port of its own."""

    def __init__(self, port: int, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        super().__init__([sys.executable, *arguments], environment, log)
        self.port = port

    def wait_until_ready(self, path: str) -> bool:
        """Wait until it answers; ``False`` if somebody else has its port."""

        def answered() -> bool:
            return not self.running() or self.get(path, timeout=2.0).status == 200

        try:
            until(answered, within=START_WITHIN, what="the program answers")
        except AssertionError:
            raise AssertionError(f"the program does not answer:\n{self.output()}") from None
        if self.running():
            return True
        output = self.output()
        if "ddress already in use" in output or "in use:" in output:
            return False
        raise AssertionError(f"the program ended with {self.process.returncode}:\n{output}")

    def get(self, path: str, timeout: float = 30.0) -> Response:
        """Ask for a path. Raises nothing."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=timeout)
        try:
            connection.request("GET", path, headers={"Connection": "close"})
            response = connection.getresponse()
            return Response(response.status, response.read().decode(errors="replace"))
        except (OSError, http.client.HTTPException) as error:
            return Response(0, repr(error))
        finally:
            connection.close()

    def begin(self, path: str, *, until_sent: bytes = b"") -> Connection:
        """Ask for a path, and do not wait for more of the response than the bytes ``until_sent``."""
        connection = Connection(socket.create_connection((HOST, self.port), timeout=30))
        try:
            connection.raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            received = b""
            while until_sent not in received:
                more = connection.raw.recv(65536)
                assert more, f"{until_sent!r} was not sent: {received!r}\n{self.output()[-3000:]}"
                received += more
        except BaseException:
            connection.close()
            raise
        return connection

    def get_all(self, paths: Iterable[str], at_once: int, timeout: float = 30.0) -> list[Response]:
        """Ask for many paths, some at once. Returns what each was answered, in the order of the paths."""
        with ThreadPoolExecutor(at_once) as pool:
            return list(pool.map(lambda path: self.get(path, timeout), paths))

    def get_all_of_each(
        self, paths: Sequence[str], at_once: int, workers: int, within: float = START_WITHIN
    ) -> list[Response]:
        """Ask for all paths, again until so many workers have answered some of them in the same round.

        Which worker answers is up to the kernel: one can answer them all while another one still starts.

        Returns:
            What was answered in all rounds; the last one has an answer of another status than 200, or of each worker.

        Raises:
            AssertionError: Each round was answered by fewer workers.
        """
        replies: list[Response] = []

        def answered_by_each() -> bool:
            latest = self.get_all(paths, at_once)
            replies.extend(latest)
            failed = any(reply.status != 200 for reply in latest)
            return failed or len({reply.json["pid"] for reply in latest}) >= workers

        until(answered_by_each, within, what=f"{workers} workers answer in the same round")
        return replies


class Surroundings:
    """What the programs of one test share: a server, names of their own, a critical section.

    Args:
        server: Where Redis is.
        name: What all names of this test begin with.
        folder: Where files may be.
    """

    def __init__(self, server: Server, name: str, folder: Path) -> None:
        self.server = server
        self.name = name
        self.folder = folder
        self.programs: list[Program] = []

    @property
    def url(self) -> str:
        """Where Redis is, for connections that :meth:`connections` finds."""
        return f"{self.server.url}?client_name={self.name}"

    @property
    def environment(self) -> dict[str, str]:
        """What a program is told; see ``apps/shared.py``."""
        return {
            "PYREDISSON_TEST_URL": self.url,
            "PYREDISSON_TEST_NAME": self.name,
            "PYREDISSON_TEST_SECTION": str(self.folder / "section"),
            "PYTHONUNBUFFERED": "1",
        }

    def program(self, *arguments: str, environment: Mapping[str, str] | None = None) -> Program:
        """Start ``python *arguments``. It is killed at the end of the test, if it has not ended by then."""
        return self.start([sys.executable, *arguments], {**self.environment, **(environment or {})})

    def start(self, command: Sequence[str], environment: Mapping[str, str], folder: Path = ROOT) -> Program:
        """Start a program of any kind, in a folder. It is killed as :meth:`program` says."""
        program = Program(command, environment, self._new_log(), folder)
        self.programs.append(program)
        return program

    def site(self, *arguments: str, environment: Mapping[str, str] | None = None, ready: str = "/ready") -> Site:
        """Start ``python *arguments`` and wait until it answers with 200 at the path ``ready``.

        ``{address}`` and ``{port}`` in the arguments stand for where it is to listen.
        """
        for _ in range(5):
            port = free_port()
            given = [each.format(address=f"{HOST}:{port}", port=port) for each in arguments]
            site = Site(port, given, {**self.environment, **(environment or {})}, self._new_log())
            self.programs.append(site)
            if site.wait_until_ready(ready):
                return site
        raise AssertionError("no free port after 5 attempts")

    def _new_log(self) -> Path:
        return self.folder / f"program-{len(self.programs)}.log"

    # ---- what they did, and what they left ---------------------------------------------------------------------

    def notes(self) -> list[str]:
        """What programs noted, line by line: each entry to a critical section among others."""
        with suppress(FileNotFoundError):
            return (self.folder / "section.notes").read_text().splitlines()
        return []

    def check_exclusion(self, entries: int | None = None) -> None:
        """See that never two were inside the critical section at once, and that it was entered so many times."""
        notes = self.notes()
        inside, overlaps = notes.count("in"), notes.count("overlap")
        assert overlaps == 0, f"{overlaps} of {inside + overlaps} met another one inside"
        assert inside > 0, "nobody was inside"
        assert entries is None or inside == entries

    def keys(self) -> list[str]:
        """The keys of this test in Redis, but for notes of doubtful requests, which expire by themselves."""
        with self.server.client() as client:
            found = sorted(key.decode() for key in client.scan_iter(match=f"*{self.name}*", count=1000))
            return [key for key in found if not key.startswith("pyredisson_epoch:") or client.pttl(key) < 0]

    def wait_for_renewal(self, key: str) -> None:
        """Wait until the time that a key has to live has grown."""
        with self.server.client() as client:
            before = client.pttl(key)

            def grown() -> bool:
                nonlocal before
                before, after = client.pttl(key), before
                return bool(before > after)

            until(grown, within=20.0, what=f"{key} is renewed")

    def connections(self) -> list[dict[str, Any]]:
        """The connections to Redis that programs of this test have."""
        with self.server.client() as client:
            return [each for each in client.client_list() if each["name"] == self.name]

    def check_nothing_left(self, *, waiters_killed: bool = False) -> None:
        """See that the programs, ended by now, have left neither keys in Redis nor connections to it.

        Args:
            waiters_killed: Some ended while they waited; the list on which they are expires by itself.
        """
        keys = self.keys()
        if waiters_killed:
            with self.server.client() as client:
                keys = [key for key in keys if not (key.startswith("pyredisson_waiting:") and client.pttl(key) > 0)]
        assert keys == []
        # The server learns of closed connections when it comes to read them.
        until(lambda: not self.connections(), what="the programs' connections are closed")

    def close(self) -> None:
        """End what still runs."""
        for program in self.programs:
            program.kill()
