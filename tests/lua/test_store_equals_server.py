"""``testing/redis.py`` does what the real servers do: random histories run on both, compared after every step.

A history that differs is reported with the seed it was made from, and the steps up to the difference.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from tests.lua.compared_servers import DUMP, Model, Moment, RealServer, comparable, microseconds
from tests.lua.random_steps import (
    GENERATORS,
    SCRIPTS,
    SHARDED_CHANNELS,
    Step,
    command_step,
    encoded,
    memory_step,
    plain_steps,
    program_steps,
    script_steps,
)
from tests.servers import Build, Server
from tests.simulator.redis import Entry, ServerError, SimulatedRedis
from tests.volumes import Volume

STEPS_OF_A_HISTORY = 200

Steps = Callable[[Random, SimulatedRedis, str], Iterator[Step]]


@pytest.fixture
def real(build: Build, fresh_server: Callable[[Build], Server]) -> Iterator[RealServer]:
    server = RealServer(fresh_server(build))
    yield server
    server.close()


def take(model: Model, step: Step) -> Any:
    if step.out_of_memory is None:
        return model.call(*step.command)
    model.out_of_memory(step.out_of_memory)
    return b"OK"


def make_history(steps: Steps, seed: str, version: str) -> list[Step]:
    random = Random(seed)
    model = Model()
    model.hear_shards(SHARDED_CHANNELS)
    history: list[Step] = []
    source = steps(random, model.server, version)
    for step in itertools.islice(source, STEPS_OF_A_HISTORY):
        take(model, step)
        history.append(step)
    return history


class StoodStillError(Exception):
    """The machine stood still for so long that a lease may have ended in the middle."""


def run_history(real: RealServer, history: list[Step]) -> None:
    """Run a history on a real server and on the model, and compare.

    The model's clock is set to what the real server's was just before each step. So times differ at most by the longest
    that a step, with the look before and after it, has taken.
    """
    real.empty()
    real.call("SCRIPT", "FLUSH")
    first, *replies = real.wire.call_many([DUMP, *itertools.chain(*((step.command, DUMP) for step in history))])
    heard = real.messages()
    before = Moment.of(first)
    if Moment.of(replies[-1]).ended_us - before.begun_us > 10_000_000:
        raise StoodStillError
    model = Model()
    model.hear_shards(SHARDED_CHANNELS)
    slack_ms = 2
    for at, step in enumerate(history):
        theirs, after = replies[2 * at], Moment.of(replies[2 * at + 1])
        slack_ms = max(slack_ms, (after.ended_us - before.begun_us) // 1000 + 2)
        model.now_us = before.ended_us
        ours = take(model, step)
        same = Comparison(real.version, slack_ms)
        if not same.replies(step, theirs, ours):
            raise AssertionError(report(history, at, "reply", theirs, ours))
        model.now_us = after.begun_us
        stored = model.state()
        if not same.keys(after.keys, stored):
            other = {key for key in after.keys | stored if after.keys.get(key) != stored.get(key)}
            theirs, ours = ({key: each.get(key) for key in other} for each in (after.keys, stored))
            raise AssertionError(report(history, at, f"keys (by more than {slack_ms} ms)", theirs, ours))
        before = after
    published = model.messages()
    if heard != published:
        raise AssertionError(report(history, len(history) - 1, "messages", heard, published))


def report(history: list[Step], at: int, what: str, theirs: object, ours: object) -> str:
    steps = "\n".join(f"  {n:3}  {step.about}" for n, step in list(enumerate(history))[max(0, at - 12) : at + 1])
    return f"{what} after step {at}:\n{steps}\n  real:  {theirs!r}\n  model: {ours!r}"


class Comparison:
    """Whether two servers agree, when the one may be some milliseconds ahead of the other."""

    def __init__(self, version: str, slack_ms: int) -> None:
        self._version = version
        self._slack_ms = slack_ms

    def replies(self, step: Step, theirs: Any, ours: Any) -> bool:
        name = step.command[0].upper()
        if name == b"TIME" and isinstance(theirs, list) and isinstance(ours, list):
            return abs(microseconds(theirs) - microseconds(ours)) <= self._slack_ms * 1000
        if name == b"KEYS" and isinstance(theirs, list) and isinstance(ours, list):
            return sorted(theirs) == sorted(ours)
        if name == b"TTL" and isinstance(theirs, int) and isinstance(ours, int):
            return abs(theirs - ours) <= 1
        return self._reply(theirs, ours)

    def _reply(self, theirs: Any, ours: Any) -> bool:
        if isinstance(theirs, ServerError) and isinstance(ours, ServerError):
            return comparable(theirs, self._version) == comparable(ours, self._version)
        if isinstance(theirs, list) and isinstance(ours, list):
            return len(theirs) == len(ours) and all(map(self._reply, theirs, ours))
        if isinstance(theirs, int) and isinstance(ours, int):  # maybe a TTL
            return theirs == ours or (min(theirs, ours) >= 1000 and abs(theirs - ours) <= self._slack_ms)
        return self._value(theirs, ours)

    def keys(self, theirs: dict[bytes, Entry], ours: dict[bytes, Entry]) -> bool:
        return theirs.keys() == ours.keys() and all(self._entry(theirs[key], ours[key]) for key in theirs)

    def _entry(self, theirs: Entry, ours: Entry) -> bool:
        if theirs.ttl_ms is None or ours.ttl_ms is None:
            if theirs.ttl_ms != ours.ttl_ms:
                return False
        elif abs(theirs.ttl_ms - ours.ttl_ms) > self._slack_ms:
            return False
        return theirs.type == ours.type and self._value(theirs.value, ours.value)

    def _value(self, theirs: Any, ours: Any) -> bool:
        if type(theirs) is type(ours) is dict:
            return theirs.keys() == ours.keys() and all(self._value(theirs[name], ours[name]) for name in theirs)
        if type(theirs) is type(ours) is float:
            return theirs == ours or self._same_time(theirs, ours)
        if isinstance(theirs, bytes) and isinstance(ours, bytes):
            if re.fullmatch(rb":?[0-9]{13,16}", theirs) and re.fullmatch(rb":?[0-9]{13,16}", ours):
                return self._same_time(int(theirs.lstrip(b":")), int(ours.lstrip(b":")))
            return theirs == ours
        return type(theirs) is type(ours) and bool(theirs == ours)

    def _same_time(self, theirs: float, ours: float) -> bool:
        """Whether both are milliseconds since the epoch, or both microseconds, and not far from each other."""
        unit = 1000 if theirs > 1e15 else 1
        return 1e12 < theirs < 1e16 and abs(theirs - ours) <= self._slack_ms * unit


def run_all(real: RealServer, steps: Steps, name: str, count: int) -> None:
    """Run ``count`` random steps, in histories."""
    real.hear_shards(SHARDED_CHANNELS)
    for number in range(-(-count // STEPS_OF_A_HISTORY)):
        seed = f"{name}-{number}"
        history = make_history(steps, seed, real.version)
        for attempt in itertools.count(1):
            try:
                run_history(real, history)
                break
            except StoodStillError:
                assert attempt < 5, "the machine is too slow for this test"
            except AssertionError as error:
                raise AssertionError(f"{real.version}, seed {seed!r}: {error}") from None


def test_every_script_is_tried() -> None:
    assert set(GENERATORS) == set(SCRIPTS), "random_steps.py needs a generator for each script in pyredisson/lua"


@pytest.mark.volume
@pytest.mark.timeout(900)
def test_scripts(real: RealServer, volume: Volume) -> None:
    run_all(real, script_steps, "scripts", volume(2_400, full=120_000))  # 85 % of these are script calls


@pytest.mark.volume
@pytest.mark.timeout(900)
def test_plain_commands(real: RealServer, volume: Volume) -> None:
    run_all(real, plain_steps, "plain", volume(4_000, full=200_000))


@pytest.mark.volume
@pytest.mark.timeout(900)
def test_random_programs(real: RealServer, volume: Volume) -> None:
    run_all(real, program_steps, "programs", volume(1_000, full=50_000))


SNIPPETS = r"""
return 1.9
return -1.9
return 1e15
return 2^53
return 1/0
return 0/0
return 2^63
return nil
return false
return true
return
return 1, 2
return {1, 2, nil, 3}
return {1, false, 3}
return {}
return {a = 1}
return {1, {2, {3}}, 'x', true}
return {double = 1.5}
return function() end
return {function() end, 1}
return 'a\0b'
return KEYS[1] == nil and #ARGV
KEYS[1] = 'x' return KEYS[1]
return type(KEYS)
return redis.call('PING')
return redis.call('SET', 'a', '1')
return type(redis.call('GET', 'nokey'))
return type(redis.call('SET', 'a', '1'))
return redis.call('SET', 'a', '1').ok
return redis.call('TYPE', 'a').ok
return redis.call('GET', 'a') + 1
return {type(redis.call('INCR', 'a')), tostring(redis.call('INCR', 'a'))}
redis.call('SET', 'n', 1.5) return redis.call('GET', 'n')
redis.call('SET', 'n', 1e15) return redis.call('GET', 'n')
redis.call('SET', 'n', 1e16) return redis.call('GET', 'n')
redis.call('SET', 'n', 2^53) return redis.call('GET', 'n')
redis.call('SET', 'n', 1e20) return redis.call('GET', 'n')
redis.call('SET', 'n', 3.0) return redis.call('GET', 'n')
redis.call('SET', 'n', -3.0) return redis.call('GET', 'n')
redis.call('SET', 'n', 1/0) return redis.call('GET', 'n')
redis.call('SET', 'n', -1/0) return redis.call('GET', 'n')
return tostring(1.5) .. '|' .. 1e15 .. '|' .. 123456789012345 .. '|' .. 2^53 .. '|' .. 1785000000000 .. '|' .. 0.1
return {tonumber('0x10'), tonumber('1e3'), tonumber(' 5 '), tonumber('9007199254740993'), tonumber('abc')}
return tostring(tonumber('9223372036854775807'))
return {#redis.call('TIME'), type(redis.call('TIME')[1])}
return _VERSION
return {unpack({1, 2, 3})}
return {math.max(60000, tonumber('5')), math.floor(2.7), math.huge == 1/0}
return string.format('%d %s %5.1f', 3, 'x', 2.25)
return ('abc'):upper()
return table.concat({'a', 'b'}, ',')
return select('#', 1, 2, 3)
return redis.sha1hex('')
return redis.LOG_WARNING
redis.log(redis.LOG_WARNING, 'logged') return 1
redis.log(1)
redis.log('x', 'y')
redis.log(9, 'y')
return redis.status_reply('FINE')
return redis.status_reply()
return {ok = 'FINE'}
return {ok = 12}
return {ok = 'two\r\nlines'}
return redis.error_reply('MYERR x')
return redis.error_reply('MYERR two\r\nlines')
return redis.error_reply()
return redis.error_reply(1)
return redis.error_reply('MYERR x').err
return {err = 'MYERR y'}
return {err = 'boom'}
return {err = 12}
return {1, {err = 'MYERR y'}, {ok = 'FINE'}}
return redis.call('HGET', 's', 'f')
return redis.call('INCR', 's')
return redis.pcall('INCR', 's')
local r = redis.pcall('HGET', 's', 'f') return r
local r = redis.pcall('HGET', 's', 'f') return r.err
local r = redis.pcall('HGET', 's', 'f') return r == 1
local ok, e = pcall(redis.call, 'HGET', 's', 'f') return {tostring(ok), type(e), e}
local ok, e = pcall(redis.call, 'HGET', 's', 'f') error(e)
local ok, e = pcall(error, 'x') return {tostring(ok), e}
local ok, e = pcall(error, {1, 2}) return e
return {pcall(function() return 1, 2 end)}
error('boom')
error('boom', 0)
error(12)
return redis.call('GET')
return redis.call('NOSUCH')
return redis.call('EVAL', 'return 1', 0)
return redis.call('SCRIPT', 'FLUSH')
return redis.call()
return redis.pcall()
return redis.call({})
return redis.call('GET', {})
return redis.call('GET', nil)
return redis.call('GET', true)
return redis.pcall('GET', true)
return redis.call('get', 12)
x = 1
return x
_G.x = 1
return _G.x
function f() end
local a = nil return a.b
local a = {} return a.b.c
return 1 + {}
return nosuch()
return redis.nosuch('x')
return type(io)
return type(require)
return type(debug)
return type(package)
return type(dofile)
return type(loadfile)
redis.call('SET', 'a', 'b') redis.call('HGET', 'a', 'b')
redis.call('SET', 'a', 'b') error('after a write')
redis.call('PUBLISH', 'channel', 'a') error('after a message')
local x = = 1
not Lua
""".strip().splitlines()

NEEDS_7 = r"""
redis.x = 1
redis.call = 1
KEYS = 1
string.x = 1
rawset(_G, 'x', 1)
setmetatable(_G, {})
return print
return setfenv
return 1 +
error()
error({err = 'MYERR boom'})
error({err = 'boom'})
return redis.error_reply('-MYERR x')
return redis.error_reply('one')
return redis.error_reply('one\r\ntwo')
return redis.call('SPUBLISH', 'channel', 'a')
""".strip().splitlines()


def test_the_language(real: RealServer) -> None:
    real.hear_shards(SHARDED_CHANNELS)
    scripts = [*SNIPPETS, "local a = 1\n\nreturn redis.call('HGET', 's', 'f')"]
    if real.version != "6.2":
        scripts += NEEDS_7
    run_history(real, [command_step("SET", "s", "v"), *(Step(encoded("EVAL", text, 0), text) for text in scripts)])


# Which commands make a script go on when there is no memory: those that write, even if they change nothing or fail.
FIRST = """
redis.call('GET', 'none')
redis.call('TIME')
redis.call('EXISTS', 'none')
redis.call('PTTL', 'none')
redis.call('PUBLISH', 'channel', 'x')
redis.call('DEL', 'none')
redis.call('DEL', 'none', 'none')
redis.call('PEXPIRE', 'none', 1)
redis.call('PEXPIREAT', 'none', 1)
redis.call('PERSIST', 'none')
redis.call('HDEL', 'none', 'f')
redis.call('LPOP', 'none')
redis.call('LREM', 'none', 0, 'x')
redis.call('ZREM', 'none', 'x')
redis.call('FLUSHALL')
redis.pcall('HDEL', 's', 'f')
redis.pcall('HDEL', 'none')
redis.pcall('PEXPIRE', 'none', 'x')
redis.pcall('SET', 'none', 'x')
redis.pcall('HINCRBY', 'h', 'f', 1)
redis.pcall('NOSUCH')
""".strip().splitlines()
THEN = """
return redis.call('SET', 'new', 'v')
return redis.call('HINCRBY', 'h', 'f', 1)
return redis.call('RPUSH', 'l', 'x')
return redis.call('ZADD', 'z', 1, 'x')
""".strip().splitlines()


def test_out_of_memory(real: RealServer) -> None:
    real.hear_shards(SHARDED_CHANNELS)
    history = [command_step("SET", "s", "v"), memory_step(True)]
    for text in map(" ".join, itertools.product(FIRST, THEN)):
        history.append(Step(encoded("EVAL", text, 0), text))
    for command in ("SET a b", "INCR a", "DEL a", "PEXPIRE h 50000", "SCRIPT LOAD x=1", "EVAL x=1 0"):
        history.append(command_step(*command.split()))
    run_history(real, history)
