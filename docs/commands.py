"""Write the reference of the command line from click's commands, and pictures of what they print.

``python docs/commands.py`` writes ``docs/_generated/cli/*.md``; with ``--pictures`` also ``*.svg``, from commands that
it runs on private servers. ``tests/unit/test_commands.py`` says when the texts are stale.
"""

from __future__ import annotations

import argparse
import inspect
import io
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from socket import gethostname

import redis
from click import Command, Context, Option

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from pyredisson import ClientClosedError, Config, Redisson  # noqa: E402
from pyredisson._tools.cli import cli  # noqa: E402

FOLDER = HERE / "_generated" / "cli"
COLUMNS = 62  # A picture of more is too small on a phone.
WIDE = 82  # A table is worth it.

#: Clients that say soon what they hold and wait for.
TALKATIVE = Config(client_name="web", presence_after=0.5, lock_watchdog_timeout=6)

OTHER_PROGRAM = """
import sys
from pyredisson import Config, Redisson
config = Config(client_name="worker", presence_after=0.5, lock_watchdog_timeout=6)
client = Redisson.from_url(sys.argv[1], config=config)
client.get_lock("order:18").lock()
print("ready", flush=True)
sys.stdin.readline()
client.get_lock("order:17").lock()
"""

#: An exit code and its meaning, which may go on in the next lines.
CODES = re.compile(r"^ *(\d+)  (.*(?:\n(?! *\d+  ) +.*)*)", re.MULTILINE)

#: A row of a table: an option or an exit code, and its meaning.
ROW = re.compile(r"^\| (?:`-|\d).*\n", re.MULTILINE)
OPTIONS = "| option | |\n| --- | --- |\n"
SHARED = "shared.md"

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
    rows = [f"| `{escaped(names)}` | {cell(text)} |" for names, text in filter(None, records)]
    return "\n\n".join([*parts, OPTIONS + "\n".join(rows)]) + "\n"


def exit_codes(text: str) -> str:
    """A list of exit codes as a table: a terminal's columns do not fit on a phone."""
    heading = text[: CODES.search(text).start()]  # type: ignore[union-attr]
    rows = [f"| {number} | {escaped(prose(meaning))} |" for number, meaning in CODES.findall(text)]
    return "\n".join([prose(heading), "", "| exit code | |", "| ---: | --- |", *rows])


def prose(text: str) -> str:
    """A text as one line, with options and variables set as code."""
    return re.sub(r"(?<![\w`-])(--[a-z][a-z-]*|[A-Z]+_[A-Z_]+)", r"`\1`", " ".join(text.split()))


def cell(text: str) -> str:
    """The help of an option, with its defaults after it."""
    text, _, extra = " ".join(text.split()).partition(" [")
    return escaped(prose(text) + (f" (`{extra.rstrip(']').replace('] [', '; ')}`)" if extra else ""))


def escaped(text: str) -> str:
    """A text for a cell of a table, where a bar would end the cell, even in code."""
    return text.replace("|", r"\|")


def references() -> dict[str, str]:
    """The reference of each command, and of what most of them share, by the name of its file."""
    context = Context(cli)
    commands = {name: cli.get_command(context, name) for name in sorted(cli.list_commands(context))}
    texts = {f"{name}.md": reference_of(name, command) for name, command in commands.items() if command is not None}
    counts = Counter(row for text in texts.values() for row in ROW.findall(text))
    shared = [row for row, count in counts.items() if count > len(texts) / 2]
    options = "".join(row for row in shared if row.startswith("| `"))
    codes = "".join(sorted(row for row in shared if not row.startswith("| `")))
    shortened = {name: without(shared, text) for name, text in texts.items()}
    return {**shortened, SHARED: f"{OPTIONS}{options}\n| exit code | |\n| ---: | --- |\n{codes}"}


def without(shared: list[str], text: str) -> str:
    """The reference of a command with a link in place of the rows that most commands share, if it has them all."""
    if not all(row in text for row in shared):
        return text
    for row in shared:
        text = text.replace(row, "")
    text = text.removesuffix(OPTIONS).rstrip()
    return f"{text}\n\nAlso: {{ref}}`options and exit codes of most commands <most-commands>`.\n"


def picture(session: list[tuple[str, str]], path: Path, title: str, width: int = COLUMNS) -> None:
    """Draw a terminal with commands and their output."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=width, file=open(os.devnull, "w"), force_terminal=True)  # noqa: SIM115
    for command, output in session:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(output))
    svg = FOREIGN_FONT.sub("", console.export_svg(title=title, unique_id=path.stem))
    path.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n", encoding="utf-8")


def session_of(commands: list[str], url: str, shown: dict[str, str], width: int = COLUMNS) -> list[tuple[str, str]]:
    """Run commands in the shell, and return each with what it printed, then the exit code of the last one.

    Args:
        commands: The commands.
        url: The server.
        shown: What to show instead of names of this machine.
        width: Of the terminal, in columns.
    """
    environment = {
        **os.environ,
        "PYREDISSON_URL": url,
        "FORCE_COLOR": "1",
        "COLUMNS": str(width),
        "TERM": "xterm-256color",
    }
    environment["PYTHONPATH"] = str(HERE.parent)
    session, code = [], 0
    for command in commands:
        run = command.replace("pyredisson", f"{sys.executable} -m pyredisson", 1)
        done = subprocess.run(["sh", "-c", run], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        session.append((command, replaced(done.stdout.decode(), shown).rstrip("\n") + "\n"))
        code = done.returncode
    return [*session, ("echo $?", str(code))]


def replaced(text: str, shown: dict[str, str]) -> str:
    """Replace names of this machine in what a command has printed."""
    for hidden, instead in shown.items():
        text = text.replace(hidden, instead)
    return text


def pictures() -> None:
    """Draw what the commands say of a private server with two flaws, and with two programs that wait for each other."""
    with Redisson.embedded(config=TALKATIVE) as client, tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("report.sh").touch(mode=0o755)
        url = str(client.url)
        path = url.removeprefix("unix://").split("?")[0]
        shown = {path: "/run/redis.sock", gethostname(): "web-3"}
        with redis.Redis(unix_socket_path=path) as server:
            server.config_set("maxmemory-policy", "allkeys-lru")
            server.hset("stale-lock", f"{client.id}:7", "1")
            picture(session_of(["pyredisson doctor"], url, shown), FOLDER / "doctor.svg", "doctor")
            server.delete("stale-lock")
        with waiting_for_each_other(client):
            for name, command in {
                "run": "pyredisson run order:17 --wait 0 ./report.sh",
                "ls": "pyredisson ls",
                "show": "pyredisson show order:17",
                "why": "pyredisson why order:17",
            }.items():
                width = WIDE if name in ("ls", "why") else COLUMNS
                picture(session_of([command], url, shown, width), FOLDER / f"{name}.svg", name, width)
            draw_top(url, shown)


@contextmanager
def waiting_for_each_other(client: Redisson) -> Iterator[None]:
    """Let two programs hold a lock each and wait for that of the other, and a third lock be busy."""
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER_PROGRAM, str(client.url)],
        env={**os.environ, "PYTHONPATH": str(HERE.parent)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    ended = threading.Event()

    def work() -> None:
        while not ended.wait(0.02):
            with client.get_lock("cache:warm").hold():
                time.sleep(0.005)

    def hold_and_wait() -> None:
        client.get_lock("order:17").lock()
        held.set()
        with suppress(ClientClosedError):
            client.get_lock("order:18").lock()

    held = threading.Event()
    waiting = threading.Thread(target=hold_and_wait, name="checkout", daemon=True)
    working = threading.Thread(target=work)
    try:
        assert other.stdout is not None
        assert other.stdin is not None
        other.stdout.readline()
        waiting.start()
        held.wait()
        other.stdin.write(b"go on\n")
        other.stdin.flush()
        working.start()
        time.sleep(8)  # Until both report their waits, and these look like waits.
        yield
    finally:
        ended.set()
        working.join()
        other.kill()
        other.wait()


def draw_top(url: str, shown: dict[str, str]) -> None:
    """Draw one round of ``top``."""
    from rich.console import Console

    from pyredisson._tools.top import Sampler, screen_of
    from pyredisson.inspection import Inspector

    console = Console(width=WIDE, height=12, file=io.StringIO(), force_terminal=True, color_system="standard")
    with Inspector(url) as inspector, closing(Sampler(inspector)) as sampler:
        for _ in range(3):
            time.sleep(1)
            seen = sampler.round()
    console.print(screen_of(seen, console))
    output = replaced(console.file.getvalue(), shown)  # type: ignore[attr-defined]
    picture([("pyredisson top", output)], FOLDER / "top.svg", "top", WIDE)


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
