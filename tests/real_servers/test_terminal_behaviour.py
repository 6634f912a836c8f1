"""What all commands do on a narrow terminal, without colours, in a pipe whose reader leaves, and without a server."""

from __future__ import annotations

import fcntl
import json
import os
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command_line import PYREDISSON, ROOT
from tests.servers import Server
from tests.terminals import terminal

HOLDER = "8f3a1c5e-0b7d-4e7c-9d53-2f3d5c1b7a90:7"

#: A name that sets the title of a terminal, and that is markup to rich.
NAME = "\x1b]0;owned\x07[red]order[/red]"

WIDTH = 40

#: How each command is called that says something of locks, and ends.
CALLS = {
    "ls": ["ls"],
    "show": ["show", NAME],
    "why": ["why", NAME],
    "clients": ["clients"],
    "leaks": ["leaks"],
    "top": ["top", "--rounds", "1"],
    "run": ["run", NAME, "--wait", "0", "true"],
    "unlock": ["unlock", NAME, "--holder", "77be", "--yes"],
    "doctor": ["doctor"],
}

#: Runs commands one after another, each behind a line with its name.
PROGRAM = """
import json, sys
from pyredisson._tools.cli import cli
for name, arguments in json.loads(sys.argv[1]).items():
    print(f"=== {name}", flush=True)
    try:
        cli(arguments, prog_name="pyredisson")
    except SystemExit:
        pass
print("=== end", flush=True)
"""

STYLE = re.compile(r"\x1b\[[\d;]*m")
COLOR = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-8]|4[0-8]|9\d|10[0-7])[;m\d]*")
DRAWING = re.compile(r"\x1b\[\?(?:25|1049)[hl]|\x1b\[H|\x1b\[\d*[ABCDJK]")  # of a live table


@pytest.fixture
def server(fresh_server: Callable[..., Server]) -> Server:
    """A server with locks of all sorts, all of which never expire."""
    server = fresh_server()
    with server.client() as keys:
        keys.hset(NAME, HOLDER, "1")
        keys.hset("a-rather-long-name-of-a-lock:with:many:parts:in:it", HOLDER, "1")
        keys.hset("名前", HOLDER, "1")
        for number in range(200):
            keys.hset(f"order:{number}", HOLDER, "1")
    return server


@pytest.mark.parametrize(
    "environment",
    [
        pytest.param({"TERM": "xterm-256color"}, id="colours"),
        pytest.param({"TERM": "xterm-256color", "NO_COLOR": "1"}, id="NO_COLOR"),
        pytest.param({"TERM": "dumb"}, id="dumb"),
    ],
)
def test_on_a_terminal_of_40_columns(command_line, server, environment):
    with terminal() as screen:
        fcntl.ioctl(screen.theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, WIDTH, 0, 0))
        command_line.start(
            *(sys.executable, "-c", PROGRAM, json.dumps(CALLS)),
            environment={"PYREDISSON_URL": server.url, "COLUMNS": "", **environment},
            terminal=screen.theirs,
        )
        shown = screen.shows(r"(?s).*=== end")[0]
    outputs = dict(re.findall(r"(?s)=== (\w+)\r\n(.*?)(?==== )", shown))
    assert set(outputs) == set(CALLS)
    for name, output in outputs.items():
        assert "Traceback" not in output, output
        assert output.strip(), name
        if environment["TERM"] == "dumb":
            assert "\x1b" not in output, name
        if "NO_COLOR" in environment:
            assert not COLOR.search(output), name
        text = DRAWING.sub("\n", STYLE.sub("", output))
        assert not re.search(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x9b]", text), name
        # Sentences are wrapped by the terminal; of a dumb one rich assumes 80 columns, whatever it says.
        if name not in ("doctor", "run", "unlock") and environment["TERM"] != "dumb":
            too_long = [line for line in text.replace("\r", "\n").split("\n") if len(line) > WIDTH]
            assert not too_long, name


@pytest.mark.volume
def test_a_reader_that_has_enough_gets_no_traceback(server, tmp_path, volume):
    commands = ["watch order:1", "ls", "top --json", "ls --json", "leaks", "top", "watch x --json"]
    environment = {**os.environ, "PYREDISSON_URL": server.url}
    for command in commands[: volume(2, full=7)]:
        run = " ".join([*PYREDISSON, command])
        script = f"{run} 2>{tmp_path}/err | head -n1; echo code ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", script], env=environment, cwd=ROOT, stdout=subprocess.PIPE, timeout=60)
        lines = done.stdout.decode().splitlines()
        assert len(lines) == 2, command
        assert lines[-1] in ("code 0", "code 1", "code 141"), command
        errors = (tmp_path / "err").read_text()
        assert not re.search("Traceback|Exception|BrokenPipe", errors), errors


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["ls", "permits seats"])
def test_a_full_disk_is_not_blamed_on_the_server(server, command):
    with server.client() as keys:
        keys.set("seats", 3)
    environment = {**os.environ, "PYREDISSON_URL": server.url}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PYREDISSON, *command.split()], env=environment, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, timeout=60
        )
    assert done.returncode == 1
    assert done.stderr.decode() == "pyredisson: the output could not be written: No space left on device\n"
