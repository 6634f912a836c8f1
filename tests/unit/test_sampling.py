"""How often what costs a server time is repeated, and where it runs."""

import threading
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from pyredisson._tools.sampling import Pace, in_daemon_thread


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """A function that sets the time."""
    now = [100.0]
    monkeypatch.setattr("pyredisson._tools.sampling.time", SimpleNamespace(monotonic=lambda: now[0]))
    return lambda at: now.__setitem__(0, at)


def test_work_rests_for_several_times_as_long_as_it_took(clock):
    work = Pace(20, least=5)
    assert work.is_due
    work.worked(1.0)
    clock(119.9)
    assert not work.is_due
    clock(120.1)
    assert work.is_due
    work.worked(0.001)
    clock(125.0)
    assert not work.is_due
    clock(125.2)
    assert work.is_due


def test_work_may_be_repeated_a_few_times_in_a_row(clock):
    work = Pace(20, ahead=2.0)
    done = 0
    while work.is_due:
        work.worked(0.03)
        done += 1
    assert done == 4
    clock(100.5)
    assert work.is_due


def test_a_thread_that_is_not_waited_for_returns_its_result_or_its_error():
    assert in_daemon_thread(threading.current_thread, "reader").result(10).daemon
    failed = in_daemon_thread(lambda: 1 / 0, "reader")
    with pytest.raises(ZeroDivisionError):
        failed.result(10)
    ended = threading.Event()
    endless = in_daemon_thread(ended.wait, "reader")
    assert not endless.cancel(), "its result is set in any case"
    ended.set()
    assert endless.result(10)
