"""Write the reference of the command line from click's commands, and pictures of what they print.

``python docs/commands.py`` writes ``docs/_generated/cli/*.md``; with ``--pictures`` also ``*.svg``, from commands that
it runs on private servers. ``tests/unit/test_commands.py`` says when the texts are stale.
"""

from __future__ import annotations

import argparse
import inspect
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import redis
from click import Command, Context, Option

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from pyredisson import Redisson  # noqa: E402
from pyredisson.tools.cli import cli  # noqa: E402

FOLDER = HERE / "_generated" / "cli"
COLUMNS = 62  # A picture of more is too small on a phone.

#: An exit code and its meaning, which may go on in the next lines.
CODES = re.compile(r"^ *(\d+)  (.*(?:\n +(?!\d+  ).*)*)", re.MULTILINE)

#: rich names fonts of another site, which a page of ours does not load.
FOREIGN_FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


def reference_of(name: str, command: Command) -> str:
    """The reference of one command as Markdown: its usage, what it does, its options, its exit codes."""
    parent = Context(cli, info_name="pyredisson", **cli.context_settings)
    context = Context(command, parent=parent, info_name=name)
    usage = " ".join(command.collect_usage_pieces(context))
    parts = [f"```text\npyredisson {name} {usage}\n```"]
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    for paragraph in paragraphs:
        text = inspect.cleandoc(paragraph.removeprefix("\b\n"))
        if CODES.search(text):
            parts.append(exit_codes(text))
        elif paragraph.startswith("\b\n"):
            parts.append(f"```text\n{text}\n```")
        else:
            parts.append(prose(text))
    options = [each for each in command.get_params(context) if isinstance(each, Option)]
    records = [each.get_help_record(context) for each in options]
    rows = [f"| `{names}` | {cell(text)} |" for names, text in filter(None, records)]
    parts.append("\n".join(["| option | |", "| --- | --- |", *rows]))
    return "\n\n".join(parts) + "\n"


def exit_codes(text: str) -> str:
    """A list of exit codes as a table: a terminal's columns do not fit on a phone."""
    heading = text[: CODES.search(text).start()]  # type: ignore[union-attr]
    rows = [f"| {number} | {prose(meaning)} |" for number, meaning in CODES.findall(text)]
    return "\n".join([prose(heading), "", "| exit code | |", "| ---: | --- |", *rows])


def prose(text: str) -> str:
    """A text as one line, with options and variables set as code."""
    return re.sub(r"(?<![\w`-])(--[a-z][a-z-]*|[A-Z]+_[A-Z_]+)", r"`\1`", " ".join(text.split()))


def cell(text: str) -> str:
    """The help of an option, with its defaults after it."""
    text, _, extra = " ".join(text.split()).partition(" [")
    return prose(text) + (f" (`{extra.rstrip(']').replace('] [', '; ')}`)" if extra else "")


def references() -> dict[str, str]:
    """The reference of each command, by the name of its file."""
    context = Context(cli)
    commands = {name: cli.get_command(context, name) for name in sorted(cli.list_commands(context))}
    return {f"{name}.md": reference_of(name, command) for name, command in commands.items() if command is not None}


def picture(session: list[tuple[str, str]], path: Path, title: str) -> None:
    """Draw a terminal with commands and their output."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=COLUMNS, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    for command, output in session:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(output))
    svg = FOREIGN_FONT.sub("", console.export_svg(title=title, unique_id=path.stem))
    path.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")


def session_of(commands: list[str], url: str, hidden: str, shown: str) -> list[tuple[str, str]]:
    """Run commands in the shell, and return each with what it printed, then the exit code of the last one."""
    environment = {
        **os.environ,
        "PYREDISSON_URL": url,
        "FORCE_COLOR": "1",
        "COLUMNS": str(COLUMNS),
        "TERM": "xterm-256color",
    }
    environment["PYTHONPATH"] = str(HERE.parent)
    session, code = [], 0
    for command in commands:
        run = command.replace("pyredisson", f"{sys.executable} -m pyredisson", 1)
        done = subprocess.run(["sh", "-c", run], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        session.append((command, done.stdout.decode().replace(hidden, shown).rstrip("\n") + "\n"))
        code = done.returncode
    return [*session, ("echo $?", str(code))]


def pictures() -> None:
    """Draw what ``doctor`` says of a server with two flaws, and what ``run`` says of a lock that is held."""
    with Redisson.embedded() as client, tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("report.sh").touch(mode=0o755)
        path = str(client.url).removeprefix("unix://").split("?")[0]
        with redis.Redis(unix_socket_path=path) as server:
            server.config_set("maxmemory-policy", "allkeys-lru")
            server.hset("stale-lock", f"{client.id}:7", "1")
        picture(
            session_of(["pyredisson doctor"], str(client.url), path, "/run/redis.sock"), FOLDER / "doctor.svg", "doctor"
        )
        command = "pyredisson run nightly-report --wait 0 -- ./report.sh"
        with client.get_lock("nightly-report").hold():
            picture(session_of([command], str(client.url), path, "/run/redis.sock"), FOLDER / "run.svg", "run")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", action="store_true", help="draw the pictures, too")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in references().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    if parser.parse_args().pictures:
        pictures()


if __name__ == "__main__":
    main()
