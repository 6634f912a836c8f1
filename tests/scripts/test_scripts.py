"""What each script does: case by case, in a few sequences of calls, and to no key that it is not given."""

from __future__ import annotations

import importlib
import itertools
import pkgutil
from random import Random

import pytest

import tests.scripts
from tests.scripts.compared_servers import Model
from tests.scripts.harness import (
    EPOCH,
    LOCK,
    RELEASED,
    TOLERANCE_MS,
    Around,
    Call,
    Case,
    check,
    check_reply,
    check_state,
    epoch,
    run,
    stale,
    store,
)
from tests.scripts.lock_cases import acquire, release
from tests.scripts.numbered_cases import DONE, TAKEN, count_permits, done, lease_permit, permits, sends, take_permits
from tests.scripts.random_steps import SCRIPTS, script_steps
from tests.scripts.token_cases import MINE, held_by


def _cases() -> list[Case]:
    modules = [each.name for each in pkgutil.iter_modules(tests.scripts.__path__) if each.name.endswith("_cases")]
    return [case for name in modules for case in importlib.import_module(f"tests.scripts.{name}").CASES]


CASES = _cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.call.script}: {case.name}")
def test_case(server, case):
    check(server, case)


def test_every_script_has_cases():
    assert {case.call.script for case in CASES} == set(SCRIPTS)


@pytest.mark.parametrize("seed", range(4))
def test_scripts_touch_no_key_that_they_are_not_given(seed):
    model = Model()
    model.server.only_declared_keys = True  # It raises AssertionError, which Lua does not catch.
    called = set()
    for step in itertools.islice(script_steps(Random(seed), model.server, model.version), 5000):
        if step.out_of_memory is None:
            reply = model.call(*step.command)
            assert "arguments must be strings" not in str(reply), step  # A key that is missing was used.
            called.update(step.command[1:2])
        else:
            model.out_of_memory(step.out_of_memory)
    assert called >= {text.encode() for text in SCRIPTS.values()}


# -- Sequences of calls


def test_an_expired_epoch_is_forgotten(server):
    assert run(server, acquire(epoch=5)) is None
    assert run(server, release(epoch=4)) == stale(5)
    server.expire(EPOCH)
    assert run(server, release(epoch=4)) == RELEASED
    check_state(server, epoch(4))


def test_an_expired_record_of_a_request_is_forgotten(server):
    store(server, permits(2))
    assert run(server, take_permits()) == [1, 1]
    assert run(server, take_permits()) == [1, 0]
    server.expire(DONE)
    assert run(server, take_permits()) == [1, 0]
    check_state(server, permits(0) | done(5, 1))


@pytest.mark.parametrize("call", [count_permits(), lease_permit(b"x" * 16)], ids=lambda call: call.script)
def test_any_number_of_permits_may_expire_at_once(server, call):
    store(server, permits(0))
    for start in range(0, 20_000, 1000):
        words = [word for number in range(start, start + 1000) for word in (1 + number, b"%016d" % number)]
        server.call("ZADD", TAKEN, *words)
    run(server, call)
    assert server.state()[LOCK].value == b"20000"
    assert TAKEN not in server.state()
    assert server.messages() == sends(20_000)


def test_a_token_lock_is_extended_to_a_moment(server):
    def extend(until):
        return run(server, Call("token_extend", (LOCK,), (MINE, until)))

    store(server, held_by(MINE, 30_000))
    now, ends = extend(0)
    check_reply(server, ends - now, Around(30_000))
    for _ in range(2):  # Sent twice, it counts once.
        later, prolonged = extend(ends + 60_000)
        assert abs(prolonged - ends - 60_000) < TOLERANCE_MS
        check_reply(server, prolonged - later, Around(90_000))
    assert abs(extend(ends)[1] - prolonged) < TOLERANCE_MS, "no time is cut short"
    check_state(server, held_by(MINE, 90_000))
    server.call("PERSIST", LOCK)
    now, ends = extend(0)
    assert ends == -1
    server.out_of_memory(True)
    extend(now + 50_000)
    server.out_of_memory(False)
    check_state(server, held_by(MINE, 50_000))
