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
import select
import shutil
import signal
import socket
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal, NamedTuple

import click
from redis.exceptions import RedisError, ResponseError
from typing_extensions import Self

from pyredisson import Config, Lease, Lock, LockError, LockLostError, LockTimeoutError, Redisson, RedissonError
from pyredisson._tools.common import (
    BadUsage,
    Duration,
    ExitCode,
    LockName,
    Stopped,
    check_posix,
    complete_files,
    connect,
    duration_text,
    failure,
    held_by,
    say,
    signals,
    url_option,
)

# Signals and losses wake us immediately. This bound is for time that passes while the machine is suspended.
CHECK_INTERVAL = 1.0

# The end of a process group sends no signal.
GROUP_CHECK_INTERVAL = 0.05


@dataclass
class Run:
    """One command under one lock. All times are in seconds.

    Attributes:
        name: The lock's name.
        command: The program and its arguments.
        url: The server.
        mode: Which kind of lock it is.
        wait: How long to wait for the lock; ``None`` is without limit, 0 a single attempt.
        lease: After how long the lock expires and the command is ended; ``None`` renews the lock as long as the command
            runs.
        grace: From SIGTERM to SIGKILL, after a loss.
        watchdog: After how long the lock is free if this process dies and no lease was given.
        verbose: Whether to say whom it waits for, and when it has acquired the lock.
        begun: When it began, by ``time.monotonic()``.
        lease_ends: When the lease ends, by the same clock.
    """

    name: str
    command: Sequence[str]
    url: str
    mode: Mode
    wait: float | None
    lease: float | None
    grace: float
    watchdog: float
    verbose: bool
    begun: float = field(default_factory=time.monotonic)
    lease_ends: float = 0.0

    def run(self) -> int:
        """Run the command while the lock is held. Call it from the main thread, because it handles signals.

        Returns:
            The exit code: the command's own, 128 + n if signal n ended it, or one of `ExitCode`.

        Raises:
            BadUsage: An argument is not valid. Nothing was sent, or the server says that the name is used otherwise.
        """
        program = find_program(self.command[0])
        if isinstance(program, ExitCode):
            reason = "command not found" if program is ExitCode.NOT_FOUND else "not executable"
            raise Stopped(program, f"{self.command[0]}: {reason}")
        self._program = program
        # Warnings of the library are reported here in one line, and by the exit code.
        logging.getLogger("pyredisson").setLevel(logging.ERROR)
        try:
            with Signals() as self._signals:
                config = Config(
                    client_name=ascii(os.path.basename(program)).strip("'\""),  # So that others see whom they wait for.
                    lock_watchdog_timeout=self.watchdog,
                    wait_while_unreachable=bool(self.wait),  # A server that is restarted meanwhile is waited for, too.
                    on_lock_lost=lambda *_: self._signals.wake(),
                )
                with connect(self.url, config) as client:
                    return self._while_connected(client)
        except Interrupted as interrupted:
            return ExitCode.SIGNALLED + interrupted.signum
        except RedissonError as error:  # embedded:// found no server program.
            raise Stopped(ExitCode.UNAVAILABLE, str(error)) from None

    def _while_connected(self, client: Redisson) -> int:
        try:
            guard = guard_of(client, self.name, self.mode)
            if self.mode.kind == "permits":
                fit_permits(client, self.name, self.mode.permits)
            return self._while_locked_in_time(guard)
        except LockTimeoutError:
            raise Stopped(ExitCode.NOT_LOCKED, self.mode.refusal(self.name, held_by(self.url, self.name))) from None
        except (RedisError, RedissonError) as error:
            if isinstance(error, LockError) and isinstance(error.__cause__, ResponseError):
                raise BadUsage(without_calls(str(error))) from None  # The name is that of something else.
            raise failure(error, client.url) from None

    def _while_locked_in_time(self, guard: RunGuard) -> int:
        """Acquire the lock, run the command, release the lock.

        Raises:
            LockTimeoutError: The lock was not acquired in time.
        """
        wait = self.wait
        if self.verbose and wait != 0:
            try:
                return self._while_locked(guard, 0)
            except LockTimeoutError:
                state = held_by(self.url, self.name)
                say(f"waiting for {guard.subject}{f', {state}' if state else ''}")
                wait = None if wait is None else max(0.0, self.begun + wait - time.monotonic())
        return self._while_locked(guard, wait)

    def _while_locked(self, guard: RunGuard, wait: float | None) -> int:
        status: int | None = None
        try:
            with guard.hold(wait, self.lease) as lease:
                self._signals.stop_interrupting()
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
        if lease.remaining() <= 0:
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
            command = Command(self._program, self.command, environment)
        except OSError as error:
            say(f"{self.command[0]}: {error.strerror}")
            return ExitCode.NOT_FOUND if error.errno == errno.ENOENT else ExitCode.NOT_EXECUTABLE
        with command:
            while (status := command.poll()) is None:
                if lease.remaining() <= 0:
                    self._say_ended(guard, "while the command ran; it is being ended", _loss_of(lease))
                    self._end(command)
                    return ExitCode.LOST
                for signum in self._signals.wait(min(lease.remaining(), CHECK_INTERVAL)):
                    command.forward(signum)
        return status

    def _end(self, command: Command) -> None:
        """End a command that is no longer protected: by SIGTERM, and by SIGKILL after the grace period."""
        kill_at = time.monotonic() + self.grace
        command.terminate()
        while not command.is_gone() and (left := kill_at - time.monotonic()) > 0:
            command_has_ended = command.poll() is not None
            interval = GROUP_CHECK_INTERVAL if command_has_ended else CHECK_INTERVAL
            for signum in self._signals.wait(min(left, interval)):
                command.forward(signum)
        if not command.is_gone():
            command.kill()

    def _say_acquired(self, lease: Lease[Any]) -> None:
        waited = duration_text(time.monotonic() - self.begun)
        token = "" if lease.token is None else f", token {lease.token} (PYREDISSON_TOKEN)"
        say(f"acquired after {waited}{token}")

    def _say_ended(self, guard: RunGuard, when: str, error: LockLostError | None) -> None:
        """Say that the lock is no longer held, and why. The end of a lease that was asked for is no loss."""
        lease = self.lease
        if lease is not None and time.monotonic() >= self.lease_ends - 0.01:
            say(f"the lease of {duration_text(lease)} of {guard.subject} ended {when}")
        else:
            say(f"{guard.subject} was lost {when}{'' if error is None else f' ({error})'}")


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


# ---- run modes -------------------------------------------------------------------------------------------------------
# The kinds of locks that ``pyredisson run`` can hold around a command.


#: What a message of the library advises to a programmer.
_CALLS = re.compile(r"[:.;,] [^:]*\b[a-z_]+\(\).*", re.DOTALL)


class Mode(NamedTuple):
    """Which kind of lock a name is.

    Attributes:
        kind: The plain lock, one side of a read-write lock, a fenced lock, a semaphore, or what runs once in a time.
        permits: How many commands may run at the same time, for a semaphore.
        at_least: Seconds from its beginning for which a command does not run again.
        at_most: Seconds after which its lease ends; ``None``: it is renewed.
    """

    kind: Literal["lock", "shared", "exclusive", "fenced", "permits", "once"] = "lock"
    permits: int = 1
    at_least: float = 0
    at_most: float | None = None

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
            lock = client.run_once(name, at_most=mode.at_most, at_least=mode.at_least).lock
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
        BadUsage: It has another number, and some are acquired; or it is a semaphore of the other kind.
    """
    semaphore = client.get_permit_expirable_semaphore(name, permits=permits)
    try:
        total = semaphore.get_permits()
    except LockError as error:
        if type(error) is not LockError or error.__cause__ is not None:
            raise
        raise BadUsage(str(error)) from None
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


# ---- child -----------------------------------------------------------------------------------------------------------
# A command that runs for us: its process, its terminal, and the signals between it and us.
#
# The rules this file keeps:
# * Each signal reaches the command exactly once. Without a terminal the command gets a process group of its own, and
#   our signals are forwarded to that group. With a terminal it stays in our group, as under flock(1) or env(1), so that
#   reading from the terminal, Ctrl-Z and ``fg`` work; the terminal then sends Ctrl-C to both of us, and other signals
#   are forwarded to the command alone, since the group includes our callers.


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


# ---- run -------------------------------------------------------------------------------------------------------------
# ``pyredisson run``: its arguments.


class Runner(click.Command):
    """A command whose options end where the command begins that it is to run, as those of env(1) and flock(1) do."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the options before the name and between the name and the command; the rest is the command's own."""
        ours, rest = self._split(ctx, args)
        if rest and "--" not in ours[-1:]:
            more, command = self._split(ctx, rest[1:])
            ours, rest = [*ours, *more], [*rest[:1], *command]
        options = [each for each in ours if each != "--"]
        return super().parse_args(ctx, [*options, "--", *rest])

    def _split(self, ctx: click.Context, args: list[str]) -> tuple[list[str], list[str]]:
        """Split arguments before the first one that is no option of ours."""
        ctx.allow_interspersed_args = False
        options = click.Command(None, params=[each for each in self.get_params(ctx) if isinstance(each, click.Option)])
        _, rest, _ = options.make_parser(ctx).parse_args(list(args))
        return args[: len(args) - len(rest)], rest


@click.command(cls=Runner, short_help="Run a command while a lock is held.", options_metavar="[OPTIONS]")
@click.argument("name", type=LockName())
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, shell_complete=complete_files)
@click.option("--wait", type=Duration(zero=True), help="Wait for the lock at most; 0: try once.  [default: no limit]")
@click.option("--lease", type=Duration(), help="Hold the lock at most.  [default: until the command ends]")
@click.option(
    "--grace", type=Duration(zero=True), default="5s", help="After the lock is lost, the time from SIGTERM to SIGKILL."
)
@click.option(
    "--watchdog",
    type=Duration(least=0.1),
    default="30s",
    help="Without --lease: how long the lock stays held after this machine has failed.",
)
@click.option(
    "-n", "permits", type=click.IntRange(min=1), metavar="N", help="Let N run at the same time (a semaphore)."
)
@click.option("--shared", is_flag=True, help="Hold the read side of a read-write lock, as all others with --shared.")
@click.option("--exclusive", is_flag=True, help="Hold the write side of that lock, alone.")
@click.option("--fenced", is_flag=True, help="Pass a fencing token to the command, in PYREDISSON_TOKEN.")
@click.option(
    "--at-least", type=Duration(), help="Run it once: not again before this time after its start, on any machine."
)
@click.option("-v", "--verbose", is_flag=True, help="Say who holds the lock while waiting, and when it was acquired.")
@url_option
def run(
    name: str,
    command: tuple[str, ...],
    wait: float | None,
    lease: float | None,
    grace: float,
    watchdog: float,
    permits: int | None,
    shared: bool,
    exclusive: bool,
    fenced: bool,
    at_least: float | None,
    verbose: bool,
    url: str,
) -> int:
    """Run COMMAND while the lock NAME is held, like flock(1) across machines.

    \b
        pyredisson run nightly-report --wait 0 ./report.sh --all
        pyredisson run deploy -n 3 -v --wait 10m ./deploy.sh
        pyredisson run nightly-report --lease 1h --at-least 10m ./report.sh

    Options after COMMAND are its own. A TIME is 5s, 10m or 1h30m; a plain number is seconds, and at most 3600. The
    command finds the name in PYREDISSON_LOCK. Signals are forwarded to it, and the lock is released when it has ended.
    Put a URL with a password into PYREDISSON_URL: other users can read a command line. Needs a POSIX system.

    All who use a NAME have to use it for the same kind of lock: without an option, with --shared or --exclusive, with
    --fenced, or with -n and the same N. Another N is accepted while no command runs, and wrong usage otherwise. With
    --at-least in a cron job on many machines it runs on one, although their clocks differ; the others exit with 75.

    \b
    Exit code: the command's own (128 + n if signal n ended it), or
       2  wrong usage
      69  the server is not available
      77  the server refuses: a missing permission, which is named, or a wrong password
      78  the URL does not fit what answers there: its kind, its database, or it is no Redis
      75  the lock was not acquired within --wait
      76  the lock was lost, or --lease ended, while the command ran; the command was ended
     126  the command is not executable
     127  the command was not found
    """
    check_posix("run")
    chosen = {"permits": permits is not None, "shared": shared, "exclusive": exclusive, "fenced": fenced}
    chosen["once"] = at_least is not None
    if sum(chosen.values()) > 1:
        raise BadUsage("only one of -n, --shared, --exclusive, --fenced and --at-least can be used")
    if at_least is not None:
        if lease is not None and lease < at_least:
            raise BadUsage("--lease must be at least as long as --at-least: after that time a crash frees the name")
        wait = wait or 0  # Who comes later skips it.

    kind = next((each for each, is_chosen in chosen.items() if is_chosen), "lock")
    mode = Mode(kind, permits or 1, at_least or 0, lease)  # type: ignore[arg-type]
    return Run(name, command, url, mode, wait, lease, grace, watchdog, verbose).run()
