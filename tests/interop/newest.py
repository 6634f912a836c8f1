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
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

_HERE = Path(__file__).parent
_LIBRARIES, _TOKENS = _HERE / "libraries", _HERE / "tokens"
_GO, _NODE = _TOKENS / "go", _TOKENS / "node"


class Peer(NamedTuple):
    """A library that the tests run with, the version that they run, and what finds the newest one."""

    name: str
    tested: str
    newest: Callable[[], str]


def peers() -> list[Peer]:
    """Return all peers, with the versions of the files that pin them."""
    found = []
    for file in (_GO / "go.mod", _LIBRARIES / "go" / "go.mod"):
        for name, version in re.findall(r"^\t(\S+) v(\S+)$", file.read_text(), re.M):
            found.append(Peer(name, version, partial(_newest_of_go, name)))
    for file in (_NODE / "package.json", _LIBRARIES / "node" / "package.json"):
        for name, version in json.loads(file.read_text())["dependencies"].items():
            if not version.startswith("npm:"):  # That is a pre-release next to the release.
                found.append(Peer(name, version, partial(_run, "npm", "view", name, "version")))
    for name, version in re.findall(r"^(\S+)==(\S+)$", (_LIBRARIES / "python" / "requirements.txt").read_text(), re.M):
        found.append(Peer(name, version, partial(_newest_of_python, name)))
    for pom in (_HERE / "java" / "pom.xml", _LIBRARIES / "java" / "pom.xml"):
        text = pom.read_text()
        properties = dict(re.findall(r"<(\S+\.version)>([^<]+)</", text))
        for name, value in re.findall(r"<artifactId>([^<]+)</artifactId>\s*<version>\$\{([^}]+)\}", text):
            found.append(Peer(name, properties[value], partial(_newest_of_java, pom, name, properties[value])))
    return sorted({peer[:2]: peer for peer in found}.values(), key=lambda peer: peer[:2])


def is_newer(one: str, other: str) -> bool:
    """Return whether a version is newer than another one: `4.10.0` is newer than `4.9.1`."""
    first, second = ([int(number) for number in re.findall(r"\d+", version)] for version in (one, other))
    return first > second


@cache
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


def _newest_of_java(pom: Path, artifact: str, tested: str) -> str:
    found = re.search(rf":{re.escape(artifact)} \.+\s+\S+ ->\s+(\S+)", _updates(pom))
    return found[1] if found else tested


@cache
def _updates(pom: Path) -> str:
    """Return what Maven says of newer versions."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "updates"
        goal = "org.codehaus.mojo:versions-maven-plugin:2.18.0:display-dependency-updates"
        final = "-Dmaven.version.ignore=.*-alpha.*,.*-beta.*,.*-rc.*,.*-RC.*,.*-M.*"
        _run("mvn", "-q", "-B", "-f", str(pom), goal, final, f"-Dversions.outputFile={file}")
        return file.read_text() if file.exists() else ""


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
