"""Where there is no POSIX, as on Windows: the library imports and locks; what needs POSIX says so.

There is no such machine to test on. A process from which the names are taken that Windows does not have comes close.
"""

import ast

import pytest

from tests.command_line import run_python
from tests.examples import ROOT
from tests.servers import Server

#: Modules and names that Python does not have on Windows. SO_RCVTIMEO it has, but it takes another kind of number; and
#: AF_UNIX it has not, but socketpair() needs that here.
MODULES = ["fcntl", "grp", "posix_spawn", "pwd", "resource", "syslog", "termios", "tty"]
NAMES = {
    "os": ["fork", "getpgid", "getpgrp", "getuid", "geteuid", "killpg", "register_at_fork", "setsid", "WNOHANG"],
    "select": ["epoll", "poll"],
    "signal": [
        *("SIGALRM", "SIGCHLD", "SIGCONT", "SIGHUP", "SIGKILL", "SIGPIPE", "SIGQUIT", "SIGTSTP", "SIGUSR1", "SIGUSR2"),
        *("SIGXFSZ", "alarm", "pthread_kill", "pthread_sigmask", "setitimer"),
    ],
    "socket": ["MSG_DONTWAIT", "SO_RCVTIMEO", "SO_SNDTIMEO"],
    "time": ["CLOCK_BOOTTIME", "CLOCK_MONOTONIC", "clock_gettime"],
}

WITHOUT_POSIX = f"""
import asyncio, concurrent.futures, logging, random, subprocess, sys, threading  # They look for the names now.
import redis, redis.asyncio
for module in {MODULES!r}:
    sys.modules[module] = None
for module, names in {NAMES!r}.items():
    module = __import__(module)
    for name in names:
        if hasattr(module, name):
            delattr(module, name)
"""


def run(program: str, *args: str) -> str:
    return run_python(WITHOUT_POSIX + program, *args).stdout


def test_the_library_and_its_tools_are_imported():
    tools = [f"pyredisson._tools.{path.stem}" for path in (ROOT / "pyredisson" / "_tools").glob("[a-z]*.py")]
    library = "pyredisson pyredisson.asyncio pyredisson.embedded pyredisson.testing pyredisson.fencing.redis"
    compat = "pyredisson.compat.redis_py pyredisson.compat.redis_py.asyncio pyredisson.__main__"
    run(f"import {', '.join([*library.split(), *compat.split(), *tools])}")


def test_threads_lock_and_wait(valkey):
    program = """
import pyredisson
url = sys.argv[1]
with pyredisson.Redisson.from_url(url, config=pyredisson.Config(lock_watchdog_timeout=3)) as client:
    lock = client.get_lock("without-posix")
    lock.lock()
    got = []
    def wait():
        with client.get_lock("without-posix").hold(wait_time=10) as lease:
            got.append(lease.remaining() > 0)
    thread = threading.Thread(target=wait)
    thread.start()
    while "waiting here" not in repr(lock):
        threading.Event().wait(0.01)
    before = lock.remain_time_to_live()
    while (now := lock.remain_time_to_live()) <= before:  # Until it is renewed.
        before = now
        threading.Event().wait(0.01)
    assert lock.is_held_by_current_thread()
    lock.unlock()
    thread.join()
    assert got == [True]
    with client.get_semaphore("permits-without-posix", permits=2).hold(2):
        pass
"""
    run(program, valkey.url)


def test_a_server_that_does_not_answer_costs_the_timeout_only(valkey):
    program = """
import redis, socket, time, pyredisson
from urllib.parse import urlsplit
client = pyredisson.Redisson.from_url(sys.argv[1], config=pyredisson.Config(timeout=1))
lock = client.get_lock("silence-without-posix")
assert not lock.is_locked()
pausing = socket.create_connection((urlsplit(sys.argv[1]).hostname, urlsplit(sys.argv[1]).port))
pausing.sendall(b"CLIENT PAUSE 9000 ALL\\r\\n")
assert pausing.recv(100) == b"+OK\\r\\n"
began = time.monotonic()
try:
    lock.is_locked()
except redis.TimeoutError:
    assert 0.5 < time.monotonic() - began < 8
else:
    raise AssertionError("it answered")
"""
    server = Server(valkey.build)
    try:
        run(program, server.url)
    finally:
        server.stop()


def test_tasks_lock_and_wait(valkey):
    program = """
import pyredisson.asyncio as pyredisson
async def main():
    async with pyredisson.Redisson.from_url(sys.argv[1]) as client:
        lock = client.get_lock("without-posix-in-tasks")
        await lock.lock()
        async def wait():
            async with client.get_lock("without-posix-in-tasks").hold(wait_time=10) as lease:
                return lease.remaining() > 0
        waiting = asyncio.create_task(wait())
        while "waiting here" not in repr(lock):
            await asyncio.sleep(0.01)
        await lock.unlock()
        assert await waiting
asyncio.run(main())
"""
    run(program, valkey.url)


def test_what_needs_posix_is_refused_with_the_reason():
    program = """
import pyredisson, pyredisson.asyncio
from click.testing import CliRunner
from pyredisson._tools.cli import cli
for form in (pyredisson, pyredisson.asyncio):
    for make in (form.Redisson.embedded, lambda: form.Redisson.from_url("embedded://")):
        try:
            make()
        except pyredisson.RedissonError as error:
            assert "needs a POSIX system" in str(error), error
            assert "from_url" in str(error), error
        else:
            raise AssertionError("it started")
for arguments in (["run", "orders", "--", "true"], ["demo"]):
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 2, done
    assert f"pyredisson {arguments[0]} needs a POSIX system" in done.output, done.output
"""
    run(program)


@pytest.mark.parametrize(
    "path", sorted((ROOT / "pyredisson").rglob("*.py")), ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_no_module_imports_what_only_posix_has(path):
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imported.add((node.module or "").partition(".")[0])
    assert not imported & set(MODULES)
