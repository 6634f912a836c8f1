"""Ticks of APScheduler that run once, although a scheduler runs on each of several hosts."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar

from pyredisson.errors import LockError

if TYPE_CHECKING:
    from pyredisson.core.deadline import Seconds

__all__ = ["OncePerTick", "once_per_tick"]

F = TypeVar("F", bound=Callable[..., Any])


def _name_of(prefix: str, time: datetime) -> str:
    """Name a tick alike on all hosts, whatever their time zones."""
    return f"{prefix}:{time.astimezone(timezone.utc).isoformat()}"


class OncePerTick:
    """For APScheduler 3: an executor that runs the ticks of its jobs that no other host runs.

    Combine it with the executor to use. The jobs need an ``id``, the same on all hosts.

    Example::

        class Executor(OncePerTick, ThreadPoolExecutor):
            pass

        BackgroundScheduler(executors={"default": Executor(client=client)})

    Args:
        client: A client for threads.
        at_least: Seconds for which a tick counts as run. More than the hosts' clocks differ, and more than a tick
            may be late on one of them.
        options: Those of the executor.

    Raises:
        TypeError, ValueError: ``at_least`` is not a positive number of seconds.
    """

    def __init__(self, *args: Any, client: Any, at_least: Seconds = 300, **options: Any) -> None:
        super().__init__(*args, **options)
        self._client = client
        self._at_least = at_least
        self._run_once("tick")  # An error in `submit_job` would be logged only, at each tick.

    def submit_job(self, job: Any, run_times: list[datetime]) -> None:
        """Submit the job for those of its times that no other host has claimed."""
        claimed = [each for each in run_times if self._claim(_name_of(job.id, each))]
        if claimed:
            super().submit_job(job, claimed)  # type: ignore[misc]  # That of the executor.

    def _claim(self, name: str) -> bool:
        with self._run_once(name) as run:
            return run is not None

    def _run_once(self, name: str) -> Any:
        return self._client.run_once(name, at_most=self._at_least, at_least=self._at_least)


def once_per_tick(client: Any, *, at_most: Seconds = 3600, at_least: Seconds = 300) -> Callable[[F], F]:
    """For APScheduler 4: decorate a job, so that each of its ticks runs on one host. Elsewhere it returns ``None``.

    The schedule needs an ``id``, the same on all hosts, and ticks in different seconds.

    Example::

        @once_per_tick(client)
        def report(): ...

    Args:
        client: A client for threads; for a coroutine function, one of ``pyredisson.asyncio``.
        at_most: Seconds until a tick is free if its host crashes.
        at_least: Seconds from its beginning for which a tick counts as run.

    Raises:
        TypeError, ValueError: A time is not valid, or ``at_least`` is more than ``at_most``.
        LockError: On a call: it is not a job of a schedule, so it has no scheduled time.
    """
    client.run_once("tick", at_most=at_most, at_least=at_least)  # Checks the times.
    current_job = importlib.import_module("apscheduler").current_job

    def run_once(function: Callable[..., Any]) -> Any:
        job = current_job.get(None)
        if job is None or job.scheduled_fire_time is None:
            raise LockError(f"{function.__qualname__}() was not called by a schedule, so it has no scheduled time")
        # Its cron triggers keep the fraction of a second at which they were made, which differs between hosts.
        name = _name_of(str(job.schedule_id), job.scheduled_fire_time.replace(microsecond=0))
        return client.run_once(name, at_most=at_most, at_least=at_least)

    def decorate(function: Any) -> Any:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with run_once(function) as run:
                return None if run is None else function(*args, **kwargs)

        @functools.wraps(function)
        async def task(*args: Any, **kwargs: Any) -> Any:
            async with run_once(function) as run:
                return None if run is None else await function(*args, **kwargs)

        return task if inspect.iscoroutinefunction(function) else call

    return decorate
