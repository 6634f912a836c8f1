"""A thread of the library begins although its start is interrupted or its process forks, and survives an error."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from pyredisson._threads.background import BackgroundThread, LateCalls
from pyredisson._threads.runtime import ThreadLoop
from tests.command_line import output_of
from tests.waiting import until

STARTS = "_start_joinable_thread" if hasattr(threading, "_start_joinable_thread") else "_start_new_thread"


class Interruption(Exception):
    """As a signal handler's."""


@pytest.fixture
def interrupt() -> Iterator[Callable[[], None]]:
    """Sends the main thread a signal, whose handler raises an error, and waits until it does."""
    main = threading.main_thread()
    if threading.current_thread() is not main:
        pytest.skip("the tests do not run in the main thread, which alone can be interrupted")
    interrupted = threading.Event()

    def handle(*_: object) -> None:
        if not interrupted.is_set():
            interrupted.set()
            raise Interruption

    def send() -> None:
        # A signal that comes just before the thread begins to wait is noticed only when something wakes it.
        signal.pthread_kill(main.ident or 0, signal.SIGUSR1)
        while not interrupted.wait(0.05):
            signal.pthread_kill(main.ident or 0, signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handle)
    yield send
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.filterwarnings("error")
def test_a_thread_whose_start_is_interrupted_begins_all_the_same(interrupt, monkeypatch):
    start, forgotten, begun = getattr(threading, STARTS), threading.Event(), threading.Event()

    def interrupted(function, *args, **keywords):
        def begin(*arguments):
            forgotten.wait(5.0)
            function(*arguments)

        started = start(begin, *args, **keywords)
        interrupt()
        return started

    monkeypatch.setattr(threading, STARTS, interrupted)
    with pytest.raises(Interruption):
        BackgroundThread(begun.set, "pyredisson-test").start()
    forgotten.set()
    assert begun.wait(5.0)


def test_what_a_signal_handler_raises_while_a_thread_begins_comes_out(interrupt, monkeypatch):
    """``threading`` would lose it: interrupted at this point it raises "release unlocked lock" instead."""

    class InterruptedEvent(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            condition = threading.Condition(threading.Lock())
            restore: Callable[[object], None] = condition._acquire_restore

            def restore_interrupted(state: object) -> None:
                interrupt()
                restore(state)

            monkeypatch.setattr(condition, "_acquire_restore", restore_interrupted)
            with condition:
                return condition.wait(0.0)

    worked = threading.Event()
    thread = BackgroundThread(worked.set, "pyredisson-test")
    monkeypatch.setattr(thread, "_started", InterruptedEvent())
    with pytest.raises(Interruption):
        thread.start()
    assert worked.wait(10)


@pytest.mark.parametrize("refused", [f"threading.{STARTS}", "_thread.start_new_thread"])
def test_a_caller_learns_that_there_can_be_no_more_threads(refused, monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(refused, refuse)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        BackgroundThread(lambda: None, "pyredisson-test").start()


FORKS = """
import os, signal, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Of a fork while there are threads, which is the subject.
from pyredisson._threads import background
from pyredisson._threads.background import BackgroundThread, LateCalls

background.PATIENCE = 0.05 if sys.argv[2] == "after" else 5.0
main, parent, start = threading.get_ident(), os.getpid(), getattr(threading, sys.argv[1])
forked, begun = threading.Event(), threading.Event()
children = []

def fork(*_):
    child = os.fork()
    if child:
        children.append(child)
        forked.set()

def start_and_fork(*args, **keywords):
    setattr(threading, sys.argv[1], start)
    signal.pthread_kill(main, signal.SIGUSR1)
    if sys.argv[2] == "after":
        while not forked.wait(0.2):
            signal.pthread_kill(main, signal.SIGUSR1)
    return start(*args, **keywords)

signal.signal(signal.SIGUSR1, fork)
setattr(threading, sys.argv[1], start_and_fork)
BackgroundThread(begun.set, "pyredisson-test").start()
if os.getpid() != parent:
    another = threading.Event()
    BackgroundThread(another.set, "pyredisson-test").start()
    os._exit(0 if another.wait(5) else 1)
assert begun.wait(5) and forked.wait(5)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * len(children)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.parametrize("begins", ["before", "after"])
def test_a_signal_handler_that_forks_in_the_middle_of_a_start(begins):
    """The child would wait for a thread that it does not have; ``begins`` tells when it does in the parent."""
    output_of(FORKS, STARTS, begins)


FORK_DURING_A_START = """
import os
from pyredisson._threads import background

class Begun:
    done = False

    def is_set(self):
        return self.done

    def wait(self, seconds):
        print("waited", flush=True)
        self.done = True

    def set(self):
        pass

background._starts.add(Begun())
child = os.fork()
if child == 0:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_waits_for_a_start_that_is_under_way():
    assert output_of(FORK_DURING_A_START) == "waited"


def test_a_loop_goes_on_after_a_step_that_failed(caplog):
    """A watchdog that ends with one error would end all leases of its client."""
    steps = []

    async def step():
        steps.append(len(steps))
        loop.nudge()
        if len(steps) == 1:
            raise ValueError("a surprise")
        loop.close()
        return 0.0

    runtime = SimpleNamespace(link=SimpleNamespace(reserve=lambda: None), unix_time=time.time)
    loop = ThreadLoop(step, "watchdog", runtime)
    loop.nudge()
    until(lambda: loop.worker is not None and not loop.worker.is_alive())
    assert steps == [0, 1]
    assert "the pyredisson-watchdog failed and continues" in caplog.text


def test_a_late_call_that_fails_keeps_no_other_from_being_made(caplog):
    """They are of all clients: each would lose its locks without a word."""
    made, calls = [], LateCalls()

    def fail():
        raise ValueError("a surprise")

    for at, call in ((0.0, fail), (0.1, lambda: made.append(1))):
        calls.add(at, call)
    until(lambda: made == [1])
    assert "failed in the background" in caplog.text
    calls.add(0.0, lambda: made.append(2))
    until(lambda: made == [1, 2])
