"""The real servers of the tests do what the tests think they do."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from tests.servers import HOST, REDIS_7, VALKEY, Build, Server
from tests.waiting import until

ROOT = Path(__file__).parents[2]


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_build_is_the_version_that_it_says(build: Build, server: Server) -> None:
    info = server.info("server")
    reported = info["valkey_version"] if build.id.startswith("valkey") else info["redis_version"]
    assert reported.startswith(build.version + ".")
    assert info["process_id"] == server.pid
    assert info["tcp_port"] == server.port


def test_nothing_is_persisted_or_evicted(server: Server) -> None:
    with server.client() as client:
        assert client.config_get("save")["save"] == ""
        assert client.config_get("appendonly")["appendonly"] == "no"
        assert client.config_get("maxmemory-policy")["maxmemory-policy"] == "noeviction"


def test_kill_and_restart(build: Build, fresh_server: Callable[..., Server]) -> None:
    server = fresh_server(build)
    port, pid = server.port, server.pid
    client = server.client()
    client.set("key", "value")

    server.kill()
    assert not exists(pid)
    assert not server.answers()
    with pytest.raises(redis.exceptions.ConnectionError):
        client.get("key")

    server.restart()
    assert server.port == port
    assert server.pid != pid
    assert client.get("key") is None


def test_pause_and_resume(build: Build, fresh_server: Callable[..., Server]) -> None:
    server = fresh_server(build)
    client = server.client(socket_timeout=0.2)

    def answers_soon() -> bool:
        try:
            return bool(client.ping())
        except redis.exceptions.TimeoutError:
            return False

    until(answers_soon)
    server.pause()
    assert not answers_soon()
    with socket.create_connection((HOST, server.port), timeout=5):
        pass  # the kernel still accepts
    server.resume()
    until(server.answers)


def test_it_ends_when_the_test_process_is_killed() -> None:
    program = (
        "import sys; from tests.servers import *; s = Server.start(VALKEY); print(s.pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as tests:
        assert tests.stdout is not None
        pid = int(tests.stdout.readline())
        assert exists(pid)
        tests.send_signal(signal.SIGKILL)
        tests.wait()
        until(lambda: not exists(pid), what="the server is gone")


@pytest.fixture
def no_build(monkeypatch: pytest.MonkeyPatch) -> Build:
    monkeypatch.delenv("PYREDISSON_REQUIRE_ALL", raising=False)
    return Build("valkey-1.0", lambda: ["/nonexistent/valkey-server", VALKEY.require()], "build it")


def test_a_missing_build_says_why_and_skips(no_build: Build) -> None:
    assert no_build.path() is None
    reason = no_build.missing()
    assert reason is not None
    assert "no valkey-1.0 here" in reason
    assert "/nonexistent/valkey-server" in reason
    assert "is Valkey 9.1" in reason
    assert "build it" in reason
    with pytest.raises(pytest.skip.Exception, match=r"no valkey-1\.0 here"):
        Server.start(no_build)


def test_a_missing_build_fails_when_all_are_required(no_build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYREDISSON_REQUIRE_ALL", "1")
    with pytest.raises(pytest.fail.Exception, match=r"no valkey-1\.0 here"):
        no_build.require()


def test_the_right_one_of_several_on_the_path_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right = REDIS_7.require()
    impostor = tmp_path / "redis-server"
    impostor.write_text('#!/bin/sh\necho "Redis server v=5.0.1 sha=0:0"\n')
    impostor.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    again = Build(REDIS_7.id, lambda: REDIS_7.candidates(), "")
    assert again.candidates()[0] == str(impostor)
    assert again.path() == right
