"""Programs of other languages, built once and kept; the Java side by Maven, for each version of Redisson."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

#: The newest; the last of the 3.x line; one from before the unlock latch, fenced locks and sharded channels.
CURRENT = "4.7.0"
LAST_3 = "3.52.0"
OLD = "3.16.8"
VERSIONS = (CURRENT, LAST_3, OLD)

_SOURCES = Path(__file__).parent / "java"
KEPT = Path(__file__).parents[2] / ".pytest_cache" / "interop"


class NotBuilt(Exception):
    """A peer is not available on this machine; the message says why."""


def require(version: str) -> list[str]:
    """The command that starts a JVM with this Redisson; see ``available()``."""
    return available(peer_command, version)


def available(command: Callable[[str], list[str]], peer: str) -> list[str]:
    """The command that starts a peer; skips the test without it, or fails it under ``PYREDISSON_REQUIRE_ALL=1``."""
    found = _attempt(command, peer)
    if isinstance(found, str):
        if os.environ.get("PYREDISSON_REQUIRE_ALL") == "1":
            pytest.fail(f"PYREDISSON_REQUIRE_ALL=1: {found}", pytrace=False)
        pytest.skip(found)
    return found


@functools.cache
def _attempt(command: Callable[[str], list[str]], peer: str) -> list[str] | str:
    try:
        return command(peer)
    except NotBuilt as error:
        return str(error)


#: It is small, short-lived, and has to share the machine with two more and with the tests.
SMALL = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def peer_command(version: str, *, settings: Sequence[str] = SMALL) -> list[str]:
    """The command that starts the peer, built before if need be.

    Args:
        version: Of Redisson.
        settings: Of the JVM.

    Raises:
        NotBuilt: There is no Java or no Maven here, or Maven could not fetch what is needed.
    """
    java = program("java", "default-jdk-headless")
    directory = KEPT / version
    with building(directory):
        order = [
            *("mvn", "-q", "-B", "-f", str(_SOURCES / "pom.xml")),
            *(f"-Dredisson.version={version}", f"-Dpeer.directory={directory}", "compile"),
        ]
        # What was fetched once is enough; only the first time needs the network.
        build(f"the peer with Redisson {version}", _SOURCES, directory, [*order, "-o"], order)
    return [
        java,
        *settings,
        *("-cp", f"{directory / 'classes'}{os.pathsep}{directory / 'lib' / '*'}"),
        "pyredisson.Peer",
    ]


def program(name: str, package: str) -> str:
    """The path of a program."""
    path = shutil.which(name)
    if path is None:
        raise NotBuilt(f"no {name} here: apt-get install {package}")
    return path


@contextmanager
def building(directory: Path, *, by_maven: bool = True) -> Iterator[None]:
    """Build something in this folder: several processes may want it at once, so one builds, and the others wait.

    That is so for all folders of Maven: two that fetch at the same time could spoil what the other is writing.
    """
    for each in (KEPT, directory):
        each.mkdir(parents=True, exist_ok=True)
    with (KEPT if by_maven else directory).joinpath("lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(what: str, sources: Path, directory: Path, *commands: list[str], cwd: Path | None = None) -> None:
    """Run the first of these commands that succeeds, unless that was done for the same sources.

    Raises:
        NotBuilt: None of them succeeded.
    """
    stamp, digest = directory / "built-from", hashlib.sha256()
    for path in sorted(sources.rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(sources).as_posix().encode() + path.read_bytes())
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    said = ""
    for order in commands:
        try:
            done = subprocess.run(
                order, cwd=cwd, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL, check=False
            )
        except FileNotFoundError:
            raise NotBuilt(f"no {order[0]} here, with which {what} is built") from None
        except subprocess.TimeoutExpired:
            raise NotBuilt(f"{what} could not be fetched within 600 s") from None
        said = done.stdout + done.stderr
        if done.returncode == 0:
            stamp.write_text(digest.hexdigest())
            return
        assert "COMPILATION ERROR" not in said, f"{what} does not compile:\n{said}"
    raise NotBuilt(f"{what} could not be built: {said.strip().splitlines()[-3:]}")
