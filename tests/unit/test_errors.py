"""The error tree: its bases, what an error carries, also to another process, and the reason that listeners receive."""

import pickle
import re
from pathlib import Path

import pytest
import redis.exceptions as rx

import pyredisson
import pyredisson.asyncio
from pyredisson import errors
from pyredisson._core.failures import REASONS, reason_of
from pyredisson.errors import (
    ClientClosedError,
    LockError,
    LockLostError,
    LockNotOwnedError,
    LockTimeoutError,
    NoSyncedSlavesError,
    OutcomeUnknownError,
    QuorumUnreachableError,
    RedissonError,
    StaleTokenError,
)

BASES: dict[type[RedissonError], tuple[type[BaseException], ...]] = {
    RedissonError: (Exception,),
    ClientClosedError: (RedissonError,),
    LockError: (RedissonError, RuntimeError),
    LockNotOwnedError: (LockError,),
    LockLostError: (LockNotOwnedError,),
    LockTimeoutError: (LockError, TimeoutError),
    OutcomeUnknownError: (LockError,),
    StaleTokenError: (LockError,),
    NoSyncedSlavesError: (LockError,),
    QuorumUnreachableError: (LockError, ConnectionError),
}


def test_the_tree():
    assert {kind: kind.__bases__ for kind in BASES} == BASES


def test_every_error_is_exported_and_drawn():
    assert set(errors.__all__) == {kind.__name__ for kind in BASES}
    assert set(errors.__all__) <= set(pyredisson.__all__)
    assert errors.__doc__ is not None
    for kind in BASES:
        assert kind.__name__ in errors.__doc__
        assert kind.__doc__


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", BASES)
def test_an_error_survives_pickling(kind, protocol):
    error = kind("it went wrong", name="orders")
    error.more = [1, 2]
    if isinstance(error, QuorumUnreachableError):
        error.nodes = {"a:1": "refused", "b:2": ValueError("b")}
    again = pickle.loads(pickle.dumps(error, protocol))
    assert type(again) is kind
    assert (str(again), again.args, again.name, again.more) == (str(error), error.args, "orders", [1, 2])
    if isinstance(again, QuorumUnreachableError):
        assert again.nodes["a:1"] == "refused"
        assert repr(again.nodes["b:2"]) == repr(ValueError("b"))


def test_what_the_nodes_said():
    said = {"a:1": "refused"}
    error = QuorumUnreachableError("1 of 3", name="orders", nodes=said)
    said.clear()
    assert error.nodes == {"a:1": "refused"}
    assert QuorumUnreachableError("?").nodes == {}


def test_an_os_error_among_the_bases_sets_no_errno_from_the_message():
    for kind in (LockTimeoutError, QuorumUnreachableError):
        error = kind("not got")
        assert isinstance(error, OSError)
        assert error.errno is None
        assert str(error) == "not got"


def test_the_error_of_a_plain_with_on_an_asyncio_lock_is_on_the_page():
    page = (Path(__file__).parents[2] / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    lock = pyredisson.asyncio.Redisson.from_url("redis://localhost").get_lock("orders")
    with pytest.raises((AttributeError, TypeError)) as raised, lock:
        pass
    message = re.sub(r"'[\w.]+' object", "'…' object", f"{raised.typename}: {raised.value}")
    assert any(message.startswith(each) for each in re.findall(r"`((?:Attribute|Type)Error: [^`]+)`", page))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (rx.ConnectionError(), "connection"),
        (rx.TimeoutError(), "connection"),
        (rx.BusyLoadingError(), "connection"),
        (ConnectionRefusedError(), "connection"),
        (rx.NoPermissionError(), "refused"),
        (rx.ReadOnlyError(), "refused"),
        (pyredisson.QuorumUnreachableError(), "quorum"),
        (pyredisson.OutcomeUnknownError(), "unknown"),
        (pyredisson.NoSyncedSlavesError(), "replicas"),
        (pyredisson.LockError(), "error"),
        (pyredisson.ClientClosedError(), "error"),
    ],
    ids=lambda each: type(each).__name__ if isinstance(each, Exception) else each,
)
def test_why_an_acquire_failed(error, reason):
    assert reason_of(error) == reason
    assert reason in REASONS
