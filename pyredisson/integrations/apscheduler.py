"""Ticks of APScheduler that run once, although a scheduler runs on each of several hosts."""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pyredisson._core.deadline import explicit, seconds
from pyredisson.asyncio import Redisson as AsyncRedisson
from pyredisson.errors import LockError

if TYPE_CHECKING:
    from pyredisson._core.deadline import Seconds

__all__ = ["OncePerTick", "once_per_tick"]

_log = logging.getLogger("pyredisson.apscheduler")

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

    A tick is claimed where its job runs, so that a server that does not answer delays no other job: in the executor's
    thread, and before a task in a scheduler of asyncio, whose event loop goes on. If that fails, the tick does not run
    here, and the log says so.

    Args:
        client: A client for threads; for a scheduler of asyncio, also one of ``pyredisson.asyncio``.
        at_least: Seconds for which a tick counts as run. More than the hosts' clocks differ, and more than a tick
            may be late on one of them.
        options: Those of the executor.

    Raises:
        TypeError, ValueError: ``at_least`` is not a positive number of seconds.
    """

    def __init__(self, *args: Any, client: Any, at_least: Seconds = 300, **options: Any) -> None:
        super().__init__(*args, **options)
        self._client = client
        self._at_least = explicit(seconds(at_least, "at_least"))
        self._claiming: set[asyncio.Task[None]] = set()
        self._run_once("tick")  # An error in `_do_submit_job` would be logged only, at each tick.

    def shutdown(self, wait: bool = True) -> None:
        """Run nothing any more. Called by the scheduler."""
        for task in self._claiming:
            task.cancel()
        super().shutdown(wait)  # type: ignore[misc]  # That of the executor.

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:
        """Submit the job for those of its times that no other host has claimed."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            super()._do_submit_job(job, _Claimed(self._claim, job.id, run_times))  # type: ignore[misc]
            return
        task = loop.create_task(self._submit_claimed(job, run_times))
        self._claiming.add(task)
        task.add_done_callback(self._claiming.discard)

    async def _submit_claimed(self, job: Any, run_times: list[datetime]) -> None:
        claim: Any = self._claim_in_loop
        if not isinstance(self._client, AsyncRedisson):
            claim = functools.partial(asyncio.to_thread, cast(Any, self._claim))
        executor: Any = super()
        try:
            claimed = [each for each in run_times if await claim(job.id, each)]
            if claimed:
                executor._do_submit_job(job, claimed)
            else:
                executor._run_job_success(job.id, [])  # It counts as an instance of the job until then.
        except BaseException as error:
            executor._run_job_error(job.id, error, error.__traceback__)
            if not isinstance(error, Exception):
                raise

    def _claim(self, job_id: str, time: datetime) -> bool:
        run = None
        try:
            with self._run_once(_name_of(job_id, time)) as run:
                pass
        except Exception as error:
            self._report(job_id, time, run, error)
        return run is not None

    async def _claim_in_loop(self, job_id: str, time: datetime) -> bool:
        run = None
        try:
            async with self._run_once(_name_of(job_id, time)) as run:
                pass
        except Exception as error:
            self._report(job_id, time, run, error)
        return run is not None

    def _report(self, job_id: str, time: datetime, run: object, error: Exception) -> None:
        what = "does not run here" if run is None else "runs, and its claim may not last"
        _log.warning("pyredisson: the tick of job %s at %s %s: %s", job_id, time, what, error)

    def _run_once(self, name: str) -> Any:
        return self._client.run_once(name, at_most=self._at_least, at_least=self._at_least)


class _Claimed:
    """The times of a job that no other host has claimed. Each is claimed when the executor comes to it.

    An executor of processes pickles them, in a thread of its own: they are claimed then.
    """

    def __init__(self, claim: Callable[[str, datetime], bool], job_id: str, run_times: list[datetime]) -> None:
        self._claim, self._job_id, self._run_times = claim, job_id, run_times

    def __iter__(self) -> Iterator[datetime]:
        return (each for each in self._run_times if self._claim(self._job_id, each))

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


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
