"""``pyredisson run``: a command that runs while a lock is held, like flock(1) across machines.

The rules this file keeps, besides those of ``child.py``:

* The command starts only while the lock is certainly held, and the lock is released only after it has ended.
* A wait that ends early leaves nothing held and no waiter in a queue.
* A lost lock ends the command immediately: SIGTERM, and SIGKILL after a grace period. So does the end of a lease, which
  is no loss: it was asked for.

Not promised: a command outlives us if we are killed by SIGKILL, which cannot be forwarded. Its lock is free within one
lease. After SIGSTOP, the command is ended as soon as we continue and find the lock lost.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, final

from redis.exceptions import RedisError, ResponseError

from pyredisson import Config, Lease, LockError, LockLostError, LockTimeoutError, Redisson, RedissonError
from pyredisson._core.deadline import explicit
from pyredisson._tools.child import Command, Interrupted, Signals, find_program
from pyredisson._tools.common import BadUsage, ExitCode, connect, failure, say
from pyredisson._tools.durations import duration_text
from pyredisson._tools.run_modes import Mode, RunGuard, fit_permits, guard_of, without_calls

# Signals and losses wake us immediately. This bound is for time that passes while the machine is suspended.
CHECK_INTERVAL = 1.0

# The end of a process group sends no signal.
GROUP_CHECK_INTERVAL = 0.05


@final
@dataclass(frozen=True)
class Times:
    """How long everything may take, in seconds.

    Attributes:
        wait: How long to wait for the lock; ``None`` is without limit, 0 a single attempt.
        lease: After how long the lock expires and the command is ended; ``None`` renews the lock as long as the command
            runs.
        grace: From SIGTERM to SIGKILL, after a loss.
        watchdog: After how long the lock is free if this process dies and no lease was given.
    """

    wait: float | None = None
    lease: float | None = None
    grace: float = 5.0
    watchdog: float = Config.lock_watchdog_timeout


def run_command(
    name: str,
    command: Sequence[str],
    *,
    url: str,
    mode: Mode | None = None,
    times: Times | None = None,
    verbose: bool = False,
) -> int:
    """Run a command while a lock is held. Call it from the main thread, because it handles signals.

    Args:
        name: The lock's name.
        command: The program and its arguments.
        url: The server.
        mode: Which kind of lock it is; the plain one by default.
        times: How long to wait, and to hold.
        verbose: Whether to say whom it waits for, and when it has acquired the lock.

    Returns:
        The exit code: the command's own, 128 + n if signal n ended it, or one of `ExitCode`.

    Raises:
        BadUsage: An argument is not valid. Nothing was sent, or the server says that the name is used otherwise.
    """
    mode, times = mode or Mode(), times or Times()
    program = find_program(command[0])
    if isinstance(program, ExitCode):
        reason = "command not found" if program is ExitCode.NOT_FOUND else "not executable"
        say(f"{command[0]}: {reason}")
        return program
    # Warnings of the library are reported here in one line, and by the exit code.
    logging.getLogger("pyredisson").setLevel(logging.ERROR)
    try:
        with Signals() as signals:
            config = Config(
                client_name=ascii(os.path.basename(program)).strip("'\""),  # So that others see whom they wait for.
                lock_watchdog_timeout=explicit(times.watchdog),
                wait_while_unreachable=bool(times.wait),  # A server that is restarted meanwhile is waited for, too.
                on_lock_lost=lambda *_: signals.wake(),
            )
            with connect(url, config) as client:
                run = _Run(name, program, command, signals, times, verbose, lambda: _held_by(url, name))
                return _while_connected(client, name, mode, run)
    except Interrupted as interrupted:
        return ExitCode.SIGNALLED + interrupted.signum
    except RedissonError as error:  # embedded:// found no server program.
        say(str(error))
        return ExitCode.UNAVAILABLE


def _while_connected(client: Redisson, name: str, mode: Mode, run: _Run) -> int:
    try:
        guard = guard_of(client, name, mode)
        if mode.kind == "permits":
            fit_permits(client, name, mode.permits)
        return run.while_locked(guard)
    except LockTimeoutError:
        say(mode.refusal(name, run.state()))
        return ExitCode.NOT_LOCKED
    except (RedisError, RedissonError) as error:
        if isinstance(error, LockError) and isinstance(error.__cause__, ResponseError):
            raise BadUsage(without_calls(str(error))) from None  # The name is that of something else.
        code, text = failure(error, client.url)
        say(text)
        return code


def _held_by(url: str, name: str) -> str:
    from pyredisson._tools.held_by import held_by  # Here, so that a lock that is free is acquired without its imports.

    return held_by(url, name)


@final
@dataclass
class _Run:
    """One command under one lock. ``state`` says who holds it."""

    name: str
    program: str
    command: Sequence[str]
    signals: Signals
    times: Times
    verbose: bool
    state: Callable[[], str]
    begun: float = field(default_factory=time.monotonic)
    lease_ends: float = 0.0

    def while_locked(self, guard: RunGuard) -> int:
        """Acquire the lock, run the command, release the lock.

        Raises:
            LockTimeoutError: The lock was not acquired in time.
        """
        wait = self.times.wait
        if self.verbose and wait != 0:
            try:
                return self._while_locked(guard, 0)
            except LockTimeoutError:
                state = self.state()
                say(f"waiting for {guard.subject}{f', {state}' if state else ''}")
                wait = None if wait is None else max(0.0, self.begun + wait - time.monotonic())
        return self._while_locked(guard, wait)

    def _while_locked(self, guard: RunGuard, wait: float | None) -> int:
        status: int | None = None
        lease_time = None if self.times.lease is None else explicit(self.times.lease)
        try:
            with guard.hold(wait, lease_time) as lease:
                self.signals.stop_interrupting()
                status = self._run(guard, lease)
        except Interrupted:
            guard.release_if_held()
            raise
        except LockLostError as error:
            if status != ExitCode.LOST:
                self._say_ended(guard, "before the command had ended", error)
            return ExitCode.LOST
        except (RedisError, RedissonError) as error:
            if status is None:
                raise
            # The lock was held until the command had ended.
            say(f"{guard.subject} could not be released and is free when its lease expires: {error}")
        assert status is not None
        return status

    def _run(self, guard: RunGuard, lease: Lease[Any]) -> int:
        self.lease_ends = time.monotonic() + lease.remaining()
        if _is_lost(lease):
            self._say_ended(guard, "before the command was started", _loss_of(lease))
            return ExitCode.LOST
        if self.verbose:
            self._say_acquired(lease)
        environment = {**os.environ, "PYREDISSON_LOCK": self.name}
        environment.pop("PYREDISSON_TOKEN", None)  # That of a lock around this one.
        if "PYREDISSON_URL" in environment:
            environment["PYREDISSON_URL"] = _without_secrets(environment["PYREDISSON_URL"])
        if lease.token is not None:
            environment["PYREDISSON_TOKEN"] = str(lease.token)
        try:
            command = Command(self.program, self.command, environment)
        except OSError as error:
            say(f"{self.command[0]}: {error.strerror}")
            return ExitCode.NOT_FOUND if error.errno == errno.ENOENT else ExitCode.NOT_EXECUTABLE
        with command:
            while (status := command.poll()) is None:
                if _is_lost(lease):
                    self._say_ended(guard, "while the command ran; it is being ended", _loss_of(lease))
                    self._end(command)
                    return ExitCode.LOST
                for signum in self.signals.wait(min(lease.remaining(), CHECK_INTERVAL)):
                    command.forward(signum)
        return status

    def _end(self, command: Command) -> None:
        """End a command that is no longer protected: by SIGTERM, and by SIGKILL after the grace period."""
        kill_at = time.monotonic() + self.times.grace
        command.terminate()
        while not command.is_gone() and (left := kill_at - time.monotonic()) > 0:
            command_has_ended = command.poll() is not None
            interval = GROUP_CHECK_INTERVAL if command_has_ended else CHECK_INTERVAL
            for signum in self.signals.wait(min(left, interval)):
                command.forward(signum)
        if not command.is_gone():
            command.kill()

    def _say_acquired(self, lease: Lease[Any]) -> None:
        waited = duration_text(time.monotonic() - self.begun)
        token = "" if lease.token is None else f", token {lease.token} (PYREDISSON_TOKEN)"
        say(f"acquired after {waited}{token}")

    def _say_ended(self, guard: RunGuard, when: str, error: LockLostError | None) -> None:
        """Say that the lock is no longer held, and why. The end of a lease that was asked for is no loss."""
        lease = self.times.lease
        if lease is not None and time.monotonic() >= self.lease_ends - 0.01:
            say(f"the lease of {duration_text(lease)} of {guard.subject} ended {when}")
        else:
            say(f"{guard.subject} was lost {when}{'' if error is None else f' ({error})'}")


def _is_lost(lease: Lease[Any]) -> bool:
    return lease.remaining() <= 0 or lease.lost


def _without_secrets(url: str) -> str:
    """Return a URL without its login: a command that uses it reaches the same server, and no other, or is refused."""
    return re.sub(r"([?&](?:username|password)=)[^&]*", r"\1", re.sub(r"://\S*@", "://", url))


def _loss_of(lease: Lease[Any]) -> LockLostError | None:
    """Return the error that says why a lease was lost; ``None`` if it does not know."""
    try:
        lease.ensure_held()
    except LockLostError as error:
        return error
    return None
