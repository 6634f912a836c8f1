"""The programs that the pages of integrations show: saved in a folder, and started there."""

from __future__ import annotations

from pathlib import Path

from tests.examples import ROOT, blocks_of


def save_program(page: str, folder: Path) -> None:
    """Save the files of ``docs/integrations/{page}.md``, its blocks that begin with ``# name.py``."""
    files = [block for block in blocks_of(ROOT / "docs" / "integrations" / f"{page}.md") if block.saved_as]
    assert files
    for block in files:
        (folder / str(block.saved_as)).write_text(block.text + "\n", encoding="utf-8")
