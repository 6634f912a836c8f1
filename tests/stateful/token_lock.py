"""The token lock against the model of all locks, with a stranger who uses the same key as redis-py does."""

from __future__ import annotations

import math

from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from tests.stateful.locks import LockMachine

STRANGER = -1


class TokenLockMachine(LockMachine):
    """One token lock, a few owners of two clients, and a stranger."""

    kinds = ("token_lock",)

    def __init__(self) -> None:
        super().__init__()
        self.tokens: set[bytes] = set()
        self.stored: bytes | None = None

    def _take(self, index: int, kind: str, lease: float | None) -> None:
        super()._take(index, kind, lease)
        self.stored = self.world.redis.command("GET", "orders")
        assert self.stored is not None
        assert self.stored not in self.tokens, "each hold has a token of its own"
        self.tokens.add(self.stored)

    def _released_expired(self, index: int) -> None:
        if self.holder == index:
            self.holder = None  # What was left of it.

    @rule(milliseconds=st.sampled_from((1_500, 200_000)))
    def a_stranger_asks(self, milliseconds: int) -> None:
        self._settle_time()
        if not self.simulated and milliseconds == 1_500:
            return
        got = self.world.redis.command("SET", "orders", "theirs", "NX", "PX", milliseconds)
        assert (got is not None) is (self.holder is None)
        if self.holder is None:
            self.holder, self.ends = STRANGER, self.world.now() + milliseconds / 1000

    @rule()
    def the_stranger_lets_go(self) -> None:
        self._settle_time()
        if self.holder == STRANGER:
            self.delete_the_key()

    @invariant()
    def what_is_stored_is_what_is_counted(self) -> None:
        self._settle_time()
        stored = self.world.redis.command("GET", "orders")
        if self.holder is None:
            assert stored is None
            return
        assert stored == (b"theirs" if self.holder == STRANGER else self.stored)
        left = self.world.redis.ttl("orders")
        assert left is not None
        assert left < math.inf

    @invariant()
    def each_knows_whether_it_is_the_holder(self) -> None:
        self._settle_time()
        for index, handles in enumerate(self.handles):
            assert handles["token_lock"].get_hold_count() == (self.holder == index)
        assert self.handles[0]["token_lock"].is_locked() is (self.holder is not None)
