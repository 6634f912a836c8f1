"""What the simulated server promises by itself; that its commands are right is the subject of the tests beside."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable

import pytest

from tests.simulator.redis import Entry, ServerError, ServerUnreachableError, SimulatedRedis

NOON_US = 1_785_000_000_000_000


class Clock:
    """A clock that says what it is notified."""

    def __init__(self) -> None:
        self.us = NOON_US

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


# -- Replies and errors


def test_arguments_may_be_bytes_text_or_integers(server: SimulatedRedis) -> None:
    assert server.command("HSET", b"orders", "field", 7) == 1
    assert server.command("HGET", "orders", b"field") == b"7"


def test_replies_are_integers_bytes_lists_and_none(server: SimulatedRedis) -> None:
    assert server.command("SET", "k", "v") == b"OK"
    assert server.command("GET", "k") == b"v"
    assert server.command("GET", "none") is None
    assert server.command("DEL", "k") == 1
    assert server.command("RPUSH", "l", "a", "b") == 2
    assert server.command("LRANGE", "l", 0, -1) == [b"a", b"b"]


def test_an_error_has_a_code_and_a_message(server: SimulatedRedis) -> None:
    server.command("SET", "k", "v")
    with pytest.raises(ServerError) as caught:
        server.command("HGET", "k", "f")
    assert caught.value.code == "WRONGTYPE"
    assert caught.value.message == "Operation against a key holding the wrong kind of value"
    assert str(caught.value) == "WRONGTYPE Operation against a key holding the wrong kind of value"


def test_an_error_inside_an_array_is_returned(server: SimulatedRedis) -> None:
    reply = server.eval("return {1, {err = 'MYERR x'}}")
    assert isinstance(reply, list)
    assert reply[0] == 1
    assert isinstance(reply[1], ServerError)
    assert reply[1].code == "MYERR"


# -- Scripts


def test_a_script_is_remembered(server: SimulatedRedis) -> None:
    sha = server.script_load("return ARGV[1]")
    assert server.evalsha(sha, [], [b"a"]) == b"a"
    assert server.evalsha(sha.upper(), [], [b"b"]) == b"b"
    assert server.command("EVALSHA", sha, 0, "c") == b"c"
    assert server.command("SCRIPT", "EXISTS", sha, "f" * 40) == [1, 0]


def test_eval_remembers_too(server: SimulatedRedis) -> None:
    server.eval("return 1")
    assert server.evalsha("e0e1f9fabfc9d4800c877a703b823ac0578ff8db") == 1


def test_a_script_is_unknown_or_forgotten(server: SimulatedRedis) -> None:
    sha = server.script_load("return 1")
    other = SimulatedRedis(server._clock)
    assert code_of(lambda: other.evalsha(sha)) == "NOSCRIPT"
    server.script_flush()
    assert code_of(lambda: server.evalsha(sha)) == "NOSCRIPT"
    assert code_of(lambda: server.evalsha("nonsense")) == "NOSCRIPT"


def test_keys_and_arguments_do_not_stay(server: SimulatedRedis) -> None:
    look = "return {#KEYS, #ARGV}"
    assert server.eval(look, [b"k", b"l"], [b"a"]) == [2, 1]
    assert server.eval(look) == [0, 0]
    assert server.eval(look, [], [b"a", b"b"]) == [0, 2]


def test_very_many_keys_and_arguments(server: SimulatedRedis) -> None:
    keys = [b"k%d" % n for n in range(5_000)]
    args = [b"a%d" % n for n in range(20_000)]
    assert server.eval("return {#KEYS, KEYS[5000], #ARGV, ARGV[20000]}", keys, args) == [
        5_000,
        b"k4999",
        20_000,
        b"a19999",
    ]
    assert server.eval("return ARGV", keys, args) == args


def test_very_long_replies_of_commands(server: SimulatedRedis) -> None:
    items = [b"%d" % n for n in range(20_000)]
    server.command("RPUSH", "l", *items)
    assert server.eval("return redis.call('LRANGE', 'l', 0, -1)") == items


def test_servers_do_not_mix(clock: Clock) -> None:
    one, other = SimulatedRedis(clock), SimulatedRedis(clock)
    text = "return redis.call('INCRBY', KEYS[1], ARGV[1])"
    for n in range(1, 4):
        assert one.eval(text, [b"k"], [b"1"]) == n
        assert other.eval(text, [b"k"], [b"10"]) == 10 * n


def test_each_thread_has_its_own_interpreter(clock: Clock) -> None:
    counts: list[object] = []

    def count() -> None:
        server = SimulatedRedis(clock)
        for _ in range(2_000):
            server.eval("return redis.call('INCR', KEYS[1])", [b"k"])
        counts.append(server.command("GET", "k"))

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [b"2000"] * 4


# -- Time


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


def test_time_is_the_servers(server: SimulatedRedis, clock: Clock) -> None:
    clock.us = 12_000_034
    assert server.command("TIME") == [b"12", b"34"]


def test_the_clock_jumps(server: SimulatedRedis, clock: Clock) -> None:
    server.command("SET", "k", "v", "PX", 1_000)
    clock.us -= 60_000_000
    assert server.command("PTTL", "k") == 61_000
    clock.us += 120_000_000
    assert server.command("EXISTS", "k") == 0


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (("SET", "k", "v"), None),
        (("SET", "k", "v", "KEEPTTL"), 50_000),
        (("INCR", "k"), 50_000),
        (("HINCRBY", "h", "f", "1"), 50_000),
        (("HSET", "h", "f", "2"), 50_000),
        (("RPUSH", "l", "b"), 50_000),
        (("ZADD", "z", "2", "b"), 50_000),
        (("PERSIST", "h"), None),
    ],
)
def test_what_becomes_of_a_ttl(server: SimulatedRedis, change: tuple[str, ...], left: int | None) -> None:
    for command in ("SET k 1", "HSET h f 1", "RPUSH l a", "ZADD z 1 a"):
        server.command(*command.split())
        server.command("PEXPIRE", command.split()[1], 50_000)
    server.command(*change)
    assert server.dump()[change[1].encode()].ttl_ms == left


# -- Messages


def test_messages_go_to_the_hook_which_counts_the_receivers(clock: Clock) -> None:
    heard: list[tuple[bytes, bytes, bool]] = []

    def hear(channel: bytes, payload: bytes, sharded: bool) -> int:
        heard.append((channel, payload, sharded))
        return len(heard)

    server = SimulatedRedis(clock, on_message=hear)
    assert server.command("PUBLISH", "c", "1") == 1
    assert server.eval("return redis.call('SPUBLISH', KEYS[1], ARGV[1])", [b"c"], [b"2"]) == 2
    assert heard == [(b"c", b"1", False), (b"c", b"2", True)]
    server.on_message = None
    assert server.command("PUBLISH", "c", "3") == 0


def test_an_exception_of_the_hook_is_not_the_scripts(clock: Clock) -> None:
    def interrupted(channel: bytes, payload: bytes, sharded: bool) -> int:
        raise KeyboardInterrupt

    server = SimulatedRedis(clock, on_message=interrupted)
    for text in (
        "return redis.call('PUBLISH', 'c', 'm')",
        "return redis.pcall('PUBLISH', 'c', 'm')",
        "pcall(redis.call, 'PUBLISH', 'c', 'm') return 'caught'",
    ):
        with pytest.raises(KeyboardInterrupt):
            server.eval(text)
        assert server.eval("return 1") == 1


def test_the_hook_must_not_run_a_script(clock: Clock) -> None:
    server = SimulatedRedis(clock)
    server.on_message = lambda channel, payload, sharded: server.eval("return 1") == 1
    with pytest.raises(RuntimeError, match="a script is running"):
        server.eval("redis.call('PUBLISH', 'c', 'm')")
    server.on_message = None
    assert server.eval("return 1") == 1


# -- What happens to a server


def test_out_of_memory_until_the_script_writes(server: SimulatedRedis) -> None:
    take = "return redis.call('HINCRBY', KEYS[1], 'f', 1)"
    server.maxmemory_reached = True
    assert code_of(lambda: server.command("SET", "k", "v")) == "OOM"
    assert code_of(lambda: server.eval(take, [b"h"])) == "OOM"
    assert server.eval("redis.call('DEL', 'nothing') " + take, [b"h"]) == 1
    # It counts anew for each script.
    assert code_of(lambda: server.eval(take, [b"h"])) == "OOM"
    assert server.command("DEL", "h") == 1
    server.maxmemory_reached = False
    assert server.eval(take, [b"h"]) == 1


def test_eviction_and_flushall(server: SimulatedRedis) -> None:
    server.command("SET", "a", 1)
    server.command("SET", "b", 1)
    assert server.evict(b"a") is True
    assert server.evict(b"a") is False
    assert set(server.dump()) == {b"b"}
    server.flushall()
    assert server.dump() == {}


def test_a_crashed_server_refuses_commands(server: SimulatedRedis, clock: Clock) -> None:
    sha = server.script_load("return 1")
    server.command("SET", "k", "v", "PX", 10_000)
    server.crash()
    for act in (
        lambda: server.command("PING"),
        lambda: server.eval("return 1"),
        lambda: server.evalsha(sha),
        lambda: server.script_load("return 1"),
        server.script_flush,
        server.flushall,
        lambda: server.evict(b"k"),
    ):
        with pytest.raises(ServerUnreachableError, match="crashed"):
            act()
    clock.us += 4_000_000
    assert server.dump() == {b"k": Entry("string", b"v", 6_000)}


def test_a_restarted_server_has_its_keys_but_no_scripts(server: SimulatedRedis) -> None:
    sha = server.script_load("return 1")
    server.command("SET", "k", "v")
    before = server.command("INFO")
    server.crash()
    server.restart()
    assert server.command("GET", "k") == b"v"
    assert code_of(lambda: server.evalsha(sha)) == "NOSCRIPT"
    assert server.command("INFO") != before  # another run_id


def test_a_server_restarted_without_its_data(server: SimulatedRedis) -> None:
    server.command("SET", "k", "v")
    server.crash()
    server.restart(data=False)
    assert server.command("DBSIZE") == 0


def test_a_server_restarted_with_what_had_reached_the_disk(server: SimulatedRedis) -> None:
    server.command("SET", "k", "old")
    on_disk = server.snapshot()
    server.command("SET", "k", "new")
    server.command("SET", "other", "new")
    server.crash()
    server.restart(data=on_disk)
    assert server.dump() == {b"k": Entry("string", b"old", None)}


def test_a_paused_server_executes_no_commands(server: SimulatedRedis) -> None:
    server.paused = True
    with pytest.raises(ServerUnreachableError, match="paused"):
        server.command("PING")
    server.paused = False
    assert server.command("PING") == b"PONG"


# -- Looking at it, and going back


def fill(server: SimulatedRedis) -> dict[bytes, Entry]:
    server.command("SET", "s", "v", "PX", 1_000)
    server.command("HSET", "h", "f", 1)
    server.command("RPUSH", "l", "a", "b")
    server.command("ZADD", "z", "2.5", "m")
    return {
        b"s": Entry("string", b"v", 1_000),
        b"h": Entry("hash", {b"f": b"1"}, None),
        b"l": Entry("list", [b"a", b"b"], None),
        b"z": Entry("zset", {b"m": 2.5}, None),
    }


def test_the_dump_shows_everything_and_is_a_copy(server: SimulatedRedis) -> None:
    expected = fill(server)
    dump = server.dump()
    assert dump == expected
    for entry in dump.values():
        if not isinstance(entry.value, bytes):
            entry.value.clear()
    assert server.dump() == expected


def test_looking_changes_nothing(server: SimulatedRedis, clock: Clock) -> None:
    server.command("SET", "k", "v", "PX", 1_000)
    clock.us += 2_000_000
    assert server.dump() == {}
    clock.us -= 2_000_000
    assert server.dump() == {b"k": Entry("string", b"v", 1_000)}


def test_a_snapshot_can_be_restored_again_and_again(server: SimulatedRedis, clock: Clock) -> None:
    expected = fill(server)
    sha = server.script_load("return 1")
    snapshot = server.snapshot()
    for _ in range(2):
        server.command("HSET", "h", "f", 2, "g", 3)
        server.command("RPUSH", "l", "c")
        server.command("ZREM", "z", "m")
        server.command("PERSIST", "s")
        server.script_flush()
        server.maxmemory_reached = True
        server.crash()
        server.restore(snapshot)
        assert server.dump() == expected
        assert server.evalsha(sha) == 1
        server.command("SET", "memory", "there is")
        server.command("DEL", "memory")
    other = SimulatedRedis(clock)
    other.restore(snapshot)
    other.flushall()
    assert server.dump() == expected


def test_its_repr_says_what_is_up(clock: Clock) -> None:
    server = SimulatedRedis(clock, name="n1")
    assert repr(server) == "<SimulatedRedis 'n1' up, 0 keys>"
    server.maxmemory_reached = server.paused = True
    assert repr(server) == "<SimulatedRedis 'n1' paused, 0 keys, out of memory>"


def test_servers_leave_nothing_behind_in_the_interpreter(clock: Clock) -> None:
    def use() -> weakref.ref[SimulatedRedis]:
        server = SimulatedRedis(clock)
        server.eval("return {redis.call('SET', 'k', 'v'), 1}")
        with pytest.raises(ServerError):
            server.eval("return redis.call('HGET', 'k', 'f')")
        with pytest.raises(ServerError):
            server.eval("return redis.error_reply('MYERR x')")
        return weakref.ref(server)

    servers = [use() for _ in range(20)]
    gc.collect()
    # lupa remembers the last exception that went through it.
    assert sum(server() is not None for server in servers) <= 1


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
