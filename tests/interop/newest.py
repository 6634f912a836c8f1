"""Say which peers have newer releases than the tests run with: ``make test-newest``. It asks registries; CI does not.

The exit status is 1 if there is a newer one.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from tests.interop.building import CURRENT

_HERE = Path(__file__).parent
_GO, _NODE, _JAVA = _HERE / "tokens" / "go", _HERE / "tokens" / "node", _HERE / "java"


class Peer(NamedTuple):
    """A library that the tests run with, the version that they run, and what finds the newest one."""

    name: str
    tested: str
    newest: Callable[[], str]


def peers() -> list[Peer]:
    """All peers, with the versions of the files that pin them; those of Python are installed."""
    go = re.findall(r"^\t(\S+) v(\S+)$", (_GO / "go.mod").read_text(), re.M)
    node = json.loads((_NODE / "package.json").read_text())["dependencies"]
    return [
        Peer("Redisson", CURRENT, _newest_redisson),
        *(Peer(name, version, lambda name=name: _newest_of_go(name)) for name, version in go),
        *(
            Peer(name, version, lambda name=name: _run("npm", "view", name, "version"))
            for name, version in node.items()
        ),
        *(
            Peer(name, metadata.version(name), lambda name=name: _newest_of_python(name))
            for name in ("redis", "pottery")
        ),
    ]


def is_newer(one: str, other: str) -> bool:
    """Return whether a version is newer than another one: `4.10.0` is newer than `4.9.1`."""
    first, second = ([int(number) for number in re.findall(r"\d+", version)] for version in (one, other))
    return first > second


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=_GO)
    if done.returncode:
        raise SystemExit(f"{' '.join(command[:4])} failed: {(done.stderr or done.stdout).strip()[-500:]}")
    return done.stdout.strip()


def _newest_of_python(name: str) -> str:
    found = re.match(r"\S+ \((\S+)\)", _run(sys.executable, "-m", "pip", "index", "versions", name))
    return found[1] if found else ""


def _newest_of_go(module: str) -> str:
    versions = _run("go", "list", "-m", "-versions", module).split()[1:]
    return next(version[1:] for version in reversed(versions) if "-" not in version)


def _newest_redisson() -> str:
    with tempfile.NamedTemporaryFile("r", suffix=".txt") as file:
        goal = "org.codehaus.mojo:versions-maven-plugin:2.18.0:display-dependency-updates"
        _run("mvn", "-q", "-B", "-f", str(_JAVA / "pom.xml"), goal, f"-Dversions.outputFile={file.name}")
        found = re.search(r"org\.redisson:redisson \.* \S+ ->\s+(\S+)", file.read())
    return found[1] if found else CURRENT


def main() -> int:
    """Print a line for each peer; return the exit status."""
    old = 0
    for peer in peers():
        newest = peer.newest()
        newer = is_newer(newest, peer.tested)
        old += newer
        print(f"{peer.name}: {peer.tested} is tested" + (f", {newest} exists" if newer else " and is the newest"))
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
