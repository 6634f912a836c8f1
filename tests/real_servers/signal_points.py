"""Every point of a call at which CPython looks for signals, and a signal handler at any one of them.

CPython runs signal handlers between two instructions, and only at some: when a Python function begins, when a loop goes
round, and when a call of something written in C is over (3.11 to 3.13). What the handler raises is raised there. Here a
trace function calls the handler, so that each point comes in its turn.
"""

from __future__ import annotations

import dis
import gc
import inspect
import sys
from collections.abc import Callable, Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

LOOPS = frozenset({"JUMP_BACKWARD"})
CALLS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX"})

other_points = pytest.mark.skipif(sys.version_info < (3, 11), reason="CPython 3.10 looks at other points")


class Points:
    """Runs a call, and counts the points that it passes.

    Args:
        handler: What to call at one of them. What it raises is raised there.
        at: At which point, counted from 1; 0 is none.

    Attributes:
        count: How many there were.
        where: The function in which the handler was called.
        first: Whether that was at its very beginning.
        stack: The functions that had called each other there.
    """

    def __init__(self, handler: Callable[[], object], at: int = 0) -> None:
        self.count = 0
        self.where = ""
        self.first = False
        self.stack: set[str] = set()
        self._handler = handler
        self._at = at
        self._line: int | None = 0
        self._after_call: dict[FrameType, bool] = {}  # Whether the call under way is one of something written in C.

    def __str__(self) -> str:
        return f"point {self._at} of {self.count}: {self.where}, line {self._line}"

    def run(self, call: Callable[[], object]) -> BaseException | None:
        """Make the call. Returns what it raised."""
        collecting = gc.isenabled()
        gc.disable()  # Finalizers come at any moment, and what is raised in one is nobody's.
        try:
            sys.settrace(self._begin)
            try:
                call()
            finally:
                sys.settrace(None)
        except BaseException as error:
            return error
        finally:
            self._after_call.clear()  # Else the frames live, and what they refer to, for as long as this does.
            if collecting:
                gc.enable()
        return None

    def _begin(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        caller = frame.f_back
        if caller in self._after_call and not code.co_flags & inspect.CO_COROUTINE and code.co_name != "__init__":
            self._after_call[caller] = False  # Python calls Python: it looks when that begins, not when it is over.
        if "/tests/" in code.co_filename or code.co_name == "__del__" or _is_weak_callback(code):
            return None  # What is raised in a finalizer is nobody's, whenever that comes.
        frame.f_trace_lines = False
        frame.f_trace_opcodes = True
        if _instruction(code, frame.f_lasti) in (("RESUME", 0), ("RESUME", 1)):
            self._pass(frame)
        return self._step

    def _step(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event in ("return", "exception"):  # A call that raises is followed by no look.
            self._after_call.pop(frame, None)
        if event != "opcode":
            return self._step
        passed = self._after_call.pop(frame, False)
        operation, _ = _instruction(frame.f_code, frame.f_lasti)
        if operation in CALLS:
            self._after_call[frame] = True
        if passed or operation in LOOPS:
            self._pass(frame)
        return self._step

    def _pass(self, frame: FrameType) -> None:
        self.count += 1
        if self.count == self._at:
            self.where = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
            self.first = _instruction(frame.f_code, frame.f_lasti)[0] == "RESUME"
            self._line = frame.f_lineno
            self.stack = {each.f_code.co_name for each in _callers(frame)}
            self._handler()


def _is_weak_callback(code: CodeType) -> bool:
    return code.co_name in ("remove", "_remove") and code.co_filename.endswith(("weakref.py", "_weakrefset.py"))


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _instruction(code: CodeType, offset: int) -> tuple[str, int]:
    raw = code.co_code
    return dis.opname[raw[offset]], raw[offset + 1]
