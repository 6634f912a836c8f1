"""The tutorial can be pasted into an interactive interpreter, block by block, and takes at most ten minutes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import ROOT, examples_of, matches, save_or_run, seen_in, tabs_of

TUTORIAL = ROOT / "docs" / "tutorial.md"
TABS = [tab for tab in tabs_of(TUTORIAL) if tab is not None]

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
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))},
        ) as console,
    ):
        assert console.stdin is not None
        assert console.stdout is not None
        for block, output in examples_of(TUTORIAL, tab):
            if save_or_run(block):
                continue
            console.stdin.write(block.text + "\n\n!\n")  # The second newline ends an indented block.
            console.stdin.flush()
            printed = "".join(iter(console.stdout.readline, "!\n"))
            assert matches(output.text if output else "", printed), (
                printed,
                Path("stderr").read_text(encoding="utf-8"),
            )
        console.stdin.close()
    assert console.returncode == 0
    assert "Error" not in Path("stderr").read_text(encoding="utf-8")


@pytest.mark.parametrize("tab", TABS)
def test_it_takes_at_most_ten_minutes(tab: str) -> None:
    text = TUTORIAL.read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)  # Both tabs: a little too many.
    words = len(re.findall(r"\w[\w'`()._-]*", prose))
    code = sum(len(block.text.splitlines()) for block in seen_in(tab, TUTORIAL) if block.info in ("python", "console"))
    minutes = words / WORDS_PER_MINUTE + code / CODE_LINES_PER_MINUTE + WAITED
    assert minutes <= MINUTES, f"{words} words, {code} lines of code: {minutes:.1f} minutes"


def test_it_holds_first_has_both_forms_and_ends_with_a_killed_holder() -> None:
    assert TABS == ["Threads", "asyncio"]
    for tab in TABS:
        examples = [block for block, _ in examples_of(TUTORIAL, tab)]
        used = [re.search(r"\.(hold|lock|try_lock|acquire)\(", block.text) for block in examples]
        assert next(found[1] for found in used if found) == "hold"
        assert examples[-2].commands[0].startswith("kill -9")
