"""Threads of a parent that run on as greenlets in the child of a fork, where ``threading`` has forgotten them."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable

import pytest

from pyredisson.threads.inherited import BackgroundThread, end_inherited_thread


@pytest.mark.parametrize("forgotten", [True, False], ids=["about to begin", "begun in the same process"])
def test_a_thread_begins_and_ends_quietly(forgotten: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", reported.append)
    monkeypatch.setattr("threading.excepthook", reported.append)
    ended = threading.Event()
    worked: list[str] = []

    def work() -> None:
        worked.append(threading.current_thread().name)
        end_inherited_thread(threading.current_thread())

    thread = BackgroundThread(work, "pyredisson-test")
    assert thread.daemon
    if not forgotten:
        thread.start()
        thread.join(10)
    else:

        def begin() -> None:
            try:
                thread._bootstrap()  # type: ignore[attr-defined]
            except BaseException as error:
                reported.append(error)
            ended.set()

        _thread.start_new_thread(begin, ())
        assert ended.wait(10)
    assert worked == ["pyredisson-test"]
    assert reported == []
    assert thread not in threading.enumerate()


def test_what_a_signal_handler_raises_while_a_thread_begins_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """``threading`` lost it: interrupted at this point it raises "release unlocked lock" instead."""
    interruption = KeyboardInterrupt()

    class InterruptedEvent(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            condition = threading.Condition(threading.Lock())
            monkeypatch.setattr(condition, "_acquire_restore", _raise(interruption))
            with condition:
                return condition.wait(0.0)

    worked = threading.Event()
    thread = BackgroundThread(worked.set, "pyredisson-test")
    monkeypatch.setattr(thread, "_started", InterruptedEvent())
    with pytest.raises(KeyboardInterrupt) as raised:
        thread.start()
    assert raised.value is interruption
    assert worked.wait(10)


def _raise(error: BaseException) -> Callable[[object], None]:
    def do(_: object) -> None:
        raise error

    return do
