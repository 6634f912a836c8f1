"""A regime that finds no bug proves nothing until it finds those that are put there.

Each planted bug is one that a lock library has had, or could well have; the histories or the walk of interruptions must
find it within so many seeds. The table that is printed with ``-rP`` says which one found it, and how soon.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import itertools
import math
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from pyredisson._core import acquiring as acquire
from pyredisson._core import client
from pyredisson._core import releasing as release
from pyredisson._core import waiting as wait_loop
from pyredisson._core.acquiring import settle
from pyredisson._core.failures import Failure
from pyredisson._core.hold import SingleHold
from pyredisson._core.owners import OwnershipTable
from pyredisson._core.ownership import Ownership
from pyredisson._core.requests import ACQUIRED, LockAcquired
from pyredisson._core.subscriptions import Subscriptions
from pyredisson._core.watchdog import Backlog
from pyredisson._kinds import fair_lock
from pyredisson._kinds.lock import FencedKind, NonReentrantKind
from pyredisson._kinds.permits import PermitKind
from tests import promises
from tests.promises import conftest
from tests.simulated.engine.runtime import SimulatedOwner
from tests.simulated.interruptions import INTERRUPTIONS, walk
from tests.simulated.lock_history import LockHistory, LockPlan
from tests.simulated.permit_history import PermitHistory
from tests.simulated.planted import Bug, all_of, cases_of, check_found, in_code, in_script
from tests.simulated.test_dead_waiters import random_scene
from tests.simulated.test_interruptions import CASES, LockScene
from tests.simulated.test_scenes import SCENES, play
from tests.worlds.environments import SIMULATED
from tests.worlds.simulated import SimulatedWorld

FIRST = 12
SEEDS = 60


def _granted_from_the_reply(self: Ownership, request_id: int, one: SingleHold, sent: float) -> bool:
    return ORIGINAL_GRANTED(self, request_id, one, sent + 0.4)


def _granted_without_counting(self: Ownership, request_id: int, one: SingleHold, sent: float) -> bool:
    granted = ORIGINAL_GRANTED(self, request_id, one, sent)
    if len(self.holds) > 1:
        self.holds.pop()
    return granted


def _permit_granted_from_the_reply(self: Ownership, request_id: int, one: SingleHold, sent: float) -> bool:
    return ORIGINAL_GRANTED(self, request_id, one, sent + 0.4 * isinstance(self.kind, PermitKind))


def _never_expires(self: Ownership, now: float) -> tuple[SingleHold, ...]:
    return ()


async def _no_compensation(client: client.ClientCore, ownership: Ownership, hold: SingleHold) -> None:
    return None


async def _no_settling_on_leaving(client: object, ownership: Ownership, *, leaving: bool = True) -> None:
    ownership.in_flight.pending = None


def _confirmed_silently(self: Subscriptions, channel: str) -> None:
    entry = self.channels.get(channel)
    if entry is not None:
        entry.confirmed = True


def _doubt_under_the_same_epoch(self: Ownership, request_id: int) -> None:
    if request_id == self.request_id:
        self.in_flight.doubt()


def _never_over(self: Ownership, request_id: int) -> int:
    return self.epoch


def _unknown_is_failed(
    self: client.ClientCore, failure: Failure, ownership: Ownership, what: str, lease_ms: int
) -> BaseException:
    ownership.in_flight.pending = None
    return failure.cause


def _renewable_whatever_was_asked(self: Ownership) -> bool:
    return self.loss is None and any(level.watchdog for level in self.holds)


async def _settle_whoever_has_it(self: Backlog) -> None:
    for ownership in list(self.ownerships):
        try:
            await settle(self._client, ownership, 0.2, behind=True)
        except Failure:
            pass
        self.ownerships.pop(ownership, None)


def _sweep_without_looking(self: OwnershipTable) -> None:
    for ownership in self:
        self.drop(ownership)


async def _stays_in_the_queue(client: client.ClientCore, ownership: Ownership, *, at_once: bool = True) -> None:
    ownership.may_stand_in_queue(0)


def _by_its_score(name: str) -> Bug:
    return in_script(name, ("return math.min(score, tonumber(", "return math.max(score, tonumber("))


ORIGINAL_GRANTED = Ownership.granted
READ_FENCED = FencedKind.reads

BUGS = {
    "an unlock does not look who holds": in_script(
        "lock_release",
        ("local held = redis.call('hget', KEYS[1], ARGV[1])", "local held = redis.call('hgetall', KEYS[1])[2]"),
    ),
    "an unlock deletes at count 2": in_script("lock_release", ("if left > 0 then", "if left > 1 then")),
    "an unlock does not check the epoch": in_script("lock_release", ("tonumber(stored) > tonumber(ARGV[2])", "false")),
    "an unlock does not store the epoch": in_script("lock_release", ("ARGV[2] ~= '0' and", "false and")),
    "a partial unlock shortens the TTL": in_script(
        "lock_release", ("math.max(redis.call('pttl', KEYS[1]), lease)", "lease")
    ),
    "a partial unlock forgets the TTL": in_script(
        "lock_release",
        (
            "redis.call('hincrby', KEYS[1], ARGV[1], left - tonumber(held))",
            "redis.call('hincrby', KEYS[1], ARGV[1], left - tonumber(held)) redis.call('persist', KEYS[1])",
        ),
    ),
    "a re-entry shortens the TTL": in_script(
        "lock_acquire", ("if redis.call('pttl', key) < tonumber(ms) then", "if true then")
    ),
    "a re-entry is not counted": in_script(
        "lock_acquire",
        ("redis.call('hincrby', KEYS[1], ARGV[1], 1)\nelseif", "redis.call('hexists', KEYS[1], ARGV[1])\nelseif"),
    ),
    "an acquire sets no TTL": in_script("lock_acquire", ("redis.pcall('pexpire', KEYS[1], ARGV[4])", "1")),
    "an acquire does not look who holds": in_script("lock_acquire", ("if not held then", "if false then")),
    "an acquire does not check the epoch": in_script("lock_acquire", ("tonumber(stored) > tonumber(ARGV[2])", "false")),
    "a repeated acquire counts twice": in_script(
        "lock_acquire", ("if held == ARGV[5] then", "if held == ARGV[5] or ARGV[3] == '1' then")
    ),
    "an acquire ignores what is counted": in_script("lock_acquire", ("if ARGV[5] ~= '0' then", "if false then")),
    "a renewal does not look who holds": in_script(
        "lock_renew", ("read_typed('hexists', key, ARGV[i + 1]) == 1", "redis.call('exists', key) == 1")
    ),
    "a renewal brings back what is gone": in_script(
        "lock_renew", ("read_typed('hexists', key, ARGV[i + 1]) == 1", "redis.call('hincrby', key, ARGV[i + 1], 0)")
    ),
    "validity is counted from the reply": in_code(Ownership, "granted", _granted_from_the_reply),
    "no drift is taken off": in_code(client, "certain_for", lambda ms, margin: ms / 1000),
    "a deadline is no end": in_code(
        Ownership, "remaining", lambda self, now: 1.0 if self.holds and not self.loss else 0.0
    ),
    "a late acquire counts as held": in_code(Ownership, "expire", _never_expires),
    "an epoch is not raised on a repeat": in_code(Ownership, "doubt", _doubt_under_the_same_epoch),
    "a re-entry is not counted here": in_code(Ownership, "granted", _granted_without_counting),
    "an interrupted acquire is not given back": in_code(acquire, "undo_interrupted", _no_compensation),
    "an interrupted request is not settled": all_of(
        *(in_code(each, "settle_on_leaving", _no_settling_on_leaving) for each in (acquire, release))
    ),
    "nobody attempts again after subscribing": in_code(Subscriptions, "confirmed", _confirmed_silently),
    "a request goes on when its turn is over": in_code(Ownership, "epoch_of", _never_over),
    "an unknown outcome is reported as failed": in_code(client.ClientCore, "explain", _unknown_is_failed),
    "a failed unlock does not end the renewal": in_code(Ownership, "renewable", _renewable_whatever_was_asked),
    "a dead holder is renewed": in_code(SimulatedOwner, "alive", lambda self: True),
    "what is under way is settled for its owner": in_code(Backlog, "step", _settle_whoever_has_it),
    "an ownership is forgotten while it is held": in_code(OwnershipTable, "_sweep", _sweep_without_looking),
    "a fenced re-entry draws a new token": in_script("fenced_acquire", ("token = ARGV[6]", "token = ''")),
    "a token that follows the clock starts again after a loss": in_script(
        "fenced_acquire", ("math.max(last + 1, tonumber(now[1]) * 1000000 + tonumber(now[2]))", "last + 1")
    ),
    "a token that follows the clock falls behind the last one": in_script(
        "fenced_acquire",
        (
            "math.max(last + 1, tonumber(now[1]) * 1000000 + tonumber(now[2]))",
            "tonumber(now[1]) * 1000000 + tonumber(now[2])",
        ),
    ),
    "a fenced acquire without a TTL to wait for is taken": in_code(
        FencedKind,
        "reads",
        lambda self, reply: (
            ACQUIRED
            if reply == -1
            else LockAcquired()
            if isinstance(READ_FENCED(self, reply), LockAcquired)
            else READ_FENCED(self, reply)
        ),
    ),
    "a lock that is not reentrant counts": in_code(NonReentrantKind, "reentrant", True),
    "a spin lock tells its waiters": in_script("lock_release", ("if publish ~= '' then", "if true then")),
    "a fair lock is taken out of turn": in_script("fair_acquire", ("and (not head or head == ARGV[1])", "")),
    "a fair lock's dead head stays": in_script(
        "fair_acquire", ("believed_until(head) <= now", "believed_until(head) == 0")
    ),
    "a fair lock's entry without a score stays": in_script(
        "fair_acquire",
        (
            "local score = tonumber(redis.call('zscore', timeouts, waiter) or '0')",
            "local score = tonumber(redis.call('zscore', timeouts, waiter) or '1e15')",
        ),
    ),
    "a fair lock notifies the last one": in_script(
        "fair_release",
        (
            "redis.call(ARGV[6], KEYS[6] .. ':' .. head, ARGV[7]) or 0)",
            "redis.call(ARGV[6], KEYS[6] .. ':' .. redis.call('lindex', queue, -1), ARGV[7]) or 0)",
        ),
    ),
    "a fair waiter that goes away stays in the queue": in_code(acquire, "leave_queue", _stays_in_the_queue),
    "a live fair waiter is not looked after": in_script("fair_look", ("if score < believed then", "if false then")),
    "what a fair waiter says of itself is not heeded": all_of(
        *map(_by_its_score, ("fair_acquire", "fair_force_unlock", "fair_look", "fair_release"))
    ),
    "nor when the lock is freed": _by_its_score("fair_release"),
    "nor when its time is over": _by_its_score("fair_look"),
    "a fair waiter says that it outlives its patience": in_code(fair_lock, "alive_ms", lambda left, most: 1010 * most),
    "a live fair waiter is dropped before its time": in_code(
        fair_lock, "alive_ms", lambda left, most: math.ceil(min(left, most) * 900)
    ),
    "a live fair waiter does not say that it is": in_script(
        "fair_look", ("or '0') < beats then", "or '0') < beats - 1e6 then")
    ),
    "a fair waiter is dropped by what it said the last time": in_script(
        "fair_acquire",
        (
            "if not queued or tonumber(redis.call('hget', alive, ARGV[1]) or '0') < now + lives then",
            "if not redis.call('hget', alive, ARGV[1]) then",
        ),
    ),
    "what a fair waiter said is forgotten before its score is over": in_script(
        "fair_acquire", ("local lasts = math.ceil(", "local lasts = lives -- ")
    ),
    "nobody looks whether the one before it is dead": in_script(
        "fair_look", ("again = math.min(again, ends - now)\n                break", "break")
    ),
    "a repeated release of permits counts twice": in_script(
        "semaphore_release", ("if number == ARGV[1] then", "if false then")
    ),
    "a late acquire of permits takes them": in_script(
        "semaphore_acquire", ("if number and tonumber(number) > tonumber(ARGV[1]) then", "if false then")
    ),
    "a release of permits tells nobody": in_script(
        "semaphore_release", ("redis.call(ARGV[3], KEYS[3], string.format('%.0f', total))", "")
    ),
    "what an interrupted acquire took is kept": in_script(
        "semaphore_undo", ("local available = number == ARGV[2] and", "local available = false and")
    ),
    "an expired permit counts as given back": in_script("permit_release", ("ARGV[2]), 0\n", "ARGV[2]), 1\n")),
    "a permit is given back twice": in_script("permit_release", ("redis.call('zrem', KEYS[4], ARGV[2])", "")),
    "one permit of several that are acquired is not counted": in_script(
        "permit_acquire",
        ("redis.call('decrby', KEYS[1], #ids)", "redis.call('decrby', KEYS[1], math.max(#ids - 1, 1))"),
    ),
    "a list of permits is released without all of them": in_script(
        "permit_release_all",
        ("if reply == 1 and (tonumber(redis.call('zscore', taken, permit)) or 0) <= now then", "if i < 0 then"),
    ),
    "a permit is certain from its reply on": in_code(Ownership, "granted", _permit_granted_from_the_reply),
    "a renewed permit expires": in_script(
        "permit_renew", ("redis.call('zadd', key, string.format('%.0f', ends), ARGV[i + 1])", "")
    ),
    "a latch opens at one": in_script(
        "latch_count_down", ("if count and count <= 1 then", "if count and count <= 2 then")
    ),
    "a repeated count down counts twice": in_script("latch_count_down", ("if number == ARGV[1] then", "if false then")),
    "a wait has no end": in_code(wait_loop, "_retry_in", lambda refused: 1e9),
}


def _promises() -> Iterator[Callable[[SimulatedWorld], None]]:
    """The tests of promises that need nothing but the simulator, each with its parameters."""
    for each in pkgutil.iter_modules(promises.__path__):
        module = importlib.import_module(f"{promises.__name__}.{each.name}")
        if each.name.startswith("test_"):
            for name, test in vars(module).items():
                if name.startswith("test_") and test.__module__ == module.__name__:
                    yield from (partial(_call, test, module, given) for given in _parameters(test, module))


def _parameters(test: Any, module: ModuleType) -> Iterator[dict[str, Any]]:
    """The parameters of each case of a test; none if it has other marks, or is not for the simulator."""
    own, of_file = getattr(test, "pytestmark", []), getattr(module, "pytestmark", None)
    where = [mark for mark in (*own, *([of_file.mark] if of_file else [])) if mark.name == "environments"]
    if (where and SIMULATED not in where[0].args) or {mark.name for mark in own} - {"parametrize", "environments"}:
        return
    names = inspect.signature(test).parameters
    for given in cases_of(test, "world"):
        usual = {name: _values(module, name) for name in names if name not in given and _values(module, name)}
        known = {*given, *usual, "world", *vars(conftest)}
        if all(name in known and name != "proxy" for name in names):
            for values in itertools.product(*usual.values()):
                yield {**given, **dict(zip(usual, values, strict=True))}


def _values(module: ModuleType, name: str) -> tuple[Any, ...]:
    """The values of a fixture of a file, if it has several in turn."""
    return getattr(getattr(getattr(module, name, None), "_fixture_function_marker", None), "params", None) or ()


def _call(test: Any, module: ModuleType, given: Mapping[str, Any], world: SimulatedWorld) -> None:
    """Call a test with its fixtures, which are made once each."""
    made: dict[str, Any] = {**given, "world": world}

    def value(name: str) -> Any:
        if name not in made:
            fixture = getattr(module, name, None) or getattr(conftest, name)
            made[name] = next(iter(_values(module, name)), None) or called(fixture.__wrapped__)
        return made[name]

    def called(function: Any) -> Any:
        return function(**{name: value(name) for name in inspect.signature(function).parameters})

    called(test)


def _in_simulation(test: Callable[[SimulatedWorld], None]) -> None:
    world = SimulatedWorld()
    try:
        test(world)
    finally:
        world.close()


def _quick() -> Iterator[tuple[str, Callable[[], object]]]:
    """What takes no seeds: interruptions, promises and scenes."""
    for name, case in CASES.items():
        how = INTERRUPTIONS["cancelled"]
        yield f"{name}, cancelled", partial(walk, partial(LockScene, case), how, seeds=[0])
    for test in _promises():
        yield str(test), partial(_in_simulation, test)
    for name in SCENES:
        yield name, partial(play, name)


def _histories(seeds: int) -> Iterator[tuple[str, Callable[[], object]]]:
    for seed in range(seeds):
        yield f"history {seed}", LockHistory(seed).run


def _other_histories() -> Iterator[tuple[str, Callable[[], object]]]:
    for seed in range(SEEDS):
        yield f"history {seed} of permits", PermitHistory(seed).run
        yield f"history {seed} of a fair lock", LockHistory(seed, LockPlan(kind="fair_lock")).run
        yield f"history {seed} of a fair lock's queue", partial(random_scene, seed)


# A test that finds a bug ends in the middle, and may leave a hold() that it meant to enter.
@pytest.mark.planted
@pytest.mark.filterwarnings(r"ignore:hold\(\) of .* was never entered:ResourceWarning")
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name, monkeypatch):
    tests = itertools.chain(_histories(FIRST), _quick(), _other_histories(), _histories(SEEDS))
    check_found(monkeypatch, name, BUGS[name], tests)


@pytest.mark.planted
def test_without_a_planted_bug_nothing_is_found():
    assert len(list(_promises())) > 200
    for _, test in _quick():
        with contextlib.suppress(pytest.skip.Exception):
            test()
