"""Threads of a parent that run on as greenlets in the child of a fork, where ``threading`` has forgotten them."""

from __future__ import annotations

import threading

import pytest

from pyredisson.threads.inherited import BackgroundThread, end_inherited_thread


@pytest.mark.parametrize("forgotten", [True, False], ids=["begun in the parent", "begun in this process"])
def test_a_thread_ends_quietly(forgotten: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[object] = []
    monkeypatch.setattr("sys.unraisablehook", reported.append)
    monkeypatch.setattr("threading.excepthook", reported.append)
    worked: list[str] = []

    def work() -> None:
        worked.append(threading.current_thread().name)
        if forgotten:
            del threading._active[threading.get_ident()]  # type: ignore[attr-defined]
        end_inherited_thread()

    thread = BackgroundThread(work, "pyredisson-test")
    assert thread.daemon
    thread.start()
    thread.join(10)
    assert worked == ["pyredisson-test"]
    assert reported == []
    assert threading.get_ident() in threading._active  # type: ignore[attr-defined]
    assert thread.ident not in threading._active  # type: ignore[attr-defined]
