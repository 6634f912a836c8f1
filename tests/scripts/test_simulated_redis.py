"""What the simulated server promises beyond what it is compared with real servers for: time, crashes, declared keys."""

from __future__ import annotations

import pytest

from tests.simulated.engine.redis import ServerError, SimulatedRedis
from tests.simulated.engine.scripting import sha1_of

NOW_US = 1_785_000_000_000_000


@pytest.fixture
def server() -> SimulatedRedis:
    return SimulatedRedis(lambda: NOW_US)


def test_a_key_is_there_until_its_last_millisecond_is_over():
    now = [NOW_US]
    server = SimulatedRedis(lambda: now[0])
    server.command("SET", "k", "v", "PX", 100)
    now[0] += 100_999
    assert server.command("PTTL", "k") == 0
    assert server.command("GET", "k") == b"v"
    now[0] += 1
    assert server.command("PTTL", "k") == -2
    assert server.command("GET", "k") is None


@pytest.mark.parametrize("data", [True, False])
def test_a_restarted_server_has_forgotten_its_scripts_and_its_run_id(server, data):
    server.eval("return 1")
    assert server.evalsha(sha1_of(b"return 1")) == 1
    server.command("SET", "k", "v")
    before = server.command("INFO")
    server.crash()
    server.restart(data=data)
    assert server.command("GET", "k") == (b"v" if data else None)
    with pytest.raises(ServerError, match="NOSCRIPT"):
        server.evalsha(sha1_of(b"return 1"))
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
def test_a_script_that_touches_an_undeclared_key(server, touching):
    server.eval(touching, [b"k"])
    server.only_declared_keys = True
    with pytest.raises(AssertionError, match="'other' is not in KEYS"):
        server.eval(touching, [b"k"])
    assert server.eval(touching.replace("'other'", "KEYS[2]"), [b"k", b"other"]) is None
    assert server.eval("redis.call('TIME') redis.call('PUBLISH', 'other', 'message') return 1") == 1
