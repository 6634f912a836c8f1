"""Histories in virtual time: no seed may break a rule, and something has to go wrong in them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from pyredisson._core.requests import AcquireCall, ReleaseCall
from pyredisson._core.runtime import Request
from pyredisson._kinds.token_lock import TokenKind
from tests.simulated import history, permit_history
from tests.simulated.engine.checkers import Violation
from tests.simulated.history import quiet
from tests.simulated.lock_history import CONFIG, LockHistory, LockPlan, ReadWriteHistory, TokenHistory
from tests.simulated.permit_history import PermitHistory, PermitPlan
from tests.simulated.planted import check_found, in_code, in_script
from tests.simulated.quorum_history import QuorumHistory, QuorumPlan
from tests.simulated.seeds import first_of, runs

#: Versions without the wait queue are still in use, and Redisson has none.
MIXED = LockPlan(processes=5, owners=1, outside_queue=0.5)
REPLICAS = LockPlan(replicas=1, faults=replace(history.NETWORK, unsynced=0.2))
PERMITS_WITH_REPLICAS = PermitPlan(replicas=1, faults=replace(permit_history.NETWORK, unsynced=0.2))
#: Clients tell of what they hold after a moment.
PRESENCE = LockPlan(
    presence=True, config=replace(CONFIG, presence_after=0.05, warn_held_longer_than=0.1, warn_waiting_longer_than=0.1)
)


@dataclass(frozen=True)
class Regime:
    """Histories of one kind.

    Attributes:
        history: Makes one from its seed.
        usual: How many seeds there are.
        full: How many there are at the full volume.
        chunks: By how many tests they are run.
        seen: What has to happen in the histories of each test.
    """

    history: Callable[[int], Any]
    usual: int
    full: int
    chunks: int = 4
    seen: tuple[str, ...] = ("grants",)


def _locks(plan: LockPlan) -> Callable[[int], LockHistory]:
    return partial(LockHistory, plan=plan)


REGIMES = {
    "lock": Regime(LockHistory, 400, 20_000, 8),
    "fair lock": Regime(_locks(LockPlan(kind="fair_lock")), 200, 10_000, 8),
    "only some clients are in the queue": Regime(_locks(MIXED), 200, 10_000, 8),
    "read-write lock": Regime(ReadWriteHistory, 160, 8_000),
    "token lock": Regime(TokenHistory, 80, 4_000),
    "permits": Regime(PermitHistory, 40, 2_000, seen=("grants", "unknown", "cancelled")),
    "quorum": Regime(QuorumHistory, 100, 5_000, 8, ("grants", "restart")),
    "lock, replicas": Regime(_locks(REPLICAS), 80, 4_000, seen=("unsynced",)),
    "fair lock, replicas": Regime(_locks(replace(REPLICAS, kind="fair_lock")), 80, 4_000, seen=("unsynced",)),
    "permits, replicas": Regime(partial(PermitHistory, plan=PERMITS_WITH_REPLICAS), 80, 4_000, seen=("unsynced",)),
    "lock, presence": Regime(_locks(PRESENCE), 6, 300, 1),
    "fair lock, presence": Regime(_locks(replace(PRESENCE, kind="fair_lock")), 6, 300, 1),
}


@pytest.mark.volume
@pytest.mark.parametrize(("name", "chunk"), [(name, n) for name, each in REGIMES.items() for n in range(each.chunks)])
def test_no_seed_breaks_a_rule(name, chunk, volume):
    regime = REGIMES[name]
    results = list(runs(regime.history, range(chunk, volume(regime.usual, full=regime.full), regime.chunks)))
    for what in regime.seen:
        found = [vars(each).get(what, each.world.counts.get(what, 0)) for each in results]
        assert sum(found) > 0, f"no {what}, so nothing was tested"


#: Seeds that found a bug once. Others may have taken its place since, but what was found is looked for again for ever.
ONCE_FOUND = {
    LockHistory: (
        *(11504, 21783, 22271, 27819, 33761, 33979, 35212, 41549, 43421, 61490),
        *(20002209, 20003492, 20004867, 20005988, 20008701),
    ),
    TokenHistory: (20000425,),
    QuorumHistory: (42005660, 42011393, 42012077, 42016359, 42017334, 42018589),
}


@pytest.mark.parametrize(("kind", "seed"), [(kind, seed) for kind, seeds in ONCE_FOUND.items() for seed in seeds])
def test_seeds_that_found_a_bug_before(kind, seed):
    kind(seed).run()


# ---- without faults --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "plan", "seeds"),
    [
        (LockHistory, LockPlan(), 100),
        (ReadWriteHistory, LockPlan(), 60),
        (TokenHistory, LockPlan(), 40),
        (PermitHistory, PermitPlan(), 30),
        (QuorumHistory, QuorumPlan(), 40),
    ],
    ids=["lock", "read-write lock", "token lock", "permits", "quorum"],
)
def test_without_faults_no_outcome_is_unknown_and_no_server_away(kind, plan, seeds):
    for seed in range(seeds):
        result = kind(seed, quiet(plan)).run()
        assert (result.errors, result.cancelled) == (0, 0), f"seed {seed}: {result}"
        # Who writes and has lost its read is told that it does not hold the lock.
        assert result.unknown == 0 or (kind is ReadWriteHistory and result.lost), f"seed {seed}: {result}"
        assert result.grants > 0


class LongLeases(LockHistory):
    """A history in which no lease runs out."""

    leases = (60.0, 90.0)


class LongReadsAndWrites(LongLeases, ReadWriteHistory):
    """The same of a read-write lock."""


LONG = replace(CONFIG, lock_watchdog_timeout=90.0, max_wait_without_check=30.0)


@pytest.mark.parametrize(
    ("kind", "plan", "seeds"),
    [
        (LongLeases, replace(MIXED, config=LONG), 30),
        (LongReadsAndWrites, LockPlan(config=LONG), 60),
        (PermitHistory, PermitPlan(config=replace(permit_history.CONFIG, max_wait_without_check=30.0)), 30),
    ],
    ids=["lock", "read-write lock", "permits"],
)
def test_without_faults_each_wait_is_ended_by_a_message(kind, plan, seeds):
    for seed in range(seeds):
        run = kind(seed, quiet(plan))
        run.run()
        assert not any(client.core.subscriptions.last_resorts for client in run.clients), f"seed {seed}"


# ---- planted bugs ----------------------------------------------------------------------------------------------------

ACQUIRE = TokenKind.acquire


def _careless(self: TokenKind, call: ReleaseCall, epoch: int, repeat: bool) -> Request:
    return self.force(call.ownership, epoch)


def _forgetful(self: TokenKind, call: AcquireCall, epoch: int, repeat: bool) -> Request:
    return ACQUIRE(self, call, 0, repeat)


BUGS = {
    TokenHistory: {
        "a release of a token lock compares no token": in_code(TokenKind, "release", _careless),
        "an acquire of a token lock has no epoch": in_code(TokenKind, "acquire", _forgetful),
    },
    ReadWriteHistory: {
        "a reader is let in beside a writer": in_script(
            "read_lock_acquire",
            (
                "elseif mode ~= 'read' and redis.call('hexists', KEYS[1], ARGV[1] .. ':write') == 0 then",
                "elseif false then",
            ),
        ),
        "a writer is let in beside readers": in_script(
            "write_lock_acquire", ("if mode ~= 'write' or not held then", "if mode == 'write' and not held then")
        ),
        "the last write unlock takes the reads with it": in_script(
            "write_lock_release", ("if reads then", "if false then")
        ),
        "one reader's end frees all": in_script(
            "read_lock_release", ("local free = redis.call('hlen', KEYS[1]) == 2", "local free = true")
        ),
        "a reader's end cuts the time of others": in_script("read_lock_release", ("cut = longest", "cut = 50")),
        "a renewal brings back what has ended": in_script(
            "read_lock_renew",
            ("if left ~= -2 then", "redis.call('set', holds .. i, 1) left = -1\n        if true then"),
        ),
        "a renewal cuts the lock's time": in_script(
            "read_lock_renew", ("live_for(KEYS[at], ARGV[1])", "redis.call('pexpire', KEYS[at], ARGV[1])")
        ),
        "a reader lives without the lock": in_script("read_lock_acquire", ("live_for(KEYS[1], ARGV[4])", "")),
        "a read unlock does not check the epoch": in_script(
            "read_lock_release", ("tonumber(stored) > tonumber(ARGV[2])", "false")
        ),
    },
}

#: Which seed found it the last time, where that is not among the first: tried before the others, which take longer.
FOUND_BY = {"a read unlock does not check the epoch": 56}


@pytest.mark.planted
@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, bugs in BUGS.items() for name in bugs])
def test_a_planted_bug_is_found(kind, name, monkeypatch):
    seeds = first_of(FOUND_BY.get(name), 400 if kind is ReadWriteHistory else 200)
    check_found(monkeypatch, name, BUGS[kind][name], ((f"seed {seed}", kind(seed).run) for seed in seeds), by=Violation)
