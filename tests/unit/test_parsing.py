"""Packing and parsing without hiredis: byte for byte, and reply for reply, what hiredis does."""

from __future__ import annotations

import itertools
from typing import Any

import hiredis
import pytest
import redis.exceptions as rx
from hypothesis import given
from hypothesis import strategies as st

from pyredisson.net.bounds import MAX_BYTES, Reader
from pyredisson.net.parsing import Parser, pack_command
from pyredisson.net.resp import is_push, reply_error
from tests.unit.test_bounds import BAD, GOOD

WORDS = st.one_of(st.binary(max_size=50), st.text(st.characters(exclude_categories=["Cs"]), max_size=50))

BULKS = st.binary(max_size=30).map(lambda data: b"$%d\r\n%b\r\n" % (len(data), data))
LINES = st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), max_size=20).map(str.encode)
SCALARS = st.one_of(
    st.integers(-(2**63), 2**63 - 1).map(lambda number: b":%d\r\n" % number),
    BULKS,
    LINES.map(lambda line: b"+" + line + b"\r\n"),
    LINES.map(lambda line: b"-ERR " + line + b"\r\n"),
    st.floats().map(lambda number: b",%b\r\n" % repr(number).encode()),
    st.integers().map(lambda number: b"(%d\r\n" % number),
    BULKS.map(lambda bulk: b"=%d\r\ntxt:%b" % (int(bulk[1 : bulk.index(b"\r")]) + 4, bulk.partition(b"\n")[2])),
    st.sampled_from([b"$-1\r\n", b"*-1\r\n", b"_\r\n", b"#t\r\n"]),
)


def aggregate(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    several = st.lists(inner, max_size=5)
    pairs = st.lists(st.tuples(BULKS, inner), max_size=3, unique_by=lambda pair: pair[0])
    return st.one_of(
        several.map(lambda each: b"*%d\r\n%b" % (len(each), b"".join(each))),
        several.map(lambda each: b"~%d\r\n%b" % (len(each), b"".join(each))),
        several.map(lambda each: b">%d\r\n%b" % (len(each), b"".join(each))),
        pairs.map(lambda each: b"%%%d\r\n%b" % (len(each), b"".join(itertools.chain.from_iterable(each)))),
    )


REPLIES = st.recursive(SCALARS, aggregate, max_leaves=12)

#: No replies: a parser that goes on after one of these would give a request the reply of another.
MALFORMED = [
    b":+1\r\n",
    b": 1\r\n",
    b":01\r\n",
    b":-0\r\n",
    b":\r\n",
    b":1_0\r\n",
    b":9223372036854775808\r\n",
    b"$-2\r\n",
    b"$x\r\n",
    b"$+3\r\nabc\r\n",
    b"$\r\n",
    b"*-2\r\n",
    b"*1_0\r\n",
    b"_x\r\n",
    b"#x\r\n",
    b",x\r\n",
    b",1_0\r\n",
    b"=2\r\nab\r\n",
    b"\r\n",
    b"?\r\n",
    b"HTTP/1.1 400 Bad Request\r\n",
    b"+a\nb\r\n",
    b"+a\rb\r\n",
    b"(1x\r\n",
]


def all_of(parser: Any, data: bytes, chunk: int) -> list[Any]:
    found: list[Any] = []
    for at in range(0, len(data), chunk):
        parser.feed(data[at : at + chunk])
        while (reply := parser.gets()) is not False:
            found.append(reply)
    return found


def parser() -> Parser:
    return Parser(protocolError=rx.InvalidResponse, replyError=reply_error)


@given(st.lists(WORDS, min_size=1, max_size=6))
def test_a_command_is_packed_as_hiredis_packs_it(words: list[str | bytes]) -> None:
    assert pack_command(tuple(words)) == hiredis.pack_command(tuple(words))  # type: ignore[arg-type]


@given(st.lists(REPLIES, max_size=5), st.integers(1, 60))
def test_replies_are_read_as_hiredis_reads_them(replies: list[bytes], chunk: int) -> None:
    data = b"".join(replies)
    theirs = hiredis.Reader(protocolError=rx.InvalidResponse, replyError=reply_error)
    ours, expected = all_of(parser(), data, chunk), all_of(theirs, data, chunk)
    assert repr(ours) == repr(expected)
    assert [is_push(reply) for reply in ours] == [is_push(reply) for reply in expected]


@pytest.mark.parametrize("reply", GOOD)
def test_usual_replies_are_read_as_hiredis_reads_them(reply: bytes) -> None:
    theirs = hiredis.Reader(protocolError=rx.InvalidResponse, replyError=reply_error)
    assert repr(all_of(parser(), reply, 1)) == repr(all_of(theirs, reply, 1))


@pytest.mark.parametrize("data", MALFORMED)
@pytest.mark.parametrize("chunk", [1, 1000])
def test_what_hiredis_refuses_is_refused(data: bytes, chunk: int) -> None:
    with pytest.raises(hiredis.ProtocolError):
        all_of(hiredis.Reader(), data, chunk)
    ours = parser()
    with pytest.raises(rx.InvalidResponse):
        all_of(ours, data, chunk)
    with pytest.raises(rx.InvalidResponse):
        all_of(ours, b":1\r\n", 1000)  # And all that comes after it.


@pytest.mark.parametrize("tail", [b"xx", b"\rx", b"\n\r"])
def test_a_bulk_that_does_not_end_where_it_says_is_refused(tail: bytes) -> None:
    """hiredis reads on, and what follows is the reply to another request."""
    with pytest.raises(rx.InvalidResponse):
        all_of(parser(), b"$3\r\nabc" + tail, 1)


def test_an_attribute_is_no_reply() -> None:
    assert all_of(parser(), b"|1\r\n+ttl\r\n:3600\r\n*2\r\n:1\r\n|1\r\n+a\r\n*1\r\n:7\r\n:2\r\n:3\r\n", 3) == [
        [1, 2],
        3,
    ]


def test_a_long_error_is_an_error() -> None:
    [error] = all_of(parser(), b"!15\r\nNOPERM not you!\r\n"[:-2] + b"\r\n", 4)
    assert isinstance(error, rx.NoPermissionError)


@pytest.mark.parametrize("name", [name for name in BAD if "number" not in name])
def test_the_bounds_are_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyredisson.net.bounds.new_parser", Parser)
    reader = Reader(protocolError=rx.InvalidResponse, replyError=reply_error)
    with pytest.raises(rx.InvalidResponse):
        all_of(reader, BAD[name], 1 << 20)


def test_what_comes_in_many_pieces_is_looked_at_once() -> None:
    """A large reply costs time in proportion to its size, however it is cut."""
    ours = parser()
    looked: list[int] = []

    class Counted(bytearray):
        def find(self, *args: Any) -> int:
            looked.append(len(self) - args[1])
            return super().find(*args)

    ours._buffer = Counted()
    line = b"+" + b"a" * 100_000
    for at in range(0, len(line), 100):
        ours.feed(line[at : at + 100])
        assert ours.gets() is False
    ours.feed(b"\r\n")
    assert ours.gets() == b"a" * 100_000
    assert sum(looked) < 4 * len(line)
    assert len(line) < MAX_BYTES
