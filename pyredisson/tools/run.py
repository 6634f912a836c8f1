"""``pyredisson run``: a command that runs while a lock is held, like flock(1) across machines.

The rules this file keeps:

* The command starts only while the lock is certainly held, and the lock is released only after it has ended.
* Whoever leaves while still waiting leaves nothing held and nobody queued.
* The command hears of a lost lock at once: SIGTERM, and SIGKILL after a grace.
* Each signal reaches the command exactly once. Without a terminal it gets a process group of its own, and what is sent
  to us is passed on to that group. With one it stays in ours, as under flock(1) or env(1), so that reading from the
  terminal, Ctrl-Z and ``fg`` work; there the terminal itself sends Ctrl-C to both, and only the command, not the group
  that it shares with its callers, is signalled by us.

Not promised: a command outlives us if we are killed by SIGKILL, since nothing can be passed on then. Its lock is free
within one lease. The same holds for SIGSTOP: the command is ended as soon as we go on and find the lock lost.
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
import sys
import time
from collections.abc import Sequence
from enum import IntEnum
from types import FrameType, TracebackType
from typing import Any

from redis.exceptions import RedisError, ResponseError
from typing_extensions import Self

from pyredisson import Config, Lease, Lock, LockLostError, LockTimeoutError, Redisson, RedissonError
from pyredisson.core.deadline import meant
from pyredisson.tools.plain_text import plain

__all__ = ["BadUsage", "ExitCode", "connect", "find_program", "run_command", "say"]

FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
SENT_BY_THE_KEYBOARD = (signal.SIGINT, signal.SIGQUIT)

# Python ignores these two in its own process; a command expects them as they were.
IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)

# News wakes us at once. This bound is for what sends none: time that passed while the machine was suspended.
LOOK_AT_LEAST_EVERY = 1.0

# The end of a process group is not signalled to anybody who is not its parent.
LOOK_FOR_STRAGGLERS_EVERY = 0.05


class ExitCode(IntEnum):
    """Exit codes of our own; all others are the command's. The names and numbers are those of sysexits.h and sh."""

    UNAVAILABLE = 69
    NOT_LOCKED = 75
    LOST = 76
    NOT_EXECUTABLE = 126
    NOT_FOUND = 127
    SIGNALLED = 128
    """Plus the signal's number."""


class BadUsage(Exception):
    """The command line cannot be carried out as it stands; the message says why and is fit to be shown."""


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
    """Run a command while a lock is held. To be called from the main thread, because it handles signals.

    Args:
        name: The lock's name.
        command: The program and its arguments.
        url: The server.
        wait_time: Seconds to wait for the lock; ``None`` for ever, 0 for a single attempt.
        lease_time: Seconds after which the lock ends by itself, and the command with it; ``None`` while it runs.
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
    # What the library would warn of is said here in one line, and shows in the exit code.
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
                    say(f"the lock {name!r} is held by somebody else")
                    return ExitCode.NOT_LOCKED
                except (RedisError, RedissonError) as error:
                    trouble = "refused" if isinstance(error, ResponseError) else "is not available"
                    say(f"the server at {client.url} {trouble}: {error}")
                    return ExitCode.UNAVAILABLE
    except Interrupted as interrupted:
        return ExitCode.SIGNALLED + interrupted.signum
    except RedissonError as error:  # No server to be started for embedded://.
        say(str(error))
        return ExitCode.UNAVAILABLE


def connect(url: str, config: Config) -> Redisson:
    """A client for a URL that a user typed; nothing is sent yet.

    Raises:
        BadUsage: It is no URL. The message does not repeat it: what failed to parse may be a piece of a password.
    """
    try:
        return Redisson.from_url(url, config=config)
    except (ValueError, TypeError):
        raise BadUsage("--url is not a valid URL of a server, such as redis://localhost:6379") from None


def find_program(name: str) -> str | ExitCode:
    """Where a program is, or why it cannot be run, told apart as a shell does."""
    if program := shutil.which(name):
        return program
    exists = os.path.exists(name) if os.path.dirname(name) else shutil.which(name, mode=os.F_OK)
    return ExitCode.NOT_EXECUTABLE if exists else ExitCode.NOT_FOUND


def say(text: str) -> None:
    """One line on stderr, past its buffer: with nobody reading there, Python would end with an exit code of its own."""
    try:
        os.write(sys.stderr.fileno(), f"pyredisson: {plain(text)}\n".encode(errors="backslashreplace"))
    except (OSError, AttributeError):
        pass  # Nobody reads, or stderr was closed before we started. No reason to leave a command alone.


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
        """Take the lock, run the command, release the lock."""
        status: int | None = None
        try:
            with self._lock.hold(wait_time, lease_time) as lease:
                self._signals.stop_interrupting()
                status = self._run(lease)
        except Interrupted:
            self._give_back()
            raise
        except LockLostError:
            if status != ExitCode.LOST:
                self._say_lost("before the command had ended")
            return ExitCode.LOST
        except (RedisError, RedissonError) as error:
            if status is None:
                raise
            # The lock was held to the end, which is what counts for the command.
            say(f"the lock {self._name!r} could not be released and is free when its lease is over: {error}")
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
                for signum in self._signals.wait(min(lease.remaining(), LOOK_AT_LEAST_EVERY)):
                    command.forward(signum)
        return status

    def _end(self, command: Command) -> None:
        """End a command that is no longer protected: first it is asked, and when the grace is over it is not."""
        kill_at = time.monotonic() + self._grace
        command.terminate()
        while not command.is_gone() and (left := kill_at - time.monotonic()) > 0:
            command_has_ended = command.poll() is not None
            look_in = LOOK_FOR_STRAGGLERS_EVERY if command_has_ended else LOOK_AT_LEAST_EVERY
            for signum in self._signals.wait(min(left, look_in)):
                command.forward(signum)
        if not command.is_gone():
            command.kill()

    def _give_back(self) -> None:
        """A signal may strike between the lock's being taken and its being ours to release."""
        try:
            if self._lock.is_held_by_current_thread():
                self._lock.unlock()
        except (RedisError, RedissonError):
            pass  # Unreachable: then the lease ends it.

    def _say_lost(self, when: str) -> None:
        say(f"the lock {self._name!r} was lost {when}")


def _is_lost(lease: Lease) -> bool:
    return lease.remaining() <= 0 or lease.lost


class Command:
    """A running command: its process, and its process group if it has one of its own. Leaving the block kills it."""

    def __init__(self, program: str, arguments: Sequence[str], environment: dict[str, str]) -> None:
        """Start it.

        Raises:
            OSError: It cannot be executed.
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
        # Not subprocess: that would fork a process that has threads in order to set the group, and close descriptors
        # that our caller means the command to have (`3< file`). Ours are not inheritable in any case.
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
        """The exit code as a shell gives it, or ``None`` while the command runs."""
        if self._status is None:
            pid, wait_status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(wait_status)
                self._status = code if code >= 0 else ExitCode.SIGNALLED - code
        return self._status

    def is_gone(self) -> bool:
        """Whether the command has ended, and all of its process group if that is its own."""
        if self.poll() is None:
            return False
        return not (self._has_own_group and self._signal(0))

    def forward(self, signum: int) -> None:
        """Pass on a signal that we were sent, unless the terminal has sent it to the command as well."""
        if signum in SENT_BY_THE_KEYBOARD and self._is_in_foreground():
            return
        self._signal(signum)

    def terminate(self) -> None:
        """Ask the command to end, and let it go on if it is stopped, so that it can."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def _signal(self, signum: int) -> bool:
        """Signal the group if it is the command's own, else the command; whether anybody was there."""
        try:
            if self._has_own_group:
                os.killpg(self._pid, signum)
            elif self.poll() is None:
                os.kill(self._pid, signum)
            else:
                return False
        except ProcessLookupError:
            return False
        except PermissionError:  # It has become another user's, as with sudo, but it is there.
            if signum:
                say(f"not permitted to send {signal.strsignal(signum)!r} to the command")
        return True

    def _is_in_foreground(self) -> bool:
        try:
            return self._terminal is not None and os.tcgetpgrp(self._terminal) == os.getpgrp()
        except OSError:
            return False  # The terminal has gone.

    def _close_terminal(self) -> None:
        if self._terminal is not None:
            os.close(self._terminal)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
    """A signal came before the command was started. The library takes it for Ctrl-C and leaves nothing behind."""

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum


class Signals:
    """The signals we are sent, and the news of a loss, for one thread to wait for.

    At first a signal interrupts whatever is being done, once. After `stop_interrupting` they are kept for `wait`.
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
            # What is ignored from outside, as under nohup(1), stays ignored, for the command too.
            if signal.getsignal(signum) is not signal.SIG_IGN:
                self._before[signum] = signal.signal(signum, self._interrupt)
        self._before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        """End a `wait`, from any thread."""
        try:
            self._outbox.send(b"\0")
        except OSError:
            pass  # Full: it is awake. Closed: nobody waits any more.

    def wait(self, timeout: float) -> list[int]:
        """Sleep until something happens, for at most `timeout` seconds; the signals to forward, in order."""
        select.select([self._inbox], [], [], max(0.0, timeout))
        try:
            return [signum for signum in self._inbox.recv(4096) if signum in FORWARDED]
        except BlockingIOError:
            return []
