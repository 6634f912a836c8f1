"""``make test-newest`` reads the versions of the files that pin them; what it asks registries is not run here."""

import pytest

from tests.interop import newest


def test_each_pinned_peer_is_found():
    names = [peer.name for peer in newest.peers()]
    assert {
        "redisson",
        "shedlock-provider-redis-spring",
        "github.com/go-redsync/redsync/v4",
        "redlock",
        "redis",
        "sherlock",
    } <= set(names)
    assert all(peer.tested[0].isdigit() for peer in newest.peers())


@pytest.mark.parametrize(
    ("one", "other", "newer"), [("4.10.0", "4.9.1", True), ("4.9.1", "4.9.1", False), ("4.9", "4.9.1", False)]
)
def test_versions_are_compared_by_their_numbers(one, other, newer):
    assert newest.is_newer(one, other) is newer
