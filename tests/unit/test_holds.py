"""What a client holds: every transition of an ownership, and what is true of all their sequences."""

import itertools
import sys
from collections.abc import Callable
from functools import partial

import pytest

from pyredisson._core.deadline import certain_for
from pyredisson._core.hold import GONE, SingleHold
from pyredisson._core.owners import REMEMBERED, OwnershipTable
from pyredisson._core.ownership import Ownership
from pyredisson._core.requests import Pending, ReleaseBegun, Unlock
from tests.unit.fake import FakeOwner, FakeRuntime

PLAIN = partial(SingleHold, 30_000, certain_for(30_000), watchdog=True)
FIXED = partial(SingleHold, 10_000, certain_for(10_000), watchdog=False)
BLOCK = partial(SingleHold, 5_000, certain_for(5_000), watchdog=False, block=True)


@pytest.fixture
def ownership(world: FakeRuntime) -> Ownership:
    return Ownership(("orders", "client:1"), FakeOwner(), world)


def take(ownership: Ownership, *makers: Callable[[], SingleHold], now: float = 1000.0) -> list[SingleHold]:
    """Let an ownership acquire these holds, which are returned."""
    holds = [make() for make in makers]
    for hold in holds:
        assert ownership.granted(ownership.begin_acquire(hold).request_id, hold, now)
    return holds


def begin_release(ownership: Ownership, *, block: bool = False) -> ReleaseBegun:
    """Begin to release what an unlock is about."""
    hold = ownership.to_unlock()
    return ownership.begin_release(*(() if hold is None else (hold,)), block=block)


def leave_open(ownership: Ownership) -> None:
    """The call that is at a request gives up."""
    ownership.answered(ownership.request_id)


# ---- acquiring -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("forced", [False, True], ids=["lost", "forced open"])
def test_what_comes_next_outranks_each_copy_of_a_request_that_is_not_pending(ownership, forced):
    take(ownership, PLAIN)
    if forced:
        request_id, epoch = ownership.begin_force()
    else:
        ownership.lose(GONE)
        request_id, epoch, *_, todo = begin_release(ownership)
        assert todo is Unlock.LOST
    copies = [epoch]
    ownership.doubt(request_id)
    copies.append(ownership.epoch_of(request_id))
    ownership.raise_epoch(request_id, above=7)
    copies.append(ownership.epoch_of(request_id))
    assert copies == sorted(set(copies))
    assert copies[-1] >= 7, "else the server refuses it, too"
    if forced:
        ownership.outrank(request_id)
    assert ownership.begin_acquire(PLAIN()).epoch > copies[-1]
    assert ownership.epoch_of(request_id) is None


def test_an_epoch_is_raised_by_the_latest_request(ownership):
    request_id = ownership.begin_acquire(PLAIN()).request_id
    assert ownership.epoch_of(request_id) == 0
    ownership.doubt(request_id)
    assert ownership.epoch_of(request_id) == 1
    ownership.raise_epoch(request_id, above=7)
    assert ownership.epoch_of(request_id) == 8
    ownership.raise_epoch(request_id, above=3)
    assert ownership.epoch_of(request_id) == 9, "never lowered"
    leave_open(ownership)
    other = ownership.begin_acquire(PLAIN()).request_id
    assert ownership.epoch_of(request_id) is None
    epoch = ownership.epoch
    ownership.raise_epoch(request_id, above=100)
    ownership.doubt(request_id)
    assert ownership.epoch_of(other) == epoch


# ---- releasing -------------------------------------------------------------------------------------------------------


def test_an_unlock_that_was_settled_behind_its_caller_is_asked_after_once(ownership):
    take(ownership, PLAIN, PLAIN)
    begin_release(ownership)
    leave_open(ownership)
    request_id, _, pending, _, _, _ = ownership.take_over()
    assert pending is Pending.RELEASE
    assert ownership.released(request_id, 0.0, behind=True)
    assert not ownership.idle()
    assert not ownership.renewable(), "a caller who gave up may never come back"
    assert ownership.take_released_behind()
    assert not ownership.take_released_behind()
    assert ownership.renewable()


def test_the_next_acquire_forgets_an_unlock_that_was_not_asked_after(ownership):
    take(ownership, FIXED)
    begin_release(ownership)
    leave_open(ownership)
    ownership.released(ownership.take_over().request_id, 0.0, behind=True)
    take(ownership, FIXED)
    assert not ownership.take_released_behind()


@pytest.mark.parametrize(
    ("levels", "block", "done_with", "unclaimed"),
    [
        ([BLOCK], True, True, 0),
        ([PLAIN], False, False, 0),  # Its owner may call unlock() again.
        ([BLOCK, BLOCK], True, False, 1),
    ],
)
def test_the_last_release_of_a_block_leaves_nothing_to_its_owner(ownership, levels, block, done_with, unclaimed):
    take(ownership, *levels)
    assert not ownership.done_with()
    begun = begin_release(ownership, block=block)
    ownership.doubt(begun.request_id)
    assert ownership.in_use()
    assert (ownership.done_with(), ownership.unclaimed()) == (done_with, unclaimed)


# ---- settling --------------------------------------------------------------------------------------------------------


def test_taking_over_an_acquire_gives_back_one_more_than_is_held(ownership):
    held = take(ownership, FIXED)
    ownership.begin_acquire(PLAIN())
    leave_open(ownership)
    request_id, _, pending, count, lease, repeat = ownership.take_over()
    assert (pending, count, lease, repeat) == (Pending.ACQUIRE, 2, 10_000, True)
    assert ownership.epoch == 1
    assert ownership.given_back(request_id)
    assert ownership.holds == held
    assert ownership.pending is None


def test_the_background_leaves_alone_what_the_owner_began_since(ownership):
    since = ownership.begin_acquire(FIXED()).request_id
    leave_open(ownership)
    ownership.begin_acquire(FIXED())
    leave_open(ownership)
    request_id = ownership.request_id
    assert ownership.take_over(since).pending is None
    assert ownership.request_id == request_id
    assert ownership.take_over(request_id).pending is Pending.ACQUIRE


@pytest.mark.parametrize("answered", [True, False])
def test_a_call_waits_for_its_turn(ownership, answered):
    (held,) = take(ownership, FIXED)
    ownership.begin_acquire(PLAIN())
    request_id, epoch = ownership.request_id, ownership.epoch
    assert ownership.begin_release(held) is None
    assert ownership.begin_acquire(PLAIN()) is None
    assert ownership.take_over() is None
    assert (ownership.request_id, ownership.epoch) == (request_id, epoch), "nothing has changed"
    if answered:
        ownership.refused(request_id)
        assert ownership.begin_release(held).epoch == epoch
    else:
        ownership.take_turn()
        assert ownership.take_over().epoch > epoch, "the request may have run"


def test_a_call_does_not_wait_for_the_background(ownership):
    take(ownership, FIXED)
    since = begin_release(ownership).request_id
    leave_open(ownership)
    behind = ownership.take_over(since, background=True)
    assert not ownership.busy()
    begun = ownership.take_over()
    assert begun.request_id > behind.request_id
    assert begun.epoch > behind.epoch, "the copy of the background may run yet"
    assert begun.repeat
    assert ownership.busy()


@pytest.mark.parametrize("answered", [True, False])
def test_an_acquire_outranks_what_the_background_is_sending(ownership, answered):
    ownership.may_stand_in_queue(1000)
    assert ownership.stop_waiting(0.0)
    behind = ownership.take_over(ownership.request_id, background=True)
    if answered:
        ownership.answered(behind.request_id)
    begun = ownership.begin_acquire(PLAIN())
    assert (begun.epoch > behind.epoch, begun.repeat) == (not answered, not answered)


def test_an_unlock_whose_time_is_over_is_outranked_by_what_comes_next(ownership):
    """Its last copy may be under way still, and nobody will say that it came too late."""
    take(ownership, FIXED)
    request_id = begin_release(ownership).request_id
    ownership.doubt(request_id)
    last = ownership.epoch_of(request_id)
    assert last is not None
    ownership.expire(ownership.deadline)
    ownership.doubt(request_id)  # The caller learns that no reply came, when its turn is over.
    assert ownership.begin_acquire(FIXED()).epoch > last


def test_an_unlock_that_is_interrupted_after_a_loss_is_over(ownership):
    (held,) = take(ownership, FIXED)
    request_id = begin_release(ownership).request_id
    assert ownership.lose("gone")
    ownership.doubt(request_id)
    assert not ownership.redo_release(held), "there is nothing to give back"
    assert ownership.pending is None
    assert ownership.holds == []
    assert ownership.begin_acquire(FIXED()).epoch == 2


def test_what_is_abandoned_is_outranked_too(ownership):
    ownership.begin_acquire(FIXED())
    ownership.doubt(ownership.request_id)
    leave_open(ownership)
    last = ownership.take_over().epoch
    ownership.abandon(ownership.request_id)
    assert ownership.begin_acquire(FIXED()).epoch > last


def test_what_is_abandoned_has_ended_with_its_lease(ownership):
    take(ownership, FIXED)
    begin_release(ownership)
    ownership.abandon(ownership.request_id)
    assert ownership.holds == []
    assert ownership.pending is None
    assert begin_release(ownership).todo is Unlock.LOST, "a late unlock is told so"
    assert begin_release(ownership).todo is Unlock.NOT_OWNED


def test_an_abandoned_acquire_held_nothing(ownership):
    held = take(ownership, FIXED)
    ownership.begin_acquire(FIXED())
    ownership.abandon(ownership.request_id)
    assert ownership.holds == held
    assert ownership.pending is None


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
def test_expiry(ownership, levels, told, lost, over):
    take(ownership, *levels)
    assert not ownership.expire(ownership.deadline - 0.001)
    assert bool(ownership.expire(ownership.deadline)) is told
    assert (ownership.loss is not None) is lost
    assert len(ownership.ended) == over
    assert not ownership.expire(ownership.deadline), "told once"
    assert ownership.remaining(0.0) == 0.0


def test_the_expiry_of_what_is_being_released_is_not_reported(ownership):
    take(ownership, PLAIN)
    request_id = begin_release(ownership).request_id
    assert not ownership.expire(ownership.deadline)
    assert ownership.pending is None
    assert not ownership.released(request_id, 0.0), "its turn is over"
    assert begin_release(ownership).todo is Unlock.LOST


def test_but_of_the_others_beneath_it(ownership):
    plain, fixed = take(ownership, PLAIN, FIXED)
    begin_release(ownership)
    assert ownership.expire(ownership.deadline)
    assert ownership.holds == [plain]
    assert ownership.ended == (fixed,)


def test_a_loss_is_of_a_generation(ownership):
    """A renewal's answer that comes late says nothing of a hold that was taken since."""
    take(ownership, PLAIN)
    generation = ownership.generation
    ownership.released(begin_release(ownership).request_id, 0.0)
    take(ownership, PLAIN)
    assert not ownership.lose(GONE, generation)
    assert ownership.lose(GONE, ownership.generation)


def test_a_renewal_says_nothing_of_what_is_being_released(ownership):
    """It may have been executed behind the release. If it was not, the release will say that the hold was gone."""
    take(ownership, PLAIN)
    generation = ownership.generation
    request_id = begin_release(ownership).request_id
    assert not ownership.lose(GONE, generation)
    assert ownership.lose_one(request_id, GONE, 0.0)


@pytest.mark.parametrize(
    ("level", "late", "told"), [(FIXED, False, True), (FIXED, True, False), (BLOCK, True, True), (PLAIN, True, True)]
)
def test_a_plain_hold_that_ran_out_is_no_loss_to_tell(ownership, level, late, told):
    take(ownership, level)
    request_id = begin_release(ownership).request_id
    lost = ownership.lose_one(request_id, GONE, ownership.deadline if late else ownership.deadline - 1)
    assert bool(lost) is told
    assert ownership.holds == []
    assert ownership.loss is None, "there is nothing left to lose"


def test_a_loss_found_in_the_background_is_reported_by_the_next_unlock(ownership):
    take(ownership, PLAIN)
    begin_release(ownership)
    leave_open(ownership)
    ownership.lose_one(ownership.take_over().request_id, GONE, 1000.0, behind=True)
    assert begin_release(ownership).todo is Unlock.LOST


def test_a_renewal_counts_from_when_it_was_sent(ownership):
    take(ownership, PLAIN)
    assert ownership.renewed(ownership.generation, 1010 + certain_for(30_000), 1010.1)
    assert ownership.deadline == 1010 + certain_for(30_000)
    assert ownership.renewed(ownership.generation, 1005 + certain_for(30_000), 1010.1)
    assert ownership.deadline == 1010 + certain_for(30_000), "never brought forward"


def test_a_renewal_of_another_generation_counts_for_nothing(ownership):
    take(ownership, PLAIN)
    generation, deadline = ownership.generation, ownership.deadline
    take(ownership, PLAIN)
    assert not ownership.renewed(generation, 2000.0, 1000.0)
    assert ownership.deadline == deadline
    ownership.lose("forced")
    assert not ownership.renewed(ownership.generation, 2000.0, 1000.0)
    assert ownership.remaining(1000.0) == 0.0


def test_a_renewal_that_is_confirmed_after_the_deadline_counts_for_nothing(ownership):
    take(ownership, PLAIN)
    deadline = ownership.deadline
    assert not ownership.renewed(ownership.generation, deadline + 10, deadline)
    assert ownership.deadline == deadline
    assert ownership.renewed(ownership.generation, deadline + 10, deadline - 0.001)
    assert ownership.deadline == deadline + 10


# ---- the table -------------------------------------------------------------------------------------------------------


@pytest.fixture
def ownerships(world: FakeRuntime) -> OwnershipTable:
    return OwnershipTable(world)


def ownership_of(world: FakeRuntime, name: str, number: int = 1) -> Ownership:
    return Ownership((name, f"client:{number}"), FakeOwner(number), world)


def taken(ownerships: OwnershipTable, world: FakeRuntime, name: str, level: Callable[[], SingleHold]) -> Ownership:
    """Enter an ownership, and let it acquire its lock."""
    ownership = ownerships.enter(ownership_of(world, name))
    take(ownership, level)
    return ownership


_numbers = itertools.count()


def crowd(ownerships: OwnershipTable, world: FakeRuntime, times: int) -> None:
    """Enter a multiple of the idle ownerships that the table remembers."""
    for _ in range(times * REMEMBERED):
        ownerships.enter(ownership_of(world, f"crowd {next(_numbers)}"))


def test_the_ownerships_of_one_lock_are_those_in_the_table(ownerships, world):
    first, second = (ownerships.enter(ownership_of(world, "orders", number)) for number in (1, 2))
    for _ in range(2):
        ownerships.drop(first)
        assert first.table is None
        assert ownerships.of("orders") == [second]
        assert len(ownerships) == 1
    ownerships.enter(first)
    assert ownerships.of("orders") == [second, first]
    for ownership in (first, second):
        ownerships.drop(ownership)
    assert ownerships.of("orders") == []
    assert not ownerships._by_lock, "names of ownerships that are gone pile up"


def test_idle_ownerships_do_not_pile_up(ownerships, world):
    held = taken(ownerships, world, "held", PLAIN)
    for number in range(10 * REMEMBERED):
        ownerships.enter(ownership_of(world, f"lock {number}"))
        assert len(ownerships) <= 2 * REMEMBERED + 1
    assert ownerships.find(held.key) is held


def test_the_oldest_of_many_that_ran_out_are_forgotten(ownerships, world):
    made = [taken(ownerships, world, f"lock {number}", FIXED) for number in range(2 * REMEMBERED)]
    world.pass_time(60)
    ownerships.enter(ownership_of(world, "one more"))
    forgotten = [ownership for ownership in made if ownership.table is None]
    assert forgotten == made[:REMEMBERED]
    assert begin_release(made[-1]).todo is Unlock.LOST


def test_the_sweep_forgets_what_owners_who_are_gone_had(ownerships, world):
    ownership = taken(ownerships, world, "orders", FIXED)
    world.pass_time(60)
    ownership.who.lives = False
    crowd(ownerships, world, 2)
    assert ownerships.find(ownership.key) is None


def test_the_sweep_leaves_losses_to_those_who_tell_of_them(ownerships, world):
    ownership = taken(ownerships, world, "orders", PLAIN)
    world.pass_time(60)
    crowd(ownerships, world, 2)
    assert ownership.expire(world.now()), "the watchdog still has it to tell"


def test_an_ownership_swept_while_its_owner_uses_it_is_unlisted(ownerships, world):
    """The owner has found it, and another thread fills the table before the request is noted."""
    found = ownerships.enter(ownership_of(world, "orders"))
    crowd(ownerships, world, 2)
    found.begin_acquire(PLAIN())
    assert found.table is None
    assert ownerships.enter(found) is found
    crowd(ownerships, world, 4)
    assert found.table is not None
    assert ownerships.find(found.key) is found


# ---- callbacks -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("begins_first", [True, False], ids=["in the beginning of a block", "in the end of a block"])
def test_blocks_that_begin_and_end_in_two_threads_keep_their_callbacks(ownership, begins_first):
    """The second thread runs between any two steps of the first."""
    kept, beginning, ending = (partial(int) for _ in range(3))
    calls = [partial(ownership.call_when_lost, None, beginning), partial(ownership.call_no_more, ending)]
    first, second = calls if begins_first else reversed(calls)
    steps = at = 0

    def step(frame, event, _):
        nonlocal steps
        frame.f_trace_opcodes = True
        if event == "opcode":
            steps += 1
            if steps == at:
                second()
        return step

    while steps >= at:
        ownership.call_nothing()
        ownership.call_when_lost(None, kept)
        ownership.call_when_lost(None, ending)
        steps, at = 0, at + 1
        before = sys.gettrace()
        sys.settrace(step)
        try:
            first()
        finally:
            sys.settrace(before)
        if steps >= at:
            assert set(ownership.on_loss) == {kept, beginning}, f"at step {at}"
    assert at > 3


@pytest.mark.parametrize("block", [False, True])
def test_an_unlock_that_was_left_behind_another_request_learns_that_the_lease_has_ended(ownership, block):
    """No one comes back to the end of a block."""
    (hold,) = take(ownership, PLAIN)
    ownership.doubt(ownership.begin_acquire(PLAIN()).request_id)
    leave_open(ownership)
    assert ownership.release_later(hold, block=block)
    assert not ownership.expire(ownership.deadline)
    assert ownership.to_unlock() is (None if block else hold)
    assert ownership.given_back(ownership.request_id)
    assert begin_release(ownership).todo is (Unlock.NOT_OWNED if block else Unlock.LOST)
    assert begin_release(ownership).todo is Unlock.NOT_OWNED
