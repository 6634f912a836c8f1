"""What a thread or task executes at this moment, for warnings."""

from __future__ import annotations

import asyncio
import itertools
import sys
import traceback
from collections.abc import Iterable
from types import FrameType
from typing import Any

#: The most calls of a thread that are reported, the innermost ones.
CALLS = 50


def stack_of_thread(ident: int) -> tuple[str, ...]:
    """Return what the thread of this identifier executes, in lines; nothing for one that is gone, and for greenlets."""
    frame = sys._current_frames().get(ident)
    frames = [] if frame is None else [each for each, _ in itertools.islice(traceback.walk_stack(frame), CALLS)]
    return _lines(reversed(frames))


def stack_of_task(task: asyncio.Task[Any]) -> tuple[str, ...]:
    """Return where a task awaits something, in lines, from its own coroutine to the innermost that can be found."""
    frames: list[FrameType] = []
    awaited: Any = task.get_coro()
    while awaited is not None and len(frames) < CALLS:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is None:
            break
        frames.append(frame)
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
    return _lines(frames)


def _lines(frames: Iterable[FrameType]) -> tuple[str, ...]:
    summary = traceback.StackSummary.extract((frame, frame.f_lineno) for frame in frames)
    return tuple(line.rstrip("\n") for line in summary.format())
