"""Running the real ``pyredisson`` command: a process of its own, its output in files that can be read at any time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[1]

# Signals that are ignored when a program starts stay ignored in all that it starts (under nohup, or with "&" in a
# script): tests must not depend on how they were started. With "terminal", what is on stdin becomes the controlling
# terminal of the new session.
LAUNCHER = """
import fcntl, os, signal, sys, termios
for name in ("HUP", "INT", "QUIT", "TERM", "USR1", "USR2"):
    signal.signal(signal.Signals["SIG" + name], signal.SIG_DFL)
kind, *command = sys.argv[1:]
if kind == "terminal":
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(command[0], command)
"""


def run_python(
    program: str, *arguments: str, flags: Sequence[str] = (), exit_code: int = 0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a Python program, which has to end so within a minute. Returns what it wrote."""
    command = [sys.executable, *flags, "-c", textwrap.dedent(program), *arguments]
    environment = {**os.environ, **environment}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == exit_code, done.stdout + done.stderr
    return done


def output_of(program: str, *arguments: str) -> str:
    """Run a Python program that has to end well, without a word on stderr, and return what it printed."""
    done = run_python(program, *arguments, flags=("-W", "ignore"))
    assert done.stderr == ""
    return done.stdout.strip()


def exists(pid: int) -> bool:
    """Whether a process exists, if only as a zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


PYREDISSON = (sys.executable, "-m", "pyredisson")


class Program:
    """A started program. It has a session of its own, and so no terminal unless it is given one."""

    def __init__(
        self,
        directory: Path,
        *command: str,
        environment: Mapping[str, str] | None = None,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        terminal: int | None = None,
    ) -> None:
        self._outputs = [directory / f"{name}-{os.urandom(4).hex()}" for name in ("stdout", "stderr")]
        with self._outputs[0].open("wb") as stdout, self._outputs[1].open("wb") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-c", LAUNCHER, "no terminal" if terminal is None else "terminal", *command],
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdin=stdin if terminal is None else terminal,
                stdout=stdout if terminal is None else terminal,
                stderr=stderr if terminal is None else terminal,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stdout(self) -> str:
        """What it has written so far."""
        return self._outputs[0].read_text()

    @property
    def stderr(self) -> str:
        """What it has written so far."""
        return self._outputs[1].read_text()

    def runs(self) -> bool:
        return self._process.poll() is None

    def send(self, signum: int) -> None:
        """Signal this process alone."""
        self._process.send_signal(signum)

    def exit_code(self, within: float = 30.0) -> int:
        """Wait for its end."""
        return self._process.wait(within)

    def end(self) -> None:
        """End it if it still runs, and give it time to end what it started."""
        if self.runs():
            self.send(signal.SIGTERM)
            try:
                self.exit_code(within=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self.exit_code()


@contextmanager
def programs(directory: Path) -> Iterator[Programs]:
    """Programs that end with the block."""
    started = Programs(directory)
    try:
        yield started
    finally:
        for program in started.all:
            program.end()


class Programs:
    """Starts programs and remembers them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.all: list[Program] = []

    def start(self, *command: str, **kwargs: object) -> Program:
        program = Program(self._directory, *command, **kwargs)
        self.all.append(program)
        return program

    def pyredisson(self, *arguments: str, url: str | None = None, **kwargs: object) -> Program:
        """``pyredisson ARGUMENTS``, with the URL where users have it: in the environment."""
        if url is not None:
            kwargs["environment"] = {"PYREDISSON_URL": url}
        return self.start(*PYREDISSON, *arguments, **kwargs)
