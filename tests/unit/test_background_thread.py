"""A thread of the library begins although its start was interrupted."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from pyredisson.threads.inherited import BackgroundThread

STARTS = "_start_joinable_thread" if hasattr(threading, "_start_joinable_thread") else "_start_new_thread"


class Interruption(Exception):
    """As a signal handler's."""


@pytest.mark.filterwarnings("error")
def test_a_thread_whose_start_is_interrupted_begins_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    start, forgotten, begun = getattr(threading, STARTS), threading.Event(), threading.Event()

    def interrupted(function: Any, *args: Any, **keywords: Any) -> None:
        def begin(*arguments: Any) -> None:
            forgotten.wait(5.0)
            function(*arguments)

        start(begin, *args, **keywords)
        raise Interruption

    monkeypatch.setattr(threading, STARTS, interrupted)
    with pytest.raises(Interruption):
        BackgroundThread(begun.set, "pyredisson-test").start()
    forgotten.set()
    assert begun.wait(5.0)
