"""Files and functions stay small enough to be read at one sitting."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.examples import ROOT

PACKAGE = ROOT / "pyredisson"
SOURCES = sorted(PACKAGE.rglob("*.py"))

FUNCTION = 50  # lines, docstring excluded
FILE = 1000


def relative(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Its lines, from its head to its end, without its docstring."""
    lines = (function.end_lineno or 0) - function.lineno + 1
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        lines -= (first.end_lineno or 0) - first.lineno + 1
    return lines


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_file_is_within_its_limit(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= FILE


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_a_function_is_within_its_limit(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            name = f"{relative(path)}:{node.name}"
            assert length(node) <= FUNCTION, name
