"""The scripts of semaphores whose permits do not expire."""

from __future__ import annotations

from typing import Final

from tests.scripts.harness import FREE, WRONGTYPE, Case, lock
from tests.scripts.numbered_calls import (
    NOT_AN_INTEGER,
    add_permits,
    done,
    drain,
    give_permits,
    permits,
    sends,
    take_permits,
    undo,
)

CASES: Final = [
    Case("one of three permits is taken", permits(3), take_permits(), [1, 2], permits(2) | done(5, 1)),
    Case("all permits are taken", permits(3), take_permits(3), [3, 0], permits(0) | done(5, 3)),
    Case("the TTL of the key stays", permits(3, 90_000), take_permits(), [1, 2], permits(2, 90_000) | done(5, 1)),
    Case("no permits are taken if there are too few", permits(3), take_permits(4), [0, 3], permits(3) | done(5, 0)),
    Case("no permits are taken from fewer than none", permits(-2), take_permits(), [0, -2], permits(-2) | done(5, 0)),
    Case("nil for the available permits if there is no semaphore", FREE, take_permits(), [0, None], done(5, 0)),
    Case("an error if the semaphore is no number", permits("x"), take_permits(), NOT_AN_INTEGER),
    Case("an error if the key is a hash", lock(me=1), take_permits(), WRONGTYPE),
    # Giving back.
    Case("the TTL of the key stays", permits(2, 90_000), give_permits(), 1, permits(3, 90_000) | done(5, 1), sends(3)),
    Case("releasing permits creates the semaphore", FREE, give_permits(2), 1, permits(2) | done(5, 1), sends(2)),
    Case("an error if the key is a hash", lock(me=1), give_permits(), WRONGTYPE),
    Case(
        "out of memory: a permit is released",
        permits(2),
        give_permits(),
        1,
        permits(3) | done(5, 1),
        sends(3),
        out_of_memory=True,
    ),
    # Adding.
    Case("permits are removed, even below zero", permits(2), add_permits(-9), 1, permits(-7) | done(5, 1), sends(-7)),
    Case("adding zero permits creates the semaphore", FREE, add_permits(0), 1, permits(0) | done(5, 1), sends(0)),
    Case("the TTL of the key is removed", permits(2, 90_000), add_permits(3), 1, permits(5) | done(5, 1), sends(5)),
    Case("an error if the key is a hash", lock(me=1), add_permits(1), WRONGTYPE),
    # Draining.
    Case("all available permits are taken", permits(3), drain(), 3, permits(0) | done(5, 3)),
    Case("a debt is cancelled", permits(-3), drain(), -3, permits(0) | done(5, -3)),
    Case("0 if there is no semaphore", FREE, drain(), 0, done(5, 0)),
    Case("an error if the semaphore is no number", permits("x"), drain(), NOT_AN_INTEGER),
    Case("an error if the key is a hash", lock(me=1), drain(), WRONGTYPE),
    # Undoing.
    Case("0 if the request was refused", permits(1) | done(5, 0), undo(), 0, permits(1) | done(6, 0)),
    Case("0 if the request was never executed", permits(1), undo(), 0, permits(1) | done(6, 0)),
    Case("0 if the semaphore has been deleted since", done(5, 2), undo(), 0, done(6, 0)),
    Case("an error if the key is a hash", lock(me=1) | done(5, 2), undo(), WRONGTYPE),
    Case(
        "out of memory: the permits that the request took are released",
        permits(1) | done(5, 2),
        undo(),
        2,
        permits(3) | done(6, 2),
        sends(3),
        out_of_memory=True,
    ),
]
