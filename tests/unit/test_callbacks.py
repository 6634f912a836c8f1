"""The callbacks of a client: one worker thread, which is there when there is something to call."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from pyredisson.shared import callbacks as module
from pyredisson.shared.callbacks import Callbacks
from tests.waiting import until

NAME = "pyredisson-callback"


def workers() -> int:
    return sum(thread.name == NAME for thread in threading.enumerate())


@pytest.fixture
def callbacks() -> Iterator[Callbacks]:
    made = Callbacks()
    yield made
    made.close()
    until(lambda: workers() == 0, what="the workers have ended")


def test_thousands_are_called_by_one_thread(callbacks: Callbacks) -> None:
    called: list[int] = []
    by: set[int] = set()
    most = 0

    def call(number: int) -> None:
        by.add(threading.get_ident())
        called.append(number)

    for number in range(3000):
        callbacks.add(call, number)
        most = max(most, workers())
    until(lambda: len(called) == 3000)
    assert called == list(range(3000))
    assert len(by) == most == 1


def test_there_is_no_thread_without_need(callbacks: Callbacks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE", 0.01)
    assert workers() == 0
    for _ in range(3):
        called = threading.Event()
        callbacks.add(called.set)
        assert called.wait(10)
        until(lambda: workers() == 0)


def test_a_callback_that_blocks_delays_no_caller(callbacks: Callbacks) -> None:
    go_on, called = threading.Event(), threading.Event()
    callbacks.add(go_on.wait, 30)
    callbacks.add(called.set)
    until(lambda: callbacks.look() or called.is_set(), what="the other one is called")
    until(lambda: callbacks.look() and called.is_set(), what="the other one is called")
    assert workers() == 2
    go_on.set()
    until(lambda: workers() == 1, what="the thread that was blocked ends")


def test_callbacks_that_block_begin_a_second_apart(callbacks: Callbacks, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    go_on, begun = threading.Event(), []

    def block(number: int) -> None:
        begun.append(number)
        go_on.wait(30)

    for number in range(4):
        callbacks.add(block, number)
    for number in range(1, 4):
        until(lambda number=number: len(begun) == number)  # type: ignore[misc]
        now += 0.99
        assert callbacks.look() < 0.02
        assert len(begun) == workers() == number
        now += 0.02
        callbacks.look()
    until(lambda: begun == [0, 1, 2, 3])
    go_on.set()


def test_threads_are_bounded_though_all_block(callbacks: Callbacks, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STUCK", 0.0)
    go_on, called = threading.Event(), []

    def block() -> None:
        called.append(True)
        go_on.wait(30)

    for _ in range(50):
        callbacks.add(block)
    until(lambda: callbacks.look() == 0.0 and len(called) >= module.MOST)
    for _ in range(20):
        callbacks.look()
    assert workers() == module.MOST
    go_on.set()
    until(lambda: len(called) == 50)


def test_without_a_thread_it_is_logged_and_called_later(
    callbacks: Callbacks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    called: list[int] = []

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as without, caplog.at_level(logging.ERROR, logger="pyredisson"):
        without.setattr(threading.Thread, "start", refuse)
        for number in range(10):
            callbacks.add(called.append, number)
        assert callbacks.look() < 10
    assert [record.getMessage() for record in caplog.records if "no thread" in record.getMessage()]
    assert len(caplog.records) == 1
    assert called == []
    callbacks.look()
    until(lambda: called == list(range(10)))


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_one_that_raises_hurts_no_other(
    callbacks: Callbacks, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    called = threading.Event()

    def fail() -> None:
        raise error

    with caplog.at_level(logging.ERROR, logger="pyredisson"):
        callbacks.add(fail)
        callbacks.add(called.set)
        assert called.wait(10)
    assert ("ZeroDivisionError" in caplog.text) is (error is ZeroDivisionError)


def test_what_is_waiting_when_the_client_ends_is_called() -> None:
    callbacks = Callbacks()
    go_on, called = threading.Event(), threading.Event()
    callbacks.add(go_on.wait, 30)
    callbacks.add(called.set)
    callbacks.close()
    go_on.set()
    assert called.wait(10)
    until(lambda: workers() == 0)
