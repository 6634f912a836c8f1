"""What is remembered is bounded; drawings of it."""

from __future__ import annotations

from pyredisson._tools.web.watcher import (
    BUCKET_SECONDS,
    BUCKETS,
    History,
    PageEvent,
    SeenRow,
    WaitEdge,
    Waits,
    draw,
    see,
)
from tests.web.scenes import lock, snapshot, waiter, who


def row(name: str, *, waiting: int = 0, since: float | None = None) -> SeenRow:
    waiters = tuple(waiter(who(number, 2), since=since) for number in range(waiting))
    return next(iter(see(snapshot(lock(name, who(1), waiters=waiters)), None).rows.values()))


def test_the_locks_that_changed_last_are_kept_with_their_last_events():
    history = History(max_locks=3, max_events=2)
    rows = [row(f"lock:{number}") for number in range(5)]
    for each in (*rows, rows[2]):
        for at in range(4):
            history.add(each, PageEvent(at, "acquired", "x", 0.0))
    assert [bool(history.of(each.id)) for each in rows] == [False, False, True, True, True]
    assert [event.at for event in history.of(rows[2].id)] == [3, 2]
    assert history.title_of(rows[0].id) is None
    history.add(rows[0], PageEvent(9, "acquired", "x", 0.0))
    assert [bool(history.of(each.id)) for each in rows] == [True, False, True, False, True]


def test_waits_are_kept_for_an_hour():
    waits = Waits()
    for number in range(3 * BUCKETS):
        at = number * BUCKET_SECONDS + 1.0
        waits.add([row("a", waiting=number % 7, since=at - 9)], at)
        waits.add([], at)  # The most within a bucket counts.
    now = (3 * BUCKETS - 1) * BUCKET_SECONDS + 2.0
    hour = waits.last_hour(now)
    assert len(hour) == BUCKETS
    assert [each.waiting for each in hour[:3]] == [number % 7 for number in range(2 * BUCKETS, 2 * BUCKETS + 3)]
    assert hour[1].longest == 9
    assert waits.last_hour(now + 1800) == hour[BUCKETS // 2 :]


def waits(*pairs: tuple[str, str], deadlock: bool = False) -> list[WaitEdge]:
    return [WaitEdge(one, f"lock of {other}", None, other, deadlock) for one, other in pairs]


def test_an_owner_that_waits_for_itself_is_drawn():
    drawing = draw(waits(("a", "a"), deadlock=True), 1)
    assert drawing is not None
    assert len(drawing.boxes) == 1


def test_a_crowd_is_counted_and_not_drawn():
    drawing = draw(waits(*((f"w{number}", "holder") for number in range(1_000))), 0)
    assert drawing is not None
    assert len(drawing.arrows) == 5
    assert drawing.left_out == 995
    assert drawing.unlisted == 800
    assert draw([], 0) is None
