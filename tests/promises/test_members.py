"""Members of a multi-lock: each hold of it is one hold of each member, beside those that its owner has of them alone.

What is released, extended, lost or counted is that hold and no other.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from pyredisson import ClientClosedError, LockError
from tests.promises.kinds import acquired, each_of, handle, make, not_owned, over, raises_lost, warned
from tests.worlds.base import KEPT, Actor, Remote, World
from tests.worlds.environments import each_runtime

pytestmark = each_runtime

BRIEF = 0.3  # a lease that is left to run out
#: The watchdog has nothing to do for five minutes, so that no renewal notices a loss.
FAR_AWAY: dict[str, Any] = {"lock_watchdog_timeout": 900, "presence": False}
block = each_of(True, False, ids=["hold", "lock"])
how = each_of("forced", "deleted")


@dataclass(frozen=True)
class Case:
    """What the members are: locks of one client, of one client each, or of nodes of which a majority will do."""

    where: str
    kind: str = "lock"
    made: bool = False  # the owner is one that was made

    def __str__(self) -> str:
        return f"{self.kind} {self.where}{' made owner' * self.made}"


SINGLE = Case("on one server")
APART, ALL, QUORUM = (Case(where) for where in ("on two servers", "on all of three nodes", "on a quorum of nodes"))
FAIR, MADE = Case("on one server", "fair_lock"), Case("on one server", made=True)
SOME = [SINGLE, FAIR, MADE, APART, QUORUM]
case = each_of(*SOME, ids=str)
REENTRANT = [*SOME, ALL, *(Case("on one server", kind) for kind in ("fenced_lock", "spin_lock", "write_lock"))]
ONCE = [Case("on one server", kind) for kind in ("token_lock", "non_reentrant_lock", "read_lock")]


def each(*cases: Case) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("case", cases, ids=str)


class Members:
    """A multi-lock and its members, each by itself, for Alice."""

    def __init__(self, world: World, alice: Actor, case: Case, **config: Any) -> None:
        self.world, self.alice, self.case = world, alice, case
        if case.where == "on one server":
            self.clients, self.names, self.stores = [world.client(**config)] * 2, ["a", "b"], [world.redis] * 2
        else:
            count = 2 if case.where == "on two servers" else 3
            self.clients = world.nodes(count, **{"quorum_node_timeout": 2.0, **config})
            self.names = ["a", "b"] if count == 2 else ["orders"] * 3
            self.stores = [world.node(index) for index in range(count)]
        self.count = len(self.names)
        self.quorum = 2 if case == QUORUM else self.count
        self.owner = self.clients[0].real.new_owner() if case.made else None
        self.lost = range(self.count - self.quorum + 1)  # Without these it is lost.

    @property
    def number(self) -> int:
        """The number of the owner."""
        return self.owner.number if self.owner is not None else self.alice.number

    def raw(self, index: int = 0, name: str | None = None) -> Any:
        options = {"owner": self.owner} if self.owner is not None else {}
        return make(self.clients[index], self.case.kind, name or self.names[index], **options)

    def one(self, index: int = 0) -> Remote:
        """A member by itself."""
        return Remote(self.raw(index), self.alice)

    def all(self) -> Remote:
        """The multi-lock."""
        return over(self.alice, [self.raw(index) for index in range(self.count)], quorum=self.quorum)

    def overlapping(self) -> Remote:
        """Another multi-lock, of the first member and one of its own."""
        return over(self.alice, [self.raw(0), self.raw(0, "c")])

    def theirs(self, actor: Actor, index: int = 0) -> Remote:
        """A member for someone else."""
        return handle(actor, self.clients[index], self.case.kind, self.names[index])

    def lose(self, how: str, actor: Actor) -> None:
        """Take so many members away that the multi-lock is lost: by force, as an actor, or in Redis itself."""
        for index in self.lost:
            if how == "forced":
                assert self.theirs(actor, index).force_unlock()
            else:
                self.stores[index].delete(self.names[index])

    def free(self, *indices: int) -> bool:
        """Whether these members are free on the server, all by default."""
        chosen = indices or range(self.count)
        return not any(self.stores[index].command("EXISTS", self.names[index]) for index in chosen)

    def freed(self) -> None:
        """Wait until all are free: of a lost hold, what no server confirms at once is released in the background."""
        self.world.until(self.free, what="the rest of a lost hold is released")

    def expire(self, *indices: int) -> None:
        """Wait until the leases of these members are over."""
        self.world.until(lambda: self.free(*indices), what="the lease runs out")

    def renewed(self, index: int = 0) -> None:
        self.world.renewed(self.names[index], store=self.stores[index])


@pytest.fixture
def members(world: World, alice: Actor, case: Case) -> Members:
    return Members(world, alice, case)


@pytest.fixture
def one(members: Members) -> Remote:
    """A member by itself."""
    return members.one()


@pytest.fixture
def several(members: Members) -> Remote:
    """The multi-lock."""
    return members.all()


# ---- a hold of a member alone ----------------------------------------------------------------------------------------


@each(*REENTRANT)
@pytest.mark.parametrize("order", ["all first", "one first", "in a block"])
def test_a_member_is_re_entered_and_both_are_released(members, one, several, order):
    if order == "in a block":
        with several.hold() as lease, one.hold():
            assert one.get_hold_count() == 2
        assert lease.remaining() == 0
        assert members.free()
        several.lock()
        with one.hold():
            several.unlock()
            assert one.get_hold_count() == 1
    else:
        several.lock()
        one.lock()
        first, last = (several, one) if order == "all first" else (one, several)
        first.unlock()
        assert one.get_hold_count() == 1
        last.unlock()
    assert members.free()


def test_two_multi_locks_of_one_member_are_released_in_any_order(members):
    for first in (0, 1):
        held = [members.all(), members.overlapping()]
        for lock in held:
            lock.lock()
        assert members.one().try_lock() is True
        held[first].unlock()
        assert held[1 - first].validity() > 0
        held[1 - first].unlock()
        assert members.one().get_hold_count() == 1
        members.one().unlock()
        assert members.free()


def test_a_multi_lock_of_one_and_its_member(world, client, alice):
    one, same = alice.lock(client), over(alice, [client.real.get_lock("orders")])
    same.lock()
    one.lock()
    same.unlock()
    one.unlock()
    assert world.redis.command("EXISTS", "orders") == 0


@each(*REENTRANT, *ONCE)
def test_a_member_that_is_held_through_a_multi_lock_alone_is_not_released_or_extended(members, one, several):
    with several.hold():
        ttl = one.remain_time_to_live()
        for call in (one.unlock, lambda: one.extend(600)):
            not_owned(call, f"multi-lock {re.escape(repr(several.real.name))}")
        assert one.remain_time_to_live() <= ttl
        assert one.is_held_by_current_thread()
        assert one.get_hold_count() == 1
        assert several.validity() > 0
    assert members.free()


@pytest.mark.parametrize("own_first", [True, False], ids=["own first", "multi-lock first"])
def test_an_unlock_of_a_member_releases_the_holds_of_its_own(members, one, several, own_first):
    for lock in (one, several) if own_first else (several, one):
        lock.lock()
    assert one.try_lock() is True
    assert one.get_hold_count() == 3
    assert several.get_hold_count() == 1
    assert one.extend(600) is True
    for count in (2, 1):
        one.unlock()
        assert one.get_hold_count() == count
        assert several.validity() > 0
    not_owned(one.unlock, "multi-lock")
    several.unlock()
    assert members.free()


# ---- the identity of holds -------------------------------------------------------------------------------------------

#: What acquires the outermost hold, and what comes in it: "one" of the lock, or "all"; a brief lease, or a block.
NESTED = [
    ["one", "one brief", "one", "all"],
    ["one", "one brief", "one", "all in a block"],
    ["one", "one brief", "all", "one", "all"],
    ["one", "one in a block", "one brief", "one", "all"],
]


@pytest.mark.parametrize("nested", NESTED, ids=", ".join)
def test_the_outermost_hold_stays_and_is_renewed(world, alice, bob, case, nested):
    """The holds of the member alone are released first, then those of the multi-lock; each the innermost first."""
    members = Members(world, alice, case, lock_watchdog_timeout=KEPT, on_lock_lost=world.on_lock_lost)
    releases = []
    for step in nested:
        lock = members.one() if step.startswith("one") else members.all()
        release = acquired(lock, alice, 0.8 if "brief" in step else None, block="block" in step)
        releases.append((step.startswith("one"), release))
    outermost, *inner = releases
    for own in (True, False):
        for is_own, release in reversed(inner):
            if is_own is own:
                release()
    assert members.one().get_hold_count() == 1
    members.renewed()
    assert not members.theirs(bob).try_lock()
    outermost[1]()
    assert members.free()
    assert world.losses == []


@pytest.mark.parametrize("anew", ["one", "another multi-lock", "a block"])
def test_a_multi_lock_whose_lease_ran_out_releases_no_hold_of_later(alice, members, one, several, anew, block):
    release = acquired(several, alice, BRIEF, block=block)
    members.expire()
    later = acquired(members.overlapping() if "multi" in anew else one, alice, None, block="block" in anew)
    raises_lost(release)
    assert one.get_hold_count() == 1
    assert not members.free(0)
    later()
    members.freed()
    several.lock()
    assert several.get_hold_count() == one.get_hold_count() == 1
    several.unlock()


@pytest.mark.parametrize("within", [0, 1, 2])
def test_a_block_whose_lease_ran_out_is_not_entered_again_whatever_ran_out_within_it(alice, members, several, within):
    release = acquired(several, alice, 1.5 if within else BRIEF, block=True)
    for _ in range(within):
        several.lock(BRIEF)
    members.expire()
    members.one().lock()
    raises_lost(several.lock)
    raises_lost(several.try_lock)
    for _ in range(within):
        raises_lost(several.unlock)
    raises_lost(release)
    assert members.one().get_hold_count() == 1
    members.one().unlock()
    members.freed()
    several.lock()
    assert several.get_hold_count() == 1
    several.unlock()


# ---- lost, and given back --------------------------------------------------------------------------------------------


@each(*SOME, *ONCE)
def test_the_other_members_are_given_back_when_some_were_lost(members, several, bob, how):
    several.lock(20)
    members.lose(how, bob)
    raises_lost(several.unlock)
    members.freed()
    for index in range(members.count):
        assert members.theirs(bob, index).try_lock()
        members.theirs(bob, index).unlock()
        assert members.one(index).try_lock()
        assert members.one(index).get_hold_count() == 1


def test_each_level_of_a_lost_multi_lock_raises_once_and_all_is_given_back(members, bob, how):
    several, other = members.all(), members.one(-1)
    several.lock(20)
    several.lock(30)
    other.lock(40)
    members.lose(how, bob)
    raises_lost(several.unlock)
    raises_lost(several.unlock)
    not_owned(several.unlock)
    assert other.get_hold_count() == 1
    assert members.theirs(bob, -1).try_lock() is False
    other.unlock()
    members.freed()
    several.lock()
    assert several.get_hold_count() == 1


@each(SINGLE, APART, QUORUM)
@pytest.mark.parametrize("own_first", [True, False], ids=["own first", "multi-lock first"])
@pytest.mark.parametrize("lost_first", [True, False], ids=["lost one released first", "last"])
@pytest.mark.parametrize("shared", [True, False], ids=["another multi-lock", "member alone"])
def test_a_hold_that_outlived_its_multi_lock_is_given_back(members, own_first, lost_first, shared):
    """The member lives on by what else its owner has of it, and not the others."""
    own, several = members.overlapping() if shared else members.one(), members.all()
    if own_first:
        own.lock()
    several.lock(BRIEF)
    if not own_first:
        own.lock()
    members.expire(*range(1, members.count))
    if not lost_first:
        own.unlock()
    raises_lost(several.unlock)
    if lost_first:
        assert members.one().get_hold_count() == 1
        own.unlock()
    members.freed()


@each(Case("on one server", "write_lock"))
@pytest.mark.parametrize("levels", [2, 3])
def test_what_lasts_longer_on_the_server_than_is_certain_is_given_back(members, several, levels):
    """As by a single lock. Each re-entry of a write lock adds its lease to what is left."""
    for _ in range(levels):
        several.lock(1.5)
    members.world.until(lambda: several.validity() == 0, what="it is certain no longer")
    for _ in range(levels):
        raises_lost(several.unlock)
    members.freed()


@pytest.mark.parametrize("how", ["forced", "deleted, and noticed"])
@pytest.mark.parametrize("unlocked", [True, False], ids=["unlocked", "left"])
def test_a_fixed_lease_that_ran_out_is_over_although_a_member_was_lost_before(members, several, bob, how, unlocked):
    several.lock(1.5)
    members.lose(how, bob)
    if how != "forced":
        for index in members.lost:
            raises_lost(members.one(index).try_lock)
    members.expire()
    if unlocked:
        raises_lost(several.unlock)
    assert several.try_lock() is True
    assert several.get_hold_count() == 1
    several.unlock()
    for index in range(members.count):
        assert members.one(index).try_lock() is True
        assert members.one(index).get_hold_count() == 1
        members.one(index).unlock()
    members.freed()


@each(*SOME, *ONCE)
@pytest.mark.parametrize("when", ["before", "after", "never"])
def test_a_member_is_not_called_lost_that_was_never_acquired_alone(members, one, several, when):
    """And the next hold of it is under the same number, whether its release was tried before or after, or never."""
    several.lock(BRIEF)
    members.expire()
    if when == "before":
        not_owned(one.unlock)
    raises_lost(several.unlock)
    if when == "after":
        not_owned(one.unlock)
    one.lock()
    assert one.is_held_by_thread(members.number)
    assert one.get_hold_count() == 1
    one.unlock()


# ---- told at once ----------------------------------------------------------------------------------------------------


@each(*SOME, *ONCE)
def test_the_holder_of_a_multi_lock_is_notified_at_once_when_a_member_is_forced_away(world, alice, bob, case, block):
    members = Members(world, alice, case, on_lock_lost=world.on_lock_lost, **FAR_AWAY)
    several = members.all()
    release = acquired(several, alice, None, block=block)
    members.lose("forced", bob)
    clients = len({id(client) for client in members.clients})
    world.until(lambda: len(world.losses) >= clients, within=5)
    assert world.losses == [(several.real.name, members.number)] * clients
    assert several.validity() == 0
    raises_lost(several.try_lock)
    raises_lost(release)
    members.freed()


@each(SINGLE, FAIR, APART)
def test_the_holder_of_a_member_and_of_the_multi_lock_is_notified_of_both(world, alice, bob, case):
    members = Members(world, alice, case, on_lock_lost=world.on_lock_lost, **FAR_AWAY)
    one, several = members.one(), members.all()
    one.lock()
    several.lock()
    members.lose("forced", bob)
    expected = {members.names[0], several.real.name}
    world.until(lambda: set(world.lost) == expected, within=5)
    raises_lost(one.unlock)
    raises_lost(several.unlock)
    members.freed()


@each(SINGLE, APART, ALL)
def test_the_holder_is_notified_at_once_when_a_call_finds_a_member_lost(world, alice, bob, case):
    members = Members(world, alice, case, on_lock_lost=world.on_lock_lost, **FAR_AWAY)
    several = members.all()
    several.lock()
    members.lose("deleted", bob)
    raises_lost(members.one().try_lock)
    world.until(lambda: several.real.name in world.lost, within=5)
    raises_lost(several.unlock)
    members.freed()


# ---- conditions ------------------------------------------------------------------------------------------------------

with_conditions = each(*SOME, ALL)


@with_conditions
def test_a_wait_gives_up_a_member_and_takes_it_again_and_nothing_is_lost(world, alice, bob, case, block, caplog):
    members = Members(world, alice, case, lock_watchdog_timeout=KEPT, on_lock_lost=world.on_lock_lost)
    client, store = members.clients[0], members.stores[-1]
    several = members.all()
    release = acquired(several, alice, None, block=block)
    waiting = alice.start(client.real.get_condition(members.raw()).wait, 30)
    world.until(lambda: members.stores[0].command("ZCARD", f"pyredisson_condition:{{{members.names[0]}}}"))
    assert members.theirs(bob).try_lock() is True
    world.renewed(members.names[-1], store=store)
    Remote(client.real.get_condition(members.theirs(bob).real), bob).notify()
    members.theirs(bob).unlock()
    assert waiting.result() is True
    assert world.losses == []
    assert several.validity() > 0
    assert members.one().get_hold_count() == several.get_hold_count() == 1
    members.renewed()
    release()
    assert members.free()
    assert world.losses == []
    # A server that is slow to reply is said to be, and costs nothing.
    lines = [text for text in warned(caplog) if "appendonly" not in text]
    assert [text for text in lines if "lost" in text or "late" in text] == []


@with_conditions
def test_a_wait_gives_up_all_kinds_of_holds_of_a_member_at_once(members, one, several, alice):
    one.lock(60)
    several.lock()
    several.lock(50)
    one.lock()
    assert alice.do(members.clients[0].real.get_condition(members.raw()).wait, 0.05) is False
    assert (one.get_hold_count(), several.get_hold_count()) == (4, 2)
    for lock in (several, one, one, several):
        lock.unlock()
    assert members.free()


@pytest.mark.parametrize("kind", ["lock", "fair_lock"])
@pytest.mark.parametrize("lease", [60, None], ids=["fixed", "renewed"])
def test_a_wait_on_a_lost_lock_gives_up_nothing_and_each_level_has_its_error(
    world, client, alice, mine, theirs, kind, how, lease
):
    for _ in range(3):
        mine.lock(lease)
    if how == "forced":
        theirs.force_unlock()
    else:
        world.redis.delete("orders")
    for _ in range(2):
        raises_lost(Remote(client.real.get_condition(mine.real), alice).wait)
    assert world.redis.command("EXISTS", "pyredisson_condition:{orders}") == 0
    for _ in range(3):
        raises_lost(mine.unlock)
    not_owned(mine.unlock)
    assert theirs.try_lock()


@each(SINGLE, FAIR, APART)
def test_a_wait_on_a_lost_member_gives_up_nothing(members, one, several, alice, bob, how):
    one.lock()
    several.lock()
    members.lose(how, bob)
    raises_lost(Remote(members.clients[0].real.get_condition(members.raw()), alice).wait)
    raises_lost(one.unlock)
    raises_lost(several.unlock)
    not_owned(several.unlock)
    not_owned(one.unlock)
    members.freed()


@with_conditions
@pytest.mark.parametrize("again", [True, False], ids=["held otherwise, too", "held by the block alone"])
@pytest.mark.parametrize("several", [True, False], ids=["multi-lock", "member"])
def test_a_block_that_is_left_elsewhere_during_a_wait_is_not_held_again(world, alice, bob, case, several, again):
    members = Members(world, alice, case)
    one = members.one()
    held = (members.all() if several else one).hold()
    held.enter()
    if again:
        one.lock()
    waiting = alice.start(members.clients[0].real.get_condition(members.raw()).wait, 1.5)
    world.until(lambda: members.stores[0].command("ZCARD", f"pyredisson_condition:{{{members.names[0]}}}"))
    bob.do(world.leave(held.real))
    assert waiting.result() is False
    assert one.get_hold_count() == again
    if again:
        one.unlock()
    not_owned(one.unlock)
    assert members.free()
    assert one.try_lock() is True


@each(SINGLE, FAIR, MADE)
@pytest.mark.parametrize("levels", [1, 2])
def test_a_wait_on_a_lease_that_ran_out_leaves_each_level_to_its_unlock(members, alice, levels):
    one = members.one()
    for _ in range(levels):
        one.lock(BRIEF)
    members.expire(0)
    raises_lost(Remote(members.clients[0].real.get_condition(members.raw()), alice).wait)
    for _ in range(levels):
        raises_lost(one.unlock)
    not_owned(one.unlock)


# ---- both sides of a read-write lock ---------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [True, False], ids=["and another lock", "alone"])
def test_a_writer_reads_in_one_multi_lock(world, client, alice, bob, more, block):
    sides = [make(client, side) for side in ("write_lock", "read_lock")]
    several = over(alice, [*sides, *([make(client, "lock", "stock")] if more else [])])
    with several.hold() if block else several:
        assert [Remote(side, alice).get_hold_count() for side in sides] == [1, 1]
        assert not handle(bob, client, "read_lock").try_lock()
        assert several.try_lock() is True
        several.unlock()
    assert world.redis.command("EXISTS", "orders", "stock") == 0
    assert handle(bob, client, "write_lock").try_lock()


@pytest.mark.parametrize("call", ["try_lock", "lock"])
def test_a_reader_does_not_write_in_one_multi_lock(world, client, alice, bob, call):
    several = over(alice, [make(client, side) for side in ("read_lock", "write_lock")])
    with pytest.raises(LockError, match=r"holds the read lock of 'orders' and cannot acquire its write lock"):
        getattr(several, call)()
    assert world.redis.command("EXISTS", "orders") == 0
    assert handle(bob, client, "write_lock").try_lock()


# ---- one member ------------------------------------------------------------------------------------------------------


kind = each_of("lock", "fair_lock", "write_lock", "fenced_lock")


@pytest.mark.parametrize("made_by", ["class", "client"])
def test_a_multi_lock_of_one_is_no_quorum(client, alice, kind, made_by, caplog):
    member = make(client, kind)
    several = over(alice, [member]) if made_by == "class" else Remote(client.real.get_multi_lock(member), alice)
    with several, several.hold():
        assert several.get_hold_count() == 2
    assert warned(caplog) == []


@pytest.mark.parametrize("call", ["try_lock", "lock"])
def test_re_entry_over_a_lost_multi_lock_of_one_raises_as_its_member_does(world, client, alice, kind, call):
    several = over(alice, [make(client, kind)])
    several.lock()
    world.redis.delete("orders")
    raises_lost(getattr(several, call))
    raises_lost(several.unlock)
    several.lock()
    assert several.get_hold_count() == 1
    several.unlock()


@each(FAIR, Case("on one server", "fair_lock", made=True))
def test_leaving_an_old_block_elsewhere_costs_no_place_in_a_queue(world, alice, bob, carol, case):
    """Its lease ran out, and its owner waits for the member again, meanwhile: that wait goes on."""
    members = Members(world, alice, case, **FAR_AWAY, max_wait_without_check=300)
    block = members.all().hold(lease_time=BRIEF)
    block.enter()
    members.expire(0, 1)
    theirs = members.theirs(bob)
    theirs.lock()
    waiting = alice.start(members.raw().try_lock, 60)
    world.until(lambda: world.waiting(theirs) == 1, what="Alice waits")
    world.pass_time(0.3)  # Its first heartbeats would give it its place again.
    raises_lost(Remote(block.real, carol).__exit__, None, None, None)
    theirs.unlock()
    assert waiting.result()
    assert world.last_resorts() == 0


# ---- clients of which one is closed ----------------------------------------------------------------------------------


@each(APART, ALL, QUORUM)
def test_a_release_after_one_client_was_closed_gives_back_what_the_others_hold(members, alice, block):
    release = acquired(members.all(), alice, block=block)
    last = members.count - 1
    alice.do(members.clients[last].real.close)
    if block:
        release()
        assert members.free(last)
    else:
        with pytest.raises(ClientClosedError):
            release()
    assert members.free(*range(last))
    not_owned(members.one().unlock)
    assert members.one().try_lock() is True


@each(APART, ALL, QUORUM)
@pytest.mark.parametrize("first", [True, False], ids=["the first", "the last"])
def test_the_holder_is_notified_when_what_a_closed_client_held_of_it_ends(world, alice, case, block, first):
    members = Members(world, alice, case, on_lock_lost=world.on_lock_lost, lock_watchdog_timeout=KEPT)
    several = members.all()
    acquired(several, alice, block=block)
    closed = [members.lost[each] if first else members.count - 1 - each for each in members.lost]
    for index in closed:
        assert world.lost == []
        alice.do(members.clients[index].real.close)
    world.until(lambda: several.real.name in world.lost, within=3 * KEPT)
    members.expire(*closed)


@each(*REENTRANT)
def test_who_forces_all_members_open_by_themselves_loses_the_multi_lock(world, alice, case, block):
    members = Members(world, alice, case, on_lock_lost=world.on_lock_lost, **FAR_AWAY)
    several = members.all()
    release = acquired(several, alice, None, block=block)
    for index in range(members.count):
        assert members.one(index).force_unlock()
    world.until(lambda: several.real.name in world.lost, within=5)
    raises_lost(release)
    not_owned(several.unlock)
    assert several.try_lock() is True
    several.unlock()
    members.freed()


@each(SINGLE, APART, ALL, QUORUM)
@pytest.mark.parametrize("extended", [False, True], ids=["as acquired", "extended"])
def test_the_end_of_a_fixed_lease_is_said_to_be_that(world, alice, case, extended):
    several = Members(world, alice, case).all()
    held = several.hold(lease_time=BRIEF)
    lease = held.enter()
    if extended:
        assert several.extend(2 * BRIEF) is True
    world.until(lambda: lease.lost, what="its lease ends")
    raises_lost(held.__exit__, None, None, None, match="its lease expired, and nothing renews a fixed lease")


@pytest.mark.parametrize(
    ("case", "first", "is_lost"),
    [
        *((case, 0, False) for case in (SINGLE, MADE, APART, ALL, QUORUM)),
        *((case, first, True) for case in (SINGLE, MADE, APART, ALL) for first in (0, 1)),
    ],
    ids=str,
)
def test_a_force_unlock_that_fails_loses_the_multi_lock_only_if_too_few_members_are_left(
    world, alice, case, first, is_lost
):
    called, lost = [], []
    members = Members(world, alice, case, on_lock_lost=lambda name, _: lost.append(name), **FAR_AWAY)
    several = members.all()
    held = several.hold(on_loss=lambda: called.append(1))
    lease = held.enter()
    failing = [first] if is_lost else range(members.quorum)
    for index in failing:
        members.stores[index].delete(members.names[index])
        members.stores[index].command("SET", members.names[index], "foreign")
    with pytest.raises(LockError, match="holds a string"):
        several.force_unlock()
    others = [index for index in range(members.count) if index not in failing]
    assert not others or members.free(*others), "it frees the others all the same"
    assert lease.lost is is_lost
    if is_lost:
        world.until(lambda: called and several.real.name in lost)
        raises_lost(several.ensure_held)
    else:
        several.ensure_held()
        lease.ensure_held()
        assert several.get_hold_count() == 1
    with suppress(LockError):  # By then the foreign key is found, too.
        held.__exit__(None, None, None)
    assert called == [1] * is_lost
    assert (several.real.name in lost) is is_lost
