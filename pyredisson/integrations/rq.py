"""Jobs of RQ that run once at a time."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, Literal, ParamSpec, TypeVar

from pyredisson._core.deadline import Seconds, delay_seconds
from pyredisson._shared.arguments import Extra, check_times
from pyredisson._shared.synchronized import Key
from pyredisson._threads.client import Redisson

with Extra("rq"):
    from rq import Retry, get_current_job

__all__ = ["singleton"]

P = ParamSpec("P")
R = TypeVar("R")

#: A job that waits is not one that fails: it may be tried as often as it takes.
_WITHOUT_END = 2**31


def singleton(
    client: Redisson,
    key: str,
    *,
    when_busy: Literal["skip", "wait"] = "skip",
    retry_in: Seconds = 1.0,
    lease_time: Seconds | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R | None]]:
    """Decorate the function of a job that runs once at a time, or once at a time for each key.

    Example::

        @singleton(client, "invoice:{order_id}", when_busy="wait")
        def send_invoice(order_id): ...

    Args:
        client: The client, made when the module is imported.
        key: The lock's name, with fields of the function's parameters as in ``str.format``.
        when_busy: ``"skip"``: the job returns ``None``. ``"wait"``: it is scheduled again, and its worker does other
            jobs meanwhile. That needs a worker with a scheduler, ``rq worker --with-scheduler``.
        retry_in: Seconds after which a job that waits is tried again; RQ knows whole seconds.
        lease_time: As of :meth:`Lock.hold`. ``None``: the lock is renewed while the job runs.

    Raises:
        TypeError, ValueError: On decorating: a name, a time or ``when_busy`` is not valid, or the function is a
            coroutine function.
    """
    if when_busy not in ("skip", "wait"):
        raise ValueError(f"when_busy must be 'skip' or 'wait', not {when_busy!r}")
    check_times(0, lease_time, client)
    interval = math.ceil(delay_seconds(retry_in, "retry_in"))

    def decorate(function: Callable[P, R]) -> Callable[P, R | None]:
        name_of = Key(key, function)
        if inspect.iscoroutinefunction(function):
            raise TypeError(
                f"{function.__qualname__}() is a coroutine function: RQ runs its body after the call, when the lock is "
                "free again; make it `def`, and use asyncio.run() in it"
            )

        @functools.wraps(function)
        def job(*args: P.args, **kwargs: P.kwargs) -> Any:
            with client.get_lock(name_of.of(args, kwargs)).hold(0, lease_time, skip=True) as lease:
                if lease is not None:
                    return function(*args, **kwargs)
            return _wait(interval) if when_busy == "wait" else None

        return job

    return decorate


def _wait(interval: int) -> Retry:
    """Return the result by which RQ schedules the job again. It counts as none of the retries that the job returns."""
    job: Any = get_current_job()
    if job is not None:
        job.number_of_retries = (job.number_of_retries or 0) - 1  # RQ adds 1.
    return Retry(_WITHOUT_END, interval=interval)
