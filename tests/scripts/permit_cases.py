"""The scripts of semaphores whose permits expire."""

from __future__ import annotations

from typing import Final

from tests.scripts.harness import (
    FREE,
    LOCK,
    WRONGTYPE,
    Around,
    Case,
    In,
    lock,
)
from tests.scripts.numbered_calls import (
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
        "the key of the permits taken gets the TTL of the semaphore",
        permits(3, 90_000),
        take_permit(),
        [1, 2, -1],
        permits(2, 90_000) | taken(ENDLESS, ttl_ms=90_000) | done(5, 1),
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
    Case(
        "a permit that is taken and one that is not come with the time until the next one expires",
        permits(1) | taken((PERMIT, In(30_000))),
        take_permit(PERMIT_2, lease=90_000),
        [1, 0, Around(30_000)],
        permits(0) | taken((PERMIT, In(30_000)), (PERMIT_2, In(90_000))) | done(5, 1),
    ),
    # Giving back.
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
    Case("0 for an unknown permit", permits(2), lease_permit(), 0, permits(2) | done(5, 0)),
    Case(
        "out of memory: a permit is kept for ever",
        permits(2) | taken((PERMIT, 9e14)),
        lease_permit(),
        1,
        permits(2) | taken(ENDLESS) | done(5, 1),
        out_of_memory=True,
    ),
    # Renewal.
    *(
        Case(
            f"{'out of memory: ' if full else ''}permits are renewed by the clock of the server",
            permits(0) | taken((PERMIT, In(20_000)), (PERMIT_2, In(90_000))),
            renew_permits((TAKEN, PERMIT), (TAKEN, PERMIT_2)),
            [1, 1],
            permits(0) | taken((PERMIT, In(30_000)), (PERMIT_2, In(90_000))),
            out_of_memory=full,
        )
        for full in (False, True)
    ),
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
        "no message if an expired permit only pays a debt",
        permits(-1) | taken(EXPIRED),
        count_permits(),
        [b"0", 0],
        permits(0),
    ),
    # Setting and adding.
    Case("the first permits are set and announced", FREE, set_permits(3), 1, permits(3) | done(5, 1), sends(3)),
    Case(
        "setting the same number publishes nothing",
        permits(1) | taken(ENDLESS),
        set_permits(2),
        1,
        permits(1) | taken(ENDLESS) | done(5, 1),
    ),
    Case("the TTL of the key stays", permits(1, 90_000), set_permits(2), 1, permits(2, 90_000) | done(5, 1), sends(2)),
    Case("an error if the key is a hash", lock(me=1), set_permits(3), WRONGTYPE),
    Case("adding permits creates the semaphore", FREE, add_expirable(3), 1, permits(3) | done(5, 1), sends(3)),
    Case("permits are removed without a message", permits(2), add_expirable(-9), 1, permits(-7) | done(5, 1)),
    Case("adding zero permits publishes nothing", FREE, add_expirable(0), 1, permits(0) | done(5, 1)),
    Case("the TTL of the key is removed", permits(2, 90_000), add_expirable(1), 1, permits(3) | done(5, 1), sends(1)),
    Case("an error if the key is a hash", lock(me=1), add_expirable(3), WRONGTYPE),
]
