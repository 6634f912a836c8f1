"""The command line's reference is what click says today, and each command of the documentation runs as written."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pyredisson._tools.cli import COMMANDS, cli
from tests.examples import ROOT, blocks_of, pages

GENERATED = ROOT / "docs" / "_generated" / "cli"
REFERENCE = [ROOT / "docs" / "reference" / name for name in ("cli.md", "cli-inspect.md")]

#: Programs that take part in commands and are not looked into.
OTHERS = {"[", "cat", "celery", "curl", "dramatiq", "env", "export", "kill", "python", "rq", "seq", "uvicorn"}

#: Each is replaced by a program that writes down how it was called.
LOOKED_INTO = ("pyredisson", "pip", "make")

SHELLS = [shell for shell in ("bash", "zsh") if shutil.which(shell)]

RECORD = """\
import json, os, sys
with open(os.environ["CALLS"], "a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
"""


def commands() -> list[tuple[Path, str]]:
    """Each command, with its page: of the blocks, and how to install, which that page says in sentences, too."""
    page = ROOT / "docs" / "install.md"
    installs = re.findall(r"`(pip install [^`]+)`", page.read_text(encoding="utf-8"))
    return [(page, install) for install in dict.fromkeys(installs)] + [
        (page, command)
        for page in pages()
        for block in blocks_of(page)
        if block.info == "console"
        for command in block.commands
    ]


def ids() -> list[str]:
    return [f"{page.relative_to(ROOT)}: {command}" for page, command in commands()]


def unquoted(command: str) -> str:
    """The command without what stands in quotes."""
    return re.sub(r"'[^']*'|\"(?:\\.|[^\"])*\"", "''", command)


def hazards(command: str) -> list[str]:
    """What zsh takes for something else, although bash does not: it is the shell of macOS."""
    bare = unquoted(command).replace("$?", "0")
    found = [f"{word}: a pattern that matches no file" for word in bare.split() if re.search(r"[][*?]", word[1:])]
    if re.search(r"(^|\s)#", bare):
        found.append("a comment, which an interactive zsh passes on")
    return found


def calls_of(command: str, shell: str, folder: Path) -> list[list[str]]:
    """Run a command in a shell, and return how it called the programs that are looked into."""
    programs = folder / "bin"
    programs.mkdir()
    for name in (*LOOKED_INTO, *OTHERS - {"[", "export"}):
        program = programs / name
        program.write_text(f"#!{sys.executable}\n{RECORD.replace('sys.argv[1:]', f'[{name!r}, *sys.argv[1:]]')}")
        program.chmod(0o755)
    calls = folder / "calls"
    calls.touch()
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "CALLS": str(calls)}
    disabled = "enable -n kill; " if shell == "bash" else "disable kill; "
    subprocess.run([shell, "-c", disabled + command], env=environment, cwd=folder, check=True, stdin=subprocess.DEVNULL)
    return [json.loads(line) for line in calls.read_text(encoding="utf-8").splitlines()]


def check_call(program: str, arguments: list[str]) -> None:
    """Check how a program was called.

    Raises:
        AssertionError, click.UsageError: Wrongly.
    """
    if program == "pyredisson":
        with cli.make_context("pyredisson", arguments, resilient_parsing=True) as context:
            name, command, rest = cli.resolve_command(context, arguments)
            assert command is not None
            command.make_context(name, rest, parent=context).close()
    elif program == "pip":
        extras = (ROOT / "pyproject.toml").read_text(encoding="utf-8").split("[dependency-groups]")[0]
        assert arguments[0] == "install"
        for requirement in arguments[1:]:
            name, _, wanted = requirement.rstrip("]").partition("[")
            for extra in wanted.split(",") if name in ("pyredisson", ".") and wanted else []:
                assert re.search(rf"^{extra} = \[", extras, re.MULTILINE), extra
    elif program == "make":
        for target in arguments:
            assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE), target


@pytest.mark.parametrize(("page", "command"), commands(), ids=ids())
def test_a_command_needs_no_more_quotes(page, command):
    assert [hazard for hazard in hazards(command) if page.name != "README.md" or "comment" not in hazard] == []


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(("page", "command"), commands(), ids=ids())
def test_a_command_calls_a_program_as_it_wants_to_be_called(page, command, shell, tmp_path):
    (tmp_path / "holder.pid").write_text("4711")
    calls = calls_of(command, shell, tmp_path)
    assert calls or command.startswith(("echo ", "export "))
    for program, *arguments in calls:
        check_call(program, arguments)


@pytest.mark.parametrize(
    "command", ["pip install pyredisson[cli]", "pyredisson doctor --url redis://h?db=1", "make demo  # a while"]
)
def test_a_command_that_zsh_refuses_is_found(command):
    assert hazards(command) != []


@pytest.mark.parametrize(
    "arguments",
    [["pyredisson", "run", "--watt", "0", "a", "b"], ["pip", "install", "pyredisson[sql]"], ["make", "lunch"]],
    ids=" ".join,
)
def test_a_wrong_call_is_found(arguments):
    with pytest.raises(Exception):  # noqa: B017  # click's, or an assertion
        check_call(arguments[0], arguments[1:])


def test_the_reference_of_the_commands_is_up_to_date():
    made = subprocess.run(
        [sys.executable, "-c", "import json, commands; print(json.dumps(commands.references()))"],
        cwd=ROOT / "docs",
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "docs"), str(ROOT)])},
        capture_output=True,
        text=True,
        check=True,
    )
    for name, text in json.loads(made.stdout).items():
        assert (GENERATED / name).read_text(encoding="utf-8") == text, "run: python docs/commands.py"


def test_no_row_of_the_reference_is_cut_or_holds_two():
    for page in GENERATED.glob("*.md"):
        for row in re.findall(r"^\|.*\|$", page.read_text(encoding="utf-8"), re.MULTILINE):
            cells = re.split(r"(?<!\\)\|", row)[1:-1]
            assert len(cells) == 2, f"{page.name}: {row}"
            assert not re.search(r" \d+ {1,2}wrong usage", cells[1]), f"{page.name}: {row}"


def test_each_command_is_in_the_reference():
    text = "".join(page.read_text(encoding="utf-8") for page in REFERENCE)
    assert sorted(COMMANDS) == sorted(re.findall(r"^## pyredisson (\w+)$", text, re.MULTILINE))
    for name in (*COMMANDS, "shared"):
        assert text.count(f"../_generated/cli/{name}.md") == 1
