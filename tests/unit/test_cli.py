"""The command line as far as it needs no server."""

import os
import re

import pytest

from pyredisson._tools.cli import COMMANDS
from pyredisson._tools.common import ExitCode, plain
from pyredisson._tools.demo import SaleResult, show_results
from pyredisson._tools.run import find_program
from tests.command_line import run_python


def test_the_help_groups_the_commands(command_line):
    program = command_line.pyredisson("--help")
    assert program.exit_code() == 0
    titles = re.findall(r"^(\w+):$", program.stdout, re.MULTILINE)
    assert titles == ["Options", "Look", "Act", "Export", "Try"]
    assert re.findall(r"^  ([a-z]+) ", program.stdout, re.MULTILINE) == list(COMMANDS)


@pytest.mark.parametrize(
    ("words", "missing", "extra"),
    [
        ("", "click", "cli"),
        ("", "rich", "cli"),
        ("web", "starlette", "web"),
        ("metrics --once", "prometheus_client", "cli,prometheus"),
    ],
)
def test_without_the_extra_it_says_what_to_install(words, missing, extra):
    program = f"import sys; sys.modules[{missing!r}] = None; from pyredisson.__main__ import main; main()"
    done = run_python(program, *words.split(), exit_code=2)
    assert f'pip install "pyredisson[{extra}]"' in done.stderr
    assert missing.replace("_", "-") in done.stderr
    assert "Traceback" not in done.stderr


def test_find_program(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    program = tmp_path / "program"
    program.write_text("")
    (tmp_path / "folder").mkdir()
    assert find_program("program") is ExitCode.NOT_EXECUTABLE
    assert find_program("./program") is ExitCode.NOT_EXECUTABLE
    program.chmod(0o755)
    assert find_program("program") == str(program)
    assert find_program("./program") == os.path.join(".", "program")
    assert find_program("folder") is ExitCode.NOT_FOUND
    assert find_program("./folder") is ExitCode.NOT_EXECUTABLE
    assert find_program("") is ExitCode.NOT_FOUND


EXACT = SaleResult("with lock", seats=5, sold=5, duplicates=0, left=0, seconds=1.0)
OVERSOLD = SaleResult("without lock", seats=5, sold=7, duplicates=2, left=0, seconds=1.0)


@pytest.mark.parametrize(
    ("unlocked", "locked", "takeover", "exit_code", "said"),
    [
        (OVERSOLD, EXACT, 2.5, 0, "sold what others had already sold"),
        (EXACT, EXACT, 2.5, 0, "by luck"),
        (OVERSOLD, OVERSOLD, 2.5, 1, "must not happen"),
        (OVERSOLD, SaleResult("with lock", 5, 5, 1, 0, 1.0), 2.5, 1, "must not happen"),
        (OVERSOLD, SaleResult("with lock", 5, 4, 0, 1, 1.0), 2.5, 1, "must not happen"),
        (OVERSOLD, EXACT, None, 1, "no other process acquired its lock"),
    ],
)
def test_what_the_demo_makes_of_its_results(unlocked, locked, takeover, exit_code, said):
    from rich.console import Console

    console = Console(width=80, record=True)
    assert show_results(console, unlocked, locked, takeover) == exit_code
    text = console.export_text()
    assert said in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("as it is: ×2, 'äöü' …", "as it is: ×2, 'äöü' …"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("two\r\nlines\t", "two\\r\\nlines\\t"),
        ("\x9b31m", "\\x9b31m"),
        ("from right \u202e to left", "from right \\u202e to left"),
        ("\ud800", "\\ud800"),
    ],
)
def test_control_characters_are_escaped(text, shown):
    assert plain(text) == shown
