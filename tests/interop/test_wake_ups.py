"""Whoever waits is woken by a message of the other language, and not by the end of some time."""

import pytest

from tests.interop.supported_kinds import LOCK_CASES, OTHERS
from tests.interop.wake_up_checks import check_wake_ups

CASES = [
    *((version, kind) for version, kind in LOCK_CASES if kind not in ("spin_lock", "read_lock")),
    *((version, kind) for kind, has in OTHERS.items() for version in has),
    *((version, "readers") for version, kind in LOCK_CASES if kind == "read_lock"),
]


@pytest.mark.volume
@pytest.mark.parametrize(("version", "kind"), CASES)
def test_a_message_ends_the_wait(open_sides, version, kind, unique_name, direct, volume):
    check_wake_ups(open_sides(version), direct, kind, unique_name, volume(2, full=100), about=f"Redisson {version}")
