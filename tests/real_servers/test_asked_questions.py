"""What the pages answer about signals, threads, descriptors, disks, the clocks of tests, and instrumentations."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from importlib import import_module
from typing import Any

import pytest
import redis

import pyredisson.asyncio
from pyredisson import LockLostError, Redisson
from pyredisson.testing import take_away
from tests.servers import VALKEY, private_directory
from tests.waiting import until

# ---- signals ---------------------------------------------------------------------------------------------------------

HOLDER = """
import signal, sys, time
from pyredisson import Redisson
if {handled}:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
with Redisson.from_url({url!r}) as client, client.get_lock({name!r}).hold():
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("handled", [False, True])
def test_a_program_that_sigterm_ends_keeps_its_lock_unless_a_handler_raises(valkey, direct, unique_name, handled):
    program = HOLDER.format(handled=handled, url=valkey.url, name=unique_name)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holder.send_signal(signal.SIGTERM)
        assert holder.wait(10) == (0 if handled else -signal.SIGTERM)
    assert direct.exists(unique_name) == (0 if handled else 1)
    direct.delete(unique_name)


# ---- threads ---------------------------------------------------------------------------------------------------------


async def test_cancel_on_loss_leaves_the_block_and_not_a_thread_that_it_has_started(valkey, unique_name):
    ended, go_on, seen = threading.Event(), threading.Event(), []

    def work(lease):
        go_on.wait(10)
        with pytest.raises(LockLostError):
            lease.ensure_held()
        seen.append("still runs")
        ended.set()

    async def block(lock):
        async with lock.hold(cancel_on_loss=True) as lease:
            losing = asyncio.create_task(take_away(lock))
            await asyncio.to_thread(work, lease)
        await losing

    async with pyredisson.asyncio.Redisson.from_url(valkey.url) as client:
        with pytest.raises(LockLostError):
            await block(client.get_lock(unique_name))
        assert not ended.is_set()
        go_on.set()
        await asyncio.to_thread(ended.wait, 10)
    assert seen == ["still runs"]


# ---- descriptors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tool", ["flock", "pyredisson"])
def test_a_background_child_keeps_the_lock_of_flock_and_not_that_of_run(
    command_line, valkey, unique_name, tmp_path, tool
):
    """Seen with flock of util-linux 2.38.1."""
    if tool == "flock" and shutil.which("flock") is None:
        pytest.skip("no flock here: apt-get install util-linux")
    background = ["sh", "-c", "sleep 30 >/dev/null 2>&1 & echo $!"]

    def run(*command, wait=True):
        if tool == "flock":
            return command_line.start("flock", *([] if wait else ["--nonblock"]), str(tmp_path / "lock"), *command)
        options = [] if wait else ["--wait", "0"]
        return command_line.pyredisson("run", unique_name, *options, "--", *command, url=valkey.url)

    first = run(*background)
    assert first.exit_code() == 0
    child = int(first.stdout)
    try:
        assert run("true", wait=False).exit_code() == (1 if tool == "flock" else 0)
    finally:
        os.kill(child, signal.SIGKILL)


# ---- disks -----------------------------------------------------------------------------------------------------------


def test_a_killed_server_that_writes_its_disk_every_second_loses_no_lock(unique_name):
    """Only a machine that fails does: each write is in the kernel before it is acknowledged."""
    directory = private_directory()
    socket = f"{directory}/socket"
    options = ("--port", "0", "--unixsocket", socket, "--dir", str(directory), "--save", "")
    command = [VALKEY.require(), *options, "--appendonly", "yes", "--appendfsync", "everysec"]
    names = [f"{unique_name}:{number}" for number in range(200)]
    with redis.Redis(unix_socket_path=socket) as direct:
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            until(lambda: _answers(direct), what="it answers")
            with Redisson(direct) as client:
                for name in names:
                    client.get_lock(name).lock(60)
                process.kill()
            process.wait()
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            until(lambda: _answers(direct), what="it answers again")
            assert direct.exists(*names) == len(names)
        finally:
            process.kill()
            process.wait()
            shutil.rmtree(directory)


def _answers(direct: redis.Redis) -> bool:
    try:
        return bool(direct.ping())
    except redis.exceptions.ConnectionError:
        return False


# ---- clocks of tests -------------------------------------------------------------------------------------------------


def travel(library: str, seconds: float, work: Callable[[], object]) -> object:
    """Call a function at a time to which a library has travelled, and where it stays; skip the test without it."""
    module: Any = pytest.importorskip(library, reason=f"{library} is not installed")
    destination = datetime.now(timezone.utc) + timedelta(seconds=seconds)
    if library == "time_machine":
        frozen = module.travel(destination, tick=False)
    else:  # Else the waits of asyncio would never end.
        frozen = module.freeze_time(destination, real_asyncio=True)
    with frozen:
        return work()


@pytest.mark.parametrize("library", ["freezegun", "time_machine"])
def test_locks_work_while_the_clock_of_a_test_stands_still(valkey, unique_name, library):
    def work():
        with Redisson.from_url(valkey.url) as client, client.get_lock(unique_name).hold(lease_time=20) as lease:
            assert 15 < lease.remaining() <= 20

        async def main():
            async with pyredisson.asyncio.Redisson.from_url(valkey.url) as client:
                lock = client.get_lock(unique_name)
                async with lock:
                    waiting = asyncio.create_task(client.get_lock(unique_name).try_lock(wait_time=10))
                    await asyncio.sleep(0.1)
                assert await waiting
                await lock.force_unlock()

        asyncio.run(main())

    travel(library, -86_400, work)


def test_the_waits_of_asyncio_do_not_end_under_freezegun():
    pytest.importorskip("freezegun", reason="freezegun is not installed")
    program = "import asyncio, freezegun\nwith freezegun.freeze_time(): asyncio.run(asyncio.sleep(0.01))"
    with pytest.raises(subprocess.TimeoutExpired):
        subprocess.run([sys.executable, "-c", program], timeout=3)


@pytest.mark.parametrize("library", ["freezegun", "time_machine"])
def test_time_travel_ends_a_lock_of_fakeredis_and_not_its_lease(unique_name, library):
    fakeredis = import_module("fakeredis")
    fake = fakeredis.FakeRedis()
    with (
        Redisson(fake) as client,
        pytest.raises(LockLostError),
        client.get_lock(unique_name).hold(lease_time=20) as lease,
    ):
        seen = travel(library, 60, lambda: (fake.exists(unique_name), lease.remaining() > 15, lease.lost))
    assert seen == (0, True, False)


# ---- instrumentations ------------------------------------------------------------------------------------------------


def test_the_commands_of_redis_py_that_instrumentations_patch_are_not_called(valkey, unique_name, monkeypatch):
    seen = []
    yours = valkey.client()
    for patched in (redis.Redis, redis.client.Pipeline):
        monkeypatch.setattr(patched, "execute_command", lambda *args, **_: seen.append(args))
    with Redisson(yours) as client, client.get_lock(unique_name).hold():
        pass
    assert seen == []
