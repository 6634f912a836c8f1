"""Small programs of Go, built for the time of a figure where there is ``go``; and redsync, the usual Redlock of Go."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from .rounds import say
from .server import Server
from .throughput import WARM_UP_SECONDS, Counted, Spent

__all__ = ["REDSYNC", "Redsync", "built", "built_redsync"]

REDSYNC = "redsync (Go)"
END_SECONDS = 120.0


class Redsync:
    """The program that was built; the processor time that it tells is its own."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def pairs(self, servers: Sequence[Server], goroutines: int, seconds: float) -> Counted:
        """Acquire and release, each goroutine a lock of its own: on one server, or as Redlock on several."""
        for each in servers:
            each.reset()
        addresses = [f"{each.host}:{each.port}" for each in servers]
        words = [str(self._program), *map(str, (WARM_UP_SECONDS, seconds, goroutines)), *addresses]
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds + END_SECONDS)
        if done.returncode:
            raise RuntimeError(f"{REDSYNC} failed: {done.stderr.strip().splitlines()[:1]}")
        pairs, wall, cpu, in_all = done.stdout.split()
        return Counted(int(in_all), int(pairs), Spent(float(wall), float(cpu)))


@contextmanager
def built(name: str) -> Iterator[Path | None]:
    """Build the program in the folder of that name; ``None``, and a word about why, where that cannot be done."""
    if shutil.which("go") is None:
        say(f"{name}: there is no go on the PATH")
        yield None
        return
    sources = Path(__file__).parent / name
    with tempfile.TemporaryDirectory() as folder:
        for file in ("main.go", "go.mod", "go.sum"):
            shutil.copy(sources / f"{file}.txt", Path(folder) / file)
        done = subprocess.run(["go", "build", "-mod=mod", "-o", name, "."], cwd=folder, capture_output=True, text=True)
        if done.returncode:
            say(f"{name}: go build failed: {done.stderr.strip().splitlines()[-1:]}")
            yield None
        else:
            yield Path(folder) / name


@contextmanager
def built_redsync() -> Iterator[Redsync | None]:
    """Build redsync; ``None``, and a word about why, where that cannot be done."""
    with built("redsync") as program:
        yield None if program is None else Redsync(program)
