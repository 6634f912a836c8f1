"""What the commands do at their edges: closed pipes, odd URLs and names, servers that come back."""

from __future__ import annotations

import json
import os
import socketserver
import subprocess
import sys
import threading

import pytest

from pyredisson import Config, Redisson
from pyredisson._tools.tables import free_command, quoted, unlock_command
from pyredisson.inspection import Inspector, LockView, Who
from tests.proxy import Proxy
from tests.servers import HOST
from tests.waiting import until

COMMAND = [sys.executable, "-m", "pyredisson"]


def shell(line: str, url: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYREDISSON_URL": url}
    program = line.replace("pyredisson", f"{sys.executable} -m pyredisson")
    return subprocess.run(["bash", "-c", program], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", ["ls", "leaks", "why", "clients", "ls --json", "metrics --once"])
def test_a_reader_that_has_enough_is_no_failure(own, command):
    with Redisson.from_url(own.url, config=Config(presence=False)) as client, own.client() as direct:
        for number in range(3000):
            direct.hset(f"lock:{number}", f"{client.id}:1", 1)
        done = shell(f"pyredisson {command} | true; exit ${{PIPESTATUS[0]}}", own.url)
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr


def test_metrics_without_stdout(own):
    done = shell("pyredisson metrics --once >&-", own.url)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_run_knows_the_server_and_no_password(own):
    with own.client() as direct:
        direct.execute_command("ACL", "SETUSER", "ann", "on", ">sesame", "~*", "&*", "+@all")
    done = shell("pyredisson run x env", own.url.replace("://", "://ann:sesame@"))
    assert done.returncode == 0
    assert "PYREDISSON_LOCK=x" in done.stdout
    assert f"PYREDISSON_URL={own.url}" in done.stdout
    assert "sesame" not in done.stdout


def test_a_password_without_a_colon_is_masked(own):
    for url in (f"redis://hunter2@{HOST}:{own.port}", f"redis+cluster://hunter2@{HOST}:{own.port}"):
        with Inspector(url) as inspector:
            assert "hunter2" not in inspector.url
            assert "***@" in inspector.url
        for command in ("ls", "run x true", "doctor", "lock x --for 1s --reason y"):
            done = shell(f"pyredisson {command}", url)
            assert "hunter2" not in done.stdout + done.stderr, command


@pytest.mark.parametrize("command", ["ls", "run x true", "metrics --once", "doctor"])
@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("redis://x/0?socket_timeuot=1", "did you mean 'socket_timeout'"),
        ("redis://x:99999", "port"),
        ("redis+sentinel://x:1", "service"),
    ],
)
def test_the_reason_why_a_url_is_not_valid(command, url, reason):
    done = shell(f"pyredisson {command}", url)
    assert done.returncode == 2
    assert reason in " ".join(done.stderr.split()), done.stderr


def test_several_urls_are_too_many_for_one_server():
    done = shell("pyredisson ls", "redis://one redis://two")
    assert done.returncode == 2
    assert "one server, not of 2" in " ".join(done.stderr.split())


def test_printed_commands_of_names_with_dashes(own):
    view = LockView("-dash x", "lock", "node", holders=(Who(client_id="8743c9c0"),))
    assert free_command(view) == "pyredisson unlock --holder 8743c9c0 -- '-dash x'"
    assert unlock_command("x", "8743") == "pyredisson unlock x --holder 8743"
    assert free_command(view, "my app:", 2) == "pyredisson permits --free 2 --prefix='my app:' -- '-dash x'"
    with own.client() as direct:
        direct.hset("-dash x", "8743c9c0-0795-4907-87fd-6c719a6b4586:1", 1)
        direct.pexpire("-dash x", 60_000)
    done = shell("pyredisson unlock --yes --holder 8743c9c0 -- '-dash x'", own.url)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["it's\n'q'", "back\\slash\t", "\\n\n", "\xa0a\u200b", "\udcffx", "--free", "$HOME"])
def test_a_shell_reads_a_printed_name_as_it_is(name):
    done = subprocess.run(["bash", "-c", f"printf %s {quoted(name)}"], capture_output=True, check=True)
    assert done.stdout == os.fsencode(name)


def test_run_says_why_a_lock_was_lost(own):
    environment = {**os.environ, "PYREDISSON_URL": own.url}
    program = subprocess.Popen(
        [*COMMAND, "run", "x", "--watchdog", "3s", "sleep", "30"], env=environment, stderr=subprocess.PIPE, text=True
    )
    with own.client() as direct:
        until(lambda: direct.exists("x"))
        direct.delete("x")
    _, said = program.communicate(timeout=30)
    assert program.returncode == 76
    assert "was lost while the command ran" in said
    assert "no longer exists" in said


def test_run_waits_for_a_server_that_is_restarted(own):
    own.kill()
    threading.Timer(3, own.restart).start()
    done = shell("pyredisson run x --wait 40s true", own.url)
    assert done.returncode == 0, done.stderr


def test_why_says_that_a_server_has_lost_what_it_had(own):
    done = shell("pyredisson why x", own.url)
    assert (done.returncode, done.stdout.count("was started")) == (3, 1), done
    done = shell("pyredisson why x --json", own.url)
    assert "it has only what it had saved before" in json.loads(done.stdout)["cause"]
    with own.client() as direct:
        direct.set("x", "data of a program")
        done = shell("pyredisson why x", own.url)
    assert "was started" not in done.stdout


def check_wrong_url(url: str, advice: str) -> None:
    """All commands end with 78, and say once what to do."""
    for command in ("ls", "show x", "lock x --for 1s --reason y", "run x -- true", "run x --wait 1s -- true"):
        done = shell(f"pyredisson {command}", url)
        assert (done.returncode, done.stderr.count(advice)) == (78, 1), (command, done)


class WebServer(socketserver.BaseRequestHandler):
    """What answers as a web server does to anything."""

    def handle(self) -> None:
        self.request.recv(4096)
        self.request.sendall(b"<!DOCTYPE HTML>\n<title>Error response</title>\n")


def test_what_is_no_redis():
    with socketserver.ThreadingTCPServer((HOST, 0), WebServer) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        check_wrong_url(f"redis://{HOST}:{server.server_address[1]}", "what answers is no Redis or Valkey")
        server.shutdown()


def test_a_missing_right_is_named_once(own):
    with own.client() as direct:
        direct.execute_command("ACL", "SETUSER", "ann", "on", ">sesame", "~other*", "&*", "+@all")
    for command in ("show x", "unlock x --yes", "permits x", "lock x --for 1s --reason y", "run x -- true"):
        done = shell(f"pyredisson {command}", f"redis://ann:sesame@{HOST}:{own.port}/0")
        assert (done.returncode, done.stderr.count("What the server must allow")) == (77, 1), (command, done)
        assert done.stderr.count("(TYPE 'x')") <= 1, done


def test_what_to_do_about_an_address_that_does_not_fit(own):
    with Proxy(own.port) as proxy:
        proxy.refuse_request("HELLO", "ERR unknown command 'HELLO', with args beginning with: '3'")
        done = shell("pyredisson ls", proxy.url)
        assert (done.returncode, "add ?protocol=2 to its URL" in done.stderr) == (77, True), done
        assert shell("pyredisson ls", f"{proxy.url}?protocol=2").returncode == 0
    for url, advice in (
        (own.url.replace("redis://", "redis+cluster://").removesuffix("/0"), "it is no node of a cluster"),
        (f"redis+sentinel://{HOST}:{own.port}/orders", "it is no sentinel"),
        (f"redis://{HOST}:{own.port}/99", "has no database of this number"),
    ):
        check_wrong_url(url, advice)
    done = shell("pyredisson ls", own.url.replace("redis://", "rediss://"))
    assert (done.returncode, "does it speak TLS?" in done.stderr) == (69, True), done
