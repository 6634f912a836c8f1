"""Which job of a ``concurrent.futures.ThreadPoolExecutor`` the calling thread runs.

A pool runs its jobs in one thread and, unless they bring one (``asyncio.to_thread``, ``sync_to_async``), in one
context: what a job leaves held, the next one re-enters. Nothing but the frame of the pool tells them apart, so this is
good for a warning, and for nothing that has to be right.
"""

from __future__ import annotations

import concurrent.futures.thread
import sys
from contextvars import Context
from functools import partial
from types import FrameType
from typing import Any

_WORKER = getattr(concurrent.futures.thread, "_worker", None)


def worker_frame() -> FrameType | None:
    """Return the frame in which a pool gives the calling thread its jobs; ``None``: it is of no pool."""
    code = getattr(_WORKER, "__code__", None)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame


def job_of(frame: FrameType) -> object | None:
    """Return the job that runs there; ``None`` if that is not known, or the job runs in a context of its own."""
    local = frame.f_locals
    job = local.get("work_item")
    if sys.version_info < (3, 13):
        # A snapshot, which the frame keeps: it would keep the job after its end, and the context that tells it is over.
        local.pop("work_item", None)
    if job is None or _brings_context(getattr(job, "fn", None)):
        return None
    return None if any(map(_brings_context, getattr(job, "args", ()))) else job


def _brings_context(call: Any) -> bool:
    if isinstance(call, partial):
        return any(map(_brings_context, (call.func, *call.args)))
    return isinstance(call, Context) or isinstance(getattr(call, "__self__", None), Context)
