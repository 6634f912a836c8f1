"""A program with metrics that works, waits, times out, and has a holder that hangs until SIGUSR1.

``python tests/observe/program.py URL`` writes the address of its metrics to stdout.
"""

from __future__ import annotations

import signal
import sys
import threading
import time

from prometheus_client import start_http_server

from pyredisson import Config, Redisson
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


def main(url: str) -> None:
    ended, mended = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set() or mended.set())  # type: ignore[func-returns-value]
    signal.signal(signal.SIGUSR1, lambda number, frame: mended.set())
    listener = PrometheusListener(label=lambda name: name.split(":")[0])
    config = Config(listeners=(listener,), client_name="web", presence_after=0.1, lock_watchdog_timeout=0.9)
    with Redisson.from_url(url, config=config) as client:
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
    main(sys.argv[1])
