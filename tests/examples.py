"""The examples of the documentation, and how one page of them is run.

The rules this file keeps:

* The blocks of a page run as they stand, from top to bottom, in one namespace, as a reader would type them.
* An ``output`` block right after a ``python`` block is what that one prints; ``…`` stands for any part of a line.
* A ``python`` block whose first line is ``# name.py`` is saved under that name; a later block runs it.
* Of a page with tabs, one tab is run at a time, with what stands outside of tabs. ``await`` works at the top level, as
  in ``python -m asyncio``.
* A ``console`` block of ``kill`` or ``python -m pytest`` is run by bash.
* Examples talk to servers that they start themselves (Unix sockets), never to one that happens to run here.

``python -m tests.examples PAGE [TAB]`` runs one page in the current directory.
"""

import ast
import asyncio
import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

_FENCE = re.compile(r"^(?P<indent>\s*)(?P<ticks>`{3,}|~{3,})(?P<info>.*)$")
_SAVED = re.compile(r"^# (\w+\.py)$")
_RUN = re.compile(r"kill |python -m pytest ")
_TAB = re.compile(r"^(?P<colons>:{3,})\{tab-item\} *(?P<name>.+)$")


@dataclass(frozen=True)
class Block:
    """A fenced block: what stands behind its opening fence, the line its content begins in, that content, its tab."""

    info: str
    line: int
    text: str
    tab: str | None = None

    @property
    def saved_as(self) -> str | None:
        """The name of the file that the block is, if it is one."""
        named = _SAVED.match(self.text.split("\n", 1)[0])
        return named[1] if named else None

    @property
    def commands(self) -> list[str]:
        """The commands of a ``console`` block, without their prompts; a backslash continues a line."""
        joined = self.text.replace("\\\n", "")
        return [line[2:] for line in joined.splitlines() if line.startswith("$ ")]


def pages() -> list[Path]:
    """Every page that a reader sees."""
    docs = ROOT / "docs"
    found = [page for page in docs.rglob("*.md") if "_build" not in page.relative_to(docs).parts]
    return [ROOT / "README.md", *sorted(found)]


def reference() -> str:
    """The text of all pages of the reference; a class that is shown in both forms is named in each."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "reference").glob("*.md")))
    forms = "\n".join(rf".. autoclass:: {package}.\1" for package in ("pyredisson", "pyredisson.asyncio"))
    return re.sub(r"^\.\. both-forms:: (\w+)$", forms, text, flags=re.MULTILINE)


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page.

    Raises:
        ValueError: A fence that is indented, unclosed or not made of backticks: its block could escape unnoticed.
    """
    blocks: list[Block] = []
    opened: tuple[str, str, int] | None = None
    content: list[str] = []
    tab: tuple[str, str] | None = None
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None:
            if fence is None:
                if named := _TAB.match(line):
                    tab = named["colons"], named["name"].strip()
                elif tab is not None and line.rstrip() == tab[0]:
                    tab = None
                continue
            if fence["indent"] or fence["ticks"].startswith("~"):
                raise ValueError(f"{page}:{number}: fences are of backticks, and not indented")
            opened, content = (fence["ticks"], fence["info"], number + 1), []
        elif fence is not None and not fence["info"] and fence["ticks"] == opened[0] and not fence["indent"]:
            blocks.append(Block(opened[1], opened[2], "\n".join(content), tab[1] if tab else None))
            opened = None
        else:
            content.append(line)
    if opened is not None:
        raise ValueError(f"{page}:{opened[2]}: this fence is not closed")
    return blocks


def tabs_of(page: Path) -> list[str | None]:
    """The tabs of a page in which there are blocks; ``[None]`` for a page without tabs."""
    return list(dict.fromkeys(block.tab for block in blocks_of(page) if block.tab is not None)) or [None]


def seen_in(tab: str | None, page: Path) -> list[Block]:
    """The blocks that a reader sees who has chosen a tab."""
    return [block for block in blocks_of(page) if block.tab in (None, tab)]


def examples_of(page: Path, tab: str | None = None) -> list[tuple[Block, Block | None]]:
    """The examples of a page in one of its tabs (the first), each with the output promised right below it, if any.

    Raises:
        ValueError: An output that follows no example.
    """
    examples: list[tuple[Block, Block | None]] = []
    before: Block | None = None
    for block in seen_in(tab or tabs_of(page)[0], page):
        if block.info == "python" or (block.commands and all(_RUN.match(command) for command in block.commands)):
            examples.append((block, None))
        elif block.info == "output":
            if before is None or before.info != "python":
                raise ValueError(f"{page}:{block.line}: this output follows no example")
            examples[-1] = (examples[-1][0], block)
        before = block
    return examples


def matches(promised: str, printed: str) -> bool:
    """Whether an example printed what was promised, ``…`` standing for any part of a line."""
    pattern = re.escape(promised.strip()).replace("…", ".*")
    return re.fullmatch(pattern, printed.strip()) is not None


def run_page(page: Path, tab: str | None = None) -> int:
    """Run the examples of a page, in one of its tabs, and return how many there were.

    Raises:
        Exception: What an example raised.
        AssertionError: An example printed something else than the page says.
    """
    sys.addaudithook(_stay_at_home)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    examples = examples_of(page, tab)
    with contextlib.closing(asyncio.new_event_loop()) as loop:
        for block, output in examples:
            printed = run_block(block, page, namespace, loop)
            if output is not None and not matches(output.text, printed):
                raise AssertionError(
                    f"{page}:{output.line}: the page says\n{output.text}\nand the example printed\n{printed}"
                )
    return len(examples)


def run_block(block: Block, page: Path, namespace: dict[str, Any], loop: asyncio.AbstractEventLoop) -> str:
    """Run one example, and return what it printed."""
    if save_or_run(block):
        return ""
    # As many empty lines before it as in the page, so that a traceback names the page's own line.
    text = "\n" * (block.line - 1) + block.text
    code = compile(text, str(page), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        awaited = eval(code, namespace)
        if awaited is not None:
            loop.run_until_complete(awaited)
    return printed.getvalue()


def save_or_run(block: Block) -> bool:
    """Do what is not for this interpreter: save a file, run commands. Returns whether the block was one of these.

    Raises:
        AssertionError: A command failed.
    """
    if block.saved_as:
        Path(block.saved_as).write_text(block.text + "\n", encoding="utf-8")
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)])
    for command in block.commands:
        done = subprocess.run(["bash", "-c", command], env={**os.environ, "PATH": path}, stdout=subprocess.PIPE)
        assert done.returncode == 0, (command, done.stdout)
    return bool(block.saved_as or block.commands)


def _stay_at_home(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        raise AssertionError(
            f"an example wants to connect to {arguments[1]}: a private server listens on a socket file"
        )


if __name__ == "__main__":
    run_page(Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else None)
