"""What the README says can be done as it says, in any shell, and its links lead somewhere."""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import pyredisson
from tests.examples import ROOT, blocks_of

README = ROOT / "README.md"
TEXT = README.read_text(encoding="utf-8")
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")

LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
LINKS = [link["target"] for link in LINK.finditer(TEXT)]
HERE = [target for target in LINKS if not target.startswith(("https:", "#"))]

#: Characters that a shell may expand outside of quotes; zsh fails if they match nothing.
EXPANDED = set("[]*?{}~^!")


def commands() -> Iterator[str]:
    """The commands of the README, without prompts and remarks, and those that are part of a sentence or table."""
    for block in blocks_of(README):
        if block.info == "console":
            for line in block.text.splitlines():
                assert line.startswith("$ "), line
                yield re.sub(r"\s+# .*", "", line[2:])
    yield from re.findall(r"`(pip install [^`]+)`", TEXT)


def unquoted(command: str) -> str:
    """What of a command stands outside of quotes."""
    return re.sub(r"\"[^\"]*\"|'[^']*'", "", command)


#: Those that are here. What another one would expand is refused by the test above.
SHELLS = [shell for shell in ("sh", "bash", "zsh") if shutil.which(shell)]

COMMANDS = list(dict.fromkeys(commands()))


def test_there_are_commands() -> None:
    assert {shlex.split(command)[0] for command in COMMANDS} == {"pip", "pyredisson", "make"}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_has_nothing_that_a_shell_would_expand(command: str) -> None:
    assert not EXPANDED & set(unquoted(command))


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_shell_passes_the_arguments_that_are_meant(command: str, shell: str, tmp_path: Path) -> None:
    program, *arguments = shlex.split(command)
    script = f"{program}() {{ printf '%s\\n' \"$@\"; }}\n{command}\n"
    done = subprocess.run([shell, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=20)
    assert (done.stdout.splitlines(), done.stderr) == (arguments, "")


@pytest.mark.parametrize("command", [each for each in COMMANDS if each.startswith("pip ")])
def test_what_is_installed_exists(command: str) -> None:
    pip, install, requirement = shlex.split(command)
    assert (pip, install) == ("pip", "install")
    name, _, extras = requirement.rstrip("]").partition("[")
    assert name in ("pyredisson", ".")
    declared = PYPROJECT.split("[project.optional-dependencies]")[1].split("\n[")[0]
    for extra in filter(None, extras.split(",")):
        assert re.search(rf"^{extra} = \[", declared, re.MULTILINE), extra


@pytest.mark.parametrize("command", [each for each in COMMANDS if each.startswith("make ")])
def test_a_target_of_make_exists(command: str) -> None:
    _, target = shlex.split(command)
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def run(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    program, *arguments = shlex.split(command)
    assert program == "pyredisson"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    return subprocess.run(
        [sys.executable, "-m", "pyredisson", *arguments],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_the_report_runs_while_the_lock_is_held(tmp_path: Path) -> None:
    [command] = (each for each in COMMANDS if each.startswith("pyredisson run"))
    report = tmp_path / "report.sh"
    report.write_text('#!/bin/sh\necho "$PYREDISSON_LOCK"\n', encoding="utf-8")
    report.chmod(0o755)
    with pyredisson.Redisson.embedded() as client:
        assert "redis://localhost:6379" in command
        done = run(command.replace("redis://localhost:6379", str(client.url)), tmp_path)
    assert (done.returncode, done.stdout) == (0, "nightly-report\n"), done.stderr


def test_the_demo_is_the_one_that_is_drawn(tmp_path: Path) -> None:
    """It is run by ``tests/real/test_demo.py``; here its options and the picture of its output."""
    assert "pyredisson demo" in COMMANDS
    defaults = run("pyredisson demo --help", tmp_path).stdout
    picture = (ROOT / "docs" / "_static" / "demo.svg").read_text(encoding="utf-8").replace("&#160;", " ")
    workers, seats = re.findall(r"(\d+) processes sell (\d+) seats", picture)[0]
    assert re.search(rf"Seats in stock\.\s+\[default: {seats};", defaults)
    assert re.search(rf"Processes that sell them\.\s+\[default: {workers};", defaults)
    assert f"{ {'4': 'Four'}[workers] } processes sell {seats} seats" in TEXT
    assert "taken over" in picture
    assert "…" not in picture, "its table was cut"


def test_the_badges_say_what_the_package_says() -> None:
    assert f"![version {pyredisson.__version__}](https://img.shields.io/badge/version-{pyredisson.__version__}-" in TEXT
    [oldest] = re.findall(r'^requires-python = ">=([\d.]+)"', PYPROJECT, re.MULTILINE)
    assert f"![Python {oldest} or newer](https://img.shields.io/badge/python-{oldest}%2B-" in TEXT


# ---- links -----------------------------------------------------------------------------------------------------------


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as hosts and MyST make them."""
    headings = re.findall(r"^#+ +(.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    included = re.findall(r"^```\{include\} (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    own = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return own.union(*(anchors_of(page.parent / name) for name in included))


@pytest.mark.parametrize("target", sorted(set(HERE)))
def test_a_link_leads_to_a_file_of_the_repository(target: str) -> None:
    path, _, anchor = target.partition("#")
    assert (ROOT / path).is_file()
    assert not anchor or anchor in anchors_of(ROOT / path)


@pytest.mark.parametrize(("page", "after"), [("README.md", "```output"), ("docs/tutorial.md", "```console")])
def test_how_to_install_before_the_first_release_stands_under_the_first_example(page: str, after: str) -> None:
    below = (ROOT / page).read_text(encoding="utf-8").split(f"\n{after}\n")[1]
    assert 'pip install ".[embedded]"' in below.split("```python")[0]


def test_pictures_are_described() -> None:
    assert all(link["text"] for link in LINK.finditer(TEXT) if link["picture"])


@pytest.fixture
def absolute(monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], str]:
    if importlib.util.find_spec("hatchling") is None:  # The function needs nothing of it.
        interface = ModuleType("hatchling.metadata.plugin.interface")
        interface.MetadataHookInterface = object  # type: ignore[attr-defined]
        parents = ("hatchling", "hatchling.metadata", "hatchling.metadata.plugin")
        for name, module in {**{name: ModuleType(name) for name in parents}, interface.__name__: interface}.items():
            monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.syspath_prepend(str(ROOT))
    from hatch_build import absolute

    return absolute


def test_links_are_absolute_on_a_package_index(absolute: Callable[[str, str], str]) -> None:
    shown = absolute(TEXT, "https://host/pyredisson/")
    targets = [link["target"] for link in LINK.finditer(shown)]
    assert len(targets) == len(LINKS)
    assert all(target.startswith("https://") for target in targets)
    assert "](https://host/pyredisson/blob/main/docs/tutorial.md)" in shown
    assert "](https://host/pyredisson/raw/main/docs/_static/demo.svg)" in shown


def test_other_links_stay_as_they_are(absolute: Callable[[str, str], str]) -> None:
    text = "[a](https://a/b) [b](#c) `x(y)` [c][d] ![e](mailto:x)"
    assert absolute(text, "https://host") == text
