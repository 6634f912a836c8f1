"""The scripts of semaphores whose permits expire."""

from __future__ import annotations

import itertools
from typing import Final

import pytest

from tests.lua.harness import (
    FREE,
    LOCK,
    OOM,
    TOLERANCE_MS,
    WRONGTYPE,
    Call,
    Case,
    ComparedServer,
    check,
    each,
    lock,
    run,
    store,
)
from tests.lua.numbered_calls import (
    ENDLESS,
    EXPIRED,
    NEVER_MS,
    NOT_AN_INTEGER,
    PERMIT,
    PERMIT_2,
    TAKEN,
    add_expirable,
    count_permits,
    done,
    give_permit,
    lease_permit,
    permits,
    renew_permits,
    sends,
    set_permits,
    take_permit,
    taken,
)

CASES: Final = [
    Case("a permit is taken for ever", permits(3), take_permit(), [1, 2, -1], permits(2) | taken(ENDLESS) | done(5, 1)),
    Case(
        "a permit is taken for ever if its lease is beyond the greatest time",
        permits(3),
        take_permit(lease=10**15),
        [1, 2, -1],
        permits(2) | taken(ENDLESS) | done(5, 1),
    ),
    Case(
        "the key of the permits taken gets the TTL of the semaphore",
        permits(3, 90_000),
        take_permit(),
        [1, 2, -1],
        permits(2, 90_000) | taken(ENDLESS, ttl_ms=90_000) | done(5, 1),
    ),
    Case(
        "no permit is taken if none is available",
        permits(0) | taken(ENDLESS),
        take_permit(PERMIT_2),
        [0, 0, -1],
        permits(0) | taken(ENDLESS) | done(5, 0),
    ),
    Case("no permit is taken from fewer than none", permits(-2), take_permit(), [0, -2, -1], permits(-2) | done(5, 0)),
    Case("nil for the available permits if there is no semaphore", FREE, take_permit(), [0, None, -1], done(5, 0)),
    Case(
        "an expired permit is made available, announced and taken",
        permits(0) | taken(EXPIRED),
        take_permit(PERMIT_2),
        [1, 0, -1],
        permits(0) | taken((PERMIT_2, NEVER_MS)) | done(5, 1),
        sends(1),
    ),
    Case(
        "an expired permit pays a debt and is not taken",
        permits(-1) | taken(EXPIRED, (PERMIT_2, 2000.0)),
        take_permit(b"x" * 16),
        [0, 0, 0],
        permits(0) | taken((PERMIT_2, 2000.0)) | done(5, 0),
    ),
    Case(
        "a repeat without a record is known by the id of its permit",
        permits(2) | taken(ENDLESS),
        take_permit(),
        [1, 2, -1],
        permits(2) | taken(ENDLESS) | done(5, 1),
    ),
    Case("an error if the semaphore is no number", permits("x"), take_permit(), NOT_AN_INTEGER),
    Case("an error if the key is a hash", lock(me=1), take_permit(), WRONGTYPE),
    Case("out of memory: no permit is taken", permits(3), take_permit(), OOM, out_of_memory=True),
    Case(
        "out of memory: a refusal is recorded",
        permits(0),
        take_permit(),
        [0, 0, -1],
        permits(0) | done(5, 0),
        out_of_memory=True,
    ),
    # Giving back.
    Case(
        "a permit is released and the new total published",
        permits(2) | taken(ENDLESS),
        give_permit(),
        1,
        permits(3) | done(5, 1),
        sends(3),
    ),
    Case(
        "one of two permits is released",
        permits(0) | taken(ENDLESS, (PERMIT_2, NEVER_MS)),
        give_permit(),
        1,
        permits(1) | taken((PERMIT_2, NEVER_MS)) | done(5, 1),
        sends(1),
    ),
    Case(
        "0 for an expired permit, which is made available",
        permits(2) | taken(EXPIRED),
        give_permit(),
        0,
        permits(3) | done(5, 0),
        sends(3),
    ),
    Case("0 for an unknown permit", permits(2), give_permit(), 0, permits(2) | done(5, 0)),
    Case(
        "releasing a permit creates a semaphore that is gone",
        taken(ENDLESS),
        give_permit(),
        1,
        permits(1) | done(5, 1),
        sends(1),
    ),
    Case("an error if the key is a hash", lock(me=1) | taken(ENDLESS), give_permit(), WRONGTYPE),
    Case(
        "out of memory: a permit is released",
        permits(2) | taken(ENDLESS),
        give_permit(),
        1,
        permits(3) | done(5, 1),
        sends(3),
        out_of_memory=True,
    ),
    # Another lease.
    Case(
        "a permit is kept for ever",
        permits(2) | taken((PERMIT, 9e14)),
        lease_permit(),
        1,
        permits(2) | taken(ENDLESS) | done(5, 1),
    ),
    Case("0 for an unknown permit", permits(2), lease_permit(), 0, permits(2) | done(5, 0)),
    Case(
        "0 for an expired permit, which is made available",
        permits(2) | taken(EXPIRED),
        lease_permit(),
        0,
        permits(3) | done(5, 0),
        sends(3),
    ),
    Case(
        "out of memory: a permit is kept for ever",
        permits(2) | taken((PERMIT, 9e14)),
        lease_permit(),
        1,
        permits(2) | taken(ENDLESS) | done(5, 1),
        out_of_memory=True,
    ),
    # Renewal.
    Case("an empty reply if there is nothing to renew", FREE, renew_permits(), []),
    Case("a later time is not shortened", permits(2) | taken(ENDLESS), renew_permits((TAKEN, PERMIT)), [1]),
    Case("0 for an unknown permit", permits(2) | taken(ENDLESS), renew_permits((TAKEN, PERMIT_2)), [0]),
    Case("0 for an expired permit", permits(2) | taken(EXPIRED), renew_permits((TAKEN, PERMIT)), [0]),
    Case(
        "a key of another type does not affect the others",
        lock(me=1) | taken(ENDLESS),
        renew_permits((LOCK, PERMIT), (TAKEN, PERMIT), (b"gone", PERMIT)),
        [0, 1, 0],
    ),
    # Counting.
    Case("nil for the available permits if there is no semaphore", FREE, count_permits(), [None, 0]),
    Case("available and taken permits are counted", permits(2) | taken(ENDLESS), count_permits(), [b"2", 1]),
    Case(
        "an expired permit is made available and counted as such",
        permits(2) | taken(EXPIRED),
        count_permits(),
        [b"3", 0],
        permits(3),
        sends(3),
    ),
    Case(
        "no message if an expired permit only pays a debt",
        permits(-1) | taken(EXPIRED),
        count_permits(),
        [b"0", 0],
        permits(0),
    ),
    Case(
        "out of memory: an expired permit is made available",
        permits(2) | taken(EXPIRED),
        count_permits(),
        [b"3", 0],
        permits(3),
        sends(3),
        out_of_memory=True,
    ),
    # Setting and adding.
    Case("the first permits are set and announced", FREE, set_permits(3), 1, permits(3) | done(5, 1), sends(3)),
    Case(
        "the permits are raised, those taken included",
        permits(1) | taken(ENDLESS),
        set_permits(5),
        1,
        permits(4) | taken(ENDLESS) | done(5, 1),
        sends(5),
    ),
    Case(
        "fewer permits than are taken leave a debt",
        permits(1) | taken(ENDLESS),
        set_permits(0),
        1,
        permits(-1) | taken(ENDLESS) | done(5, 1),
        sends(0),
    ),
    Case(
        "setting the same number publishes nothing",
        permits(1) | taken(ENDLESS),
        set_permits(2),
        1,
        permits(1) | taken(ENDLESS) | done(5, 1),
    ),
    Case("the TTL of the key stays", permits(1, 90_000), set_permits(2), 1, permits(2, 90_000) | done(5, 1), sends(2)),
    Case("an error if the key is a hash", lock(me=1), set_permits(3), WRONGTYPE),
    Case(
        "permits are added and the addition published",
        permits(2),
        add_expirable(3),
        1,
        permits(5) | done(5, 1),
        sends(3),
    ),
    Case("adding permits creates the semaphore", FREE, add_expirable(3), 1, permits(3) | done(5, 1), sends(3)),
    Case("permits are removed without a message", permits(2), add_expirable(-9), 1, permits(-7) | done(5, 1)),
    Case("adding zero permits publishes nothing", FREE, add_expirable(0), 1, permits(0) | done(5, 1)),
    Case("the TTL of the key is removed", permits(2, 90_000), add_expirable(1), 1, permits(3) | done(5, 1), sends(1)),
    Case("an error if the key is a hash", lock(me=1), add_expirable(3), WRONGTYPE),
]


@each(CASES)
def test_case(server: ComparedServer, case: Case) -> None:
    check(server, case)


def test_a_permit_expires_by_the_servers_clock(server: ComparedServer) -> None:
    def now_ms() -> int:
        return int(server.call("TIME")[0]) * 1000

    store(server, permits(2))
    reply = run(server, take_permit(lease=90_000))
    assert reply[:2] == [1, 1]
    assert 85_000 < reply[2] <= 90_000
    [(permit, ends)] = server.state()[TAKEN].value.items()
    assert permit == PERMIT
    assert abs(ends - now_ms() - 90_000) < TOLERANCE_MS
    assert run(server, lease_permit(lease=30_000, number=6)) == 1
    reply = run(server, take_permit(PERMIT_2, number=7))
    assert reply[:2] == [1, 0]
    assert 25_000 < reply[2] <= 30_000
    reply = run(server, take_permit(b"x" * 16, number=8))
    assert reply[:2] == [0, 0]
    assert 25_000 < reply[2] <= 30_000


@pytest.mark.parametrize("full", [False, True], ids=["", "out of memory"])
def test_permits_are_renewed_by_the_servers_clock(server: ComparedServer, full: bool) -> None:
    store(server, permits(2))
    assert run(server, take_permit(lease=20_000))[0] == 1
    assert run(server, take_permit(PERMIT_2, lease=90_000, number=6))[0] == 1
    before = server.state()[TAKEN].value
    server.out_of_memory(full)
    assert run(server, renew_permits((TAKEN, PERMIT), (TAKEN, PERMIT_2))) == [1, 1]
    server.out_of_memory(False)
    after = server.state()[TAKEN].value
    assert abs(after[PERMIT] - before[PERMIT] - 10_000) < TOLERANCE_MS
    assert after[PERMIT_2] == before[PERMIT_2]


@pytest.mark.parametrize("call", [count_permits(), lease_permit(b"x" * 16)], ids=lambda call: call.script)
def test_any_number_of_permits_may_expire_at_once(server: ComparedServer, call: Call) -> None:
    store(server, permits(0))
    for start in range(0, 20_000, 1000):
        words = itertools.chain(*((1 + number, b"%016d" % number) for number in range(start, start + 1000)))
        server.call("ZADD", TAKEN, *words)
    run(server, call)
    assert server.state()[LOCK].value == b"20000"
    assert TAKEN not in server.state()
    assert server.messages() == sends(20_000)
