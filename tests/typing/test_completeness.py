"""How much of what the installed package exports has types that every type checker sees alike."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pyredisson

#: Percent of the exported symbols.
WANTED = 99


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What ``pyright --verifytypes`` says of the package where users have it: installed, not editable."""
    pytest.importorskip("pyright")
    directory = tmp_path_factory.mktemp("installed")
    # It asks the first `python` on the PATH where packages are, whatever --pythonpath says.
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", directory / "venv"], check=True, timeout=60)
    [packages] = directory.glob("venv/lib/python*/site-packages")
    shutil.copytree(Path(pyredisson.__file__).parent, packages / "pyredisson")
    dependencies = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("\n".join(dependencies))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--verifytypes", "pyredisson", "--ignoreexternal", "--outputjson"],
        cwd=directory,
        env={**os.environ, "PATH": f"{directory / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.stdout.startswith("{"), done.stderr
    report: dict[str, Any] = json.loads(done.stdout)["typeCompleteness"]
    assert report["pyTypedPath"], "the package was not found"
    return report


def unannotated(report: dict[str, Any]) -> list[str]:
    return sorted(
        symbol["name"]
        for symbol in report["symbols"]
        if any("missing type annotation" in each["message"] for each in symbol["diagnostics"])
    )


def test_the_types_of_what_is_exported_are_complete(report: dict[str, Any]) -> None:
    score = 100 * report["completenessScore"]
    assert score >= WANTED, f"{score:.1f} %; not annotated: {', '.join(unannotated(report))}"
