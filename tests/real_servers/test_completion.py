"""Completion in real shells, with names from a real server."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from click.shell_completion import get_completion_class

from pyredisson._tools.cli import SHELLS, cli, completion_script, register
from pyredisson._tools.common import COMPLETE_WITHIN
from tests.command_line import ROOT
from tests.servers import Server
from tests.terminals import terminal
from tests.waiting import until

HOLDER = "8f3a1c5e-0b7d-4e7c-9d53-2f3d5c1b7a90:7"


@pytest.fixture
def server(fresh_server: Callable[..., Server]) -> Server:
    """A server with locks, and with other keys."""
    server = fresh_server()
    with server.client() as keys:
        for name in ("order:17", "other", "other two", "x'; touch \x1b", "x;$(touch owned)*", "a<b\"c'd$e"):
            keys.hset(name, HOLDER, "1")
        keys.hset("rw", mapping={"mode": "write", f"{HOLDER}:write": "1"})
        keys.hset("order:profile", "name", "x")
        keys.set("order:text", "x")
        keys.hset("redisson_lock_timeout:{order:17}", HOLDER, "1")
    return server


def offered(line: str, shell: str = "bash") -> list[str]:
    """What is offered at the end of a line."""
    register()
    kind = get_completion_class(shell)
    assert kind is not None
    words = line.split(" ")
    return [item.value for item in kind(cli, {}, "pyredisson", "").get_completions(words[1:-1], words[-1])]


def shell_or_skip(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        if os.environ.get("PYREDISSON_REQUIRE_ALL") == "1":
            pytest.fail(f"PYREDISSON_REQUIRE_ALL=1: {name} is not installed", pytrace=False)
        pytest.skip(f"{name} is not installed")
    return path


def environment_of(folder: Path, url: str) -> dict[str, str]:
    """The environment of a shell that finds ``pyredisson``."""
    (folder / "bin").mkdir()
    program = folder / "bin" / "pyredisson"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m pyredisson "$@"\n')
    program.chmod(0o755)
    path = f"{folder}/bin:{os.environ['PATH']}"
    return {
        "PATH": path,
        "PYREDISSON_URL": url,
        "PS1": "$ ",
        "ZDOTDIR": str(folder),
        "TERM": "dumb",
        "HOME": str(folder),
    }


def test_names_of_locks_are_offered_and_no_others(server, monkeypatch):
    monkeypatch.setenv("PYREDISSON_URL", server.url)
    until(lambda: offered("pyredisson run o") == ["order:17", "other", "other two"], 20)
    until(lambda: offered("pyredisson run rw") == ["rw"], 20)
    assert offered("pyredisson run *") == []
    assert offered("pyredisson run red") == []
    until(lambda: offered("pyredisson run x") == ["x;$(touch owned)*"], 20)  # Not the one that moves the terminal.


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "nonsense", "redis+cluster://127.0.0.1:1"])
def test_without_a_server_none_are_offered(url, capfd):
    assert offered(f"pyredisson run --url {url} o") == []
    assert capfd.readouterr() == ("", "")


def test_a_server_that_hangs_costs_half_a_second(own):
    own.pause()
    begun = time.monotonic()
    assert offered(f"pyredisson run --url {own.url} o") == []
    assert COMPLETE_WITHIN * 0.8 <= time.monotonic() - begun < COMPLETE_WITHIN * 4


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_is_printed_for_each_shell(shell):
    script = completion_script(shell, cli)
    assert f"_PYREDISSON_COMPLETE={shell}_complete" in script
    subprocess.run([shell_or_skip(shell), "-n"], input=script, text=True, check=True, timeout=20)


def test_bash_inserts_names_that_it_reads_back(server, tmp_path):
    bash = shell_or_skip("bash")
    inserted = {
        "order:1": "17",  # bash takes what is before the colon for another word.
        "orde": "order:17",
        "other\\ ": "other\\ two",
        "x": r"x\;\$\(touch\ owned\)\*",
        "a": r"a\<b\"c\'d\$e",
        '"a<': r"a<b\"c'd\$e",
        "'a<": r"""a<b"c'\''d$e""",
        '"order:1': "order:17",
    }
    script = """
        eval "$(pyredisson completion bash)"
        COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:'
        for typed; do
            COMP_LINE="pyredisson run $typed" COMP_POINT=500 COMP_WORDS=(pyredisson run "$typed") COMP_CWORD=2
            _pyredisson_completion pyredisson
            printf '%s\\n' "${COMPREPLY[@]}"
        done
    """
    environment = {**os.environ, **environment_of(tmp_path, server.url)}

    def completed():
        done = subprocess.run(
            [bash, "-c", script, "bash", *inserted], env=environment, cwd=tmp_path, stdout=subprocess.PIPE, timeout=60
        )
        return done.stdout.decode().splitlines() == list(inserted.values())

    # A busy machine may have no name within the half second.
    until(completed, 30, what="all names are completed")
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    ("shell", "start"), [("bash", ["--norc", "--noprofile", "-i"]), ("zsh", ["-f", "-i"])], ids=["bash", "zsh"]
)
def test_tab_completes_a_name(command_line, server, tmp_path, shell, start):
    path = shell_or_skip(shell)
    environment = environment_of(tmp_path, server.url)
    with terminal() as screen:
        command_line.start(path, *start, environment=environment, terminal=screen.theirs)
        prepare = "autoload -U compinit; compinit -u -D; " if shell == "zsh" else ""
        screen.type(f'{prepare}eval "$(pyredisson completion {shell})"; echo rea""dy\n')
        screen.shows("ready\r?\n")
        screen.type("pyredisson run order:1")

        def completed():
            screen.type("\t")
            with contextlib.suppress(AssertionError):
                screen.shows("order:17 ", within=4)
                return True
            return False  # A busy machine may have no name within the half second.

        until(completed, 30, what="the name is completed")
        screen.type("--wait 0 true\n")
        screen.shows("the lock 'order:17' is held by")
        screen.type("exit\n")
