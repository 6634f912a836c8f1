"""The kinds of locks that ``pyredisson run`` can hold around a command."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, final

from redis.exceptions import RedisError

from pyredisson import Lease, Lock, Redisson, RedissonError
from pyredisson._core.deadline import explicit
from pyredisson._tools.common import BadUsage

#: What a message of the library advises to a programmer.
_CALLS = re.compile(r"[:.;,] [^:]*\b[a-z_]+\(\).*", re.DOTALL)


@final
@dataclass(frozen=True)
class Mode:
    """Which kind of lock a name is.

    Attributes:
        kind: The plain lock, one side of a read-write lock, a fenced lock, a semaphore, or what runs once in a time.
        permits: How many commands may run at the same time, for a semaphore.
        at_least: Seconds from its beginning for which a command does not run again.
        at_most: Seconds after which its lease ends.
    """

    kind: Literal["lock", "shared", "exclusive", "fenced", "permits", "once"] = "lock"
    permits: int = 1
    at_least: float = 0
    at_most: float = 0

    def subject(self, name: str) -> str:
        """Return what to call the lock in a message."""
        what = {
            "shared": "the read side of the lock",
            "exclusive": "the write side of the lock",
            "permits": "the semaphore",
        }.get(self.kind, "the lock")
        return f"{what} {name!r}"

    def refusal(self, name: str, state: str) -> str:
        """Return what to say when it was not acquired in time."""
        if self.kind == "permits":
            return f"all permits of {self.subject(name)} are acquired{f': {state}' if state else ''}"
        return f"{self.subject(name)} is {state or 'held by another client'}"


@final
class RunGuard:
    """What is held around the command.

    Attributes:
        subject: What to call it in a message.
        hold: Returns a context manager that holds it, from the time to wait and the lease.
    """

    def __init__(
        self,
        subject: str,
        hold: Callable[[float | None, float | None], AbstractContextManager[Lease[Any]]],
        lock: Lock | None,
    ) -> None:
        self.subject = subject
        self._hold = hold
        self._lock = lock
        self._held: AbstractContextManager[Lease[Any]] | None = None

    def hold(self, wait: float | None, lease: float | None) -> AbstractContextManager[Lease[Any]]:
        """Return a context manager that holds it."""
        self._held = self._hold(wait, lease)
        return self._held

    def release_if_held(self) -> None:
        """Release it if a signal arrived after it was acquired and before the block was entered."""
        try:
            if self._lock is None:
                if self._held is not None:
                    self._held.__exit__(None, None, None)  # Does nothing if it was left or never acquired.
            elif self._lock.is_held_by_current_thread():
                self._lock.unlock()
        except (RedisError, RedissonError):
            pass  # Unreachable: it is free when its lease expires.


def guard_of(client: Redisson, name: str, mode: Mode) -> RunGuard:
    """Return what is held around the command.

    Raises:
        BadUsage: The name is not valid, or is that of a semaphore with another number of permits.
    """
    subject = mode.subject(name)
    try:
        if mode.kind == "permits":
            semaphore = client.get_permit_expirable_semaphore(name, permits=mode.permits)
            return RunGuard(subject, semaphore.hold, None)
        lock: Lock
        if mode.kind == "shared":
            lock = client.get_read_write_lock(name).read_lock()
        elif mode.kind == "exclusive":
            lock = client.get_read_write_lock(name).write_lock()
        elif mode.kind == "fenced":
            lock = client.get_fenced_lock(name)
        elif mode.kind == "once":
            lock = client.run_once(name, at_most=explicit(mode.at_most), at_least=mode.at_least).lock
        else:
            lock = client.get_lock(name)
    except (ValueError, TypeError) as error:
        raise BadUsage(str(error)) from None
    return RunGuard(subject, lock.hold, lock)


def fit_permits(client: Redisson, name: str, permits: int) -> None:
    """Make sure that a semaphore has this number of permits.

    All who share a semaphore have to agree on the number. The first sets it; another number is accepted while no permit
    is acquired, and refused while one is: otherwise more commands could run than a running one was started with.

    Raises:
        BadUsage: It has another number, and some are acquired.
    """
    semaphore = client.get_permit_expirable_semaphore(name, permits=permits)
    total = semaphore.get_permits()
    if total == permits:
        return
    if running := semaphore.acquired_permits():
        raise BadUsage(
            f"the semaphore {name!r} has {total} permits, and {running} of them are acquired: -n {permits} is refused "
            f"until all are released. Use -n {total}"
        )
    semaphore.set_permits(permits)


def without_calls(message: str) -> str:
    """Return a message of the library without what it advises to a programmer."""
    return _CALLS.sub(": use another name", message)
