"""The Java side, built by Maven: once for each version of Redisson, and kept for the next time."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

#: The newest; the last of the 3.x line; one from before the unlock latch, fenced locks and sharded channels.
CURRENT = "4.7.0"
LAST_3 = "3.52.0"
OLD = "3.16.8"
VERSIONS = (CURRENT, LAST_3, OLD)

_SOURCES = Path(__file__).parent / "java"
_KEPT = Path(__file__).parents[2] / ".pytest_cache" / "interop"


class NoJava(Exception):
    """The peer cannot be had on this machine; the message says why."""


def require(version: str) -> list[str]:
    """The command that starts the peer; skips the test without it, or fails it under ``PYREDISSON_REQUIRE_ALL=1``."""
    command, reason = _attempt(version)
    if command is None:
        if os.environ.get("PYREDISSON_REQUIRE_ALL") == "1":
            pytest.fail(f"PYREDISSON_REQUIRE_ALL=1: {reason}", pytrace=False)
        pytest.skip(str(reason))
    return command


@functools.cache
def _attempt(version: str) -> tuple[list[str] | None, str | None]:
    try:
        return peer_command(version), None
    except NoJava as error:
        return None, str(error)


#: It is small, short-lived, and has to share the machine with two more and with the tests.
SMALL = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def peer_command(version: str, *, settings: Sequence[str] = SMALL) -> list[str]:
    """The command that starts the peer, built before if need be.

    Args:
        version: Of Redisson.
        settings: Of the JVM.

    Raises:
        NoJava: There is no Java or no Maven here, or Maven could not fetch what is needed.
    """
    java = shutil.which("java")
    if java is None:
        raise NoJava("no java here: apt-get install default-jdk-headless")
    directory = _KEPT / version
    directory.mkdir(parents=True, exist_ok=True)
    # Several processes may want it at once; one builds, the others wait for that. So do those who want another version:
    # Mavens that fetch at the same time could spoil what the other is writing.
    with (_KEPT / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _build(version, directory)
    return [
        java,
        *settings,
        *("-cp", f"{directory / 'classes'}{os.pathsep}{directory / 'lib' / '*'}"),
        "pyredisson.Peer",
    ]


def _build(version: str, directory: Path) -> None:
    stamp = directory / "built-from"
    wanted = _fingerprint()
    if stamp.exists() and stamp.read_text() == wanted:
        return
    maven = shutil.which("mvn")
    if maven is None:
        raise NoJava("no mvn here: apt-get install maven")
    order = [
        *(maven, "-q", "-B", "-f", str(_SOURCES / "pom.xml")),
        *(f"-Dredisson.version={version}", f"-Dpeer.directory={directory}", "compile"),
    ]
    # What was fetched once is enough; only the first time needs the network.
    said = ""
    for how in (["-o"], []):
        try:
            done = subprocess.run([*order, *how], capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            raise NoJava(f"mvn could not fetch Redisson {version} within 600 s") from None
        said = done.stdout + done.stderr
        if done.returncode == 0:
            stamp.write_text(wanted)
            return
        if "COMPILATION ERROR" in said:
            raise AssertionError(f"the peer does not compile with Redisson {version}:\n{said}")
    raise NoJava(f"mvn could not build the peer with Redisson {version}: {said.strip().splitlines()[:3]}")


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for path in sorted(_SOURCES.rglob("*")):
        if path.is_file():
            digest.update(path.relative_to(_SOURCES).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()
