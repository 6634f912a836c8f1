"""Threads of a parent that run on as greenlets in the child of a fork, where ``threading`` has forgotten them."""

from __future__ import annotations

import _thread
import threading

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
