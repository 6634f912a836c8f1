"""What a client holds: every transition of a claim, and what is true of all their sequences."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyredisson.core.deadline import certain_for
from pyredisson.core.holds import GONE, Claim, Claims, Level, Pending, Unlock, lost_error
from pyredisson.errors import LockLostError, LockNotOwnedError
from tests.unit.fake import FakeOwner, FakeRuntime

PLAIN = Level(30_000, watchdog=True, block=False)
FIXED = Level(10_000, watchdog=False, block=False)
BLOCK = Level(5_000, watchdog=False, block=True)


@pytest.fixture
def world() -> FakeRuntime:
    return FakeRuntime()


@pytest.fixture
def claim(world: FakeRuntime) -> Claim:
    return Claim(("orders", "client:1"), FakeOwner(), "client", world)


def take(claim: Claim, *levels: Level, now: float = 1000.0) -> None:
    for level in levels:
        claim.begin_acquire(level)
        claim.granted(level, now + level.certain)


# ---- levels ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("watchdog", "block", "watched"),
    [(True, False, True), (True, True, True), (False, True, True), (False, False, False)],
)
def test_who_is_told_of_a_loss(watchdog: bool, block: bool, watched: bool) -> None:
    level = Level(1000, watchdog=watchdog, block=block)
    assert level.watched is watched
    assert level.certain == certain_for(1000)


# ---- acquiring -------------------------------------------------------------------------------------------------------


def test_a_new_claim_says_nothing(claim: Claim) -> None:
    assert claim.idle()
    assert not claim.renewable()
    assert not claim.watched()
    assert claim.remaining(0.0) == 0.0
    assert not claim.expire(math.inf)
    assert not claim.lose("gone")


def test_an_acquire_is_noted_before_it_is_sent(claim: Claim) -> None:
    assert claim.begin_acquire(PLAIN) == (1, 0, 0, False)
    assert claim.pending is Pending.ACQUIRE
    assert claim.asked is PLAIN
    assert not claim.idle()


def test_what_was_granted_is_held(claim: Claim) -> None:
    take(claim, PLAIN)
    assert claim.levels == [PLAIN]
    assert claim.pending is None
    assert claim.deadline == 1000 + certain_for(30_000)
    assert claim.remaining(1000) == pytest.approx(certain_for(30_000))
    assert claim.remaining(claim.deadline) == 0.0
    assert claim.renewable()
    assert claim.watched()


def test_the_next_acquire_counts_what_is_held(claim: Claim) -> None:
    take(claim, PLAIN, FIXED)
    turn, _, holds, repeat = claim.begin_acquire(FIXED)
    assert (holds, repeat) == (2, False)
    assert turn == claim.turn


def test_reentry_never_brings_the_deadline_forward(claim: Claim) -> None:
    take(claim, PLAIN)
    deadline = claim.deadline
    take(claim, BLOCK)
    assert claim.deadline == deadline


def test_a_first_hold_starts_a_deadline_of_its_own(claim: Claim) -> None:
    take(claim, PLAIN)
    claim.released(claim.begin_release().turn, 0.0)
    take(claim, BLOCK)
    assert claim.deadline == 1000 + certain_for(5_000)


def test_what_was_refused_leaves_nothing(claim: Claim) -> None:
    turn = claim.begin_acquire(PLAIN).turn
    claim.refused(turn)
    assert claim.idle()


def test_an_acquire_that_was_surely_not_executed_is_no_repeat(claim: Claim) -> None:
    claim.begin_acquire(PLAIN)
    assert claim.begin_acquire(PLAIN).repeat is False
    assert claim.epoch == 0


def test_an_unanswered_acquire_is_repeated_under_the_next_epoch(claim: Claim) -> None:
    turn = claim.begin_acquire(PLAIN).turn
    claim.doubt(turn)
    epoch = claim.epoch
    assert epoch == 1
    again, _, holds, repeat = claim.begin_acquire(PLAIN)
    assert (again, holds, repeat) == (turn + 1, 0, True)
    assert claim.epoch > epoch
    assert claim.epoch_of(again) == claim.epoch
    claim.refused(turn)
    assert claim.pending is Pending.ACQUIRE, "what an earlier copy is answered concerns nobody any more"


def test_an_epoch_is_raised_by_whoever_has_the_turn(claim: Claim) -> None:
    turn = claim.begin_acquire(PLAIN).turn
    assert claim.epoch_of(turn) == 0
    claim.doubt(turn)
    assert claim.epoch_of(turn) == 1
    claim.raise_epoch(turn, above=7)
    assert claim.epoch_of(turn) == 8
    claim.raise_epoch(turn, above=3)
    assert claim.epoch_of(turn) == 9, "never lowered"
    other = claim.begin_acquire(PLAIN).turn
    assert claim.epoch_of(turn) is None
    epoch = claim.epoch
    claim.raise_epoch(turn, above=100)
    claim.doubt(turn)
    assert claim.epoch_of(other) == epoch


def test_an_epoch_is_remembered(claim: Claim) -> None:
    """As long as the server may hold it: a request without would be refused as stale."""
    turn = claim.begin_acquire(PLAIN).turn
    claim.doubt(turn)
    claim.refused(turn)
    assert not claim.idle()


def test_doubt_ends_with_the_request(claim: Claim) -> None:
    turn = claim.begin_acquire(PLAIN).turn
    claim.doubt(turn)
    claim.refused(turn)
    assert claim.begin_acquire(PLAIN).repeat is False


# ---- releasing -------------------------------------------------------------------------------------------------------


def test_releasing_what_is_not_held(claim: Claim) -> None:
    assert claim.begin_release().todo is Unlock.NOT_OWNED
    assert claim.pending is None


def test_releasing_the_only_hold(claim: Claim) -> None:
    take(claim, FIXED)
    turn, _, holds, lease, todo = claim.begin_release()
    assert (holds, lease, todo) == (1, 10_000, Unlock.RELEASE)
    assert claim.pending is Pending.RELEASE
    assert not claim.renewable(), "whoever unlocks wants no more of it"
    assert claim.released(turn, 0.0)
    assert claim.idle()
    assert claim.remaining(1000) == 0.0


def test_releasing_one_of_several_leaves_the_longest_lease(claim: Claim) -> None:
    take(claim, FIXED, PLAIN, BLOCK)
    turn, _, holds, lease, todo = claim.begin_release()
    assert (holds, lease, todo) == (3, 30_000, Unlock.RELEASE)
    assert claim.released(turn, 1234567.0)
    assert claim.levels == [FIXED, PLAIN]
    assert claim.deadline == 1234567.0
    assert claim.renewable()


def test_a_partial_release_never_brings_the_deadline_forward(claim: Claim) -> None:
    take(claim, PLAIN, FIXED)
    deadline = claim.deadline
    claim.released(claim.begin_release().turn, 1000.5)
    assert claim.deadline == deadline


def test_renewal_lasts_while_a_watchdog_hold_is_among_them(claim: Claim) -> None:
    take(claim, FIXED, PLAIN)
    assert claim.renewable()
    claim.released(claim.begin_release().turn, 0.0)
    assert not claim.renewable()
    assert not claim.watched()


def test_a_release_whose_turn_is_over_changes_nothing(claim: Claim) -> None:
    take(claim, FIXED)
    turn = claim.begin_release().turn
    claim.take_over()
    assert not claim.released(turn, 0.0)
    assert claim.levels == [FIXED]
    assert claim.pending is Pending.RELEASE


def test_an_unlock_that_was_settled_behind_its_caller_is_asked_after_once(claim: Claim) -> None:
    take(claim, PLAIN, PLAIN)
    claim.begin_release()
    turn, _, pending, _, _, _ = claim.take_over()
    assert pending is Pending.RELEASE
    assert claim.released(turn, 0.0, behind=True)
    assert not claim.idle()
    assert not claim.renewable(), "a caller who gave up may never come back"
    assert claim.take_released_behind()
    assert not claim.take_released_behind()
    assert claim.renewable()


def test_the_next_acquire_forgets_an_unlock_that_nobody_asked_after(claim: Claim) -> None:
    take(claim, FIXED)
    claim.begin_release()
    claim.released(claim.take_over().turn, 0.0, behind=True)
    take(claim, FIXED)
    assert not claim.take_released_behind()


# ---- settling --------------------------------------------------------------------------------------------------------


def test_nothing_pending_is_nothing_to_take_over(claim: Claim) -> None:
    take(claim, PLAIN)
    turn, epoch = claim.turn, claim.epoch
    assert claim.take_over().pending is None
    assert (claim.turn, claim.epoch) == (turn, epoch)


def test_taking_over_an_acquire_gives_back_one_more_than_is_held(claim: Claim) -> None:
    take(claim, FIXED)
    claim.begin_acquire(PLAIN)
    turn, _, pending, count, lease, repeat = claim.take_over()
    assert (pending, count, lease, repeat) == (Pending.ACQUIRE, 2, 10_000, True)
    assert claim.epoch == 1
    assert claim.given_back(turn)
    assert claim.levels == [FIXED]
    assert claim.pending is None


def test_taking_over_a_first_acquire(claim: Claim) -> None:
    claim.begin_acquire(FIXED)
    turn, _, pending, count, lease, repeat = claim.take_over()
    assert (pending, count, lease, repeat) == (Pending.ACQUIRE, 1, 10_000, True)
    assert claim.given_back(turn)
    assert claim.levels == []


def test_taking_over_a_release(claim: Claim) -> None:
    take(claim, FIXED, BLOCK)
    turn = claim.begin_release().turn
    assert claim.take_over()[2:] == (Pending.RELEASE, 2, 10_000, False), "it was surely not executed"
    assert claim.epoch == 0
    claim.doubt(turn)
    assert claim.epoch == 0, "its turn is over"
    claim.doubt(claim.turn)
    assert claim.take_over()[2:] == (Pending.RELEASE, 2, 10_000, True)
    assert claim.epoch == 2


def test_whoever_takes_over_first_wins(claim: Claim) -> None:
    claim.begin_acquire(FIXED)
    first = claim.take_over().turn
    second = claim.take_over().turn
    assert not claim.given_back(first)
    assert claim.given_back(second)


def test_the_background_leaves_alone_what_the_owner_began_since(claim: Claim) -> None:
    since = claim.begin_acquire(FIXED).turn
    claim.begin_acquire(FIXED)
    turn = claim.turn
    assert claim.take_over(since).pending is None
    assert claim.turn == turn
    assert claim.take_over(turn).pending is Pending.ACQUIRE


def test_an_unlock_whose_time_is_over_is_outranked_by_what_comes_next(claim: Claim) -> None:
    """Its last copy may be under way still, and nobody will say that it came too late."""
    take(claim, FIXED)
    turn = claim.begin_release().turn
    claim.doubt(turn)
    last = claim.epoch_of(turn)
    assert last is not None
    claim.expire(claim.deadline)
    claim.doubt(turn)  # The caller learns that no reply came, when its turn is over.
    assert claim.begin_acquire(FIXED).epoch > last


def test_an_unlock_that_is_interrupted_after_a_loss_is_over(claim: Claim) -> None:
    take(claim, FIXED)
    turn = claim.begin_release().turn
    assert claim.lose("gone")
    claim.doubt(turn)
    assert not claim.redo_release(1), "there is nothing to give back"
    assert claim.pending is None
    assert claim.levels == []
    assert claim.begin_acquire(FIXED).epoch == 2


def test_what_is_abandoned_is_outranked_too(claim: Claim) -> None:
    claim.begin_acquire(FIXED)
    claim.doubt(claim.turn)
    last = claim.take_over().epoch
    claim.abandon(claim.turn)
    assert claim.begin_acquire(FIXED).epoch > last


def test_what_is_abandoned_has_ended_with_its_lease(claim: Claim) -> None:
    take(claim, FIXED)
    claim.begin_release()
    claim.abandon(claim.turn)
    assert claim.levels == []
    assert claim.pending is None
    assert claim.begin_release().todo is Unlock.LOST, "a late unlock is told so"
    assert claim.begin_release().todo is Unlock.NOT_OWNED


def test_an_abandoned_acquire_held_nothing(claim: Claim) -> None:
    take(claim, FIXED)
    claim.begin_acquire(FIXED)
    claim.abandon(claim.turn)
    assert claim.levels == [FIXED]
    assert claim.pending is None


def test_nothing_is_abandoned_out_of_turn(claim: Claim) -> None:
    turn = claim.begin_acquire(FIXED).turn
    claim.begin_acquire(FIXED)
    claim.abandon(turn)
    assert claim.pending is Pending.ACQUIRE


# ---- ending ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("levels", "told", "lost", "over"),
    [
        ([FIXED], False, False, 1),
        ([FIXED, FIXED], False, False, 2),
        ([PLAIN], True, True, 0),
        ([BLOCK], True, True, 0),
        ([FIXED, BLOCK], True, True, 0),
    ],
    ids=["fixed", "fixed twice", "watchdog", "hold()", "hold() within fixed"],
)
def test_expiry(claim: Claim, levels: list[Level], told: bool, lost: bool, over: int) -> None:
    take(claim, *levels)
    assert not claim.expire(claim.deadline - 0.001)
    assert claim.expire(claim.deadline) is told
    assert (claim.loss is not None) is lost
    assert claim.over == over
    assert not claim.expire(claim.deadline), "told once"
    assert claim.remaining(0.0) == 0.0


def test_a_plain_hold_that_ran_out_is_over(claim: Claim) -> None:
    take(claim, FIXED, FIXED)
    claim.expire(claim.deadline)
    assert claim.begin_acquire(FIXED).holds == 0, "the next acquire starts at one"
    claim.refused(claim.turn)
    for _ in range(2):
        assert claim.begin_release()[2:] == (0, 0, Unlock.LOST)
    assert claim.begin_release().todo is Unlock.NOT_OWNED


def test_nobody_is_told_of_the_expiry_of_what_is_being_released(claim: Claim) -> None:
    take(claim, PLAIN)
    turn = claim.begin_release().turn
    assert not claim.expire(claim.deadline)
    assert claim.pending is None
    assert not claim.released(turn, 0.0), "its turn is over"
    assert claim.begin_release().todo is Unlock.LOST


def test_but_of_the_others_beneath_it(claim: Claim) -> None:
    take(claim, PLAIN, FIXED)
    claim.begin_release()
    assert claim.expire(claim.deadline)
    assert claim.levels == [PLAIN]
    assert claim.over == 1


def test_a_loss_is_told_once(claim: Claim) -> None:
    take(claim, PLAIN)
    assert claim.lose("forced")
    assert not claim.lose("again")
    assert claim.loss == "forced"
    assert not claim.renewable()
    assert not claim.watched()
    assert not claim.expire(math.inf)


def test_a_loss_is_of_a_generation(claim: Claim) -> None:
    """A renewal's answer that comes late says nothing of a hold that was taken since."""
    take(claim, PLAIN)
    generation = claim.generation
    claim.released(claim.begin_release().turn, 0.0)
    take(claim, PLAIN)
    assert not claim.lose(GONE, generation)
    assert claim.lose(GONE, claim.generation)


@pytest.mark.parametrize("begin", [lambda claim: claim.begin_release().turn, lambda claim: claim.begin_last()])
def test_a_renewal_says_nothing_of_what_is_being_released(claim: Claim, begin: Callable[[Claim], int]) -> None:
    """It may have been executed behind the release. If it was not, the release will say that the hold was gone."""
    take(claim, PLAIN)
    generation = claim.generation
    turn = begin(claim)
    assert not claim.lose(GONE, generation)
    assert claim.lose_one(turn, GONE, 0.0)


def test_each_level_of_a_lost_claim_is_unlocked_with_an_error(claim: Claim) -> None:
    take(claim, PLAIN, PLAIN)
    claim.lose("forced")
    assert claim.begin_release()[2:] == (0, 30_000, Unlock.LOST)
    assert claim.loss == "forced", "there is one level left"
    assert claim.begin_release()[2:] == (0, 30_000, Unlock.LOST)
    assert claim.loss is None
    assert claim.begin_release().todo is Unlock.NOT_OWNED
    assert claim.begin_acquire(PLAIN).holds == 0


def test_an_unlock_that_finds_the_hold_gone(claim: Claim) -> None:
    take(claim, PLAIN, PLAIN)
    turn = claim.begin_release().turn
    assert claim.lose_one(turn, GONE, 1000.0)
    assert claim.levels == [PLAIN]
    assert claim.loss == GONE
    assert claim.pending is None


@pytest.mark.parametrize(
    ("level", "late", "told"), [(FIXED, False, True), (FIXED, True, False), (BLOCK, True, True), (PLAIN, True, True)]
)
def test_a_plain_hold_that_ran_out_is_no_loss_to_tell(claim: Claim, level: Level, late: bool, told: bool) -> None:
    take(claim, level)
    turn = claim.begin_release().turn
    assert claim.lose_one(turn, GONE, claim.deadline if late else claim.deadline - 1) is told
    assert claim.levels == []
    assert claim.loss is None, "there is nothing left to lose"


def test_a_loss_found_behind_the_callers_back_is_told_to_the_next_unlock(claim: Claim) -> None:
    take(claim, PLAIN)
    claim.begin_release()
    claim.lose_one(claim.take_over().turn, GONE, 1000.0, behind=True)
    assert claim.begin_release().todo is Unlock.LOST


def test_what_the_owner_ended_itself_is_not_lost(claim: Claim) -> None:
    take(claim, PLAIN, FIXED)
    turn, _ = claim.begin_force()
    claim.clear()
    assert claim.turn > turn
    assert claim.idle()
    assert claim.begin_release().todo is Unlock.NOT_OWNED


def test_a_renewal_counts_from_when_it_was_sent(claim: Claim) -> None:
    take(claim, PLAIN)
    claim.renewed(claim.generation, 1010.0, 30_000)
    assert claim.deadline == 1010 + certain_for(30_000)
    claim.renewed(claim.generation, 1005.0, 30_000)
    assert claim.deadline == 1010 + certain_for(30_000), "never brought forward"


def test_a_renewal_of_another_generation_counts_for_nothing(claim: Claim) -> None:
    take(claim, PLAIN)
    generation, deadline = claim.generation, claim.deadline
    take(claim, PLAIN)
    claim.renewed(generation, 2000.0, 30_000)
    assert claim.deadline == deadline
    claim.lose("forced")
    claim.renewed(claim.generation, 2000.0, 30_000)
    assert claim.remaining(1000.0) == 0.0


def test_it_shows_its_state(claim: Claim) -> None:
    take(claim, PLAIN, PLAIN)
    assert repr(claim) == "<Claim 'orders' client:1 ×2>"
    claim.begin_release()
    assert repr(claim) == "<Claim 'orders' client:1 ×2 release?>"
    claim.lose("forced")
    assert "lost (forced)" in repr(claim)


def test_the_error_of_a_loss(claim: Claim) -> None:
    error = lost_error(claim, "it was forced open")
    assert isinstance(error, LockLostError)
    assert isinstance(error, LockNotOwnedError)
    assert error.name == "orders"
    for said in ("orders", "client:1", "it was forced open", "fencing token"):
        assert said in str(error)


# ---- the table -------------------------------------------------------------------------------------------------------


def claim_of(world: FakeRuntime, name: str, number: int = 1) -> Claim:
    return Claim((name, f"client:{number}"), FakeOwner(number), "client", world)


def test_one_claim_for_each_lock_and_owner(world: FakeRuntime) -> None:
    claims = Claims(world)
    first = claims.enter(claim_of(world, "orders"))
    assert claims.enter(claim_of(world, "orders")) is first
    assert claims.find(("orders", "client:1")) is first
    assert claims.find(("orders", "client:2")) is None
    second = claims.enter(claim_of(world, "orders", 2))
    third = claims.enter(claim_of(world, "stock"))
    assert claims.of("orders") == [first, second]
    assert list(claims) == [first, second, third]
    assert len(claims) == 3
    assert first.listed


def test_what_is_dropped_is_no_longer_listed(world: FakeRuntime) -> None:
    claims = Claims(world)
    claim = claims.enter(claim_of(world, "orders"))
    claims.drop(claim)
    assert len(claims) == 0
    assert not claim.listed
    claims.drop(claim)


def test_the_claims_that_hold_something_or_may(world: FakeRuntime) -> None:
    claims = Claims(world)
    idle, held, asking = (claims.enter(claim_of(world, name)) for name in ("a", "b", "c"))
    take(held, PLAIN)
    asking.begin_acquire(PLAIN)
    assert claims.held() == [held, asking]
    assert idle in list(claims)


def test_idle_claims_do_not_pile_up(world: FakeRuntime) -> None:
    claims = Claims(world)
    held = claims.enter(claim_of(world, "held"))
    take(held, PLAIN)
    for number in range(10 * Claims.REMEMBERED):
        claims.enter(claim_of(world, f"lock {number}"))
        assert len(claims) <= 2 * Claims.REMEMBERED + 1
    assert claims.find(held.key) is held


def test_the_oldest_of_many_that_ran_out_are_forgotten(world: FakeRuntime) -> None:
    claims = Claims(world)
    made = []
    for number in range(2 * Claims.REMEMBERED):
        claim = claims.enter(claim_of(world, f"lock {number}"))
        take(claim, FIXED)
        made.append(claim)
    world.pass_time(60)
    claims.enter(claim_of(world, "one more"))
    assert [claim.listed for claim in made] == [False] * Claims.REMEMBERED + [True] * Claims.REMEMBERED
    assert made[-1].begin_release().todo is Unlock.LOST


def test_what_is_held_is_never_forgotten(world: FakeRuntime) -> None:
    claims = Claims(world)
    held = []
    for number in range(5 * Claims.REMEMBERED):
        claim = claims.enter(claim_of(world, f"held {number}"))
        take(claim, PLAIN)
        held.append(claim)
    for number in range(12 * Claims.REMEMBERED):
        claims.enter(claim_of(world, f"lock {number}"))
    assert all(claim.listed for claim in held)


def test_the_sweep_forgets_what_owners_who_are_gone_had(world: FakeRuntime) -> None:
    claims = Claims(world)
    claim = claims.enter(claim_of(world, "orders"))
    take(claim, FIXED)
    world.pass_time(60)
    claim.who.lives = False  # type: ignore[attr-defined]
    for number in range(2 * Claims.REMEMBERED):
        claims.enter(claim_of(world, f"lock {number}"))
    assert claims.find(claim.key) is None


def test_the_sweep_leaves_losses_to_those_who_tell_of_them(world: FakeRuntime) -> None:
    claims = Claims(world)
    claim = claims.enter(claim_of(world, "orders"))
    take(claim, PLAIN)
    world.pass_time(60)
    for number in range(2 * Claims.REMEMBERED):
        claims.enter(claim_of(world, f"lock {number}"))
    assert claim.expire(world.now()), "the watchdog still has it to tell"


def test_a_claim_that_is_swept_while_its_owner_reaches_for_it_is_unlisted(world: FakeRuntime) -> None:
    """The owner has found it, and another thread fills the table before the request is noted."""
    claims = Claims(world)
    found = claims.enter(claim_of(world, "orders"))
    for number in range(2 * Claims.REMEMBERED):
        claims.enter(claim_of(world, f"lock {number}"))
    found.begin_acquire(PLAIN)
    assert not found.listed
    assert claims.enter(found) is found
    for number in range(4 * Claims.REMEMBERED):
        claims.enter(claim_of(world, f"another {number}"))
    assert found.listed
    assert claims.find(found.key) is found


# ---- all sequences ---------------------------------------------------------------------------------------------------


class ClaimMachine(RuleBasedStateMachine):
    """Random steps of an owner, a watchdog and a server that may or may not answer, against a simple model."""

    @initialize()
    def begin(self) -> None:
        self.world = FakeRuntime()
        self.claim = Claim(("orders", "client:1"), FakeOwner(), "client", self.world)
        self.turns: list[int] = []
        self.tells = 0
        self.generations = [0]
        self.epochs = [0]

    def lost(self) -> bool:
        return self.claim.loss is not None

    @precondition(lambda self: not self.lost() and self.claim.pending is not Pending.RELEASE)
    @rule(level=st.sampled_from([PLAIN, FIXED, BLOCK]), answer=st.sampled_from(["granted", "refused", "none"]))
    def acquire(self, level: Level, answer: str) -> None:
        if self.claim.expire(self.world.now()):
            self.tells += 1
            return
        before = len(self.claim.levels)
        in_doubt = self.claim.pending is not None and self.claim.doubtful
        turn, _, holds, repeat = self.claim.begin_acquire(level)
        self.turns.append(turn)
        assert holds == before
        assert repeat == in_doubt
        assert self.claim.epoch_of(turn) == self.claim.epoch
        if answer == "granted":
            self.claim.granted(level, self.world.now() + level.certain)
            assert len(self.claim.levels) == before + 1
        elif answer == "refused" and not repeat:
            self.claim.refused(turn)
            assert len(self.claim.levels) == before
        else:
            epoch = self.claim.epoch
            self.claim.doubt(turn)
            assert self.claim.epoch > epoch, "late copies have to be refused"

    @precondition(lambda self: self.claim.pending is None)
    @rule(answer=st.sampled_from(["done", "gone", "none", "not sent"]))
    def release(self, answer: str) -> None:
        if self.claim.expire(self.world.now()):
            self.tells += 1
        before, was_lost, over = len(self.claim.levels), self.lost(), self.claim.over
        turn, _, holds, lease, todo = self.claim.begin_release()
        self.turns.append(turn)
        if not before and not over:
            assert todo is Unlock.NOT_OWNED
        elif was_lost or not before:
            assert todo is Unlock.LOST
            assert len(self.claim.levels) + self.claim.over == before + over - 1
        else:
            assert (todo, holds) == (Unlock.RELEASE, before)
            if answer == "done":
                assert self.claim.released(turn, self.world.now() + certain_for(lease))
                assert len(self.claim.levels) == before - 1
            elif answer == "gone":
                self.tells += self.claim.lose_one(turn, GONE, self.world.now())
                assert len(self.claim.levels) == before - 1
            elif answer == "none":
                self.claim.doubt(turn)

    @precondition(lambda self: self.claim.pending is not None)
    @rule(done=st.booleans(), behind=st.booleans())
    def settle(self, done: bool, behind: bool) -> None:
        before = len(self.claim.levels)
        epoch = self.claim.epoch
        turn, _, pending, count, lease, repeat = self.claim.take_over()
        self.turns.append(turn)
        assert lease >= 1
        assert repeat == (self.claim.epoch > epoch), "what may have run is repeated under an epoch of its own"
        assert count == before + (pending is Pending.ACQUIRE)
        assert count >= 1
        if not done:
            return
        if pending is Pending.ACQUIRE:
            assert self.claim.given_back(turn)
            assert len(self.claim.levels) == before
        else:
            assert self.claim.released(turn, self.world.now(), behind=behind)
            assert len(self.claim.levels) == before - 1

    @precondition(lambda self: self.claim.pending is not None)
    @rule()
    def abandon(self) -> None:
        self.claim.abandon(self.claim.turn)
        assert self.claim.pending is None

    @precondition(lambda self: self.turns)
    @rule(data=st.data())
    def answer_late(self, data: st.DataObject) -> None:
        """Whatever is said to a turn that is over changes nothing."""
        turn = data.draw(st.sampled_from(self.turns))
        if turn == self.claim.turn:
            return
        before = self.state()
        assert self.claim.epoch_of(turn) is None
        assert not self.claim.released(turn, math.inf)
        assert not self.claim.given_back(turn)
        assert not self.claim.lose_one(turn, GONE, self.world.now())
        self.claim.refused(turn)
        self.claim.abandon(turn)
        self.claim.raise_epoch(turn, above=1000)
        self.claim.doubt(turn)
        assert self.state() == before

    @rule(generation_back=st.integers(min_value=0, max_value=3))
    def renewal(self, generation_back: int) -> None:
        before = self.claim.deadline
        generation = self.claim.generation - generation_back
        self.claim.renewed(generation, self.world.now(), 30_000)
        assert self.claim.deadline >= before
        if generation_back or self.lost():
            assert self.claim.deadline == before

    @rule()
    def be_taken_away(self) -> None:
        expected = bool(self.claim.levels) and not self.lost()
        assert self.claim.lose(GONE) is expected
        self.tells += expected

    @rule()
    def force(self) -> None:
        self.turns.append(self.claim.begin_force()[0])
        self.claim.clear()
        assert self.claim.levels == []
        assert not self.lost()

    @rule(seconds=st.sampled_from([0.001, 1.0, 6.0, 31.0]))
    def pass_time(self, seconds: float) -> None:
        self.world.pass_time(seconds)

    @rule()
    def watchdog_looks(self) -> None:
        watched = any(level.watched for level in self.claim.levels)
        told = self.claim.expire(self.world.now())
        assert not told or watched
        self.tells += told
        assert not self.claim.expire(self.world.now())

    def state(self) -> tuple[object, ...]:
        claim = self.claim
        return (tuple(claim.levels), claim.pending, claim.loss, claim.over, claim.deadline, claim.epoch, claim.turn)

    @invariant()
    def a_loss_is_of_something(self) -> None:
        assert not self.lost() or self.claim.levels

    @invariant()
    def nothing_is_certain_past_the_deadline(self) -> None:
        left = self.claim.remaining(self.world.now())
        assert left >= 0.0
        if not self.claim.levels or self.lost() or self.world.now() >= self.claim.deadline:
            assert left == 0.0

    @invariant()
    def only_what_is_held_is_renewed(self) -> None:
        if self.claim.renewable():
            assert self.claim.levels
            assert not self.lost()
            assert self.claim.pending is not Pending.RELEASE

    @invariant()
    def counts_only_go_up(self) -> None:
        self.epochs.append(self.claim.epoch)
        self.generations.append(self.claim.generation)
        assert self.epochs[-1] >= self.epochs[-2]
        assert self.generations[-1] >= self.generations[-2]
        assert self.claim.over >= 0

    @invariant()
    def an_idle_claim_says_nothing(self) -> None:
        if self.claim.idle():
            assert not self.claim.levels
            assert not self.lost()
            assert self.claim.pending is None


TestClaim = ClaimMachine.TestCase
TestClaim.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
