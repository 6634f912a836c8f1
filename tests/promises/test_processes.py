"""Whole processes: one that never closes its client still ends, and the child of a fork is another client."""

import textwrap

import pytest

from tests.command_line import run_python
from tests.worlds.clock import ClockWorld
from tests.worlds.environments import asyncio_only, sync_and_async, threads_only

pytestmark = threads_only

PRELUDE = '''
import asyncio, multiprocessing, os, sys, threading, time, redis
from tests.children import begin, in_child

async def ended_well_meanwhile(pid):
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        await asyncio.sleep(0.01)
    return os.waitstatus_to_exitcode(ended[1]) == 0

async def renewed(lock):
    left = await lock.remain_time_to_live()
    while (now := await lock.remain_time_to_live()) <= left:
        left = now
        await asyncio.sleep(0.005)

def check_lost(lease):
    assert lease.lost, lease
    assert lease.remaining() == 0.0, lease
    must_fail(lease.ensure_held)

def must_fail(call):
    try:
        call()
    except pyredisson.LockLostError as error:
        assert "the process was forked" in str(error), error
    else:
        raise AssertionError("it raised nothing")

def blocks(client, owner):
    """One of each kind, with a name of its own."""
    return [
        client.get_lock("lock").hold(),
        client.get_fair_lock("fair").hold(),
        client.get_fenced_lock("fenced").hold(lease_time=30),
        client.get_token_lock("token").hold(),
        client.get_spin_lock("spin").hold(),
        client.get_read_write_lock("read").read_lock().hold(),
        client.get_read_write_lock("write").write_lock().hold(),
        client.get_lock("owner", owner=owner).hold(),
        client.get_multi_lock(client.get_lock("one"), client.get_lock("other")).hold(),
        client.get_semaphore("semaphore", permits=1).hold(),
        client.get_permit_expirable_semaphore("permit", permits=1).hold(),
    ]
'''


def run_script(world: ClockWorld, script: str) -> str:
    """Run a program that gets the server's URL, and return what it printed. It has to end, and well."""
    url = f"redis://127.0.0.1:{world.port}/0"
    form = "pyredisson" if world.runtime == "threads" else "pyredisson.asyncio"
    text = f"{PRELUDE}\nimport {form} as pyredisson\n{textwrap.dedent(script)}"
    done = run_python(text, url, flags=("-X", "dev", "-W", "ignore::ResourceWarning"))
    assert "Traceback" not in done.stderr
    return done.stdout


def test_a_process_that_never_closes_its_client_ends(world):
    """While it holds a lock, while a daemon waits for one, while a callback blocks."""
    script = """
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
def test_the_child_of_a_fork_of_a_running_loop_disturbs_nothing(world):
    """The two share what the event loop waits with: whatever the child took out of it, the parent would miss."""
    script = """
        client = pyredisson.Redisson.from_url(sys.argv[1], config=pyredisson.Config(lock_watchdog_timeout=2.4))
        lock = client.get_lock("orders")

        async def child():
            assert client.id != parent
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
            global parent
            parent = client.id
            pid = begin(lambda: asyncio.new_event_loop().run_until_complete(child()))
            assert await ended_well_meanwhile(pid)
            assert client.id == parent
            await renewed(lock)
            assert await lock.get_hold_count() == 1
            await lock.unlock()
            assert await asyncio.wait_for(waiting, 5)
            await client.close()
            print("the end")

        asyncio.run(main())
    """
    assert run_script(world, script) == "the end\n"


@sync_and_async
@pytest.mark.parametrize("start", ["os.fork", "multiprocessing"])
def test_leases_that_are_inherited_by_a_fork_are_lost(world, start):
    script = f"""
        from tests.forms import ended, enter_of, exit_of, made_at_once

        def child(holds, leases):
            for hold, lease in zip(holds, leases):
                check_lost(lease)
                must_fail(lambda: finish(exit_of(hold)(None, None, None)))

        def fork(*arguments):
            if {start!r} == "os.fork":
                return in_child(child, *arguments)
            process = multiprocessing.get_context("fork").Process(target=child, args=arguments)
            process.start()
            process.join()
            assert process.exitcode == 0

        async def main():
            client = pyredisson.Redisson.from_url(sys.argv[1])
            owner = client.new_owner()
            holds = blocks(client, owner)
            leases = [await ended(enter_of(hold)()) for hold in holds]
            fork(holds, leases)
            for hold, lease in zip(holds, leases):
                lease.ensure_held()
                assert not lease.lost
                await ended(exit_of(hold)(None, None, None))
            await ended(client.close())
            print("the parent held", len(leases))

        def finish(coroutine):
            if {world.runtime!r} == "asyncio":
                asyncio.new_event_loop().run_until_complete(coroutine)
            else:
                made_at_once(lambda: coroutine)

        finish(main())
    """
    assert run_script(world, script) == "the parent held 11\n"


def test_an_owner_that_is_in_a_call_of_the_parent_is_in_none_of_the_child(world):
    script = """
        client = pyredisson.Redisson.from_url(sys.argv[1])
        other = pyredisson.Redisson.from_url(sys.argv[1]).get_lock("orders")
        owner = client.new_owner()
        orders, parcels = (client.get_lock(name, owner=owner) for name in ("orders", "parcels"))

        def child():
            assert parcels.try_lock()
            parcels.unlock()
            print("the child had it", flush=True)

        other.lock()
        waiting = threading.Thread(target=orders.lock)
        waiting.start()
        while "1 waiting here" not in repr(orders):
            time.sleep(0.01)
        in_child(child)
        try:
            parcels.try_lock()
        except pyredisson.LockError as error:
            assert "in the middle of another call" in str(error)
        else:
            raise AssertionError("two calls of one owner")
        finally:
            other.unlock()
        waiting.join()
        assert parcels.try_lock()
        print("the end")
    """
    assert run_script(world, script) == "the child had it\nthe end\n"


@pytest.mark.parametrize("kind", ["lock", "multi_lock"])
def test_the_child_of_a_fork_is_not_warned_of_what_its_parent_holds(world, kind):
    script = f"""
        import contextvars, logging

        class Log(logging.Handler):
            def emit(self, record):
                print("warned:", record.getMessage(), flush=True)

        def child():
            lock = client.get_lock("parcels")
            context = contextvars.Context()
            context.run(lock.lock)
            context.run(lock.unlock)

        logging.getLogger("pyredisson").addHandler(Log(logging.WARNING))
        client = pyredisson.Redisson.from_url(sys.argv[1])
        lock = client.get_lock("orders")
        if {kind!r} == "multi_lock":
            lock = client.get_multi_lock(lock, client.get_lock("stock"))
        lock.lock()
        in_child(child)
        lock.unlock()
        print("the end")
    """
    assert run_script(world, script) == "the end\n"
