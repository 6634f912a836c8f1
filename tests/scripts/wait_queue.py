"""The wait queue of a lock, in cases, and what is published to the clients in it."""

from __future__ import annotations

from typing import Final

from tests.scripts.compared_servers import Message
from tests.scripts.harness import In, State
from tests.simulated.engine.redis import Entry

__all__ = ["WAIT_QUEUE", "queued", "to", "to_observers"]

WAIT_QUEUE: Final = b"pyredisson_waiting:{orders}"


def queued(*who: dict[bytes, In], ttl_ms: int = 30_000) -> State:
    """Who waits, the observers among them."""
    return {WAIT_QUEUE: Entry("zset", {member: score for each in who for member, score in each.items()}, ttl_ms)}


def to(client: str, payload: str = "go") -> Message:
    """What one client is notified."""
    return Message(WAIT_QUEUE + f":{client}".encode(), payload.encode(), sharded=False)


def to_observers(payload: str) -> Message:
    """What the observers are notified."""
    return Message(WAIT_QUEUE, payload.encode(), sharded=False)
