"""How our connections are called."""

import pytest

from pyredisson import Holder
from pyredisson._core.holder_lookup import Found, token_id
from pyredisson._core.presence import Identity
from pyredisson._net.wire import connection_name

CLIENT = "0b5d4f0e-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("app", "host", "name"),
    [
        ("web", "web-3", "pyredisson:web:web-3:4711"),
        (None, "web-3", "pyredisson:-:web-3:4711"),
        ("my app", "fe80::1", "pyredisson:my_app:fe80__1:4711"),
        ("täglich\n", "ho\x7fst", "pyredisson:t_glich_:ho_st:4711"),
        ("a" * 100, "b" * 100, f"pyredisson:{'a' * 64}:{'b' * 64}:4711"),
        ("!~", "h", "pyredisson:!~:h:4711"),
    ],
)
def test_the_name_of_a_connection(app, host, name):
    assert connection_name(Identity(app, host, 4711, "1"), CLIENT) == f"{name}:{CLIENT}"


@pytest.mark.parametrize(
    ("holder", "text"),
    [
        (Holder(), "an unknown holder"),
        (Holder(CLIENT, 7), f"client {CLIENT} thread 7"),
        (Holder(CLIENT, 7, "web", "web-3", 4711, "main"), "web@web-3 pid 4711 thread 'main'"),
        (Holder(CLIENT, 7, None, "web-3", 4711), "web-3 pid 4711 thread 7"),
        (Holder(CLIENT, 7, "ann", "web-3", reason="INC-42"), "ann@web-3 thread 7 (by hand: 'INC-42')"),
    ],
)
def test_a_holder_in_words(holder, text):
    assert str(holder) == text


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (Found(), None),
        (Found(waiting=0), None),
        (Found(waiting=1), "1 other waits for it"),
        (
            Found(Holder(host="h", remaining=22.1), 41.0, 3),
            "held by h for 41.0 s; its lease ends in 22.1 s unless it is renewed; 3 others wait for it",
        ),
        (Found(Holder(host="h", remaining=22.1), fixed=True), "held by h; its lease ends in 22.1 s"),
        (Found(Holder(host="h", remaining=float("inf"))), "held by h; it never expires"),
        (
            Found(Holder("8c1e", 77), foreign=True),
            "held by client 8c1e thread 77, a client of Redisson or one that has ended",
        ),
    ],
)
def test_what_was_found_in_words(found, text):
    assert found.describe() == text


def test_the_id_of_a_token_does_not_give_it_away():
    assert token_id(b"abc") == "ba7816bf"
