"""The tutorial can be pasted into an interactive interpreter, block by block, and takes at most ten minutes."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.examples import ROOT, examples_of, matches, save_or_run, seen_in, tabs_of

TUTORIAL = ROOT / "docs" / "tutorial.md"
TABS = [tab for tab in tabs_of(TUTORIAL) if tab is not None]

#: How a reader starts Python in each tab.
STARTED_BY = {"Threads": ["-i"], "asyncio": ["-m", "asyncio"]}

WITHIN = 60.0  # seconds for one block to end, on a busy machine

MINUTES = 10.0
WORDS_PER_MINUTE = 200.0
CODE_LINES_PER_MINUTE = 20.0  # to read and paste
WAITED = 0.5  # minutes: pip install, the sellers, the end of the lease

#: The console's own code: what `python -i` and `python -m asyncio` do with lines, without their prompts.
CONSOLE = """
import ast, asyncio, code, sys, types
loop = asyncio.new_event_loop()
class Console(code.InteractiveConsole):
    def runcode(self, compiled):
        try:
            awaited = types.FunctionType(compiled, self.locals)()
            if asyncio.iscoroutine(awaited):
                loop.run_until_complete(awaited)
        except BaseException:
            self.showtraceback()
console = Console({"__name__": "__main__"})
if sys.argv[1] == "asyncio":
    console.compile.compiler.flags |= ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
for line in sys.stdin:
    if line.startswith("!"):
        print(line.rstrip(), flush=True)
    else:
        console.push(line.rstrip("\\n"))
"""


#: From 3.13 on, a paste arrives between these; without them the interpreter would indent by itself.
PASTE = ("\x1b[200~", "\x1b[201~") if sys.version_info >= (3, 13) else ("", "")


def environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "TERM": "xterm" if PASTE[0] else "dumb", "PYTHONSTARTUP": ""}


ENTER = "\n\n"  # The second one ends an indented block.


@pytest.mark.parametrize("tab", TABS)
def test_a_console_prints_what_the_tutorial_says_and_nothing_else(
    tab: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with (
        open("stderr", "w", encoding="utf-8") as stderr,
        subprocess.Popen(
            [sys.executable, "-u", "-W", "error", "-c", CONSOLE, tab],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,  # tracebacks, and the log line of a lost lock
            text=True,
            env=environment(),
        ) as console,
    ):
        assert console.stdin is not None
        assert console.stdout is not None
        for block, output in examples_of(TUTORIAL, tab):
            if save_or_run(block):
                continue
            console.stdin.write(block.text + ENTER + "!\n")
            console.stdin.flush()
            printed = "".join(iter(console.stdout.readline, "!\n"))
            assert matches(output.text if output else "", printed), (
                printed,
                Path("stderr").read_text(encoding="utf-8"),
            )
        console.stdin.close()
    assert console.returncode == 0
    assert "Error" not in Path("stderr").read_text(encoding="utf-8")


class Terminal:
    """A program on a terminal of its own, as a reader has it before him."""

    def __init__(self, arguments: list[str]) -> None:
        self._process, self._terminal = pty.fork()
        if self._process == 0:
            os.execve(arguments[0], arguments, environment())

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def read_until(self, pattern: str) -> str:
        """Return what is printed up to a pattern.

        Raises:
            AssertionError: It is not printed in time.
        """
        read = ""
        end = time.monotonic() + WITHIN
        while not re.search(pattern, read):
            ready, _, _ = select.select([self._terminal], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{pattern!r} was not printed after\n{read}"
            with contextlib.suppress(OSError):
                more = os.read(self._terminal, 65_536).decode(errors="replace")
                read += more
                continue
            raise AssertionError(f"the program ended before {pattern!r}, after\n{read}")
        return read

    def close(self) -> int:
        self.type("exit()\n")
        with contextlib.suppress(OSError):  # Its end has been closed.
            while os.read(self._terminal, 65_536):
                pass
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1])


@pytest.fixture
def interpreter(tab: str) -> Iterator[Terminal]:
    terminal = Terminal([sys.executable, "-q", *STARTED_BY[tab]])
    terminal.read_until(r">>> ")
    yield terminal
    assert terminal.close() == 0


@pytest.mark.parametrize("tab", TABS)
def test_the_blocks_can_be_pasted_into_an_interpreter_on_a_terminal(
    tab: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interpreter: Terminal
) -> None:
    monkeypatch.chdir(tmp_path)
    interpreter.type(f"import os; os.chdir({str(tmp_path)!r})\n")
    for number, (block, output) in enumerate(examples_of(TUTORIAL, tab)):
        if save_or_run(block):
            continue
        interpreter.type(block.text.join(PASTE) + ENTER + f"print('block', {number}, 'has', 'ended')\n")
        printed = interpreter.read_until(rf"block {number} has ended").replace("\r\n", "\n")
        assert "Error:" not in printed
        assert "Traceback" not in printed
        for line in output.text.splitlines() if output else []:
            assert re.search(re.escape(line).replace("…", ".*"), printed), printed


@pytest.mark.parametrize("tab", TABS)
def test_it_takes_at_most_ten_minutes(tab: str) -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)  # Both tabs: a little too many.
    words = len(re.findall(r"\w[\w'`()._-]*", prose))
    code = sum(len(block.text.splitlines()) for block in seen_in(tab, TUTORIAL) if block.info in ("python", "console"))
    minutes = words / WORDS_PER_MINUTE + code / CODE_LINES_PER_MINUTE + WAITED
    assert minutes <= MINUTES, f"{words} words, {code} lines of code: {minutes:.1f} minutes"


def test_it_holds_first_has_both_forms_and_ends_with_a_killed_holder() -> None:
    assert list(STARTED_BY) == TABS
    for tab in TABS:
        examples = [block for block, _ in examples_of(TUTORIAL, tab)]
        used = [re.search(r"\.(hold|lock|try_lock|acquire)\(", block.text) for block in examples]
        assert next(found[1] for found in used if found) == "hold"
        assert examples[-2].commands[0].startswith("kill -9")
