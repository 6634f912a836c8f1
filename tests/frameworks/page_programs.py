"""The programs of the pages on integrations, which are in ``examples``: saved in a folder, and run as the page says.

A page is run as a reader would: its ``pip install`` in a fresh environment, with this checkout's wheel and nothing
else, then its commands, whose output has to be what the page shows. Only ports differ, and where the server is.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import ROOT, blocks_of, matches
from tests.frameworks.common import Program, Surroundings, require
from tests.servers import free_port
from tests.waiting import until

SERVER = "redis://localhost:6379"
SITE = re.compile(r"\b(?:localhost:|PORT=)(80\d\d)\b")

#: How pip says that there is no network.
NO_NETWORK = re.compile("NewConnectionError|name resolution|Network is unreachable|ConnectTimeout")

WITHIN = 60.0


def save_programs(example: str, folder: Path, url: str) -> None:
    """Save the files of ``examples/{example}``, with another URL of the server."""
    shutil.copytree(
        ROOT / "examples" / example, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__")
    )
    for file in folder.rglob("*.py"):
        file.write_text(file.read_text(encoding="utf-8").replace(SERVER, url), encoding="utf-8")


class Environments:
    """Fresh environments, one for each list of requirements, with the wheel of this checkout."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, Path] = {}
        self._wheel: Path | None = None

    def get(self, requirements: str) -> Path:
        """Return the programs of an environment, in which what stands behind ``pip install`` was installed."""
        if requirements not in self._made:
            require("hatchling")
            if self._wheel is None:
                _pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(self._folder), str(ROOT))
                (self._wheel,) = self._folder.glob("*.whl")
            environment = self._folder / str(len(self._made))
            subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
            programs = environment / "bin"
            wanted = re.sub(r"(?<![\w-])pyredisson\b", str(self._wheel), requirements).replace('"', "").split()
            _pip("--python", str(programs / "python"), "install", *wanted)
            self._made[requirements] = programs
        return self._made[requirements]


def _pip(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if done.returncode and NO_NETWORK.search(done.stderr) and os.environ.get("PYREDISSON_REQUIRE_ALL") != "1":
        pytest.skip("pip reaches no index here")
    assert done.returncode == 0, done.stderr


class Page:
    """The commands of a page, run in the folder of its programs.

    Args:
        name: Which page, and which folder of ``examples``.
        version: A section of the page, ``## {title} {version}``, which has programs of its own.
    """

    def __init__(self, name: str, surroundings: Surroundings, environments: Environments, version: str = "") -> None:
        self.folder = surroundings.folder / "page"
        self._surroundings = surroundings
        self._commands = commands_of(ROOT / "docs" / "integrations" / f"{name}.md", version)
        self._entered: set[tuple[str, str]] = set()
        self._url = surroundings.server.url.rpartition("/")[0]
        self._ports: dict[str, int] = {}
        save_programs(name + version, self.folder, self._url)
        programs = environments.get(self._enter("pip install ")[0].removeprefix("pip install "))
        path = os.pathsep.join([str(programs), os.defpath])  # Not what is installed for the tests.
        self._environment = {**os.environ, "PATH": path, "PYTHONPATH": "", "PYTHONUNBUFFERED": "1"}

    def start(self, beginning: str, options: str = "", *, ready: str) -> Program:
        """Start the command that begins so, which goes on until the test ends, and wait until it logs ``ready``."""
        command = f"exec {self._enter(beginning)[0]} {options}"
        program = self._surroundings.start(["bash", "-c", command], self._environment, self.folder)
        until(lambda: ready in program.output() or not program.running(), WITHIN, what=f"{ready!r} is logged")
        assert program.running(), program.output()
        return program

    def serve(self, beginning: str, options: str, *, ready: str) -> Program:
        """Start the command that begins so, with options that say on which port it answers HTTP, ``{port}``."""
        return self.start(beginning, options.format(port=self._port("8000")), ready=ready)

    def run(self, beginning: str) -> str:
        """Run the command that begins so, and return what it prints: what the page shows below it, if anything."""
        command, shown = self._enter(beginning)
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=WITHIN,
        )
        assert done.returncode == 0, done.stderr
        assert not shown or matches(shown, done.stdout), (shown, done.stdout, done.stderr)
        return done.stdout

    def check_all_entered(self) -> None:
        """See that no command of the page was left out."""
        assert [each for each in self._commands if each not in self._entered] == []

    def _enter(self, beginning: str) -> tuple[str, str]:
        """The next command that begins so, or the last one again, with what the page shows below it."""
        found = [each for each in self._commands if each[0].startswith(beginning)]
        assert found, f"the page has no command {beginning!r}"
        command, shown = next((each for each in found if each not in self._entered), found[-1])
        self._entered.add((command, shown))
        command = SITE.sub(lambda site: site[0].replace(site[1], str(self._port(site[1]))), command)
        return command.replace(SERVER, self._url), shown

    def _port(self, printed: str) -> int:
        """The free port that stands for one of the page."""
        if printed not in self._ports:
            self._ports[printed] = free_port()
        return self._ports[printed]


def commands_of(page: Path, version: str = "") -> list[tuple[str, str]]:
    """The commands of a page, or of its section for a version, each with what it shows below it."""
    lines = page.read_text(encoding="utf-8").splitlines()
    first, last = 0, len(lines)
    if version:
        sections = [number for number, line in enumerate(lines) if line.startswith("## ")]
        first = next(number for number in sections if lines[number].endswith(f" {version}"))
        last = next(number for number in sections if number > first)
    text = "\n".join(block.text for block in blocks_of(page) if block.info == "console" and first < block.line <= last)
    found = [each.partition("\n") for each in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]]
    return [(command, shown) for command, _, shown in found]
