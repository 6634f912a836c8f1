"""Replies within bounds: what is too large, too long or too deep is refused before there is room made for it."""

from __future__ import annotations

from typing import Any

import hiredis
import pytest
import redis.exceptions as rx
from hypothesis import given
from hypothesis import strategies as st

from pyredisson.net.bounds import MAX_BYTES, MAX_DEPTH, MAX_ELEMENTS, Framing, Reader
from pyredisson.net.resp import new_reader

GOOD = [
    b":1\r\n",
    b"_\r\n",
    b"$-1\r\n",
    b"+OK\r\n",
    b"-ERR no\r\n",
    b"$0\r\n\r\n",
    b"$5\r\na*9\r\n\r\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"*2\r\n$5\r\nstale\r\n$1\r\n7\r\n",
    b"*3\r\n:1\r\n*2\r\n*0\r\n:2\r\n$2\r\nhi\r\n",
    b"%1\r\n+a\r\n*1\r\n:1\r\n",
    b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\n0\r\n",
    b"*3\r\n$8\r\nsmessage\r\n$12\r\nchannel:{id}\r\n$2\r\ngo\r\n",
    b"*1\r\n" * (MAX_DEPTH - 1) + b":1\r\n",
    b"*100\r\n" + b":1\r\n" * 100,
    b"#t\r\n",
    b",1.5\r\n",
]

HALF = b"$%d\r\n%b\r\n" % (MAX_BYTES // 2, b"x" * (MAX_BYTES // 2))

BAD = {
    "a bulk that is announced": b"$%d\r\n" % (MAX_BYTES + 1),
    "a bulk of many gigabytes": b"$99999999999999\r\n",
    "an array as long as a number": b"*4294967295\r\n",
    "an array that is a little too long": b"*%d\r\n" % (MAX_ELEMENTS + 1),
    "a map": b"%%%d\r\n" % MAX_ELEMENTS,
    "a set": b"~999999999\r\n",
    "a push": b">999999999\r\n",
    "arrays in arrays": b"*1\r\n" * (MAX_DEPTH + 1),
    "arrays behind elements": b"*2\r\n:1\r\n" * (MAX_DEPTH + 1),
    "bulks that are too large together": b"*3\r\n"
    + (b"$%d\r\n" % (MAX_BYTES // 2) + b"x" * (MAX_BYTES // 2) + b"\r\n") * 2,
    "a length of very many digits": b"*" + b"9" * 5000 + b"\r\n",
    "no number": b"*x\r\n",
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("chunk", [1, 7, 1 << 30])
def test_what_is_out_of_bounds_is_refused(name: str, chunk: int) -> None:
    data = BAD[name]
    if len(data) > 10_000:
        chunk = max(chunk, 1 << 20)
    reader = new_reader()

    def feed() -> None:
        for at in range(0, len(data), chunk):
            reader.feed(data[at : at + chunk])
            assert reader.gets() is False

    with pytest.raises(rx.InvalidResponse):
        feed()


def test_a_line_without_end_is_refused() -> None:
    reader = Reader()
    reader.feed(b"+")

    def feed() -> None:
        for _ in range(MAX_BYTES // (1 << 22) + 1):
            reader.feed(b"a" * (1 << 22))

    with pytest.raises(rx.InvalidResponse, match="bytes"):
        feed()


@given(st.lists(st.sampled_from(GOOD), max_size=12), st.integers(1, 40))
def test_what_is_within_bounds_is_read_as_ever(replies: list[bytes], chunk: int) -> None:
    data = b"".join(replies)
    ours, theirs = Reader(), hiredis.Reader()
    found: list[Any] = []
    for at in range(0, len(data), chunk):
        ours.feed(data[at : at + chunk])
        theirs.feed(data[at : at + chunk])
        while (reply := ours.gets()) is not False:
            found.append(reply)
            assert repr(reply) == repr(theirs.gets()) or isinstance(reply, Exception)
    assert len(found) == len(replies) - replies.count(b"#f\r\n")
    assert ours._bytes == 0


@given(st.lists(st.tuples(*[st.integers(0, 4), st.sampled_from([b"", b"c", b"$9", b"go\r\n", b"*9"])] * 2), max_size=3))
def test_a_message_with_a_wrong_length_is_not_taken_for_a_whole_one(
    messages: list[tuple[int, bytes, int, bytes]],
) -> None:
    data = b"".join(b"*3\r\n$7\r\nmessage\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % each for each in messages)
    read_along = Framing()
    try:
        read_along.read_along(data)
    except rx.InvalidResponse:
        with pytest.raises(rx.InvalidResponse):
            Reader().feed(data)
        return
    reader = Reader()
    reader.feed(data)
    assert [getattr(reader, name) for name in Framing.__slots__] == [
        getattr(read_along, name) for name in Framing.__slots__
    ]


@pytest.mark.parametrize(("count", "left"), [(2, [1]), (3, []), (4, [])])
def test_numbers_behind_an_array_with_another_length_are_not_taken_for_a_part_of_it(
    count: int, left: list[int]
) -> None:
    framing = Framing()
    framing.read_along(b"*3\r\n" + b":1\r\n" * count)
    assert framing._left == left
