"""Many owners in both languages count up together: no two are inside at once, whatever they hold to be inside."""

from __future__ import annotations

import pytest

from tests.interop.contention import check_exclusion, let_begin
from tests.interop.counting import count_up, crowd
from tests.interop.supported_kinds import CURRENT, EXCLUSIVE_CASES, VERSIONS

#: At full volume: with the newest version, and with the others.
HAND_OVERS = 5_000
OTHER_HAND_OVERS = 2_000


def hand_overs(version: str) -> int:
    return HAND_OVERS if version == CURRENT else OTHER_HAND_OVERS


@pytest.mark.volume
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("version", "kind"), EXCLUSIVE_CASES)
def test_only_one_owner_holds_the_lock_at_a_time(open_sides, version, kind, unique_name, valkey, volume):
    count_up(
        crowd(open_sides(version)),
        valkey.url,
        kind,
        unique_name,
        volume(40, full=hand_overs(version)),
        about=f"Redisson {version}",
    )


@pytest.mark.volume
@pytest.mark.timeout(900)
@pytest.mark.parametrize("version", VERSIONS)
def test_readers_and_writers(open_sides, version, unique_name, direct, volume):
    sides = open_sides(version)
    writers, readers = (
        crowd(sides)[1:5],
        [sides.java().owner(), sides.python().owner(), sides.python("asyncio").owner()],
    )
    counter = f"counter-{unique_name}"
    wanted = volume(40, full=hand_overs(version))
    writing = [each.contend("write_lock", unique_name, counter, wanted, 0.0001, 0.001) for each in writers]
    # They rest longer than they read: who writes has to wait for a moment when nobody reads.
    reading = [each.contend("read_lock", unique_name, counter, wanted, 0.0001, 0.003) for each in readers]
    let_begin(direct, counter, [*writing, *reading])
    written = [each.result(800) for each in writing]
    assert direct.get(counter) == str(sum(map(len, written)))
    assert sum(map(len, written)) >= wanted
    check_exclusion(written)
    for each in reading:
        # Redisson's readers can miss the last writer's message; they look again when its lease of 30 s would be over.
        read = each.result(90)
        check_exclusion([[stay for times in written for stay in times], read])


def test_what_one_side_holds_the_other_does_not_get(sides, unique_name):
    for first in ("java", "python"):
        one, other = sides.both(first)
        mine = one.owner().get("lock", unique_name)
        theirs = other.owner().get("lock", unique_name)
        assert mine.try_lock()
        assert not theirs.try_lock()
        assert not theirs.try_lock(0.02)
        assert theirs.is_locked()
        assert not theirs.is_held_by_current_thread()
        assert theirs.get_hold_count() == 0
        assert 15 < theirs.remain_time_to_live() <= 30
        mine.unlock()
        assert theirs.remain_time_to_live() is None
        assert theirs.try_lock()
        theirs.unlock()
