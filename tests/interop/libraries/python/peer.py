"""Locks of Python libraries, driven over stdin with the protocol of ../../java/src/main/java/pyredisson/Peer.java.

The verb is the library, the arguments are the address of the server and the name. Each request has a thread, acquires
the lock as the library does by default, waiting if it can, and keeps it. It has packages of its own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote_plus

import pottery
import redis
import redis_lock
import sherlock
from celery import Celery
from celery_once import AlreadyQueued, QueueOnce
from django.conf import settings
from django_redis.cache import RedisCache

LEASE = 60  # seconds

settings.configure()
_kept: list[Any] = []  # What is held: some libraries release a lock that is not referred to any more.


def _client(address: str) -> redis.Redis:
    host, _, port = address.rpartition(":")
    return redis.Redis(host=host, port=int(port))


def _queue_once(address: str, name: str) -> bool:
    app = Celery(broker="memory://")
    app.conf.ONCE = {
        "backend": "celery_once.backends.Redis",
        "settings": {"url": f"redis://{address}/0", "default_timeout": LEASE},
    }

    @app.task(base=QueueOnce, name=name)
    def task() -> None: ...

    try:
        task.apply_async()
    except AlreadyQueued:
        return False
    return True


LIBRARIES: dict[str, Callable[[str, str], Any]] = {
    "python-redis-lock": lambda address, name: redis_lock.Lock(_client(address), name),
    "python-redis-lock-expire": lambda address, name: redis_lock.Lock(_client(address), name, expire=LEASE),
    "pottery": lambda address, name: pottery.Redlock(key=name, masters={_client(address)}, auto_release_time=LEASE),
    "sherlock": lambda address, name: sherlock.RedisLock(name, client=_client(address), expire=LEASE, timeout=LEASE),
    "redis-py": lambda address, name: _client(address).lock(name, timeout=LEASE),
    "django-redis": lambda address, name: RedisCache(f"redis://{address}/0", {}).lock(name, timeout=LEASE),
}


def _acquire(library: str, address: str, name: str) -> bool:
    if library == "celery-once":
        return _queue_once(address, name)
    lock = LIBRARIES[library](address, name)
    _kept.append(lock)
    return bool(lock.acquire())


def _perform(number: str, verb: str, *args: str) -> None:
    try:
        outcome = f"ok\tb{str(_acquire(verb, *args)).lower()}"
    except Exception as error:
        outcome = f"error\t{type(error).__name__}\t{quote(str(error))}"
    print(f"{number}\t{outcome}", flush=True)


def main() -> None:
    """Answer until stdin ends."""
    for line in sys.stdin:
        number, _, *words = map(unquote_plus, line.rstrip("\n").split("\t"))
        threading.Thread(target=_perform, args=(number, *words), daemon=True).start()


if __name__ == "__main__":
    main()
