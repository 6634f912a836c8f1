"""The examples of the documentation, and how one page of them is run.

The rules this file keeps:

* The blocks of a page run as they stand, from top to bottom, in one namespace, as a reader would type them.
* An ``output`` block right after a ``python`` block is what that one prints; ``…`` stands for any part of a line.
* A ``python`` block whose first line is ``# name.py`` is saved under that name; a later block runs it.
* Examples talk to servers that they start themselves (Unix sockets), never to one that happens to run here.

``python -m tests.examples PAGE`` runs one page in the current directory.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

_FENCE = re.compile(r"^(?P<indent>\s*)(?P<ticks>`{3,}|~{3,})(?P<info>.*)$")
_SAVED = re.compile(r"^# (\w+\.py)$")


@dataclass(frozen=True)
class Block:
    """A fenced block: what stands behind its opening fence, the line its content begins in, and that content."""

    info: str
    line: int
    text: str


def pages() -> list[Path]:
    """Every page that a reader sees."""
    docs = ROOT / "docs"
    found = [page for page in docs.rglob("*.md") if "_build" not in page.relative_to(docs).parts]
    return [ROOT / "README.md", *sorted(found)]


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page.

    Raises:
        ValueError: A fence that is indented, unclosed or not made of backticks: its block could escape unnoticed.
    """
    blocks: list[Block] = []
    opened: tuple[str, str, int] | None = None
    content: list[str] = []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        fence = _FENCE.match(line)
        if opened is None:
            if fence is None:
                continue
            if fence["indent"] or fence["ticks"].startswith("~"):
                raise ValueError(f"{page}:{number}: fences are of backticks, and not indented")
            opened, content = (fence["ticks"], fence["info"], number + 1), []
        elif fence is not None and not fence["info"] and fence["ticks"] == opened[0] and not fence["indent"]:
            blocks.append(Block(opened[1], opened[2], "\n".join(content)))
            opened = None
        else:
            content.append(line)
    if opened is not None:
        raise ValueError(f"{page}:{opened[2]}: this fence is not closed")
    return blocks


def examples_of(page: Path) -> list[tuple[Block, Block | None]]:
    """The examples of a page, each with the output that is promised right below it, if any.

    Raises:
        ValueError: An output that follows no example.
    """
    examples: list[tuple[Block, Block | None]] = []
    before: Block | None = None
    for block in blocks_of(page):
        if block.info == "python":
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


def run_page(page: Path) -> int:
    """Run the examples of a page and return how many there were.

    Raises:
        Exception: What an example raised.
        AssertionError: An example printed something else than the page says.
    """
    sys.addaudithook(_stay_at_home)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    examples = examples_of(page)
    for block, output in examples:
        saved = _SAVED.match(block.text.split("\n", 1)[0])
        if saved:
            Path(saved[1]).write_text(block.text + "\n", encoding="utf-8")
            continue
        # As many empty lines before it as in the page, so that a traceback names the page's own line.
        code = compile("\n" * (block.line - 1) + block.text, str(page), "exec", dont_inherit=True)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        if output is not None and not matches(output.text, printed.getvalue()):
            raise AssertionError(
                f"{page}:{output.line}: the page says\n{output.text}\nand the example printed\n{printed.getvalue()}"
            )
    return len(examples)


def _stay_at_home(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        raise AssertionError(
            f"an example wants to connect to {arguments[1]}: a private server listens on a socket file"
        )


if __name__ == "__main__":
    run_page(Path(sys.argv[1]))
