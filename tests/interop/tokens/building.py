"""The programs with redsync (Go) and node-redlock (Node), built by their package managers once and kept."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

LIBRARIES = ("redsync", "node-redlock")

_HERE = Path(__file__).parent
_KEPT = Path(__file__).parents[3] / ".pytest_cache" / "interop"


class NoPeer(Exception):
    """The peer is not available on this machine; the message says why."""


def require(library: str) -> list[str]:
    """Return the command that starts the peer.

    Without it, the test is skipped, or fails under ``PYREDISSON_REQUIRE_ALL=1``.
    """
    command, reason = _attempt(library)
    if command is None:
        if os.environ.get("PYREDISSON_REQUIRE_ALL") == "1":
            pytest.fail(f"PYREDISSON_REQUIRE_ALL=1: {reason}", pytrace=False)
        pytest.skip(reason)
    return command


@functools.cache
def _attempt(library: str) -> tuple[list[str] | None, str]:
    kept = _KEPT / library
    kept.mkdir(parents=True, exist_ok=True)
    try:
        # One process builds; the others wait for it.
        with (kept / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return (_redsync(kept) if library == "redsync" else _node_redlock(kept)), ""
    except NoPeer as error:
        return None, str(error)


def _redsync(kept: Path) -> list[str]:
    go = _program("go", "golang-go")
    program = kept / "peer"
    _build("redsync", kept, _HERE / "go", [go, "build", "-o", str(program), "."])
    return [str(program)]


def _node_redlock(kept: Path) -> list[str]:
    node, npm = _program("node", "nodejs"), _program("npm", "npm")
    # npm puts modules next to the lock file.
    shutil.copytree(_HERE / "node", kept, dirs_exist_ok=True)
    _build("node-redlock", kept, kept, [npm, "ci", "--no-audit", "--no-fund"])
    return [node, str(kept / "peer.js")]


def _program(name: str, package: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise NoPeer(f"no {name} here: apt-get install {package}")
    return path


def _build(library: str, kept: Path, sources: Path, command: list[str]) -> None:
    """Run the command in the folder of the sources, unless it was run for the same sources."""
    stamp = kept / "built-from"
    digest = hashlib.sha256()
    for path in sorted((_HERE / ("go" if library == "redsync" else "node")).iterdir()):
        digest.update(path.name.encode() + path.read_bytes())
    if stamp.exists() and stamp.read_text() == digest.hexdigest():
        return
    try:
        done = subprocess.run(
            command, cwd=sources, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        raise NoPeer(f"{library} could not be fetched within 600 s") from None
    if done.returncode != 0:
        raise NoPeer(f"{library} could not be built: {(done.stdout + done.stderr).strip().splitlines()[-3:]}")
    stamp.write_text(digest.hexdigest())
