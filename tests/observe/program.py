"""A program with metrics that works, waits, times out, and has a holder that hangs until SIGUSR1.

``python tests/observe/program.py URL`` writes the address of its metrics to stdout. ``URL limited``: a program that
waits for permits of a semaphore in vain instead.
"""

from __future__ import annotations

import signal
import sys
import threading
import time

import redis.exceptions
from prometheus_client import start_http_server

from pyredisson import Config, Redisson, RedissonError
from pyredisson.observe.prometheus import PrometheusListener


def work(client: Redisson, ended: threading.Event) -> None:
    """Compete for one lock, now and then without luck."""
    while not ended.is_set():
        if client.get_lock("order:1").try_lock(0.02):
            time.sleep(0.005)
            client.get_lock("order:1").unlock()


def hold(client: Redisson, name: str, ended: threading.Event) -> None:
    """Hold a lock until the end."""
    lock = client.get_lock(name)
    lock.lock()
    ended.wait()
    if lock.is_held_by_current_thread():
        lock.unlock()


def wait_for_permits(client: Redisson, ended: threading.Event) -> None:
    """Wait for permits of a semaphore that has none."""
    seats = client.get_semaphore("seats", permits=0)
    while not ended.is_set():
        try:
            seats.try_acquire(wait_time=1.2)
        except (redis.exceptions.RedisError, RedissonError):  # The latter if a request was in flight.
            ended.wait(0.1)


def main(url: str, *, limited: bool) -> None:
    ended, mended = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set() or mended.set())
    signal.signal(signal.SIGUSR1, lambda number, frame: mended.set())
    listener = PrometheusListener(label=lambda name: name.split(":")[0])
    config = Config(listeners=(listener,), client_name="web", presence_after=0.1, lock_watchdog_timeout=0.9)
    with Redisson.from_url(url, config=config) as client:
        if limited:
            threads = [threading.Thread(target=wait_for_permits, args=(client, ended))]
        else:
            threads = [threading.Thread(target=work, args=(client, ended)) for _ in range(6)]
            threads += [
                threading.Thread(target=hold, args=(client, "report:hangs", mended)),
                threading.Thread(target=hold, args=(client, "seat:1", ended)),
            ]
        for thread in threads:
            thread.start()
        server, _ = start_http_server(0, "127.0.0.1")
        print(f"127.0.0.1:{server.server_port}", flush=True)
        for thread in threads:
            thread.join()


if __name__ == "__main__":
    main(sys.argv[1], limited="limited" in sys.argv)
