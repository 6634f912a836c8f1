"""What the simulated server promises beyond what it is compared with real servers for: time, crashes, declared keys."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.simulated.engine.redis import Entry, ServerError, ServerUnreachableError, SimulatedRedis
from tests.simulated.engine.scripting import sha1_of


class Clock:
    def __init__(self) -> None:
        self.us = 1_785_000_000_000_000

    def __call__(self) -> int:
        return self.us


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(clock: Clock) -> SimulatedRedis:
    return SimulatedRedis(clock)


def code_of(act: Callable[[], object]) -> str:
    with pytest.raises(ServerError) as caught:
        act()
    return caught.value.code


def test_a_key_is_there_until_its_last_millisecond_is_over(server: SimulatedRedis, clock: Clock) -> None:
    server.command("SET", "k", "v", "PX", 100)
    clock.us += 100_999
    assert server.command("PTTL", "k") == 0
    assert server.command("GET", "k") == b"v"
    clock.us += 1
    assert server.command("PTTL", "k") == -2
    assert server.command("GET", "k") is None


def test_time_stands_still_in_a_script(clock: Clock) -> None:
    def running() -> int:
        clock.us += 1_000_000
        return clock.us

    server = SimulatedRedis(running)
    look = "redis.call('PEXPIRE', KEYS[1], 10) return {redis.call('PTTL', KEYS[1]), redis.call('TIME')[1]}"
    server.command("SET", "k", "v")
    assert server.eval(look, [b"k"]) == [10, b"%d" % (clock.us // 1_000_000)]


def test_the_clock_jumps(server: SimulatedRedis, clock: Clock) -> None:
    server.command("SET", "k", "v", "PX", 1_000)
    clock.us -= 60_000_000
    assert server.command("PTTL", "k") == 61_000
    clock.us += 120_000_000
    assert server.command("EXISTS", "k") == 0


def test_a_crashed_or_paused_server_executes_nothing(server: SimulatedRedis, clock: Clock) -> None:
    server.command("SET", "k", "v", "PX", 10_000)
    server.paused = True
    for state in ("paused", "crashed"):
        for act in (
            lambda: server.command("PING"),
            lambda: server.eval("return 1"),
            lambda: server.command("FLUSHALL"),
        ):
            with pytest.raises(ServerUnreachableError, match=state):
                act()
        server.crash()
    clock.us += 4_000_000
    assert server.dump() == {b"k": Entry("string", b"v", 6_000)}


@pytest.mark.parametrize("data", [True, False])
def test_a_restarted_server_has_forgotten_its_scripts_and_its_run_id(server: SimulatedRedis, data: bool) -> None:
    sha = sha1_of(b"return 1")
    server.command("SCRIPT", "LOAD", "return 1")
    assert server.evalsha(sha) == 1
    server.command("SET", "k", "v")
    before = server.command("INFO")
    server.crash()
    server.restart(data=data)
    assert server.command("GET", "k") == (b"v" if data else None)
    assert code_of(lambda: server.evalsha(sha)) == "NOSCRIPT"
    assert server.command("INFO") != before


@pytest.mark.parametrize(
    "touching",
    [
        "redis.call('GET', 'other')",
        "redis.pcall('get', 'other')",
        "pcall(redis.call, 'SET', 'other', 1)",
        "redis.call('EXISTS', KEYS[1], 'other')",
        "redis.call('DEL', KEYS[1], 'other')",
    ],
)
def test_a_script_that_touches_an_undeclared_key(server: SimulatedRedis, touching: str) -> None:
    server.eval(touching, [b"k"])
    server.only_declared_keys = True
    with pytest.raises(AssertionError, match="'other' is not in KEYS"):
        server.eval(touching, [b"k"])
    assert server.eval(touching.replace("'other'", "KEYS[2]"), [b"k", b"other"]) is None
    assert server.eval("redis.call('TIME') redis.call('PUBLISH', 'other', 'message') return 1") == 1
