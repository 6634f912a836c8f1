"""Events and other records: frozen, compared by what is in them, and made only of what they have."""

import copy
import dataclasses
import pickle

import pytest

from pyredisson import events
from pyredisson._core.kind import StoredKind

LOST = events.Lost("orders", "id:1", "expired")


def test_a_record_is_made_by_place_and_by_name():
    made = events.Acquired("orders", "id:1", waited=0.5, holds=1)
    assert (made.name, made.lease, made.kind, made.who) == ("orders", None, "lock", "")
    assert events.Lost(owner="id:1", name="orders", reason="expired", who="main") == LOST


@pytest.mark.parametrize(
    ("args", "others"),
    [
        ((), {}),
        (("orders", "id:1"), {}),
        (("orders", "id:1", "expired", "main"), {}),
        (("orders", "id:1", "expired"), {"name": "orders"}),
        (("orders", "id:1", "expired"), {"wrong": 1}),
    ],
)
def test_a_record_has_no_other_values(args, others):
    with pytest.raises(TypeError, match=r"^Lost\(\) takes name, owner"):
        events.Lost(*args, **others)


def test_a_record_does_not_change():
    with pytest.raises(dataclasses.FrozenInstanceError):
        LOST.name = "invoices"
    with pytest.raises(dataclasses.FrozenInstanceError):
        del LOST.name


def test_records_are_compared_by_what_is_in_them():
    other = dataclasses.replace(LOST, name="invoices")
    assert other != LOST
    assert events.GivenBack("orders", "id:1") != LOST
    assert {LOST, dataclasses.replace(LOST), copy.copy(LOST), pickle.loads(pickle.dumps(LOST))} == {LOST}
    assert repr(LOST) == "Lost(name='orders', owner='id:1', reason='expired')"


def test_a_default_that_is_made_is_made_for_each():
    kinds = [StoredKind("lock", "lock", "owners", str) for _ in range(2)]
    assert kinds[0].sides == {}
    assert kinds[0].sides is not kinds[1].sides
