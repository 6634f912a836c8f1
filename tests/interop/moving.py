"""What programs hold in the middle of a move from another lock library; docs/howto/moving-here.md shows it.

Each holds the lock of the old library, which old programs hold, and then that of this one, which new programs hold.
"""

# ruff: noqa: E402  # Each example is a program of its own.

# python-redis-lock begins here.
from contextlib import contextmanager

import redis_lock


@contextmanager
def locked_by_both(client, old, name):
    with redis_lock.Lock(old, name, expire=60, auto_renewal=True), client.get_lock(name).hold() as lease:
        yield lease


# python-redis-lock ends here.
in_the_place_of_python_redis_lock = locked_by_both

# pottery begins here.
from contextlib import contextmanager

from pottery import Redlock


@contextmanager
def locked_by_both(client, old, name):
    with Redlock(key=name, masters={old}, auto_release_time=60), client.get_lock(name).hold() as lease:
        yield lease


# pottery ends here.
in_the_place_of_pottery = locked_by_both

# redsync begins here.
from contextlib import contextmanager


@contextmanager
def locked_by_both(client, name):
    with client.get_token_lock(name).hold(), client.get_lock(f"lock:{name}").hold() as lease:
        yield lease


# redsync ends here.
in_the_place_of_redsync = locked_by_both

# ShedLock begins here.
import time
from contextlib import contextmanager


@contextmanager
def run_by_one(client, name, at_most, at_least):
    old = client.get_token_lock(f"job-lock:default:{name}")
    with old.hold(wait_time=0, lease_time=at_most, skip=True) as held:
        if held is None:  # A program with ShedLock runs it, or has run it.
            yield None
            return
        began = time.monotonic()
        with client.run_once(name, at_most=at_most, at_least=at_least) as run:
            yield run
            if run is not None:
                time.sleep(max(0.0, began + at_least - time.monotonic()))


# ShedLock ends here.
in_the_place_of_shedlock = run_by_one
