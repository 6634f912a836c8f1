"""A move from another lock library, with the library itself: old and new programs exclude each other all the way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest

from pyredisson import Redisson
from tests.interop.contention import Times, check_exclusion, contend, counters, let_begin
from tests.interop.libraries import building
from tests.interop.peer import Jvm, quoted
from tests.interop.tokens.peers import Peer, PeerSide
from tests.servers import Server

pytest.importorskip("redis_lock", reason="python-redis-lock is not installed")
pytest.importorskip("pottery", reason="pottery is not installed")

import pottery
import redis_lock

from tests.interop import moving

HAND_OVERS = 30

#: What a program holds: a block.
Block = Callable[[], AbstractContextManager[Any]]


class AsLock:
    """A block with the methods of a lock."""

    def __init__(self, block: Block) -> None:
        self._block, self._stack = block, ExitStack()

    def acquire(self) -> None:
        self._stack.enter_context(self._block())

    def release(self) -> None:
        self._stack.close()


@pytest.fixture
def client(valkey: Server) -> Iterator[Redisson]:
    with Redisson.from_url(valkey.url) as client:
        yield client


def count(lock: AsLock, url: str, *how: Any) -> Times:
    try:
        return contend(lock, url, *how)
    finally:  # One that fails keeps nobody waiting.
        lock.release()


def compete(valkey: Server, name: str, blocks: list[Block], others: list[Future[Times]] | None = None) -> None:
    """Let all count up under what they hold, and check that no two were inside at once."""
    counter = f"counter-{name}"
    with ThreadPoolExecutor(len(blocks)) as pool, counters(valkey.url) as direct:
        how = ("", counter, HAND_OVERS, 0.001, 0.002)
        counting = [pool.submit(count, AsLock(block), valkey.url, *how) for block in blocks]
        counting += others or []
        let_begin(direct, counter, counting)
        for each in wait(counting, 60, FIRST_EXCEPTION).done:
            each.result()
        everybody = [each.result(0) for each in counting]
    assert check_exclusion(everybody) >= len(everybody) - 1


OLD: dict[str, Callable[[Any, str], Any]] = {
    "python_redis_lock": lambda direct, name: redis_lock.Lock(direct, name, expire=60),
    "pottery": lambda direct, name: pottery.Redlock(key=name, masters={direct}, auto_release_time=60),
}


@pytest.mark.parametrize("library", OLD)
def test_from_a_library_of_python(valkey, client, unique_name, direct, library):
    def old():
        return OLD[library](direct, unique_name)

    def both():
        return getattr(moving, f"in_the_place_of_{library}")(client, direct, unique_name)

    def new():
        return client.get_lock(unique_name).hold()

    compete(valkey, f"{unique_name}-1", [old, old, both, both])
    compete(valkey, f"{unique_name}-2", [both, both, new, new])


def test_from_redsync(valkey, client, unique_name):
    peer = Peer("redsync")
    side = PeerSide(peer, [valkey.url])

    def both():
        return moving.in_the_place_of_redsync(client, unique_name)

    def new():
        return client.get_lock(f"lock:{unique_name}").hold()

    try:
        counter = f"counter-{unique_name}-1"
        olds = [side.owner().contend("", unique_name, counter, HAND_OVERS, 0.001, 0.002) for _ in range(2)]
        compete(valkey, f"{unique_name}-1", [both, both], olds)
        compete(valkey, f"{unique_name}-2", [both, both, new, new])
    finally:
        peer.kill()


def test_from_shedlock(valkey, client, unique_name):
    """A job that ShedLock runs, or has run for `lockAtLeastFor`, does not run here, and the other way round."""
    peer, where = Jvm(building.require("java")), (quoted(urlsplit(valkey.url).netloc), quoted(unique_name))
    old = f"job-lock:default:{unique_name}"
    try:
        began = time.monotonic()
        with moving.in_the_place_of_shedlock(client, unique_name, 60, 8) as run:
            assert run is not None
            assert not peer.do("one", "shedlock-once", *where)
            with Redisson.from_url(valkey.url) as other, other.run_once(unique_name, at_most=60) as theirs:
                assert theirs is None
        assert time.monotonic() - began >= 8
        assert peer.do("two", "shedlock-once", *where)
        with moving.in_the_place_of_shedlock(client, unique_name, 60, 0) as run:
            assert run is None
        assert client.get_token_lock(old).try_lock(wait_time=5)
        client.get_token_lock(old).unlock()
        assert peer.do("three", "shedlock", *where)
        with moving.in_the_place_of_shedlock(client, unique_name, 60, 0) as run:
            assert run is None
    finally:
        peer.kill()
