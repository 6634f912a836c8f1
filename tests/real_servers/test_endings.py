"""Clients that are closed, and threads and tasks that end, while there is something going on."""

import threading

from pyredisson._core.names import LockNames
from tests.real_servers.observation import calls, held
from tests.waiting import until

# --- close() ---


def test_close_removes_the_client_from_the_list_of_waiting_clients(world, proxy, direct, unique_name):
    """The request of a waiter that acquires leaves its client there for another waiter, which is interrupted then."""
    client, names = world.connected(proxy.url), LockNames(unique_name)
    lock, first, second = client.get_lock(unique_name), world.actor(), world.interruptible()
    in_flight, interrupted = threading.Event(), threading.Event()
    by_waiter = calls("lock_acquire_waiting")

    def delay(args):
        another_waits = by_waiter(args) and args[-4] != b"-1"
        if another_waits and not in_flight.is_set():
            in_flight.set()
            assert interrupted.wait(5)
            direct.delete(unique_name)
        return False

    def acquires():
        direct.publish(names.channel, "0")
        return in_flight.is_set()

    direct.hset(unique_name, "another:1", "1")
    direct.pexpire(unique_name, 60_000)
    proxy.drop_reply(delay)
    acquired = first.start(lock.lock)
    until(lambda: direct.exists(names.waiting), what="the client is on the list")
    assert second.interrupted(lock.lock, once=acquires) is not None
    interrupted.set()
    acquired.result(10)
    world.run(client.close)
    assert not direct.exists(names.waiting)
    assert held(direct, lock, first) == 1
    direct.delete(unique_name)
