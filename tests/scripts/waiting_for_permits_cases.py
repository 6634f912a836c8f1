"""The scripts of semaphores, where clients wait for permits."""

from __future__ import annotations

from typing import Final

from tests.scripts.harness import FREE, WRONGTYPE, Case, In, lock
from tests.scripts.numbered_calls import (
    ENDLESS,
    EXPIRED,
    PERMIT_2,
    add_expirable,
    add_permits,
    count_permits,
    done,
    give_permit,
    give_permits,
    lease_permit,
    permits,
    sends,
    set_counter,
    set_permits,
    stop_waiting,
    taken,
    undo,
    wait_for_permit,
    wait_for_permits,
    waits,
)
from tests.scripts.wait_queue import to, to_observers

CASES: Final = [
    # Giving permits.
    Case(
        "those who were notified before are to find theirs",
        permits(1) | waits("a:1:2", "b:1:1", observers="de", notified=["c:1:1"]),
        give_permits(),
        1,
        permits(2) | done(5, 1) | waits("a:1:2", observers="de", notified=["c:1:1", "b:1:1"]),
        [to("b", "go"), to_observers("2"), *sends(2)],
    ),
    Case(
        "an observer that is notified is replaced by the newest client",
        permits(0) | waits("a:1:1", "b:1:1", "c:1:1", observers="ae"),
        give_permits(),
        1,
        permits(1) | done(5, 1) | waits("b:1:1", "c:1:1", observers="ce", notified=["a:1:1"]),
        [to("a", "go"), to("c", "observe"), to_observers("2"), *sends(1)],
    ),
    Case(
        "clients are notified of permits that are added",
        permits(0) | waits("a:1:1", observers="bc"),
        add_permits(1),
        1,
        permits(1) | done(5, 1) | waits(observers="bc", notified=["a:1:1"]),
        [to("a", "go"), to_observers("2"), *sends(1)],
    ),
    Case(
        "none is notified of permits that are removed",
        permits(5) | waits("a:1:1", observers="bc"),
        add_permits(-1),
        1,
        permits(4) | done(5, 1) | waits("a:1:1", observers="bc"),
        sends(4),
    ),
    Case(
        "clients are notified of permits whose request is undone",
        permits(0) | done(5, 1) | waits("a:1:1", observers="bc"),
        undo(),
        1,
        permits(1) | done(6, 1) | waits(observers="bc", notified=["a:1:1"]),
        [to("a", "go"), to_observers("2"), *sends(1)],
    ),
    Case(
        "clients are notified of the first permits",
        waits("a:1:1", observers="bc"),
        set_counter(1),
        1,
        permits(1) | done(5, 1) | waits(observers="bc", notified=["a:1:1"]),
        [to("a", "go"), to_observers("2"), *sends(1)],
    ),
    # Of those that may expire.
    Case(
        "clients are notified of a permit that is released",
        permits(0) | taken(ENDLESS) | waits("a:1:1", observers="bc"),
        give_permit(),
        1,
        permits(1) | done(5, 1) | waits(observers="bc", notified=["a:1:1"]),
        [to("a", "go"), to_observers("2"), *sends(1)],
    ),
    Case(
        "clients are notified of permits that are added",
        permits(0) | waits("a:1:1", observers="bc"),
        add_expirable(1),
        1,
        permits(1) | done(5, 1) | waits(observers="bc", notified=["a:1:1"]),
        [to("a", "go"), to_observers("2"), *sends(1)],
    ),
    Case(
        "clients are notified of permits that are set",
        permits(0) | taken(ENDLESS) | waits("a:1:1", "b:1:1", observers="cd"),
        set_permits(2),
        1,
        permits(1) | taken(ENDLESS) | done(5, 1) | waits("b:1:1", observers="cd", notified=["a:1:1"]),
        [to("a", "go"), to_observers("2"), *sends(2)],
    ),
    Case(
        "clients are notified of expired permits when they are counted",
        permits(0) | taken(EXPIRED, (PERMIT_2, 2000.0)) | waits("a:1:1", observers="bc"),
        count_permits(),
        [b"2", 0],
        permits(2) | waits(observers="bc", notified=["a:1:1"]),
        [to("a", "go"), to_observers("2"), *sends(2)],
    ),
    Case(
        "clients are notified of expired permits when a lease is changed",
        permits(0) | taken(EXPIRED) | waits("a:1:1", observers="bc"),
        lease_permit(PERMIT_2),
        0,
        permits(1) | done(5, 0) | waits(observers="bc", notified=["a:1:1"]),
        [to("a", "go"), to_observers("2"), *sends(1)],
    ),
    # Waiting for permits.
    Case(
        "one that finds no permits comes in the queue, and is an observer",
        permits(0),
        wait_for_permits(),
        [0, 0],
        permits(0) | done(5, 0) | waits("a:1:1", observers="a"),
        [to("a", "observe and attempt")],
    ),
    Case(
        "the observers wait for all who were notified",
        permits(2) | waits("b:1:1", observers="bc", notified=["a:1:1", "d:1:1"]),
        wait_for_permits(chosen=True),
        [1, 0],
        permits(1) | done(5, 1) | waits("b:1:1", observers="bc", notified=["d:1:1"]),
    ),
    Case(
        "one that comes too late is put back where it was",
        permits(0) | waits("b:1:1", observers="bc", notified=["a:1:1"]),
        wait_for_permits(chosen=True),
        [0, 0],
        permits(0) | done(5, 0) | waits("a:1:1", "b:1:1", observers="bc"),
    ),
    Case(
        "others are notified of permits that are left",
        permits(3) | waits("b:1:1", "c:1:4", "d:1:1", observers="ef"),
        wait_for_permits(),
        [1, 0],
        permits(2) | done(5, 1) | waits("c:1:4", observers="ef", notified=["b:1:1", "d:1:1"]),
        [to("b", "go"), to("d", "go"), to_observers("4")],
    ),
    Case(
        "the next one of the same client keeps its place",
        permits(1) | waits("b:1:1", observers="bc", notified=["a:1:1"]),
        wait_for_permits(rest=5000),
        [1, 0],
        permits(0) | done(5, 1) | waits("b:1:1", observers="bc", since={"a:1:1": 5000}),
        [to_observers("3")],
    ),
    # Waiting for permits that may expire.
    Case(
        "all expired permits become available to those who wait longest",
        permits(0) | taken(EXPIRED, (PERMIT_2, 2000.0)) | waits("a:1:1", "b:1:1", "c:1:1", observers="de"),
        wait_for_permit(),
        [1, 0, -1],
        permits(1) | taken(ENDLESS) | done(5, 1) | waits("c:1:1", observers="de", notified=["b:1:1"]),
        [to("a", "go"), to("b", "go"), to_observers("2"), *sends(2)],
    ),
    Case(
        "one that is not the first leaves the expiry to others",
        permits(0) | taken((PERMIT_2, In(90_000))) | waits("b:1:1", "c:1:1", observers="bc"),
        wait_for_permit(waited=1000),
        [0, 0, -1],
        permits(0)
        | taken((PERMIT_2, In(90_000)))
        | done(5, 0)
        | waits("b:1:1", "c:1:1", observers="bc", since={"a:1:1": 1000}),
        [to("b", "in")],
    ),
    # Waiting no longer.
    Case(
        "one that leaves is taken out of the queue, and another one is an observer",
        permits(0) | waits("a:1:1", "b:1:1", "c:1:1", observers="ab"),
        stop_waiting(),
        1,
        permits(0) | waits("b:1:1", "c:1:1", observers="bc"),
        [to("c", "observe")],
    ),
    Case(
        "one that leaves when it has been notified passes it on",
        permits(1) | waits("b:1:1", observers="cd", notified=["a:1:1"]),
        stop_waiting(),
        1,
        permits(1) | waits(observers="cd", notified=["b:1:1"]),
        [to("b", "go"), to_observers("4")],
    ),
    Case("nothing is left of the last one", FREE | waits("a:1:1", observers="a"), stop_waiting(), 1, FREE),
    Case("an error if the key is a hash", lock(me=1) | waits("b:1:1"), stop_waiting(), WRONGTYPE),
]
