"""A command that runs for us: its process, its terminal, and the signals between it and us.

The rules this file keeps:

* Each signal reaches the command exactly once. Without a terminal the command gets a process group of its own, and our
  signals are forwarded to that group. With a terminal it stays in our group, as under flock(1) or env(1), so that
  reading from the terminal, Ctrl-Z and ``fg`` work; the terminal then sends Ctrl-C to both of us, and other signals are
  forwarded to the command alone, since the group includes our callers.
"""

from __future__ import annotations

import errno
import os
import select
import shutil
import signal
import socket
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any

from typing_extensions import Self

from pyredisson._tools.common import ExitCode, say, signals

FORWARDED = signals("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
SENT_BY_THE_KEYBOARD = signals("SIGINT", "SIGQUIT")

# Python ignores these two in its own process; a command expects them as they were.
IGNORED_BY_PYTHON = signals("SIGPIPE", "SIGXFSZ")


def find_program(name: str) -> str | ExitCode:
    """Return the path of a program, or the exit code of a shell that cannot run it."""
    if program := shutil.which(name):
        return program
    exists = os.path.exists(name) if os.path.dirname(name) else shutil.which(name, mode=os.F_OK)
    return ExitCode.NOT_EXECUTABLE if exists else ExitCode.NOT_FOUND


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
        """Send SIGKILL."""
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
        """Queue signals from now on."""
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
