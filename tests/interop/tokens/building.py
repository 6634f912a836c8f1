"""The programs with redsync (Go) and node-redlock (Node), built by their package managers once and kept."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.interop.building import KEPT, available, build, building, program

LIBRARIES = ("redsync", "node-redlock")

_HERE = Path(__file__).parent


def require(library: str) -> list[str]:
    """The command that starts the peer; see ``available()``."""
    return available(_command, library)


def _command(library: str) -> list[str]:
    kept = KEPT / library
    with building(kept):
        if library == "redsync":
            peer = kept / "peer"
            build(
                library,
                _HERE / "go",
                kept,
                [program("go", "golang-go"), "build", "-o", str(peer), "."],
                cwd=_HERE / "go",
            )
            return [str(peer)]
        node, npm = program("node", "nodejs"), program("npm", "npm")
        # npm puts modules next to the lock file.
        shutil.copytree(_HERE / "node", kept, dirs_exist_ok=True)
        build(library, _HERE / "node", kept, [npm, "ci", "--no-audit", "--no-fund"], cwd=kept)
        return [node, str(kept / "peer.js")]
