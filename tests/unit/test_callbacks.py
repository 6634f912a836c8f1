"""The callbacks of a client: on threads that are there when there is something to call."""

import logging
import threading

import pytest

from pyredisson._shared.runtime import MOST, Callbacks
from tests.waiting import until

NAME = "pyredisson-callback"


def workers() -> int:
    return sum(thread.name == NAME for thread in threading.enumerate())


@pytest.fixture
def callbacks() -> Callbacks:
    return Callbacks()


def test_callbacks_that_block_delay_no_other_up_to_a_bound(callbacks):
    go_on, begun, called = threading.Event(), [], threading.Event()

    def block():
        begun.append(True)
        go_on.wait(30)

    for _ in range(MOST - 1):
        callbacks.add(block)
    callbacks.add(called.set)
    assert called.wait(10)
    for _ in range(50):
        callbacks.add(block)
    until(lambda: len(begun) == MOST)
    assert workers() == MOST
    go_on.set()
    until(lambda: len(begun) == MOST + 49)
    until(lambda: workers() == 0)


def test_without_a_thread_it_is_logged_and_called_with_the_next(callbacks, monkeypatch, caplog):
    called = []

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as without, caplog.at_level(logging.ERROR, logger="pyredisson"):
        without.setattr(threading.Thread, "start", refuse)
        for number in range(10):
            callbacks.add(called.append, number)
    assert caplog.text.count("no thread is available") == 10
    assert called == []
    callbacks.add(called.append, 10)
    until(lambda: called == list(range(11)))


@pytest.mark.parametrize("error", [ZeroDivisionError, SystemExit])
def test_one_that_raises_hurts_no_other(callbacks, error, caplog):
    called = threading.Event()

    def fail():
        raise error

    with caplog.at_level(logging.ERROR, logger="pyredisson"):
        callbacks.add(fail)
        callbacks.add(called.set)
        assert called.wait(10)
        until(lambda: workers() == 0)
    assert error.__name__ in caplog.text
