"""The list of the clients that wait for a lock, in cases, and what is published to those on it."""

from __future__ import annotations

from typing import Final

from tests.lua.compared_servers import Message
from tests.lua.harness import In, State
from tests.simulator.redis import Entry

__all__ = ["LIST", "listed", "to", "to_ears"]

LIST: Final = b"pyredisson_waiting:{orders}"


def listed(*who: dict[bytes, In], ttl_ms: int = 30_000) -> State:
    """Who waits, the ears among them."""
    return {LIST: Entry("zset", {member: score for each in who for member, score in each.items()}, ttl_ms)}


def to(client: str, payload: str = "go") -> Message:
    """What one client is notified."""
    return Message(LIST + f":{client}".encode(), payload.encode(), sharded=False)


def to_ears(payload: str) -> Message:
    """What the ears are notified."""
    return Message(LIST, payload.encode(), sharded=False)
