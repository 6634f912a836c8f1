"""Requests as bytes, and replies as what they mean."""

from typing import Any

import hiredis
import pytest
import redis.exceptions as rx
from hypothesis import given
from hypothesis import strategies as st

from pyredisson._core.failures import NotNow, Passing, Rejected, Unanswered
from pyredisson._core.names import LockNames
from pyredisson._net.wire import (
    as_redis_error,
    failure_of,
    inspected,
    is_no_script,
    is_push,
    new_reader,
    pack,
    prepare,
    reply_error,
    script,
)

WORDS = st.one_of(
    st.integers(min_value=-(2**63), max_value=2**63 - 1),
    st.binary(max_size=50),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=50),
)


def read(data: bytes) -> list[Any]:
    """What a server reads."""
    reader = hiredis.Reader()
    reader.feed(data)
    found = []
    while (item := reader.gets()) is not False:
        found.append(item)
    return found


def as_bytes(word: str | int | bytes) -> bytes:
    return word if isinstance(word, bytes) else str(word).encode()


@given(st.lists(WORDS, min_size=1, max_size=20))
def test_whatever_is_packed_is_read_again(words):
    assert read(pack(*words)) == [[as_bytes(word) for word in words]]


@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=5),
    st.lists(st.one_of(st.integers(), st.text(st.characters(exclude_categories=["Cs"]))), max_size=8),
)
def test_a_call_by_digest_and_in_full(keys, args):
    request = prepare("lock_release", tuple(keys), tuple(args))
    known = script("lock_release")
    rest = [as_bytes(word) for word in (len(keys), *keys, *args)]
    assert read(request.data) == [[b"EVALSHA", known.sha.encode(), *rest]]
    assert read(request.in_full()) == [[b"EVAL", known.text, *rest]]


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.lists(WORDS, max_size=8))
def test_a_call_without_the_list_of_waiting_clients(name, args):
    keys, waiting = (name, "epoch", "channel"), LockNames(name).waiting
    without = prepare("lock_release", keys, tuple(args))
    shorter = prepare("lock_release", (*keys, waiting), tuple(args)).without_list()
    assert shorter is not None
    assert shorter.data == without.data
    assert without.without_list() is None
    assert prepare("lock_acquire_waiting", (*keys, waiting), tuple(args)).without_list() is None
    assert prepare("lock_release", (waiting, "epoch", "channel"), (waiting,)).without_list() is None


@pytest.mark.parametrize(
    ("text", "kind", "failure"),
    [
        ("ERR unknown command", rx.ResponseError, Rejected),
        ("WRONGTYPE Operation against a key", rx.ResponseError, Rejected),
        ("OOM command not allowed", rx.OutOfMemoryError, Passing),
        ("NOSCRIPT No matching script", rx.NoScriptError, Rejected),
        ("NOPERM this user has no permissions", rx.NoPermissionError, Rejected),
        ("NOAUTH Authentication required.", rx.AuthenticationError, Passing),
        ("WRONGPASS invalid username-password pair", rx.AuthenticationError, Passing),
        ("EXECABORT Transaction discarded", rx.ResponseError, Rejected),
        ("MISCONF Redis is configured to save", rx.ResponseError, Passing),
        ("MOVED 3999 127.0.0.1:6381", rx.ResponseError, Rejected),
        ("CROSSSLOT Keys in request don't hash", rx.ResponseError, Rejected),
        ("NOREPLICAS Not enough good replicas to write.", rx.ResponseError, Passing),
        ("LOADING Redis is loading the dataset in memory", rx.BusyLoadingError, NotNow),
        ("READONLY You can't write against a read only replica.", rx.ReadOnlyError, NotNow),
        ("BUSY Redis is busy running a script", rx.ResponseError, Passing),
        ("ERR WAIT cannot be used with replica instances. Please also note", rx.ResponseError, Passing),
        ("UNBLOCKED force unblock from blocking operation, instance state changed", rx.ResponseError, Passing),
        ("MASTERDOWN Link with MASTER is down", rx.MasterDownError, NotNow),
        ("CLUSTERDOWN The cluster is down", rx.ClusterDownError, Passing),
        ("TRYAGAIN Multiple keys request during rehashing of slot", rx.TryAgainError, Passing),
        ("ERR max number of clients reached", rx.ResponseError, NotNow),
        ("ERR no upstream host", rx.ResponseError, Passing),
        ("no upstream host", rx.ResponseError, Passing),
        ("ERR Connection refused", rx.ResponseError, Passing),
        ("ERR no server connection avaliable", rx.ResponseError, Passing),
        ("upstream failure", rx.ResponseError, Unanswered),
        ("ERR server connection close", rx.ResponseError, Unanswered),
        ("", rx.ResponseError, Rejected),
        ("BUSYGROUP Consumer Group name already exists", rx.ResponseError, Rejected),
    ],
)
def test_an_error_reply(text, kind, failure):
    error = reply_error(text)
    assert type(error) is kind
    assert str(error) == text, "the code stays readable"
    told = failure_of(error)
    assert type(told) is failure
    assert (type(told.cause), str(told.cause)) == (kind, text)


@pytest.mark.parametrize("text", ["LOADING Redis is loading", "READONLY You can't write", "MASTERDOWN Link with it"])
def test_what_the_wrong_server_refuses_is_requested_again(text):
    assert type(failure_of(reply_error(text))) is NotNow
    with pytest.raises(NotNow):
        inspected(reply_error(text))


def test_a_replica_is_not_the_master_that_sentinels_named():
    replica = b"# Replication\r\nrole:slave\r\n"
    assert inspected(replica) == replica
    with pytest.raises(NotNow, match="they are out of date"):
        inspected(replica, found=True)


def test_errors_that_redis_py_made_itself():
    """It takes the code off the front of those that it knows."""
    for error, text in (
        (rx.BusyLoadingError("Redis is loading"), "LOADING Redis is loading"),
        (rx.ReadOnlyError("You can't write"), "READONLY You can't write"),
    ):
        failure = failure_of(error)
        assert type(failure) is NotNow
        assert str(failure.cause) == text
    assert is_no_script(rx.ResponseError("NOSCRIPT No matching script. Please use EVAL."))


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "refused"), rx.InvalidResponse("refused")], ids=repr)
def test_an_error_of_a_connection_becomes_one_of_redis_pys(error):
    assert as_redis_error(rx.TimeoutError("late")).args == ("late",)
    assert type(as_redis_error(error)) is rx.ConnectionError
    assert "refused" in str(as_redis_error(error))


SCRIPT = "ERR Error running script (call to f_9c2d): @user_script:12: "


@pytest.mark.parametrize(
    ("text", "kind", "said"),
    [
        (f"{SCRIPT}@user_script: 12: -OOM command not allowed", rx.OutOfMemoryError, "OOM command not allowed"),
        (f"{SCRIPT}-READONLY You can't write", rx.ReadOnlyError, "READONLY You can't write"),
        (f"{SCRIPT}WRONGTYPE Operation against a key", rx.ResponseError, "WRONGTYPE Operation against a key"),
        ("@user_script:5: -OOM command not allowed", rx.OutOfMemoryError, "OOM command not allowed"),
        ("ERR ACL failure in script: no permissions", rx.NoPermissionError, None),
        ("ACL failure in script: no permissions", rx.NoPermissionError, None),
        ("ERR The user executing the script can't run this command", rx.NoPermissionError, None),
    ],
)
def test_the_error_of_a_command_in_a_script(text, kind, said):
    error = reply_error(text)
    assert type(error) is kind
    assert str(error) == (said or text)
    assert type(failure_of(rx.ResponseError(text)).cause) is kind, "as redis-py's own reader has it"


def test_our_reader_makes_redis_pys_errors_and_leaves_bytes_alone():
    reader = new_reader()
    reader.feed(b"-NOSCRIPT no\r\n$2\r\n\xff\xfe\r\n:1\r\n_\r\n*2\r\n+OK\r\n-ERR in an array\r\n")
    assert isinstance(reader.gets(), rx.NoScriptError)
    assert [reader.gets() for _ in range(3)] == [b"\xff\xfe", 1, None]
    status, error = reader.gets()
    assert (status, type(error)) == (b"OK", rx.ResponseError)
    assert reader.gets() is False


def test_a_push_is_distinguished_from_a_reply():
    reader = new_reader()
    reader.feed(b">2\r\n+invalidate\r\n_\r\n*1\r\n+message\r\n")
    assert is_push(reader.gets())
    assert not is_push(reader.gets())
    assert not is_push(None)
