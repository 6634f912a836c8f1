"""The programs with the lock libraries of each language, built by their package managers once and kept."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tests.interop.building import KEPT, SMALL, available, build, building, program

LANGUAGES = ("python", "node", "go", "java")

_HERE = Path(__file__).parent


def require(language: str) -> list[str]:
    """The command that starts the program; see ``available()``."""
    return available(_command, language)


def _command(language: str) -> list[str]:
    kept, sources = KEPT / f"libraries-{language}", _HERE / language
    with building(kept, by_maven=language == "java"):
        match language:
            case "python":
                pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "-q", "--upgrade"]
                install = [*pip, "--target", str(kept), "-r", str(sources / "requirements.txt")]
                build(language, sources, kept, install)
                return ["env", f"PYTHONPATH={kept}", sys.executable, str(sources / "peer.py")]
            case "node":
                node, npm = program("node", "nodejs"), program("npm", "npm")
                # npm puts modules next to the lock file.
                shutil.copytree(sources, kept, dirs_exist_ok=True)
                build(language, sources, kept, [npm, "ci", "--no-audit", "--no-fund"], cwd=kept)
                return [node, str(kept / "peer.js")]
            case "go":
                # rueidis is large, and the compiler needs half as long for it without optimizations.
                flags = ["-gcflags=github.com/redis/rueidis/...=-N -l", "-ldflags=-s -w"]
                order = [program("go", "golang-go"), "build", *flags, "-o", str(kept / "peer"), "."]
                build(language, sources, kept, order, cwd=sources)
                return [str(kept / "peer")]
            case _:
                java = program("java", "default-jdk-headless")
                order = ["mvn", "-q", "-B", "-f", str(sources / "pom.xml"), f"-Dpeer.directory={kept}", "compile"]
                build(language, sources, kept, [*order, "-o"], order)
                classes = f"{kept / 'classes'}{os.pathsep}{kept / 'lib' / '*'}"
                return [java, *SMALL, "-cp", classes, "pyredisson.Libraries"]
