"""Whole processes: one that never closes its client still ends, and the child of a fork is another client."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.worlds.clock import ClockWorld
from tests.worlds.environments import asyncio_only, threads_only

ROOT = Path(__file__).parents[2]


def run_script(world: ClockWorld, script: str) -> str:
    """Run a program that gets the server's URL, and return what it printed. It has to end, and well."""
    url = f"redis://127.0.0.1:{world.port}/0"
    program = [sys.executable, "-X", "dev", "-W", "ignore::ResourceWarning", "-c", textwrap.dedent(script), url]
    try:
        done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=30, check=False)
    except subprocess.TimeoutExpired as error:
        pytest.fail(f"the process did not end: {error.stdout!r} {error.stderr!r}")
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@threads_only
def test_a_process_that_never_closes_its_client_ends(world: ClockWorld) -> None:
    """While it holds a lock, while a daemon waits for one, while a callback blocks."""
    script = """
        import sys, threading, time, redis, pyredisson
        told = threading.Event()
        def block(name, number):
            print("told of", name, flush=True)
            told.set()
            time.sleep(60)
        config = pyredisson.Config(lock_watchdog_timeout=1.8, on_lock_lost=block)
        client = pyredisson.Redisson.from_url(sys.argv[1], config=config)
        lock = client.get_lock("orders")
        assert not lock.is_locked()
        lock.lock()
        lost = client.get_lock("parcels")
        lost.lock()
        threading.Thread(target=lock.lock, daemon=True).start()
        while "1 waiting here" not in repr(lock):
            time.sleep(0.01)
        redis.Redis.from_url(sys.argv[1]).delete("parcels")
        assert told.wait(20)
        print("the end")
    """
    assert run_script(world, script).split("\n")[:2] == ["told of parcels", "the end"]


@asyncio_only
def test_a_program_of_asyncio_that_never_closes_its_client_ends(world: ClockWorld) -> None:
    script = """
        import asyncio, sys, pyredisson.asyncio as pyredisson
        async def main():
            client = pyredisson.Redisson.from_url(sys.argv[1], config=pyredisson.Config(lock_watchdog_timeout=1.5))
            lock = client.get_lock("orders")
            assert not await lock.is_locked()
            await lock.lock()
            waiting = asyncio.create_task(lock.lock())
            while "1 waiting here" not in repr(lock):
                await asyncio.sleep(0.01)
            left = await lock.remain_time_to_live()
            while (now := await lock.remain_time_to_live()) <= left:  # until it is renewed
                left = now
                await asyncio.sleep(0.005)
            print("the end")
        asyncio.run(main())
    """
    assert run_script(world, script) == "the end\n"


FORK = """
    import os, sys, time, traceback, pyredisson
    client = pyredisson.Redisson.from_url(sys.argv[1], config=pyredisson.Config(lock_watchdog_timeout=2.4))
    lock, other = client.get_lock("orders"), client.get_lock("parcels")

    def wait_for_renewals(lock, count):
        left = lock.remain_time_to_live()
        while count:
            time.sleep(0.005)
            before, left = left, lock.remain_time_to_live()
            count -= left > before

    assert not other.is_locked()
    lock.lock()
    before = client.id
    child = os.fork()
    if child == 0:
        try:
            assert client.id != before
            assert not lock.is_held_by_current_thread()
            assert lock.get_hold_count() == 0
            assert not lock.try_lock()
            try:
                lock.unlock()
            except pyredisson.LockNotOwnedError as error:
                assert not isinstance(error, pyredisson.LockLostError)
            else:
                raise AssertionError("the child could unlock what its parent holds")
            other.lock()                    # a watchdog of its own
            wait_for_renewals(other, 1)
            assert other.get_hold_count() == 1
            print("the child waits", flush=True)
            assert lock.try_lock(20)        # and a subscriber
            print("the child has it", flush=True)
            lock.unlock()
            other.unlock()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    wait_for_renewals(lock, 2)
    assert client.id == before
    assert lock.get_hold_count() == 1, "the parent's renewal ended"
    print("the parent lets go", flush=True)
    lock.unlock()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@threads_only
def test_the_child_of_a_fork_is_another_client(world: ClockWorld) -> None:
    said = run_script(world, FORK)
    assert sorted(said.splitlines()) == ["the child has it", "the child waits", "the parent lets go"]
    assert world.redis.everything() == {}


@asyncio_only
def test_the_child_of_a_fork_of_a_running_loop_disturbs_nothing(world: ClockWorld) -> None:
    """The two share what the event loop waits with: whatever the child took out of it, the parent would miss."""
    script = """
        import asyncio, os, redis, sys, traceback, pyredisson.asyncio as pyredisson
        client = pyredisson.Redisson.from_url(sys.argv[1], config=pyredisson.Config(lock_watchdog_timeout=2.4))
        lock = client.get_lock("orders")

        async def child():
            assert not await lock.is_held_by_current_task()
            assert not await lock.try_lock(0.1)
            async with client.get_lock("parcels"):
                pass
            await client.close()

        async def main():
            assert not await lock.is_locked()
            await lock.lock()
            waiting = asyncio.create_task(client.get_lock("orders").try_lock(20))
            while "1 waiting here" not in repr(lock):
                await asyncio.sleep(0.01)
            with redis.Redis.from_url(sys.argv[1]) as server:
                while not server.pubsub_channels("*{orders}*"):
                    await asyncio.sleep(0.01)
            before = client.id
            pid = os.fork()
            if pid == 0:
                try:
                    assert client.id != before
                    asyncio.new_event_loop().run_until_complete(child())
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
                os._exit(0)
            while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
                await asyncio.sleep(0.01)
            assert os.waitstatus_to_exitcode(ended[1]) == 0
            assert client.id == before
            left = await lock.remain_time_to_live()
            while (now := await lock.remain_time_to_live()) <= left:  # until it is renewed
                left = now
                await asyncio.sleep(0.005)
            assert await lock.get_hold_count() == 1
            await lock.unlock()
            assert await asyncio.wait_for(waiting, 5)
            await client.close()
            print("the end")

        asyncio.run(main())
    """
    assert run_script(world, script) == "the end\n"


INHERITED = {
    "lock": "client.get_lock('orders').hold()",
    "fair_lock": "client.get_fair_lock('orders').hold()",
    "fenced_lock": "client.get_fenced_lock('orders').hold(lease_time=30)",
    "token_lock": "client.get_token_lock('orders').hold()",
    "spin_lock": "client.get_spin_lock('orders').hold()",
    "read": "client.get_read_write_lock('orders').read_lock().hold()",
    "write": "client.get_read_write_lock('orders').write_lock().hold()",
    "owner": "client.get_lock('orders', owner=owner).hold()",
    "multi": "client.get_multi_lock(client.get_lock('orders'), client.get_lock('stock')).hold()",
    "semaphore": "client.get_semaphore('orders', permits=1).hold()",
    "permit": "client.get_permit_expirable_semaphore('orders', permits=1).hold()",
}

CHECKS = """
        def check(lease):
            assert lease.lost
            assert lease.remaining() == 0.0
            try:
                lease.ensure_held()
            except pyredisson.LockLostError as error:
                assert "the process was forked" in str(error), error
            else:
                raise AssertionError("ensure_held() passed")
"""


@threads_only
@pytest.mark.parametrize("start", ["os.fork", "multiprocessing"])
@pytest.mark.parametrize("kind", INHERITED)
def test_a_lease_that_a_thread_inherits_by_a_fork_is_lost(world: ClockWorld, kind: str, start: str) -> None:
    script = f"""
        import multiprocessing, os, sys, traceback, pyredisson
        client = pyredisson.Redisson.from_url(sys.argv[1])
        owner = client.new_owner()
{CHECKS}
        def child(hold, lease):
            check(lease)
            try:
                hold.__exit__(None, None, None)
            except pyredisson.LockLostError as error:
                assert "the process was forked" in str(error), error
            else:
                raise AssertionError("the block was left without an error")

        def fork(hold, lease):
            if {start!r} == "multiprocessing":
                process = multiprocessing.get_context("fork").Process(target=child, args=(hold, lease))
                process.start()
                process.join()
                return process.exitcode
            pid = os.fork()
            if pid == 0:
                try:
                    child(hold, lease)
                except BaseException:
                    traceback.print_exc()
                    os._exit(1)
                os._exit(0)
            return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

        hold = {INHERITED[kind]}
        with hold as lease:
            assert fork(hold, lease) == 0
            lease.ensure_held()
            assert not lease.lost
            print("the parent holds it")
    """
    assert run_script(world, script) == "the parent holds it\n"


@asyncio_only
@pytest.mark.parametrize("kind", INHERITED)
def test_a_lease_that_a_task_inherits_by_a_fork_is_lost(world: ClockWorld, kind: str) -> None:
    script = f"""
        import asyncio, os, sys, traceback, pyredisson.asyncio as pyredisson
{CHECKS}
        async def leave(hold):
            try:
                await hold.__aexit__(None, None, None)
            except pyredisson.LockLostError as error:
                assert "the process was forked" in str(error), error
            else:
                raise AssertionError("the block was left without an error")

        async def main():
            client = pyredisson.Redisson.from_url(sys.argv[1])
            owner = client.new_owner()
            hold = {INHERITED[kind]}
            async with hold as lease:
                pid = os.fork()
                if pid == 0:
                    try:
                        check(lease)
                        asyncio.new_event_loop().run_until_complete(leave(hold))
                    except BaseException:
                        traceback.print_exc()
                        os._exit(1)
                    os._exit(0)
                while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
                    await asyncio.sleep(0.01)
                assert os.waitstatus_to_exitcode(ended[1]) == 0
                lease.ensure_held()
                assert not lease.lost
            await client.close()
            print("the parent held it")

        asyncio.run(main())
    """
    assert run_script(world, script) == "the parent held it\n"
