"""Tasks of Celery that run once at a time, and several beats of which one sends."""

from __future__ import annotations

import logging
import random
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from pyredisson._core.deadline import Seconds, delay_seconds, explicit
from pyredisson._shared.arguments import Extra, check_times
from pyredisson._shared.synchronized import Key
from pyredisson._threads.client import Redisson

with Extra("celery"):
    from celery import Task
    from celery.beat import Scheduler
    from celery.exceptions import Retry
    from celery.schedules import schedstate

if TYPE_CHECKING:
    from pyredisson._threads.run_once import RunOnce

__all__ = ["LeaderBeat", "SingletonTask"]

_log = logging.getLogger("pyredisson.celery")

#: The header of a message with the number of its call: a greater one replaces it.
_NUMBER = "pyredisson-call"
#: The header of a message that was sent again, and so is never skipped.
_WAITS = "pyredisson-waits"
#: The attribute of a request whose task runs, under its lock.
_RUNS = "runs_under_its_lock"
#: Seconds for which a publisher waits for another one, and after which one that died is no longer waited for.
_NUMBERING_WAIT, _NUMBERING_LEASE = 10, 5


class SingletonTask(Task):  # type: ignore[misc]  # Celery has no types.
    """The base of a task that runs once at a time, or once at a time for each key.

    Example::

        @app.task(base=SingletonTask, client=client, key="invoice:{order_id}", when_busy="wait")
        def send_invoice(order_id): ...

    A call that finds the lock held returns at once, whatever ``when_busy`` says: it never waits in a worker. One that
    is called directly or eagerly, not by a worker, waits in its caller, unless it skips.

    Attributes:
        client: The client, made when the module is imported.
        key: The lock's name, with fields of the task's parameters as in ``str.format``. ``None``: the task's name.
        when_busy: ``"skip"``: return :meth:`skipped`. ``"wait"``: send the message again for later.
            ``"replace"``: the same, but of the calls that wait for a key only the one that was sent last runs.
        retry_in: Seconds after which a message that waits is tried again; up to half as many are added at random.
        lease_time: As of :meth:`Lock.hold`. ``None``: the lock is renewed while the task runs.

    Raises:
        TypeError: When the application is finalized: there is no client.
        TypeError, ValueError: Then: ``key`` names no parameter of the task, ``when_busy`` is none of these, or a time
            is not valid.
    """

    abstract = True
    client: ClassVar[Redisson | None] = None
    key: ClassVar[str | None] = None
    when_busy: ClassVar[Literal["skip", "wait", "replace"]] = "skip"
    retry_in: ClassVar[Seconds] = 1.0
    lease_time: ClassVar[Seconds | None] = None

    def __init__(self) -> None:
        super().__init__()
        if self.client is None:
            raise TypeError(f"task {self.name} needs a client: @app.task(base=SingletonTask, client=client)")
        if self.when_busy not in get_args(Literal["skip", "wait", "replace"]):
            raise ValueError(f"when_busy must be 'skip', 'wait' or 'replace', not {self.when_busy!r}")
        check_times(0, self.lease_time, self.client)
        delay_seconds(self.retry_in, "retry_in")
        self._client: Redisson = self.client
        self._key = Key(str(self.name) if self.key is None else self.key, self.run)

    def skipped(self, name: str) -> object:
        """Return the result of a call that does not run; ``None``, unless a subclass says otherwise.

        Args:
            name: The name of the lock.
        """
        return None

    def apply_async(self, args: Any = None, kwargs: Any = None, *rest: Any, **options: Any) -> Any:
        """Send the task, with its number if a later call replaces it."""
        headers = options.get("headers") or {}
        if self.when_busy == "replace" and _NUMBER not in headers:  # One that waits keeps its number.
            name = self._key.of(tuple(args or ()), kwargs or {})
            calls = self._client.get_fenced_lock(f"{name}:calls")
            with calls.hold(_NUMBERING_WAIT, _NUMBERING_LEASE) as lease:
                options["headers"] = {**headers, _NUMBER: lease.token}
        return super().apply_async(args, kwargs, *rest, **options)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the task under its lock."""
        name, request = self._key.of(args, kwargs), self.request
        # A task that calls itself still has the request of the worker, which must not be sent again.
        direct = request.called_directly or getattr(request, _RUNS, False)
        in_caller = direct or request.is_eager
        if not in_caller and self._replaced(name):
            _log.info("pyredisson: task %s of %r was replaced by a later call", request.id, name)
            return self.skipped(name)
        wait_time = None if in_caller and self.when_busy != "skip" else 0
        with self._client.get_lock(name).hold(wait_time, self.lease_time, skip=wait_time == 0) as lease:
            if lease is not None:
                if direct:
                    return super().__call__(*args, **kwargs)
                # Celery's own `__call__` would hide the request of the worker behind a new one.
                setattr(request, _RUNS, True)
                return self.run(*args, **kwargs)
        if in_caller:
            return self.skipped(name)
        headers, delivery = request.headers or {}, request.delivery_info or {}
        if self.when_busy != "skip" or headers.get(_WAITS) or delivery.get("redelivered"):
            # The lock of a message that is delivered again may be that of its own worker, which died.
            self._send_again({**headers, _WAITS: True})
        _log.info("pyredisson: task %s skipped: lock %r is held", request.id, name)
        return self.skipped(name)

    def _replaced(self, name: str) -> bool:
        number = (self.request.headers or {}).get(_NUMBER)
        if number is None:
            return False
        latest = self._client.get_fenced_lock(f"{name}:calls").get_token()
        return latest is not None and latest > number

    def _send_again(self, headers: dict[str, Any]) -> None:
        """Send the message of this call for later, and end the call. It is not one of the task's own retries."""
        later = delay_seconds(self.retry_in, "retry_in") * random.uniform(1.0, 1.5)
        again: Any = self.signature_from_request(headers=headers, countdown=later, retries=self.request.retries)
        again.apply_async()
        raise Retry(when=later, sig=again)


class LeaderBeat(Scheduler):  # type: ignore[misc]
    """A scheduler of which several may run: one leads and sends, and each tick is sent once at most.

    Combine it with the scheduler to use, and pass that to ``celery beat -S tasks.Beat``.

    Example::

        class Beat(LeaderBeat, PersistentScheduler):
            client = client

    When a leader stops, another one leads at once; when it dies, within the lease. A tick that was not sent until then
    is sent late. Standbys follow by the marks that a sent tick leaves, which hold for most of the time until the next.

    Attributes:
        client: The client.
        election: The name of the election. ``None``: made of that of the application.
    """

    client: ClassVar[Redisson | None] = None
    election: ClassVar[str | None] = None
    #: Seconds after which a standby looks again at a tick that is due.
    standby_interval: ClassVar[Seconds] = 0.5

    _campaign: Any = None

    def setup_schedule(self) -> None:
        """Read the schedule, and stand for election."""
        super().setup_schedule()
        #: The entries whose tick this beat has claimed, and not sent yet.
        self._claimed: set[str] = set()
        if self.client is None:
            raise TypeError(f"{type(self).__name__} needs a client: set it as an attribute of the class")
        self._standby_seconds = delay_seconds(self.standby_interval, "standby_interval")
        self._name = self.election or f"{self.app.main or 'celery'}:beat"
        self._campaign = self.client.get_leader_election(self._name).start(lambda term: term.wait())

    def is_due(self, entry: Any) -> Any:
        """Return whether an entry is due, to be sent here or because another beat has sent it.

        A tick is claimed here, where it can be postponed. What goes wrong with its lock only does that, and is logged:
        an error that left `is_due` or `apply_entry` would end the beat, or cost the entry its place in the schedule.
        """
        state = super().is_due(entry)
        if not state[0] or entry.name in self._claimed:
            return state
        leading = self._campaign is not None and self._campaign.leading
        try:
            sent = self._claim(entry) if leading else self._tick(entry, 1.0).lock.locked()
        except Exception as error:
            _log.warning("pyredisson: beat postpones %s: %s", entry.name, error)
            sent = False
        return state if sent else schedstate(False, self._standby_seconds)

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        """Send an entry, unless another beat has sent this tick."""
        if entry.name in self._claimed:
            self._claimed.discard(entry.name)
            super().apply_entry(entry, producer=producer)

    def _claim(self, entry: Any) -> bool:
        """Claim a tick for this beat, unless another one has. Return that one has."""
        until_next = entry.schedule.is_due(entry.default_now())[1]
        run = None
        try:
            with self._tick(entry, 0.9 * min(max(until_next, 0.1), 86_400)) as run:
                pass
        except Exception as error:
            if run is None:
                raise
            _log.warning("pyredisson: beat sends %s, and cannot say if its mark stays: %s", entry.name, error)
        if run is not None:
            self._claimed.add(entry.name)
        return True

    def close(self) -> None:
        """Resign, so that another beat leads at once."""
        if self._campaign is not None:
            self._campaign.stop(timeout=5)
        super().close()

    def _tick(self, entry: Any, seconds: float) -> RunOnce:
        assert self.client is not None
        return self.client.run_once(f"{self._name}:{entry.name}", at_most=explicit(seconds), at_least=seconds)
