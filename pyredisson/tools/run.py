"""``pyredisson run``: a command that runs while a lock is held, like flock(1) across machines.

The rules this file keeps:

* The command starts only while the lock is certainly held, and the lock is released only after it has ended.
* A wait that ends early leaves nothing held and no waiter in a queue.
* A lost lock ends the command immediately: SIGTERM, and SIGKILL after a grace period.
* Each signal reaches the command exactly once. Without a terminal the command gets a process group of its own, and our
  signals are forwarded to that group. With a terminal it stays in our group, as under flock(1) or env(1), so that
  reading from the terminal, Ctrl-Z and ``fg`` work; the terminal then sends Ctrl-C to both of us, and other signals are
  forwarded to the command alone, since the group includes our callers.

Not promised: a command outlives us if we are killed by SIGKILL, which cannot be forwarded. Its lock is free within one
lease. After SIGSTOP, the command is ended as soon as we continue and find the lock lost.
"""

from __future__ import annotations

import errno
import logging
import math
import os
import select
import shutil
import signal
import socket
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any

from redis.exceptions import RedisError, ResponseError
from typing_extensions import Self

from pyredisson import Config, Lease, Lock, LockLostError, LockTimeoutError, Redisson, RedissonError
from pyredisson.core.deadline import meant
from pyredisson.tools.common import BadUsage, ExitCode, connect, say, signals

__all__ = ["find_program", "run_command"]

FORWARDED = signals("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
SENT_BY_THE_KEYBOARD = signals("SIGINT", "SIGQUIT")

# Python ignores these two in its own process; a command expects them as they were.
IGNORED_BY_PYTHON = signals("SIGPIPE", "SIGXFSZ")

# Signals and losses wake us immediately. This bound is for time that passes while the machine is suspended.
CHECK_INTERVAL = 1.0

# The end of a process group sends no signal.
GROUP_CHECK_INTERVAL = 0.05


def run_command(
    name: str,
    command: Sequence[str],
    *,
    url: str,
    wait_time: float | None = None,
    lease_time: float | None = None,
    grace: float = 5.0,
    watchdog_timeout: float = 30.0,
) -> int:
    """Run a command while a lock is held. Call it from the main thread, because it handles signals.

    Args:
        name: The lock's name.
        command: The program and its arguments.
        url: The server.
        wait_time: Seconds to wait for the lock; ``None`` is without limit, 0 a single attempt.
        lease_time: Seconds after which the lock expires and the command is ended; ``None`` renews the lock as long as
            the command runs.
        grace: Seconds between SIGTERM and SIGKILL after a loss.
        watchdog_timeout: Seconds after which the lock is free if this process dies and no lease was given.

    Returns:
        The exit code: the command's own, 128 + n if signal n ended it, or one of `ExitCode`.

    Raises:
        BadUsage: An argument is not valid. Nothing was sent.
    """
    if not 0 <= grace < math.inf:
        raise BadUsage("--grace must be a number of seconds, 0 or more")
    program = find_program(command[0])
    if isinstance(program, ExitCode):
        reason = "command not found" if program is ExitCode.NOT_FOUND else "not executable"
        say(f"{command[0]}: {reason}")
        return program
    # Warnings of the library are reported here in one line, and by the exit code.
    logging.getLogger("pyredisson").setLevel(logging.ERROR)
    try:
        with Signals() as signals:
            try:
                config = Config(lock_watchdog_timeout=meant(watchdog_timeout), on_lock_lost=lambda *_: signals.wake())
            except (ValueError, TypeError) as error:
                raise BadUsage(str(error)) from None
            with connect(url, config) as client:
                try:
                    run = _Run(client, name, program, command, signals, grace)
                    return run.while_locked(wait_time, None if lease_time is None else meant(lease_time))
                except LockTimeoutError:
                    say(f"the lock {name!r} is held by another client")
                    return ExitCode.NOT_LOCKED
                except (RedisError, RedissonError) as error:
                    trouble = "refused" if isinstance(error, ResponseError) else "is not available"
                    say(f"the server at {client.url} {trouble}: {error}")
                    return ExitCode.UNAVAILABLE
    except Interrupted as interrupted:
        return ExitCode.SIGNALLED + interrupted.signum
    except RedissonError as error:  # embedded:// found no server program.
        say(str(error))
        return ExitCode.UNAVAILABLE


def find_program(name: str) -> str | ExitCode:
    """Return the path of a program, or the exit code of a shell that cannot run it."""
    if program := shutil.which(name):
        return program
    exists = os.path.exists(name) if os.path.dirname(name) else shutil.which(name, mode=os.F_OK)
    return ExitCode.NOT_EXECUTABLE if exists else ExitCode.NOT_FOUND


class _Run:
    """One command under one lock."""

    def __init__(
        self, client: Redisson, name: str, program: str, command: Sequence[str], signals: Signals, grace: float
    ) -> None:
        try:
            self._lock: Lock = client.get_lock(name)
        except (ValueError, TypeError) as error:
            raise BadUsage(str(error)) from None
        self._name = name
        self._program = program
        self._command = command
        self._signals = signals
        self._grace = grace

    def while_locked(self, wait_time: float | None, lease_time: float | None) -> int:
        """Acquire the lock, run the command, release the lock."""
        status: int | None = None
        try:
            with self._lock.hold(wait_time, lease_time) as lease:
                self._signals.stop_interrupting()
                status = self._run(lease)
        except Interrupted:
            self._release_if_held()
            raise
        except LockLostError:
            if status != ExitCode.LOST:
                self._say_lost("before the command had ended")
            return ExitCode.LOST
        except (RedisError, RedissonError) as error:
            if status is None:
                raise
            # The lock was held until the command had ended.
            say(f"the lock {self._name!r} could not be released and is free when its lease expires: {error}")
        except (ValueError, TypeError) as error:
            if status is None:
                raise BadUsage(str(error)) from None
            raise
        assert status is not None
        return status

    def _run(self, lease: Lease) -> int:
        if _is_lost(lease):
            self._say_lost("before the command was started")
            return ExitCode.LOST
        environment = {**os.environ, "PYREDISSON_LOCK": self._name}
        try:
            command = Command(self._program, self._command, environment)
        except OSError as error:
            say(f"{self._command[0]}: {error.strerror}")
            return ExitCode.NOT_FOUND if error.errno == errno.ENOENT else ExitCode.NOT_EXECUTABLE
        with command:
            while (status := command.poll()) is None:
                if _is_lost(lease):
                    self._say_lost("while the command ran; it is being ended")
                    self._end(command)
                    return ExitCode.LOST
                for signum in self._signals.wait(min(lease.remaining(), CHECK_INTERVAL)):
                    command.forward(signum)
        return status

    def _end(self, command: Command) -> None:
        """End a command that is no longer protected: by SIGTERM, and by SIGKILL after the grace period."""
        kill_at = time.monotonic() + self._grace
        command.terminate()
        while not command.is_gone() and (left := kill_at - time.monotonic()) > 0:
            command_has_ended = command.poll() is not None
            interval = GROUP_CHECK_INTERVAL if command_has_ended else CHECK_INTERVAL
            for signum in self._signals.wait(min(left, interval)):
                command.forward(signum)
        if not command.is_gone():
            command.kill()

    def _release_if_held(self) -> None:
        """Release the lock if a signal arrived after it was acquired and before the block was entered."""
        try:
            if self._lock.is_held_by_current_thread():
                self._lock.unlock()
        except (RedisError, RedissonError):
            pass  # Unreachable: the lock is free when its lease expires.

    def _say_lost(self, when: str) -> None:
        say(f"the lock {self._name!r} was lost {when}")


def _is_lost(lease: Lease) -> bool:
    return lease.remaining() <= 0 or lease.lost


class Command:
    """A running command, and its process group if it has one of its own. Leaving the block kills it."""

    def __init__(self, program: str, arguments: Sequence[str], environment: dict[str, str]) -> None:
        """Start the command.

        Raises:
            OSError: The program cannot be executed.
        """
        self._status: int | None = None
        self._terminal = _open_controlling_terminal()
        try:
            self._pid = self._spawn(program, arguments, environment)
        except OSError as error:
            if error.errno != errno.ENOEXEC:
                self._close_terminal()
                raise
            # A script without a #! line: a shell runs it with sh.
            self._pid = self._spawn("/bin/sh", ["sh", program, *arguments[1:]], environment)

    def _spawn(self, program: str, arguments: Sequence[str], environment: dict[str, str]) -> int:
        # Not subprocess: to set the group it would fork a process that has threads, and it closes descriptors that our
        # caller opened for the command (`3< file`). Our own are not inheritable.
        return os.posix_spawn(
            program,
            list(arguments),
            environment,
            setpgroup=0 if self._has_own_group else os.getpgrp(),
            setsigdef=IGNORED_BY_PYTHON,
        )

    @property
    def _has_own_group(self) -> bool:
        return self._terminal is None

    def poll(self) -> int | None:
        """Return the exit code as a shell does, or ``None`` while the command runs."""
        if self._status is None:
            pid, wait_status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(wait_status)
                self._status = code if code >= 0 else ExitCode.SIGNALLED - code
        return self._status

    def is_gone(self) -> bool:
        """Return whether the command has ended, and its process group, too, if it has one of its own."""
        if self.poll() is None:
            return False
        return not (self._has_own_group and self._signal(0))

    def forward(self, signum: int) -> None:
        """Forward a signal, unless the terminal has sent it to the command as well."""
        if signum in SENT_BY_THE_KEYBOARD and self._is_in_foreground():
            return
        self._signal(signum)

    def terminate(self) -> None:
        """Send SIGTERM, and continue a stopped command so that it can react."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, signum: int) -> bool:
        """Signal the group if it is the command's own, else the command. Return whether the target exists."""
        try:
            if self._has_own_group:
                os.killpg(self._pid, signum)
            elif self.poll() is None:
                os.kill(self._pid, signum)
            else:
                return False
        except ProcessLookupError:
            return False
        except PermissionError:  # It exists, but belongs to another user, as under sudo.
            if signum:
                say(f"not permitted to send {signal.strsignal(signum)!r} to the command")
        return True

    def _is_in_foreground(self) -> bool:
        try:
            return self._terminal is not None and os.tcgetpgrp(self._terminal) == os.getpgrp()
        except OSError:
            return False  # The terminal was closed.

    def _close_terminal(self) -> None:
        if self._terminal is not None:
            os.close(self._terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.poll() is None:
            self.kill()
        while self.poll() is None:
            time.sleep(0.01)
        self._close_terminal()


def _open_controlling_terminal() -> int | None:
    try:
        return os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return None


class Interrupted(KeyboardInterrupt):
    """A signal arrived before the command was started. The library handles it like Ctrl-C and leaves nothing held."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


class Signals:
    """Signals, and the notification of a lost lock, for one thread to wait for.

    At first a signal raises :class:`Interrupted`, once. After ``stop_interrupting()`` they are queued for ``wait()``.
    """

    def __init__(self) -> None:
        self._interrupts = True
        self._inbox, self._outbox = socket.socketpair()
        self._inbox.setblocking(False)
        self._outbox.setblocking(False)
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        self._wakeup_before = signal.set_wakeup_fd(self._outbox.fileno(), warn_on_full_buffer=False)
        for signum in FORWARDED:
            # A signal that our caller ignores, as nohup(1) does, stays ignored, also for the command.
            if signal.getsignal(signum) is not signal.SIG_IGN:
                self._before[signum] = signal.signal(signum, self._interrupt)
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        return self

    def __exit__(self, *_: object) -> None:
        self._interrupts = False
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        self._inbox.close()
        self._outbox.close()

    def stop_interrupting(self) -> None:
        self._interrupts = False

    def _interrupt(self, signum: int, frame: FrameType | None) -> None:
        if self._interrupts:
            self._interrupts = False
            raise Interrupted(signum)

    def wake(self) -> None:
        """End a ``wait()``, from any thread."""
        try:
            self._outbox.send(b"\0")
        except OSError:
            pass  # Full: it is awake. Closed: it does not wait any more.

    def wait(self, timeout: float) -> list[int]:
        """Wait at most ``timeout`` seconds for a signal or a ``wake()``. Return the signals to forward, in order."""
        select.select([self._inbox], [], [], max(0.0, timeout))
        try:
            return [signum for signum in self._inbox.recv(4096) if signum in FORWARDED]
        except BlockingIOError:
            return []
