"""The scripts of semaphores whose permits do not expire, and of latches."""

from __future__ import annotations

from typing import Final

from tests.scripts.harness import FREE, LOCK, PERMITS, WRONGTYPE, Call, Case, lock
from tests.scripts.numbered_cases import (
    DONE,
    ENDLESS,
    GATE,
    NOT_AN_INTEGER,
    TAKEN,
    TOTAL,
    add_permits,
    count_down,
    done,
    drain,
    expire,
    give_permits,
    permits,
    resize,
    sends,
    set_counter,
    take_permits,
    taken,
    total,
    undo,
)

CASES: Final = [
    Case("all permits are taken", permits(3), take_permits(3), [3, 0], permits(0) | done(5, 3)),
    Case(
        "permits are taken of one that is not of the other kind",
        permits(3),
        Call("semaphore_acquire", (LOCK, DONE, TAKEN), (5, 1)),
        [1, 2],
        permits(2) | done(5, 1),
    ),
    Case(
        "of one of the other kind none is taken",
        permits(3) | taken(ENDLESS),
        Call("semaphore_acquire", (LOCK, DONE, TAKEN), (5, 1)),
        [-1],
        permits(3) | taken(ENDLESS),
    ),
    # Giving back.
    Case(
        "out of memory: a permit is released",
        permits(2),
        give_permits(),
        1,
        permits(3) | done(5, 1),
        sends(3),
        out_of_memory=True,
    ),
    Case(
        "out of memory: the refusal of a permit too many is recorded",
        permits(2),
        Call("semaphore_release", (LOCK, DONE, PERMITS), (5, 1, "PUBLISH", 2)),
        0,
        permits(2) | done(5, 0),
        out_of_memory=True,
    ),
    # Adding.
    Case(
        "the record of the total grows, and loses its TTL with the key",
        permits(2, 90_000) | total(4, 90_000),
        add_permits(3),
        1,
        permits(5) | total(7) | done(5, 1),
        sends(5),
    ),
    # Draining.
    Case(
        "the record of the total loses its TTL with the key",
        permits(3, 90_000) | total(5, 90_000),
        drain(),
        3,
        permits(0) | total(5) | done(5, 3),
    ),
    Case("0 if there is no semaphore", FREE, drain(), 0, done(5, 0)),
    # The total.
    Case("the same total changes nothing", permits(1) | total(3), resize(3), 1, permits(1) | total(3) | done(5, 1)),
    Case("an error if the semaphore is no number", permits("x") | total(1), resize(3), NOT_AN_INTEGER),
    Case(
        "the total is recorded with the first permits",
        total(7),
        set_counter(3, recorded=True),
        1,
        permits(3) | total(3) | done(5, 1),
        sends(3),
    ),
    Case(
        "a greater total makes more permits available",
        permits(1, 90_000) | total(3, 60_000),
        resize(5),
        1,
        permits(3, 90_000) | total(5, 90_000) | done(5, 1),
        sends(3),
    ),
    Case("a total creates the semaphore", total(7), resize(0), 1, permits(0) | total(0) | done(5, 1), sends(0)),
    Case(
        "out of memory: the semaphore is resized",
        permits(1) | total(3),
        resize(5),
        1,
        permits(3) | total(5) | done(5, 1),
        sends(3),
        out_of_memory=True,
    ),
    # Expiring.
    Case(
        "all keys expire together",
        permits(1) | total(3),
        expire(90_000, TOTAL),
        1,
        permits(1, 90_000) | total(3, 90_000) | done(5, 1),
    ),
    # Undoing.
    Case("0 if the request was refused", permits(1) | done(5, 0), undo(), 0, permits(1) | done(6, 0)),
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
    # Setting a counter, and latches.
    Case(
        "a counter is set with a time to live",
        FREE,
        set_counter(3, ttl=90_000),
        1,
        permits(3, 90_000) | done(5, 1),
        sends(3),
    ),
    Case(
        "out of memory: 0 if there is a counter already",
        permits(1),
        set_counter(3),
        0,
        permits(1) | done(5, 0),
        out_of_memory=True,
    ),
    # Latches.
    Case(
        "at zero the latch is deleted and the waiters are notified",
        permits(1),
        count_down(),
        1,
        done(5, 1),
        sends(0, channel=GATE),
    ),
    Case("counting down a latch that is open changes nothing", FREE, count_down(), 1, done(5, 1)),
    Case(
        "out of memory: the count goes down by one",
        permits(2),
        count_down(),
        1,
        permits(1) | done(5, 1),
        out_of_memory=True,
    ),
    Case(
        "the waiters of a latch that is deleted are notified",
        permits(2),
        expire(0, message="0", channel=GATE),
        1,
        done(5, 1),
        sends(0, channel=GATE),
    ),
]
