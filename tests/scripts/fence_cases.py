"""The scripts of the guards with a fence."""

from __future__ import annotations

from typing import Final

from tests.scripts.harness import FREE, OOM, Call, Case, State, text
from tests.simulated.engine.redis import Entry

STOCK: Final = b"stock"
FENCE: Final = b"pyredisson_fence:{stock}"
BIG: Final = 2**63 - 1


def fence(token: int) -> State:
    return text(FENCE, b"%d" % token)


def stock(value: bytes, ttl_ms: int | None = None) -> State:
    return {STOCK: Entry("string", value, ttl_ms)}


def goods(**fields: bytes) -> State:
    return {STOCK: Entry("hash", {name.encode(): value for name, value in fields.items()}, None)}


def fence_set(token: int, value: bytes = b"new", ttl: int | str = "") -> Call:
    return Call("fence_set", (STOCK, FENCE), (token, value, ttl))


def fence_hset(token: int, *pairs: bytes) -> Call:
    return Call("fence_hset", (STOCK,), (token, b"fence", *pairs))


def fence_advance(token: int) -> Call:
    return Call("fence_advance", (FENCE,), (token,))


CASES: Final = [
    Case("the first write stores the value and its token", FREE, fence_set(7), None, stock(b"new") | fence(7)),
    Case("tokens beyond 2^53 are compared exactly", stock(b"old") | fence(BIG), fence_set(BIG - 1), b"%d" % BIG),
    Case(
        "out of memory: another write of the same holder is refused",
        stock(b"old") | fence(7),
        fence_set(7),
        OOM,
        out_of_memory=True,
    ),
    Case(
        "a later holder's write replaces fields and raises the token",
        goods(fence=b"7", a=b"1", b=b"2"),
        fence_hset(8, b"a", b"3", b"c", b"4"),
        None,
        goods(fence=b"8", a=b"3", b=b"2", c=b"4"),
    ),
    Case("a greater token replaces the stored one", fence(7), fence_advance(10), None, fence(10)),
    Case("a token of one digit less is refused", stock(b"old") | fence(10), fence_set(9), b"10"),
    Case("a smaller token is refused with the stored one", fence(10), fence_advance(9), b"10"),
    Case("the same token is accepted again", fence(7), fence_advance(7), None),
    Case(
        "an earlier holder's write is refused with the greatest token",
        goods(fence=b"10", a=b"1"),
        fence_hset(9, b"a", b"2"),
        b"10",
    ),
]
