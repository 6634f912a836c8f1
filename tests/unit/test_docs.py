"""Every example of the documentation does what the page says. How they are run: ``tests/examples.py``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples import ROOT, blocks_of, examples_of, matches, pages, tabs_of

#: What may stand behind an opening fence. ``python`` is run; ``output`` is compared; MyST's directives are built.
KNOWN = {"python", "output", "console", "text", "lua"}

WITHIN = 60.0  # seconds for one page; the slowest takes about two


def run_in(directory: Path, page: Path, tab: str | None = None) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.examples", str(page), *([tab] if tab else [])],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=WITHIN,
    )


def page_with(directory: Path, text: str) -> Path:
    page = directory / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


def pages_by_tab() -> list[tuple[Path, str | None]]:
    return [(page, tab) for page in pages() for tab in tabs_of(page) if examples_of(page, tab)]


@pytest.mark.parametrize(
    ("page", "tab"),
    pages_by_tab(),
    ids=[f"{page.relative_to(ROOT)}{f'-{tab}' if tab else ''}" for page, tab in pages_by_tab()],
)
def test_the_examples_of_a_page_run_and_print_what_it_says(page: Path, tab: str | None, tmp_path: Path) -> None:
    done = run_in(tmp_path, page, tab)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_no_block_escapes_by_an_unknown_kind(page: Path) -> None:
    unknown = {block.info for block in blocks_of(page) if block.info not in KNOWN and not block.info.startswith("{")}
    assert not unknown


def test_the_examples_that_must_not_go_missing_are_found() -> None:
    assert len(examples_of(ROOT / "README.md")) >= 2
    assert len(examples_of(ROOT / "docs" / "tutorial.md")) >= 5
    assert sum(len(examples_of(page)) for page in pages()) >= 30


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("```python\nassert False\n```\n", "line 2, in <module>"),
        ("```python\nprint(1)\n```\n\n```output\n2\n```\n", "page.md:6: the page says"),
        ("```python\nprint(1)\nprint(2)\n```\n\n```output\n1…\n```\n", "page.md:7: the page says"),
        ("```python\nimport socket\nsocket.create_connection(('127.0.0.1', 6379))\n```\n", "wants to connect"),
        ("```python\nimport warnings\nwarnings.warn('this is old')\n```\n", "this is old"),
        ("```python\nx = 1\n", "not closed"),
        ("- item\n\n  ```python\n  x = 1\n  ```\n", "not indented"),
        ("```output\n1\n```\n", "follows no example"),
    ],
    ids=["raises", "prints", "prints more", "connects", "warns", "unclosed", "indented", "output alone"],
)
def test_an_example_that_is_wrong_fails(text: str, reason: str, tmp_path: Path) -> None:
    done = run_in(tmp_path, page_with(tmp_path, text))
    assert done.returncode != 0
    assert reason in done.stderr


def test_blocks_share_their_names_and_a_saved_file_is_run_by_a_later_one(tmp_path: Path) -> None:
    page = page_with(
        tmp_path,
        "```python\n# double.py\nimport sys\nprint(2 * int(sys.argv[1]))\n```\n\n"
        "```python\nnumber = 21\n```\n\n"
        "```python\nimport subprocess, sys\n"
        "print(subprocess.check_output([sys.executable, 'double.py', str(number)], text=True))\n```\n\n"
        "```output\n4…\n```\n",
    )
    done = run_in(tmp_path, page)
    assert done.returncode == 0, done.stderr


def test_an_ellipsis_stands_for_any_part_of_one_line() -> None:
    assert matches("a … c", "a b c\n")
    assert not matches("a … c", "a\nb c")
    assert not matches("a.c", "abc")
