"""The scripts of semaphores whose permits expire."""

from __future__ import annotations

from typing import Final

from tests.scripts.harness import FREE, LOCK, Call, Case, In
from tests.scripts.numbered_cases import (
    DONE,
    ENDLESS,
    EXPIRED,
    NEVER_MS,
    PERMIT,
    PERMIT_2,
    PERMITS,
    TAKEN,
    TOTAL,
    add_expirable,
    count_permits,
    done,
    give_all,
    give_permit,
    lease_permit,
    permits,
    renew_permits,
    sends,
    set_permits,
    take_permit,
    taken,
    total,
)

#: Other permits than PERMIT and PERMIT_2.
THIRDS: Final = (b"x" * 16, b"y" * 16, b"z" * 16)

CASES: Final = [
    Case(
        "an expired permit is made available, announced and taken",
        permits(0) | taken(EXPIRED),
        take_permit(PERMIT_2),
        [1, 0, -1],
        permits(0) | taken((PERMIT_2, NEVER_MS)) | done(5, 1),
        sends(1),
    ),
    Case(
        "of a semaphore of the other kind none is taken",
        permits(2) | total(2),
        Call("permit_acquire", (LOCK, DONE, PERMITS, TAKEN, TOTAL), (5, PERMIT, "PUBLISH", -1)),
        [-1],
        permits(2) | total(2),
    ),
    Case(
        "a repeat without a record is known by the id of its permit",
        permits(2) | taken(ENDLESS),
        take_permit(),
        [1, 2, -1],
        permits(2) | taken(ENDLESS) | done(5, 1),
    ),
    Case(
        "as many expired permits as are wanted are made available, announced and taken",
        permits(0) | taken(*((THIRDS[number], 1000.0 + number) for number in range(3))),
        take_permit(PERMIT + PERMIT_2),
        [2, 0, -1],
        permits(0) | taken((THIRDS[2], 1002.0), ENDLESS, (PERMIT_2, NEVER_MS)) | done(5, 2),
        sends(2),
    ),
    Case(
        "0 for an expired permit, which is made available",
        permits(2) | taken(EXPIRED),
        give_permit(),
        0,
        permits(3) | done(5, 0),
        sends(3),
    ),
    Case(
        "the position of the first unknown permit, and nothing is released",
        permits(2) | taken(ENDLESS),
        give_all(PERMIT, PERMIT_2, THIRDS[0]),
        3,
        permits(2) | taken(ENDLESS) | done(5, 3),
    ),
    Case(
        "another permit that has expired is made available before",
        permits(2) | taken(EXPIRED, (PERMIT_2, NEVER_MS), (THIRDS[0], NEVER_MS)),
        give_all(PERMIT_2, THIRDS[0]),
        1,
        permits(5) | done(5, 1),
        sends(3, 2),
    ),
    Case(
        "out of memory: several permits are released",
        permits(2) | taken(ENDLESS, (PERMIT_2, NEVER_MS)),
        give_all(PERMIT, PERMIT_2),
        1,
        permits(4) | done(5, 1),
        sends(2),
        out_of_memory=True,
    ),
    Case(
        "out of memory: a permit is released",
        permits(2) | taken(ENDLESS),
        give_permit(),
        1,
        permits(3) | done(5, 1),
        sends(3),
        out_of_memory=True,
    ),
    Case(
        "out of memory: a permit is kept for ever",
        permits(2) | taken((PERMIT, 9e14)),
        lease_permit(),
        1,
        permits(2) | taken(ENDLESS) | done(5, 1),
        out_of_memory=True,
    ),
    Case(
        "out of memory: permits are renewed by the clock of the server",
        permits(0) | taken((PERMIT, In(20_000)), (PERMIT_2, In(90_000))),
        renew_permits((TAKEN, PERMIT), (TAKEN, PERMIT_2)),
        [1, 1],
        permits(0) | taken((PERMIT, In(30_000)), (PERMIT_2, In(90_000))),
        out_of_memory=True,
    ),
    Case("-1 for a permit that never expires", permits(2) | taken(ENDLESS), count_permits(PERMIT), [b"2", 1, -1]),
    Case("the TTL of the key stays", permits(1, 90_000), set_permits(2), 1, permits(2, 90_000) | done(5, 1), sends(2)),
    Case(
        "setting the same number publishes nothing",
        permits(1) | taken(ENDLESS),
        set_permits(2),
        1,
        permits(1) | taken(ENDLESS) | done(5, 1),
    ),
    Case("adding zero permits publishes nothing", FREE, add_expirable(0), 1, permits(0) | done(5, 1)),
    Case(
        "no message if an expired permit only pays a debt",
        permits(-1) | taken(EXPIRED),
        count_permits(),
        [b"0", 0, None],
        permits(0),
    ),
    Case(
        "an expired permit pays a debt and is not taken",
        permits(-1) | taken(EXPIRED, (PERMIT_2, 2000.0)),
        take_permit(THIRDS[0]),
        [0, 0, 0],
        permits(0) | taken((PERMIT_2, 2000.0)) | done(5, 0),
    ),
    Case("an unknown permit is not renewed", permits(2) | taken(ENDLESS), renew_permits((TAKEN, PERMIT_2)), [0]),
]
