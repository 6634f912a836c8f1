"""A lock that is not reentrant: an error where its holder would count, and all else as with a lock."""

import pytest

from pyredisson import LockError, LockNotOwnedError


@pytest.mark.parametrize("kind", ["non_reentrant_lock", "non_reentrant_fair_lock", "token_lock"])
def test_its_holder_cannot_acquire_it_twice(client, alice, kind):
    mine, another = alice.get(client, kind), alice.get(client, kind)
    mine.lock()
    calls = (mine.lock, mine.try_lock, mine.acquire, mine.enter, lambda: mine.try_lock(1, 5), mine.hold().enter)
    for call in (*calls, another.lock):
        with pytest.raises(LockError, match="not reentrant") as refusal:
            call()
        assert not isinstance(refusal.value, LockNotOwnedError)
        assert refusal.value.name == "orders"
    assert mine.get_hold_count() == 1
    mine.unlock()
    assert mine.try_lock()


def test_a_plain_lock_of_the_same_owner_may_join(client, alice):
    mine, plain = alice.get(client, "non_reentrant_lock"), alice.lock(client)
    mine.lock()
    plain.lock()
    assert mine.get_hold_count() == 2
    with pytest.raises(LockError, match="not reentrant"):
        mine.lock()
