"""Several locks as one: members are ordinary locks, so a multi-lock of Java's and one of ours exclude each other."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, wait

import pytest

from tests.interop.building import CURRENT, OLD, VERSIONS
from tests.interop.clients import Owner, not_owned
from tests.interop.conftest import Sides
from tests.interop.counting import count_up, crowd
from tests.interop.peer import WITHIN
from tests.interop.same_calls import OF_ONE_SIDE
from tests.servers import Server
from tests.waiting import until


@pytest.fixture
def three(fresh_server: Callable[..., Server]) -> list[Server]:
    """Independent servers."""
    return [fresh_server() for _ in range(3)]


@pytest.fixture
def names(unique_name: str) -> str:
    """Of three members on one server, in the order in which ours takes them."""
    return ",".join(f"{unique_name}-{each}" for each in "abc")


@pytest.fixture
def nothing_left(unique_name: str) -> Callable[..., None]:
    """``nothing_left(*servers)``: no member is held any more."""

    def check(*servers: Server) -> None:
        for server in servers:
            with server.client(decode_responses=True) as client:
                until(
                    lambda: not [key for key in client.keys(f"*{unique_name}*") if is_of_both(key)],
                    what="all members are free",
                )

    def is_of_both(key: str) -> bool:
        return not (key.startswith("counter-") or OF_ONE_SIDE.match(key))

    return check


def both(sides: Sides, first: str) -> tuple[Owner, Owner]:
    """One owner of each language. Ours has no doubts about servers that were just started, nor about slow ones; Java's
    never has.
    """
    python = sides.python(restart_guard=False, quorum_node_timeout=5.0)
    owners = {"java": sides.java().owner(), "python": python.owner()}
    return owners.pop(first), owners.popitem()[1]


# ---- on one server ---------------------------------------------------------------------------------------------------


@pytest.mark.volume
@pytest.mark.parametrize(("version", "members"), [*((version, "lock") for version in VERSIONS), (CURRENT, "fair_lock")])
def test_only_one_owner_holds_the_lock_at_a_time(open_sides, nothing_left, version, members, names, valkey, volume):
    owners = crowd(open_sides(version))
    count_up(owners, valkey.url, f"multi_lock/{members}", names, volume(20, full=1000), about=f"Redisson {version}")
    nothing_left(valkey)


@pytest.mark.parametrize("version", VERSIONS)
def test_all_or_none(open_sides, nothing_left, version, first, names, valkey):
    """A member that the other language holds keeps it out, and it keeps none of the others; and the reverse."""
    one, other = both(open_sides(version), first)
    mine = one.get("multi_lock/lock", names)
    theirs = other.get("multi_lock/lock", names)
    members = names.split(",")
    for name in members:
        single = other.get("lock", name)
        single.lock()
        assert not mine.try_lock()
        for free in set(members) - {name}:
            assert not one.get("lock", free).is_locked()
        waits = mine.start("lock")
        single.unlock()
        waits.result(20)
        assert [other.get("lock", each).try_lock() for each in members] == [False] * 3
        assert not theirs.try_lock()
        if version != OLD:  # It cannot be asked.
            assert mine.is_held_by_current_thread()
            assert not theirs.is_held_by_current_thread()
        with pytest.raises(Exception) as refusal:
            theirs.unlock()
        assert not_owned(refusal.value), refusal.value
        waits = theirs.start("lock")
        mine.unlock()
        waits.result(20)
        theirs.unlock()
        nothing_left(valkey)


def test_given_in_another_order(open_sides, nothing_left, names, valkey, direct):
    """Then they may wait for each other in a circle, which Java leaves after 1.5 s a member, and begins again."""
    sides = open_sides(CURRENT)
    java, python, another = sides.java().owner(), sides.python().owner(), sides.python().owner()
    first, second, third = names.split(",")
    mine, theirs = python.get("multi_lock/lock", names), java.get("multi_lock/lock", f"{third},{second},{first}")
    single = another.get("lock", second)
    single.lock()
    waits, waits_too = mine.start("lock"), theirs.start("lock")
    until(lambda: direct.exists(first, third) == 2, what="each has its first member")
    single.unlock()
    done, _ = wait((waits, waits_too), 60, FIRST_COMPLETED)
    assert len(done) == 1
    (mine if waits in done else theirs).unlock()
    (waits_too if waits in done else waits).result(WITHIN)
    (theirs if waits in done else mine).unlock()
    nothing_left(valkey)


# ---- on three servers ------------------------------------------------------------------------------------------------


@pytest.mark.volume
@pytest.mark.parametrize(
    ("version", "kind"),
    [
        *((version, "red_lock/lock") for version in VERSIONS),
        (CURRENT, "multi_lock/lock"),
        (CURRENT, "red_lock/fair_lock"),
    ],
)
def test_only_one_owner_holds_the_lock_at_a_time_on_three_servers(
    open_sides, nothing_left, three, version, kind, unique_name, volume
):
    """Ours needs the majority, whatever it is called; that of Java does if it is a red lock, and else all of them."""
    urls = [server.url for server in three]
    owners = crowd(open_sides(version, *urls), restart_guard=False)
    about = f"Redisson {version}, on three servers"
    count_up(owners, urls[0], kind, unique_name, volume(20, full=1000), about=about)
    nothing_left(*three)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_majority_or_nothing(open_sides, nothing_left, three, version, first, unique_name):
    one, other = both(open_sides(version, *(server.url for server in three)), first)
    mine, theirs = (owner.get("red_lock/lock", unique_name) for owner in (one, other))
    singles = [both(open_sides(version, server.url), first)[1].get("lock", unique_name) for server in three]
    singles[0].lock()
    assert mine.try_lock(4.5)  # Two of three; Java waits for a third of this at the first.
    assert not singles[1].try_lock()
    assert not singles[2].try_lock()
    assert not theirs.try_lock()
    mine.unlock()
    singles[2].lock()
    assert not mine.try_lock()
    assert not singles[1].is_locked()
    waits = mine.start("lock")
    singles[0].unlock()
    waits.result(20)
    singles[2].unlock()
    assert not theirs.try_lock()
    waits = theirs.start("lock")
    mine.unlock()
    waits.result(20)
    theirs.unlock()
    nothing_left(*three)
