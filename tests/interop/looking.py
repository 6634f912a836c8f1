"""What is to be seen from outside: that somebody waits."""

from __future__ import annotations

import redis

from tests.interop.sides import Handle
from tests.waiting import until


def until_it_waits(direct: redis.Redis, handle: Handle) -> None:
    """Wait until the owner of a handle, and nobody else, waits to be told that it may look again.

    It listens before it looks for the second time, and then it waits. What is said in between counts as well, with one
    exception: Redisson wakes those who wait at that moment when a writer leaves, and no others.
    """
    until(lambda: any(handle.name in channel for channel in direct.pubsub_channels()), what="it listens")
    if handle.kind in ("read_lock", "write_lock"):
        until(handle.owner.waits, what="it waits")
