"""``pyredisson top``: a table that is drawn once a second, or a record a round where no one looks at a terminal."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from types import FrameType

import redis.exceptions as rx

from pyredisson._owners.forks import is_posix
from pyredisson._tools.common import failure, say, signals
from pyredisson._tools.looking import inspecting
from pyredisson._tools.output import is_without_reader, without_reader
from pyredisson._tools.top.rounds import Record
from pyredisson._tools.top.sampler import Sampler
from pyredisson._tools.top.show import screen_of, text_of

INTERVAL = 1.0  # seconds
ROWS = 20  # in a record


def run_top(pattern: str | None, *, url: str, prefix: str, as_json: bool, rounds: int | None) -> int:
    """Show what all locks do, and return the exit code.

    Raises:
        BadUsage: The URL is not valid.
    """
    try:
        with inspecting(url, prefix) as inspector, closing(Sampler(inspector, pattern, rows=ROWS)) as sampler:
            if as_json or not _is_terminal():
                return _print_rounds(sampler, as_json=as_json, rounds=rounds)
            return _draw_rounds(sampler, rounds=rounds)
    except BrokenPipeError:
        return without_reader()


def _is_terminal() -> bool:
    try:
        return os.environ.get("TERM", "dumb") != "dumb" and os.isatty(sys.stdout.fileno())
    except (OSError, ValueError, AttributeError):
        return False


def _rounds(sampler: Sampler, rounds: int | None, wait: Callable[[float], bool]) -> Iterator[Record]:
    """Yield the rounds, a second from one to the next; a server that is away for a while ends nothing."""
    count = 0
    failing = False
    due = time.monotonic() + INTERVAL  # What happens in a second is counted: there is nothing to count before.
    while wait(max(0.0, due - time.monotonic())):
        due = time.monotonic() + INTERVAL
        try:
            seen = sampler.round()
        except (rx.RedisError, OSError) as error:
            if not failing:
                say(failure(error)[1])
            failing = True
            continue
        failing = False
        yield seen
        count += 1
        if count == rounds:
            return


def _print_rounds(sampler: Sampler, *, as_json: bool, rounds: int | None) -> int:
    def wait(seconds: float) -> bool:
        time.sleep(seconds)
        return not is_without_reader()

    for seen in _rounds(sampler, rounds, wait):
        for line in [json.dumps(seen)] if as_json else text_of(seen):
            print(line, flush=True)
    return 0


def _draw_rounds(sampler: Sampler, *, rounds: int | None) -> int:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console()
    with _keys() as wait, Live(Text("looking ..."), console=console, screen=True, auto_refresh=False) as live:
        for seen in _rounds(sampler, rounds, wait):
            live.update(screen_of(seen, console), refresh=True)
            sampler.rows = max(1, console.height)
    return 0


class _Ended(BaseException):
    """A signal that would leave the terminal as we have set it."""

    def __init__(self, signum: int) -> None:
        self.signum = signum


@contextmanager
def _keys() -> Iterator[Callable[[float], bool]]:
    """Read keys one by one. Gives a function that waits, and returns whether to go on.

    After the block the terminal is as it was, also when Ctrl-C or SIGTERM ends it: then the process ends by that, too.
    """

    def end(signum: int, frame: FrameType | None) -> None:
        raise _Ended(signum)

    before = {signum: signal.signal(signum, end) for signum in signals("SIGINT", "SIGTERM", "SIGHUP")}
    termios = import_module("termios") if is_posix() and os.isatty(0) else None  # Windows has none.
    settings = None if termios is None else termios.tcgetattr(0)
    ended: int | None = None
    try:
        if termios is not None:
            import_module("tty").setcbreak(0)
        yield _wait if termios is None else _wait_for_key
    except _Ended as error:
        ended = error.signum
    finally:
        if termios is not None:
            termios.tcsetattr(0, termios.TCSADRAIN, settings)
        for signum, handler in before.items():
            signal.signal(signum, handler)
    if ended is not None:
        signal.signal(ended, signal.SIG_DFL)
        os.kill(os.getpid(), ended)


def _wait(seconds: float) -> bool:
    time.sleep(seconds)
    return True


def _wait_for_key(seconds: float) -> bool:
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        if select.select([0], [], [], left)[0] and os.read(0, 1) in (b"q", b"Q", b""):
            return False
    return True
